//! Removing every pair that a pair of predicates does not hold for, alone on the map.

use crate::chunk::{Chunks, THREADS, VECTORS};
use crate::count::Counters;
use crate::primitives::filter::Test;
use crate::slot::{Bits, Format, KeyWord};
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::{U64x2, kernel_args, layout, thread};

kernel_args! {
    /// Arguments of a `retain` kernel. The grid has one block of [`THREADS`] per chunk, and nothing
    /// else runs on the map.
    pub struct RetainArgs {
        /// The chunks to look at.
        pub chunks: Chunks,
        /// Which pairs stay.
        pub stay: Stay,
        /// Added to: pairs removed.
        pub removed: Counters,
    }
}

/// Which pairs stay: those for which both tests hold.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Stay {
    /// Of keys whose bits have been shifted up to the highest of 64.
    pub keys: Test<u64>,
    /// Of values, likewise.
    pub values: Test<u64>,
    /// By how many bits keys are shifted.
    pub key_shift: u32,
    /// By how many bits values are.
    pub value_shift: u32,
}
layout!(Stay {
    keys,
    values,
    key_shift,
    value_shift
});

impl Stay {
    /// Whether a pair with these bits stays.
    #[inline(always)]
    pub fn holds(&self, key: u64, value: u64) -> bool {
        self.keys.holds(key << self.key_shift) && self.values.holds(value << self.value_shift)
    }
}

/// The body of the kernels.
///
/// # Safety
/// See [`RetainArgs`].
#[inline(always)]
pub unsafe fn retain<F: Format>(args: &RetainArgs) {
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::ALONE || crate::native::is_here() {
        // SAFETY: passed on.
        return unsafe { retain_natively::<F>(args) };
    }
    let mut removed = 0;
    // SAFETY: each vector is one thread's, below the chunk's length; the whole block reaches the
    // count.
    unsafe {
        let chunk = args.chunks.of_block();
        let mut r = 0;
        while r < VECTORS {
            let i = thread::thread_idx_x() + r * THREADS;
            if i < chunk.len {
                let place = chunk.vectors.wrapping_add(i as usize);
                let vector: U64x2 = atomic::load(place, Relaxed);
                let mut s = 0;
                while s < F::SLOTS {
                    let word = F::word(vector, s);
                    if word.is_key() {
                        let key = chunk.key::<F>(word).to_u64();
                        let value = F::value(vector, s).to_u64();
                        if !args.stay.holds(key, value) {
                            let slot = place
                                .cast::<u8>()
                                .wrapping_add((s * F::SLOT_BYTES) as usize);
                            removed += u32::from(F::bury(slot, word));
                        }
                    }
                    s += 1;
                }
            }
            r += 1;
        }
        args.removed.add_from_block(removed);
    }
}

/// What all threads of a block do.
///
/// # Safety
/// See [`RetainArgs`].
#[cfg(not(target_arch = "nvptx64"))]
unsafe fn retain_natively<F: Format>(args: &RetainArgs) {
    let mut removed = 0;
    // SAFETY: slots of the block's chunk, which nothing else writes.
    unsafe {
        let chunk = args.chunks.of_block();
        let slots = chunk.vectors.cast::<u8>();
        for i in 0..chunk.len * F::SLOTS {
            let (word, value) = F::read(slots, u64::from(i));
            if word.is_key()
                && !args
                    .stay
                    .holds(chunk.key::<F>(word).to_u64(), value.to_u64())
            {
                let slot = slots.wrapping_add((i * F::SLOT_BYTES) as usize);
                removed += u32::from(F::bury(slot, word));
            }
        }
        args.removed.add_from_block(removed);
    }
}
