//! What each verb does with one key and one slab.

use crate::probe::{Job, Next, Seen, Verb};
use crate::slot::{Bits, Claim, Format};
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::mem;

/// How an attempt to store a pair in the empty slots of a slab ended.
enum Attempt {
    /// The pair is in.
    Stored,
    /// The key turned out to be there, in this slot.
    Present(*mut u8),
    /// Not settled here.
    Open(Next),
}

/// Puts the pair into the first slot of the slab that is still empty, unless its key is met.
///
/// The slots are tried in slot order, and a lost race says who won: so two lanes with one key
/// meet at the same slot, and one of them sees the other's pair.
///
/// # Safety
/// As for [`Verb::serve`].
#[inline(always)]
unsafe fn store_in_slab<F: Format>(job: &Job<F>, seen: &Seen<F::Value>) -> Attempt {
    if F::HAS_BUSY && seen.busy {
        return Attempt::Open(Next::Again);
    }
    let mut empty = seen.empty;
    while empty != 0 {
        let slot = job.slot(empty);
        // SAFETY: a slot of the slab that was read, in the map's format.
        match unsafe { F::claim(slot, job.word, job.value) } {
            Claim::Won => return Attempt::Stored,
            Claim::SameKey => return Attempt::Present(slot),
            Claim::OtherKey => empty &= empty - 1,
            Claim::Busy => return Attempt::Open(Next::Again),
        }
    }
    Attempt::Open(Next::Walk)
}

/// What a [`Store`] notes for a key of its batch, so that it can be undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mark {
    /// Nothing was written.
    None = 0,
    /// The pair was stored.
    Stored = 1,
    /// The value was added to that of a present key.
    Added = 2,
}

/// Stores pairs whose key is absent. A present key keeps its value, or with `ADDS` has the
/// batch's value added to it, wrapping around.
#[derive(Clone, Copy, Debug)]
pub struct Store<const ADDS: bool> {
    /// One zeroed byte per key of the batch, for its [`Mark`]. May be null; if it is not, the
    /// batch may be undone, and is given up when a pair finds no room.
    pub marks: *mut u8,
    /// Counts the pairs that found no room.
    pub unplaced: *mut u64,
    /// This lane's stored pairs.
    pub stored: u32,
}

impl<const ADDS: bool> Store<ADDS> {
    /// # Safety
    /// `index` is in the batch; `marks` is null or has a byte for each of its keys.
    #[inline(always)]
    unsafe fn mark(&self, index: u64, mark: Mark) {
        if !self.marks.is_null() {
            // SAFETY: one byte per key, written by the key's lane only.
            unsafe { mem::store(self.marks.add(index as usize), mark as u8) };
        }
    }
}

impl<F: Format, const ADDS: bool> Verb<F> for Store<ADDS> {
    const TAKES: bool = true;
    const READS: bool = false;
    const LOCATES: bool = ADDS;
    const CLAIMS: bool = true;

    /// A batch that may be undone is lost as a whole with its first pair that finds no room;
    /// then the rest need not walk through a full map.
    #[inline(always)]
    unsafe fn wants(&self, _: u64) -> bool {
        // SAFETY: a counter that is only added to during the launch.
        self.marks.is_null() || unsafe { atomic::load(self.unplaced, Relaxed) } == 0
    }

    #[inline(always)]
    unsafe fn serve(&mut self, job: &Job<F>, seen: Seen<F::Value>) -> Next {
        // SAFETY: the slab is the one that was read; a slot that holds the key's pair goes on
        // doing so, since nothing removes pairs beside this verb; `index` is in the batch.
        unsafe {
            let attempt = match seen.holds {
                0 => store_in_slab(job, &seen),
                holds => Attempt::Present(job.slot(holds)),
            };
            match attempt {
                Attempt::Stored => {
                    self.stored += 1;
                    self.mark(job.index, Mark::Stored);
                }
                Attempt::Present(slot) => {
                    if ADDS {
                        F::add(slot, job.value);
                        self.mark(job.index, Mark::Added);
                    }
                }
                Attempt::Open(next) => return next,
            }
        }
        Next::Done
    }

    #[inline(always)]
    unsafe fn walked_off(&mut self, _: &Job<F>) {
        // SAFETY: a counter that is only added to during the launch. Rare, so one atomic each.
        unsafe { atomic::fetch_add(self.unplaced, 1, Relaxed) };
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

/// Undoes the part of a [`Store`] that left one kind of mark: takes additions back by adding
/// their negation, and stored pairs by making their slots empty again.
///
/// It runs alone on the map, right after the batch; additions first, since some may have gone to
/// pairs that the batch stored. Emptied slots break no walk but those of pairs that go as well;
/// for those, it does not stop at empty slots.
#[derive(Clone, Copy, Debug)]
pub struct Undo {
    /// What the batch left.
    pub marks: *const u8,
    /// What to undo.
    pub mark: Mark,
}

impl<F: Format> Verb<F> for Undo {
    const TAKES: bool = true;
    const READS: bool = false;
    const LOCATES: bool = true;
    const CLAIMS: bool = false;

    #[inline(always)]
    unsafe fn wants(&self, index: u64) -> bool {
        // SAFETY: one byte per key of the batch, not written during this launch.
        unsafe { mem::load(self.marks.add(index as usize)) == self.mark as u8 }
    }

    #[inline(always)]
    unsafe fn serve(&mut self, job: &Job<F>, seen: Seen<F::Value>) -> Next {
        if seen.holds == 0 {
            return Next::Walk;
        }
        let slot = job.slot(seen.holds);
        // SAFETY: the batch wrote to the slot for this very index, and nothing else runs.
        unsafe {
            match self.mark {
                Mark::None => {}
                Mark::Added => F::add(slot, job.value.negated()),
                Mark::Stored => F::take_back(slot),
            }
        }
        Next::Done
    }

    #[inline(always)]
    unsafe fn walked_off(&mut self, _: &Job<F>) {}
}
