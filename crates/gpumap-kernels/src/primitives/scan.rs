//! Inclusive and exclusive scan in one pass: each element is read once and written once.
//!
//! A block works on one tile after the other, and while it does the next one is on its way into
//! shared memory. It scans a tile in registers: each thread its vector, each warp the sums of its lanes by
//! shuffles, one warp the sums of the warps. That warp also looks back for the tile's prefix
//! ([`look_back`]), while the others wait, and then every thread adds what is
//! in front of its elements and stores them. Each thread reads from shared memory only what it
//! copied there itself.

use super::combine::{Add, AddFloat, FromOrder, Min, Order};
use super::look_back::{self, NO_TILE, Tiles};
use super::word::{Span, Word};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::{U64x2, kernel, kernel_args, shared, shared_array, thread, warp};

/// Vectors of 16 bytes per thread.
pub const ROUNDS: usize = 4;
/// Windows of 32 tiles that a look-back takes at a time.
const WIDTH: usize = 1;

/// Elements per tile of a block of `threads`.
pub const fn tile_len<W: Word>(threads: u32) -> u32 {
    super::word::tile_len::<W>(threads, ROUNDS as u32)
}

/// Bytes of dynamic shared memory per block of `threads`: a tile on its way in, one that is
/// scanned, and one that waits for its prefix; they change places.
pub const fn shared_bytes(threads: u32) -> u32 {
    3 * threads * ROUNDS as u32 * 16
}

kernel_args! {
    /// Arguments of a scan kernel: any number of blocks, of whole warps and up to
    /// [`MAX_THREADS`](super::MAX_THREADS) threads, with [`shared_bytes`].
    pub struct ScanArgs<W> {
        /// In: `n` elements.
        pub input: *const W,
        /// Out: `n` elements. May be `input` itself, but not overlap it otherwise.
        pub output: *mut W,
        /// How many elements.
        pub n: u64,
        /// How many tiles of [`tile_len`] elements they are.
        pub tile_count: u64,
        /// What comes before the first element; the operation's identity for none.
        pub init: W,
        /// Not 0: each output is without the input of its own position.
        pub exclusive: u32,
        /// The order, for minima and maxima.
        pub order: Order<W>,
        /// Header and status words for the tiles, zero.
        pub tiles: *mut u8,
    }
}

/// The body of the scan kernels.
///
/// # Safety
/// See [`ScanArgs`].
#[inline(always)]
unsafe fn scan<C: FromOrder, const R: usize, const WIDTH: usize>(args: &ScanArgs<C::Word>) {
    let threads = thread::block_dim_x();
    let warps = threads / warp::SIZE;
    let last = const { warp::SIZE - 1 };
    let stages = shared::dynamic_shared_mem::<U64x2>();
    let stage_len = threads as usize * R;
    // A word of up to 8 bytes per warp, for three turns; the numbers of tiles; a prefix.
    let all_sums = shared_array![u64; 3 * warp::SIZE as usize].cast::<C::Word>();
    let taken = shared_array![u64; 3];
    let front = taken.wrapping_add(2).cast::<C::Word>();
    let op = C::from_order(args.order);
    let nothing = op.decode(C::IDENTITY);
    let tiles = args.tile_count;
    let t = thread::thread_idx_x();
    let lane = warp::lane_id();
    let warp_id = t / warp::SIZE;

    // SAFETY: all threads come to every barrier and all lanes to every shuffle; branches around
    // them are the same for a whole warp or block. Shared words are written by one thread or warp
    // and read by others only across a barrier, and not written again before one more. A
    // thread's vectors in shared memory are its own. The loop ends: each turn but the last takes
    // a tile, and there are finitely many. Tiles are the block's own: loaded before they are
    // stored, so the arrays may be one.
    unsafe {
        let states = Tiles::<C::Status>::behind(args.tiles);
        if t == 0 {
            *taken = look_back::take_tile(args.tiles);
            *taken.add(1) = look_back::take_tile(args.tiles);
        }
        thread::sync_threads();
        let mut turn = 0;
        let (mut stage, mut stage_before) = (stages, stages);
        let mut sums = all_sums;
        let mut sums_before = all_sums;
        let mut before = NO_TILE;
        let mut of_block_before = C::IDENTITY;
        let mut tile = *taken;
        if tile < tiles {
            let span = Span::of::<C::Word, R>(tile, threads, t, args.n);
            span.prefetch::<C::Word, R>(args.input, nothing, stages, threads, t);
        }
        while tile < tiles || before < tiles {
            let next = *taken.add(1 - turn);
            let mut stage_after = stage.wrapping_add(stage_len);
            if stage == stages.wrapping_add(2 * stage_len) {
                stage_after = stages;
            }
            let mut v = Span::take::<C::Word, R>(stage, threads, t);
            if next < tiles {
                let span = Span::of::<C::Word, R>(next, threads, t, args.n);
                span.prefetch::<C::Word, R>(args.input, nothing, stage_after, threads, t);
            }

            // Elements become their scans within the warp. (After the last tile this works on
            // what it left behind, and nothing comes of it.)
            let mut of_warp = C::IDENTITY;
            let mut r = 0;
            while r < R {
                let mut sum = op.encode(C::Word::get(&v[r], 0));
                C::Word::set(&mut v[r], 0, sum);
                let mut i = 1;
                while i < C::Word::PER_VECTOR {
                    sum = C::combine(sum, op.encode(C::Word::get(&v[r], i)));
                    C::Word::set(&mut v[r], i, sum);
                    i += 1;
                }
                let up_to = C::warp_inclusive(sum);
                let below = C::combine(of_warp, C::warp_shift(up_to));
                let own = v[r];
                let mut i = 0;
                while i < C::Word::PER_VECTOR {
                    let mut scanned = C::combine(below, C::Word::get(&own, i));
                    if args.exclusive != 0 {
                        scanned = if i == 0 {
                            below
                        } else {
                            C::combine(below, C::Word::get(&own, i.wrapping_sub(1)))
                        };
                    }
                    C::Word::set(&mut v[r], i, scanned);
                    i += 1;
                }
                let all = warp::warp_shuffle_idx(LaneMask::FULL, up_to, last, warp::SIZE);
                of_warp = C::combine(of_warp, all);
                // Back to where it came from: it waits there for the tile's prefix.
                *Span::place::<C::Word>(stage, threads, r, t) = v[r];
                r += 1;
            }
            if lane == 0 {
                *sums.add(warp_id as usize) = of_warp;
            }
            thread::sync_threads();

            if t == threads - 1 {
                // Late, so that tiles are worked on soon after they were taken.
                *taken.add(turn) = look_back::take_tile(args.tiles);
            }
            if warp_id == 0 {
                let mut mine = C::IDENTITY;
                if lane < warps {
                    mine = *sums.add(lane as usize);
                }
                let up_to = C::warp_inclusive(mine);
                let below = C::warp_shift(up_to);
                let of_block = warp::warp_shuffle_idx(LaneMask::FULL, up_to, last, warp::SIZE);
                let init = op.encode(args.init);
                if lane == 0 && tile < tiles {
                    states.publish::<C>(tile, of_block, init);
                }
                if lane < warps {
                    *sums.add(lane as usize) = below;
                }
                if before < tiles {
                    let prefix = states.exclusive_prefix::<C, WIDTH>(before, of_block_before, init);
                    if lane == 0 {
                        *front = prefix;
                    }
                }
                of_block_before = of_block;
            }
            thread::sync_threads();

            // The tile of the turn before goes out.
            if before < tiles {
                let span = Span::of::<C::Word, R>(before, threads, t, args.n);
                let in_front = C::combine(*front, *sums_before.add(warp_id as usize));
                let mut r = 0;
                while r < R {
                    let mut scanned = *Span::place::<C::Word>(stage_before, threads, r, t);
                    let mut i = 0;
                    while i < C::Word::PER_VECTOR {
                        let element = C::combine(in_front, C::Word::get(&scanned, i));
                        C::Word::set(&mut scanned, i, op.decode(element));
                        i += 1;
                    }
                    span.store_round::<C::Word>(args.output, r, &scanned);
                    r += 1;
                }
            }
            stage_before = stage;
            stage = stage_after;
            before = tile;
            tile = next;
            turn = 1 - turn;
            sums_before = sums;
            sums = if sums == all_sums.wrapping_add(2 * warp::SIZE as usize) {
                all_sums
            } else {
                sums.wrapping_add(warp::SIZE as usize)
            };
        }
    }
}

macro_rules! scans {
    ($($(#[$doc:meta])* $NAME:ident $name:ident: $op:ty, $t:ty;)*) => {
        kernel! {$(
            $(#[$doc])*
            pub static $NAME = fn $name(args: ScanArgs<$t>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { scan::<$op, ROUNDS, WIDTH>(&args) }
            }
        )*}
    };
}

scans! {
    /// Sums of 4-byte integers.
    SCAN_ADD_4 scan_add_4: Add<u32>, u32;
    /// Sums of 8-byte integers.
    SCAN_ADD_8 scan_add_8: Add<u64>, u64;
    /// Sums of `f32`.
    SCAN_ADD_F4 scan_add_f4: AddFloat<u32>, u32;
    /// Sums of `f64`.
    SCAN_ADD_F8 scan_add_f8: AddFloat<u64>, u64;
    /// Minima and maxima of 4-byte elements.
    SCAN_MIN_4 scan_min_4: Min<u32>, u32;
    /// Minima and maxima of 8-byte elements.
    SCAN_MIN_8 scan_min_8: Min<u64>, u64;
}
