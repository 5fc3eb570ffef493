//! Dump of every pair: stream compaction of the table with one atomic per block.
//!
//! A block takes one chunk of 512 slabs (32 KiB) of one submap. Each of its 512 threads loads
//! four 16-byte vectors, all at once; ballots find the live slots, one popcount sum per warp
//! goes through shared memory, one warp scans the sums, **one** 64-bit atomic takes the block's
//! part of the output, and pairs are stored coalesced. The other rungs of the ladder (an atomic
//! per pair, per warp) were measured at up to six times the time.
//!
//! Beside writers: a pair that is there throughout is reported exactly once, since slots are read
//! once and pairs never move. A key that is removed and inserted again meanwhile lies in another
//! slot the second time, and may be reported for each.

use crate::chunk::{Chunks, THREADS, VECTORS};
use crate::count::Counters;
use crate::slot::{Format, KeyWord};
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::{U64x2, kernel_args, mem, shared_array, thread, warp};

kernel_args! {
    /// Arguments of a `retrieve_all` kernel. The grid has one block of [`THREADS`] per chunk.
    pub struct RetrieveAllArgs<K, V> {
        /// The chunks to dump.
        pub chunks: Chunks,
        /// Out: the keys.
        pub keys: *mut K,
        /// Out: the values, each beside its key.
        pub values: *mut V,
        /// Room in each of the outputs; what goes beyond is counted, not written.
        pub room: u64,
        /// Pairs, also those for which there is no room.
        pub pairs: Counters,
    }
}

const WARPS: u32 = THREADS / warp::SIZE;

/// The body of the kernels.
///
/// # Safety
/// Blocks of [`THREADS`] threads, one per chunk; the arguments describe a live map of format
/// `F`, and the outputs have `room` elements.
#[inline(always)]
pub unsafe fn dump<F: Format>(args: &RetrieveAllArgs<F::Key, F::Value>) {
    const R: usize = VECTORS as usize;
    let sums = shared_array![u32; WARPS as usize];
    let begin = shared_array![u64; 1];
    let t = thread::thread_idx_x();
    let lane = warp::lane_id();
    let warp_id = t / warp::SIZE;

    // SAFETY: the exits and branches below are the same for all threads between two barriers,
    // and for all lanes between two ballots. Loads stay below the chunk's length. Shared words
    // are written by one thread and read by others only across a barrier.
    unsafe {
        let chunk = args.chunks.of_block();
        // The vectors of a warp lie together, those of one round side by side.
        let first = warp_id * warp::SIZE * VECTORS + lane;
        let mut vectors = [U64x2::new(!0, !0); R];
        let mut r = 0;
        while r < R {
            let i = first + r as u32 * warp::SIZE;
            if i < chunk.len {
                vectors[r] = atomic::load(chunk.vectors.wrapping_add(i as usize), Relaxed);
            }
            r += 1;
        }

        let mut of_warp = 0;
        let mut r = 0;
        while r < R {
            let mut s = 0;
            while s < F::SLOTS {
                of_warp += lanes_with_pair::<F>(vectors[r], s).count();
                s += 1;
            }
            r += 1;
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
            let up_to = warp::warp_inclusive_sum(mine);
            if lane < WARPS {
                *sums.add(lane as usize) = up_to - mine;
            }
            if lane == WARPS - 1 {
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
                // Voted on again: to keep eight masks costs registers, and those cost blocks.
                let lanes = lanes_with_pair::<F>(vectors[r], s);
                let at = out + u64::from(lanes.rank_of(lane));
                if lanes.contains(lane) && at < args.room {
                    let word = F::word(vectors[r], s);
                    mem::store(args.keys.add(at as usize), chunk.key::<F>(word));
                    mem::store(args.values.add(at as usize), F::value(vectors[r], s));
                }
                out += u64::from(lanes.count());
                s += 1;
            }
            r += 1;
        }
        if t == 0 {
            args.pairs.block_is_done();
        }
    }
}

/// The lanes of the warp whose vector has a pair in slot `i`.
///
/// # Safety
/// All lanes of the warp call it.
#[inline(always)]
unsafe fn lanes_with_pair<F: Format>(vector: U64x2, i: u32) -> LaneMask {
    // SAFETY: the whole warp is here.
    unsafe { warp::warp_vote_ballot(LaneMask::FULL, F::word(vector, i).is_key()) }
}
