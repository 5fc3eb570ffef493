//! The lanes that can run.

use std::cell::Cell;

/// A lane of a resident block: the block's slot and the thread in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in super::super) struct Entry(u32);

impl Entry {
    #[inline]
    pub(in super::super) fn new(slot: u32, thread: u32) -> Self {
        Self(slot << 16 | thread)
    }

    #[inline]
    pub(in super::super) fn slot(self) -> usize {
        (self.0 >> 16) as usize
    }

    #[inline]
    pub(in super::super) fn thread(self) -> usize {
        (self.0 & 0xffff) as usize
    }
}

/// The lanes that can run. A ring: every lane is in it at most once, so it never overflows.
pub(in super::super) struct Ready {
    ring: Box<[Cell<Entry>]>,
    head: Cell<usize>,
    tail: Cell<usize>,
}

impl Ready {
    /// Room for `lanes` lanes.
    pub(in super::super) fn new(lanes: usize) -> Self {
        Self {
            ring: vec![Cell::new(Entry(0)); lanes.next_power_of_two()].into_boxed_slice(),
            head: Cell::new(0),
            tail: Cell::new(0),
        }
    }

    pub(in super::super) fn clear(&self) {
        self.head.set(self.tail.get());
    }

    /// Lets go of the lanes of one block.
    pub(in super::super) fn forget(&self, slot: usize) {
        for _ in 0..self.len() {
            if let Some(entry) = self.pop()
                && entry.slot() != slot
            {
                self.push(entry);
            }
        }
    }

    #[inline]
    fn cell(&self, at: usize) -> &Cell<Entry> {
        &self.ring[at & (self.ring.len() - 1)]
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.tail.get().wrapping_sub(self.head.get())
    }

    #[inline]
    pub(in super::super) fn push(&self, entry: Entry) {
        let tail = self.tail.get();
        debug_assert!(self.len() < self.ring.len());
        self.cell(tail).set(entry);
        self.tail.set(tail.wrapping_add(1));
    }

    /// The lane that has waited longest.
    #[inline]
    pub(in super::super) fn pop(&self) -> Option<Entry> {
        let head = self.head.get();
        if head == self.tail.get() {
            return None;
        }
        self.head.set(head.wrapping_add(1));
        Some(self.cell(head).get())
    }

    /// The lane at place `i`, whose place the first one takes.
    #[inline]
    pub(super) fn take(&self, i: usize) -> Option<Entry> {
        let head = self.head.get();
        self.cell(head).swap(self.cell(head.wrapping_add(i)));
        self.pop()
    }

    /// The lanes, in the order of their places.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry> {
        (0..self.len()).map(|i| self.cell(self.head.get().wrapping_add(i)).get())
    }
}
