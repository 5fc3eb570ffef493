//! The outcome of an operation, and where it is written: in memory, one place per operation, or in
//! the registers of the calling lane.

use crate::slot::Bits;
use gpumap_simt::layout;
use gpumap_simt::mem;

/// What became of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Outcome {
    /// The key is absent, and nothing was changed.
    Absent = 0,
    /// The key is present, and nothing was changed.
    Present = 1,
    /// The pair was stored.
    Stored = 2,
    /// A pair was taken away.
    Removed = 3,
    /// The pair was not stored: there was no room.
    Full = 4,
}

/// Where answers go.
pub trait Answers<V>: Copy {
    /// Answers operation `index`.
    ///
    /// # Safety
    /// The index is in the batch, and the outputs are as long as it.
    unsafe fn give(&mut self, index: u64, outcome: Outcome);

    /// Answers operation `index`, with a value: the one that was found, removed or counted.
    ///
    /// # Safety
    /// As for [`give`](Self::give).
    unsafe fn give_value(&mut self, index: u64, outcome: Outcome, value: V);
}

/// To memory: one place per operation.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Report<V> {
    /// One [`Outcome`] each; may be null.
    pub outcomes: *mut u8,
    /// One byte each, 1 where the pair was stored or a pair was removed, else 0; may be null.
    pub flags: *mut u8,
    /// One value each: 0 where a get found none, not written where another verb has none. May be
    /// null.
    pub values: *mut V,
}
layout!(Report<V> {
    outcomes,
    flags,
    values
});

impl<V: Bits> Answers<V> for Report<V> {
    #[inline(always)]
    unsafe fn give(&mut self, index: u64, outcome: Outcome) {
        // SAFETY: each place is written by the operation's lane only.
        unsafe {
            if !self.outcomes.is_null() {
                mem::store(self.outcomes.add(index as usize), outcome as u8);
            }
            if !self.flags.is_null() {
                let flag = matches!(outcome, Outcome::Stored | Outcome::Removed);
                mem::store(self.flags.add(index as usize), u8::from(flag));
            }
        }
    }

    #[inline(always)]
    unsafe fn give_value(&mut self, index: u64, outcome: Outcome, value: V) {
        // SAFETY: as above.
        unsafe {
            if !self.values.is_null() {
                mem::store(self.values.add(index as usize), value);
            }
            self.give(index, outcome);
        }
    }
}

/// To memory: the result of a count, one per operation.
#[derive(Clone, Copy, Debug)]
pub struct Counts(pub *mut u64);

impl<V: Bits> Answers<V> for Counts {
    #[inline(always)]
    unsafe fn give(&mut self, _: u64, _: Outcome) {}

    #[inline(always)]
    unsafe fn give_value(&mut self, index: u64, _: Outcome, count: V) {
        // SAFETY: each place is written by the operation's lane only.
        unsafe { mem::store(self.0.add(index as usize), count.to_u64()) };
    }
}

/// To the calling lane: for verbs that serve one operation.
#[derive(Clone, Copy, Debug)]
pub struct Held<V> {
    /// What became of it; [`Absent`](Outcome::Absent) before it is served.
    pub outcome: Outcome,
    /// The value, if there was one; else the default.
    pub value: V,
}

impl<V: Bits> Held<V> {
    /// Not answered yet.
    #[inline(always)]
    pub fn new() -> Self {
        Self {
            outcome: Outcome::Absent,
            value: V::default(),
        }
    }
}

impl<V: Bits> Default for Held<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V: Bits> Answers<V> for Held<V> {
    #[inline(always)]
    unsafe fn give(&mut self, _: u64, outcome: Outcome) {
        self.outcome = outcome;
    }

    #[inline(always)]
    unsafe fn give_value(&mut self, _: u64, outcome: Outcome, value: V) {
        *self = Self { outcome, value };
    }
}
