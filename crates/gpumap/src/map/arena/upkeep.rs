//! Getting cells, and looking after them: recycling, growing, shrinking.

use std::sync::atomic::Ordering;

use bytemuck::Pod;
use parking_lot::{RwLockReadGuard, RwLockWriteGuard};

use super::super::{Growth, Key};
use super::ArenaMap;
use super::memory::Arena;
use super::ring::Lease;
#[cfg(doc)]
use crate::error::Error as Errors;
use crate::error::{Error, Result};

/// Where the cells of a map are: for tests.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Audit {
    /// The ids of all cells.
    pub all: Vec<u32>,
    /// Those that are in slots.
    pub stored: Vec<u32>,
    /// Those that may be taken.
    pub free: Vec<u32>,
    /// Those that may be when no call is in flight.
    pub retired: Vec<u32>,
}

impl<K: Key, V: Pod + Send + Sync> ArenaMap<K, V> {
    /// Makes room for `more` pairs beyond those it has, and as many free cells. Waits for the calls in
    /// flight.
    ///
    /// # Errors
    /// [`OutOfMemory`](Errors::OutOfMemory), [`CapacityOverflow`](Errors::CapacityOverflow): the map
    /// holds what it held. [`Poisoned`](Errors::Poisoned), [`Driver`](Errors::Driver).
    pub fn reserve(&self, more: usize) -> Result<()> {
        let mut arena = self.arena.write();
        self.ids.reserve(more)?;
        self.recycle(&mut arena)?;
        let missing = more.saturating_sub(arena.ring.free());
        self.grow(&mut arena, missing)
    }

    /// Gives back the memory that the pairs it has do not need, as far as it can: that of the slots, and
    /// of cells by whole segments. A segment is what the arena was built with, or grew by at one time;
    /// it is freed if none of its cells is in use. Cells do not move. Waits for the calls in flight.
    ///
    /// # Errors
    /// [`OutOfMemory`](Errors::OutOfMemory) if there is not the memory to do it: the map holds what it
    /// held. [`Poisoned`](Errors::Poisoned), [`Driver`](Errors::Driver).
    pub fn shrink_to_fit(&self) -> Result<()> {
        let mut arena = self.arena.write();
        self.ids.shrink_to_fit()?;
        let used = self.stored_ids()?;
        let shrunk = arena.shrink(&used);
        self.cells.store(arena.cells.count(), Ordering::Release);
        shrunk
    }

    /// Cells for the pairs of a batch, and the arena, shared with other calls. If there are too few free
    /// ones, waits until no call is in flight, makes those free that were retired, and grows if need be.
    pub(super) fn take_cells(&self, cells: usize) -> Result<(RwLockReadGuard<'_, Arena>, Lease)> {
        {
            let arena = self.arena.read();
            if let Some(lease) = arena.ring.take(cells) {
                return Ok((arena, lease));
            }
        }
        let mut arena = self.arena.write();
        self.recycle(&mut arena)?;
        let missing = cells.saturating_sub(arena.ring.free());
        self.grow(&mut arena, missing)?;
        let overflow = Error::CapacityOverflow {
            elements: cells,
            element_bytes: arena.cells.stride(),
        };
        let lease = arena.ring.take(cells).ok_or(overflow)?;
        Ok((RwLockWriteGuard::downgrade(arena), lease))
    }

    /// Makes the cells free that were retired. No call is in flight. If it fails, nobody knows where
    /// the ring on the device begins.
    fn recycle(&self, arena: &mut Arena) -> Result<()> {
        self.ids.expect_sound()?;
        let recycled = arena.ring.recycle();
        if recycled.is_err() {
            self.ids.books.poisoned.store(true, Ordering::Release);
        }
        recycled
    }

    /// Adds at least `missing` cells, by the growth setting if there is the memory for so many. No call
    /// is in flight.
    fn grow(&self, arena: &mut Arena, missing: usize) -> Result<()> {
        if missing == 0 {
            return Ok(());
        }
        let cells = arena.cells.count();
        let wanted = match self.growth {
            Growth::By(factor) => missing.max((cells as f64 * (factor - 1.0)) as usize),
            Growth::Fixed => missing,
        };
        let grown = match arena.grow(wanted) {
            Err(Error::OutOfMemory { .. } | Error::CapacityOverflow { .. }) if wanted > missing => {
                arena.grow(missing)
            }
            done => done,
        };
        self.cells.store(arena.cells.count(), Ordering::Release);
        grown
    }

    /// The ids that slots have. The caller has the arena alone.
    pub(super) fn stored_ids(&self) -> Result<Vec<u32>> {
        self.ids.retrieve_all().map(|(_, ids)| ids)
    }

    /// Every cell, by where its id is: for tests. Waits for the calls in flight.
    ///
    /// # Errors
    /// [`Driver`](Errors::Driver).
    #[doc(hidden)]
    pub fn audit(&self) -> Result<Audit> {
        let arena = self.arena.write();
        let [free, retired] = arena.ring.contents()?;
        let segments = arena.cells.segments().iter();
        Ok(Audit {
            all: segments.flat_map(|segment| segment.ids.clone()).collect(),
            stored: self.stored_ids()?,
            free,
            retired,
        })
    }
}
