//! Whether keys of a page that was placed by counters are equal after all.
//!
//! Those in one slab are seen by a thread that looks at the slab. One that left its home is compared with those that are
//! there, and by a filter with those that left it before; if it may be equal to any, the same way is walked again. That
//! holds for pairs that made way as well: of two equal ones that both left, at any time, the second finds the first in
//! the filter; of two of which one lies at home in the end, it lay there all the time, or is in the filter too.

use super::Page;
use super::shared::{FREE, Shared};
use crate::slot::Format;
use gpumap_simt::shared_ptr::SharedWord;
use gpumap_simt::{U32x4, thread};

/// How many of `room` staged pairs are suspected before all are. Of pages full to the last slot a thirtieth are.
pub(super) const fn most_suspects(room: u32) -> u32 {
    room / 16
}

/// Slots of the largest slab.
const MOST_SLOTS: usize = 8;

impl<F, const IN_USE: bool> Shared<F, IN_USE>
where
    F: Format,
    F::Key: SharedWord,
    F::Word: SharedWord,
{
    /// Notes that there may be another pair with the same home, and the same key, as that for which `word` stands.
    ///
    /// # Safety
    /// There is one; lists are written by this alone.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(super) unsafe fn suspect(&self, home: u32, word: u32) {
        // SAFETY: each place of the list is given to one thread.
        unsafe {
            let at = self.suspected.fetch_add(1);
            if at < most_suspects(self.room) {
                self.suspects.add(at).store(word);
                self.homes.add(at).store(home as u16);
            } else {
                // So many differ seldom, on small pages; claims will show it.
                self.equal.fetch_add(1);
            }
        }
    }

    /// How many pairs are suspected.
    ///
    /// # Safety
    /// A barrier lies after the last of them.
    #[inline(always)]
    pub(super) unsafe fn suspected(&self) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { self.suspected.load() }.min(most_suspects(self.room))
    }

    /// The home of the suspect number `s`, and the word that stands for it.
    ///
    /// # Safety
    /// There are more, and a barrier follows.
    #[inline(always)]
    pub(super) unsafe fn suspect_at(&self, s: u32) -> (u32, u32) {
        // SAFETY: the caller's promise.
        unsafe {
            (
                u32::from(self.homes.add(s).load()),
                self.suspects.add(s).load(),
            )
        }
    }

    /// Notes that a pair lies so many steps from its home.
    ///
    /// # Safety
    /// Called between two barriers; what is noted is accessed by this alone.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(super) unsafe fn note_steps(&self, steps: u32) {
        // SAFETY: the caller's promise.
        unsafe { self.steps.set_bits(steps) };
    }

    /// The base-two logarithm of a number of steps as far from home as no pair lies.
    ///
    /// # Safety
    /// A barrier lies after the last that was noted.
    #[inline(always)]
    pub(super) unsafe fn steps_log2(&self) -> u32 {
        // SAFETY: the caller's promise. A pair that moves to the next slab notes nothing.
        32 - unsafe { self.steps.load() | 1 }.leading_zeros()
    }

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
            // SAFETY: slots of the slab; words that are not free stand for pairs.
            unsafe {
                let word = first.add(u).load();
                if word != FREE && self.is_among(slab, u, word) {
                    return true;
                }
            }
            u += 1;
        }
        false
    }

    /// Whether a slab has a pair with the key of that for which `word` stands, other than this one: of the staged ones,
    /// or `before` of those that were in the page too. Others may put pairs there meanwhile.
    ///
    /// # Safety
    /// The slab is one of the page; the word stands for a staged pair.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(super) unsafe fn has_another(&self, slab: u32, word: u32, before: bool) -> bool {
        // SAFETY: the caller's promise; words that are not free stand for pairs.
        unsafe {
            let words = self.words(slab);
            if !Self::is_like_one(&words, word) {
                return false;
            }
            let mut s = 0;
            while s < Self::SLAB_SLOTS as usize {
                let there = words[s];
                let counts = !IN_USE || before || there & 0xffff < self.room;
                if counts && there != word && self.is_same(there, word) {
                    return true;
                }
                s += 1;
            }
        }
        false
    }

    /// Whether one of the first `slots` slots of a slab has the key of that for which `word` stands, and is not the same.
    ///
    /// # Safety
    /// As for [`has_equal`](Self::has_equal); the word is not [`FREE`].
    #[inline(always)]
    unsafe fn is_among(&self, slab: u32, slots: u32, word: u32) -> bool {
        let first = self.slots.add(slab * Self::SLAB_SLOTS);
        let mut s = 0;
        while s < slots {
            // SAFETY: a slot of the slab; a word that is not free stands for a pair.
            unsafe {
                let there = first.add(s).load();
                if there != word && self.is_same(there, word) {
                    return true;
                }
            }
            s += 1;
        }
        false
    }

    /// Whether a slot's word stands for a pair with the key of that for which `word` stands.
    ///
    /// # Safety
    /// Keys are staged; the second word is not [`FREE`].
    #[inline(always)]
    unsafe fn is_same(&self, there: u32, word: u32) -> bool {
        // SAFETY: the caller's promise.
        there != FREE
            && (there ^ word) >> 16 == 0
            && unsafe { self.key_word(there) == self.key_word(word) }
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
            // A thread for each slab that a suspect may have reached, so that none has a whole walk to go. From the
            // last thread on: the first ones have a slab more above.
            let (suspected, steps_log2) = (shared.suspected(), shared.steps_log2());
            let mut n = threads - 1 - t;
            while n < suspected << steps_log2 {
                let (home, word) = shared.suspect_at(n >> steps_log2);
                let slab = self.slab_of(home, word, n & !(!0 << steps_log2));
                equal |= shared.has_another(slab, word, false);
                n += threads;
            }
        }
        equal
    }
}
