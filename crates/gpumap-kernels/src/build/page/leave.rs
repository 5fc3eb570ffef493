//! Which pair leaves a full home bucket, and where to.
//!
//! Which of the pairs of such a home leave it is open until all others are placed. A lookup pays for every slab
//! that is passed, so those leave that have room nearby: that is a cuckoo hash table's way to find room (Pagh and
//! Rodler, 2001), with one step and no second one, since a pair that leaves must find room.
//!
//! | pairs | |
//! |---|---|
//! | as many as the home has slots for | lie there |
//! | each of the others | checks for itself and four of those whether the next slab of their walks has room; one that has moves there |
//! | those for which there was none, or others took it | check the next [`NEAR`] slabs, up to [`TRIES`] times; then walk on |

use super::Page;
use super::shared::Shared;
use crate::hash::KeyHash;
use crate::marks::Counted;
use crate::slot::{Bits, Format};
use crate::table::PAGE_WALK;
use gpumap_simt::shared_ptr::SharedWord;

/// Slabs of a walk that a thread reads together: no fewer than are checked.
const AHEAD: usize = 4;

/// How many steps of the walk of a pair that waited again are checked before it is settled which pair leaves.
const NEAR: u32 = 3;
const _: () = assert!(NEAR as usize <= AHEAD);

/// How often that is settled anew, if others took the room that was seen.
const TRIES: u32 = 3;

/// How many of the pairs of a home are checked for room nearer by.
const ASKED: u32 = 4;

impl<F, const IN_USE: bool> Shared<F, IN_USE>
where
    F: Format,
    F::Key: SharedWord,
    F::Word: SharedWord,
{
    /// The next slot of a slab gets a word, if there is one; else the key passes the slab.
    ///
    /// # Safety
    /// The slab is one of the page; it gets pairs by this alone.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn take_slot(&self, slab: u32, key: F::Key, word: u32) -> bool {
        // SAFETY: a slab of the page; the slot that its counter gives is this thread's alone.
        unsafe {
            let slot = self
                .counter(slab)
                .take_slot(F::Word::from_u64(key.to_u64()));
            if let Some(slot) = slot {
                self.put(slab, slot, word);
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
}

impl<F, const IN_USE: bool> Page<'_, F, IN_USE>
where
    F: Format,
    F::Key: SharedWord,
    F::Value: SharedWord,
    F::Word: SharedWord,
{
    /// Whether the key of the pair at place `i`, whose home is full, was in the page before, farther on in its walk.
    ///
    /// # Safety
    /// As for [`move_next_door`](Self::move_next_door).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(super) unsafe fn was_farther_on(&self, i: u32) -> bool {
        let shared = &self.shared;
        // SAFETY: the caller's promise.
        unsafe {
            let (hash, word) = self.staged(i, shared.key(i));
            let home = hash.slab(self.slab_mask);
            let all = self.slab_mask.min(PAGE_WALK - 1);
            let (mut slab, mut steps) = (home, 0);
            // Beyond a slab that was not full there is no key that came this way.
            while steps < all && shared.counter(slab).peek().was_full() {
                steps += 1;
                slab = self.slab_of(home, word, steps);
                if shared.has_another(slab, word, true) {
                    return true;
                }
            }
        }
        false
    }

    /// Gives the pair at place `i`, whose home is full, a slot if it, or another one of its home, has room in the next
    /// slab of its walk: that one leaves. Returns the pair without a slot then.
    ///
    /// # Safety
    /// As for [`rank_all`](Self::rank_all); it is one of the queue.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(super) unsafe fn move_next_door(&self, i: u32) -> Option<u32> {
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
                return None;
            }
            Some(i)
        }
    }

    /// Gives the pair at place `i`, which waited again, a slot of its home or farther on. The pair that leaves the
    /// home in its stead walks on, and is spilled at the end. Whether a pair was stored.
    ///
    /// # Safety
    /// As for [`move_next_door`](Self::move_next_door).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(super) unsafe fn walk_on(&self, i: u32) -> bool {
        let shared = &self.shared;
        // SAFETY: the caller's promise.
        unsafe {
            let (hash, mut word) = self.staged(i, shared.key(i));
            let home = hash.slab(self.slab_mask);
            let all = self.slab_mask.min(PAGE_WALK - 1);
            // Where the walk is, and how many slabs are left of it in the page.
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
                    shared.note_steps(all - left);
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
    pub(super) fn slab_of(&self, home: u32, word: u32, steps: u32) -> u32 {
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
        // SAFETY: the caller's promise. All staged pairs that lie in the slab have their home there: it was full before
        // any of them left its own. Those that were in the page before stay, wherever their homes are.
        unsafe {
            let words = shared.words(home);
            let (mut leaves, mut slot) = (word, 0);
            let mut steps = self.steps_to_room::<NEAR_BY>(home, word);
            // Those that came last lie in the last slots.
            let end = Shared::<F, IN_USE>::SLAB_SLOTS;
            let mut s = end - ASKED;
            while s < end {
                let there = words[s as usize];
                let its_steps = self.steps_to_room::<NEAR_BY>(home, there);
                let may_leave = !IN_USE || there & 0xffff < self.args.heads.room;
                if may_leave && its_steps < steps {
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
                shared.suspect(home, leaves);
            }
            (leaves, steps <= NEAR_BY)
        }
    }

    /// How far the room is for a key that leaves its home, in steps of its walk: up to `NEAR_BY`, or one more.
    ///
    /// # Safety
    /// As for [`who_leaves`](Self::who_leaves); the word stands for a pair, whose home that is if the answer is to be used.
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
}
