//! Whether keys of a page that was placed by counters are equal after all.
//!
//! Those in one slab are seen by a thread that looks at the slab. One that left its home is compared with those that are
//! there, and by a filter with those that left it before; if it may be equal to any, the same way is walked again. That
//! holds for pairs that made way as well: of two equal ones that both left, at any time, the second finds the first in
//! the filter; of two of which one lies at home in the end, it lay there all the time, or is in the filter too.

use super::Page;
use super::shared::{FREE, Shared, most_suspects};
use crate::slot::Format;
use crate::table::PAGE_WALK;
use gpumap_simt::shared_ptr::SharedWord;
use gpumap_simt::{U32x4, thread};

/// Slots of the largest slab: keys of 4 bytes alone.
const MOST_SLOTS: usize = 16;

impl<F, const IN_USE: bool> Shared<F, IN_USE>
where
    F: Format,
    F::Key: SharedWord,
    F::Word: SharedWord,
{
    /// The words of a slab, each as it was at some moment.
    ///
    /// # Safety
    /// The slab is one of the page.
    #[inline(always)]
    pub(super) unsafe fn words(&self, slab: u32) -> [u32; MOST_SLOTS] {
        let mut words = [FREE; MOST_SLOTS];
        let mut row = 0;
        while row < Self::SLAB_SLOTS as usize {
            let at = self.slots.add(slab * Self::SLAB_SLOTS + row as u32);
            // SAFETY: four of the slab's slots.
            let U32x4(four) = unsafe { at.cast::<U32x4>().peek() };
            let mut s = 0;
            while s < 4 {
                words[row + s] = four[s];
                s += 1;
            }
            row += 4;
        }
        words
    }

    /// Whether a slab of such words has one with the tag of `word`, other than `word` itself.
    #[inline(always)]
    pub(super) fn is_like_one(words: &[u32; MOST_SLOTS], word: u32) -> bool {
        // The least difference, less one: bits 16 and up are zero if tags agree.
        let mut least = u32::MAX;
        let mut s = 0;
        while s < Self::SLAB_SLOTS as usize {
            least = least.min((words[s] ^ word).wrapping_sub(1));
            s += 1;
        }
        least < 0xffff
    }

    /// Whether two pairs of a slab have the same key.
    ///
    /// # Safety
    /// As for [`words`](Self::words); keys are staged.
    #[inline(always)]
    unsafe fn has_equal(&self, slab: u32) -> bool {
        // SAFETY: the caller's promise.
        let words = unsafe { self.words(slab) };
        // The least difference of two words that are not both free, less one: bits 16 and up are zero
        // if tags agree. No two words agree in all bits.
        let mut least = u32::MAX;
        let mut u = 1;
        while u < Self::SLAB_SLOTS as usize {
            let mut v = 0;
            while v < u {
                least = least.min((words[u] ^ words[v]).wrapping_sub(1));
                v += 1;
            }
            u += 1;
        }
        if least >= 0xffff {
            return false;
        }
        // Seldom: one slab in some thousands.
        let first = self.slots.add(slab * Self::SLAB_SLOTS);
        let mut u = 1;
        while u < Self::SLAB_SLOTS {
            // SAFETY: slots of the slab; words that are not free stand for staged pairs.
            unsafe {
                let word = first.add(u).load();
                if word != FREE {
                    let key = self.key(word & 0xffff);
                    if self.is_among(slab, u, word, key) {
                        return true;
                    }
                }
            }
            u += 1;
        }
        false
    }

    /// Whether one of the first `slots` slots of a slab has this key, and is not `word` itself.
    ///
    /// # Safety
    /// As for [`has_equal`](Self::has_equal).
    #[inline(always)]
    unsafe fn is_among(&self, slab: u32, slots: u32, word: u32, key: F::Key) -> bool {
        let first = self.slots.add(slab * Self::SLAB_SLOTS);
        let mut s = 0;
        while s < slots {
            // SAFETY: a slot of the slab; a word that is not free stands for a pair.
            unsafe {
                let there = first.add(s).load();
                let alike = there != FREE && (there ^ word) >> 16 == 0 && there != word;
                if alike && self.has_key(there, key) {
                    return true;
                }
            }
            s += 1;
        }
        false
    }
}

impl<F, const IN_USE: bool> Page<'_, F, IN_USE>
where
    F: Format,
    F::Key: SharedWord,
    F::Value: SharedWord,
    F::Word: SharedWord,
{
    /// Whether this thread has seen that keys are equal: if no thread of the block has, all differ.
    ///
    /// # Safety
    /// The whole block calls it when [`rank_all`](Self::rank_all) has placed all pairs, across a barrier; slots are
    /// not written.
    #[inline(always)]
    pub(super) unsafe fn sees_equal_keys(&self) -> bool {
        let shared = &self.shared;
        let (t, threads) = (thread::thread_idx_x(), thread::block_dim_x());
        let mut equal = false;
        // SAFETY: slabs of the page, and places of the list.
        unsafe {
            let mut slab = t;
            while slab <= self.slab_mask {
                equal |= shared.has_equal(slab);
                slab += threads;
            }
            // From the last thread on: the first ones have a slab more.
            let most = most_suspects(self.args.heads.room);
            let suspected = shared.suspected.load().min(most);
            let mut s = threads - 1 - t;
            while s < suspected {
                equal |= self.is_met_again(u32::from(shared.suspects.add(s).load()));
                s += threads;
            }
        }
        equal
    }

    /// Whether an equal key lies on the way of the staged pair at place `i` to its slot, or beyond.
    ///
    /// # Safety
    /// As for [`walk_on`](Self::walk_on), and slots are not written.
    #[inline(always)]
    unsafe fn is_met_again(&self, i: u32) -> bool {
        let slots = Shared::<F, IN_USE>::SLAB_SLOTS;
        // SAFETY: the caller's promise.
        unsafe {
            let key = self.shared.key(i);
            let (hash, word) = self.staged(i, key);
            let mut slab = hash.slab(self.slab_mask);
            let mut probe = 0;
            while probe < PAGE_WALK && probe <= self.slab_mask {
                let words = self.shared.words(slab);
                let is_like_one = Shared::<F, IN_USE>::is_like_one(&words, word);
                if is_like_one && self.shared.is_among(slab, slots, word, key) {
                    return true;
                }
                // Beyond a slab that is not full there is no key that came this way.
                if words[slots as usize - 1] == FREE {
                    return false;
                }
                slab = slab.wrapping_add(hash.step()) & self.slab_mask;
                probe += 1;
            }
            false
        }
    }
}
