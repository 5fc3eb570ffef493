//! The cells and the ids of those that are not in use, together: how an arena grows and shrinks.

use super::cells::{Cells, Segment};
use super::ring::Ring;
use crate::error::{Error, Result};
use crate::memory::{host_collect, host_zeroed};
use crate::stream::Stream;

/// What values lie in. Shared by the calls in flight; exclusive for all that needs `&mut`.
#[derive(Debug)]
pub(super) struct Arena {
    pub cells: Cells,
    pub ring: Ring,
    /// What its memory is ordered by. All of it is done when a method here returns.
    stream: Stream,
}

impl Arena {
    /// An arena of `cells` cells, all free, for values of `value` bytes.
    pub fn new(stream: Stream, value: usize, cells: usize) -> Result<Self> {
        let mut arena = Self {
            cells: Cells::new(&stream, value)?,
            ring: Ring::new(&stream, 0)?,
            stream,
        };
        arena.grow(cells)?;
        Ok(arena)
    }

    /// Bytes of everything.
    pub fn bytes(&self) -> u64 {
        let ring = Ring::bytes(self.cells.count()).unwrap_or(0);
        self.cells.bytes() + ring as u64
    }

    /// Bytes that it takes to add `more` cells, beyond those that there are.
    pub fn bytes_to_grow(&self, more: usize) -> Result<u64> {
        if more == 0 {
            return Ok(0);
        }
        let cells = self.cells.count().saturating_add(more);
        let bytes = self.cells.bytes_of(more)? + Ring::bytes(cells)?;
        Ok(bytes as u64 + self.cells.bytes_of_directory_with(more))
    }

    /// Adds `more` cells, all free, to a ring that was just recycled. Returns the first of their ids. If there is not
    /// the memory for them, nothing has changed.
    pub fn grow(&mut self, more: usize) -> Result<Option<u32>> {
        if more == 0 {
            return Ok(None);
        }
        let cells = self.cells.count().saturating_add(more);
        let needed = self.bytes_to_grow(more)?;
        let available = self.stream.device().available_bytes()?;
        if needed > available {
            return Err(Error::OutOfMemory { needed, available });
        }
        let segment = self.cells.new_segment(more)?;
        let directory = self.cells.directory_with(&segment)?;
        let mut ring = Ring::new(&self.stream, cells)?;
        ring.add_free_of(&self.ring)?;
        ring.add_new(segment.ids.start, segment.cells())?;
        ring.publish()?;
        tracing::debug!(cells, more, "growing the arena");
        let first = segment.ids.start;
        self.cells.add(segment, directory);
        self.ring = ring;
        Ok(Some(first))
    }

    /// Frees the segment with this first id, if all of its cells are free in a ring that was just recycled. If it
    /// fails, nothing has changed.
    pub fn release(&mut self, first: u32) -> Result<()> {
        let mut segments = self.cells.segments().iter();
        let Some(segment) = segments.find(|segment| segment.ids.start == first) else {
            return Ok(());
        };
        let (ids, cells) = (segment.ids.clone(), segment.cells());
        let [mut free, _] = self.ring.contents()?;
        let before = free.len();
        free.retain(|id| !ids.contains(id));
        if before - free.len() != cells {
            return Ok(());
        }
        let mut ring = Ring::new(&self.stream, self.cells.count() - cells)?;
        ring.add_list(&free)?;
        ring.publish()?;
        self.cells.retain(|segment| segment.ids.start != first)?;
        self.ring = ring;
        Ok(())
    }

    /// Makes all cells free. If it fails, the ring is of no use until this succeeds.
    pub fn clear(&mut self) -> Result<()> {
        self.ring.forget_all();
        for segment in self.cells.segments() {
            self.ring.add_new(segment.ids.start, segment.cells())?;
        }
        self.ring.publish()
    }

    /// Makes all cells free but those of the ids in use. If it fails, nothing has changed.
    pub fn free_all_but(&mut self, used: &[u32]) -> Result<()> {
        self.ring = self.ring_without(used, |_| true)?;
        Ok(())
    }

    /// Makes all cells free but those of the ids in use, and gives back the segments that have none of
    /// these. If it fails, nothing has changed.
    pub fn shrink(&mut self, used: &[u32]) -> Result<()> {
        let mut used = host_collect(used.iter().copied())?;
        used.sort_unstable();
        let is_used = |segment: &Segment| {
            let first = used.partition_point(|&id| id < segment.ids.start);
            used.get(first).is_some_and(|id| segment.ids.contains(id))
        };
        if self.cells.segments().iter().all(is_used) {
            return self.free_all_but(&used);
        }
        let ring = self.ring_without(&used, is_used)?;
        self.cells.retain(is_used)?;
        self.ring = ring;
        Ok(())
    }

    /// A ring of all ids but the ones in use, in the segments that are wanted.
    fn ring_without(&self, used: &[u32], wanted: impl Fn(&Segment) -> bool) -> Result<Ring> {
        let segments = || self.cells.segments().iter().filter(|s| wanted(s));
        let end = segments().map(|segment| segment.ids.end).max();
        let mut is_used = host_zeroed::<u8>(end.unwrap_or(0) as usize)?;
        for &id in used {
            is_used[id as usize] = 1;
        }
        let free = segments()
            .flat_map(|segment| segment.ids.clone())
            .filter(|&id| is_used[id as usize] == 0);
        let free = host_collect(free)?;
        let mut ring = Ring::new(&self.stream, segments().map(Segment::cells).sum())?;
        ring.add_list(&free)?;
        ring.publish()?;
        Ok(ring)
    }
}
