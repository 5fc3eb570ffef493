//! Calls in flight, and what needs the table alone: `flight.rs`, `lock.rs` and `room.rs` of `gpumap` as
//! they are, compiled against loom's locks and atomics and a device of loom's threads.
//!
//! What is modelled by hand are the few lines that put them together: `Map::exclusive` and `Map::books`
//! of `map/mod.rs`, `OnStream::store` of `map/on_stream.rs`, `Map::rebuild` of `map/grow.rs`.

mod device;

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
        },
        OutputTooSmall,
    }
    pub type Result<T, E = Error> = std::result::Result<T, E>;

    pub fn expect_room(needed: usize, given: usize) -> Result<()> {
        (needed <= given).then_some(()).ok_or(Error::OutputTooSmall)
    }
}

#[allow(dead_code, reason = "the models do not use all of it")]
#[path = "../../../../crates/gpumap/src/map/flight.rs"]
mod flight;
#[allow(dead_code, reason = "the models do not use all of it")]
#[path = "../../../../crates/gpumap/src/lock.rs"]
mod lock;
#[allow(dead_code, reason = "the models do not use all of it")]
#[path = "../../../../crates/gpumap/src/room.rs"]
mod room;

use std::rc::Rc;
use std::sync::Arc;

use device::{Device, Stream};
use flight::{Books, Effect, Flight, Flights};
use gpumap_loom::explore;
use lock::Lock;
use loom::cell::UnsafeCell;
use loom::thread;
use room::{Promise, Room};
use sync::{AtomicBool, AtomicUsize, Ordering};

/// The slabs: kernels look at them, and who replaces them has them alone. Loom sees to that.
#[derive(Clone)]
struct Table(Rc<UnsafeCell<u32>>);

/// The fields of a map that matter here.
struct Map {
    flights: Flights,
    table: Lock<Table>,
    room: Room,
    slots: AtomicUsize,
    poisoned: AtomicBool,
}

impl Map {
    fn new(capacity: usize) -> Rc<Self> {
        Rc::new(Self {
            flights: Flights::new(&Device),
            table: Lock::new(Table(Rc::new(UnsafeCell::new(0)))),
            room: Room::new(capacity),
            slots: AtomicUsize::new(capacity),
            poisoned: AtomicBool::new(false),
        })
    }

    fn books(&self) -> Books<'_> {
        Books {
            room: &self.room,
            slots: &self.slots,
            poisoned: &self.poisoned,
            flights: &self.flights,
        }
    }

    /// Queues a kernel that stores `stored` of the pairs that it was promised room for.
    fn depart(&self, table: &Table, promise: Promise<'_>, stored: u64) -> Arc<Flight> {
        let table = table.clone();
        let stream = Stream::new(&Device).unwrap();
        let depart = |counters: gpumap_kernels::count::Counters| {
            let mirror = counters.mirror.addr();
            stream.launch(move || {
                table.0.with(|slabs| {
                    // SAFETY: loom finds whoever writes meanwhile.
                    assert!(unsafe { *slabs } < 10);
                });
                let mirror = std::ptr::with_exposed_provenance_mut::<u64>(mirror);
                // SAFETY: two words of the ticket, which is this launch's.
                unsafe {
                    mirror.write(stored);
                    mirror.add(1).write(0);
                }
            });
            Ok(())
        };
        let flight = self
            .books()
            .depart(&stream, Effect::Store { keys: 1 }, depart);
        promise.hand_over();
        flight.unwrap()
    }

    /// `OnStream::store`, of a batch of one pair; nothing if there is no room.
    fn store(&self, stored: u64) -> Option<Arc<Flight>> {
        let table = self.table.read();
        let promise = self.room.promise(1).or_else(|| {
            self.books().land_ended();
            self.room.promise(1)
        });
        Some(self.depart(&table, promise?, stored))
    }

    /// `Map::exclusive` and `Map::rebuild`: replaces the slabs.
    fn grow(&self) {
        let table = self.table.write();
        self.books().land_all();
        replace(&table);
        self.room.rebuilt(self.room.len(), 2 * self.room.capacity());
    }
}

fn replace(table: &Table) {
    table.0.with_mut(|slabs| {
        // SAFETY: loom finds whoever looks meanwhile.
        unsafe { *slabs += 1 };
    });
}

/// Growth waits for the kernels in flight, and knows what they have stored.
#[test]
fn growth_waits_for_flights() {
    explore(2, || {
        let map = Map::new(2);
        let grower = {
            let map = map.clone();
            thread::spawn(move || map.grow())
        };
        let flight = map.store(1).expect("there is room");
        map.books().land(&flight);
        assert_eq!(flight.take().unwrap(), 1);
        grower.join().unwrap();
        assert_eq!((map.room.len(), map.room.used()), (1, 1));
    });
}

/// Growth in the middle of two calls: nothing is counted twice or not at all.
#[test]
fn growth_between_two_calls() {
    explore(1, || {
        let map = Map::new(2);
        let other = {
            let map = map.clone();
            thread::spawn(move || drop(map.store(1).expect("there is room")))
        };
        drop(map.store(0).expect("there is room"));
        map.grow();
        other.join().unwrap();
        map.books().land_all();
        assert_eq!((map.room.len(), map.room.used()), (1, 1));
    });
}

/// Whoever waits for a call, and whoever asks how many pairs there are, count it once together; and
/// its ticket is not used again before both are done with it.
#[test]
fn a_flight_lands_once() {
    explore(2, || {
        let map = Map::new(2);
        let first = map.store(1).expect("there is room");
        let waiter = {
            let (map, first) = (map.clone(), first.clone());
            thread::spawn(move || map.books().land(&first))
        };
        map.books().land(&first);
        assert_eq!(first.take().unwrap(), 1);
        let second = map.store(0).expect("there is room");
        waiter.join().unwrap();
        map.books().land(&second);
        assert_eq!(second.take().unwrap(), 0);
        assert_eq!((map.room.len(), map.room.used()), (1, 1));
    });
}

/// Two calls and room for one pair: they are not promised the same room, and the room that one did
/// not need the other gets.
#[test]
fn room_is_promised_once() {
    explore(3, || {
        let room = Arc::new(Room::new(1));
        let used = Arc::new(AtomicUsize::new(0));
        let call = |room: &Room, used: &AtomicUsize| {
            let promise = room.promise(1)?;
            assert_eq!(used.fetch_add(1, Ordering::AcqRel), 0, "two have one room");
            used.fetch_sub(1, Ordering::AcqRel);
            promise.keep(0);
            Some(())
        };
        let other = {
            let (room, used) = (room.clone(), used.clone());
            thread::spawn(move || call(&room, &used))
        };
        let mine = call(&room, &used);
        let theirs = other.join().unwrap();
        assert!(mine.is_some() || theirs.is_some(), "nobody has the room");
        assert_eq!((room.len(), room.used()), (0, 0));
    });
}

/// Bugs that loom has to find.
mod planted {
    use super::*;

    #[test]
    #[should_panic(expected = "Causality violation")]
    fn growth_does_not_wait() {
        explore(2, || {
            let map = Map::new(2);
            let grower = {
                let map = map.clone();
                thread::spawn(move || replace(&map.table.write()))
            };
            let flight = map.store(1).expect("there is room");
            map.books().land(&flight);
            grower.join().unwrap();
        });
    }

    #[test]
    #[should_panic(expected = "Causality violation")]
    fn a_call_departs_after_its_lock() {
        explore(2, || {
            let map = Map::new(2);
            let grower = {
                let map = map.clone();
                thread::spawn(move || map.grow())
            };
            let table = map.table.read().clone();
            let promise = map.room.promise(1).expect("there is room");
            let flight = map.depart(&table, promise, 1);
            map.books().land(&flight);
            grower.join().unwrap();
        });
    }

    #[test]
    #[should_panic(expected = "left: (0, 0)")]
    fn growth_counts_before_it_waits() {
        explore(2, || {
            let map = Map::new(2);
            let grower = {
                let map = map.clone();
                thread::spawn(move || {
                    let table = map.table.write();
                    let len = map.room.len();
                    map.books().land_all();
                    replace(&table);
                    map.room.rebuilt(len, 4);
                })
            };
            let flight = map.store(1).expect("there is room");
            map.books().land(&flight);
            grower.join().unwrap();
            assert_eq!((map.room.len(), map.room.used()), (1, 1));
        });
    }

    #[test]
    #[should_panic(expected = "two have one room")]
    fn room_is_looked_at_and_then_taken() {
        explore(3, || {
            let spoken_for = Arc::new(AtomicUsize::new(0));
            let used = Arc::new(AtomicUsize::new(0));
            let call = |spoken_for: &AtomicUsize, used: &AtomicUsize| {
                if spoken_for.load(Ordering::Acquire) < 1 {
                    spoken_for.fetch_add(1, Ordering::AcqRel);
                    assert_eq!(used.fetch_add(1, Ordering::AcqRel), 0, "two have one room");
                    used.fetch_sub(1, Ordering::AcqRel);
                    spoken_for.fetch_sub(1, Ordering::AcqRel);
                }
            };
            let other = {
                let (spoken_for, used) = (spoken_for.clone(), used.clone());
                thread::spawn(move || call(&spoken_for, &used))
            };
            call(&spoken_for, &used);
            other.join().unwrap();
        });
    }
}
