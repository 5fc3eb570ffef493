//! K-mers from packed bases, on the device.
//!
//! The host packs sequences into groups of 64 elements ([`GROUP`]), each a base or a break, in three words
//! ([`GROUP_WORDS`]): the bases of the first 32 elements, those of the other 32, and a mark for each of the 64, set for
//! breaks. The first element has the highest bits of each. No k-mer contains a break. [`MAKE_KMERS`] writes the
//! k-mers of the groups side by side into a buffer of keys, in any order.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]

use gpumap_simt::atomic::{Relaxed, fetch_add};
use gpumap_simt::mask::LaneMask;
#[cfg(not(target_arch = "nvptx64"))]
use gpumap_simt::native;
use gpumap_simt::warp::{lane_id, warp_shuffle_idx, warp_shuffle_up};
use gpumap_simt::{kernel, kernel_args, mem, thread};

/// Elements in a group.
pub const GROUP: usize = 64;
/// Words in a group.
pub const GROUP_WORDS: usize = 3;
/// Elements whose bases are in one word.
pub const HALF: usize = 32;

kernel_args! {
    /// Arguments of [`MAKE_KMERS`]: a lane for each half of a group.
    pub struct KmersArgs {
        /// Groups of three words.
        pub words: *const u64,
        /// Twice the groups.
        pub halves: u64,
        /// Bases in a k-mer, 1 to 32.
        pub k: u32,
        /// Not zero: a k-mer and its reverse complement are one, the smaller.
        pub canonical: u32,
        /// Out: k-mers, the first base in the highest bits of the lowest `2 * k`. There is room for one for each element.
        pub kmers: *mut u64,
        /// In and out: how many of `kmers` are written.
        pub count: *mut u64,
    }
}

impl KmersArgs {
    /// The bases of a half, zeros beyond the end.
    ///
    /// # Safety
    /// As of [`MAKE_KMERS`].
    #[inline(always)]
    unsafe fn bases(&self, half: u64) -> u64 {
        if half >= self.halves {
            return 0;
        }
        let at = half / 2 * GROUP_WORDS as u64 + half % 2;
        // SAFETY: of a group that there is.
        unsafe { mem::load(self.words.add(at as usize)) }
    }

    /// The marks of a half, all set beyond the end.
    ///
    /// # Safety
    /// As of [`MAKE_KMERS`].
    #[inline(always)]
    unsafe fn marks(&self, half: u64) -> u32 {
        if half >= self.halves {
            return !0;
        }
        let at = half / 2 * GROUP_WORDS as u64 + 2;
        // SAFETY: of a group that there is.
        let marks = unsafe { mem::load(self.words.add(at as usize)) };
        (marks >> (32 * (1 - half % 2))) as u32
    }

    /// The elements of a half that begin a k-mer, bit `i` for element `i`.
    ///
    /// # Safety
    /// As of [`MAKE_KMERS`].
    #[inline(always)]
    unsafe fn begins(&self, half: u64) -> u32 {
        // SAFETY: passed on.
        let marks = unsafe { (self.marks(half), self.marks(half + 1)) };
        // A break spoils the k-mers that begin at it and at the `k - 1` elements before it.
        let mut spoiled = u64::from(marks.0) << 32 | u64::from(marks.1);
        let mut before = 1;
        while before < self.k {
            let more = if before < self.k - before {
                before
            } else {
                self.k - before
            };
            spoiled |= spoiled << more;
            before += more;
        }
        (!spoiled >> 32) as u32
    }

    /// Appends the k-mers of a half: what a lane does that has no others beside it.
    ///
    /// # Safety
    /// As of [`MAKE_KMERS`].
    #[cfg(not(target_arch = "nvptx64"))]
    unsafe fn make(&self, half: u64) {
        // SAFETY: passed on; places are told apart by the counter.
        unsafe {
            let mut begins = self.begins(half).reverse_bits();
            let own = begins.count_ones();
            let mut place = fetch_add(self.count, u64::from(own), Relaxed);
            while begins != 0 {
                mem::store(
                    self.kmers.add(place as usize),
                    self.kmer(half, begins.trailing_zeros()),
                );
                begins &= begins - 1;
                place += 1;
            }
        }
    }

    /// The k-mer that begins at element `element` of a half.
    ///
    /// # Safety
    /// As of [`MAKE_KMERS`].
    #[inline(always)]
    unsafe fn kmer(&self, half: u64, element: u32) -> u64 {
        // SAFETY: passed on.
        let (bases, next) = unsafe { (self.bases(half), self.bases(half + 1)) };
        let from_here = if element == 0 {
            bases
        } else {
            bases << (2 * element) | next >> (64 - 2 * element)
        };
        let unused = 64 - 2 * self.k;
        let kmer = from_here >> unused;
        if self.canonical == 0 {
            return kmer;
        }
        let complement = reverse_complement(kmer) >> unused;
        if complement < kmer { complement } else { kmer }
    }
}

/// The reverse complement of 32 bases.
#[inline(always)]
const fn reverse_complement(bases: u64) -> u64 {
    const LOW: u64 = 0x5555_5555_5555_5555;
    // The bits of a base change places when all are reversed.
    let reversed = (!bases).reverse_bits();
    reversed >> 1 & LOW | (reversed & LOW) << 1
}

kernel! {
    /// Appends the k-mers of all groups to `kmers`. The grid has whole warps, as many as it takes to have a lane for
    /// each half of a group.
    pub static MAKE_KMERS = fn make_kmers(args: KmersArgs) by thread {
        let half = thread::index();
        #[cfg(not(target_arch = "nvptx64"))]
        if native::block().is_some() {
            // SAFETY: a place of its own for each k-mer.
            return unsafe { args.make(half) };
        }
        let lane = lane_id();
        // SAFETY: all lanes of the warp are here, and none branches between collectives. A k-mer has a place of its
        // own: the lanes below have `sum - own` before it, the counter separates other warps.
        unsafe {
            let begins = args.begins(half).reverse_bits();
            let own = begins.count_ones();
            let mut sum = own;
            let mut step = 1;
            while step < 32 {
                let below = warp_shuffle_up(LaneMask::FULL, sum, step, 32);
                if lane >= step {
                    sum += below;
                }
                step *= 2;
            }
            let mut start = 0;
            if lane == 31 && sum > 0 {
                start = fetch_add(args.count, u64::from(sum), Relaxed);
            }
            let start = warp_shuffle_idx(LaneMask::FULL, start, 31, 32);
            let place = start + u64::from(sum - own);
            let first = half - u64::from(lane);
            // All lanes make the k-mers of one half after the other, so that neighbours write side by side.
            let mut turn = 0;
            while turn < 32 {
                let begins = warp_shuffle_idx(LaneMask::FULL, begins, turn, 32);
                let place = warp_shuffle_idx(LaneMask::FULL, place, turn, 32);
                if begins >> lane & 1 != 0 {
                    let kmer = args.kmer(first + u64::from(turn), lane);
                    let before = (begins & ((1 << lane) - 1)).count_ones();
                    mem::store(args.kmers.add(place as usize + before as usize), kmer);
                }
                turn += 1;
            }
        }
    }
}
