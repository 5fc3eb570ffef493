//! A page that is being made, in the shared memory of a block.

use crate::build::pair::{Joined, side_by_side};
use crate::marks::SlabCounter;
use crate::primitives::partition::stage;
use crate::slot::{Bits, Format};
use crate::table::SLAB_BYTES;
use gpumap_simt::shared_ptr::{SharedPtr, SharedWord};
use gpumap_simt::{U32x4, U64x2, thread};

/// A slot in which nothing is. No pair is at place 65,535.
pub(super) const FREE: u32 = u32::MAX;

/// Words behind the counters of slabs that are zero when pairs begin to be placed.
const COUNTS: u32 = 4;
/// All words there: one more is known before.
const WORDS: u32 = COUNTS + 1;

/// How many of `room` staged pairs are suspected before all are.
pub(super) const fn most_suspects(room: u32) -> u32 {
    room / 8
}

/// How many of `room` staged pairs wait at a time for all others to be placed. Of pages full to the last slot a
/// fifth do.
pub(super) const fn most_queued(room: u32) -> u32 {
    room / 8 * 3 + 8
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
    page + 4 * slots
        + room * (key + value)
        + 2 * (most_queued(room) + most_suspects(room))
        + 4 * (slabs + WORDS)
}

/// The pieces of a block's shared memory.
pub(super) struct Shared<F: Format, const IN_USE: bool> {
    /// The page as it was, if it is in use.
    pub(super) page: SharedPtr<U64x2>,
    /// One word per slot.
    pub(super) slots: SharedPtr<u32>,
    /// Staged keys, and behind them their values; or pairs [side by side](crate::build::pair).
    keys: SharedPtr<F::Key>,
    /// One for each slab.
    used: SharedPtr<u32>,
    /// How many pairs were to wait in the queue.
    queued: SharedPtr<u32>,
    /// How many of these were to wait once more.
    again: SharedPtr<u32>,
    /// Whether keys are equal.
    pub(super) equal: SharedPtr<u32>,
    /// How many pairs are suspected.
    pub(super) suspected: SharedPtr<u32>,
    /// Whether they will be, from what is known of other pages.
    pub(super) doubt: SharedPtr<u32>,
    /// Places of staged pairs whose home is full: [`most_queued`].
    queue: SharedPtr<u16>,
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
    /// Whether staged pairs lie side by side.
    pub(super) const JOINED: bool = side_by_side::<F::Key, F::Value>();

    #[inline(always)]
    pub(super) fn of(slots: u32, room: u32) -> Self {
        let page = SharedPtr::<U64x2>::dynamic();
        let vectors = if IN_USE { slots / F::SLOTS } else { 0 };
        let words = page.add(vectors).cast::<u32>();
        let keys = words.add(slots).cast::<F::Key>();
        let values = keys.add(room).cast::<F::Value>();
        let used = values.add(room).cast::<u32>();
        let queued = used.add(slots / Self::SLAB_SLOTS);
        let queue = queued.add(WORDS).cast::<u16>();
        Self {
            page,
            slots: words,
            keys,
            used,
            queued,
            again: queued.add(1),
            equal: queued.add(2),
            suspected: queued.add(3),
            doubt: queued.add(COUNTS),
            queue,
            suspects: queue.add(most_queued(room)),
            room,
        }
    }

    /// Queues the copies of `count` pairs from the head of a page that has space for `space` keys.
    ///
    /// # Safety
    /// There are as many, no more than the block has room for; the whole block calls it.
    #[inline(always)]
    pub(super) unsafe fn stage(&self, head: *const u8, space: u32, count: u32) {
        // SAFETY: the caller's promise. Heads are aligned to 16 bytes, and space is a multiple of 4.
        unsafe {
            if Self::JOINED {
                if const { size_of::<F::Key>() == 4 } {
                    stage::<u64>(
                        self.keys.cast(),
                        head.cast(),
                        count,
                        true,
                        thread::block_dim_x(),
                    );
                } else {
                    stage::<U64x2>(
                        self.keys.cast(),
                        head.cast(),
                        count,
                        true,
                        thread::block_dim_x(),
                    );
                }
            } else {
                let keys = head.cast::<F::Key>();
                let values = keys.add(space as usize).cast::<F::Value>();
                stage(self.keys, keys, count, true, thread::block_dim_x());
                stage(self.values(), values, count, true, thread::block_dim_x());
            }
        }
    }

    /// Staged values that do not lie beside their keys.
    #[inline(always)]
    fn values(&self) -> SharedPtr<F::Value> {
        self.keys.add(self.room).cast()
    }

    /// The key of the staged pair at place `i`.
    ///
    /// # Safety
    /// There is one, and it is there.
    #[inline(always)]
    pub(super) unsafe fn key(&self, i: u32) -> F::Key {
        let step = if Self::JOINED { 2 } else { 1 };
        // SAFETY: the caller's promise. The key is the first half of a word.
        unsafe { self.keys.add(step * i).load() }
    }

    /// The staged pair at place `i`.
    ///
    /// # Safety
    /// There is one, and it is there.
    #[inline(always)]
    pub(super) unsafe fn pair(&self, i: u32) -> (F::Key, F::Value) {
        // SAFETY: the caller's promise.
        unsafe {
            if Self::JOINED {
                if const { size_of::<F::Key>() == 4 } {
                    let word = self.keys.cast::<u64>().add(i).load();
                    (word.key(), word.value())
                } else {
                    let word = self.keys.cast::<U64x2>().add(i).load();
                    (word.key(), word.value())
                }
            } else {
                (self.keys.add(i).load(), self.values().add(i).load())
            }
        }
    }

    /// Puts the staged pair at place `i` into the queue; false if there is no room.
    ///
    /// # Safety
    /// There is one; the queue is written by this alone.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(super) unsafe fn wait_in_queue(&self, i: u32) -> bool {
        // SAFETY: each place of the queue is given to one thread.
        unsafe {
            let at = self.queued.fetch_add(1);
            let has_room = at < most_queued(self.room);
            if has_room {
                self.queue.add(at).store(i as u16);
            }
            has_room
        }
    }

    /// How many pairs wait in the queue, and whether others were to.
    ///
    /// # Safety
    /// A barrier lies behind the last that was put there.
    #[inline(always)]
    pub(super) unsafe fn queued(&self) -> (u32, bool) {
        let most = most_queued(self.room);
        // SAFETY: the caller's promise.
        let queued = unsafe { self.queued.load() };
        (queued.min(most), queued > most)
    }

    /// Puts the staged pair at place `i` behind those that wait in the queue, if there is room.
    ///
    /// # Safety
    /// There is one; a barrier lies behind the last that was put into the queue, and these are behind it by this
    /// alone.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(super) unsafe fn wait_again(&self, i: u32) {
        // SAFETY: each place of the queue is given to one thread.
        unsafe {
            let at = self.queued.load() + self.again.fetch_add(1);
            if at < most_queued(self.room) {
                self.queue.add(at).store(i as u16);
            }
        }
    }

    /// Where those that wait again end, which begin behind the others, and whether there was no room for some.
    ///
    /// # Safety
    /// A barrier lies behind the last that was put there.
    #[inline(always)]
    pub(super) unsafe fn queued_again(&self) -> (u32, bool) {
        let most = most_queued(self.room);
        // SAFETY: the caller's promise.
        let queued = unsafe { self.queued.load() + self.again.load() };
        (queued.min(most), queued > most)
    }

    /// The pair that waits at a place of the queue.
    ///
    /// # Safety
    /// There is one, and a barrier lies behind.
    #[inline(always)]
    pub(super) unsafe fn waits(&self, q: u32) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { u32::from(self.queue.add(q).load()) }
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
                i += 4 * thread::block_dim_x();
            }
            let mut i = t;
            while i < slots / Self::SLAB_SLOTS + COUNTS {
                self.used.add(i).store(0);
                i += thread::block_dim_x();
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
                F::Word::from_u64(self.key(place).to_u64())
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
