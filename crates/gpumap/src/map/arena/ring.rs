//! The ids of cells that no slot has: a ring on the device.
//!
//! ```text
//!     head            safe            tail
//!      | free           | retired       |
//! ```
//!
//! A call takes ids from the head, and a kernel appends those that it has no more use for at the tail.
//! An id that was appended is not taken before [`recycle`](Ring::recycle), at a moment when no call is
//! in flight: until then a call may be reading its cell. Then the safe end is moved to the tail, and
//! that is all there is to it.
//!
//! Invariant: every id is in one of a slot, the ring, and a call in flight. So between two recyclings
//! each is appended at most once; as many places as there are cells are free or being read by the calls
//! that took them, as many more are enough for what is retired.

use std::ops::Range;
use std::ptr;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use gpumap_kernels::cells::{NUMBER, NumberArgs, RETIRE, RetireArgs, THREADS};
use gpumap_simt::kernel::Grid;

use crate::buffer::Buffer;
use crate::error::Result;
use crate::memory::bytes_of;
use crate::stream::Stream;

/// Places per cell.
const PLACES: usize = 2;

/// Free and retired ids, as many as `places / 2` at most. Places are counted on and on; a place beyond
/// the end is one from the start.
#[derive(Debug)]
pub(super) struct Ring {
    ids: Buffer<u32>,
    /// The next free id. Moved by calls that run side by side.
    head: AtomicU64,
    /// The end of the free ones.
    safe: u64,
    /// Where the next id is appended; on the device.
    tail: Buffer<u64>,
}

/// Places of ids that a call has taken.
#[derive(Debug)]
pub(super) struct Lease(Range<u64>);

/// Ids that a call gives back: those of `ids` that are of a cell, and neither kept nor given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Returned {
    pub ids: *const u32,
    /// One byte per id, 1 where it is kept; may be null.
    pub kept: *const u8,
    /// One id per id, of a cell where the other was given for it; may be null.
    pub given: *const u32,
    pub len: usize,
}

impl Returned {
    /// All of them.
    pub fn all(ids: *const u32, len: usize) -> Self {
        Self {
            ids,
            kept: ptr::null(),
            given: ptr::null(),
            len,
        }
    }
}

impl Ring {
    /// Bytes of a ring for so many cells.
    pub fn bytes(cells: usize) -> Result<usize> {
        bytes_of::<[u32; PLACES]>(cells)
    }

    /// An empty ring with places for so many cells.
    pub fn new(stream: &Stream, cells: usize) -> Result<Self> {
        Ok(Self {
            ids: Buffer::unwritten(stream, cells * PLACES)?,
            head: AtomicU64::new(0),
            safe: 0,
            tail: Buffer::zeroed(stream, 1)?,
        })
    }

    fn places(&self) -> u64 {
        self.ids.len() as u64
    }

    /// How many ids may be taken.
    pub fn free(&self) -> usize {
        (self.safe - self.head.load(Acquire)) as usize
    }

    /// How many ids wait for the next recycling. No call is in flight.
    pub fn retired(&self) -> Result<usize> {
        let [tail] = self.read_tail()?;
        Ok((tail - self.safe) as usize)
    }

    /// Takes ids, if there are as many free.
    pub fn take(&self, ids: usize) -> Option<Lease> {
        let within = |head: u64| Some(head + ids as u64).filter(|&end| end <= self.safe);
        let head = self.head.fetch_update(AcqRel, Acquire, within).ok()?;
        Some(Lease(head..head + ids as u64))
    }

    /// Queues a copy of the ids that were taken.
    ///
    /// # Safety
    /// `to` has room for them; nothing else uses it at that point of the stream.
    pub unsafe fn hand_out(&self, stream: &Stream, lease: &Lease, to: *mut u32) -> Result<()> {
        // SAFETY: passed on.
        unsafe { self.copy_places(stream, lease.0.clone(), to) }
    }

    /// Queues a copy of the ids at some places, in one piece or two.
    ///
    /// # Safety
    /// As for [`hand_out`](Self::hand_out); the places are not written meanwhile.
    unsafe fn copy_places(&self, stream: &Stream, places: Range<u64>, to: *mut u32) -> Result<()> {
        let len = (places.end - places.start) as usize;
        if len == 0 {
            return Ok(());
        }
        let start = (places.start % self.places()) as usize;
        let first = len.min(self.ids.len() - start);
        let word = size_of::<u32>();
        let from = self.ids.as_ptr();
        // SAFETY: both pieces lie in the ring; the caller's promise.
        unsafe {
            stream.copy(to.cast(), from.wrapping_add(start).cast(), first * word)?;
            let rest = to.wrapping_add(first).cast();
            stream.copy(rest, from.cast(), (len - first) * word)
        }
    }

    /// Queues appending ids.
    ///
    /// # Safety
    /// The pointers lead to `len` elements each, or are null where they may be; each id is the caller's
    /// to give back, and comes once.
    pub unsafe fn retire(&self, stream: &Stream, returned: Returned) -> Result<()> {
        let args = RetireArgs {
            ids: returned.ids,
            kept: returned.kept,
            given: returned.given,
            len: returned.len as u64,
            ring: self.ids.as_ptr().cast_mut(),
            places: self.places(),
            tail: self.tail.as_ptr().cast_mut(),
        };
        let blocks = returned.len.div_ceil(THREADS as usize) as u32;
        // SAFETY: the caller's promise, and the invariant of the ring: there is a place for each. The
        // tail is only touched by this kernel while calls are in flight.
        unsafe { RETIRE.launch(stream, Grid::new(blocks, THREADS), args) }
    }

    /// Makes what was retired free. No call is in flight.
    pub fn recycle(&mut self) -> Result<()> {
        let [tail] = self.read_tail()?;
        // Counted from the first lap again, as kernels need it.
        let laps = *self.head.get_mut() / self.places().max(1) * self.places();
        if laps != 0 {
            self.tail.copy_from_slice(&[tail - laps])?;
        }
        *self.head.get_mut() -= laps;
        self.safe = tail - laps;
        Ok(())
    }

    fn read_tail(&self) -> Result<[u64; 1]> {
        let mut tail = [0];
        self.tail.as_view().copy_to_slice(&mut tail)?;
        Ok(tail)
    }

    /// Forgets all ids, which takes no memory. No call is in flight; to be followed by
    /// [`publish`](Self::publish).
    pub fn forget_all(&mut self) {
        self.head = AtomicU64::new(0);
        self.safe = 0;
    }

    /// Queues adding the ids from `first` on, free, to a ring that was empty when no call was in flight.
    pub fn add_new(&mut self, first: u32, len: usize) -> Result<()> {
        let args = NumberArgs {
            ids: self.ids.as_mut_ptr().wrapping_add(self.safe as usize),
            len: len as u64,
            first,
        };
        let grid = Grid::covering(len as u64, THREADS);
        // SAFETY: there are as many places, since each cell is added once.
        unsafe { NUMBER.launch(self.ids.stream(), grid, args) }?;
        self.safe += len as u64;
        Ok(())
    }

    /// Queues adding the free ids of another ring, likewise.
    pub fn add_free_of(&mut self, other: &Self) -> Result<()> {
        let free = other.head.load(Relaxed)..other.safe;
        let len = free.end - free.start;
        let to = self.ids.as_mut_ptr().wrapping_add(self.safe as usize);
        // SAFETY: there are as many places, as above; no call is in flight.
        unsafe { other.copy_places(self.ids.stream(), free, to) }?;
        self.safe += len;
        Ok(())
    }

    /// Adds ids of the host, likewise, and waits.
    pub fn add_list(&mut self, ids: &[u32]) -> Result<()> {
        let at = self.safe as usize;
        self.ids
            .slice_mut(at..at + ids.len())?
            .copy_from_slice(ids)?;
        self.safe += ids.len() as u64;
        Ok(())
    }

    /// Ends adding: brings the tail up to date, and waits until all of it can be used from other
    /// streams.
    pub fn publish(&mut self) -> Result<()> {
        self.tail.copy_from_slice(&[self.safe])?;
        self.ids.stream().finish()
    }

    /// The free ids and those that are retired, in the order of the ring. No call is in flight.
    pub fn contents(&self) -> Result<[Vec<u32>; 2]> {
        let [tail] = self.read_tail()?;
        let all = self.ids.to_vec()?;
        let places = |range: Range<u64>| {
            let at = |place| all[(place % self.places()) as usize];
            range.map(at).collect()
        };
        let head = self.head.load(Relaxed);
        Ok([places(head..self.safe), places(self.safe..tail)])
    }
}
