//! What one key does with one slab: get, append and insert, remove, count.
//!
//! A verb ends a walk at the first empty slot, since no pair lies after one.

use super::answer::{Answers, Outcome};
use super::queue::{Job, Next, Seen, Verb, lowest};
use crate::slot::{Bits, Claim, Format};

/// How often what happened, per lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Pairs stored.
    pub stored: u32,
    /// Pairs that found no room.
    pub full: u32,
    /// Pairs removed.
    pub removed: u32,
}

/// Looks for a key and reports its value; for an absent one 0.
#[derive(Clone, Copy, Debug)]
pub struct Get<A> {
    /// The answers.
    pub report: A,
}

impl<F: Format, A: Answers<F::Value>> Verb<F> for Get<A> {
    const STORES: bool = false;
    const READS: bool = true;

    #[inline(always)]
    unsafe fn serve(&mut self, job: &Job<F>, seen: Seen<F::Value>) -> Next {
        // SAFETY: the job's index is in the batch.
        unsafe {
            if seen.holds != 0 {
                let value = seen.value;
                self.report.give_value(job.index, Outcome::Present, value);
                return Next::Done;
            }
            if seen.empty == 0 {
                return Next::Walk;
            }
            Verb::<F>::walked_off(self, job);
        }
        Next::Done
    }

    #[inline(always)]
    unsafe fn walked_off(&mut self, job: &Job<F>) {
        let none = F::Value::default();
        // SAFETY: as above.
        unsafe { self.report.give_value(job.index, Outcome::Absent, none) };
    }
}

/// Stores a pair in the first empty slot of its chain. If `UNIQUE`, a present key keeps its pair, and
/// its value is reported; else there may be several pairs with one key.
#[derive(Clone, Copy, Debug)]
pub struct Store<A, const UNIQUE: bool> {
    /// The answers.
    pub report: A,
    /// This lane's pairs.
    pub tally: Tally,
}

impl<F: Format, A: Answers<F::Value>, const UNIQUE: bool> Verb<F> for Store<A, UNIQUE> {
    const STORES: bool = true;
    const READS: bool = UNIQUE;

    #[inline(always)]
    unsafe fn serve(&mut self, job: &Job<F>, seen: Seen<F::Value>) -> Next {
        // SAFETY: the slab is the one that was read; the job's index is in the batch.
        unsafe {
            if UNIQUE {
                if seen.holds != 0 {
                    let value = seen.value;
                    self.report.give_value(job.index, Outcome::Present, value);
                    return Next::Done;
                }
                if seen.busy {
                    // It may be this key's.
                    return Next::Again;
                }
            }
            // In slot order, and past a slot only when it is taken: the map's first invariant.
            let mut empty = seen.empty;
            while empty != 0 {
                match F::claim(lowest::<F>(seen.slab, empty), job.word, job.value) {
                    Claim::Won => {
                        self.tally.stored += 1;
                        self.report.give(job.index, Outcome::Stored);
                        return Next::Done;
                    }
                    // Its value, or whose slot it is, is read with the slab.
                    Claim::SameKey | Claim::Busy if UNIQUE => return Next::Again,
                    _ => empty &= empty - 1,
                }
            }
        }
        Next::Walk
    }

    #[inline(always)]
    unsafe fn walked_off(&mut self, job: &Job<F>) {
        self.tally.full += 1;
        // SAFETY: as above.
        unsafe { self.report.give(job.index, Outcome::Full) };
    }
}

/// Makes a tombstone of the first pair with a key, and reports its value.
#[derive(Clone, Copy, Debug)]
pub struct Remove<A> {
    /// The answers.
    pub report: A,
    /// This lane's pairs.
    pub tally: Tally,
}

impl<F: Format, A: Answers<F::Value>> Verb<F> for Remove<A> {
    const STORES: bool = false;
    const READS: bool = true;

    #[inline(always)]
    unsafe fn serve(&mut self, job: &Job<F>, seen: Seen<F::Value>) -> Next {
        // SAFETY: the slab is the one that was read; the job's index is in the batch.
        unsafe {
            if seen.holds != 0 {
                // An exact exchange: it fails if the pair has gone, and never hits another key.
                if !F::bury(lowest::<F>(seen.slab, seen.holds), job.word) {
                    return Next::Again;
                }
                self.tally.removed += 1;
                let value = seen.value;
                self.report.give_value(job.index, Outcome::Removed, value);
                return Next::Done;
            }
            if seen.empty == 0 {
                return Next::Walk;
            }
            self.report.give(job.index, Outcome::Absent);
        }
        Next::Done
    }

    #[inline(always)]
    unsafe fn walked_off(&mut self, job: &Job<F>) {
        // SAFETY: as above.
        unsafe { self.report.give(job.index, Outcome::Absent) };
    }
}

/// Counts the pairs with a key, and reports the number as a value. It waits for pairs that are being
/// written: none appears later in front of one that was counted.
#[derive(Clone, Copy, Debug)]
pub struct Count<A> {
    /// The answers.
    pub report: A,
    /// Those of the lane's key so far; 0 between keys.
    pub pairs: u32,
}

impl<F: Format, A: Answers<F::Value>> Verb<F> for Count<A> {
    const STORES: bool = false;
    const READS: bool = false;
    const WAITS: bool = true;

    #[inline(always)]
    unsafe fn serve(&mut self, job: &Job<F>, seen: Seen<F::Value>) -> Next {
        if seen.busy {
            // It may be this key's, and somebody has passed it.
            return Next::Again;
        }
        self.pairs += seen.holds.count_ones();
        if seen.empty == 0 {
            return Next::Walk;
        }
        // SAFETY: passed on.
        unsafe { Verb::<F>::walked_off(self, job) };
        Next::Done
    }

    #[inline(always)]
    unsafe fn walked_off(&mut self, job: &Job<F>) {
        let outcome = if self.pairs == 0 {
            Outcome::Absent
        } else {
            Outcome::Present
        };
        let count = F::Value::from_u64(u64::from(self.pairs));
        self.pairs = 0;
        // SAFETY: the job's index is in the batch.
        unsafe { self.report.give_value(job.index, outcome, count) };
    }
}
