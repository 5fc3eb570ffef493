//! Which lane runs next: the policy, the set of lanes that can run, and the random numbers.

use std::cell::Cell;

/// The order in which the executor runs lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Schedule {
    /// First in, first out; one block at a time on each worker; a lane keeps running until it waits
    /// for others. The fast one.
    #[default]
    RoundRobin,
    /// Everything on the calling thread, several blocks at once; each step runs a lane drawn at
    /// random, and every atomic may hand over to another lane. One seed gives one interleaving,
    /// always the same.
    Random {
        /// Picks the interleaving.
        seed: u64,
    },
}

/// A lane of a resident block: the block's slot and the thread in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry(u32);

impl Entry {
    #[inline]
    pub(super) fn new(slot: u32, thread: u32) -> Self {
        Self(slot << 16 | thread)
    }

    #[inline]
    pub(super) fn slot(self) -> usize {
        (self.0 >> 16) as usize
    }

    #[inline]
    pub(super) fn thread(self) -> usize {
        (self.0 & 0xffff) as usize
    }
}

/// The lanes that can run. A ring: every lane is in it at most once, so it never overflows.
pub(super) struct Ready {
    ring: Box<[Cell<Entry>]>,
    head: Cell<usize>,
    tail: Cell<usize>,
}

impl Ready {
    /// Room for `lanes` lanes.
    pub(super) fn new(lanes: usize) -> Self {
        Self {
            ring: vec![Cell::new(Entry(0)); lanes.next_power_of_two()].into_boxed_slice(),
            head: Cell::new(0),
            tail: Cell::new(0),
        }
    }

    pub(super) fn clear(&self) {
        self.head.set(self.tail.get());
    }

    #[inline]
    fn cell(&self, at: usize) -> &Cell<Entry> {
        &self.ring[at & (self.ring.len() - 1)]
    }

    #[inline]
    pub(super) fn push(&self, entry: Entry) {
        let tail = self.tail.get();
        debug_assert!(tail.wrapping_sub(self.head.get()) < self.ring.len());
        self.cell(tail).set(entry);
        self.tail.set(tail.wrapping_add(1));
    }

    /// The lane that has waited longest.
    #[inline]
    pub(super) fn pop(&self) -> Option<Entry> {
        let head = self.head.get();
        if head == self.tail.get() {
            return None;
        }
        self.head.set(head.wrapping_add(1));
        Some(self.cell(head).get())
    }

    /// Any lane, all equally likely.
    pub(super) fn pop_random(&self, random: &Random) -> Option<Entry> {
        let head = self.head.get();
        let len = self.tail.get().wrapping_sub(head);
        if len == 0 {
            return None;
        }
        self.cell(head)
            .swap(self.cell(head.wrapping_add(random.below(len))));
        self.pop()
    }
}

/// SplitMix64: one word of state, good enough to pick lanes, and the same on every machine.
pub(super) struct Random(Cell<u64>);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(Cell::new(seed))
    }

    pub(super) fn reseed(&self, seed: u64) {
        self.0.set(seed);
    }

    pub(super) fn next(&self) -> u64 {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `n`.
    fn below(&self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    pub(super) fn coin(&self) -> bool {
        self.next() >> 63 != 0
    }
}
