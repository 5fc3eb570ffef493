//! Equal keys of a tile, combined before they are written to bins or to the heads of pages.
//!
//! A key that comes often has then at most a place for each tile, and not one for each time: bins do not run over, and there is less
//! to sort. It pays where a tile has many such keys, which a [sample](SampleArgs) of a tile's size shows.

use crate::count::Counters;
use crate::slot::Bits;
use gpumap_simt::atomic::part::Update;
use gpumap_simt::layout;
use gpumap_simt::mem;
use gpumap_simt::shared_ptr::{SharedPtr, SharedValue};
use gpumap_simt::{kernel, kernel_args, thread};

/// What becomes of the values of equal keys.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Combine {
    /// How they are merged.
    pub update: Update,
    /// Whether they are: if 0, any of them is kept.
    pub merges: u32,
}
layout!(Combine { update, merges });

impl Combine {
    /// Any of the values is kept.
    pub const KEEP: Self = Self {
        update: Update::Replace,
        merges: 0,
    };

    /// Merges a value into another one.
    ///
    /// # Safety
    /// Both lie in shared memory; the first is accessed by this alone, the second not changed.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(crate) unsafe fn apply<V: SharedValue>(&self, to: SharedPtr<V>, from: SharedPtr<V>) {
        if self.merges != 0 {
            // SAFETY: the caller's promise.
            unsafe { to.update(self.update, from.load()) };
        }
    }
}

/// A hash by which equal keys of a tile are looked for: not the one that chooses their part, of which all keys of a bin have
/// the same upper bits.
#[inline(always)]
pub fn place_of<K: Bits>(key: K) -> u32 {
    (key.to_u64().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u32
}

/// Threads of the block that looks at a sample.
pub const SAMPLE_THREADS: u32 = 512;

/// Consecutive keys of each of the block's steps.
const RUN: u32 = SAMPLE_THREADS;

/// How many runs there are.
const RUNS: u32 = 8;

/// Keys that are looked at: about as many as a tile has.
pub const SAMPLE: u32 = RUNS * RUN;

/// Places at which they are looked for.
const PLACES: u32 = SAMPLE;

/// Bytes of dynamic shared memory of the block.
pub const SAMPLE_BYTES: u32 = 4 * PLACES;

kernel_args! {
    /// Arguments of [`COUNT_REPEATS`]: one block of [`SAMPLE_THREADS`] with [`SAMPLE_BYTES`] of dynamic shared memory.
    pub struct SampleArgs {
        /// `len` keys, at least [`SAMPLE`].
        pub keys: *const u8,
        /// Bytes of a key, 4 or 8.
        pub key_bytes: u32,
        /// How many.
        pub len: u64,
        /// Those of the sample that would be combined with others.
        pub repeats: Counters,
    }
}

/// Where a key of the sample is looked up, and what distinguishes it from other keys there.
///
/// # Safety
/// See [`SampleArgs`].
#[inline(always)]
unsafe fn sampled(args: &SampleArgs, run: u32, t: u32) -> (u32, u32) {
    // Runs lie at no regular distance, in which a batch may repeat as a whole.
    let share = u64::from(run + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let from = (u128::from(share) * u128::from(args.len - u64::from(RUN))) >> 64;
    let at = (from as u64 + u64::from(t)) as usize;
    // SAFETY: keys of the batch.
    let key = unsafe {
        match args.key_bytes {
            4 => u64::from(mem::load_readonly(args.keys.cast::<u32>().add(at))),
            _ => mem::load_readonly(args.keys.cast::<u64>().add(at)),
        }
    };
    let hash = place_of(key);
    let word = (key.wrapping_mul(0xd1b5_4a32_d192_ed03) >> 33) as u32;
    (hash & (PLACES - 1), word)
}

/// Counts the keys of some runs, from all over the batch, that would be combined with others of the sample if this were a tile.
///
/// # Safety
/// See [`SampleArgs`].
#[inline(always)]
unsafe fn count(args: &SampleArgs) {
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::is_here() {
        let mut seen = vec![u32::MAX; PLACES as usize];
        let mut repeats = 0;
        for run in 0..RUNS {
            for t in 0..SAMPLE_THREADS {
                // SAFETY: keys of the batch.
                let (place, word) = unsafe { sampled(args, run, t) };
                let there = &mut seen[place as usize];
                repeats += u32::from(*there == word);
                if *there == u32::MAX {
                    *there = word;
                }
            }
        }
        // SAFETY: the counter is that of the launch.
        return unsafe { args.repeats.add_from_block(repeats) };
    }
    let seen = SharedPtr::<u32>::dynamic();
    let t = thread::thread_idx_x();
    // SAFETY: keys of the batch; a word is one thread's before the barrier, and accessed atomically after it.
    unsafe {
        let mut i = t;
        while i < PLACES {
            seen.add(i).store(u32::MAX);
            i += SAMPLE_THREADS;
        }
        thread::sync_threads();
        let mut repeats = 0;
        let mut run = 0;
        while run < RUNS {
            let (place, word) = sampled(args, run, t);
            let place = seen.add(place);
            let mut there = place.peek();
            if there == u32::MAX {
                there = place.compare_exchange(u32::MAX, word);
            }
            repeats += u32::from(there == word);
            run += 1;
        }
        args.repeats.add_from_block(repeats);
    }
}

kernel! {
    /// Counts repeats among keys.
    pub static COUNT_REPEATS = fn count_repeats(args: SampleArgs) by block {
        // SAFETY: the launch is as the arguments say.
        unsafe { count(&args) };
    }
}
