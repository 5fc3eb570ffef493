//! Placing by compare-and-exchange: pairs whose keys may be equal; and, in slabs of four slots, stored already.

use super::Page;
use super::shared::{FREE, Shared};
use crate::slot::{Bits, Format, Stored};
use crate::table::PAGE_WALK;
use gpumap_simt::shared_ptr::SharedWord;
use gpumap_simt::{U32x4, thread};

/// What became of a key in one slab.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Claimed {
    Won,
    /// The word that stands for the pair that has the key.
    Present(u32),
    Full,
}

impl<F, const IN_USE: bool> Shared<F, IN_USE>
where
    F: Format,
    F::Key: SharedWord,
    F::Word: SharedWord,
{
    /// Puts a staged pair into a slab, unless its key is there; a slab that is full it passes. `word`
    /// stands for it in a slot.
    ///
    /// # Safety
    /// All keys are staged, the slab is one of the page, and slots are accessed by this alone.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn claim(&self, slab: u32, key: F::Key, word: u32) -> Claimed {
        // SAFETY: passed on; the counter is the slab's.
        unsafe {
            let claimed = if IN_USE {
                self.claim_first_free(slab, key, word)
            } else {
                self.claim_from_own(slab, key, word)
            };
            if claimed == Claimed::Full {
                let word = F::Word::from_u64(key.to_u64());
                self.counter(slab).pass(word);
            }
            claimed
        }
    }

    /// In a new page: a key tries the slots of a slab from one on that its tag chooses, and comes round. All pairs do
    /// so: a pair with the same key never lies after the first free slot; and a copy mostly finds it in the first
    /// slot that it reads.
    ///
    /// # Safety
    /// As for [`claim`](Self::claim).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn claim_from_own(&self, slab: u32, key: F::Key, word: u32) -> Claimed {
        let first = self.slots.add(slab * Self::SLAB_SLOTS);
        let own = word >> 16;
        let mut tried = 0;
        while tried < Self::SLAB_SLOTS {
            let slot = first.add((own + tried) % Self::SLAB_SLOTS);
            // SAFETY: a slot of the slab; one that is not free does not change any more.
            unsafe {
                let mut there = slot.peek();
                if there == FREE {
                    there = slot.compare_exchange(FREE, word);
                    if there == FREE {
                        return Claimed::Won;
                    }
                }
                if (there ^ word) >> 16 == 0 && self.has_key(there, key) {
                    return Claimed::Present(there);
                }
            }
            tried += 1;
        }
        Claimed::Full
    }

    /// In a page in use, whose pairs lie side by side in a slab: all of its words are looked at.
    ///
    /// # Safety
    /// As for [`claim`](Self::claim).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn claim_first_free(&self, slab: u32, key: F::Key, word: u32) -> Claimed {
        let first = self.slots.add(slab * Self::SLAB_SLOTS);
        // Goes round again only when another pair took the slot; no more often than there are slots.
        loop {
            let (mut free, mut alike) = (0, 0);
            let mut row = 0;
            while row < Self::SLAB_SLOTS {
                // SAFETY: four of the slab's slots.
                let U32x4(words) = unsafe { first.add(row).cast::<U32x4>().peek() };
                let mut s = 0;
                while s < 4 {
                    let bit = 1u32 << (row + s as u32);
                    if words[s] == FREE {
                        free |= bit;
                    } else if (words[s] ^ word) >> 16 == 0 {
                        alike |= bit;
                    }
                    s += 1;
                }
                row += 4;
            }
            // SAFETY: slots of the slab; one that is not free does not change any more.
            unsafe {
                while alike != 0 {
                    let there = first.add(alike.trailing_zeros()).load();
                    if self.has_key(there, key) {
                        return Claimed::Present(there);
                    }
                    alike &= alike - 1;
                }
                if free == 0 {
                    return Claimed::Full;
                }
                let slot = first.add(free.trailing_zeros());
                if slot.compare_exchange(FREE, word) == FREE {
                    return Claimed::Won;
                }
            }
        }
    }
}

impl<F, const IN_USE: bool> Page<'_, F, IN_USE>
where
    F: Format,
    F::Key: SharedWord,
    F::Value: SharedWord,
    F::Word: SharedWord,
{
    /// Gives staged pairs slots, spills those that find none. Returns how many this thread stored. If `MERGES`, the value
    /// of a pair whose key is there already is merged with the one there. Of this thread's pairs, number `n` is placed if bit
    /// `n` of `some` is set.
    ///
    /// # Safety
    /// The whole block calls it between two barriers; the keys are staged, the queue is empty.
    #[inline(always)]
    pub(super) unsafe fn claim_all<const MERGES: bool>(&self, mut some: u32) -> u32 {
        let shared = &self.shared;
        let t = thread::thread_idx_x();
        let mut stored = 0;
        // SAFETY: places stay below `count`, slabs are masked; the barrier is the same for all.
        unsafe {
            let mut i = t;
            while i < self.count {
                let key = shared.key(i);
                if IN_USE && MERGES && some & 1 == 0 {
                    // It has been merged.
                } else if let Stored::Table(_) = F::stored(key) {
                    let (hash, word) = self.staged(i, key);
                    match shared.claim(hash.slab(self.slab_mask), key, word) {
                        Claimed::Won => stored += 1,
                        Claimed::Present(there) => self.meet::<MERGES>(there, i),
                        Claimed::Full => {
                            if !shared.wait(i, 0, 0) {
                                stored += u32::from(self.claim_on::<MERGES>(i));
                            }
                        }
                    }
                } else {
                    self.spill(i);
                }
                i += thread::block_dim_x();
                some >>= 1;
            }
            thread::sync_threads();

            let (queued, _) = shared.waiting(0, 0);
            let mut q = t;
            while q < queued {
                stored += u32::from(self.claim_on::<MERGES>(shared.waits(q)));
                q += thread::block_dim_x();
            }
        }
        stored
    }

    /// Gives the pair at place `i` a slot beyond its home, unless its key is there, or spills it. Whether it
    /// was stored.
    ///
    /// # Safety
    /// As for [`claim_all`](Self::claim_all).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn claim_on<const MERGES: bool>(&self, i: u32) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            let key = self.shared.key(i);
            let (hash, word) = self.staged(i, key);
            let mut slab = hash.slab(self.slab_mask);
            let mut probe = 1;
            while probe < PAGE_WALK && probe <= self.slab_mask {
                slab = slab.wrapping_add(hash.step()) & self.slab_mask;
                match self.shared.claim(slab, key, word) {
                    Claimed::Won => return true,
                    Claimed::Present(there) => {
                        self.meet::<MERGES>(there, i);
                        return false;
                    }
                    Claimed::Full => {}
                }
                probe += 1;
            }
            self.spill(i);
            false
        }
    }

    /// The pair at place `i` has met one with its key: if `MERGES`, that one takes its value.
    ///
    /// # Safety
    /// `there` stands for the other one, and lies in a slot; this one lies in none. Values of pairs in slots are accessed
    /// by this alone.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn meet<const MERGES: bool>(&self, there: u32, i: u32) {
        if MERGES {
            // SAFETY: the caller's promise. No pair that lies in no slot is updated, so its value is what was staged.
            unsafe {
                let (_, value) = self.shared.pair(i);
                self.shared
                    .value_at(there & 0xffff)
                    .update(self.args.merging.update, value);
            }
        }
    }
}
