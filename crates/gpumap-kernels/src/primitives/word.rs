//! Elements as bit patterns, and the vectors of 16 bytes that they are moved in.

use core::fmt::Debug;
use core::ops::{BitAnd, BitXor};

use gpumap_simt::layout::Layout;
use gpumap_simt::shared_ptr::{SharedPtr, SharedWord, commit_copies, wait_copies};
use gpumap_simt::warp::ShuffleValue;
use gpumap_simt::{U32x4, U64x2, mem};

/// An element's bits: `u32` or `u64`.
pub trait Word:
    Copy
    + Layout
    + Debug
    + PartialEq
    + PartialOrd
    + BitAnd<Output = Self>
    + BitXor<Output = Self>
    + ShuffleValue
    + mem::Vector
    + SharedWord
    + 'static
{
    /// What 16 bytes hold: [`PER_VECTOR`](Self::PER_VECTOR) words.
    type Vector: mem::Vector + SharedWord;
    /// Words per vector: 4 or 2.
    const PER_VECTOR: u32;
    /// All bits clear.
    const ZERO: Self;
    /// All bits set.
    const ONES: Self;

    /// A vector of one word.
    fn splat(self) -> Self::Vector;
    /// Word `i` of a vector.
    fn get(vector: &Self::Vector, i: u32) -> Self;
    /// Replaces word `i` of a vector.
    fn set(vector: &mut Self::Vector, i: u32, word: Self);
    /// The difference, wrapping around.
    fn minus(self, other: Self) -> Self;
    /// All bits set if the highest one is, else none.
    fn sign(self) -> Self;
    /// The word in the low bits of 64.
    fn to_u64(self) -> u64;
    /// The low bits of 64.
    fn from_u64(bits: u64) -> Self;
}

macro_rules! word {
    ($t:ty, $signed:ty, $vector:ident, $per_vector:literal, $splat:expr, $get:expr, $set:expr) => {
        impl Word for $t {
            type Vector = $vector;
            const PER_VECTOR: u32 = $per_vector;
            const ZERO: Self = 0;
            const ONES: Self = !0;

            #[inline(always)]
            fn splat(self) -> $vector {
                let splat: fn($t) -> $vector = $splat;
                splat(self)
            }
            #[inline(always)]
            fn get(vector: &$vector, i: u32) -> Self {
                let get: fn(&$vector, u32) -> $t = $get;
                get(vector, i)
            }
            #[inline(always)]
            fn set(vector: &mut $vector, i: u32, word: Self) {
                let set: fn(&mut $vector, u32, $t) = $set;
                set(vector, i, word);
            }
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn sign(self) -> Self {
                (self as $signed >> (<$t>::BITS - 1)) as $t
            }
            #[inline(always)]
            fn to_u64(self) -> u64 {
                self as u64
            }
            #[inline(always)]
            fn from_u64(bits: u64) -> Self {
                bits as $t
            }
        }
    };
}

// Masked indices, so that no bounds check is left where a loop was not unrolled in time.
word! { u32, i32, U32x4, 4,
    |w| U32x4([w; 4]),
    |v, i| v.0[(i & 3) as usize],
    |v, i, w| v.0[(i & 3) as usize] = w
}
word! { u64, i64, U64x2, 2,
    |w| U64x2::new(w, w),
    |v, i| if i & 1 == 0 { v.x } else { v.y },
    |v, i, w| if i & 1 == 0 { v.x = w } else { v.y = w }
}

/// Where vectors of 16 bytes may be used: at addresses that are multiples of 16.
#[inline(always)]
pub fn is_vector_aligned<W>(p: *const W) -> bool {
    p as usize & 15 == 0
}

/// The vectors that the calling thread has of a tile: `ROUNDS` of them, each round side by side
/// within the warp.
#[derive(Clone, Copy)]
pub struct Span {
    /// The thread's first element, counted from the start of the array.
    pub first: u64,
    /// How many elements there are from `first` on to the end of the array or of the tile.
    pub left: u32,
    /// Whether the whole tile lies inside the array.
    pub whole: bool,
}

/// Elements of a tile of `threads` threads with `rounds` vectors each.
pub const fn tile_len<W: Word>(threads: u32, rounds: u32) -> u32 {
    threads * rounds * W::PER_VECTOR
}

impl Span {
    /// The span of thread `t` of `threads` in tile `tile` of an array of `n` elements.
    #[inline(always)]
    pub fn of<W: Word, const ROUNDS: usize>(tile: u32, threads: u32, t: u32, n: u64) -> Self {
        let len = tile_len::<W>(threads, ROUNDS as u32);
        // Beyond the last tile nothing is used of it.
        let begin = tile as u64 * len as u64;
        let (warp, lane) = (t / 32, t % 32);
        let offset = warp * (32 * ROUNDS as u32 * W::PER_VECTOR) + lane * W::PER_VECTOR;
        let first = begin.wrapping_add(offset as u64);
        Self {
            first,
            left: n.saturating_sub(first).min(len as u64) as u32,
            whole: begin.wrapping_add(len as u64) <= n,
        }
    }

    /// Element `i` of round `r`, counted from [`first`](Self::first).
    #[inline(always)]
    pub fn offset<W: Word>(r: usize, i: u32) -> u32 {
        r as u32 * 32 * W::PER_VECTOR + i
    }

    /// Loads the thread's vectors; what lies beyond the array's end becomes `filler`.
    ///
    /// # Safety
    /// `from` leads to the array, which nothing else writes to in this tile.
    #[inline(always)]
    pub unsafe fn load<W: Word, const ROUNDS: usize>(
        &self,
        from: *const W,
        filler: W,
    ) -> [W::Vector; ROUNDS] {
        let mut vectors = [filler.splat(); ROUNDS];
        let from = from.wrapping_add(self.first as usize);
        // SAFETY: a whole tile lies in the array; of another only elements before the end are
        // touched.
        unsafe {
            if self.whole && is_vector_aligned(from) {
                let mut r = 0;
                while r < ROUNDS {
                    let at = from.wrapping_add(Self::offset::<W>(r, 0) as usize);
                    vectors[r] = mem::load(at.cast::<W::Vector>());
                    r += 1;
                }
            } else {
                let mut r = 0;
                while r < ROUNDS {
                    let mut i = 0;
                    while i < W::PER_VECTOR {
                        let offset = Self::offset::<W>(r, i);
                        if offset < self.left {
                            W::set(
                                &mut vectors[r],
                                i,
                                mem::load(from.wrapping_add(offset as usize)),
                            );
                        }
                        i += 1;
                    }
                    r += 1;
                }
            }
        }
        vectors
    }

    /// Starts loading the thread's vectors into its own places of shared memory; what lies beyond
    /// the array's end becomes `filler`.
    ///
    /// # Safety
    /// As for [`load`](Self::load); `stage` has room for a tile, and the thread does not use its
    /// places before [`take`](Self::take).
    #[inline(always)]
    pub unsafe fn prefetch<W: Word, const ROUNDS: usize>(
        &self,
        from: *const W,
        filler: W,
        stage: SharedPtr<W::Vector>,
        threads: u32,
        t: u32,
    ) {
        let first = from.wrapping_add(self.first as usize);
        // SAFETY: a whole tile lies in the array; another one is loaded as far as it goes.
        unsafe {
            if self.whole && is_vector_aligned(first) {
                let mut r = 0;
                while r < ROUNDS {
                    let at = first.wrapping_add(Self::offset::<W>(r, 0) as usize);
                    Self::place::<W>(stage, threads, r, t).copy_async::<16>(at.cast());
                    r += 1;
                }
            } else {
                let mut r = 0;
                while r < ROUNDS {
                    let mut vector = filler.splat();
                    let mut i = 0;
                    while i < W::PER_VECTOR {
                        let offset = Self::offset::<W>(r, i);
                        if offset < self.left {
                            W::set(
                                &mut vector,
                                i,
                                mem::load(first.wrapping_add(offset as usize)),
                            );
                        }
                        i += 1;
                    }
                    Self::place::<W>(stage, threads, r, t).store(vector);
                    r += 1;
                }
            }
        }
        commit_copies();
    }

    /// Waits for what [`prefetch`](Self::prefetch) started, and takes the vectors.
    ///
    /// # Safety
    /// The thread has started a prefetch to this `stage`.
    #[inline(always)]
    pub unsafe fn take<W: Word, const ROUNDS: usize>(
        stage: SharedPtr<W::Vector>,
        threads: u32,
        t: u32,
    ) -> [W::Vector; ROUNDS] {
        wait_copies::<0>();
        let mut vectors = [W::ZERO.splat(); ROUNDS];
        let mut r = 0;
        while r < ROUNDS {
            // SAFETY: the thread's own places, which have been written.
            vectors[r] = unsafe { Self::place::<W>(stage, threads, r, t).load() };
            r += 1;
        }
        vectors
    }

    /// Where thread `t` of `threads` has its vector of round `r` in a stage: nothing else uses it.
    #[inline(always)]
    pub fn place<W: Word>(
        stage: SharedPtr<W::Vector>,
        threads: u32,
        r: usize,
        t: u32,
    ) -> SharedPtr<W::Vector> {
        stage.add(r as u32 * threads + t)
    }

    /// Stores the thread's vector of one round, as far as the array goes.
    ///
    /// # Safety
    /// `to` leads to the array, of which this tile is the block's own.
    #[inline(always)]
    pub unsafe fn store_round<W: Word>(&self, to: *mut W, r: usize, vector: &W::Vector) {
        let to = to.wrapping_add(self.first as usize);
        // SAFETY: as for `load`.
        unsafe {
            if self.whole && is_vector_aligned(to) {
                let at = to.wrapping_add(Self::offset::<W>(r, 0) as usize);
                mem::store(at.cast::<W::Vector>(), *vector);
            } else {
                let mut i = 0;
                while i < W::PER_VECTOR {
                    let offset = Self::offset::<W>(r, i);
                    if offset < self.left {
                        mem::store(to.wrapping_add(offset as usize), W::get(vector, i));
                    }
                    i += 1;
                }
            }
        }
    }
}
