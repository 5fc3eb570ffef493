//! A page that is being made, in the shared memory of a block.

use super::equal::most_suspects;
use super::queue::{ROUNDS, most_queued};
use crate::build::pair::{Joined, side_by_side};
use crate::marks::SlabCounter;
use crate::primitives::partition::stage;
use crate::slot::{Bits, Format};
use crate::table::SLAB_BYTES;
use gpumap_simt::shared_ptr::{SharedPtr, SharedWord};
use gpumap_simt::{U32x4, U64x2, thread};

/// A slot in which nothing is. No pair is at place 65,535.
pub(super) const FREE: u32 = u32::MAX;

/// A vector of them, as it lies in the table.
const EMPTY_SLOTS: U64x2 = U64x2::new(!0, !0);

/// Words after the counters of slabs that are zero when pairs begin to be placed.
const COUNTS: u32 = ROUNDS + 3;
/// All words there: one more is known before.
const WORDS: u32 = COUNTS + 1;

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
    4 * slots
        + room * (key + value)
        + page
        + size_of::<U64x2>() as u32
        + 4 * (slabs + WORDS + most_suspects(room))
        + 2 * (most_queued(room, in_use) + most_suspects(room))
}

/// The pieces of a block's shared memory.
pub(super) struct Shared<F: Format, const IN_USE: bool> {
    /// One word per slot.
    pub(super) slots: SharedPtr<u32>,
    /// Staged keys, and after them their values; or pairs [side by side](crate::build::pair).
    keys: SharedPtr<F::Key>,
    /// The page as it was, if it is in use.
    pub(super) page: SharedPtr<U64x2>,
    /// A vector of empty slots, after the page.
    empty: SharedPtr<U64x2>,
    /// One for each slab.
    used: SharedPtr<u32>,
    /// How many pairs were to wait in the [queue](super::queue), for each of its rounds.
    pub(super) queued: SharedPtr<u32>,
    /// Whether keys are equal.
    pub(super) equal: SharedPtr<u32>,
    /// How many pairs are suspected.
    pub(super) suspected: SharedPtr<u32>,
    /// Numbers of steps that pairs went from their homes, one or'ed to the other.
    pub(super) steps: SharedPtr<u32>,
    /// Whether keys will be equal, from what is known of other pages.
    pub(super) doubt: SharedPtr<u32>,
    /// Places of staged pairs whose home is full: [`most_queued`].
    pub(super) queue: SharedPtr<u16>,
    /// Words of staged pairs that there may be others with the keys of: [`most_suspects`].
    pub(super) suspects: SharedPtr<u32>,
    /// Their homes.
    pub(super) homes: SharedPtr<u16>,
    /// Places of staged pairs; those beyond are slots of the page as it was.
    pub(super) room: u32,
    /// After the last of these: the place of an empty slot.
    places: u32,
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
    /// Whether a staged pair has the bits of a slot: then one as it was, and an empty one, lie after the staged
    /// ones as if they were more of them.
    const AS_SLOTS: bool = (size_of::<F::Key>() + size_of::<F::Value>()) as u32 == F::SLOT_BYTES;

    #[inline(always)]
    pub(super) fn of(slots: u32, room: u32) -> Self {
        let words = SharedPtr::<u32>::dynamic();
        let keys = words.add(slots).cast::<F::Key>();
        let values = keys.add(room).cast::<F::Value>();
        let page = values.add(room).cast::<U64x2>();
        let slots_before = if IN_USE { slots } else { 0 };
        let empty = page.add(slots_before / F::SLOTS);
        let used = empty.add(1).cast::<u32>();
        let queued = used.add(slots / Self::SLAB_SLOTS);
        let suspects = queued.add(WORDS);
        let queue = suspects.add(most_suspects(room)).cast::<u16>();
        Self {
            slots: words,
            keys,
            page,
            empty,
            used,
            queued,
            equal: queued.add(ROUNDS),
            suspected: queued.add(ROUNDS + 1),
            steps: queued.add(ROUNDS + 2),
            doubt: queued.add(COUNTS),
            queue,
            suspects,
            homes: queue.add(most_queued(room, IN_USE)),
            room,
            places: room + slots_before,
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

    /// The value at a place: staged, or in the page as it was.
    #[inline(always)]
    pub(super) fn value_at(&self, place: u32) -> SharedPtr<F::Value> {
        if place >= self.room {
            // The second half of a slot.
            let half = const { F::SLOT_BYTES / 2 };
            let slot = self
                .page
                .cast::<u8>()
                .add((place - self.room) * F::SLOT_BYTES);
            slot.add(half).cast()
        } else if Self::JOINED {
            // The second half of a pair.
            self.keys.add(2 * place + 1).cast()
        } else {
            self.values().add(place)
        }
    }

    /// Makes all slots free, and counts and queue empty; and the vector of empty slots what it is.
    ///
    /// # Safety
    /// The whole block calls it, between two barriers.
    #[inline(always)]
    pub(super) unsafe fn clear(&self, slots: u32) {
        let t = thread::thread_idx_x();
        // SAFETY: each word is one thread's.
        unsafe {
            if t == 0 {
                self.empty.store(EMPTY_SLOTS);
            }
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

    /// Gives a slot of a slab, that a counter has handed out, the word of a pair.
    ///
    /// # Safety
    /// It is the calling thread's.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(super) unsafe fn put(&self, slab: u32, slot: u32, word: u32) {
        let at = self.slots.add(slab * Self::SLAB_SLOTS + slot);
        // SAFETY: the caller's promise.
        unsafe {
            if IN_USE {
                // Others look through the slab for their keys meanwhile.
                at.compare_exchange(FREE, word);
            } else {
                at.store(word);
            }
        }
    }

    /// The counter of a slab of the page.
    #[inline(always)]
    pub(super) fn counter(&self, slab: u32) -> SlabCounter<F> {
        SlabCounter::of(self.used.add(slab))
    }

    /// Vector `v` of the page as it will be: what the words of its slots stand for, which are not in order yet.
    ///
    /// # Safety
    /// The page has that vector; pairs are staged, and no slot's word is written.
    #[inline(always)]
    pub(super) unsafe fn vector(&self, v: u32) -> U64x2 {
        // SAFETY: the words of the vector. A place is that of a pair or of a slot before, and FREE is beyond all.
        unsafe {
            if F::SLOTS == 1 {
                return self.slot_of(self.place(self.slots.add(v).load()));
            }
            let words = self.slots.cast::<u64>().add(v).load();
            let place = |word: u64| self.place(word as u32);
            U64x2::new(self.half_of(place(words)), self.half_of(place(words >> 32)))
        }
    }

    /// The place of what a slot's word stands for: of an empty slot, if it is [`FREE`].
    #[inline(always)]
    fn place(&self, word: u32) -> u32 {
        (word & 0xffff).min(self.places)
    }

    /// What is at a place, as a slot of 8 bytes.
    ///
    /// # Safety
    /// As for [`vector`](Self::vector).
    #[inline(always)]
    unsafe fn half_of(&self, place: u32) -> u64 {
        // SAFETY: the caller's promise.
        unsafe {
            if Self::AS_SLOTS {
                self.keys.cast::<u64>().add(place).load()
            } else if place < self.room {
                // A key of 4 bytes alone.
                self.key(place).to_u64()
            } else {
                self.page.cast::<u64>().add(place - self.room).load()
            }
        }
    }

    /// What is at a place, as a slot of 16 bytes.
    ///
    /// # Safety
    /// As for [`vector`](Self::vector).
    #[inline(always)]
    unsafe fn slot_of(&self, place: u32) -> U64x2 {
        // SAFETY: the caller's promise.
        unsafe {
            if Self::AS_SLOTS {
                self.keys.cast::<U64x2>().add(place).load()
            } else if place < self.room {
                let (key, value) = self.pair(place);
                U64x2::new(key.to_u64(), value.to_u64())
            } else {
                self.page.add(place - self.room).load()
            }
        }
    }

    /// The key word of the pair that a slot's word stands for.
    ///
    /// # Safety
    /// The word is not [`FREE`]; keys are staged.
    #[inline(always)]
    pub(super) unsafe fn key_word(&self, word: u32) -> F::Word {
        let place = word & 0xffff;
        // SAFETY: a place below `room` is that of a staged key, one beyond it that of a slot, which begins with
        // its key word.
        unsafe {
            if !IN_USE || place < self.room {
                F::Word::from_u64(self.key(place).to_u64())
            } else {
                let at = (place - self.room) * F::SLOT_BYTES;
                self.page.cast::<u8>().add(at).cast::<F::Word>().load()
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
