//! Inclusive and exclusive scan in one pass: each element is read once and written once.
//!
//! A block works on one tile after the other. In each turn, between two barriers:
//!
//! | warps | the tile that comes next | this turn's tile | the tile before |
//! |---|---|---|---|
//! | working warps | on its way into shared memory | each warp scans its part, which waits in shared memory | |
//! | the control warp | | | sums of the warps become the tile's aggregate, which is published |
//!
//! A turn later the control warp looks back for that tile ([`look_back`](super::look_back)), and
//! after the barrier the working warps add what is in front and store. So no warp waits for a
//! look-back that takes less than a turn, and one barrier a turn is enough. Each thread reads from
//! a stage only what it put there itself.

use super::combine::{Add, AddFloat, FromOrder, Min, Order};
use super::look_back::{LAG, NO_TILE, Tiles, take_tile};
use super::word::{Span, Word};
use super::{CONTROL_THREADS, MAX_WARPS};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::shared_ptr::SharedPtr;
use gpumap_simt::{kernel, kernel_args, thread, warp};

/// Vectors of 16 bytes per working thread.
pub const ROUNDS: usize = 4;

/// Tiles in shared memory: one on its way in, one that is scanned, and those that wait for their
/// prefixes; they change places.
const STAGES: u32 = 3 + LAG as u32;

/// Elements per tile of a block of `workers` working threads.
pub const fn tile_len<W: Word>(workers: u32) -> u32 {
    super::word::tile_len::<W>(workers, ROUNDS as u32)
}

/// Bytes of dynamic shared memory per block of `workers`: tiles, the warps' sums and prefixes of
/// two, and the numbers of three.
pub const fn shared_bytes(workers: u32) -> u32 {
    STAGES * workers * ROUNDS as u32 * 16 + 2 * 2 * MAX_WARPS * 8 + 16
}

kernel_args! {
    /// Arguments of a scan kernel: any number of blocks, of up to
    /// [`MAX_WORKERS`](super::MAX_WORKERS) working threads in whole warps and
    /// [`CONTROL_THREADS`], with [`shared_bytes`].
    pub struct ScanArgs<W> {
        /// In: `n` elements.
        pub input: *const W,
        /// Out: `n` elements. May be `input` itself, but not overlap it otherwise.
        pub output: *mut W,
        /// How many elements.
        pub n: u64,
        /// How many tiles of [`tile_len`] elements they are, below 2^31.
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
unsafe fn scan<C: FromOrder, const R: usize>(args: &ScanArgs<C::Word>) {
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::is_here() {
        // SAFETY: passed on.
        return unsafe { crate::native::primitives::scan::<C>(args) };
    }
    let workers = thread::block_dim_x() - CONTROL_THREADS;
    let warps = workers / warp::SIZE;
    let t = thread::thread_idx_x();
    let lane = warp::lane_id();
    let warp_id = t / warp::SIZE;
    let in_control = warp_id == warps;
    let stages = SharedPtr::<<C::Word as Word>::Vector>::dynamic();
    let stage = |i: u32| stages.add(i * (workers * R as u32));
    let sums = stage(STAGES).cast::<C::Word>();
    let fronts = sums.add(2 * MAX_WARPS);
    let taken = fronts.add(2 * MAX_WARPS).cast::<u32>();
    let op = C::from_order(args.order);
    let nothing = op.decode(C::IDENTITY);
    let tiles = args.tile_count as u32;

    // The loop ends: each turn takes a tile, there are finitely many, and two turns after the last
    // one nothing is left. Tiles are loaded before they are stored, so the arrays may be one.
    //
    // SAFETY: all threads reach each barrier, all lanes to each shuffle; a block or warp
    // branches alike around them. Tiles are the block's own, a thread's vectors in shared memory
    // its own; other words are written between two barriers and read between the next two.
    unsafe {
        if in_control && lane == 0 {
            taken.add(2).store(take_tile(args.tiles));
            taken.add(1).store(take_tile(args.tiles));
        }
        thread::sync_threads();
        let mut states = Tiles::<C>::behind(args.tiles, op.encode(args.init));
        // The tiles of the turns before, the last one first, and what the control warp knows of
        // them: for each lane, what comes before its warp in the tile.
        let mut behind = [NO_TILE; LAG + 1];
        let mut below = [C::IDENTITY; LAG + 1];
        let mut turn = 0;
        let mut at = 0;
        let mut tile = taken.add(2).load();
        if tile < tiles && !in_control {
            let span = Span::of::<C::Word, R>(tile, workers, t, args.n);
            span.prefetch::<C::Word, R>(args.input, nothing, stage(at), workers, t);
        }
        while tile < tiles || behind[0] < tiles || behind[LAG] < tiles {
            let next = taken.add(1 - turn).load();
            let out = behind[LAG];
            let at_next = if at == STAGES - 1 { 0 } else { at + 1 };
            if in_control {
                let mut number = 0;
                if lane == 0 {
                    number = take_tile(args.tiles);
                }
                if behind[0] < tiles {
                    let mut mine = C::IDENTITY;
                    if lane < warps {
                        mine = sums.add((1 - turn) * MAX_WARPS + lane).load();
                    }
                    let up_to = C::warp_inclusive(mine);
                    if lane == warp::SIZE - 1 {
                        states.publish(behind[0], up_to);
                    }
                    below[0] = C::warp_shift(up_to);
                }
                if out < tiles {
                    let front = C::combine(states.look_back(out), below[LAG]);
                    fronts.add(turn * MAX_WARPS + lane).store(front);
                }
                if lane == 0 {
                    taken.add(turn).store(number);
                }
            } else if tile < tiles {
                let mut v = Span::take::<C::Word, R>(stage(at), workers, t);
                if next < tiles {
                    let span = Span::of::<C::Word, R>(next, workers, t, args.n);
                    span.prefetch::<C::Word, R>(args.input, nothing, stage(at_next), workers, t);
                }
                let of_warp = scan_warp::<C, R>(&op, &mut v, args.exclusive != 0);
                let mut r = 0;
                while r < R {
                    // Back to where it came from: it waits there for the tile's prefix.
                    Span::place::<C::Word>(stage(at), workers, r, t).store(v[r]);
                    r += 1;
                }
                if lane == 0 {
                    sums.add(turn * MAX_WARPS + warp_id).store(of_warp);
                }
            }
            thread::sync_threads();

            if out < tiles && !in_control {
                let span = Span::of::<C::Word, R>(out, workers, t, args.n);
                // As many places after `at` as `out` is turns.
                let at_out = if at_next == STAGES - 1 {
                    0
                } else {
                    at_next + 1
                };
                let front = fronts.add(turn * MAX_WARPS + warp_id).load();
                let mut r = 0;
                while r < R {
                    let mut v = Span::place::<C::Word>(stage(at_out), workers, r, t).load();
                    let mut i = 0;
                    while i < C::Word::PER_VECTOR {
                        let element = C::combine(front, C::Word::get(&v, i));
                        C::Word::set(&mut v, i, op.decode(element));
                        i += 1;
                    }
                    span.store_round::<C::Word>(args.output, r, &v);
                    r += 1;
                }
            }
            let mut b = LAG;
            while b > 0 {
                behind[b] = behind[b - 1];
                below[b] = below[b - 1];
                b -= 1;
            }
            behind[0] = tile;
            tile = next;
            at = at_next;
            turn = 1 - turn;
        }
    }
}

/// Replaces the elements of a warp's vectors by the operands of their scan within the warp.
/// Returns the total of all of them.
///
/// # Safety
/// All lanes of the warp call it.
#[inline(always)]
unsafe fn scan_warp<C: FromOrder, const R: usize>(
    op: &C,
    v: &mut [<C::Word as Word>::Vector; R],
    exclusive: bool,
) -> C::Word {
    let last = const { warp::SIZE - 1 };
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
        // SAFETY: all lanes of the warp are here.
        let (shifted, all) = unsafe {
            let up_to = C::warp_inclusive(sum);
            let all = warp::warp_shuffle_idx(LaneMask::FULL, up_to, last, warp::SIZE);
            (C::warp_shift(up_to), all)
        };
        let below = C::combine(of_warp, shifted);
        let own = v[r];
        let mut i = 0;
        while i < C::Word::PER_VECTOR {
            let mut scanned = C::combine(below, C::Word::get(&own, i));
            if exclusive {
                scanned = if i == 0 {
                    below
                } else {
                    C::combine(below, C::Word::get(&own, i.wrapping_sub(1)))
                };
            }
            C::Word::set(&mut v[r], i, scanned);
            i += 1;
        }
        of_warp = C::combine(of_warp, all);
        r += 1;
    }
    of_warp
}

macro_rules! scans {
    ($($(#[$doc:meta])* $NAME:ident $name:ident: $op:ty, $t:ty;)*) => {
        kernel! {$(
            $(#[$doc])*
            pub static $NAME = fn $name(args: ScanArgs<$t>) by block {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { scan::<$op, ROUNDS>(&args) }
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
