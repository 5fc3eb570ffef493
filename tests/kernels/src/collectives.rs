//! Votes, shuffles, matches, sums; and the branches around them that compilers get wrong.

use crate::RowArgs;
use gpumap_simt::kernel;
use gpumap_simt::mask::LaneMask;
use gpumap_simt::{thread, warp};

/// Results per thread of [`WARP`].
pub const WARP_ROW: u32 = 14;
/// Results per thread of [`BRANCHES`].
pub const BRANCHES_ROW: u32 = 3;

const ALL: LaneMask = LaneMask::FULL;

kernel! {
    /// Every collective of a whole warp, and votes of its halves by themselves.
    pub static WARP = fn facade_warp(args: RowArgs) {
        // SAFETY: blocks are whole warps; all lanes reach each collective that names them.
        unsafe {
            let v = args.word();
            let lane = warp::lane_id();
            args.put(0, u64::from(warp::warp_vote_ballot(ALL, v & 1 != 0).bits()));
            args.put(1, u64::from(warp::warp_vote_any(ALL, v % 61 == 7)));
            args.put(2, u64::from(warp::warp_vote_all(ALL, v % 61 != 7)));
            args.put(3, u64::from(warp::warp_match_any_32(ALL, v as u32 & 3).bits()));
            args.put(4, u64::from(warp::warp_match_any_64(ALL, v & 0x1_0000_0001).bits()));
            args.put(5, warp::warp_shuffle_idx(ALL, v, v as u32 & 31, 32));
            args.put(6, u64::from(warp::warp_shuffle_up(ALL, v as u32, 3, 8)));
            args.put(7, warp::warp_shuffle_down(ALL, v, 5, 16));
            args.put(8, warp::warp_shuffle_xor(ALL, v as i32, 5, 32) as u32 as u64);
            args.put(9, u64::from(warp::warp_reduce_add(v as u32)));
            args.put(10, u64::from(warp::warp_inclusive_sum(v as u32)));
            args.put(11, u64::from(lane));
            let half = if lane < 16 {
                warp::warp_vote_ballot(LaneMask::first(16), v & 2 != 0)
            } else {
                warp::warp_vote_ballot(!LaneMask::first(16), v & 4 != 0)
            };
            args.put(12, u64::from(half.bits()));
            warp::sync_warp(ALL);
            args.put(13, warp::warp_shuffle_idx(ALL, f64::from_bits(v), 1, 4).to_bits());
        }
    }
    /// Collectives after a branch whose outcome is known on each way to them: what a compiler
    /// that does not know them to be convergent copies into both arms.
    pub static BRANCHES = fn facade_branches(args: RowArgs) {
        // SAFETY: as above; the branches meet again before each collective.
        unsafe {
            let v = args.word();
            let low = if warp::lane_id() < 16 {
                args.put(0, 1);
                true
            } else {
                args.put(0, 2);
                false
            };
            let odd = warp::warp_vote_ballot(ALL, v & 1 != 0).bits();
            args.put(1, u64::from(if low { odd } else { odd ^ 0x55 }));
            let even = if thread::thread_idx_x() % 64 < 32 {
                args.put(2, 3);
                true
            } else {
                args.put(2, 4);
                false
            };
            thread::sync_threads();
            args.put(2, if even { v } else { !v });
        }
    }
}
