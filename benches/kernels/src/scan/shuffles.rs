//! Rung 7: lanes hand each other their sums by shuffles, from register to register.

use super::{BlockScan, WARPS};
use gpumap_simt::shared_ptr::SharedPtr;
use gpumap_simt::{thread, warp};

/// The same five steps. A shuffle reads the neighbour's register and is its own barrier, so three
/// instructions of a step become one. Shared memory holds the warps' sums and nothing else.
#[derive(Clone, Copy, Debug)]
pub struct Shuffles;

impl BlockScan for Shuffles {
    #[inline(always)]
    unsafe fn scan(x: u32) -> (u32, u32) {
        let sums = SharedPtr::<u32>::dynamic();
        let lane = warp::lane_id();
        let warp_id = thread::thread_idx_x() / warp::SIZE;
        // SAFETY: every thread reaches each barrier, every lane to each sum. Words are written
        // before a barrier and read after it.
        unsafe {
            let of_warp = warp::warp_inclusive_sum(x);
            if lane == warp::SIZE - 1 {
                sums.add(warp_id).store(of_warp);
            }
            thread::sync_threads();
            if warp_id == 0 {
                let up_to = warp::warp_inclusive_sum(sums.add(lane).load());
                sums.add(lane).store(up_to);
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
