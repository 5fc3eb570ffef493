//! Rung 3: each warp has 32 elements of its own, which its first lane adds up; then one thread
//! adds up the sums of the warps.

use super::{BlockScan, TILE, WARPS};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::shared_ptr::SharedPtr;
use gpumap_simt::{thread, warp};

/// The same idea as for the whole array, once more within the block: scan parts, scan their sums,
/// add them. 32 threads of 1,024 work at the same time, and the serial chain falls from 1,024
/// additions to 32 and 32.
#[derive(Clone, Copy, Debug)]
pub struct Warps;

impl BlockScan for Warps {
    #[inline(always)]
    unsafe fn scan(x: u32) -> (u32, u32) {
        let stage = SharedPtr::<u32>::dynamic();
        let sums = stage.add(TILE);
        let t = thread::thread_idx_x();
        let warp_id = t / warp::SIZE;
        // SAFETY: every lane reaches the barrier of its warp, every thread to those of the block.
        // Between them a word is touched by one thread.
        unsafe {
            stage.add(t).store(x);
            warp::sync_warp(LaneMask::FULL);
            if warp::lane_id() == 0 {
                add_up(stage.add(t), 1, stage.add(t));
            }
            thread::sync_threads();
            if t == 0 {
                add_up(stage.add(warp::SIZE - 1), warp::SIZE, sums);
            }
            thread::sync_threads();
            let mut before = 0;
            if warp_id > 0 {
                before = sums.add(warp_id - 1).load();
            }
            let up_to = stage.add(t).load().wrapping_add(before);
            (up_to, sums.add(WARPS - 1).load())
        }
    }
}

/// Scans 32 words, `stride` apart, by one thread, to 32 words side by side.
///
/// # Safety
/// No other thread accesses them meanwhile.
#[inline(always)]
unsafe fn add_up(from: SharedPtr<u32>, stride: u32, to: SharedPtr<u32>) {
    let mut sum = 0u32;
    let mut i = 0;
    while i < warp::SIZE {
        // SAFETY: the caller's promise.
        unsafe {
            sum = sum.wrapping_add(from.add(i * stride).load());
            to.add(i).store(sum);
        }
        i += 1;
    }
}
