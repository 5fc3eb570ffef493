//! Batches in which each key says what is done with it. The operations of one batch run at the same
//! time, in no order.

use super::store::{Account, Present, Store};
use crate::probe::{ENDS_HERE, Job, Next, Seen, Verb};
use crate::slot::{Bits, Format};
use gpumap_simt::atomic::part::Update;
use gpumap_simt::layout;
use gpumap_simt::mem;

/// What is done with a key, by code. Nothing is done with a key that has any other.
pub mod operation {
    /// Looks it up.
    pub const GET: u8 = 0;
    /// Stores the pair, if the key is absent.
    pub const INSERT: u8 = 1;
    /// Stores the pair, or replaces the value.
    pub const UPSERT: u8 = 2;
    /// Removes the pair.
    pub const REMOVE: u8 = 3;

    /// Whether the operation with this code may store a pair.
    #[inline(always)]
    pub const fn may_store(code: u8) -> bool {
        matches!(code, INSERT | UPSERT)
    }
}

/// What became of a key, by code.
pub mod outcome {
    /// There was no pair.
    pub const ABSENT: u8 = 0;
    /// There is a pair, with the value that is returned.
    pub const PRESENT: u8 = 1;
    /// The pair of the batch was stored.
    pub const STORED: u8 = 2;
    /// A pair was removed.
    pub const REMOVED: u8 = 3;
}

/// Where answers go: one place per key of the batch.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Told<V> {
    /// The values of keys whose outcome is [`PRESENT`](outcome::PRESENT); other places are left as they
    /// are.
    pub values: *mut V,
    /// The outcomes.
    pub outcomes: *mut u8,
}
layout!(Told<V> { values, outcomes });

impl<V: Bits> Told<V> {
    /// # Safety
    /// `index` is in the batch.
    #[inline(always)]
    unsafe fn outcome(&self, index: u64, outcome: u8) {
        // SAFETY: one byte per key, written by the key's lane only.
        unsafe { mem::store_streaming(self.outcomes.add(index as usize), outcome) };
    }

    /// # Safety
    /// `index` is in the batch.
    #[inline(always)]
    unsafe fn present(&self, index: u64, value: V) {
        // SAFETY: as above.
        unsafe {
            mem::store_streaming(self.values.add(index as usize), value);
            self.outcome(index, outcome::PRESENT);
        }
    }
}

/// What the operations that store do with a present key.
#[derive(Clone, Copy, Debug)]
struct Storing<V> {
    /// What is done with the key at hand.
    operation: u8,
    told: Told<V>,
}

impl<F: Format> Present<F> for Storing<F::Value> {
    const READS: bool = true;
    const LOCATES: bool = true;

    #[inline(always)]
    unsafe fn stored(&mut self, job: &Job<F>) {
        // SAFETY: the job's index is in the batch.
        unsafe { self.told.outcome(job.index, outcome::STORED) };
    }

    #[inline(always)]
    unsafe fn found(&mut self, job: &Job<F>, seen: &Seen<F::Value>) -> Next {
        // SAFETY: as above; a slot of the slab that held the key's pair.
        unsafe {
            if self.operation == operation::UPSERT {
                return self.met(job, job.slot(seen.holds));
            }
            self.told.present(job.index, seen.value);
        }
        Next::Done
    }

    #[inline(always)]
    unsafe fn met(&mut self, job: &Job<F>, slot: *mut u8) -> Next {
        if self.operation != operation::UPSERT {
            // The value is read with the slab.
            return Next::Again;
        }
        // SAFETY: a slot that held the key's pair; the index is in the batch.
        unsafe {
            F::update(slot, Update::Replace, job.value);
            self.told.present(job.index, job.value);
        }
        Next::Done
    }
}

/// Does with each key what its operation says.
#[derive(Clone, Copy, Debug)]
pub struct Mixed<V> {
    /// A code for each key.
    operations: *const u8,
    store: Store<Storing<V>>,
    /// This lane's removed pairs.
    pub removed: u32,
}

impl<V: Bits> Mixed<V> {
    /// For a batch with these operations; the account has no outcomes of its own.
    #[inline(always)]
    pub fn new(operations: *const u8, account: Account, told: Told<V>) -> Self {
        let present = Storing {
            operation: operation::GET,
            told,
        };
        Self {
            operations,
            store: Store {
                present,
                account,
                stored: 0,
            },
            removed: 0,
        }
    }

    /// This lane's stored pairs.
    #[inline(always)]
    pub fn stored(&self) -> u32 {
        self.store.stored
    }

    /// Whether the key at hand may take a slot.
    #[inline(always)]
    fn stores(&self) -> bool {
        let operation = self.store.present.operation;
        operation == operation::INSERT || operation == operation::UPSERT
    }
}

impl<F: Format> Verb<F> for Mixed<F::Value> {
    const TAKES: bool = true;
    const READS: bool = true;
    const LOCATES: bool = true;
    const CLAIMS: bool = true;
    const SEARCHES: bool = true;

    #[inline(always)]
    unsafe fn wants(&mut self, index: u64) -> bool {
        // SAFETY: one byte per key of the batch, not written during this launch; what the account needs
        // is there.
        unsafe {
            self.store.present.operation = mem::load(self.operations.add(index as usize));
            self.store.present.operation <= operation::REMOVE
                && Verb::<F>::wants(&mut self.store, index)
        }
    }

    #[inline(always)]
    unsafe fn resume(&mut self, index: u64) {
        // SAFETY: as above.
        self.store.present.operation = unsafe { mem::load(self.operations.add(index as usize)) };
    }

    #[inline(always)]
    unsafe fn serve(&mut self, job: &Job<F>, seen: Seen<F::Value>) -> Next {
        if self.stores() {
            // A pair goes to an empty slot, whatever marks say.
            let empty = seen.empty & !ENDS_HERE;
            // SAFETY: passed on.
            return unsafe { self.store.serve(job, Seen { empty, ..seen }) };
        }
        if seen.holds == 0 && seen.empty == 0 {
            return Next::Walk;
        }
        let told = self.store.present.told;
        // SAFETY: the slab is the one that was read, and the job's index is in the batch. Of several
        // lanes with one key, one makes the tombstone; the others come after it.
        unsafe {
            if seen.holds == 0 {
                told.outcome(job.index, outcome::ABSENT);
            } else if self.store.present.operation == operation::GET {
                told.present(job.index, seen.value);
            } else if F::bury(job.slot(seen.holds), job.word) {
                self.removed += 1;
                told.outcome(job.index, outcome::REMOVED);
            } else {
                told.outcome(job.index, outcome::ABSENT);
            }
        }
        Next::Done
    }

    #[inline(always)]
    unsafe fn walked_off(&mut self, job: &Job<F>, cell: bool) -> Next {
        // SAFETY: passed on; the job's index is in the batch.
        unsafe {
            if self.stores() {
                return self.store.walked_off(job, cell);
            }
            let told = self.store.present.told;
            told.outcome(job.index, outcome::ABSENT);
        }
        Next::Done
    }
}
