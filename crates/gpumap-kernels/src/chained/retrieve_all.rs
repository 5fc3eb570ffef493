//! Dump of every pair, chain by chain: stream compaction with one atomic per block and slab of its
//! longest chain.
//!
//! A block takes [`CHAINS`] chains, and each tile of eight lanes four of them, a slab of each at a
//! time: as many bytes are in flight as when a table is read from end to end. Ballots find the pairs,
//! one popcount sum per warp goes through shared memory, one warp scans the sums, **one** 64-bit
//! atomic takes the block's part of the output, and pairs are stored coalesced. Then the block goes
//! on to the second slabs of its chains, as long as one of them has another.
//!
//! Chains are followed, instead of reading the pool from end to end, because a slab does not tell
//! whose chain it is in: in those of the keys whose bits mean a state, words stand for other keys.
//!
//! Beside writers: a pair that is there throughout is reported exactly once, since slots are read
//! once, pairs never move, and its slab is in its chain all the time.
//!
//! Every walk is cut off after as many slabs as the pool has.

use super::slab::{LANES, Slab, SlabIndex, is_slot, link_in};
use super::view::{ChainedView, bases};
use crate::count::Counters;
use crate::slot::{Format, KeyWord};
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::tile::Tile;
use gpumap_simt::{U64x2, kernel_args, mem, shared_array, thread, warp};

/// Threads per block.
pub const THREADS: u32 = 512;
/// Chains that a tile reads side by side.
const SIDE_BY_SIDE: u32 = 4;
/// Chains per block.
pub const CHAINS: u32 = THREADS / LANES * SIDE_BY_SIDE;

const WARPS: u32 = THREADS / warp::SIZE;
/// In a warp's sum: whether one of its chains goes on.
const GOES_ON: u32 = 1 << 31;

kernel_args! {
    /// Arguments of a `retrieve_all` kernel of chained maps. The grid has one block of [`THREADS`] for
    /// [`CHAINS`] base slabs.
    pub struct DumpChainsArgs<K, V> {
        /// The map.
        pub view: ChainedView,
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

/// The body of the kernels.
///
/// # Safety
/// See [`DumpChainsArgs`]: a live map of format `F`, and outputs with `room` elements.
#[inline(always)]
pub unsafe fn dump<F: Format>(args: &DumpChainsArgs<F::Key, F::Value>) {
    const R: usize = SIDE_BY_SIDE as usize;
    let sums = shared_array![u32; WARPS as usize];
    let begin = shared_array![u64; 1];
    let goes_on = shared_array![u32; 1];
    let tile = Tile::<LANES>::converged();
    let lane = warp::lane_id();
    let warp_id = thread::thread_idx_x() / warp::SIZE;
    let view = &args.view;

    // The tile's chains are a whole block's tiles apart, so that base slabs side by side are read side
    // by side.
    let tile_id = thread::thread_idx_x() / LANES;
    let first = u64::from(thread::block_idx_x()) * u64::from(CHAINS) + u64::from(tile_id);
    let chain = |r: usize| first + r as u64 * u64::from(THREADS / LANES);
    // The slab that each chain has come to; none behind its end.
    let mut slabs = [Slab::NONE; R];
    let mut r = 0;
    while r < R {
        if chain(r) < bases(view.buckets) {
            slabs[r] = view.base(chain(r));
        }
        r += 1;
    }

    let mut slabs_left = view.pool.units();
    // SAFETY: the exit and the branches below are the same for all threads between two barriers, and
    // for all lanes between two collectives. Shared words are written by one thread and read by
    // others only across a barrier. A warp has read its sum when it writes the next one, and all have
    // read what warp 0 writes when they come to the next turn's first barrier.
    unsafe {
        loop {
            let mut vectors = [U64x2::new(!0, !0); R];
            let mut r = 0;
            while r < R {
                if slabs[r].is_some() {
                    vectors[r] = slabs[r].load(tile.rank());
                }
                r += 1;
            }

            let mut of_warp = 0;
            let mut links = false;
            let mut r = 0;
            while r < R {
                let mut s = 0;
                while s < F::SLOTS {
                    of_warp += lanes_with_pair::<F>(vectors[r], tile.rank(), s).count();
                    s += 1;
                }
                let link = SlabIndex::new(tile.shfl(link_in(vectors[r]).bits(), LANES - 1));
                slabs[r] = Slab::NONE;
                if link.is_some() {
                    slabs[r] = view.pool.slab(link);
                    links = true;
                }
                r += 1;
            }
            if warp::warp_vote_any(LaneMask::FULL, links) {
                of_warp |= GOES_ON;
            }
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
                let any = warp::warp_vote_any(LaneMask::FULL, mine & GOES_ON != 0);
                let mine = mine & !GOES_ON;
                let up_to = warp::warp_inclusive_sum(mine);
                if lane < WARPS {
                    *sums.add(lane as usize) = up_to - mine;
                }
                if lane == WARPS - 1 {
                    *goes_on = u32::from(any);
                    *begin = if up_to == 0 {
                        0
                    } else {
                        atomic::fetch_add(args.pairs.words, u64::from(up_to), Relaxed)
                    };
                }
            }
            thread::sync_threads();

            let mut out = *begin + u64::from(*sums.add(warp_id as usize));
            let mut r = 0;
            while r < R {
                let mut s = 0;
                while s < F::SLOTS {
                    // Voted on again: to keep the masks would cost registers.
                    let lanes = lanes_with_pair::<F>(vectors[r], tile.rank(), s);
                    let at = out + u64::from(lanes.rank_of(lane));
                    if lanes.contains(lane) && at < args.room {
                        let key = view.key::<F>(chain(r), F::word(vectors[r], s));
                        mem::store(args.keys.add(at as usize), key);
                        mem::store(args.values.add(at as usize), F::value(vectors[r], s));
                    }
                    out += u64::from(lanes.count());
                    s += 1;
                }
                r += 1;
            }
            if *goes_on == 0 || slabs_left == 0 {
                break;
            }
            slabs_left -= 1;
        }
        if thread::thread_idx_x() == 0 {
            args.pairs.block_is_done();
        }
    }
}

/// The lanes of the warp whose vector has a pair in slot `i`.
///
/// # Safety
/// All lanes of the warp call it.
#[inline(always)]
unsafe fn lanes_with_pair<F: Format>(vector: U64x2, rank: u32, i: u32) -> LaneMask {
    let pair = is_slot::<F>(rank, i) && F::word(vector, i).is_key();
    // SAFETY: the whole warp is here.
    unsafe { warp::warp_vote_ballot(LaneMask::FULL, pair) }
}
