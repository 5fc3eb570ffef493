//! Placing by counters: pairs whose keys all differ, as most batches' do.
//!
//! A counter for each slab hands out its slots, so that nothing is compared and no attempt fails.
//!
//! Which of the pairs of a home that is full leave it is open until all others are placed. A lookup pays for every slab
//! that is passed, so those leave that have room nearby: that is a cuckoo hash table's way to find room (Pagh and
//! Rodler, 2001), with one step and no second one, since whoever leaves must find room.
//!
//! | pairs | |
//! |---|---|
//! | as many as the home has slots for | lie there |
//! | each of the others | asks itself and four of those whether the next slab of their walks has room; one that has moves there |
//! | those for which there was none, or others took it | ask for the next [`NEAR`] slabs, up to [`TRIES`] times; then walk on |
//!
//! Whether keys are equal is seen afterwards: those in one slab by a thread that looks at the slab. One
//! that left its home is compared with those that are there, and by a filter with those that left it
//! before; if it may be equal to any, the same way is walked again. That holds for pairs that made way as well: of
//! two equal ones that both left, at any time, the second finds the first in the filter; of two of which one
//! lies at home in the end, it lay there all the time, or is in the filter too. If keys are equal, all is undone.
//!
//! Batches in which each key comes many times are given up earlier, when more pairs have left their
//! homes than differing keys ever would.

use super::Page;
use super::shared::{FREE, Shared, most_suspects};
use crate::hash::KeyHash;
use crate::marks::{AtHome, Counted};
use crate::slot::{Bits, Format, Stored};
use crate::table::PAGE_WALK;
use gpumap_simt::shared_ptr::SharedWord;
use gpumap_simt::{U32x4, thread};

/// Slabs of a walk that a thread looks at together: no fewer than are asked about.
const AHEAD: usize = 4;

/// How many steps of the walk of a pair that waited again are asked about before it is settled who leaves.
const NEAR: u32 = 3;
const _: () = assert!(NEAR as usize <= AHEAD);

/// How often that is settled anew, if others took the room that was seen.
const TRIES: u32 = 3;

/// How many of the pairs of a home are asked whether they have room nearer by.
const ASKED: u32 = 4;

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

    /// Notes that a key passes a slab.
    ///
    /// # Safety
    /// The slab is one of the page.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn pass(&self, slab: u32, key: F::Key) {
        // SAFETY: the caller's promise.
        unsafe { self.counter(slab).pass(F::Word::from_u64(key.to_u64())) };
    }

    /// The words of a slab, each as it was at some moment.
    ///
    /// # Safety
    /// The slab is one of the page.
    #[inline(always)]
    unsafe fn words(&self, slab: u32) -> [u32; MOST_SLOTS] {
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
                    match shared.counter(slab).take_slot_at_home(hash.tag()) {
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
                stored += u32::from(self.move_next_door(shared.waits(q)));
                q += thread::block_dim_x();
            }
            thread::sync_threads();

            let (queued_again, too_many) = shared.queued_again();
            if too_many {
                return None;
            }
            let mut q = queued + t;
            while q < queued_again {
                stored += u32::from(self.walk_on(shared.waits(q)));
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

    /// Gives the pair at place `i`, whose home is full, a slot if it, or another one of its home, has room in the next
    /// slab of its walk: that one leaves. Else whoever was to leave waits again. Whether a pair was stored.
    ///
    /// # Safety
    /// As for [`rank_all`](Self::rank_all); it is one of the queue.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn move_next_door(&self, i: u32) -> bool {
        let shared = &self.shared;
        // SAFETY: the caller's promise.
        unsafe {
            let (hash, word) = self.staged(i, shared.key(i));
            let home = hash.slab(self.slab_mask);
            let (word, has_room) = self.who_leaves::<1>(home, word);
            let i = word & 0xffff;
            let key = shared.key(i);
            if has_room && shared.take_slot(self.slab_of(home, word, 1), key, word) {
                shared.pass(home, key);
                return true;
            }
            shared.wait_again(i);
            false
        }
    }

    /// Gives the pair at place `i`, which waited again, a slot of its home or farther on. Who leaves the home in its
    /// stead walks on, and is spilled at the end. Whether a pair was stored.
    ///
    /// # Safety
    /// As for [`move_next_door`](Self::move_next_door).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn walk_on(&self, i: u32) -> bool {
        let shared = &self.shared;
        // SAFETY: the caller's promise.
        unsafe {
            let (hash, mut word) = self.staged(i, shared.key(i));
            let home = hash.slab(self.slab_mask);
            let all = self.slab_mask.min(PAGE_WALK - 1);
            // Where the walk has come to, and how many slabs are left of it in the page.
            let (mut slab, mut left) = (home, all);
            let mut tries = 0;
            while left != 0 {
                if tries < TRIES {
                    (word, _) = self.who_leaves::<NEAR>(home, word);
                    (slab, left) = (home, all);
                    tries += 1;
                }
                let key = shared.key(word & 0xffff);
                let step = KeyHash::step_of_tag(word >> 16);
                // Looks at several slabs at once, and counts only on one that has room: full ones stay so.
                let mut seen = [Counted::NOTHING; AHEAD];
                let mut at = slab;
                let mut a = 0;
                while a < AHEAD {
                    at = at.wrapping_add(step) & self.slab_mask;
                    seen[a] = shared.counter(at).peek();
                    a += 1;
                }
                let mut full = true;
                let mut a = 0;
                while a < AHEAD {
                    if full && left != 0 {
                        slab = slab.wrapping_add(step) & self.slab_mask;
                        left -= 1;
                        full = seen[a].is_full();
                        if full {
                            let key = F::Word::from_u64(key.to_u64());
                            shared.counter(slab).pass_full(seen[a], key);
                        }
                    }
                    a += 1;
                }
                if !full && shared.take_slot(slab, key, word) {
                    shared.pass(home, key);
                    return true;
                }
            }
            shared.pass(home, shared.key(word & 0xffff));
            self.spill(word & 0xffff);
            false
        }
    }

    /// Slab number `steps` of the walk of a pair from its home.
    #[inline(always)]
    fn slab_of(&self, home: u32, word: u32, steps: u32) -> u32 {
        home.wrapping_add(steps * KeyHash::step_of_tag(word >> 16)) & self.slab_mask
    }

    /// Which of the pairs of a home that is full leaves it: the one that `word` stands for, which has no slot, or one
    /// that lies there and has room nearer by. Then the first one gets its slot. And whether it has room within
    /// `NEAR_BY` steps. Suspects it, if there is a key like it.
    ///
    /// # Safety
    /// As for [`move_next_door`](Self::move_next_door); the home is that of the word.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn who_leaves<const NEAR_BY: u32>(&self, home: u32, word: u32) -> (u32, bool) {
        let shared = &self.shared;
        // SAFETY: the caller's promise. All that lies in the slab was staged and has its home there: it was full before
        // any pair left its own.
        unsafe {
            let words = shared.words(home);
            let (mut leaves, mut slot) = (word, 0);
            let mut steps = self.steps_to_room::<NEAR_BY>(home, word);
            let mut s = 0;
            while s < ASKED {
                let there = words[s as usize];
                let its_steps = self.steps_to_room::<NEAR_BY>(home, there);
                if its_steps < steps {
                    (leaves, slot, steps) = (there, s, its_steps);
                }
                s += 1;
            }
            let mut is_new = true;
            if leaves != word {
                let at = home * Shared::<F, IN_USE>::SLAB_SLOTS + slot;
                if shared.slots.add(at).compare_exchange(leaves, word) == leaves {
                    is_new = shared.counter(home).leave_home(leaves >> 16);
                } else {
                    (leaves, steps) = (word, NEAR_BY + 1);
                }
            }
            if !is_new || Shared::<F, IN_USE>::is_like_one(&words, leaves) {
                shared.suspect(leaves & 0xffff);
            }
            (leaves, steps <= NEAR_BY)
        }
    }

    /// How far the room is for a key that leaves its home, in steps of its walk: up to `NEAR_BY`, or one more.
    ///
    /// # Safety
    /// As for [`who_leaves`](Self::who_leaves); the word stands for a staged pair.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn steps_to_room<const NEAR_BY: u32>(&self, home: u32, word: u32) -> u32 {
        let mut steps = NEAR_BY + 1;
        let mut at = NEAR_BY;
        while at != 0 {
            let slab = self.slab_of(home, word, at);
            // SAFETY: a slab of the page.
            if unsafe { !self.shared.counter(slab).peek().is_full() } {
                steps = at;
            }
            at -= 1;
        }
        steps
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
