//! Placing by counters: pairs whose keys all differ, as most batches' do.
//!
//! A counter for each slab hands out its slots, so that nothing is compared and no attempt fails.
//! Whether keys are equal is seen afterwards: those in one slab by a thread that looks at the slab. One
//! that left its home is compared with those that are there, and by a filter with those that left it
//! before; if it may be equal to any, the same way is walked again. If keys are equal, all is undone.
//!
//! Batches in which each key comes many times are given up earlier, when more pairs have left their
//! homes than differing keys ever would.

use super::Page;
use super::shared::{FREE, Shared, most_suspects};
use crate::marks::{AtHome, Counted};
use crate::slot::{Bits, Format, Stored};
use crate::table::PAGE_WALK;
use gpumap_simt::shared_ptr::SharedWord;
use gpumap_simt::{U32x4, thread};

/// Slabs of a walk that a thread looks at together.
const AHEAD: usize = 4;

/// Slots of the largest slab: keys of 4 bytes alone.
const MOST_SLOTS: usize = 16;

impl<F, const IN_USE: bool> Shared<F, IN_USE>
where
    F: Format,
    F::Key: SharedWord,
    F::Word: SharedWord,
{
    /// The next slot of a slab gets a word, if there is one; else the key passes the slab.
    ///
    /// # Safety
    /// The slab is one of the page; slots are written by this alone.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn take_slot(&self, slab: u32, key: F::Key, word: u32) -> bool {
        // SAFETY: a slab of the page; the slot that its counter gives is this thread's alone.
        unsafe {
            let slot = self
                .counter(slab)
                .take_slot(F::Word::from_u64(key.to_u64()));
            if let Some(slot) = slot {
                self.slots.add(slab * Self::SLAB_SLOTS + slot).store(word);
            }
            slot.is_some()
        }
    }

    /// The words of a slab.
    ///
    /// # Safety
    /// The slab is one of the page, and is not written.
    #[inline(always)]
    unsafe fn words(&self, slab: u32) -> [u32; MOST_SLOTS] {
        let mut words = [FREE; MOST_SLOTS];
        let mut row = 0;
        while row < Self::SLAB_SLOTS as usize {
            let at = self.slots.add(slab * Self::SLAB_SLOTS + row as u32);
            // SAFETY: four of the slab's slots.
            let U32x4(four) = unsafe { at.cast::<U32x4>().load() };
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
    fn is_like_one(words: &[u32; MOST_SLOTS], word: u32) -> bool {
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
    /// Gives staged pairs slots, spills those that find none. Returns how many this thread stored; none if far
    /// more left their homes than differing keys would, the same for the whole block. Then, or if keys are
    /// [equal](Self::sees_equal_keys), slots and queue are to be cleared.
    ///
    /// # Safety
    /// The whole block calls it between two barriers; pairs are staged, slots and queue clear.
    #[inline(always)]
    pub(super) unsafe fn rank_all(&self) -> Option<u32> {
        let shared = &self.shared;
        let t = thread::thread_idx_x();
        let mut stored = 0;
        // SAFETY: places stay below `count`, slabs are masked; the barriers are the same for all.
        unsafe {
            let mut i = t;
            while i < self.count {
                let key = shared.key(i);
                if let Stored::Table(_) = F::stored(key) {
                    let (hash, word) = self.staged(i, key);
                    let slab = hash.slab(self.slab_mask);
                    let stands_for = F::Word::from_u64(key.to_u64());
                    match shared
                        .counter(slab)
                        .take_slot_at_home(stands_for, hash.tag())
                    {
                        AtHome::Slot(slot) => {
                            let slot = slab * Shared::<F, IN_USE>::SLAB_SLOTS + slot;
                            shared.slots.add(slot).store(word);
                            stored += 1;
                        }
                        AtHome::Full { is_new } => {
                            shared.wait_in_queue(i);
                            if !is_new {
                                shared.suspect(i);
                            }
                        }
                    }
                } else {
                    self.spill(i);
                }
                i += thread::block_dim_x();
            }
            thread::sync_threads();

            let (queued, too_many) = shared.queued();
            if too_many {
                return None;
            }
            let mut q = t;
            while q < queued {
                stored += u32::from(self.walk_on(q));
                q += thread::block_dim_x();
            }
        }
        Some(stored)
    }

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

    /// Gives the pair at a place of the queue a slot beyond its home, or spills it. Suspects it if its
    /// home has a key like it.
    ///
    /// # Safety
    /// As for [`rank_all`](Self::rank_all); there is one at that place.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn walk_on(&self, q: u32) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            let i = self.shared.waits(q);
            let key = self.shared.key(i);
            let (hash, word) = self.staged(i, key);
            let stands_for = F::Word::from_u64(key.to_u64());
            let mut slab = hash.slab(self.slab_mask);
            // Its home is full, and so nobody writes there any more.
            if Shared::<F, IN_USE>::is_like_one(&self.shared.words(slab), word) {
                self.shared.suspect(i);
            }
            // How many slabs are left of its walk in the page.
            let mut left = self.slab_mask.min(PAGE_WALK - 1);
            while left != 0 {
                // Looks at several slabs at once, and counts only on one that has room: full ones stay so.
                let mut seen = [Counted::NOTHING; AHEAD];
                let mut at = slab;
                let mut a = 0;
                while a < AHEAD {
                    at = at.wrapping_add(hash.step()) & self.slab_mask;
                    seen[a] = self.shared.counter(at).peek();
                    a += 1;
                }
                let mut full = true;
                let mut a = 0;
                while a < AHEAD {
                    if full && left != 0 {
                        slab = slab.wrapping_add(hash.step()) & self.slab_mask;
                        left -= 1;
                        full = seen[a].is_full();
                        if full {
                            self.shared.counter(slab).pass_full(seen[a], stands_for);
                        }
                    }
                    a += 1;
                }
                if !full && self.shared.take_slot(slab, key, word) {
                    return true;
                }
            }
            self.spill(i);
            false
        }
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
