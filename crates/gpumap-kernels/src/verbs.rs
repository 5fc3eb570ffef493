//! What each verb does with one key and one slab.

use crate::probe::{Job, Next, Seen, Verb};
use crate::slot::{Bits, Claim, Format};
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::mem;

/// A pair that finds no room is counted; nothing of it is written.
///
/// # Safety
/// `unplaced` is a counter that is only added to during the launch.
#[inline(always)]
unsafe fn count_unplaced(unplaced: *mut u64) {
    // SAFETY: passed on. Rare, so an atomic each is fine.
    unsafe { atomic::fetch_add(unplaced, 1, Relaxed) };
}

/// How an attempt to store a pair in the empty slots of a slab ended.
enum Stored {
    /// The pair is in.
    New,
    /// The key turned out to be there, in this slot.
    Present(*mut u8),
    /// Not settled here.
    Not(Next),
}

/// Puts the pair into the first slot of the slab that is still empty, unless its key is met.
///
/// The slots are tried in slot order, and a lost race says who won: so two lanes with one key
/// meet at the same slot, and one of them sees the other's pair.
///
/// # Safety
/// As for [`Verb::serve`].
#[inline(always)]
unsafe fn store_in_slab<F: Format>(job: &Job<F>, seen: &Seen<F::Value>) -> Stored {
    if F::HAS_BUSY && seen.busy {
        return Stored::Not(Next::Again);
    }
    let mut empty = seen.empty;
    while empty != 0 {
        let slot = job.slot(empty);
        // SAFETY: a slot of the slab that was read, in the map's format.
        match unsafe { F::claim(slot, job.word, job.value) } {
            Claim::Won => return Stored::New,
            Claim::SameKey => return Stored::Present(slot),
            Claim::OtherKey => empty &= empty - 1,
            Claim::Busy => return Stored::Not(Next::Again),
        }
    }
    Stored::Not(Next::Walk)
}

/// Stores pairs whose key is absent; present keys keep their value.
#[derive(Clone, Copy, Debug)]
pub struct Insert {
    /// One byte per key of the batch, set to 1 where the pair was stored. May be null; if it is
    /// not, the batch may be taken back, and is given up when a pair finds no room.
    pub fresh: *mut u8,
    /// Counts the pairs that found no room.
    pub unplaced: *mut u64,
    /// This lane's stored pairs.
    pub stored: u32,
}

impl<F: Format> Verb<F> for Insert {
    const TAKES: bool = true;
    const READS: bool = false;
    const LOCATES: bool = false;
    const CLAIMS: bool = true;

    /// A batch that may be taken back is lost as a whole with its first pair that finds no
    /// room; then the rest need not walk through a full map.
    #[inline(always)]
    fn wants(&self, _: u64) -> bool {
        // SAFETY: a counter, by the type's contract.
        self.fresh.is_null() || unsafe { atomic::load(self.unplaced, Relaxed) } == 0
    }

    #[inline(always)]
    unsafe fn serve(&mut self, job: &Job<F>, seen: Seen<F::Value>) -> Next {
        if seen.holds != 0 {
            return Next::Done;
        }
        // SAFETY: the slab is the one that was read.
        match unsafe { store_in_slab(job, &seen) } {
            Stored::New => {
                self.stored += 1;
                if !self.fresh.is_null() {
                    // SAFETY: one byte per key, written by the key's lane only.
                    unsafe { mem::store(self.fresh.add(job.index as usize), 1u8) };
                }
                Next::Done
            }
            Stored::Present(_) => Next::Done,
            Stored::Not(next) => next,
        }
    }

    #[inline(always)]
    unsafe fn walked_off(&mut self, _: &Job<F>) {
        // SAFETY: a counter, by the type's contract.
        unsafe { count_unplaced(self.unplaced) };
    }
}

/// Adds to the values of present keys, wrapping around; stores pairs whose key is absent.
#[derive(Clone, Copy, Debug)]
pub struct Add {
    /// Counts the pairs that found no room.
    pub unplaced: *mut u64,
    /// This lane's stored pairs.
    pub stored: u32,
}

impl<F: Format> Verb<F> for Add {
    const TAKES: bool = true;
    const READS: bool = false;
    const LOCATES: bool = true;
    const CLAIMS: bool = true;

    #[inline(always)]
    unsafe fn serve(&mut self, job: &Job<F>, seen: Seen<F::Value>) -> Next {
        let slot = if seen.holds != 0 {
            job.slot(seen.holds)
        } else {
            // SAFETY: the slab is the one that was read.
            match unsafe { store_in_slab(job, &seen) } {
                Stored::New => {
                    self.stored += 1;
                    return Next::Done;
                }
                Stored::Present(slot) => slot,
                Stored::Not(next) => return next,
            }
        };
        // SAFETY: the slot holds the key's pair, and nothing removes pairs beside this verb.
        unsafe { F::add(slot, job.value) };
        Next::Done
    }

    #[inline(always)]
    unsafe fn walked_off(&mut self, _: &Job<F>) {
        // SAFETY: a counter, by the type's contract.
        unsafe { count_unplaced(self.unplaced) };
    }
}

/// Looks keys up.
#[derive(Clone, Copy, Debug)]
pub struct Get<V> {
    /// One value per key of the batch; may be null.
    pub values: *mut V,
    /// One byte per key: 1 where it is present; may be null.
    pub found: *mut u8,
    /// What absent keys get in `values`.
    pub default: V,
}

impl<V: Bits> Get<V> {
    /// # Safety
    /// `index` is in the batch, and the outputs are as long as it.
    #[inline(always)]
    unsafe fn answer(&self, index: u64, value: V, found: bool) {
        let i = index as usize;
        // SAFETY: each place is written by the key's lane only.
        unsafe {
            if !self.values.is_null() {
                mem::store_streaming(self.values.add(i), value);
            }
            if !self.found.is_null() {
                mem::store_streaming(self.found.add(i), u8::from(found));
            }
        }
    }
}

impl<F: Format> Verb<F> for Get<F::Value> {
    const TAKES: bool = false;
    const READS: bool = true;
    const LOCATES: bool = false;
    const CLAIMS: bool = false;

    #[inline(always)]
    unsafe fn serve(&mut self, job: &Job<F>, seen: Seen<F::Value>) -> Next {
        let found = seen.holds != 0;
        if !found && seen.empty == 0 {
            return Next::Walk;
        }
        let value = if found { seen.value } else { self.default };
        // SAFETY: the job's index is in the batch.
        unsafe { self.answer(job.index, value, found) };
        Next::Done
    }

    #[inline(always)]
    unsafe fn walked_off(&mut self, job: &Job<F>) {
        // SAFETY: as above.
        unsafe { self.answer(job.index, self.default, false) };
    }
}

/// Takes back the pairs that an [`Insert`] of the same batch stored, as if it had not been.
///
/// It runs alone on the map, right after that insert, so making slots empty again breaks no
/// walk but those of pairs that go as well. For those, it does not stop at empty slots.
#[derive(Clone, Copy, Debug)]
pub struct TakeBack {
    /// What the insert wrote: 1 for each pair to take back.
    pub fresh: *const u8,
}

impl<F: Format> Verb<F> for TakeBack {
    const TAKES: bool = false;
    const READS: bool = false;
    const LOCATES: bool = true;
    const CLAIMS: bool = false;

    #[inline(always)]
    fn wants(&self, index: u64) -> bool {
        // SAFETY: one byte per key of the batch, not written during this launch.
        unsafe { mem::load(self.fresh.add(index as usize)) != 0 }
    }

    #[inline(always)]
    unsafe fn serve(&mut self, job: &Job<F>, seen: Seen<F::Value>) -> Next {
        if seen.holds == 0 {
            return Next::Walk;
        }
        // SAFETY: the insert says that this batch stored the pair, for this very index; no
        // other lane has it.
        unsafe { F::take_back(job.slot(seen.holds)) };
        Next::Done
    }

    #[inline(always)]
    unsafe fn walked_off(&mut self, _: &Job<F>) {}
}
