//! Rung 4: the lanes of a warp scan together, in five steps in shared memory.

use super::{BlockScan, TILE, WARPS};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::shared_ptr::SharedPtr;
use gpumap_simt::{thread, warp};

/// Hillis and Steele's scan: in step `k` each lane adds what the lane 2^k below it has. 160
/// additions instead of 32, but in five steps instead of 32, and lanes would be idle otherwise.
///
/// Between reading and writing every lane waits for the others: on GPUs since Volta the lanes of
/// a warp do not run in step by themselves.
#[derive(Clone, Copy, Debug)]
pub struct HillisSteele;

impl BlockScan for HillisSteele {
    #[inline(always)]
    unsafe fn scan(x: u32) -> (u32, u32) {
        let stage = SharedPtr::<u32>::dynamic();
        let sums = stage.add(TILE);
        let t = thread::thread_idx_x();
        let lane = warp::lane_id();
        let warp_id = t / warp::SIZE;
        // SAFETY: every thread reaches each barrier, every lane to each scan of its warp, whose
        // segment that no other warp accesses meanwhile.
        unsafe {
            let of_warp = warp_scan(stage.add(warp_id * warp::SIZE), x);
            thread::sync_threads();
            if warp_id == 0 {
                // The last word of each segment: 32 words in one and the same bank of shared
                // memory, which hands them out one after the other.
                let sum = stage.add(lane * warp::SIZE + warp::SIZE - 1).load();
                warp_scan(sums, sum);
            }
            thread::sync_threads();
            let mut before = 0;
            if warp_id > 0 {
                before = sums.add(warp_id - 1).load();
            }
            (of_warp.wrapping_add(before), sums.add(WARPS - 1).load())
        }
    }
}

/// The inclusive scan of a warp, which also stays in its segment.
///
/// # Safety
/// All lanes of a warp call it with a segment of 32 words of the warp's own.
#[inline(always)]
unsafe fn warp_scan(segment: SharedPtr<u32>, x: u32) -> u32 {
    let lane = warp::lane_id();
    let mut sum = x;
    // SAFETY: each lane writes its own word, and reads others' between two barriers.
    unsafe {
        segment.add(lane).store(sum);
        warp::sync_warp(LaneMask::FULL);
        let mut step = 1;
        while step < warp::SIZE {
            if lane >= step {
                sum = sum.wrapping_add(segment.add(lane - step).load());
            }
            warp::sync_warp(LaneMask::FULL);
            segment.add(lane).store(sum);
            warp::sync_warp(LaneMask::FULL);
            step *= 2;
        }
    }
    sum
}
