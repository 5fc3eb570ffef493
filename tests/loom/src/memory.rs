//! Device memory under loom.

use std::cell::RefCell;
use std::collections::HashMap;

use gpumap_simt::atomic::Order;
use gpumap_simt::executor::Model;
use loom::sync::atomic::{AtomicUsize, Ordering, fence};
use loom::thread::{self, ThreadId};

/// What is wrong with a memory, to see that the models fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// Every access is relaxed, whatever its ordering says, and fences do nothing.
    Relaxed,
    /// A load of 16 bytes is two of 8, the upper one first.
    TornLoads,
    /// A read-modify-write is a load and a store.
    LostUpdates,
}

/// Units of 16 bytes that threads change. What the program begins with is in them; the others never
/// change and are no matter for loom.
#[derive(Clone, Debug, Default)]
pub struct Units {
    at: Vec<*mut u128>,
    /// What kernels take for the number of blocks.
    pub blocks: u32,
}

impl Units {
    /// Adds those that this memory consists of. It is used through the pointer from now on.
    pub fn add<T>(&mut self, p: *mut T, count: usize) {
        assert!(p.addr().is_multiple_of(16) && (size_of::<T>() * count).is_multiple_of(16));
        let units = size_of::<T>() * count / 16;
        self.at
            .extend((0..units).map(|i| p.cast::<u128>().wrapping_add(i)));
    }
}

/// A unit: loom says which of the values that it had a load sees.
struct Unit {
    /// How often it was written.
    version: AtomicUsize,
    values: RefCell<Vec<u128>>,
}

/// Memory whose atomics are loom's.
///
/// A unit has a number, which is what loom takes care of, and the list of its values. Every store and
/// every exchange, one that fails included, counts as a read-modify-write of the number. Loads may see
/// any value that C11 lets them see.
pub struct LoomMemory {
    units: HashMap<usize, Unit>,
    blocks: u32,
    fault: Fault,
    /// For each thread and unit how many loads in a row have seen the same.
    idle: RefCell<HashMap<(ThreadId, usize), (usize, u32)>>,
}

impl LoomMemory {
    /// To be made in each run of the model anew.
    pub fn new(units: &Units, fault: Fault) -> Self {
        let unit = |&p: &*mut u128| {
            // SAFETY: the units are there as long as the model runs, and no other thread has begun.
            let value = unsafe { p.read() };
            let unit = Unit {
                version: AtomicUsize::new(0),
                values: RefCell::new(vec![value]),
            };
            (p.addr(), unit)
        };
        Self {
            units: units.at.iter().map(unit).collect(),
            blocks: units.blocks,
            fault,
            idle: RefCell::default(),
        }
    }

    fn ordering(&self, order: Order) -> Ordering {
        match order {
            _ if self.fault == Fault::Relaxed => Ordering::Relaxed,
            Order::Relaxed => Ordering::Relaxed,
            Order::Acquire => Ordering::Acquire,
            Order::Release => Ordering::Release,
            Order::AcqRel => Ordering::AcqRel,
        }
    }

    /// A load of the number, and what it means. A thread that spins lets the others go on.
    fn load_unit(&self, at: usize, unit: &Unit, order: Order) -> u128 {
        let who = (thread::current().id(), at);
        let last = self.idle.borrow().get(&who).copied();
        if last.is_some_and(|(_, times)| times > 2) {
            thread::yield_now();
        }
        // What only reads has no use for a release.
        let version = unit.version.load(match self.ordering(order) {
            Ordering::Acquire | Ordering::AcqRel => Ordering::Acquire,
            _ => Ordering::Relaxed,
        });
        let times = match last {
            Some((seen, times)) if seen == version => times + 1,
            _ => 1,
        };
        self.idle.borrow_mut().insert(who, (version, times));
        unit.values.borrow()[version]
    }
}

impl Model for LoomMemory {
    unsafe fn load(&self, p: *const u128, order: Order) -> u128 {
        let Some(unit) = self.units.get(&p.addr()) else {
            // SAFETY: the caller's promise, and nothing writes there.
            return unsafe { p.read() };
        };
        let value = self.load_unit(p.addr(), unit, order);
        if self.fault == Fault::TornLoads {
            let low = self.load_unit(p.addr(), unit, order);
            return low as u64 as u128 | value >> 64 << 64;
        }
        value
    }

    unsafe fn update(
        &self,
        p: *mut u128,
        order: Order,
        change: &mut dyn FnMut(u128) -> Option<u128>,
    ) -> u128 {
        let unit = self.units.get(&p.addr());
        let unit = unit.expect("what changes is among the units");
        let ordering = self.ordering(order);
        let old = if self.fault == Fault::LostUpdates {
            let seen = self.load_unit(p.addr(), unit, order);
            let version = unit.version.fetch_add(1, ordering);
            assert_eq!(version + 1, unit.values.borrow().len());
            seen
        } else {
            let version = unit.version.fetch_add(1, ordering);
            let values = unit.values.borrow();
            assert_eq!(version + 1, values.len(), "an exchange sees the last value");
            values[version]
        };
        let last = unit.values.borrow().last().copied();
        let new = change(old).or(last).expect("there is a first");
        unit.values.borrow_mut().push(new);
        // SAFETY: the caller's promise; loom runs one thread at a time.
        unsafe { p.write(new) };
        old
    }

    fn fence(&self) {
        if self.fault != Fault::Relaxed {
            fence(self.ordering(Order::AcqRel));
        }
    }

    fn blocks(&self) -> u32 {
        self.blocks
    }
}
