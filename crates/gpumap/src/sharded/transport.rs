//! [`Transport`]: what ranks say to each other.

use std::ops::Range;
use std::sync::Arc;

use crate::buffer::Buffer;
use crate::error::Result;
use crate::stream::Stream;

/// The link of one rank to the others of its group.
///
/// Every method but [`rank`](Self::rank), [`ranks`](Self::ranks) and [`has_windows`](Self::has_windows) is a *collective*: each rank
/// calls it, and all call their collectives in the same order. It returns an error on all ranks, within
/// a timeout, where one of them does not come.
///
/// There are two: ranks of one process copy from each other's memory; those in processes of their own use NCCL.
pub trait Transport: Send {
    /// Which rank this is.
    fn rank(&self) -> usize;

    /// How many there are.
    fn ranks(&self) -> usize;

    /// What each rank brings, in the order of the ranks: as many words from each.
    ///
    /// # Errors
    /// [`Error::Group`](crate::Error::Group), of which [`OutOfStep`](super::GroupError::OutOfStep) is for ranks
    /// that bring different numbers of words.
    fn gather(&mut self, mine: &[u64]) -> Result<Vec<u64>>;

    /// Queues the exchange of parts of arrays: of each parcel, elements `plan.sends[r]` go to rank `r`,
    /// and what that sends here goes to the elements `plan.receives[r]`. Lengths agree, as the ranks
    /// have seen to before. Parts may be empty. After it has returned without an error, every rank calls
    /// [`wait`](Self::wait).
    ///
    /// # Errors
    /// [`Error::Group`](crate::Error::Group), [`Error::Driver`](crate::Error::Driver). Where ranks copy directly,
    /// parcels and lengths that do not agree are [`OutOfStep`](super::GroupError::OutOfStep).
    ///
    /// # Safety
    /// The parcels lead to memory of the stream's device that has all these elements; nothing writes
    /// to what is sent, or uses what is received, before [`wait`](Self::wait) has returned.
    unsafe fn exchange(&mut self, stream: &Stream, plan: &Plan, parcels: &[Parcel]) -> Result<()>;

    /// Queues the sums of words over all ranks, in place: afterwards each has all of them.
    ///
    /// # Errors
    /// As for [`exchange`](Self::exchange).
    ///
    /// # Safety
    /// `words` leads to `len` words of the stream's device that nothing uses before
    /// [`wait`](Self::wait) has returned; `len` is the same on all ranks.
    unsafe fn sum(&mut self, stream: &Stream, words: *mut u64, len: usize) -> Result<()>;

    /// Waits until everything queued on the stream has ended, and until the other ranks have what they
    /// receive from this one; or the other ranks have failed.
    ///
    /// # Errors
    /// As for [`exchange`](Self::exchange).
    fn wait(&mut self, stream: &Stream) -> Result<()>;

    /// Whether there are [windows](Self::window): the same for all ranks. Not a collective.
    fn has_windows(&self) -> bool {
        true
    }

    /// Maps the memory of all ranks into each. What was queued on the buffers' streams has ended.
    ///
    /// # Errors
    /// [`GroupError::NoPeerAccess`](super::GroupError::NoPeerAccess),
    /// [`GroupError::OtherProcess`](super::GroupError::OtherProcess); otherwise as for
    /// [`exchange`](Self::exchange).
    fn window(&mut self, mine: Arc<Buffer<u64>>) -> Result<Window>;

    /// Says that this rank will not come any more, so that none waits for it: from now on, every
    /// collective of every rank is an error.
    fn abort(&mut self);
}

/// An array of which parts are exchanged.
#[derive(Clone, Copy, Debug)]
pub struct Parcel {
    /// What is sent.
    pub send: *const u8,
    /// What is received.
    pub receive: *mut u8,
    /// Bytes of an element.
    pub bytes: usize,
}

/// Which elements go to each rank, and where those from each go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// By rank that gets them.
    pub sends: Vec<Range<usize>>,
    /// By rank that they come from.
    pub receives: Vec<Range<usize>>,
}

impl Plan {
    /// The way back.
    pub fn reversed(&self) -> Self {
        Self {
            sends: self.receives.clone(),
            receives: self.sends.clone(),
        }
    }

    /// How many elements come.
    pub fn incoming(&self) -> usize {
        self.receives.iter().map(Range::len).sum()
    }
}

/// Memory of all ranks, as this one reaches it. While any rank has it, none of it is freed.
#[derive(Clone, Debug)]
pub struct Window {
    pub(super) parts: Vec<Arc<Buffer<u64>>>,
}

impl Window {
    /// How many words each rank's has.
    pub(crate) fn lens(&self) -> impl Iterator<Item = usize> {
        self.parts.iter().map(|part| part.len())
    }

    /// Where the memory of each rank is.
    pub fn addresses(&self) -> Vec<u64> {
        let address = |part: &Arc<Buffer<u64>>| part.as_ptr().expose_provenance() as u64;
        self.parts.iter().map(address).collect()
    }
}
