//! [`Occupancy`]: how many pairs a map holds and has reserved, so that concurrent calls never
//! find it full.

use crate::sync::Ordering::{AcqRel, Acquire, Release};
use crate::sync::{AtomicIsize, AtomicUsize};

/// Pairs and slots of a map, counted on the host.
///
/// Invariant: while calls are in flight, `reserved` is at least the slots that are not empty and
/// those that the calls may fill, apart from the ones for reserved keys.
#[derive(Debug)]
pub(crate) struct Occupancy {
    /// Pairs that fit whatever their keys. Changes only while no call is in flight.
    capacity: AtomicUsize,
    /// Pairs in the map, except those of calls in flight. May be below zero for a moment: a pair can be
    /// stored by one call and removed by another that is counted first.
    len: AtomicIsize,
    /// Slots that are not empty, and those reserved for calls in flight.
    reserved: AtomicUsize,
}

/// Capacity reserved for a call in flight. While all reservations together stay within the
/// capacity, no batch fails for lack of room.
#[derive(Debug)]
pub(crate) struct Reservation<'m> {
    occupancy: &'m Occupancy,
    pairs: usize,
}

impl Occupancy {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity: AtomicUsize::new(capacity),
            len: AtomicIsize::new(0),
            reserved: AtomicUsize::new(0),
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
        self.reserved.load(Acquire)
    }

    /// Room for more pairs, when no call is in flight.
    pub(crate) fn left(&self) -> usize {
        self.capacity().saturating_sub(self.used())
    }

    /// Room for `pairs` more, if there is. There always is for none.
    pub(crate) fn reserve_pairs(&self, pairs: usize) -> Option<Reservation<'_>> {
        let capacity = self.capacity();
        let within = |reserved: usize| {
            let sum = reserved.checked_add(pairs)?;
            (pairs == 0 || sum <= capacity).then_some(sum)
        };
        self.reserved.fetch_update(AcqRel, Acquire, within).ok()?;
        Some(Reservation {
            occupancy: self,
            pairs,
        })
    }

    /// Counts pairs that were stored by a call that ran alone, or beyond its reservation.
    pub(crate) fn stored(&self, pairs: usize) {
        self.reserved.fetch_add(pairs, AcqRel);
        self.len.fetch_add(pairs as isize, AcqRel);
    }

    /// Ends a reservation of `pairs` that was [kept in flight](Reservation::keep_in_flight): `stored`
    /// of them are in the map now.
    pub(crate) fn release(&self, pairs: usize, stored: usize) {
        self.len.fetch_add(stored as isize, AcqRel);
        self.reserved
            .fetch_sub(pairs.saturating_sub(stored), AcqRel);
    }

    /// Counts pairs that were removed; their slots are not empty.
    pub(crate) fn removed(&self, pairs: usize) {
        self.len.fetch_sub(pairs as isize, AcqRel);
    }

    /// Counts slots that were made empty again, beside what [`removed`](Self::removed) counts.
    pub(crate) fn emptied(&self, slots: usize) {
        self.reserved.fetch_sub(slots, AcqRel);
    }

    /// Records that there is room for `capacity` pairs now. No call is in flight.
    pub(crate) fn resized(&self, capacity: usize) {
        self.capacity.store(capacity, Release);
    }

    /// Records that the table holds `len` pairs, nothing else, and has room for `capacity`. No
    /// call is in flight.
    pub(crate) fn rebuilt(&self, len: usize, capacity: usize) {
        self.len.store(len as isize, Release);
        self.reserved.store(len, Release);
        self.capacity.store(capacity, Release);
    }
}

impl Reservation<'_> {
    /// Ends it: `stored` pairs are in the map now, the rest of the reservation is released.
    pub(crate) fn commit(mut self, stored: usize) {
        self.occupancy.len.fetch_add(stored as isize, AcqRel);
        self.pairs = self.pairs.saturating_sub(stored);
    }

    /// Leaves the pairs reserved until [`Occupancy::release`].
    pub(crate) fn keep_in_flight(self) {
        std::mem::forget(self);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.occupancy.reserved.fetch_sub(self.pairs, AcqRel);
    }
}
