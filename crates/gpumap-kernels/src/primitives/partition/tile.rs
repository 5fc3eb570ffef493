//! A tile of pairs in the shared memory of a block.

use super::Payload;
use crate::slot::Bits;
use gpumap_simt::shared_ptr::{SharedPtr, SharedWord, commit_copies};
use gpumap_simt::{thread, warp};

/// Whether values come in when the keys are written, and take their place.
const fn apart(key: u32, value: u32) -> bool {
    key + value > 12
}

/// Bytes that a pair takes of a tile in shared memory.
const fn staged_bytes(key: u32, value: u32) -> u32 {
    if !apart(key, value) {
        key + value
    } else if key > value {
        key
    } else {
        value
    }
}

/// Bytes of a place in the output's order: the stable kernels would rather compute the part of a
/// key again than have shorter tiles.
const fn order_bytes(stable: bool) -> u32 {
    if stable { 2 } else { 4 }
}

/// Bytes of dynamic shared memory for a tile of `tile` keys in `parts` parts, each with `place`
/// bytes of a route, in a block of so many threads.
pub const fn shared_bytes(
    key: u32,
    value: u32,
    tile: u32,
    parts: u32,
    place: u32,
    threads: u32,
    stable: bool,
) -> u32 {
    let ranks = if stable { threads / warp::SIZE } else { 1 };
    tile * (staged_bytes(key, value) + order_bytes(stable)) + parts * (place + 4 * ranks)
}

/// Where the pieces of a block's shared memory are.
pub(super) struct Room<K, V: Payload, P, const STABLE: bool> {
    pub(super) keys: SharedPtr<K>,
    /// Behind the keys, or where they were.
    pub(super) values: SharedPtr<V::Word>,
    /// In the order of the output: where a key is in the tile, in 16 bits, and in unstable kernels
    /// its part above them.
    order: SharedPtr<u8>,
    /// Per part: where its keys go.
    pub(super) places: SharedPtr<P>,
    /// Per part, stable kernels per warp and part: first counts, then starts.
    pub(super) starts: SharedPtr<u32>,
}

impl<K: Bits + SharedWord, V: Payload, P, const STABLE: bool> Room<K, V, P, STABLE> {
    /// Whether values come in when the keys are written.
    pub(super) const APART: bool = apart(size_of::<K>() as u32, V::BYTES);

    /// The pieces for a tile of `tile` keys in `parts` parts.
    #[inline(always)]
    pub(super) fn of(tile: u32, parts: u32) -> Self {
        let keys = SharedPtr::<K>::dynamic();
        let values = if Self::APART {
            keys.cast::<V::Word>()
        } else {
            keys.add(tile).cast::<V::Word>()
        };
        let staged = const { staged_bytes(size_of::<K>() as u32, V::BYTES) };
        let order = keys.cast::<u8>().add(tile * staged);
        let places = order.add(tile * order_bytes(STABLE)).cast::<P>();
        let starts = places.add(parts).cast::<u32>();
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
/// Both sides have `len` words; `aligned` only if the source is aligned to 16 bytes.
#[inline(always)]
pub(crate) unsafe fn stage<W: Bits, const THREADS: u32>(
    to: SharedPtr<W>,
    from: *const W,
    len: u32,
    aligned: bool,
) {
    const {
        assert!(matches!(size_of::<W>(), 0 | 4 | 8));
    }
    // Nothing is a group too, for those who wait for all but the last.
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
                i += THREADS;
            }
            done = len / per * per;
        }
        let mut i = done + t;
        while i < len {
            if size_of::<W>() == 4 {
                to.add(i).copy_async::<4>(from.add(i as usize).cast());
            } else {
                to.add(i).copy_async::<8>(from.add(i as usize).cast());
            }
            i += THREADS;
        }
    }
    commit_copies();
}
