//! [`Direct`]: ranks of one process, which copy from each other's memory.
//!
//! CPU executors, several ranks on one GPU, and GPUs each with a rank of its own: one implementation, so that
//! tests on a machine without a GPU run what several GPUs run.
//!
//! # Why groups cannot deadlock
//! Invariant: no kernel and no copy waits on its device for another device. The rank threads meet on the host
//! ([`Rendezvous`]), and every meeting has a timeout. So whatever is queued on a device ends by itself, in whatever order
//! groups queue it, and each call of the driver that waits for a device (freeing memory, destroying a stream,
//! loading a kernel) returns. Collectives of NCCL break this invariant: their kernels spin until the kernel of the
//! peer runs, and the launch of that one may wait behind a call that waits for the first. Therefore NCCL links
//! processes alone.
//!
//! # The copies, and when memory is free again
//! The rank that comes last queues the copies of all ranks, each on the stream of the rank that receives, while
//! the others cannot leave the meeting. So a rank that comes late never reads memory that others have freed since.
//! [`wait`](Transport::wait) waits for the streams of all ranks: what a rank sends is read from there.

use std::sync::Arc;

use gpumap_kernels::primitives::spread::{SUM, SumArgs};
use gpumap_simt::kernel::{Grid, Launcher};
use parking_lot::Mutex;

use super::error::GroupError;
use super::rendezvous::{End, Rendezvous};
use super::transport::{Parcel, Plan, Transport, Window};
use crate::buffer::Buffer;
use crate::cuda::allow_peer;
use crate::device::{Device, Kind};
use crate::error::{Error, Result};
use crate::stream::Stream;

/// The link of a rank that reaches the others' memory.
#[derive(Debug)]
pub(super) struct Direct {
    rendezvous: Arc<Rendezvous>,
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
        gather(&self.rendezvous, self.rank, mine)
    }

    unsafe fn exchange(&mut self, stream: &Stream, plan: &Plan, parcels: &[Parcel]) -> Result<()> {
        let ready = Ok((plan.clone(), parcels.to_vec()));
        // SAFETY: passed on.
        unsafe { self.exchange_if(stream, ready) }
    }

    /// Each rank adds up a piece, of which it copies the parts of the others, and then copies the sums of their pieces.
    unsafe fn sum(&mut self, stream: &Stream, words: *mut u64, len: usize) -> Result<()> {
        let (ranks, own) = (self.ranks, self.rank);
        let start = |piece: usize| len / ranks * piece + piece.min(len % ranks);
        let piece = |rank: usize| match rank == own {
            true => 0..0,
            false => start(rank)..start(rank + 1),
        };
        let mine = start(own)..start(own + 1);
        let mine_to = |rank| if rank == own { 0..0 } else { mine.clone() };
        let mut parts = Buffer::<u64>::unwritten(stream, mine.len() * (ranks - 1));
        let ready = match &mut parts {
            Ok(parts) => {
                let place = |from: usize| match from - usize::from(from > own) {
                    _ if from == own => 0..0,
                    before => before * mine.len()..(before + 1) * mine.len(),
                };
                let plan = Plan {
                    sends: (0..ranks).map(piece).collect(),
                    receives: (0..ranks).map(place).collect(),
                };
                let parcel = Parcel {
                    send: words.cast_const().cast(),
                    receive: parts.as_mut_ptr().cast(),
                    bytes: size_of::<u64>(),
                };
                Ok((plan, vec![parcel]))
            }
            Err(error) => Err(error.clone()),
        };
        // SAFETY: pieces of `words`, and as much room for each part; all ranks have as many words, and wait.
        unsafe { self.exchange_if(stream, ready) }?;
        let parts = parts?;
        let args = SumArgs {
            sums: words.wrapping_add(mine.start),
            len: mine.len() as u64,
            parts: parts.as_ptr(),
            count: ranks as u64 - 1,
        };
        let grid = Grid::covering(args.len, 256);
        // SAFETY: this rank's piece, which no other one copies, and the parts that were copied before on the stream.
        let added = unsafe { stream.launch(&SUM, grid, args) };
        let parcel = Parcel {
            send: words.cast_const().cast(),
            receive: words.cast(),
            bytes: size_of::<u64>(),
        };
        let plan = Plan {
            sends: (0..ranks).map(mine_to).collect(),
            receives: (0..ranks).map(piece).collect(),
        };
        let ready = added.map(|()| (plan, vec![parcel]));
        // SAFETY: as above. The meeting is when all have added, so nothing of the first exchange is copied any more.
        unsafe { self.exchange_if(stream, ready) }
    }

    fn wait(&mut self, stream: &Stream) -> Result<()> {
        let mine = stream.finish();
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
        let parts =
            self.rendezvous
                .meet(self.rank, mine, |contributions: Vec<Arc<Buffer<u64>>>| {
                    Some(contributions)
                })?;
        Ok(Window {
            parts: parts.to_vec(),
        })
    }

    fn abort(&mut self) {
        self.rendezvous.end(End::Aborted(self.rank));
    }
}

impl Direct {
    /// The link of a group of one rank.
    pub(super) fn alone(rendezvous: Arc<Rendezvous>) -> Self {
        Self::new(rendezvous, 0, 1, None)
    }

    fn new(
        rendezvous: Arc<Rendezvous>,
        rank: usize,
        ranks: usize,
        apart: Option<(usize, usize)>,
    ) -> Self {
        Self {
            rendezvous,
            rank,
            ranks,
            apart,
            copying: Vec::new(),
        }
    }

    /// The links of all ranks of a group, which meet at `rendezvous`; the memory of each device is mapped into the others
    /// where that can be done.
    pub(super) fn all_of(devices: &[Device], rendezvous: &Arc<Rendezvous>) -> Result<Vec<Self>> {
        let ranks = devices.len();
        let apart = map_memory(devices)?;
        let link = |rank| Self::new(Arc::clone(rendezvous), rank, ranks, apart);
        Ok((0..ranks).map(link).collect())
    }

    /// Exchanges parts if every rank is ready; what one rank is not ready for is an error of all.
    ///
    /// # Safety
    /// As for [`Transport::exchange`].
    unsafe fn exchange_if(
        &mut self,
        stream: &Stream,
        ready: Result<(Plan, Vec<Parcel>)>,
    ) -> Result<()> {
        let contribution = ready.and_then(|(plan, parcels)| {
            stream.synchronize()?;
            Ok(Exchange {
                stream: stream.clone(),
                plan,
                parcels,
            })
        });
        // SAFETY: every rank's parcels are as this function's contract says, they fit together, and all
        // ranks wait.
        self.copying = self.all(contribution, fit, |contributions| unsafe {
            copy_all(contributions)
        })?;
        Ok(())
    }

    /// A meeting whose work is done if every rank is ready and all that is brought fits together. An error of
    /// one rank is its own there, and [`GroupError::Failed`] on the others.
    fn all<P: Send + 'static, R: Clone + Send + Sync + 'static>(
        &self,
        contribution: Result<P>,
        fit: impl FnOnce(&[P]) -> bool,
        work: impl FnOnce(&[P]) -> Of<R>,
    ) -> Result<R> {
        let (contribution, mine) = match contribution {
            Ok(contribution) => (Some(contribution), Ok(())),
            Err(error) => (None, Err(error)),
        };
        let met = self
            .rendezvous
            .meet(self.rank, contribution, |contributions: Vec<Option<P>>| {
                let unready = contributions.iter().position(Option::is_none);
                let contributions: Vec<P> = contributions.into_iter().flatten().collect();
                let (result, error) = match unready {
                    Some(rank) => (Err(rank), None),
                    None if !fit(&contributions) => return None,
                    None => match work(&contributions) {
                        Ok(result) => (Ok(result), None),
                        Err((rank, error)) => (Err(rank), Some(error)),
                    },
                };
                let error = Mutex::new(error);
                Some(Met { result, error })
            });
        // The rank's own error says more.
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

/// What each rank of a rendezvous brings, if all bring as many words.
pub(super) fn gather(rendezvous: &Rendezvous, rank: usize, mine: &[u64]) -> Result<Vec<u64>> {
    let all = rendezvous.meet(rank, mine.to_vec(), |contributions: Vec<Vec<u64>>| {
        let alike = contributions
            .iter()
            .all(|contribution| contribution.len() == mine.len());
        alike.then(|| contributions.concat())
    })?;
    Ok(all.to_vec())
}

/// Whether each rank sends what the others expect of it.
fn fit(contributions: &[Exchange]) -> bool {
    let planned = |len: usize| len == contributions.len();
    let whole = |contribution: &Exchange| {
        planned(contribution.plan.sends.len()) && planned(contribution.plan.receives.len())
    };
    let bytes = |contribution: &Exchange| -> Vec<usize> {
        contribution
            .parcels
            .iter()
            .map(|parcel| parcel.bytes)
            .collect()
    };
    let sent = |(from, source): (usize, &Exchange)| {
        let len = |to: usize| source.plan.sends[to].len();
        let mut targets = contributions.iter().enumerate();
        targets.all(|(to, target)| len(to) == target.plan.receives[from].len())
    };
    contributions.iter().all(whole)
        && contributions
            .iter()
            .all(|contribution| bytes(contribution) == bytes(&contributions[0]))
        && contributions.iter().enumerate().all(sent)
}

/// Queues the copies of all ranks, and returns their streams.
///
/// # Safety
/// Every contribution's parcels lead to memory that has the elements of its plan, and that its rank lends until these
/// streams have ended. They [fit] together.
unsafe fn copy_all(contributions: &[Exchange]) -> Of<Vec<Stream>> {
    let ranks = contributions.len();
    // Each begins with the next one, and with what it has for itself last.
    for step in 1..=ranks {
        for to in 0..ranks {
            // SAFETY: passed on.
            if let Err(error) = unsafe { copy(contributions, (to + step) % ranks, to) } {
                // All have an error then, and none of them waits.
                for contribution in contributions {
                    let _ = contribution.stream.drain();
                }
                return Err((to, error));
            }
        }
    }
    Ok(contributions
        .iter()
        .map(|contribution| contribution.stream.clone())
        .collect())
}

/// Queues the copies from one rank to another one.
///
/// # Safety
/// As for [`copy_all`].
unsafe fn copy(contributions: &[Exchange], from: usize, to: usize) -> Result<()> {
    let (source, target) = (&contributions[from], &contributions[to]);
    let (sent, received) = (&source.plan.sends[to], &target.plan.receives[from]);
    for (out, into) in source.parcels.iter().zip(&target.parcels) {
        let bytes = sent.len() * into.bytes;
        let send = out.send.wrapping_add(sent.start * out.bytes);
        let receive = into.receive.wrapping_add(received.start * into.bytes);
        let device = source.stream.device();
        // SAFETY: the caller's promise; nothing else uses what is received.
        unsafe { target.stream.copy_from(receive, device, send, bytes) }?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
