//! A tile of pairs in the shared memory of a block.
//!
//! Equal keys of a tile may be [combined](Room::first_like): each key has one place, by a hash of its own, and the first
//! key at a place stays there. A key that finds another one there is taken for the only one of its kind, and written: so
//! nothing is lost if a place is too few, and a key that comes often is nearly always the first.

use super::{Payload, Route};
use gpumap_simt::shared_ptr::{SharedPtr, SharedWord, commit_copies};
use gpumap_simt::{thread, warp};

/// Whether values come in when the keys are written, and take their place.
const fn apart(key: u32, value: u32, together: bool) -> bool {
    key + value > 12 && !together
}

/// Bytes of a place in the output's order: the stable kernels would rather compute the part of a
/// key again than have shorter tiles.
const fn order_bytes(stable: bool) -> u32 {
    if stable { 2 } else { 4 }
}

/// Bytes of dynamic shared memory for each key of a tile, with what travels with it; `together` if the
/// value is written with its key, however large they are.
pub const fn key_bytes<K, V: Payload>(together: bool, stable: bool) -> u32 {
    let (key, value) = (size_of::<K>() as u32, V::BYTES);
    let staged = match apart(key, value, together) {
        false => key + value,
        true if key > value => key,
        true => value,
    };
    staged + order_bytes(stable)
}

/// Bytes of dynamic shared memory for each part, with `place` bytes of a route, in a block of so many threads.
pub const fn part_bytes(place: u32, threads: u32, stable: bool) -> u32 {
    let ranks = if stable { threads / warp::SIZE } else { 1 };
    place + 4 * ranks
}

/// Where the pieces of a block's shared memory are.
pub(super) struct Room<K, V: Payload, R: Route<K, V>, const STABLE: bool> {
    pub(super) keys: SharedPtr<K>,
    /// After the keys, or where they were.
    pub(super) values: SharedPtr<V::Word>,
    /// In the order of the output: where a key is in the tile, in 16 bits, and in unstable kernels
    /// its part above them.
    order: SharedPtr<u8>,
    /// Per part: where its keys go.
    pub(super) places: SharedPtr<R::Place>,
    /// Per part, stable kernels per warp and part: first counts, then starts.
    pub(super) starts: SharedPtr<u32>,
}

impl<K: SharedWord, V: Payload, R: Route<K, V>, const STABLE: bool> Room<K, V, R, STABLE> {
    /// Whether values come in when the keys are written.
    pub(super) const APART: bool = apart(size_of::<K>() as u32, V::BYTES, R::TOGETHER);

    /// The pieces for a tile of `tile` keys in `parts` parts.
    #[inline(always)]
    pub(super) fn of(tile: u32, parts: u32) -> Self {
        let keys = SharedPtr::<K>::dynamic();
        let values = if Self::APART {
            keys.cast::<V::Word>()
        } else {
            keys.add(tile).cast::<V::Word>()
        };
        let all = const { key_bytes::<K, V>(R::TOGETHER, STABLE) };
        let places = keys.cast::<u8>().add(tile * all).cast();
        let order = keys.cast::<u8>().add(tile * (all - order_bytes(STABLE)));
        let starts = SharedPtr::<R::Place>::add(places, parts).cast::<u32>();
        Self {
            keys,
            values,
            order,
            places,
            starts,
        }
    }

    /// Notes that number `at` of the output's order is key `i` of the tile.
    ///
    /// # Safety
    /// Both are below the tile's length; no other thread writes that number.
    #[inline(always)]
    pub(super) unsafe fn put_in_order(&self, at: u32, part: u32, i: u32) {
        // SAFETY: the caller's promise.
        unsafe {
            if STABLE {
                self.order.cast::<u16>().add(at).store(i as u16);
            } else {
                self.order.cast::<u32>().add(at).store(part << 16 | i);
            }
        }
    }

    /// Places for the keys that were seen: a power of two, no more than the tile has keys.
    #[inline(always)]
    fn places_of_seen(tile: u32) -> u32 {
        1 << (u32::BITS - 1 - tile.leading_zeros())
    }

    /// Makes ready for [`first_like`](Self::first_like), where the order will be.
    ///
    /// # Safety
    /// The whole block of so many threads calls it, before a barrier. Not in stable kernels.
    #[inline(always)]
    pub(super) unsafe fn clear_seen(&self, tile: u32, threads: u32) {
        let mut i = thread::thread_idx_x();
        while i < Self::places_of_seen(tile) {
            // SAFETY: a word of the order for each key of the tile.
            unsafe { self.order.cast::<u32>().add(i).store(u32::MAX) };
            i += threads;
        }
    }

    /// The first key that was seen at the place of key `i` of the tile, if it is equal; else `i`.
    ///
    /// # Safety
    /// Keys are staged, and a barrier passed since this was [made ready](Self::clear_seen); the order is accessed by this
    /// alone, and no key is written.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(super) unsafe fn first_like(
        &self,
        tile: u32,
        i: u32,
        place_of: impl Fn(K) -> u32,
        same: impl Fn(K, K) -> bool,
    ) -> u32 {
        // SAFETY: places are masked.
        unsafe {
            let key = self.keys.add(i).load();
            let at = place_of(key) & (Self::places_of_seen(tile) - 1);
            let place = self.order.cast::<u32>().add(at);
            let mut there = place.peek();
            if there == u32::MAX {
                there = place.compare_exchange(u32::MAX, i);
            }
            if there != u32::MAX && same(self.keys.add(there).load(), key) {
                there
            } else {
                i
            }
        }
    }

    /// The part of number `at` of the output's order, and which key of the tile that is.
    ///
    /// # Safety
    /// It has been noted, and a barrier passed; the keys are still there.
    #[inline(always)]
    pub(super) unsafe fn in_order(&self, at: u32, part_of: impl Fn(K) -> u32) -> (u32, u32) {
        // SAFETY: the caller's promise.
        unsafe {
            if STABLE {
                let i = u32::from(self.order.cast::<u16>().add(at).load());
                (part_of(self.keys.add(i).load()), i)
            } else {
                let word = self.order.cast::<u32>().add(at).load();
                (word >> 16, word & 0xffff)
            }
        }
    }
}

/// Queues the copies of `len` words to shared memory, for
/// [`wait_copies`](gpumap_simt::shared_ptr::wait_copies).
///
/// # Safety
/// Both sides have `len` words; `aligned` only if the source is aligned to 16 bytes. The block has so many
/// threads, and all of them call it.
#[inline(always)]
pub(crate) unsafe fn stage<W>(
    to: SharedPtr<W>,
    from: *const W,
    len: u32,
    aligned: bool,
    threads: u32,
) {
    const {
        assert!(matches!(size_of::<W>(), 0 | 4 | 8 | 16));
    }
    // An empty group counts too, for threads that wait for all but the last.
    let len = if size_of::<W>() == 0 { 0 } else { len };
    let t = thread::thread_idx_x();
    // SAFETY: indices stay below `len`.
    unsafe {
        let mut done = 0;
        if aligned {
            let per = const {
                16 / if size_of::<W>() == 0 {
                    16
                } else {
                    size_of::<W>()
                }
            } as u32;
            let mut i = t;
            while i < len / per {
                to.add(i * per)
                    .copy_async::<16>(from.add((i * per) as usize).cast());
                i += threads;
            }
            done = len / per * per;
        }
        let mut i = done + t;
        while i < len {
            let (to, from) = (to.add(i), from.add(i as usize).cast());
            match const { size_of::<W>() } {
                4 => to.copy_async::<4>(from),
                8 => to.copy_async::<8>(from),
                _ => to.copy_async::<16>(from),
            }
            i += threads;
        }
    }
    commit_copies();
}
