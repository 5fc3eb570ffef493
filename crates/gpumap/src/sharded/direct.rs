//! [`Direct`]: ranks that copy from each other's memory.
//!
//! For ranks on CPU executors, or on one and the same GPU: tests of everything above the transport need
//! neither NCCL nor several GPUs. The rank that comes last copies for all; see [`Hub`].

use std::sync::Arc;

use super::error::GroupError;
use super::hub::{End, Hub};
use super::transport::{Parcel, Plan, Transport, Window};
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::stream::Stream;

/// The link of a rank that reaches the others' memory.
#[derive(Debug)]
pub(super) struct Direct {
    pub(super) hub: Arc<Hub>,
    pub(super) rank: usize,
    pub(super) ranks: usize,
}

/// What a rank brings to an exchange.
struct Exchange {
    stream: Stream,
    plan: Plan,
    parcels: Vec<Parcel>,
}

// SAFETY: pointers for the rank that copies, which does while this one waits.
unsafe impl Send for Exchange {}

/// What a rank brings to a sum.
struct Words {
    stream: Stream,
    at: *mut u64,
    len: usize,
}

// SAFETY: as above.
unsafe impl Send for Words {}

impl Transport for Direct {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.ranks
    }

    fn gather(&mut self, mine: &[u64]) -> Result<Vec<u64>> {
        gather(&self.hub, self.rank, mine)
    }

    unsafe fn exchange(&mut self, stream: &Stream, plan: &Plan, parcels: &[Parcel]) -> Result<()> {
        stream.synchronize()?;
        let post = Exchange {
            stream: stream.clone(),
            plan: plan.clone(),
            parcels: parcels.to_vec(),
        };
        // SAFETY: every rank's parcels are as this function's contract says, they fit together, and all
        // ranks wait.
        self.all(post, fit, |posts| unsafe { copy_all(posts) })
    }

    unsafe fn sum(&mut self, stream: &Stream, words: *mut u64, len: usize) -> Result<()> {
        stream.synchronize()?;
        let post = Words {
            stream: stream.clone(),
            at: words,
            len,
        };
        let alike = |posts: &[Words]| posts.iter().all(|post| post.len == len);
        // SAFETY: every rank's words are as this function's contract says, they are as many, and all ranks
        // wait.
        self.all(post, alike, |posts| unsafe { sum_all(posts) })
    }

    fn wait(&mut self, stream: &Stream) -> Result<()> {
        stream.synchronize()
    }

    fn window(&mut self, mine: Arc<Buffer<u64>>) -> Result<Window> {
        window(&self.hub, self.rank, mine)
    }

    fn abort(&mut self) {
        self.hub.end(End::Aborted(self.rank));
    }
}

impl Direct {
    /// A meeting whose work is done if all that is brought fits together, and may fail: then with its error on
    /// the rank that did it, and with [`GroupError::Failed`] on the others.
    fn all<P: Send + 'static>(
        &self,
        post: P,
        fit: impl FnOnce(&[P]) -> bool,
        work: impl FnOnce(&[P]) -> Result<()>,
    ) -> Result<()> {
        let mut failure = None;
        let well = self.hub.meet(self.rank, post, |posts| {
            fit(&posts).then(|| match work(&posts) {
                Ok(()) => None,
                Err(error) => {
                    failure = Some(error);
                    Some(self.rank)
                }
            })
        })?;
        match (failure, *well) {
            (Some(error), _) => Err(error),
            (None, Some(rank)) => Err(Error::Group(GroupError::Failed { rank })),
            (None, None) => Ok(()),
        }
    }
}

/// What each rank of a hub brings, if all bring as many words.
pub(super) fn gather(hub: &Hub, rank: usize, mine: &[u64]) -> Result<Vec<u64>> {
    let all = hub.meet(rank, mine.to_vec(), |posts: Vec<Vec<u64>>| {
        let alike = posts.iter().all(|post| post.len() == mine.len());
        alike.then(|| posts.concat())
    })?;
    Ok(all.to_vec())
}

/// The memory of every rank of a hub.
pub(super) fn window(hub: &Hub, rank: usize, mine: Arc<Buffer<u64>>) -> Result<Window> {
    let parts = hub.meet(rank, mine, |posts: Vec<Arc<Buffer<u64>>>| Some(posts))?;
    Ok(Window {
        parts: parts.to_vec(),
    })
}

/// Whether each rank sends what the others expect of it.
fn fit(posts: &[Exchange]) -> bool {
    let planned = |len: usize| len == posts.len();
    let whole =
        |post: &Exchange| planned(post.plan.sends.len()) && planned(post.plan.receives.len());
    let bytes = |post: &Exchange| -> Vec<usize> {
        post.parcels.iter().map(|parcel| parcel.bytes).collect()
    };
    let sent = |(from, source): (usize, &Exchange)| {
        let len = |to: usize| source.plan.sends[to].len();
        let mut targets = posts.iter().enumerate();
        targets.all(|(to, target)| len(to) == target.plan.receives[from].len())
    };
    posts.iter().all(whole)
        && posts.iter().all(|post| bytes(post) == bytes(&posts[0]))
        && posts.iter().enumerate().all(sent)
}

/// # Safety
/// Every post's parcels lead to memory that has the elements of its plan, and that its rank lends. They
/// [fit] together.
unsafe fn copy_all(posts: &[Exchange]) -> Result<()> {
    for (to, target) in posts.iter().enumerate() {
        for (from, source) in posts.iter().enumerate() {
            let (sent, received) = (&source.plan.sends[to], &target.plan.receives[from]);
            for (out, into) in source.parcels.iter().zip(&target.parcels) {
                let bytes = sent.len() * into.bytes;
                let send = out.send.wrapping_add(sent.start * out.bytes);
                let receive = into.receive.wrapping_add(received.start * into.bytes);
                // SAFETY: the caller's promise; what is received is nobody else's.
                unsafe { target.stream.copy(receive, send, bytes) }?;
            }
        }
    }
    posts.iter().try_for_each(|post| post.stream.synchronize())
}

/// # Safety
/// Every post's words are lent by its rank, and there are as many.
unsafe fn sum_all(posts: &[Words]) -> Result<()> {
    let len = posts.first().map_or(0, |post| post.len);
    let bytes = len * size_of::<u64>();
    let mut sums = vec![0u64; len];
    let mut of_one = vec![0u64; len];
    for post in posts {
        // SAFETY: the vector has as many bytes, and is not used before the wait.
        unsafe {
            post.stream
                .download(of_one.as_mut_ptr().cast(), post.at.cast(), bytes)
        }?;
        post.stream.synchronize()?;
        for (sum, word) in sums.iter_mut().zip(&of_one) {
            *sum = sum.wrapping_add(*word);
        }
    }
    for post in posts {
        // SAFETY: as above; the vector lives until the wait.
        unsafe {
            post.stream
                .upload(post.at.cast(), sums.as_ptr().cast(), bytes)
        }?;
        post.stream.synchronize()?;
    }
    Ok(())
}
