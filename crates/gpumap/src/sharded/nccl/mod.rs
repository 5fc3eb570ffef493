//! [`Nccl`]: ranks on GPUs of their own, over NVLink, PCIe or a network, by NVIDIA's library.

mod communicator;
mod framed;
mod library;

use std::ffi::c_int;
use std::sync::Arc;
use std::thread;

use super::direct;
use super::error::GroupError;
use super::hub::{End, Hub};
use super::membership::{GroupId, Membership};
use super::transport::{Parcel, Plan, Transport, Window};
use crate::buffer::Buffer;
use crate::cuda::{Context, allow_peer};
use crate::device::{Device, Kind};
use crate::error::{Error, Result};
use crate::stream::Stream;
use communicator::Communicator;
use library::{check, library};

/// `ncclUint8`, `ncclUint64` and `ncclSum`.
const BYTE: c_int = 1;
const WORD: c_int = 5;
const SUM: c_int = 0;

/// The link of a rank on a GPU of its own.
pub(super) struct Nccl {
    communicator: Communicator,
    meeting: Meeting,
    rank: usize,
    ranks: usize,
}

/// Where hosts tell each other a few words.
enum Meeting {
    /// In this process, which drives all ranks.
    Here {
        hub: Arc<Hub>,
        /// The contexts of all ranks.
        contexts: Vec<Arc<Context>>,
        /// Whether the memory of all is mapped into this one's.
        mapped: bool,
    },
    /// Over the link itself: the ranks have processes of their own.
    Apart { stream: Stream },
}

/// A new id of a group.
pub(super) fn unique_id() -> Result<GroupId> {
    let library = library()?;
    let mut id = cudarc::nccl::sys::ncclUniqueId { internal: [0; 128] };
    // SAFETY: the place is valid.
    check("ncclGetUniqueId", unsafe {
        (library.get_unique_id)(&mut id)
    })?;
    Ok(GroupId(id.internal.map(|byte| byte as u8)))
}

/// The context of a device, which must be a GPU.
fn context_of(device: &Device) -> Result<&Arc<Context>> {
    match device.kind() {
        Kind::Cuda(context) => Ok(context),
        Kind::Cpu(_) => Err(Error::WrongDevice {
            expected: "a CUDA device".to_owned(),
            found: device.to_string(),
        }),
    }
}

impl Nccl {
    /// The links of all ranks, which this process drives.
    pub(super) fn all(devices: &[Device], hub: &Arc<Hub>) -> Result<Vec<Self>> {
        let id = unique_id()?;
        let contexts: Vec<Arc<Context>> = devices
            .iter()
            .map(|device| context_of(device).cloned())
            .collect::<Result<_>>()?;
        let ranks = devices.len();
        let (contexts, id) = (&contexts, &id);
        let join = |rank: usize| {
            let here = Some(Arc::clone(hub));
            let joined = Communicator::join(&contexts[rank], id, rank, ranks, hub.timeout(), here);
            if joined.is_err() {
                hub.end(End::Aborted(rank));
            }
            Ok(Self {
                communicator: joined?,
                meeting: Meeting::Here {
                    hub: Arc::clone(hub),
                    contexts: contexts.clone(),
                    mapped: false,
                },
                rank,
                ranks,
            })
        };
        // All have to come before any goes on.
        let joined: Vec<Result<Self>> = thread::scope(|scope| {
            let threads: Vec<_> = (0..ranks)
                .map(|rank| scope.spawn(move || join(rank)))
                .collect();
            let panicked = |rank| Err(Error::Group(GroupError::Panicked { rank }));
            let joined = threads.into_iter().enumerate();
            joined
                .map(|(rank, thread)| thread.join().unwrap_or_else(|_| panicked(rank)))
                .collect()
        });
        joined.into_iter().collect()
    }

    /// What all bring over the link itself: as many words from each, and one at least.
    fn all_gather(&mut self, stream: &Stream, mine: &[u64]) -> Result<Vec<u64>> {
        let len = mine.len();
        let send = Buffer::from_slice(stream, mine)?;
        let mut all = Buffer::<u64>::unwritten(stream, len * self.ranks)?;
        let (from, to) = (send.as_ptr().cast(), all.as_mut_ptr().cast());
        // SAFETY: the buffers have these lengths, and live until the wait below is over.
        stream.queue(|stream| unsafe {
            self.communicator.group("ncclAllGather", |nccl, comm| {
                (nccl.all_gather)(from, to, len, WORD, comm, stream)
            })
        })?;
        self.communicator.wait(stream)?;
        all.to_vec()
    }

    /// The link of a rank whose others are in other processes.
    pub(super) fn join(device: &Device, membership: &Membership) -> Result<Self> {
        let (rank, ranks) = (membership.rank(), membership.ranks());
        let timeout = membership.timeout();
        let context = context_of(device)?;
        let communicator =
            Communicator::join(context, &membership.id(), rank, ranks, timeout, None)?;
        let stream = Stream::new(device)?;
        Ok(Self {
            communicator,
            meeting: Meeting::Apart { stream },
            rank,
            ranks,
        })
    }
}

impl Transport for Nccl {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.ranks
    }

    fn gather(&mut self, mine: &[u64]) -> Result<Vec<u64>> {
        let stream = match &self.meeting {
            Meeting::Here { hub, .. } => return direct::gather(hub, self.rank, mine),
            Meeting::Apart { stream } => stream.clone(),
        };
        framed::gather(mine, self.ranks, |words| self.all_gather(&stream, words))
    }

    unsafe fn exchange(&mut self, stream: &Stream, plan: &Plan, parcels: &[Parcel]) -> Result<()> {
        let (rank, ranks) = (self.rank, self.ranks);
        for parcel in parcels {
            let (sent, received) = (&plan.sends[rank], &plan.receives[rank]);
            let bytes = sent.len().min(received.len()) * parcel.bytes;
            let send = parcel.send.wrapping_add(sent.start * parcel.bytes);
            let receive = parcel.receive.wrapping_add(received.start * parcel.bytes);
            // SAFETY: the caller's promise.
            unsafe { stream.copy(receive, send, bytes) }?;
        }
        let others = |ranges: &[std::ops::Range<usize>]| {
            let mut elsewhere = ranges.iter().enumerate();
            elsewhere.any(|(peer, range)| peer != rank && !range.is_empty())
        };
        if !others(&plan.sends) && !others(&plan.receives) {
            return Ok(());
        }
        // SAFETY: the caller's promise. What a rank sends to a peer, that receives in this order.
        stream.queue(|stream| unsafe {
            self.communicator.group("ncclSend", |nccl, comm| {
                // Each rank begins with the next one, so that not all send to one at first.
                for peer in (1..ranks).map(|step| (rank + step) % ranks) {
                    let number = peer as c_int;
                    for parcel in parcels {
                        let range = &plan.sends[peer];
                        let bytes = range.len() * parcel.bytes;
                        let from = parcel.send.wrapping_add(range.start * parcel.bytes);
                        if bytes != 0 {
                            let code = (nccl.send)(from.cast(), bytes, BYTE, number, comm, stream);
                            if check("ncclSend", code).is_err() {
                                return code;
                            }
                        }
                        let range = &plan.receives[peer];
                        let bytes = range.len() * parcel.bytes;
                        let to = parcel.receive.wrapping_add(range.start * parcel.bytes);
                        if bytes != 0 {
                            let code = (nccl.receive)(to.cast(), bytes, BYTE, number, comm, stream);
                            if check("ncclRecv", code).is_err() {
                                return code;
                            }
                        }
                    }
                }
                0
            })
        })
    }

    unsafe fn sum(&mut self, stream: &Stream, words: *mut u64, len: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        stream.queue(|stream| unsafe {
            self.communicator.group("ncclAllReduce", |nccl, comm| {
                let at = words.cast();
                (nccl.all_reduce)(at, at, len, WORD, SUM, comm, stream)
            })
        })
    }

    fn wait(&mut self, stream: &Stream) -> Result<()> {
        self.communicator.wait(stream)
    }

    fn has_windows(&self) -> bool {
        matches!(self.meeting, Meeting::Here { .. })
    }

    fn window(&mut self, mine: Arc<Buffer<u64>>) -> Result<Window> {
        let Meeting::Here {
            hub,
            contexts,
            mapped,
        } = &mut self.meeting
        else {
            return Err(Error::Group(GroupError::OtherProcess));
        };
        let mut mapping = Ok(());
        if !*mapped {
            let me = &contexts[self.rank];
            let others = contexts
                .iter()
                .enumerate()
                .filter(|&(at, _)| at != self.rank);
            mapping = others
                .into_iter()
                .try_for_each(|(_, other)| allow_peer(me, other));
            *mapped = mapping.is_ok();
        }
        // Those that cannot map stay away from no meeting: all learn of it.
        let failed = direct::gather(hub, self.rank, &[u64::from(mapping.is_err())])?;
        mapping?;
        if let Some(rank) = failed.iter().position(|&failed| failed != 0) {
            return Err(Error::Group(GroupError::Failed { rank }));
        }
        direct::window(hub, self.rank, mine)
    }

    fn abort(&mut self) {
        if let Meeting::Here { hub, .. } = &self.meeting {
            hub.end(End::Aborted(self.rank));
        }
        self.communicator.give_up();
    }
}
