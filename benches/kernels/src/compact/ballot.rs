//! Rung 4: the warp votes, and one lane counts for all.

use super::{Position, reserve};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::warp;

/// Ballot and population count: the vote gives every lane the same 32 bits. Their number is what
/// the warp adds to the counter, once; the number of those below a lane is its rank.
#[derive(Clone, Copy, Debug)]
pub struct Ballot;

impl Position for Ballot {
    #[inline(always)]
    unsafe fn of(keep: bool, counter: *mut u64) -> u64 {
        let lane = warp::lane_id();
        // SAFETY: the whole warp is here, as the whole block is.
        unsafe {
            let kept = warp::warp_vote_ballot(LaneMask::FULL, keep);
            let mut begin = 0;
            if lane == 0 {
                begin = reserve(counter, kept.count());
            }
            let begin = warp::warp_shuffle_idx(LaneMask::FULL, begin, 0, warp::SIZE);
            begin + u64::from(kept.rank_of(lane))
        }
    }
}
