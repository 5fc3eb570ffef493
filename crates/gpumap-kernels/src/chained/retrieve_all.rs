//! Dump of every pair: stream compaction of slabs where they lie, with one atomic per block and turn.
//!
//! | blocks | what they read |
//! |---|---|
//! | the first | the base slabs of the buckets, [`SLABS`] each |
//! | the next | the slabs of a memory block of the pool each that are taken, [`SLABS`] in a turn (`taken`) |
//! | the last | the chains of few keys (`aliases`) |
//!
//! Each tile of eight lanes reads four slabs at a time, so that as many bytes are in flight as when a table is read from end to end.
//! Each warp packs its pairs in shared memory and counts them, one warp adds up the counts, **one** 64-bit
//! atomic takes the block's part of the outputs, and pairs are stored line by line.
//!
//! Slabs do not say which chain they are in. Mostly that is not needed: a word is a key. But in the chains of the keys
//! whose bits mean a state, words are aliases of these, which are also keys of their own in the other chains. So kernels
//! that read slabs where they lie leave such words out, and kernels that follow the chain report them.
//!
//! Beside writers: a pair that is there throughout is reported exactly once, since slots are read
//! once, pairs never move, and its slab is taken, and in its chain, all the time.
//!
//! Every loop ends: a memory block has [`UNITS`] slabs, and a walk is cut off after as many as the pool has.

mod aliases;
mod taken;

#[cfg(doc)]
use super::allocator::UNITS;
use super::slab::{LANES, Slab, is_slot};
use super::view::ChainedView;
use crate::count::Counters;
use crate::primitives::filter::Kept;
use crate::retrieve_all::packed::{Outputs, PART_BYTES, Packed, ROUNDS};
use crate::slot::{Bits, Format, KeyWord, RESERVED_WORDS};
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::tile::Tile;
use gpumap_simt::{U64x2, kernel_args, shared_array, thread, warp};
use taken::Taken;

/// Threads per block.
pub const THREADS: u32 = 512;
/// Slabs that a tile reads side by side.
const SIDE_BY_SIDE: u32 = ROUNDS;
/// Tiles per block.
const TILES: u32 = THREADS / LANES;
/// Slabs that a block reads at a time.
pub const SLABS: u32 = TILES * SIDE_BY_SIDE;

const WARPS: u32 = THREADS / warp::SIZE;

/// Bytes of dynamic shared memory of a block.
pub const SHARED_BYTES: u32 = WARPS * PART_BYTES;

kernel_args! {
    /// Arguments of a `retrieve_all` kernel of chained maps: [`blocks`] of [`THREADS`], or some of them in a row, with
    /// [`SHARED_BYTES`].
    pub struct DumpChainsArgs<K, V> {
        /// The map.
        pub view: ChainedView,
        /// For each super-block of the pool, of how many of its units there is memory.
        pub units: *const u64,
        /// The first of the [`blocks`] of this launch.
        pub first: u64,
        /// Out: the keys.
        pub keys: *mut K,
        /// Out: the values, each beside its key.
        pub values: *mut V,
        /// Room in each of the outputs; what goes beyond is counted, not written.
        pub room: u64,
        /// How many pairs there are.
        pub pairs: Counters,
    }
}

/// The blocks that dump all of a map.
#[inline(always)]
pub const fn blocks(view: &ChainedView) -> u64 {
    blocks_of_bases(view) + view.pool.blocks() as u64 + 1
}

/// Those that read base slabs.
#[inline(always)]
pub(crate) const fn blocks_of_bases(view: &ChainedView) -> u64 {
    (view.buckets as u64).div_ceil(SLABS as u64)
}

/// The body of the kernels.
///
/// # Safety
/// See [`DumpChainsArgs`]: a live map of format `F`, and outputs with `room` elements.
#[inline(always)]
pub unsafe fn dump<F: Format>(args: &DumpChainsArgs<F::Key, F::Value>) {
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::ALONE || crate::native::is_here() {
        let block = crate::native::block();
        // SAFETY: passed on.
        return unsafe { crate::native::chains::dump::<F>(args, block) };
    }
    let view = &args.view;
    let out = Outputs {
        keys: args.keys,
        values: args.values,
        room: args.room,
    };
    let shared = Shared {
        sums: shared_array![u32; WARPS as usize],
        begin: shared_array![u64; 1],
    };
    let of_bases = blocks_of_bases(view);
    let block = args.first + u64::from(thread::block_idx_x());
    // SAFETY: the branches are the same for all threads of the block. What it counts is counted by its first warp.
    unsafe {
        if block < of_bases {
            let first = block * u64::from(SLABS);
            let slabs = |i: u32| {
                let base = first + u64::from(i);
                if base < u64::from(view.buckets) {
                    view.base(base)
                } else {
                    Slab::NONE
                }
            };
            dump_slabs::<F>(&out, args.pairs, shared, slabs);
        } else if block - of_bases < u64::from(view.pool.blocks()) {
            let taken = Taken::of(&view.pool, (block - of_bases) as u32, args.units);
            let mut first = 0;
            while first < taken.len {
                dump_slabs::<F>(&out, args.pairs, shared, |i| {
                    taken.slab(&view.pool, first + i)
                });
                first += SLABS;
            }
        } else {
            aliases::dump::<F>(view, &out, args.pairs);
        }
        if thread::thread_idx_x() == 0 {
            args.pairs.block_is_done();
        }
    }
}

/// What the warps of a block exchange.
#[derive(Clone, Copy)]
struct Shared {
    /// How many pairs each of them has, and then how many those before it have.
    sums: *mut u32,
    /// Where the block's part of the outputs begins.
    begin: *mut u64,
}

/// Dumps what [`SLABS`] slabs have, except for aliases; there may be none at some places.
///
/// | must call | result |
/// |---|---|
/// | every thread of the block, converged | in the outputs |
///
/// # Safety
/// As the table says; the slabs are those of a live map.
#[inline(always)]
unsafe fn dump_slabs<F: Format>(
    out: &Outputs<F::Key, F::Value>,
    pairs: Counters,
    shared: Shared,
    slab: impl Fn(u32) -> Slab,
) {
    const R: usize = SIDE_BY_SIDE as usize;
    let Shared { sums, begin } = shared;
    let rank = Tile::<LANES>::converged().rank();
    let lane = warp::lane_id();
    let warp_id = thread::thread_idx_x() / warp::SIZE;
    // The slabs of a tile are a whole block's tiles apart, so that those side by side are read side by side.
    let tile_id = thread::thread_idx_x() / LANES;
    // SAFETY: whole warps are at each collective. Shared words are written by one thread and read by
    // others only across a barrier. A warp has read its sum when it writes the next one, and all have
    // read what warp 0 writes when they reach the next turn's first barrier. A warp has stored its
    // part before it packs another one there.
    unsafe {
        let mut vectors = [U64x2::new(!0, !0); R];
        let mut r = 0;
        while r < R {
            let slab = slab(tile_id + r as u32 * TILES);
            if slab.is_some() {
                vectors[r] = slab.load(rank);
            }
            r += 1;
        }
        warp::sync_warp(LaneMask::FULL);
        let part = Packed::<F>::part(warp_id);
        let of_warp = part.pack(&vectors, pairs_of::<F>(&vectors, rank), F::key);
        if lane == 0 {
            *sums.add(warp_id as usize) = of_warp;
        }
        thread::sync_threads();
        if warp_id == 0 {
            let mine = if lane < WARPS {
                *sums.add(lane as usize)
            } else {
                0
            };
            let up_to = warp::warp_inclusive_sum(mine);
            if lane < WARPS {
                *sums.add(lane as usize) = up_to - mine;
            }
            if lane == WARPS - 1 {
                *begin = if up_to == 0 {
                    0
                } else {
                    atomic::fetch_add(pairs.words, u64::from(up_to), Relaxed)
                };
            }
        }
        thread::sync_threads();
        let begin = *begin + u64::from(*sums.add(warp_id as usize));
        part.store(out, begin, of_warp);
    }
}

/// Which slots of a lane's vectors hold pairs, except for aliases: bit `8 * r + s` for slot `s` of vector `r`.
#[inline(always)]
fn pairs_of<F: Format>(vectors: &[U64x2; SIDE_BY_SIDE as usize], rank: u32) -> Kept {
    let mut kept = 0;
    let mut r = 0;
    while r < SIDE_BY_SIDE {
        let mut s = 0;
        while s < F::SLOTS {
            let word = F::word(vectors[r as usize], s);
            let is_pair = is_slot::<F>(rank, s) && word.is_key() && word.to_u64() >= RESERVED_WORDS;
            kept |= u32::from(is_pair) << (8 * r + s);
            s += 1;
        }
        r += 1;
    }
    kept
}
