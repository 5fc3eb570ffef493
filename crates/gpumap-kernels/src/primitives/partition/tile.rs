//! A tile of pairs in the shared memory of a block.

use super::Payload;
use crate::slot::Bits;
use gpumap_simt::shared_ptr::{SharedPtr, commit_copies};
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

/// Bytes of dynamic shared memory for a tile of `tile` keys in `parts` parts, in a block of so
/// many threads.
pub const fn shared_bytes(
    key: u32,
    value: u32,
    tile: u32,
    parts: u32,
    threads: u32,
    stable: bool,
) -> u32 {
    let ranks = if stable { threads / warp::SIZE } else { 1 };
    tile * (staged_bytes(key, value) + 2) + parts * (8 + 4 * ranks)
}

/// Where the pieces of a block's shared memory are.
pub(super) struct Room<K, V: Payload> {
    pub(super) keys: SharedPtr<K>,
    /// Behind the keys, or where they were.
    pub(super) values: SharedPtr<V::Word>,
    /// Where in the tile the keys of the output order are.
    pub(super) order: SharedPtr<u16>,
    /// Per part: output position less position in the tile's order.
    pub(super) delta: SharedPtr<u64>,
    /// Per part, stable kernels per warp and part: first counts, then starts.
    pub(super) starts: SharedPtr<u32>,
}

impl<K: Bits, V: Payload> Room<K, V> {
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
        let order = keys.cast::<u8>().add(tile * staged).cast::<u16>();
        let delta = order.add(tile).cast::<u64>();
        let starts = delta.add(parts).cast::<u32>();
        Self {
            keys,
            values,
            order,
            delta,
            starts,
        }
    }
}

/// Queues the copies of `len` words to shared memory, for
/// [`wait_copies`](gpumap_simt::shared_ptr::wait_copies).
///
/// # Safety
/// Both sides have `len` words; `aligned` only if the source is aligned to 16 bytes.
#[inline(always)]
pub(super) unsafe fn stage<W: Bits, const THREADS: u32>(
    to: SharedPtr<W>,
    from: *const W,
    len: u32,
    aligned: bool,
) {
    const {
        assert!(size_of::<W>() == 4 || size_of::<W>() == 8);
    }
    let t = thread::thread_idx_x();
    // SAFETY: indices stay below `len`.
    unsafe {
        let mut done = 0;
        if aligned {
            let per = 16 / size_of::<W>() as u32;
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
