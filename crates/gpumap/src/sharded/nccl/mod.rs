//! [`Nccl`]: ranks in processes of their own, over NVLink, PCIe or a network, by NVIDIA's library.
//!
//! Ranks of one process do without it: see [`Direct`](super::direct::Direct) for why.

mod bounded;
mod communicator;
mod framed;
mod handle;
mod library;
mod watch;

use std::ffi::c_int;
use std::sync::Arc;

use super::error::GroupError;
use super::membership::{GroupId, Membership};
use super::transport::{Parcel, Plan, Transport, Window};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::stream::Stream;
use communicator::{Communicator, Limits};
use library::{check, library};

/// `ncclUint8`, `ncclUint64` and `ncclSum`.
const BYTE: c_int = 1;
const WORD: c_int = 5;
const SUM: c_int = 0;

/// The link of a rank on a GPU of its own.
pub(super) struct Nccl {
    communicator: Communicator,
    /// Words of the hosts go over the link too, in the order of this stream.
    stream: Stream,
    rank: usize,
    ranks: usize,
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

/// An error for a device that is no GPU.
fn expect_gpu(device: &Device) -> Result<()> {
    match device.is_cuda() {
        true => Ok(()),
        false => Err(Error::WrongDevice {
            expected: "a CUDA device".to_owned(),
            found: device.to_string(),
        }),
    }
}

impl Nccl {
    /// What all bring over the link itself: as many words from each, and one at least.
    fn all_gather(&mut self, mine: &[u64]) -> Result<Vec<u64>> {
        let (len, stream) = (mine.len(), &self.stream);
        let send = Buffer::from_slice(stream, mine)?;
        let mut all = Buffer::<u64>::unwritten(stream, len * self.ranks)?;
        let (from, to) = (send.as_ptr().cast(), all.as_mut_ptr().cast());
        // SAFETY: the buffers have these lengths, and live until the wait below is over.
        unsafe {
            self.communicator
                .queue(stream, "ncclAllGather", |nccl, comm, stream| {
                    (nccl.all_gather)(from, to, len, WORD, comm, stream)
                })
        }?;
        self.communicator.wait(stream)?;
        all.to_vec()
    }

    /// Joins a group, and returns when all ranks have.
    pub(super) fn join(device: &Device, membership: &Membership) -> Result<Self> {
        let (rank, ranks) = (membership.rank(), membership.ranks());
        let limits = Limits::new(membership.timeout());
        expect_gpu(device)?;
        let stream = Stream::of_calls(device)?;
        let communicator =
            Communicator::join(library()?, device, &membership.id(), [rank, ranks], limits)?;
        Ok(Self {
            communicator,
            stream,
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
        framed::gather(mine, self.ranks, |words| self.all_gather(words))
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
        unsafe {
            self.communicator
                .queue(stream, "ncclSend", |nccl, comm, stream| {
                    // Each rank begins with the next one, so that not all send to one at first.
                    for peer in (1..ranks).map(|step| (rank + step) % ranks) {
                        let number = peer as c_int;
                        for parcel in parcels {
                            let range = &plan.sends[peer];
                            let bytes = range.len() * parcel.bytes;
                            let from = parcel.send.wrapping_add(range.start * parcel.bytes);
                            if bytes != 0 {
                                let code =
                                    (nccl.send)(from.cast(), bytes, BYTE, number, comm, stream);
                                if check("ncclSend", code).is_err() {
                                    return code;
                                }
                            }
                            let range = &plan.receives[peer];
                            let bytes = range.len() * parcel.bytes;
                            let to = parcel.receive.wrapping_add(range.start * parcel.bytes);
                            if bytes != 0 {
                                let code =
                                    (nccl.receive)(to.cast(), bytes, BYTE, number, comm, stream);
                                if check("ncclRecv", code).is_err() {
                                    return code;
                                }
                            }
                        }
                    }
                    0
                })
        }
    }

    unsafe fn sum(&mut self, stream: &Stream, words: *mut u64, len: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe {
            self.communicator
                .queue(stream, "ncclAllReduce", |nccl, comm, stream| {
                    let at = words.cast();
                    (nccl.all_reduce)(at, at, len, WORD, SUM, comm, stream)
                })
        }
    }

    fn wait(&mut self, stream: &Stream) -> Result<()> {
        self.communicator.wait(stream)
    }

    fn has_windows(&self) -> bool {
        false
    }

    fn window(&mut self, _: Arc<Buffer<u64>>) -> Result<Window> {
        Err(Error::Group(GroupError::OtherProcess))
    }

    fn abort(&mut self) {
        self.communicator.give_up();
    }
}
