//! One value from many, the same bits on every run and every device.
//!
//! A block reduces a chunk that it alone walks over, and writes one partial result; the block
//! that finishes last reduces those, in a fixed order. Which lane combines what depends on the
//! length alone, so float sums do not vary with scheduling.
//!
//! # Forward progress and memory order
//! No block waits for another: each takes a ticket when its partial result is written, and the
//! one whose ticket is the last goes on. The ticket is taken with acquire and release at device
//! scope, by the thread that wrote the partial result, so the thread with the last ticket sees
//! the results of all that came before; the block barrier passes that on to its other threads.

use super::combine::{Add, AddFloat, Combine, FromOrder, Min, Order};
use super::word::{Span, Word, tile_len};
use gpumap_simt::atomic::{self, AcqRel, Relaxed};
use gpumap_simt::{kernel, kernel_args, shared_array, thread, warp};

/// Threads per block.
pub const THREADS: u32 = 512;
/// Vectors that a thread has in flight.
const ROUNDS: usize = 4;
/// Tiles that a block walks over.
pub const TILES_PER_BLOCK: u32 = 4;

/// Elements per block.
pub const fn block_len<W: Word>() -> u32 {
    tile_len::<W>(THREADS, ROUNDS as u32) * TILES_PER_BLOCK
}

kernel_args! {
    /// Arguments of a reduction: blocks of [`THREADS`], one for every [`block_len`] elements.
    pub struct ReduceArgs<W> {
        /// In: `n` elements.
        pub input: *const W,
        /// How many elements, at least one.
        pub n: u64,
        /// What the result begins with.
        pub init: W,
        /// The order, for minima and maxima.
        pub order: Order<W>,
        /// One word per block, of any contents.
        pub partials: *mut W,
        /// Zero at the start: the tickets.
        pub tickets: *mut u64,
        /// Out: the result.
        pub result: *mut W,
    }
}

/// All threads' operands in one, in warp 0.
///
/// # Safety
/// All threads of a block of `T` call it; `sums` has a word per warp of shared memory that
/// nothing uses between the last barrier before and the first after.
#[inline(always)]
unsafe fn reduce_block<C: Combine, const T: u32>(mine: C::Word, sums: *mut C::Word) -> C::Word {
    let warps = const { T / warp::SIZE };
    let lane = warp::lane_id();
    let warp_id = thread::thread_idx_x() / warp::SIZE;
    // SAFETY: the whole block is here; words are written before the barrier and read after it.
    unsafe {
        let of_warp = C::warp_reduce(mine);
        if lane == 0 {
            *sums.add(warp_id as usize) = of_warp;
        }
        thread::sync_threads();
        let mut all = C::IDENTITY;
        if warp_id == 0 {
            if lane < warps {
                all = *sums.add(lane as usize);
            }
            all = C::warp_reduce(all);
        }
        all
    }
}

/// The body of the reduction kernels.
///
/// # Safety
/// See [`ReduceArgs`].
#[inline(always)]
unsafe fn reduce<C: FromOrder>(args: &ReduceArgs<C::Word>)
where
    C::Word: atomic::Word,
{
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::is_here() {
        // SAFETY: passed on.
        return unsafe { crate::native::primitives::reduce::<C, ROUNDS>(args) };
    }
    let sums = shared_array![u64; 2 * warp::SIZE as usize].cast::<C::Word>();
    let last = shared_array![u32; 1];
    let op = C::from_order(args.order);
    let t = thread::thread_idx_x();
    let block = thread::block_idx_x();
    let blocks = thread::grid_dim_x();

    // SAFETY: all threads of the block reach every barrier and shuffle: what decides about
    // the second half is the same for all of them. The two halves use shared words of their
    // own. Each loop has a fixed number of turns or walks up to the number of blocks.
    unsafe {
        let mut mine = C::IDENTITY;
        let mut i = 0;
        while i < TILES_PER_BLOCK {
            let tile = block as u64 * TILES_PER_BLOCK as u64 + i as u64;
            let span = Span::of::<C::Word, ROUNDS>(tile as u32, THREADS, t, args.n);
            let v = span.load::<C::Word, ROUNDS>(args.input, op.decode(C::IDENTITY));
            let mut r = 0;
            while r < ROUNDS {
                let mut k = 0;
                while k < C::Word::PER_VECTOR {
                    mine = C::combine(mine, op.encode(C::Word::get(&v[r], k)));
                    k += 1;
                }
                r += 1;
            }
            i += 1;
        }
        let of_block = reduce_block::<C, THREADS>(mine, sums);
        if t == 0 {
            atomic::store(args.partials.add(block as usize), of_block, Relaxed);
            let ticket = atomic::fetch_add(args.tickets, 1, AcqRel);
            *last = (ticket == blocks as u64 - 1) as u32;
        }
        thread::sync_threads();
        if *last != 0 {
            let mut mine = C::IDENTITY;
            let mut k = t;
            while k < blocks {
                let partial = atomic::load(args.partials.add(k as usize), Relaxed);
                mine = C::combine(mine, partial);
                k += THREADS;
            }
            let second = sums.wrapping_add(warp::SIZE as usize);
            let all = reduce_block::<C, THREADS>(mine, second);
            if t == 0 {
                let all = C::combine(op.encode(args.init), all);
                gpumap_simt::mem::store(args.result, op.decode(all));
            }
        }
    }
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $NAME:ident $name:ident: $op:ty, $t:ty;)*) => {
        kernel! {$(
            $(#[$doc])*
            pub static $NAME = fn $name(args: ReduceArgs<$t>) by block {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { reduce::<$op>(&args) }
            }
        )*}
    };
}

reductions! {
    /// Sum of 4-byte integers.
    REDUCE_ADD_4 reduce_add_4: Add<u32>, u32;
    /// Sum of 8-byte integers.
    REDUCE_ADD_8 reduce_add_8: Add<u64>, u64;
    /// Sum of `f32`.
    REDUCE_ADD_F4 reduce_add_f4: AddFloat<u32>, u32;
    /// Sum of `f64`.
    REDUCE_ADD_F8 reduce_add_f8: AddFloat<u64>, u64;
    /// Minimum or maximum of 4-byte elements.
    REDUCE_MIN_4 reduce_min_4: Min<u32>, u32;
    /// Minimum or maximum of 8-byte elements.
    REDUCE_MIN_8 reduce_min_8: Min<u64>, u64;
}
