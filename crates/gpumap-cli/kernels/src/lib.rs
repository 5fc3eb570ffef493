//! K-mers from packed bases, on the device; in [`order`] what sorts them there.
//!
//! The host packs sequences into groups of 64 elements ([`GROUP`]), each a base or a break, in three words
//! ([`GROUP_WORDS`]): the bases of the first 32 elements, those of the other 32, and a mark for each of the 64, set for
//! breaks. The first element has the highest bits of each. No k-mer contains a break. [`MAKE_KMERS`] writes the
//! k-mers of the groups side by side into a buffer of keys, in any order; [`MAKE_WIDE_KMERS`] does so for k-mers of more
//! than 32 bases, whose keys have two words.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]

pub mod order;

use core::ops::{BitOr, Shl};

use gpumap_simt::atomic::{Relaxed, fetch_add};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::mem::Vector;
#[cfg(not(target_arch = "nvptx64"))]
use gpumap_simt::native;
use gpumap_simt::warp::{lane_id, warp_shuffle_idx, warp_shuffle_up};
use gpumap_simt::{U64x2, kernel, kernel_args, mem, thread};

/// Elements in a group.
pub const GROUP: usize = 64;
/// Words in a group.
pub const GROUP_WORDS: usize = 3;
/// Elements whose bases are in one word.
pub const HALF: usize = 32;

kernel_args! {
    /// Arguments of [`MAKE_KMERS`] and [`MAKE_WIDE_KMERS`]: a lane for each half of a group.
    pub struct KmersArgs {
        /// Groups of three words.
        pub words: *const u64,
        /// Twice the groups.
        pub halves: u64,
        /// Bases in a k-mer: 1 to 32, or to 64 where a key has two words.
        pub k: u32,
        /// Not zero: a k-mer and its reverse complement are one, the smaller.
        pub canonical: u32,
        /// Out: k-mers, the first base in the highest bits of the lowest `2 * k`. There is room for one for each element. A
        /// key of two words has the lowest bits first.
        pub kmers: *mut u64,
        /// In and out: how many of `kmers` are written.
        pub count: *mut u64,
    }
}

/// A key that k-mers are packed into.
trait Key: Vector {
    /// The k-mer of `k` bases that begins at element `element` of a half, or the smaller of it and its reverse complement.
    ///
    /// # Safety
    /// As of [`MAKE_KMERS`].
    unsafe fn kmer(args: &KmersArgs, half: u64, element: u32) -> Self;

    /// The elements of a half that begin a k-mer, bit `i` for element `31 - i`.
    ///
    /// # Safety
    /// As of [`MAKE_KMERS`].
    unsafe fn begins(args: &KmersArgs, half: u64) -> u32;
}

impl Key for u64 {
    #[inline(always)]
    unsafe fn kmer(args: &KmersArgs, half: u64, element: u32) -> Self {
        // SAFETY: passed on.
        let (bases, next) = unsafe { (args.bases(half), args.bases(half + 1)) };
        let unused = 64 - 2 * args.k;
        let kmer = shifted(bases, next, element) >> unused;
        if args.canonical == 0 {
            return kmer;
        }
        let complement = reverse_complement(kmer) >> unused;
        if complement < kmer { complement } else { kmer }
    }

    #[inline(always)]
    unsafe fn begins(args: &KmersArgs, half: u64) -> u32 {
        // SAFETY: passed on.
        let marks = unsafe { (args.marks(half), args.marks(half + 1)) };
        let marks = u64::from(marks.0) << 32 | u64::from(marks.1);
        (!spoiled(marks, args.k) >> 32) as u32
    }
}

impl Key for U64x2 {
    #[inline(always)]
    unsafe fn kmer(args: &KmersArgs, half: u64, element: u32) -> Self {
        // SAFETY: passed on.
        let bases = unsafe { [0, 1, 2].map(|behind| args.bases(half + behind)) };
        let unused = 128 - 2 * args.k;
        let high = shifted(bases[0], bases[1], element);
        let low = shifted(bases[1], bases[2], element);
        let kmer = Self::new(low, high).to_u128() >> unused;
        if args.canonical == 0 {
            return Self::from_u128(kmer);
        }
        let Self { x: low, y: high } = Self::from_u128(kmer);
        let complement = Self::new(reverse_complement(high), reverse_complement(low));
        let complement = complement.to_u128() >> unused;
        Self::from_u128(if complement < kmer { complement } else { kmer })
    }

    #[inline(always)]
    unsafe fn begins(args: &KmersArgs, half: u64) -> u32 {
        // SAFETY: passed on.
        let marks = unsafe { [0, 1, 2].map(|behind| u128::from(args.marks(half + behind))) };
        let marks = marks[0] << 96 | marks[1] << 64 | marks[2] << 32;
        (!spoiled(marks, args.k) >> 96) as u32
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

    /// Appends the k-mers of a half: what a lane does that has no others beside it.
    ///
    /// # Safety
    /// As of [`MAKE_KMERS`].
    #[cfg(not(target_arch = "nvptx64"))]
    unsafe fn make<K: Key>(&self, half: u64) {
        // SAFETY: passed on; places are told apart by the counter.
        unsafe {
            let mut begins = K::begins(self, half).reverse_bits();
            let own = begins.count_ones();
            let mut place = fetch_add(self.count, u64::from(own), Relaxed);
            while begins != 0 {
                let kmer = K::kmer(self, half, begins.trailing_zeros());
                mem::store(self.kmers.cast::<K>().add(place as usize), kmer);
                begins &= begins - 1;
                place += 1;
            }
        }
    }

    /// Appends the k-mers of the halves of a warp, of which this lane has one.
    ///
    /// # Safety
    /// As of [`MAKE_KMERS`]. All lanes of the warp call it together.
    #[inline(always)]
    unsafe fn make_by_warp<K: Key>(&self, half: u64) {
        let lane = lane_id();
        // SAFETY: all lanes of the warp are here, and none branches between collectives. A k-mer has a place of its
        // own: the lanes below have `sum - own` before it, the counter separates other warps.
        unsafe {
            let begins = K::begins(self, half).reverse_bits();
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
                start = fetch_add(self.count, u64::from(sum), Relaxed);
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
                    let kmer = K::kmer(self, first + u64::from(turn), lane);
                    let before = (begins & ((1 << lane) - 1)).count_ones();
                    let kmers = self.kmers.cast::<K>();
                    mem::store(kmers.add(place as usize + before as usize), kmer);
                }
                turn += 1;
            }
        }
    }
}

/// The elements that begin no k-mer of `k` elements, as one of these has a mark.
#[inline(always)]
fn spoiled<W: Copy + BitOr<Output = W> + Shl<u32, Output = W>>(marks: W, k: u32) -> W {
    // A break spoils the k-mers that begin at it and at the `k - 1` elements before it.
    let mut spoiled = marks;
    let mut before = 1;
    while before < k {
        let more = if before < k - before {
            before
        } else {
            k - before
        };
        spoiled = spoiled | spoiled << more;
        before += more;
    }
    spoiled
}

/// The bases from an element of `bases` on, 32 of them, the last from `next`.
#[inline(always)]
const fn shifted(bases: u64, next: u64, element: u32) -> u64 {
    if element == 0 {
        bases
    } else {
        bases << (2 * element) | next >> (64 - 2 * element)
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
            return unsafe { args.make::<u64>(half) };
        }
        // SAFETY: the grid has whole warps, and no lane of one has left.
        unsafe { args.make_by_warp::<u64>(half) }
    }

    /// The same for k-mers of 33 to 64 bases, in keys of two words. `kmers` is aligned to such a key.
    pub static MAKE_WIDE_KMERS = fn make_wide_kmers(args: KmersArgs) by thread {
        let half = thread::index();
        #[cfg(not(target_arch = "nvptx64"))]
        if native::block().is_some() {
            // SAFETY: a place of its own for each k-mer.
            return unsafe { args.make::<U64x2>(half) };
        }
        // SAFETY: the grid has whole warps, and no lane of one has left.
        unsafe { args.make_by_warp::<U64x2>(half) }
    }
}
