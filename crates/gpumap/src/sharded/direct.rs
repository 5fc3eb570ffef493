//! [`Direct`]: ranks of one process, which copy from each other's memory.
//!
//! CPU executors, several ranks on one GPU, and GPUs each with a rank of its own: one implementation, so that
//! tests on a machine without a GPU run what several GPUs run.
//!
//! # Why groups cannot deadlock
//! Invariant: no kernel and no copy waits on its device for another device. The rank threads meet on the host
//! ([`Hub`]), and every meeting has a timeout. So whatever is queued on a device ends by itself, in whatever order
//! groups queue it, and each call of the driver that waits for a device (freeing memory, destroying a stream,
//! loading a kernel) returns. Collectives of NCCL break this invariant: their kernels spin until the kernel of the
//! peer runs, and the launch of that one may wait behind a call that waits for the first. Therefore NCCL links
//! processes alone.
//!
//! # Who copies, and when memory is free again
//! The rank that comes last queues the copies of all ranks, each on the stream of the rank that receives, while
//! the others cannot leave the meeting. So a rank that comes late never reads memory that others have freed since.
//! [`wait`](Transport::wait) waits for the streams of all ranks: what a rank sends is read from there.

use std::sync::Arc;

use parking_lot::Mutex;

use super::error::GroupError;
use super::hub::{End, Hub};
use super::transport::{Parcel, Plan, Transport, Window};
use crate::buffer::Buffer;
use crate::cuda::allow_peer;
use crate::device::{Device, Kind};
use crate::error::{Error, Result};
use crate::stream::Stream;

/// The link of a rank that reaches the others' memory.
#[derive(Debug)]
pub(super) struct Direct {
    hub: Arc<Hub>,
    rank: usize,
    ranks: usize,
    /// Two devices of the group of which the first cannot map the memory of the second, if there are such.
    apart: Option<(usize, usize)>,
    /// The streams of all ranks, while copies of an exchange are queued there.
    copying: Vec<Stream>,
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

/// What comes of a meeting in which one rank works for all.
struct Met<R> {
    /// Or the rank that failed.
    result: Result<R, usize>,
    /// Its error, if it was met by the one that worked.
    error: Mutex<Option<Error>>,
}

/// An error, and the rank whose it is.
type Of<R> = Result<R, (usize, Error)>;

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
        let post = stream.synchronize().map(|()| Exchange {
            stream: stream.clone(),
            plan: plan.clone(),
            parcels: parcels.to_vec(),
        });
        // SAFETY: every rank's parcels are as this function's contract says, they fit together, and all
        // ranks wait.
        self.copying = self.all(post, fit, |posts| unsafe { copy_all(posts) })?;
        Ok(())
    }

    unsafe fn sum(&mut self, stream: &Stream, words: *mut u64, len: usize) -> Result<()> {
        let post = stream.synchronize().map(|()| Words {
            stream: stream.clone(),
            at: words,
            len,
        });
        let alike = |posts: &[Words]| posts.iter().all(|post| post.len == len);
        // SAFETY: every rank's words are as this function's contract says, they are as many, and all ranks
        // wait.
        self.all(post, alike, |posts| unsafe { sum_all(posts) })
    }

    fn wait(&mut self, stream: &Stream) -> Result<()> {
        let mine = stream.synchronize();
        let copying = std::mem::take(&mut self.copying);
        let mut failed = None;
        for (rank, stream) in copying.iter().enumerate() {
            // Also after an error: none of them may read what this rank is going to free.
            if rank != self.rank && stream.drain().is_err() {
                failed.get_or_insert(rank);
            }
        }
        mine?;
        match failed {
            Some(rank) => Err(Error::Group(GroupError::Failed { rank })),
            None => Ok(()),
        }
    }

    fn has_windows(&self) -> bool {
        self.apart.is_none()
    }

    fn window(&mut self, mine: Arc<Buffer<u64>>) -> Result<Window> {
        if let Some((from, to)) = self.apart {
            return Err(Error::Group(GroupError::NoPeerAccess { from, to }));
        }
        let parts = self
            .hub
            .meet(self.rank, mine, |posts: Vec<Arc<Buffer<u64>>>| Some(posts))?;
        Ok(Window {
            parts: parts.to_vec(),
        })
    }

    fn abort(&mut self) {
        self.hub.end(End::Aborted(self.rank));
    }
}

impl Direct {
    /// The link of a group of one rank.
    pub(super) fn alone(hub: Arc<Hub>) -> Self {
        Self::new(hub, 0, 1, None)
    }

    fn new(hub: Arc<Hub>, rank: usize, ranks: usize, apart: Option<(usize, usize)>) -> Self {
        Self {
            hub,
            rank,
            ranks,
            apart,
            copying: Vec::new(),
        }
    }

    /// The links of all ranks of a group, which meet at `hub`; the memory of each device is mapped into the others
    /// where that can be done.
    pub(super) fn all_of(devices: &[Device], hub: &Arc<Hub>) -> Result<Vec<Self>> {
        let ranks = devices.len();
        let apart = map_memory(devices)?;
        let link = |rank| Self::new(Arc::clone(hub), rank, ranks, apart);
        Ok((0..ranks).map(link).collect())
    }

    /// A meeting whose work is done if every rank is ready and all that is brought fits together. An error of
    /// one rank is its own there, and [`GroupError::Failed`] on the others.
    fn all<P: Send + 'static, R: Clone + Send + Sync + 'static>(
        &self,
        post: Result<P>,
        fit: impl FnOnce(&[P]) -> bool,
        work: impl FnOnce(&[P]) -> Of<R>,
    ) -> Result<R> {
        let (post, mine) = match post {
            Ok(post) => (Some(post), Ok(())),
            Err(error) => (None, Err(error)),
        };
        let met = self.hub.meet(self.rank, post, |posts: Vec<Option<P>>| {
            let unready = posts.iter().position(Option::is_none);
            let posts: Vec<P> = posts.into_iter().flatten().collect();
            let (result, error) = match unready {
                Some(rank) => (Err(rank), None),
                None if !fit(&posts) => return None,
                None => match work(&posts) {
                    Ok(result) => (Ok(result), None),
                    Err((rank, error)) => (Err(rank), Some(error)),
                },
            };
            let error = Mutex::new(error);
            Some(Met { result, error })
        });
        // One's own error tells more.
        mine?;
        let met = met?;
        let failed = |rank| Error::Group(GroupError::Failed { rank });
        met.result.clone().map_err(|rank| {
            let own = (rank == self.rank).then(|| met.error.lock().take());
            own.flatten().unwrap_or(failed(rank))
        })
    }
}

/// Maps the memory of each device into all others. Returns two of which the first cannot reach the second, if
/// there are such.
fn map_memory(devices: &[Device]) -> Result<Option<(usize, usize)>> {
    let context = |device: &'_ Device| match device.kind() {
        Kind::Cuda(context) => Some(Arc::clone(context)),
        Kind::Cpu(_) => None,
    };
    let contexts: Vec<_> = devices.iter().filter_map(context).collect();
    for user in &contexts {
        for owner in &contexts {
            match allow_peer(user, owner) {
                Ok(()) => {}
                Err(Error::Group(GroupError::NoPeerAccess { from, to })) => {
                    tracing::debug!(from, to, "batches are not sent: no peer access");
                    return Ok(Some((from, to)));
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(None)
}

/// What each rank of a hub brings, if all bring as many words.
pub(super) fn gather(hub: &Hub, rank: usize, mine: &[u64]) -> Result<Vec<u64>> {
    let all = hub.meet(rank, mine.to_vec(), |posts: Vec<Vec<u64>>| {
        let alike = posts.iter().all(|post| post.len() == mine.len());
        alike.then(|| posts.concat())
    })?;
    Ok(all.to_vec())
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

/// Queues the copies of all ranks, and returns their streams.
///
/// # Safety
/// Every post's parcels lead to memory that has the elements of its plan, and that its rank lends until these
/// streams have ended. They [fit] together.
unsafe fn copy_all(posts: &[Exchange]) -> Of<Vec<Stream>> {
    let ranks = posts.len();
    // Each begins with the next one, and with what it has for itself last.
    for step in 1..=ranks {
        for to in 0..ranks {
            // SAFETY: passed on.
            if let Err(error) = unsafe { copy(posts, (to + step) % ranks, to) } {
                // All have an error then, and none of them waits.
                for post in posts {
                    let _ = post.stream.drain();
                }
                return Err((to, error));
            }
        }
    }
    Ok(posts.iter().map(|post| post.stream.clone()).collect())
}

/// Queues the copies from one rank to another one.
///
/// # Safety
/// As for [`copy_all`].
unsafe fn copy(posts: &[Exchange], from: usize, to: usize) -> Result<()> {
    let (source, target) = (&posts[from], &posts[to]);
    let (sent, received) = (&source.plan.sends[to], &target.plan.receives[from]);
    for (out, into) in source.parcels.iter().zip(&target.parcels) {
        let bytes = sent.len() * into.bytes;
        let send = out.send.wrapping_add(sent.start * out.bytes);
        let receive = into.receive.wrapping_add(received.start * into.bytes);
        let device = source.stream.device();
        // SAFETY: the caller's promise; what is received is nobody else's.
        unsafe { target.stream.copy_from(receive, device, send, bytes) }?;
    }
    Ok(())
}

/// # Safety
/// Every post's words are lent by its rank, and there are as many.
unsafe fn sum_all(posts: &[Words]) -> Of<()> {
    let len = posts.first().map_or(0, |post| post.len);
    let mut sums = vec![0u64; len];
    let mut of_one = vec![0u64; len];
    for (rank, post) in posts.iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { download(post, &mut of_one) }.map_err(|error| (rank, error))?;
        for (sum, word) in sums.iter_mut().zip(&of_one) {
            *sum = sum.wrapping_add(*word);
        }
    }
    for (rank, post) in posts.iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { upload(post, &sums) }.map_err(|error| (rank, error))?;
    }
    Ok(())
}

/// # Safety
/// As for [`sum_all`]; the slice is as long.
unsafe fn download(post: &Words, words: &mut [u64]) -> Result<()> {
    let (to, from) = (words.as_mut_ptr().cast(), post.at.cast());
    // SAFETY: the slice has as many bytes, and is not used before the wait.
    unsafe { post.stream.download(to, from, size_of_val(words)) }?;
    post.stream.synchronize()
}

/// # Safety
/// As for [`download`].
unsafe fn upload(post: &Words, words: &[u64]) -> Result<()> {
    let (to, from) = (post.at.cast(), words.as_ptr().cast());
    // SAFETY: as above; the slice lives until the wait.
    unsafe { post.stream.upload(to, from, size_of_val(words)) }?;
    post.stream.synchronize()
}

#[cfg(test)]
mod tests;
