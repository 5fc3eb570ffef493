//! [`Table`]: the right side of joins, without the type of its keys.

use std::ptr;

use gpumap_kernels::rows::{
    ANTI, INNER, JOIN_COUNT, JOIN_PLACE, JOIN_TICKETS, JOIN_WRITE, JoinCountArgs, JoinPlaceArgs,
    JoinSides, JoinTicketsArgs, JoinWriteArgs, LEFT, SEMI, SHARE, STRIP, THREADS,
};
use gpumap_simt::kernel::Grid;
use gpumap_simt::warp;

use crate::array::Array;
use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::Result;
use crate::map::random_seed;
use crate::primitives::queue_exclusive_sum;
use crate::rows::{self, Keys, Told, grid};
use crate::scratch::{ScratchPool, ScratchRole, Workspace};
use crate::stream::Stream;

/// Which pairs a join has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Kind {
    Inner = INNER,
    Left = LEFT,
    Semi = SEMI,
    Anti = ANTI,
}

impl Kind {
    /// Whether its results are pairs, and not places of the left side alone.
    pub fn has_right(self) -> bool {
        matches!(self, Self::Inner | Self::Left)
    }
}

/// Places sorted by row.
#[derive(Debug)]
struct Sorted {
    /// For each row where its places begin, and the end.
    offsets: Buffer<u32>,
    places: Buffer<u32>,
}

/// The keys of a right side as rows, and the places of each row. Nothing changes it.
#[derive(Debug)]
pub(super) struct Table {
    rows: rows::Core,
    /// None if all keys differ: then rows are places.
    sorted: Option<Sorted>,
    len: usize,
}

impl Table {
    pub fn new(device: &Device, keys: Array<'_>, key_bytes: usize) -> Result<Self> {
        let rows = rows::Core::new(device, key_bytes, 0, random_seed())?;
        let len = keys.len();
        let sorted = match len {
            0 => None,
            _ => Self::sort(&rows, keys)?,
        };
        rows.scratch.trim();
        Ok(Self { rows, sorted, len })
    }

    /// Gives keys rows, and sorts their places by row unless all of them differ.
    fn sort(rows: &rows::Core, keys: Array<'_>) -> Result<Option<Sorted>> {
        let n = keys.len();
        // Freed after what is queued has ended: that is when the workspace goes back.
        let mut sorted;
        let mut scratch = rows.scratch.take()?;
        let row_of: *mut u32 = scratch.reserve(ScratchRole::SecondOutput, n)?;
        // SAFETY: what is queued has ended when this returns.
        let keys = unsafe { Keys::stage(&mut scratch, keys, rows.key_bytes) }?;
        let told = Told {
            rows: row_of,
            ..Told::NOTHING
        };
        let groups = rows.insert_staged(&mut scratch, keys, told, |_, _| Ok(()))?;
        if groups == n {
            return Ok(None);
        }
        let stream = Stream::new(&rows.device)?;
        sorted = Sorted {
            offsets: Buffer::unwritten(&stream, groups + 1)?,
            places: Buffer::unwritten(&stream, n)?,
        };
        stream.synchronize()?;
        let offsets = sorted.offsets.as_mut_ptr();
        let tickets = JoinTicketsArgs {
            rows: row_of,
            n: n as u64,
            counts: offsets,
            tickets: scratch.reserve(ScratchRole::ThirdOutput, n)?,
        };
        let place = JoinPlaceArgs {
            rows: row_of,
            tickets: tickets.tickets,
            n: n as u64,
            offsets,
            places: sorted.places.as_mut_ptr(),
        };
        // SAFETY: room for all rows and places; nothing else uses the buffers.
        unsafe {
            let bytes = (groups + 1) * size_of::<u32>();
            scratch.stream().fill(offsets.cast(), 0, bytes)?;
            JOIN_TICKETS.launch(scratch.stream(), grid(n), tickets)?;
            queue_exclusive_sum(&mut scratch, offsets, groups + 1)?;
            JOIN_PLACE.launch(scratch.stream(), grid(n), place)?;
        }
        scratch.wait()?;
        Ok(Some(sorted))
    }

    /// How many keys there are, counted as often as they come.
    pub fn len(&self) -> usize {
        self.len
    }

    /// How many different keys there are.
    pub fn distinct(&self) -> usize {
        self.rows.len()
    }

    pub fn device(&self) -> &Device {
        &self.rows.device
    }

    pub fn scratch(&self) -> &ScratchPool {
        &self.rows.scratch
    }

    /// Joins a batch, and queues writing what it finds to where `place` says when it is told how much that is. Returns that.
    pub fn probe(
        &self,
        scratch: &mut Workspace,
        left: Array<'_>,
        kind: Kind,
        place: &mut dyn FnMut(&mut Workspace, usize) -> Result<(*mut u32, *mut u32)>,
    ) -> Result<usize> {
        let n = left.len();
        if n == 0 {
            place(scratch, 0)?;
            return Ok(0);
        }
        // SAFETY: the workspace waits for its stream before the caller's call returns.
        let keys = unsafe { Keys::stage(scratch, left, self.rows.key_bytes) }?;
        let rows: *mut u32 = scratch.reserve(ScratchRole::Ids, n)?;
        self.rows.get_staged(scratch, keys, rows)?;
        let (offsets, places) = match &self.sorted {
            Some(sorted) => (sorted.offsets.as_ptr(), sorted.places.as_ptr()),
            None => (ptr::null(), ptr::null()),
        };
        let sides = JoinSides {
            rows,
            n: n as u64,
            offsets,
            places,
            kind: kind as u32,
        };
        let strips = n.div_ceil(STRIP as usize);
        let counts: *mut u64 = scratch.reserve(ScratchRole::Held, strips + 1)?;
        let count = JoinCountArgs {
            sides,
            counts,
            strips: strips as u64,
        };
        scratch.reset_counters()?;
        let counter = scratch.counters();
        // SAFETY: a count for each strip and one more; a counter has room for it.
        unsafe {
            JOIN_COUNT.launch(scratch.stream(), warps(strips as u64 + 1), count)?;
            queue_exclusive_sum(scratch, counts, strips + 1)?;
            let all = counts.wrapping_add(strips).cast();
            scratch
                .stream()
                .copy(counter.cast(), all, size_of::<u64>())?;
        }
        let found = scratch.read_counters()?[0];
        let (left, right) = place(scratch, usize::try_from(found).unwrap_or(usize::MAX))?;
        if found != 0 {
            let args = JoinWriteArgs {
                sides,
                before: counts,
                strips: strips as u64,
                left,
                right,
            };
            let all = strips as u64 * u64::from(STRIP) + found;
            // SAFETY: room for all pairs.
            unsafe { JOIN_WRITE.launch(scratch.stream(), warps(all.div_ceil(SHARE)), args) }?;
        }
        Ok(found as usize)
    }
}

/// So many warps.
fn warps(n: u64) -> Grid {
    Grid::covering(n.saturating_mul(u64::from(warp::SIZE)), THREADS)
}
