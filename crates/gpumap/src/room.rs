//! Who may store how many pairs: the bookkeeping that lets calls run side by side and none of them
//! find the map full.

use crate::sync::Ordering::{AcqRel, Acquire, Release};
use crate::sync::{AtomicIsize, AtomicUsize};

/// Pairs and slots of a map, counted on the host.
///
/// Invariant: while calls are in flight, `spoken_for` is at least the slots that are not empty and
/// those that the calls may fill, apart from the ones for reserved keys.
#[derive(Debug)]
pub(crate) struct Room {
    /// Pairs that fit whatever their keys. Changes only while no call is in flight.
    capacity: AtomicUsize,
    /// Pairs in the map, but for calls in flight. May be below zero for a moment: a pair can be
    /// stored by one call and removed by another that is counted first.
    len: AtomicIsize,
    /// Slots that are not empty, and those promised to calls in flight.
    spoken_for: AtomicUsize,
}

/// Room that a call in flight may use up. As long as all promises together stay within the
/// capacity, no batch can fail for want of room.
#[derive(Debug)]
pub(crate) struct Promise<'m> {
    room: &'m Room,
    pairs: usize,
}

impl Room {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity: AtomicUsize::new(capacity),
            len: AtomicIsize::new(0),
            spoken_for: AtomicUsize::new(0),
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity.load(Acquire)
    }

    pub(crate) fn len(&self) -> usize {
        self.len.load(Acquire).max(0) as usize
    }

    /// Slots that are not empty, when no call is in flight.
    pub(crate) fn used(&self) -> usize {
        self.spoken_for.load(Acquire)
    }

    /// Room for more pairs, when no call is in flight.
    pub(crate) fn left(&self) -> usize {
        self.capacity().saturating_sub(self.used())
    }

    /// Room for `pairs` more, if there is. There always is for none.
    pub(crate) fn promise(&self, pairs: usize) -> Option<Promise<'_>> {
        let capacity = self.capacity();
        let within = |spoken_for: usize| {
            let sum = spoken_for.checked_add(pairs)?;
            (pairs == 0 || sum <= capacity).then_some(sum)
        };
        self.spoken_for.fetch_update(AcqRel, Acquire, within).ok()?;
        Some(Promise { room: self, pairs })
    }

    /// Counts pairs that were stored by a call that ran alone, or beyond its promise.
    pub(crate) fn stored(&self, pairs: usize) {
        self.spoken_for.fetch_add(pairs, AcqRel);
        self.len.fetch_add(pairs as isize, AcqRel);
    }

    /// Ends a promise of `pairs` that was handed over, of which `stored` are in the map now.
    pub(crate) fn settle(&self, pairs: usize, stored: usize) {
        self.len.fetch_add(stored as isize, AcqRel);
        self.spoken_for
            .fetch_sub(pairs.saturating_sub(stored), AcqRel);
    }

    /// Counts pairs that were removed; their slots are not empty.
    pub(crate) fn removed(&self, pairs: usize) {
        self.len.fetch_sub(pairs as isize, AcqRel);
    }

    /// Counts slots that were made empty again, beside what [`removed`](Self::removed) counts.
    pub(crate) fn emptied(&self, slots: usize) {
        self.spoken_for.fetch_sub(slots, AcqRel);
    }

    /// Takes note that there is room for `capacity` pairs now. No call is in flight.
    pub(crate) fn resized(&self, capacity: usize) {
        self.capacity.store(capacity, Release);
    }

    /// Takes note that the table holds `len` pairs, nothing else, and has room for `capacity`. No
    /// call is in flight.
    pub(crate) fn rebuilt(&self, len: usize, capacity: usize) {
        self.len.store(len as isize, Release);
        self.spoken_for.store(len, Release);
        self.capacity.store(capacity, Release);
    }
}

impl Promise<'_> {
    /// Ends it: `stored` pairs are in the map now, the rest of the room is free again.
    pub(crate) fn keep(mut self, stored: usize) {
        self.room.len.fetch_add(stored as isize, AcqRel);
        self.pairs = self.pairs.saturating_sub(stored);
    }

    /// Leaves the room promised, for whoever calls [`Room::settle`] later.
    pub(crate) fn hand_over(self) {
        std::mem::forget(self);
    }
}

impl Drop for Promise<'_> {
    fn drop(&mut self) {
        self.room.spoken_for.fetch_sub(self.pairs, AcqRel);
    }
}
