//! A page that is being made, in the shared memory of a block.

use super::THREADS;
use crate::marks::SlabCounter;
use crate::slot::{Bits, Format};
use crate::table::SLAB_BYTES;
use gpumap_simt::shared_ptr::{SharedPtr, SharedWord};
use gpumap_simt::{U32x4, U64x2, thread};

/// A slot in which nothing is. No pair is at place 65,535.
pub(super) const FREE: u32 = u32::MAX;

/// How many of `room` staged pairs are suspected before all are.
pub(super) const fn most_suspects(room: u32) -> u32 {
    room / 8
}

/// Bytes of dynamic shared memory for a page of so many slots, each of `slot` bytes, and `room`
/// staged pairs; if `in_use` with the page itself.
pub const fn shared_bytes(
    [key, value]: [u32; 2],
    slot: u32,
    slots: u32,
    room: u32,
    in_use: bool,
) -> u32 {
    let page = if in_use { slot * slots } else { 0 };
    let slabs = slots / (SLAB_BYTES / slot);
    page + 4 * slots + room * (key + value + 2) + most_suspects(room) * 2 + 4 * (slabs + 4)
}

/// The pieces of a block's shared memory.
pub(super) struct Shared<F: Format, const IN_USE: bool> {
    /// The page as it was, if it is in use.
    pub(super) page: SharedPtr<U64x2>,
    /// One word per slot.
    pub(super) slots: SharedPtr<u32>,
    pub(super) keys: SharedPtr<F::Key>,
    pub(super) values: SharedPtr<F::Value>,
    /// One for each slab.
    used: SharedPtr<u32>,
    /// How many pairs are in the queue.
    pub(super) queued: SharedPtr<u32>,
    /// Whether keys are equal.
    pub(super) equal: SharedPtr<u32>,
    /// How many pairs are suspected.
    pub(super) suspected: SharedPtr<u32>,
    /// Whether they will be, from what is known of other pages.
    pub(super) doubt: SharedPtr<u32>,
    /// Places of staged pairs whose home is full.
    pub(super) queue: SharedPtr<u16>,
    /// Places of staged pairs that there may be others with the keys of: [`most_suspects`].
    pub(super) suspects: SharedPtr<u16>,
    /// Places of staged pairs; those beyond are slots of the page as it was.
    room: u32,
}

impl<F, const IN_USE: bool> Shared<F, IN_USE>
where
    F: Format,
    F::Key: SharedWord,
    F::Word: SharedWord,
{
    pub(super) const SLAB_SLOTS: u32 = SLAB_BYTES / F::SLOT_BYTES;

    #[inline(always)]
    pub(super) fn of(slots: u32, room: u32) -> Self {
        let page = SharedPtr::<U64x2>::dynamic();
        let vectors = if IN_USE { slots / F::SLOTS } else { 0 };
        let words = page.add(vectors).cast::<u32>();
        let keys = words.add(slots).cast::<F::Key>();
        let values = keys.add(room).cast::<F::Value>();
        let used = values.add(room).cast::<u32>();
        let queued = used.add(slots / Self::SLAB_SLOTS);
        let queue = queued.add(4).cast::<u16>();
        Self {
            page,
            slots: words,
            keys,
            values,
            used,
            queued,
            equal: queued.add(1),
            suspected: queued.add(2),
            doubt: queued.add(3),
            queue,
            suspects: queue.add(room),
            room,
        }
    }

    /// Notes that the staged pair at place `i` may have the same key as another one.
    ///
    /// # Safety
    /// There is one; lists are written by this alone.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(super) unsafe fn suspect(&self, i: u32) {
        // SAFETY: each place of the list is given to one thread.
        unsafe {
            let at = self.suspected.fetch_add(1);
            if at < most_suspects(self.room) {
                self.suspects.add(at).store(i as u16);
            } else {
                // So many differ seldom, on small pages; claims will tell.
                self.equal.fetch_add(1);
            }
        }
    }

    /// Makes all slots free, and the queue empty.
    ///
    /// # Safety
    /// The whole block calls it, between two barriers.
    #[inline(always)]
    pub(super) unsafe fn clear(&self, slots: u32) {
        let t = thread::thread_idx_x();
        // SAFETY: each word is one thread's.
        unsafe {
            let mut i = 4 * t;
            while i < slots {
                self.slots.add(i).cast().store(U32x4([FREE; 4]));
                i += 4 * THREADS;
            }
            let mut i = t;
            while i < slots / Self::SLAB_SLOTS + 3 {
                self.used.add(i).store(0);
                i += THREADS;
            }
        }
    }

    /// The counter of a slab of the page.
    #[inline(always)]
    pub(super) fn counter(&self, slab: u32) -> SlabCounter<F> {
        SlabCounter::of(self.used.add(slab))
    }

    /// The key word of a slot of the page as it was.
    ///
    /// # Safety
    /// The page is in use, has that slot, and has been copied.
    #[inline(always)]
    pub(super) unsafe fn word_before(&self, slot: u32) -> F::Word {
        let at = self.page.cast::<u8>().add(slot * F::SLOT_BYTES);
        // SAFETY: the key word begins the slot.
        unsafe { at.cast::<F::Word>().load() }
    }

    /// The pair in a slot of the page as it was.
    ///
    /// # Safety
    /// As for [`word_before`](Self::word_before).
    #[inline(always)]
    pub(super) unsafe fn pair_before(&self, slot: u32) -> (F::Word, F::Value) {
        // SAFETY: the vector of the slot.
        let vector = unsafe { self.page.add(slot / F::SLOTS).load() };
        let i = slot % F::SLOTS;
        (F::word(vector, i), F::value(vector, i))
    }

    /// The key word of the pair that a slot's word stands for.
    ///
    /// # Safety
    /// The word is not [`FREE`]; keys are staged.
    #[inline(always)]
    pub(super) unsafe fn key_word(&self, word: u32) -> F::Word {
        let place = word & 0xffff;
        // SAFETY: a place below `room` is that of a staged key, one beyond it that of a slot.
        unsafe {
            if !IN_USE || place < self.room {
                F::Word::from_u64(self.keys.add(place).load().to_u64())
            } else {
                self.word_before(place - self.room)
            }
        }
    }

    /// Whether the pair that a slot's word stands for has this key.
    ///
    /// # Safety
    /// As for [`key_word`](Self::key_word).
    #[inline(always)]
    pub(super) unsafe fn has_key(&self, word: u32, key: F::Key) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.key_word(word).to_u64() == key.to_u64() }
    }
}
