//! The layout `Cells`: values that are too large for a slot, or not aligned as one.
//!
//! | module | idea |
//! |---|---|
//! | `cells` | where values lie: segments that never move |
//! | `ring` | which cells are free: taken at one end, given back at the other |
//! | `memory` | both together, growing and shrinking |
//! | `gate` | upserts and removals do not meet |
//! | `storage` | what all layouts do; lookups are queued on streams, and captured by graphs |
//!
//! The other modules are the verbs. A table beneath has the keys, and for each the id of a cell.
//!
//! # Invariants
//! - Every id is in exactly one of: a slot, the ring, a call in flight. A call that takes an id out of
//!   a slot owns it and appends it to the ring, as does a call whose id reaches no slot.
//! - A cell that a slot has led to is not written until no call is in flight, so every call that found
//!   its id may read it. Lookups on streams are in flight in the state of the map beneath, and what has the arena
//!   [alone](Core::alone) has waited for them.
//!
//! Locks are taken in this order: the gate, the arena, the table beneath.

mod cells;
mod gate;
mod look_up;
mod memory;
mod remove;
mod retain;
mod ring;
mod storage;
mod store;
#[cfg(test)]
mod tests;
mod upkeep;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

pub(crate) use cells::Copying;
#[cfg(feature = "unstable-testing")]
#[doc(hidden)]
pub use upkeep::Audit;

use super::command::{Batch, Kind, Outputs};
use super::{Growth, Pair};
use crate::error::Result;
use crate::lock::Lock;
use crate::op::VALUES;
use crate::stream::{LaunchOn, Stream};
use gate::Gate;
use memory::Arena;

/// The memory of a [`Map`](super::Map) of the layout [`Cells`](super::Layout::Cells), without the types of its keys and values.
#[derive(Debug)]
pub(crate) struct Core {
    /// The keys, and for each the id of its value's cell. Before the arena: dropped first, after waiting for calls in flight.
    pub ids: super::Core,
    /// Bytes of a value.
    value: usize,
    arena: Lock<Arena>,
    gate: Gate,
    /// How many cells there are, readable without the lock.
    cells: AtomicUsize,
    growth: Growth,
    /// See [`order`](Self::order).
    order: Arc<AtomicU64>,
}

impl Core {
    /// One with a map of ids, and cells of values of so many bytes.
    pub fn new(ids: super::Core, value: usize, growth: Growth) -> Result<Self> {
        let cells = ids.capacity();
        let arena = Arena::new(Stream::of_calls(ids.device())?, value, cells)?;
        Ok(Self {
            ids,
            value,
            arena: Lock::new(arena),
            gate: Gate::default(),
            cells: cells.into(),
            growth,
            order: Arc::default(),
        })
    }

    /// The same, which grows in some other way.
    pub fn set_growth(&mut self, growth: Growth) {
        self.growth = growth;
        self.ids.growth = growth;
    }

    /// How it grows.
    pub fn growth(&self) -> Growth {
        self.growth
    }

    /// Bytes of a key, and of an id.
    pub const fn pair_of_ids(key: usize) -> Pair {
        let value = size_of::<u32>();
        Pair { key, value }
    }

    /// Runs an operation that has been checked. Returns what it counts.
    pub fn run(&self, batch: &Batch<'_>, outputs: Outputs<'_>) -> Result<usize> {
        if batch.kind == Kind::Get && !outputs.told()[VALUES] {
            // No cell is looked at.
            return self.ids.run(batch, outputs);
        }
        if batch.kind.changes() {
            self.arena.expect_no_callback()?;
        }
        outputs.through_arrays(batch.keys.len(), |arrays| match batch.kind {
            kind if kind.traits().takes_values => self.store(*batch, arrays),
            kind if kind.traits().removes => self.take_away(batch.keys, arrays),
            _ => self.look_up(batch.keys, arrays).map(|()| 0),
        })
    }
}

impl Core {
    /// To be called between writing cells and storing their ids, and between finding ids and reading
    /// their cells.
    ///
    /// On a GPU the ends of kernels put these in order. On the CPU a thread that finds an id in a slot,
    /// by a relaxed load, has not synchronised with the one that wrote the cell. Calls pass here one
    /// after the other: had the reader passed before the writer, then its load would have come before
    /// the store as well, and it could not have found the id.
    fn order(&self) {
        self.order.fetch_add(1, Ordering::AcqRel);
    }

    /// The same between what is launched before, and after.
    fn order_on(&self, on: LaunchOn<'_>) -> Result<()> {
        let order = Arc::clone(&self.order);
        on.then_on_cpu(move || {
            order.fetch_add(1, Ordering::AcqRel);
        })
    }
}
