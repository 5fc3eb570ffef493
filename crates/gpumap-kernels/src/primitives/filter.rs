//! Filters (stream compaction): copies the elements that are wanted, or their positions.
//!
//! A block works on one tile after the other. In each turn, between two barriers:
//!
//! | warps | the tile that comes next | this turn's tile | the tile before | the tile before that |
//! |---|---|---|---|---|
//! | working warps, first | on its way into shared memory | each thread tests its elements, each warp counts | | |
//! | the control warp | | | adds up the counts of the warps | finds where its part of the output begins |
//! | working warps, after the barrier | | packed in shared memory | | stored, by whole lines of the output |
//!
//! So no warp waits for the place in the output, if it takes less than a turn to find, and one
//! barrier a turn is enough. The counts of a thread's vectors travel as the bytes of one word, so that one
//! warp scan ranks all of them. Where a tile's part of the output begins is decided by
//! - **one atomic per tile**: parts lie in any order, and elements of a part in theirs; or
//! - **[look-back](super::look_back)** over the counts of the tiles before: stable, and the same on
//!   every run.
//!
//! The kernel is near the limit of what a multiprocessor can issue: testing, ranking, packing and
//! storing take about 20 instructions for each element that a lane has. Therefore the test of a whole tile has
//! no branches, shared memory is addressed by 32 bits, and integers take a shorter test.
//!
//! An atomic per element or per warp on the one counter was measured at ten and more times the
//! time (`docs/tried.md`).

mod pack;
mod select;

pub use select::Test;
pub(crate) use select::{Kept, counts};

use super::combine::Tally;
use super::look_back::{LAG, NO_TILE, Tiles, take_tile};
use super::word::{Span, Word};
use super::{CONTROL_THREADS, MAX_WARPS};
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::shared_ptr::SharedPtr;
use gpumap_simt::{kernel, kernel_args, mem, thread, warp};
pub(crate) use pack::Emit;
use pack::{Part, Position, Value};
pub(crate) use select::Select;
use select::{ByFlag, ByTest};

/// Vectors of 16 bytes per working thread: as many as a word has bytes for their counts.
pub const ROUNDS: usize = 4;

/// Packed tiles in shared memory: this turn's, and those that wait for their places in the output.
const PACKED: u32 = 2 + LAG as u32;

/// Elements per tile of a block of `workers` working threads.
pub const fn tile_len<W: Word>(workers: u32) -> u32 {
    super::word::tile_len::<W>(workers, ROUNDS as u32)
}

/// Bytes of dynamic shared memory per block of `workers`: a tile on its way in and packed ones;
/// of two tiles the counts of the warps, and where they go; the numbers of three.
pub const fn shared_bytes(workers: u32) -> u32 {
    (1 + PACKED) * workers * ROUNDS as u32 * 16 + 2 * (8 + 4 + MAX_WARPS * 4) + 16
}

kernel_args! {
    /// Arguments of a filter kernel: any number of blocks, of up to
    /// [`MAX_WORKERS`](super::MAX_WORKERS) working threads in whole warps and
    /// [`CONTROL_THREADS`], with [`shared_bytes`].
    pub struct FilterArgs<W, O> {
        /// In: `n` elements.
        pub input: *const W,
        /// How many elements.
        pub n: u64,
        /// How many tiles of [`tile_len`] elements they are, below 2^31.
        pub tile_count: u64,
        /// Which are wanted, for kernels that test the elements.
        pub test: Test<W>,
        /// In: `n` bytes, not 0 where the element is wanted, for kernels that read flags.
        pub flags: *const u8,
        /// Out: what is kept.
        pub output: *mut O,
        /// Room in the output; what goes beyond is counted, not written.
        pub room: u64,
        /// Zero at the start; at the end how many are wanted.
        pub counter: *mut u64,
        /// The header of [`look_back`](super::look_back), and for the stable order status words
        /// for the tiles; zero.
        pub tiles: *mut u8,
        /// Not 0: in the order of the input.
        pub stable: u32,
    }
}

/// The body of the filter kernels.
///
/// # Safety
/// See [`FilterArgs`].
#[inline(always)]
unsafe fn filter<W: Word, S: Select<W>, E: Emit<W>, const R: usize>(args: &FilterArgs<W, E::Out>) {
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::is_here() {
        // SAFETY: passed on.
        return unsafe { crate::native::primitives::filter::<W, S, E>(args) };
    }
    let workers = thread::block_dim_x() - CONTROL_THREADS;
    let warps = workers / warp::SIZE;
    let t = thread::thread_idx_x();
    let lane = warp::lane_id();
    let warp_id = t / warp::SIZE;
    let in_control = warp_id == warps;
    let loads = SharedPtr::<W::Vector>::dynamic();
    let stage = |i: u32| loads.add((1 + i) * (workers * R as u32));
    let begins = stage(PACKED).cast::<u64>();
    let totals = begins.add(2).cast::<u32>();
    let sums = totals.add(2);
    let taken = sums.add(2 * MAX_WARPS);
    let tiles = args.tile_count as u32;

    // The loop ends: each turn takes a tile, there are finitely many, and two turns after the last
    // one nothing is left. Packed elements have places of their own, at most the tile's in number.
    //
    // SAFETY: all threads reach each barrier, all lanes to each collective; a block or warp
    // branches alike around them. A thread's vectors in shared memory are its own; other words are
    // written between two barriers and read between the next two, while others are written.
    unsafe {
        if in_control && lane == 0 {
            taken.add(2).store(take_tile(args.tiles));
            taken.add(1).store(take_tile(args.tiles));
        }
        thread::sync_threads();
        let mut states = Tiles::<Tally<u64>>::behind(args.tiles, 0);
        // The tiles of the turns before, the last one first, and how much they keep.
        let mut behind = [NO_TILE; LAG + 1];
        let mut kept_of = [0; LAG + 1];
        let mut turn = 0;
        let mut at = 0;
        let mut tile = taken.add(2).load();
        let mut ahead = S::nothing();
        if tile < tiles && !in_control {
            let span = Span::of::<W, R>(tile, workers, t, args.n);
            span.prefetch::<W, R>(args.input, W::ZERO, loads, workers, t);
            ahead = S::ahead::<R>(args.flags, &span);
        }
        while tile < tiles || behind[0] < tiles || behind[LAG] < tiles {
            let next = taken.add(1 - turn).load();
            let out = behind[LAG];
            let mut v = [W::ZERO.splat(); R];
            let (mut kept, mut below, mut of_rounds) = (0, 0, 0);
            if in_control {
                let mut number = 0;
                if lane == 0 {
                    number = take_tile(args.tiles);
                }
                if behind[0] < tiles {
                    let mut mine = 0;
                    if lane < warps {
                        mine = sums.add((1 - turn) * MAX_WARPS + lane).load();
                    }
                    kept_of[0] = warp::warp_reduce_add(mine);
                    if args.stable != 0 && lane == 0 {
                        states.publish(behind[0], kept_of[0] as u64);
                    }
                }
                if out < tiles {
                    let mut begin = 0;
                    let total = kept_of[LAG];
                    if args.stable != 0 {
                        begin = states.look_back(out);
                        if lane == 0 && out == tiles - 1 {
                            mem::store(args.counter, begin + total as u64);
                        }
                    } else if lane == 0 && total != 0 {
                        begin = atomic::fetch_add(args.counter, total as u64, Relaxed);
                    }
                    if lane == 0 {
                        begins.add(turn).store(begin);
                        totals.add(turn).store(total);
                    }
                }
                if lane == 0 {
                    taken.add(turn).store(number);
                }
            } else if tile < tiles {
                let span = Span::of::<W, R>(tile, workers, t, args.n);
                v = Span::take::<W, R>(loads, workers, t);
                kept = S::keeps::<R>(&args.test, &ahead, &v) & select::there::<W, R>(&span);
                if next < tiles {
                    let span = Span::of::<W, R>(next, workers, t, args.n);
                    span.prefetch::<W, R>(args.input, W::ZERO, loads, workers, t);
                    ahead = S::ahead::<R>(args.flags, &span);
                }
                // A round has at most 128 in a warp: a byte holds them.
                let counts = select::counts(kept);
                let up_to = warp::warp_inclusive_sum(counts);
                let last = warp::SIZE - 1;
                of_rounds = warp::warp_shuffle_idx(LaneMask::FULL, up_to, last, warp::SIZE);
                below = up_to.wrapping_sub(counts);
                if lane == 0 {
                    sums.add(turn * MAX_WARPS + warp_id)
                        .store(select::byte_sum(of_rounds));
                }
            }
            thread::sync_threads();

            // As many places after `at` as `out` is turns.
            let at_out = if at == PACKED - 1 { 0 } else { at + 1 };
            if !in_control {
                if tile < tiles {
                    let mut mine = 0;
                    if lane < warp_id {
                        mine = sums.add(turn * MAX_WARPS + lane).load();
                    }
                    let place = warp::warp_reduce_add(mine);
                    let in_tile =
                        warp_id * const { 32 * R as u32 * W::PER_VECTOR } + lane * W::PER_VECTOR;
                    let packed = stage(at).cast();
                    pack::pack::<W, E, R>(packed, in_tile, place, below, of_rounds, kept, &v);
                }
                if out < tiles {
                    let part = Part {
                        packed: stage(at_out).cast(),
                        begin: begins.add(turn).load(),
                        len: totals.add(turn).load(),
                        tile_begin: out as u64 * tile_len::<W>(workers) as u64,
                    };
                    part.store::<W, E>(args.output, args.room, workers, t);
                }
            }
            let mut b = LAG;
            while b > 0 {
                behind[b] = behind[b - 1];
                kept_of[b] = kept_of[b - 1];
                b -= 1;
            }
            behind[0] = tile;
            tile = next;
            at = at_out;
            turn = 1 - turn;
        }
    }
}

macro_rules! filters {
    ($($(#[$doc:meta])* $NAME:ident $name:ident: $t:ty, $select:ty, $emit:ty, $out:ty;)*) => {
        kernel! {$(
            $(#[$doc])*
            pub static $NAME = fn $name(args: FilterArgs<$t, $out>) by block {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { filter::<$t, $select, $emit, ROUNDS>(&args) }
            }
        )*}
    };
}

filters! {
    /// 4-byte elements that satisfy a predicate.
    FILTER_4 filter_4: u32, ByTest, Value, u32;
    /// 8-byte elements that satisfy a predicate.
    FILTER_8 filter_8: u64, ByTest, Value, u64;
    /// 4-byte elements whose flag is set.
    FILTER_FLAG_4 filter_flag_4: u32, ByFlag, Value, u32;
    /// 8-byte elements whose flag is set.
    FILTER_FLAG_8 filter_flag_8: u64, ByFlag, Value, u64;
    /// Where 4-byte elements satisfy a predicate.
    FILTER_INDICES_4 filter_indices_4: u32, ByTest, Position, u64;
    /// Where 8-byte elements satisfy a predicate.
    FILTER_INDICES_8 filter_indices_8: u64, ByTest, Position, u64;
}
