//! Counting words by bin.
//!
//! | bins | counters | what keeps equal words from queueing up |
//! |---|---|---|
//! | up to what fits a block's shared memory | `u32` in shared memory, one or more copies, interleaved so that lanes of a warp meet in different banks | the copies; increments without an answer, which the hardware merges |
//! | several times that | the same, one sweep over the input for each part of the bins | the same |
//! | more | `u64` in global memory | a cache in shared memory that frequent bins find a slot in; a warp whose words all fall into one bin adds them at once |
//!
//! Counters in shared memory go to global memory with one atomic per block and bin. They cannot
//! overflow: a block sees less than 2^32 words.

use super::binning::{Binning, DigitOf, Edges, EvenFloats, EvenIntegers};
use super::spread::Split;
use super::sweep::{IN_FLIGHT, Words, nth, per_vector};
use crate::hash::mix64;
use crate::slot::Bits;
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::shared_ptr::SharedPtr;
use gpumap_simt::{kernel, kernel_args, mem, thread, warp};

kernel_args! {
    /// Arguments of a histogram kernel: blocks of whole warps, each with less than 2^32 words.
    pub struct HistogramArgs<B, W> {
        /// The words.
        pub input: Words<W>,
        /// Their bins.
        pub binning: B,
        /// How many bins there are, without the two for what is outside.
        pub bins: u32,
        /// Shared kernels: the first bin to count; those outside come after all others.
        pub first: u32,
        /// Shared kernels: how many bins to count.
        pub count: u32,
        /// Shared kernels: two to the power of this are the copies of each counter, up to 5. The
        /// launch has `4 * count << copies_log2` bytes of dynamic shared memory.
        pub copies_log2: u32,
        /// Added to: `bins` counters. Null if they lie on several devices.
        pub counts: *mut u64,
        /// Added to: what lies below, what lies above. Null if nothing can.
        pub outside: *mut u64,
        /// How the bins are split, if they lie on several devices.
        pub split: Split,
        /// The address of each piece then, as this device sees it.
        pub pieces: *const u64,
    }
}

impl<B: Copy + 'static, W: Copy + 'static> HistogramArgs<B, W> {
    /// Adds to the counter of a bin, on the device that has it.
    ///
    /// # Safety
    /// `bin` is below `bins + 2`, and the counters are only added to during the launch: those of pieces, which are mapped, by
    /// [`atomic::system_add`] during the launches of all devices.
    #[inline(always)]
    unsafe fn add_where_it_lies(&self, bin: u32, words: u32) {
        // SAFETY: a bin lies in one of the pieces; otherwise the caller's promise.
        unsafe {
            if bin >= self.bins || !self.counts.is_null() {
                return self.add(bin, words);
            }
            let (piece, at) = self.split.place(bin);
            let address = mem::load_readonly(self.pieces.add(piece as usize));
            let counters = core::ptr::with_exposed_provenance_mut::<u64>(address as usize);
            atomic::system_add(counters.wrapping_add(at as usize), u64::from(words));
        }
    }

    /// Adds to the counter of a bin, which lies on this device.
    ///
    /// # Safety
    /// `bin` is below `bins + 2`, and the counters are only added to during the launch.
    #[inline(always)]
    unsafe fn add(&self, bin: u32, words: u32) {
        let (counters, at) = if bin < self.bins {
            (self.counts, bin)
        } else {
            (self.outside, bin - self.bins)
        };
        // SAFETY: the caller's promise.
        unsafe {
            atomic::fetch_add(
                counters.wrapping_add(at as usize),
                u64::from(words),
                Relaxed,
            )
        };
    }
}

/// Counts in shared memory; `put` takes each bin that has words, and how many, once per block.
///
/// | must call | result |
/// |---|---|
/// | every thread of the block, converged | with `put`, when the launch has ended |
///
/// # Safety
/// As [`HistogramArgs`] says, except for where the counters are.
#[inline(always)]
unsafe fn count_shared<B: Binning<W>, W: Bits>(args: &HistogramArgs<B, W>, put: impl Fn(u32, u32)) {
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::is_here() {
        // SAFETY: passed on.
        return unsafe { crate::native::primitives::count_few(args, put) };
    }
    let counters = SharedPtr::<u32>::dynamic();
    let (t, threads) = (thread::thread_idx_x(), thread::block_dim_x());
    let (first, count, copies_log2) = (args.first, args.count, args.copies_log2);
    let copy_mask = (1 << copies_log2) - 1;
    // SAFETY: the loops below are bounded by the counters there are; the three phases are apart
    // by barriers, and in the second the counters are only added to.
    unsafe {
        let mut i = t;
        while i < count << copies_log2 {
            counters.add(i).store(0);
            i += threads;
        }
        thread::sync_threads();

        let mine = counters.add(t & copy_mask);
        let add = |word: W| {
            let bin = args.binning.bin(word).wrapping_sub(first);
            if bin < count {
                mine.add(bin << copies_log2).count();
            }
        };
        let tile = |vectors: [_; IN_FLIGHT as usize]| {
            let mut v = 0;
            while v < IN_FLIGHT as usize {
                let mut s = 0;
                while s < per_vector::<W>() {
                    add(nth(vectors[v], s));
                    s += 1;
                }
                v += 1;
            }
        };
        args.input.sweep(tile, add);
        thread::sync_threads();

        let mut bin = t;
        while bin < count {
            let mut sum = 0u32;
            let mut copy = 0;
            while copy <= copy_mask {
                // Each lane starts at another copy: another bank.
                let at = (bin << copies_log2) + ((copy + t) & copy_mask);
                sum += counters.add(at).load();
                copy += 1;
            }
            if sum != 0 {
                put(first + bin, sum);
            }
            bin += threads;
        }
    }
}

/// Slots of the cache of a block that counts in global memory, as a power of two.
const CACHE_LOG2: u32 = 12;
const CACHE_SLOTS: u32 = 1 << CACHE_LOG2;
/// Bytes of dynamic shared memory of the global kernels: a bin and a count per slot.
pub const CACHE_BYTES: u32 = 8 * CACHE_SLOTS;
/// Tiles after which the cache is emptied, so that it follows what is frequent now.
const CACHE_TILES: u32 = 32;
/// The bin of a free slot: none has this number.
const FREE: u32 = u32::MAX;

/// The counts of the bins that came first to a slot, in shared memory.
///
/// A bin that is frequent almost surely takes its slot before a rare one does, and is then
/// counted here, so that no counter in global memory is hit by more than about one word in
/// [`CACHE_SLOTS`]. Each block hashes in its own way: two frequent bins that meet in one block
/// do not meet in the next.
struct Cache {
    bins: SharedPtr<u32>,
    counts: SharedPtr<u32>,
    factor: u32,
}

impl Cache {
    #[inline(always)]
    fn new() -> Self {
        let bins = SharedPtr::<u32>::dynamic();
        Self {
            bins,
            counts: bins.add(CACHE_SLOTS),
            // Of no block 1, which would send all bins to few slots: zero is mixed to zero.
            factor: mix64(u64::from(thread::block_idx_x()) + 1) as u32 | 1,
        }
    }

    /// Counts a word, unless both slots of its bin are others'.
    ///
    /// # Safety
    /// The cache has been emptied, by a barrier before.
    #[inline(always)]
    unsafe fn count(&self, bin: u32) -> bool {
        let hash = bin.wrapping_mul(self.factor);
        let slots = [
            hash >> (32 - CACHE_LOG2),
            hash >> (32 - 2 * CACHE_LOG2) & (CACHE_SLOTS - 1),
        ];
        // SAFETY: passed on; both are below `CACHE_SLOTS`.
        unsafe { self.count_at(slots[0], bin) || self.count_at(slots[1], bin) }
    }

    /// Counts a word, unless the slot is another bin's.
    ///
    /// # Safety
    /// As for [`count`](Self::count); there is such a slot.
    #[inline(always)]
    unsafe fn count_at(&self, slot: u32, bin: u32) -> bool {
        // SAFETY: both words are only accessed atomically.
        unsafe {
            // Looked at first: lanes with one bin read it together, but exchange one after the other.
            let mut owner = self.bins.add(slot).peek();
            if owner == FREE {
                owner = self.bins.add(slot).compare_exchange(FREE, bin);
            }
            let is_mine = owner == FREE || owner == bin;
            if is_mine {
                self.counts.add(slot).count();
            }
            is_mine
        }
    }

    /// Hands all counts to `add` and forgets them.
    ///
    /// # Safety
    /// Every thread of the block calls it, converged; the words are initialised unless `first`.
    #[inline(always)]
    unsafe fn empty(&self, first: bool, add: impl Fn(u32, u32)) {
        // SAFETY: every slot has one thread between the two barriers.
        unsafe {
            thread::sync_threads();
            let mut slot = thread::thread_idx_x();
            while slot < CACHE_SLOTS {
                if !first {
                    let count = self.counts.add(slot).load();
                    if count != 0 {
                        add(self.bins.add(slot).load(), count);
                    }
                }
                self.bins.add(slot).store(FREE);
                self.counts.add(slot).store(0);
                slot += thread::block_dim_x();
            }
            thread::sync_threads();
        }
    }
}

/// Counts in global memory; `add` takes bins as they come, with how many words of each.
///
/// | must call | result |
/// |---|---|
/// | every thread of the block, converged | with `add`, when the launch has ended |
///
/// # Safety
/// As [`HistogramArgs`] says, except for where the counters are, with [`CACHE_BYTES`] of dynamic
/// shared memory.
#[inline(always)]
unsafe fn count_global<B: Binning<W>, W: Bits>(args: &HistogramArgs<B, W>, add: impl Fn(u32, u32)) {
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::is_here() {
        // SAFETY: passed on.
        return unsafe { crate::native::primitives::count(args, add) };
    }
    let cache = Cache::new();
    let mut tiles = 0;
    // SAFETY: bins are below `bins + 2`; all threads of a block run a tile together, so the
    // block is whole at the barriers, and warps in the votes.
    unsafe {
        cache.empty(true, |_, _| ());
        let add = &add;
        let tile = |vectors: [_; IN_FLIGHT as usize]| {
            if tiles == CACHE_TILES {
                cache.empty(false, add);
                tiles = 0;
            }
            tiles += 1;
            let bin = |i: usize| {
                let per = per_vector::<W>() as usize;
                args.binning.bin(nth(vectors[i / per], (i % per) as u32))
            };
            let words = (IN_FLIGHT * per_vector::<W>()) as usize;
            let first = bin(0);
            let leader = warp::warp_shuffle_idx(LaneMask::FULL, first, 0, warp::SIZE);
            let mut same = first == leader;
            let mut i = 1;
            while i < words {
                same &= bin(i) == leader;
                i += 1;
            }
            if warp::warp_vote_all(LaneMask::FULL, same) {
                if warp::lane_id() == 0 {
                    add(first, warp::SIZE * words as u32);
                }
            } else {
                let mut i = 0;
                while i < words {
                    let bin = bin(i);
                    if !cache.count(bin) {
                        add(bin, 1);
                    }
                    i += 1;
                }
            }
        };
        // Less than a tile remains for these.
        args.input
            .sweep(tile, |word| add(args.binning.bin(word), 1));
        cache.empty(false, add);
    }
}

macro_rules! histogram_kernels {
    ($add:ident: $($binning:ty, $word:ty: $shared:ident = $shared_entry:ident, $global:ident = $global_entry:ident;)*) => {$(
        kernel! {
            /// Counts in shared memory.
            pub static $shared = fn $shared_entry(args: HistogramArgs<$binning, $word>) by block {
                // SAFETY: the launch is as the arguments say.
                unsafe { count_shared(&args, |bin, words| args.$add(bin, words)) };
            }
            /// Counts in global memory.
            pub static $global = fn $global_entry(args: HistogramArgs<$binning, $word>) by block {
                // SAFETY: the launch is as the arguments say.
                unsafe { count_global(&args, |bin, words| args.$add(bin, words)) };
            }
        }
    )*};
}

histogram_kernels! { add_where_it_lies:
    EvenIntegers<u32>, u32: EVEN_INTEGERS_4 = histogram_even_integers_4, EVEN_INTEGERS_4_GLOBAL = histogram_even_integers_4_global;
    EvenIntegers<u64>, u64: EVEN_INTEGERS_8 = histogram_even_integers_8, EVEN_INTEGERS_8_GLOBAL = histogram_even_integers_8_global;
    EvenFloats, u32: EVEN_F32 = histogram_even_f32, EVEN_F32_GLOBAL = histogram_even_f32_global;
    EvenFloats, u64: EVEN_F64 = histogram_even_f64, EVEN_F64_GLOBAL = histogram_even_f64_global;
}

histogram_kernels! { add:
    Edges<u32>, u32: EDGES_INTEGERS_4 = histogram_edges_integers_4, EDGES_INTEGERS_4_GLOBAL = histogram_edges_integers_4_global;
    Edges<f32>, u32: EDGES_F32 = histogram_edges_f32, EDGES_F32_GLOBAL = histogram_edges_f32_global;
    Edges<u64>, u64: EDGES_INTEGERS_8 = histogram_edges_integers_8, EDGES_INTEGERS_8_GLOBAL = histogram_edges_integers_8_global;
    Edges<f64>, u64: EDGES_F64 = histogram_edges_f64, EDGES_F64_GLOBAL = histogram_edges_f64_global;
}

kernel! {
    /// Counts 4-byte keys by digit, in shared memory.
    pub static DIGITS_4 = fn histogram_digits_4(args: HistogramArgs<DigitOf, u32>) by block {
        // SAFETY: the launch is as the arguments say.
        unsafe { count_shared(&args, |bin, words| args.add(bin, words)) };
    }
    /// Counts 8-byte keys by digit, in shared memory.
    pub static DIGITS_8 = fn histogram_digits_8(args: HistogramArgs<DigitOf, u64>) by block {
        // SAFETY: the launch is as the arguments say.
        unsafe { count_shared(&args, |bin, words| args.add(bin, words)) };
    }
}
