//! Counting what the slots of a map hold, and how far its pairs lie from home.

use crate::chunk::{Chunks, THREADS, VECTORS};
use crate::slot::{Format, KeyWord, Stored};
use crate::table::{MAX_WALK, MapView, SLAB_BYTES};
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::{U64x2, kernel_args, shared_array, thread};

/// Entries of the histogram of probe lengths: lengths 1 to [`MAX_WALK`], then tombstones.
pub const LENGTHS: usize = MAX_WALK as usize + 1;

kernel_args! {
    /// Arguments of a `stats` kernel. The grid has one block of [`THREADS`] per chunk.
    pub struct StatsArgs {
        /// The map.
        pub view: MapView,
        /// The chunks to look at.
        pub chunks: Chunks,
        /// Bytes of a key, 4 or 8.
        pub key_bytes: u32,
        /// Added to: `[i]` pairs that a search finds in slab `i + 1` of their walk; the last of
        /// the [`LENGTHS`] entries counts tombstones.
        pub lengths: *mut u64,
    }
}

/// The body of the kernels.
///
/// # Safety
/// See [`StatsArgs`].
#[inline(always)]
pub unsafe fn stats<F: Format>(args: &StatsArgs) {
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::ALONE || crate::native::is_here() {
        // SAFETY: passed on.
        return unsafe { count_natively::<F>(args) };
    }
    let of_block = shared_array![u32; LENGTHS];
    let t = thread::thread_idx_x();
    // SAFETY: shared words are set to zero by one thread, added to between the barriers, and read
    // by one thread after them. The table is read atomically only.
    unsafe {
        let mut i = t as usize;
        while i < LENGTHS {
            *of_block.add(i) = 0;
            i += THREADS as usize;
        }
        thread::sync_threads();
        let chunk = args.chunks.of_block();
        let mut r = 0;
        while r < VECTORS {
            let i = t + r * THREADS;
            if i < chunk.len {
                let place = chunk.vectors.wrapping_add(i as usize);
                let vector: U64x2 = atomic::load(place, Relaxed);
                let mut s = 0;
                while s < F::SLOTS {
                    let word = F::word(vector, s);
                    if word == F::Word::TOMBSTONE {
                        atomic::block_fetch_add(of_block.add(LENGTHS - 1), 1);
                    } else if word.is_key() {
                        let before = if chunk.reserved {
                            0
                        } else {
                            slabs_before::<F>(args, word, place as u64)
                        };
                        atomic::block_fetch_add(of_block.add(before as usize), 1);
                    }
                    s += 1;
                }
            }
            r += 1;
        }
        thread::sync_threads();
        let mut i = t as usize;
        while i < LENGTHS {
            let count = *of_block.add(i);
            if count != 0 {
                atomic::fetch_add(args.lengths.add(i), u64::from(count), Relaxed);
            }
            i += THREADS as usize;
        }
    }
}

/// What all threads of a block do.
///
/// # Safety
/// See [`StatsArgs`].
#[cfg(not(target_arch = "nvptx64"))]
unsafe fn count_natively<F: Format>(args: &StatsArgs) {
    let mut lengths = [0u64; LENGTHS];
    // SAFETY: below the chunk's length; there are as many entries.
    unsafe {
        let chunk = args.chunks.of_block();
        for i in 0..chunk.len {
            let place = chunk.vectors.wrapping_add(i as usize);
            let vector: U64x2 = atomic::load(place, Relaxed);
            for s in 0..F::SLOTS {
                let word = F::word(vector, s);
                if word == F::Word::TOMBSTONE {
                    lengths[LENGTHS - 1] += 1;
                } else if word.is_key() {
                    let before = match chunk.reserved {
                        true => 0,
                        false => slabs_before::<F>(args, word, place as u64),
                    };
                    lengths[before as usize] += 1;
                }
            }
        }
        for (i, &count) in lengths.iter().enumerate().filter(|&(_, &count)| count != 0) {
            atomic::fetch_add(args.lengths.add(i), count, Relaxed);
        }
    }
}

/// How many slabs of a key's walk come before the one that has `address`.
///
/// # Safety
/// The view is of a live map, and the key lies there.
#[inline(always)]
unsafe fn slabs_before<F: Format>(args: &StatsArgs, word: F::Word, address: u64) -> u32 {
    let narrow = size_of::<F::Key>() != 4 && args.key_bytes == 4;
    let slab = address & !u64::from(SLAB_BYTES - 1);
    let mut probe = 0;
    loop {
        // SAFETY: the probe is below the length of the walk.
        let place = unsafe { args.view.place_of::<F>(Stored::Table(word), probe, narrow) };
        // A key lies on its walk; the bound is for a table that something else wrote to.
        if place.slab as u64 == slab || probe + 1 == place.walk {
            return probe;
        }
        probe += 1;
    }
}
