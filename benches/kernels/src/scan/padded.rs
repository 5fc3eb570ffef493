//! Rung 5: the same steps without branches and without bank conflicts, by where the words lie.

use super::{BlockScan, WARPS};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::shared_ptr::SharedPtr;
use gpumap_simt::{thread, warp};

/// Zeros in front of each segment: as many as the longest step, so that a lane may always look
/// below itself.
const ZEROS: u32 = warp::SIZE / 2;

/// Words from one segment to the next: odd, so that the last words of the 32 segments lie in the
/// 32 different banks.
pub(super) const STRIDE: u32 = ZEROS + warp::SIZE + 1;

/// [`HillisSteele`](super::HillisSteele) in segments with zeros in front and one word between.
#[derive(Clone, Copy, Debug)]
pub struct Padded;

impl BlockScan for Padded {
    #[inline(always)]
    unsafe fn scan(x: u32) -> (u32, u32) {
        let stage = SharedPtr::<u32>::dynamic();
        let sums = stage.add(WARPS * STRIDE);
        let t = thread::thread_idx_x();
        let lane = warp::lane_id();
        let warp_id = t / warp::SIZE;
        // SAFETY: every thread reaches each barrier, every lane to each scan of its warp, whose
        // segment that no other warp accesses meanwhile.
        unsafe {
            let of_warp = warp_scan(stage.add(warp_id * STRIDE), x);
            thread::sync_threads();
            if warp_id == 0 {
                let sum = stage.add(lane * STRIDE + ZEROS + warp::SIZE - 1).load();
                warp_scan(sums, sum);
            }
            thread::sync_threads();
            // What is before the first warp is a zero, too.
            let before = sums.add(ZEROS + warp_id - 1).load();
            let all = sums.add(ZEROS + WARPS - 1).load();
            (of_warp.wrapping_add(before), all)
        }
    }
}

/// The inclusive scan of a warp, which also stays in its segment.
///
/// # Safety
/// All lanes of a warp call it with a segment of [`STRIDE`] words of the warp's own.
#[inline(always)]
unsafe fn warp_scan(segment: SharedPtr<u32>, x: u32) -> u32 {
    let lane = warp::lane_id();
    let mut sum = x;
    // SAFETY: each lane writes words of its own, and reads others' between two barriers.
    unsafe {
        // Half of the lanes would do for the zeros; that would be a branch. The other half writes
        // its zero to the place of an element, which comes there right after.
        segment.add(lane).store(0);
        warp::sync_warp(LaneMask::FULL);
        let own = segment.add(ZEROS + lane);
        own.store(sum);
        warp::sync_warp(LaneMask::FULL);
        let mut step = 1;
        while step < warp::SIZE {
            sum = sum.wrapping_add(segment.add(ZEROS + lane - step).load());
            warp::sync_warp(LaneMask::FULL);
            own.store(sum);
            warp::sync_warp(LaneMask::FULL);
            step *= 2;
        }
    }
    sum
}
