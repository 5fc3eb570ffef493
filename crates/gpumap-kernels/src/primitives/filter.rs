//! Filters (stream compaction): copies the elements that are wanted, or their positions.
//!
//! A block works on one tile after the other, and while it does the next one is on its way into
//! shared memory. It asks each element once. The counts of a thread's
//! vectors travel as the bytes of one word, so that one warp scan ranks all of them; shared
//! memory adds up the warps. Elements are packed in shared memory, and from there stored by whole
//! lines of the output, however few are kept. Where a block's part of the output begins is
//! decided by
//! - **one atomic per block**: parts lie in any order, and elements of a part in theirs; or
//! - **look-back** over the counts of the tiles before ([`look_back`]): stable,
//!   and the same on every run. Meanwhile the other warps pack.
//!
//! An atomic per element or per warp on the one counter was measured at ten and more times the
//! time (`docs/performance.md`).

use super::combine::Tally;
use super::look_back::{self, Count, NO_TILE, Tiles};
use super::word::{Span, Word};
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::{U64x2, kernel, kernel_args, mem, shared, shared_array, thread, warp};

/// Vectors of 16 bytes per thread: as many as a word has bytes for their counts.
pub const ROUNDS: usize = 4;
/// Windows of 32 tiles that a look-back takes at a time; one, where registers are short.
const WIDTH: usize = 2;

/// Elements per tile of a block of `threads`.
pub const fn tile_len<W: Word>(threads: u32) -> u32 {
    super::word::tile_len::<W>(threads, ROUNDS as u32)
}

/// Bytes of dynamic shared memory per block of `threads`: a tile on its way in, one that is packed,
/// and one that waits for its place in the output.
pub const fn shared_bytes(threads: u32) -> u32 {
    3 * threads * ROUNDS as u32 * 16
}

kernel_args! {
    /// A predicate as data: whether the bits of an element, masked by `mask`, folded for floats
    /// as in [`Order`](super::combine::Order), are one of the `span + 1` words from `low` on,
    /// counted upwards and around.
    pub struct Test<W> {
        /// Which bits count.
        pub mask: W,
        /// For floats every bit but the highest, else none.
        pub fold: W,
        /// The first word of the range.
        pub low: W,
        /// How many more there are.
        pub span: W,
        /// Not 0: wanted is what is not in the range.
        pub invert: u32,
    }
}

impl<W: Word> Test<W> {
    /// Whether it holds for an element.
    #[inline(always)]
    pub fn holds(&self, element: W) -> bool {
        let word = (element & self.mask) ^ (element.sign() & self.fold);
        (word.minus(self.low) <= self.span) ^ (self.invert != 0)
    }
}

kernel_args! {
    /// Arguments of a filter kernel: any number of blocks, of whole warps and up to
    /// [`MAX_THREADS`](super::MAX_THREADS) threads, with [`shared_bytes`].
    pub struct FilterArgs<W, O> {
        /// In: `n` elements.
        pub input: *const W,
        /// How many elements.
        pub n: u64,
        /// How many tiles of [`tile_len`] elements they are, below 2^32 - 1.
        pub tile_count: u64,
        /// Which are wanted, for kernels that ask the elements.
        pub test: Test<W>,
        /// In: `n` bytes, not 0 where the element is wanted, for kernels that ask flags.
        pub flags: *const u8,
        /// Out: what is kept.
        pub output: *mut O,
        /// Room in the output; what goes beyond is counted, not written.
        pub room: u64,
        /// Zero at the start; at the end how many are wanted.
        pub counter: *mut u64,
        /// The header of [`look_back`], and for the stable order status words
        /// for the tiles; zero.
        pub tiles: *mut u8,
        /// Not 0: in the order of the input.
        pub stable: u32,
    }
}

/// How elements are asked.
trait Select<W: Word> {
    /// Whether the elements are needed to decide.
    fn keeps(args: &Test<W>, flags: *const u8, at: u32, element: W) -> bool;
}

/// By the predicate.
struct ByTest;
/// By flags.
struct ByFlag;

impl<W: Word> Select<W> for ByTest {
    #[inline(always)]
    fn keeps(test: &Test<W>, _: *const u8, _: u32, element: W) -> bool {
        test.holds(element)
    }
}

impl<W: Word> Select<W> for ByFlag {
    #[inline(always)]
    fn keeps(_: &Test<W>, flags: *const u8, at: u32, _: W) -> bool {
        // SAFETY: only asked for elements of the array, each of which has a flag.
        unsafe { mem::load(flags.wrapping_add(at as usize)) != 0 }
    }
}

/// What is kept of an element.
trait Emit<W: Word> {
    /// What goes through shared memory, no larger than the element.
    type Staged: Copy;
    /// What is written.
    type Out: mem::Vector;
    fn stage(element: W, in_tile: u32) -> Self::Staged;
    fn out(staged: Self::Staged, tile_begin: u64) -> Self::Out;
}

/// The element.
struct Value;
/// Its position in the input.
struct Position;

impl<W: Word> Emit<W> for Value {
    type Staged = W;
    type Out = W;
    #[inline(always)]
    fn stage(element: W, _: u32) -> W {
        element
    }
    #[inline(always)]
    fn out(staged: W, _: u64) -> W {
        staged
    }
}

impl<W: Word> Emit<W> for Position {
    type Staged = u32;
    type Out = u64;
    #[inline(always)]
    fn stage(_: W, in_tile: u32) -> u32 {
        in_tile
    }
    #[inline(always)]
    fn out(staged: u32, tile_begin: u64) -> u64 {
        tile_begin.wrapping_add(staged as u64)
    }
}

/// The body of the filter kernels.
///
/// # Safety
/// See [`FilterArgs`].
#[inline(always)]
unsafe fn filter<W: Word, S: Select<W>, E: Emit<W>, const R: usize, const WIDTH: usize>(
    args: &FilterArgs<W, E::Out>,
) {
    let threads = thread::block_dim_x();
    let warps = threads / warp::SIZE;
    let len = super::word::tile_len::<W>(threads, R as u32);
    let loads = shared::dynamic_shared_mem::<U64x2>();
    let packed = loads.wrapping_add(threads as usize * R);
    let sums = shared_array![u32; warp::SIZE as usize];
    let words = shared_array![u64; 3];
    let begin_word = words.wrapping_add(2);
    let t = thread::thread_idx_x();
    let lane = warp::lane_id();
    let warp_id = t / warp::SIZE;
    // Numbers of tiles fit 32 bits, and take less of the registers so.
    let tiles = args.tile_count as u32;

    // SAFETY: all threads come to every barrier and all lanes to every collective; branches
    // around them are the same for a whole block or warp. Shared words are written by one thread
    // and read by others only across a barrier: two for the tiles of this turn and the next, one
    // for the begin. What is written in one turn is last read before the first barrier of the
    // next, and written again after it, or was last read before the second barrier. Packed
    // elements have places of their own, in number at most the tile's. The loop ends: each turn
    // takes a tile, and there are finitely many.
    unsafe {
        if t == 0 {
            *words = look_back::take_tile(args.tiles);
            *words.add(1) = look_back::take_tile(args.tiles);
        }
        thread::sync_threads();
        let states = Tiles::<Count>::behind(args.tiles);
        let mut before = NO_TILE as u32;
        let mut total_before = 0u32;
        let mut begin = 0;
        let mut turn = 0;
        let mut tile = *words as u32;
        if tile < tiles {
            let span = Span::of::<W, R>(tile as u64, threads, t, args.n);
            span.prefetch::<W, R>(args.input, W::ZERO, loads, threads, t);
        }
        while tile < tiles || before < tiles {
            let span = Span::of::<W, R>(tile as u64, threads, t, args.n);
            let next = *words.add(1 - turn) as u32;
            let v = Span::take::<W, R>(loads, threads, t);
            if next < tiles {
                let span = Span::of::<W, R>(next as u64, threads, t, args.n);
                span.prefetch::<W, R>(args.input, W::ZERO, loads, threads, t);
            }
            // Bit by bit which are kept, and byte by byte how many of each round.
            let flags = args.flags.wrapping_add(span.first as usize);
            let mut kept = 0u32;
            let mut counts = 0u32;
            let mut r = 0;
            while r < R {
                let mut of_round = 0;
                let mut i = 0;
                while i < W::PER_VECTOR {
                    let at = Span::offset::<W>(r, i);
                    // Nothing is there after the last tile.
                    let there = span.whole || at < span.left;
                    if there && S::keeps(&args.test, flags, at, W::get(&v[r], i)) {
                        kept |= 1 << (r as u32 * W::PER_VECTOR + i);
                        of_round += 1;
                    }
                    i += 1;
                }
                counts |= of_round << (8 * r as u32);
                r += 1;
            }

            // A round has at most 128 in a warp: a byte holds them.
            let up_to = warp::warp_inclusive_sum(counts);
            let last = warp::SIZE - 1;
            let of_rounds = warp::warp_shuffle_idx(LaneMask::FULL, up_to, last, warp::SIZE);
            let below = up_to.wrapping_sub(counts);
            if lane == 0 {
                *sums.add(warp_id as usize) = byte_sum(of_rounds);
            }
            thread::sync_threads();
            if t == threads - 1 {
                // Late, so that tiles are worked on soon after they were taken.
                *words.add(turn) = look_back::take_tile(args.tiles);
            }

            // Each warp adds up those before it by itself, so that it can pack right away.
            let mut mine = 0;
            if lane < warps {
                mine = *sums.add(lane as usize);
            }
            let up_to = warp::warp_inclusive_sum(mine);
            let total = warp::warp_shuffle_idx(LaneMask::FULL, up_to, last, warp::SIZE);
            let mut place =
                warp::warp_shuffle_idx(LaneMask::FULL, up_to - mine, warp_id, warp::SIZE);
            if args.stable != 0 && t == 0 && tile < tiles {
                states.publish::<Tally<u64>>(tile as u64, total as u64, 0);
            }
            let stage = packed
                .wrapping_add(turn * threads as usize * R)
                .cast::<E::Staged>();
            let in_tile = warp_id * const { 32 * R as u32 * W::PER_VECTOR } + lane * W::PER_VECTOR;
            let mut r = 0;
            while r < R {
                let mut at = place + (below >> (8 * r as u32) & 0xff);
                let mut i = 0;
                while i < W::PER_VECTOR {
                    if kept >> (r as u32 * W::PER_VECTOR + i) & 1 != 0 {
                        let from = in_tile + Span::offset::<W>(r, i);
                        *stage.add(at as usize) = E::stage(W::get(&v[r], i), from);
                        at += 1;
                    }
                    i += 1;
                }
                place += of_rounds >> (8 * r as u32) & 0xff;
                r += 1;
            }
            // After packing, so that what was packed is no burden.
            if warp_id == 0 {
                if args.stable != 0 && before < tiles {
                    let aggregate = total_before as u64;
                    begin =
                        states.exclusive_prefix::<Tally<u64>, WIDTH>(before as u64, aggregate, 0);
                    if lane == 0 && before == tiles - 1 {
                        mem::store(args.counter, begin + aggregate);
                    }
                }
                if lane == 0 {
                    *begin_word = begin;
                    // For the next turn, which is when it is needed.
                    if args.stable == 0 && total != 0 {
                        begin = atomic::fetch_add(args.counter, total as u64, Relaxed);
                    }
                }
            }
            thread::sync_threads();

            // The tile of the turn before goes out: from the last boundary of a line before the
            // part's begin, so that each warp writes one line.
            let stage = packed
                .wrapping_add((1 - turn) * threads as usize * R)
                .cast::<E::Staged>();
            let begin_before = *begin_word;
            let output = args.output.wrapping_add(begin_before as usize);
            let skew = (output as usize / size_of::<E::Out>()) as u32 % warp::SIZE;
            let room = args.room.saturating_sub(begin_before);
            let mut end = skew + total_before;
            if (total_before as u64) > room {
                end = skew + room as u32;
            }
            let tile_begin = (before as u64).wrapping_mul(len as u64);
            let mut k = t;
            while k < end {
                if k >= skew {
                    let i = (k - skew) as usize;
                    mem::store(output.wrapping_add(i), E::out(*stage.add(i), tile_begin));
                }
                k += threads;
            }
            before = tile;
            total_before = total;
            tile = next;
            turn = 1 - turn;
        }
    }
}

/// The sum of the four bytes of a word, each at most 128.
#[inline(always)]
fn byte_sum(bytes: u32) -> u32 {
    let pairs = (bytes & 0x00ff_00ff) + (bytes >> 8 & 0x00ff_00ff);
    (pairs & 0xffff) + (pairs >> 16)
}

macro_rules! filters {
    ($($(#[$doc:meta])* $NAME:ident $name:ident: $t:ty, $select:ty, $emit:ty, $out:ty, $width:expr;)*) => {
        kernel! {$(
            $(#[$doc])*
            pub static $NAME = fn $name(args: FilterArgs<$t, $out>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { filter::<$t, $select, $emit, ROUNDS, { $width }>(&args) }
            }
        )*}
    };
}

filters! {
    /// 4-byte elements that satisfy a predicate.
    FILTER_4 filter_4: u32, ByTest, Value, u32, WIDTH;
    /// 8-byte elements that satisfy a predicate.
    FILTER_8 filter_8: u64, ByTest, Value, u64, WIDTH;
    /// 4-byte elements whose flag is set.
    FILTER_FLAG_4 filter_flag_4: u32, ByFlag, Value, u32, WIDTH;
    /// 8-byte elements whose flag is set.
    FILTER_FLAG_8 filter_flag_8: u64, ByFlag, Value, u64, WIDTH;
    /// Where 4-byte elements satisfy a predicate.
    FILTER_INDICES_4 filter_indices_4: u32, ByTest, Position, u64, 1;
    /// Where 8-byte elements satisfy a predicate.
    FILTER_INDICES_8 filter_indices_8: u64, ByTest, Position, u64, 1;
}
