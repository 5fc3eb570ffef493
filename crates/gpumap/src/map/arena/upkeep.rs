//! Getting cells, and looking after them: recycling, growing, shrinking.

use std::sync::atomic::Ordering;

use super::super::{Growth, Storage};
use super::Core;
use super::memory::Arena;
use super::ring::Lease;
#[cfg(doc)]
use crate::error::Error as Errors;
use crate::error::{Error, Result};
use crate::lock::{ReadGuard, WriteGuard};
use crate::primitives::Order;

/// Where the cells of a map are: for tests.
#[cfg(feature = "unstable-testing")]
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
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

/// Cells for a batch.
pub(super) struct Taken<'m> {
    /// Shared with other calls.
    pub arena: ReadGuard<'m, Arena>,
    pub lease: Lease,
    /// What was added for it.
    pub grown: Option<Grown>,
}

/// Cells that were added.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grown {
    /// The first of their ids.
    first: u32,
    /// Bytes that it took at least.
    pub bytes: u64,
}

/// # Capacity
impl Core {
    /// Makes room for `more` pairs beyond those it has, and as many free cells. Waits for the calls in
    /// op.
    ///
    /// # Errors
    /// [`OutOfMemory`](Errors::OutOfMemory), [`CapacityOverflow`](Errors::CapacityOverflow): the map
    /// holds what it held. [`Poisoned`](Errors::Poisoned), [`Driver`](Errors::Driver).
    pub fn reserve(&self, more: usize) -> Result<()> {
        let mut arena = self.alone()?;
        let before = self.ids.table.read().shape.clone();
        self.ids.reserve(more)?;
        let grown = self.recycle(&mut arena).and_then(|()| {
            let missing = more.saturating_sub(arena.ring.free());
            self.grow(&mut arena, missing)
        });
        grown.map(drop).map_err(|error| {
            // No other call has used the slots: all calls that store share the arena.
            let Ok(mut table) = self.ids.exclusive() else {
                return error;
            };
            let taken = table.shape.bytes().saturating_sub(before.bytes());
            self.ids.give_back(&mut table, before);
            drop(table);
            self.ids.scratch.freed(error.of_batch_with(taken))
        })
    }

    /// Gives back the memory that the pairs it has do not need, as far as it can: that of the slots, and
    /// of cells by whole segments. A segment is what the arena was built with, or grew by at one time;
    /// it is freed if none of its cells is in use. Cells do not move. Waits for the calls in flight.
    ///
    /// # Errors
    /// [`OutOfMemory`](Errors::OutOfMemory) if there is not the memory to do it: the map holds what it
    /// held. [`Poisoned`](Errors::Poisoned), [`Driver`](Errors::Driver).
    pub fn shrink_to_fit(&self) -> Result<()> {
        let mut arena = self.alone()?;
        self.ids.shrink_to_fit()?;
        let used = self.stored_ids()?;
        let shrunk = arena.shrink(&used);
        self.cells.store(arena.cells.count(), Ordering::Release);
        shrunk
    }

    /// The arena alone: no call is in flight, and none begins.
    ///
    /// # Errors
    /// [`Error::Driver`] if the driver refuses to wait for calls in flight.
    pub(super) fn alone(&self) -> Result<WriteGuard<'_, Arena>> {
        self.ids.state.alone(&self.arena)
    }

    /// Cells for the pairs of a batch. If there are too few free ones, waits until no call is in flight, makes those
    /// free that were retired, and grows if need be.
    pub(super) fn take_cells(&self, cells: usize) -> Result<Taken<'_>> {
        {
            let arena = self.arena.read();
            if let Some(lease) = arena.ring.take(cells) {
                return Ok(Taken {
                    arena,
                    lease,
                    grown: None,
                });
            }
        }
        let mut arena = self.alone()?;
        self.recycle(&mut arena)?;
        let missing = cells.saturating_sub(arena.ring.free());
        let grown = self.grow(&mut arena, missing).map_err(|error| {
            // The slots come later. All keys may be new.
            let slots = self
                .ids
                .bytes_to_store(&self.ids.table.read(), cells, cells);
            let bytes = arena.bytes_to_grow(missing).unwrap_or(u64::MAX);
            error.of_batch_of(bytes.saturating_add(slots))
        })?;
        let overflow = Error::CapacityOverflow {
            elements: cells,
            element_bytes: arena.cells.stride(),
        };
        let lease = arena.ring.take(cells).ok_or(overflow)?;
        Ok(Taken {
            arena: arena.downgrade(),
            lease,
            grown,
        })
    }

    /// Gives back the memory of cells that were added for a batch which was refused, unless other calls have taken
    /// some meanwhile. Waits for the calls in flight.
    pub(super) fn release_cells(&self, grown: Grown) {
        let released = self.alone().and_then(|mut arena| {
            let recycled = self.recycle(&mut arena);
            let released = recycled.and_then(|()| arena.release(grown.first));
            self.cells.store(arena.cells.count(), Ordering::Release);
            released
        });
        if let Err(error) = released {
            tracing::debug!(%error, "cells of a refused batch stay");
        }
    }

    /// Makes the cells free that were retired. No call is in flight. If it fails, it is unknown where
    /// the ring on the device begins.
    fn recycle(&self, arena: &mut Arena) -> Result<()> {
        self.ids.expect_sound()?;
        let recycled = arena.ring.recycle();
        if recycled.is_err() {
            self.ids.state.poisoned.store(true, Ordering::Release);
        }
        recycled
    }

    /// Adds at least `missing` cells, by the growth setting if there is the memory for so many. No call
    /// is in flight.
    fn grow(&self, arena: &mut Arena, missing: usize) -> Result<Option<Grown>> {
        if missing == 0 {
            return Ok(None);
        }
        let bytes = arena.bytes_to_grow(missing)?;
        let cells = arena.cells.count();
        let wanted = match self.growth {
            Growth::By(factor) => missing.max((cells as f64 * (factor - 1.0)) as usize),
            Growth::Fixed => missing,
        };
        let mut grown = arena.grow(wanted);
        if matches!(
            grown,
            Err(Error::OutOfMemory { .. } | Error::CapacityOverflow { .. })
        ) {
            // What earlier calls have left for later ones.
            self.ids.scratch.trim();
            grown = arena.grow(missing);
        }
        self.cells.store(arena.cells.count(), Ordering::Release);
        Ok(grown?.map(|first| Grown { first, bytes }))
    }

    /// The ids that slots have. The caller has the arena alone.
    pub(super) fn stored_ids(&self) -> Result<Vec<u32>> {
        let ids: &dyn Storage = &self.ids;
        match self.ids.pair.key {
            4 => ids.retrieve_all::<u32, _>(Order::Any).map(|(_, ids)| ids),
            _ => ids.retrieve_all::<u64, _>(Order::Any).map(|(_, ids)| ids),
        }
    }

    /// Every cell, by where its id is: for tests. Waits for the calls in flight.
    ///
    /// # Errors
    /// [`Driver`](Errors::Driver).
    #[cfg(feature = "unstable-testing")]
    #[doc(hidden)]
    pub fn audit(&self) -> Result<Audit> {
        let arena = self.alone()?;
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
