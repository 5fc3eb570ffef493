//! Calls in flight, and what needs the table alone: `in_flight/`, `lock.rs` and `occupancy.rs` of `gpumap`
//! as they are, compiled against loom's locks and atomics and a device of loom's threads.
//!
//! What is modelled by hand are the few lines that put them together: the fields of `Map` in `map/mod.rs`,
//! `Core::queue` of `map/on_stream/of_map.rs`, `Map::rebuild` of
//! `map/grow.rs`, `Map::alone_to_build` of `map/bulk/build.rs`.

mod building;
mod counted;
mod device;
mod growth;
mod reservations;

/// What the library calls its modules.
mod sync {
    pub use gpumap_loom::sync::*;
}
mod buffer {
    pub use crate::device::{Buffer, PinnedBuffer};
}
mod event {
    pub use crate::device::{Event, Timing};
}
mod stream {
    pub use crate::device::Stream;

    /// No launch of a model fails.
    pub fn launches_started() -> u64 {
        0
    }
}
mod error {
    /// As much as calls in flight know of them.
    #[allow(dead_code, reason = "its fields are for people to read")]
    #[derive(Debug)]
    pub enum Error {
        Kernel(()),
        Driver {
            code: i32,
        },
        Full {
            len: usize,
            slots: usize,
            batch: usize,
            unplaced: usize,
            partial: bool,
            growth: Option<Box<Self>>,
        },
        OutputTooSmall,
        Nested,
        OutOfMemory {
            needed: u64,
            available: u64,
        },
    }
    impl Error {
        /// No model has graph captures.
        pub fn is_refusal(&self) -> bool {
            false
        }
    }
    pub type Result<T, E = Error> = std::result::Result<T, E>;

    pub fn expect_room(needed: usize, given: usize) -> Result<()> {
        (needed <= given).then_some(()).ok_or(Error::OutputTooSmall)
    }
}

mod command {
    /// No model looks strings up.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct StringLayout;
}
mod strings {
    pub fn expect_strings(
        _: crate::command::StringLayout,
        _: [u64; 2],
    ) -> crate::error::Result<()> {
        Ok(())
    }
}

#[allow(dead_code, reason = "the models do not use all of it")]
#[path = "../../../../crates/gpumap/src/map/in_flight/mod.rs"]
mod in_flight;
#[allow(dead_code, reason = "the models do not use all of it")]
#[path = "../../../../crates/gpumap/src/lock.rs"]
mod lock;
#[allow(dead_code, reason = "the models do not use all of it")]
#[path = "../../../../crates/gpumap/src/occupancy.rs"]
mod occupancy;
#[path = "../../../../crates/gpumap/src/readers.rs"]
mod readers;
#[path = "../../../../crates/gpumap/src/spread.rs"]
mod spread;
#[allow(dead_code, reason = "no model has wakers")]
#[path = "../../../../crates/gpumap/src/map/wakers.rs"]
mod wakers;

use std::rc::Rc;
use std::sync::Arc;

use device::{Device, Stream};
use in_flight::{Effect, OwnState, PendingOp};
use lock::{Lock, WriteGuard};
use loom::cell::UnsafeCell;
use occupancy::Reservation;

/// The slabs: kernels read them, and a call that replaces them has them alone. Loom checks that.
#[derive(Clone)]
struct Table(Rc<UnsafeCell<u32>>);

/// The fields of a map that matter here.
struct Map {
    state: OwnState,
    table: Lock<Table>,
}

impl Map {
    fn new(capacity: usize) -> Rc<Self> {
        Rc::new(Self {
            state: OwnState::new(&Device, capacity, capacity),
            table: Lock::new(Table(Rc::new(UnsafeCell::new(0)))),
        })
    }

    /// Queues a kernel that stores `stored` of the pairs that it has reserved room for.
    fn submit(&self, table: &Table, reservation: Reservation<'_>, stored: u64) -> Arc<PendingOp> {
        let table = table.clone();
        let stream = Stream::new(&Device).unwrap();
        let submit = |counters: gpumap_kernels::count::Counters| {
            let mirror = counters.mirror.addr();
            stream.launch(move || {
                table.0.with(|slabs| {
                    // SAFETY: loom finds a write meanwhile.
                    assert!(unsafe { *slabs } < 10);
                });
                let mirror = std::ptr::with_exposed_provenance_mut::<u64>(mirror);
                // SAFETY: two words of the completion, which is this launch's.
                unsafe {
                    mirror.write(stored);
                    mirror.add(1).write(0);
                }
            });
            Ok(())
        };
        let op = self
            .state
            .submit(&stream, Effect::Store { keys: 1 }, submit);
        reservation.keep_in_flight();
        op.unwrap()
    }

    /// `Core::queue`, of a batch of one pair; nothing if there is no room.
    fn store(&self, stored: u64) -> Option<Arc<PendingOp>> {
        let table = self.table.read();
        let reservation = self.state.occupancy.reserve_pairs(1).or_else(|| {
            self.state.retire_ended();
            self.state.occupancy.reserve_pairs(1)
        });
        Some(self.submit(&table, reservation?, stored))
    }

    /// `Map::rebuild`, with the table alone: replaces the slabs.
    fn grow(&self) {
        let table = self.state.alone(&self.table).unwrap();
        replace(&table);
        self.state.occupancy.rebuilt(
            self.state.occupancy.len(),
            2 * self.state.occupancy.capacity(),
        );
    }

    /// `Map::alone_to_build`: the table, if it is to be had without waiting.
    fn alone(&self) -> Option<WriteGuard<'_, Table>> {
        let table = self.table.try_write()?;
        self.state.all_retired().then_some(table)
    }

    /// `Map::store_all` of a large batch: makes the pages of an empty map, of two pairs. Says
    /// whether it has.
    fn build(&self) -> bool {
        let Some(table) = self.alone() else {
            return false;
        };
        // As `Map::build_from` checks again.
        let is_empty = self.state.occupancy.len() == 0;
        if is_empty {
            replace(&table);
            self.state
                .occupancy
                .rebuilt(0, self.state.occupancy.capacity());
            self.state.occupancy.stored(2);
        }
        is_empty
    }
}

fn replace(table: &Table) {
    table.0.with_mut(|slabs| {
        // SAFETY: loom finds a read meanwhile.
        unsafe { *slabs += 1 };
    });
}
