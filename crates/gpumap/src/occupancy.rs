//! [`Occupancy`]: how many pairs a map holds and has reserved, so that concurrent calls never
//! find it full.
//!
//! Calls with few keys come often, and from many threads. So a thread reserves more than it needs now, and keeps the rest as its
//! *credit*, from which its next calls take; and each thread adds up for itself how many pairs its calls have stored and removed. Where
//! the rest of the map's room is credit, it is taken back.

use std::sync::atomic::Ordering::Relaxed;

use crate::spread::Spread;
use crate::sync::Ordering::{AcqRel, Acquire, Release};
use crate::sync::{AtomicIsize, AtomicUsize, CREDIT};

/// Pairs and slots of a map, counted on the host.
///
/// Invariant: while calls are in flight, `reserved` is at least the slots that are not empty, those that the calls may
/// fill, apart from the ones for reserved keys, and all credit.
#[derive(Debug)]
pub(crate) struct Occupancy {
    /// Pairs that fit whatever their keys. Changes only while no call is in flight.
    capacity: AtomicUsize,
    /// Slots that are not empty, those reserved for calls in flight, and credit.
    reserved: AtomicUsize,
    lanes: Spread<Lane>,
}

/// What threads count for themselves.
#[derive(Debug)]
struct Lane {
    /// Pairs that were stored, less those removed, except by calls in flight. Those of all lanes are the pairs in the map: below zero
    /// for a moment, if a pair is stored by one call and removed by another that is counted first.
    len: AtomicIsize,
    /// Reserved for no call.
    credit: AtomicUsize,
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
            reserved: AtomicUsize::new(0),
            lanes: Spread::new(|| Lane {
                len: AtomicIsize::new(0),
                credit: AtomicUsize::new(0),
            }),
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity.load(Acquire)
    }

    pub(crate) fn len(&self) -> usize {
        let sum: isize = self.lanes.iter().map(|lane| lane.len.load(Acquire)).sum();
        sum.max(0) as usize
    }

    /// Slots that are not empty, when no call is in flight.
    pub(crate) fn used(&self) -> usize {
        let lanes = self.lanes.iter();
        let credit: usize = lanes.map(|lane| lane.credit.load(Acquire)).sum();
        self.reserved.load(Acquire).saturating_sub(credit)
    }

    /// Room for more pairs, when no call is in flight.
    pub(crate) fn left(&self) -> usize {
        self.capacity().saturating_sub(self.used())
    }

    /// Room for `pairs` more, if there is. There always is for none.
    pub(crate) fn reserve_pairs(&self, pairs: usize) -> Option<Reservation<'_>> {
        let reservation = Reservation {
            occupancy: self,
            pairs,
        };
        let is_small = pairs <= CREDIT / 2;
        let is_there = pairs == 0
            || is_small && (self.take_credit(pairs) || self.borrow(pairs))
            || self.reserve(pairs)
            || self.end_credit() && self.reserve(pairs);
        match is_there {
            true => Some(reservation),
            false => {
                // It has reserved nothing.
                reservation.keep_in_flight();
                None
            }
        }
    }

    /// Takes pairs from what this thread has reserved.
    fn take_credit(&self, pairs: usize) -> bool {
        let take = |credit: usize| credit.checked_sub(pairs);
        let credit = &self.lanes.mine().credit;
        credit.fetch_update(AcqRel, Relaxed, take).is_ok()
    }

    /// Reserves pairs, and credit.
    fn borrow(&self, pairs: usize) -> bool {
        // Not the last room, for which others ask as well.
        let is_plenty = self.capacity() / CREDIT > 2 * self.lanes.iter().count();
        let is_there = is_plenty && self.reserve(pairs + CREDIT);
        if is_there {
            self.lanes.mine().credit.fetch_add(CREDIT, AcqRel);
        }
        is_there
    }

    /// Reserves pairs, of which there may be none left.
    fn reserve(&self, pairs: usize) -> bool {
        let capacity = self.capacity();
        let within = |reserved: usize| {
            let sum = reserved.checked_add(pairs)?;
            (sum <= capacity).then_some(sum)
        };
        self.reserved.fetch_update(AcqRel, Acquire, within).is_ok()
    }

    /// Takes all credit back. Returns whether there was any.
    fn end_credit(&self) -> bool {
        let lanes = self.lanes.iter();
        let credit: usize = lanes.map(|lane| lane.credit.swap(0, AcqRel)).sum();
        self.reserved.fetch_sub(credit, AcqRel);
        credit != 0
    }

    /// Takes reserved pairs back: they are credit, or reserved no more.
    fn give_back(&self, pairs: usize) {
        if pairs == 0 {
            return;
        }
        let credit = &self.lanes.mine().credit;
        // Some threads have one lane, so it may have more than `CREDIT`; not much.
        if pairs <= CREDIT && (1..=CREDIT).contains(&credit.load(Relaxed)) {
            credit.fetch_add(pairs, AcqRel);
        } else {
            self.reserved.fetch_sub(pairs, AcqRel);
        }
    }

    fn add_to_len(&self, pairs: isize) {
        if pairs != 0 {
            self.lanes.mine().len.fetch_add(pairs, AcqRel);
        }
    }

    /// Counts pairs that were stored by a call that ran alone.
    pub(crate) fn stored(&self, pairs: usize) {
        self.reserved.fetch_add(pairs, AcqRel);
        self.add_to_len(pairs as isize);
    }

    /// Ends a reservation of `pairs` that was [kept in flight](Reservation::keep_in_flight): `stored`
    /// of them are in the map now.
    pub(crate) fn release(&self, pairs: usize, stored: usize) {
        self.add_to_len(stored as isize);
        self.reserved
            .fetch_sub(pairs.saturating_sub(stored), AcqRel);
    }

    /// Counts pairs that were removed; their slots are not empty.
    pub(crate) fn removed(&self, pairs: usize) {
        self.add_to_len(-(pairs as isize));
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
        for lane in self.lanes.iter() {
            lane.len.store(0, Release);
            lane.credit.store(0, Release);
        }
        self.lanes.mine().len.store(len as isize, Release);
        self.reserved.store(len, Release);
        self.capacity.store(capacity, Release);
    }
}

impl Reservation<'_> {
    /// Ends it: `stored` pairs are in the map now, also those beyond it; the rest of it is released.
    pub(crate) fn commit(mut self, stored: usize) {
        let beyond = stored.saturating_sub(self.pairs);
        if beyond != 0 {
            self.occupancy.reserved.fetch_add(beyond, AcqRel);
        }
        self.occupancy.add_to_len(stored as isize);
        self.pairs = self.pairs.saturating_sub(stored);
    }

    /// Leaves the pairs reserved until [`Occupancy::release`].
    pub(crate) fn keep_in_flight(self) {
        std::mem::forget(self);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.occupancy.give_back(self.pairs);
    }
}
