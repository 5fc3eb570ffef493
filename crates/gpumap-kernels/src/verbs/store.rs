//! The verbs that store a pair whose key is absent. What they do with a present key is what they
//! differ in: [`Present`].

use crate::count::Counters;
use crate::probe::{Job, Next, Seen, Verb};
use crate::slot::{Claim, Format};
use crate::table::SLAB_BYTES;
use gpumap_simt::atomic::part::Update;
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::layout;
use gpumap_simt::mem;

/// What is done with a key that is present.
pub trait Present<F: Format> {
    /// Whether it wants the value that is stored.
    const READS: bool;
    /// Whether it writes to the slot.
    const LOCATES: bool;

    /// The pair of the batch is in.
    ///
    /// # Safety
    /// As for [`Verb::serve`].
    #[inline(always)]
    unsafe fn stored(&mut self, _: &Job<F>) {}

    /// The slab that was read holds the key.
    ///
    /// # Safety
    /// As for [`Verb::serve`].
    unsafe fn found(&mut self, job: &Job<F>, seen: &Seen<F::Value>) -> Next;

    /// A pair with the key was put into this slot while this lane tried to put its own there.
    ///
    /// # Safety
    /// As for [`Verb::serve`]; `slot` is one of the slab.
    unsafe fn met(&mut self, job: &Job<F>, slot: *mut u8) -> Next;
}

/// Insert: a present key keeps its value.
#[derive(Clone, Copy, Debug)]
pub struct Keep;

impl<F: Format> Present<F> for Keep {
    const READS: bool = false;
    const LOCATES: bool = false;

    #[inline(always)]
    unsafe fn found(&mut self, _: &Job<F>, _: &Seen<F::Value>) -> Next {
        Next::Done
    }

    #[inline(always)]
    unsafe fn met(&mut self, _: &Job<F>, _: *mut u8) -> Next {
        Next::Done
    }
}

/// Upsert and merge: the value of a present key is updated with that of the batch.
///
/// If the key is removed between reading its slab and the update, the update changes a tombstone:
/// it counts as done just before the removal.
#[derive(Clone, Copy, Debug)]
pub struct Merge(pub Update);

impl<F: Format> Present<F> for Merge {
    const READS: bool = false;
    const LOCATES: bool = true;

    #[inline(always)]
    unsafe fn found(&mut self, job: &Job<F>, seen: &Seen<F::Value>) -> Next {
        // SAFETY: a slot of the slab that held the key's pair.
        unsafe { self.met(job, job.slot(seen.holds)) }
    }

    #[inline(always)]
    unsafe fn met(&mut self, job: &Job<F>, slot: *mut u8) -> Next {
        // SAFETY: a slot that held the key's pair.
        unsafe { F::update(slot, self.0, job.value) };
        Next::Done
    }
}

/// Get or insert: the value of a present key is reported.
#[derive(Clone, Copy, Debug)]
pub struct Read<V> {
    /// One value per key of the batch.
    pub values: *mut V,
}

impl<F: Format> Present<F> for Read<F::Value> {
    const READS: bool = true;
    const LOCATES: bool = false;

    #[inline(always)]
    unsafe fn stored(&mut self, job: &Job<F>) {
        // SAFETY: one place per key, written by the key's lane only.
        unsafe { mem::store_streaming(self.values.add(job.index as usize), job.value) };
    }

    #[inline(always)]
    unsafe fn found(&mut self, job: &Job<F>, seen: &Seen<F::Value>) -> Next {
        // SAFETY: as above.
        unsafe { mem::store_streaming(self.values.add(job.index as usize), seen.value) };
        Next::Done
    }

    #[inline(always)]
    unsafe fn met(&mut self, _: &Job<F>, _: *mut u8) -> Next {
        // The value is read with the slab.
        Next::Again
    }
}

/// Which keys of a batch are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Select {
    /// All.
    All,
    /// All until a pair finds no room; then the rest is given up.
    UntilFull,
    /// Those that found no room before: their bits in `unplaced` are set.
    Unplaced,
    /// Those that this batch has not stored before: their outcome is not 1.
    NotStored,
    /// Those whose outcome is 1 to begin with.
    Marked,
}
layout!(
    enum Select {
        All,
        UntilFull,
        Unplaced,
        NotStored,
        Marked,
    }
);

/// What a batch that stores pairs keeps account of.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Account {
    /// One byte per key, 1 where its pair was stored, else not written. May be null, except for
    /// [`Select::NotStored`] and [`Select::Marked`].
    pub outcomes: *mut u8,
    /// One bit per key, set where its pair found no room, cleared where it found some later. May
    /// be null, except for [`Select::Unplaced`].
    pub unplaced: *mut u32,
    /// Pairs stored, and pairs that found no room.
    pub counters: Counters,
    /// Which keys are served.
    pub select: Select,
}
layout!(Account {
    outcomes,
    unplaced,
    counters,
    select
});

/// Stores pairs whose key is absent.
#[derive(Clone, Copy, Debug)]
pub struct Store<P> {
    /// What is done with the others.
    pub present: P,
    /// The account of the batch.
    pub account: Account,
    /// This lane's stored pairs.
    pub stored: u32,
}

impl<P> Store<P> {
    /// Notes that the pair of a key is in.
    ///
    /// # Safety
    /// As for [`Verb::serve`].
    #[inline(always)]
    unsafe fn stored<F: Format>(&mut self, job: &Job<F>) -> Next
    where
        P: Present<F>,
    {
        self.stored += 1;
        // SAFETY: one byte per key, written by the key's lane only.
        unsafe {
            if !self.account.outcomes.is_null() {
                mem::store(self.account.outcomes.add(job.index as usize), 1);
            }
            self.present.stored(job);
        }
        Next::Done
    }

    /// The word of the key's bit, and the bit.
    #[inline(always)]
    fn bit(&self, index: u64) -> (*mut u32, u32) {
        let word = self.account.unplaced.wrapping_add((index / 32) as usize);
        (word, 1 << (index % 32))
    }

    /// Puts the pair into the first slot of the slab that is still empty, unless its key is met.
    ///
    /// The slots are tried in slot order, and a lost race shows what won: so two lanes with one key
    /// meet at the same slot, and one of them sees the other's pair.
    ///
    /// # Safety
    /// As for [`Verb::serve`].
    #[inline(always)]
    unsafe fn store_in_slab<F: Format>(&mut self, job: &Job<F>, seen: &Seen<F::Value>) -> Next
    where
        P: Present<F>,
    {
        if F::HAS_BUSY && seen.busy {
            return Next::Again;
        }
        let mut empty = seen.empty;
        while empty != 0 {
            let slot = job.slot(empty);
            // SAFETY: a slot of the slab that was read, in the map's format.
            unsafe {
                match F::claim(slot, job.word, job.value) {
                    Claim::Won => return self.stored(job),
                    Claim::SameKey => return self.present.met(job, slot),
                    Claim::OtherKey => empty &= empty - 1,
                    Claim::Busy => return Next::Again,
                }
            }
        }
        Next::Walk
    }
}

impl<F: Format, P: Present<F>> Verb<F> for Store<P> {
    const TAKES: bool = true;
    const READS: bool = P::READS;
    const LOCATES: bool = P::LOCATES;
    const CLAIMS: bool = true;

    #[inline(always)]
    unsafe fn wants(&mut self, index: u64) -> bool {
        // SAFETY: a bit and a byte per key of the batch. The bit is written by the key's own lane
        // alone, later; the counter is only added to during the launch.
        unsafe {
            match self.account.select {
                Select::All => true,
                Select::UntilFull => atomic::load(self.account.counters.unplaced(), Relaxed) == 0,
                Select::Unplaced => {
                    let (word, bit) = self.bit(index);
                    atomic::load(word, Relaxed) & bit != 0
                }
                Select::NotStored => mem::load(self.account.outcomes.add(index as usize)) != 1,
                Select::Marked => mem::load(self.account.outcomes.add(index as usize)) == 1,
            }
        }
    }

    #[inline(always)]
    unsafe fn serve(&mut self, job: &Job<F>, seen: Seen<F::Value>) -> Next {
        // SAFETY: the slab is the one that was read, and `index` is in the batch.
        let next = unsafe {
            if seen.holds != 0 {
                self.present.found(job, &seen)
            } else {
                self.store_in_slab(job, &seen)
            }
        };
        if next == Next::Done && self.account.select == Select::Unplaced {
            let (word, bit) = self.bit(job.index);
            // SAFETY: the key's own bit, in a word that is accessed atomically only.
            unsafe { atomic::fetch_and(word, !bit, Relaxed) };
        }
        next
    }

    #[inline(always)]
    unsafe fn walked_off(&mut self, job: &Job<F>, cell: bool) -> Next {
        // SAFETY: as above. Rare, so one atomic each.
        unsafe {
            if cell {
                // Its slots are tombstones of the one key that may be here: the last is used again.
                let slot = job.slab.wrapping_add((SLAB_BYTES - F::SLOT_BYTES) as usize);
                return match F::revive(slot, job.word, job.value) {
                    Claim::Won => self.stored(job),
                    Claim::SameKey => self.present.met(job, slot),
                    Claim::OtherKey | Claim::Busy => Next::Again,
                };
            }
            if !self.account.unplaced.is_null() {
                let (word, bit) = self.bit(job.index);
                atomic::fetch_or(word, bit, Relaxed);
            }
            self.account.counters.count_unplaced(1);
        }
        Next::Done
    }
}
