//! The verbs of one key: those of the batches where these write to memory only the given outputs,
//! and small ones that keep the answer in registers.

use core::ptr;

use super::{Entry, Insertion, MapRef};
use crate::count::Counters;
use crate::probe::{Job, Next, Seen, Verb};
use crate::slot::{Bits, Format};
use crate::verbs::look_up::Answers;
use crate::verbs::remove::Remove;
use crate::verbs::store::{Account, Present, Select, Store};

/// Looks a key up; with `READS` its value too.
#[derive(Clone, Copy, Debug)]
pub(super) struct LookUp<V, const READS: bool> {
    pub found: bool,
    pub value: V,
}

impl<V: Bits, const READS: bool> LookUp<V, READS> {
    #[inline(always)]
    pub fn new() -> Self {
        Self {
            found: false,
            value: V::default(),
        }
    }
}

impl<F: Format, const READS: bool> Verb<F> for LookUp<F::Value, READS> {
    const TAKES: bool = false;
    const READS: bool = READS;
    const LOCATES: bool = false;
    const CLAIMS: bool = false;

    #[inline(always)]
    unsafe fn serve(&mut self, _: &Job<F>, seen: Seen<F::Value>) -> Next {
        if seen.holds == 0 && seen.empty == 0 {
            return Next::Walk;
        }
        self.found = seen.holds != 0;
        self.value = seen.value;
        Next::Done
    }

    #[inline(always)]
    unsafe fn walked_off(&mut self, _: &Job<F>, _: bool) -> Next {
        Next::Done
    }
}

/// Removes a key.
#[inline(always)]
pub(super) fn remove<V: Bits>() -> Remove<V, false> {
    Remove {
        answers: Answers {
            values: ptr::null_mut(),
            found: ptr::null_mut(),
            default: 0,
        },
        removed: 0,
    }
}

/// Keeps the value of a present key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held<V>(pub V);

impl<F: Format> Present<F> for Held<F::Value> {
    const READS: bool = true;
    const LOCATES: bool = false;

    #[inline(always)]
    unsafe fn found(&mut self, _: &Job<F>, seen: &Seen<F::Value>) -> Next {
        self.0 = seen.value;
        Next::Done
    }

    #[inline(always)]
    unsafe fn met(&mut self, _: &Job<F>, _: *mut u8) -> Next {
        // The value is read with the slab.
        Next::Again
    }
}

/// Stores a pair whose key is absent: the batch verb, for a batch of one without outputs.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoreOne<P> {
    pub store: Store<P>,
    /// Whether the walk ended without room.
    full: bool,
}

impl<P> StoreOne<P> {
    #[inline(always)]
    pub fn new<K, V>(map: &MapRef<K, V>, present: P) -> Self {
        Self {
            store: Store {
                present,
                account: Account {
                    outcomes: ptr::null_mut(),
                    unplaced: ptr::null_mut(),
                    counters: Counters::of(map.stripe().cast()),
                    select: Select::All,
                },
                stored: 0,
            },
            full: false,
        }
    }

    /// What became of the pair, once it is served.
    #[inline(always)]
    pub fn outcome(&self) -> Insertion {
        if self.store.stored != 0 {
            Insertion::Inserted
        } else if self.full {
            Insertion::Full
        } else {
            Insertion::Present
        }
    }
}

impl<F: Format, P: Present<F>> Verb<F> for StoreOne<P> {
    const TAKES: bool = true;
    const READS: bool = <Store<P> as Verb<F>>::READS;
    const LOCATES: bool = <Store<P> as Verb<F>>::LOCATES;
    const CLAIMS: bool = true;

    #[inline(always)]
    unsafe fn serve(&mut self, job: &Job<F>, seen: Seen<F::Value>) -> Next {
        // SAFETY: passed on.
        unsafe { self.store.serve(job, seen) }
    }

    #[inline(always)]
    unsafe fn walked_off(&mut self, job: &Job<F>, cell: bool) -> Next {
        // A cell always has room for its key.
        self.full = !cell;
        // SAFETY: passed on.
        unsafe { self.store.walked_off(job, cell) }
    }
}

/// The outcome of a get-or-insert.
#[inline(always)]
pub(super) fn entry<V>(outcome: Insertion, held: V) -> Entry<V> {
    match outcome {
        Insertion::Inserted => Entry::Inserted,
        Insertion::Present => Entry::Present(held),
        Insertion::Full => Entry::Full,
    }
}
