//! Rung 6: ranks by adding up, without atomics among the threads of a block.

use super::{BlockMemory, Position, WARPS, reserve};
use gpumap_simt::{thread, warp};

/// A block-wide exclusive scan of ones and zeros: in each warp by shuffles, then over the sums of
/// the warps by the first warp, whose last lane takes the block's place in the output.
///
/// It would do for any numbers, and keeps the order of the elements within the block.
#[derive(Clone, Copy, Debug)]
pub struct BlockScan;

impl Position for BlockScan {
    #[inline(always)]
    unsafe fn of(keep: bool, counter: *mut u64) -> u64 {
        let memory = BlockMemory::of_block();
        let lane = warp::lane_id();
        let warp_id = thread::thread_idx_x() / warp::SIZE;
        // SAFETY: every thread of the block reaches each barrier, every lane to each sum. Shared
        // words are written before a barrier and read after it.
        unsafe {
            let up_to = warp::warp_inclusive_sum(u32::from(keep));
            if lane == warp::SIZE - 1 {
                memory.sums.add(warp_id).store(up_to);
            }
            thread::sync_threads();
            if warp_id == 0 {
                scan_sums(memory, counter);
            }
            thread::sync_threads();
            let before = memory.sums.add(warp_id).load() + up_to - u32::from(keep);
            memory.begin.load() + u64::from(before)
        }
    }
}

/// Makes of each warp's sum what is before it, and takes room for all of them.
///
/// # Safety
/// One whole warp calls it, and no other warp accesses the memory meanwhile.
#[inline(always)]
pub(super) unsafe fn scan_sums(memory: BlockMemory, counter: *mut u64) {
    let lane = warp::lane_id();
    // SAFETY: the whole warp is here; each lane has a word of its own.
    unsafe {
        let mut mine = 0;
        if lane < WARPS {
            mine = memory.sums.add(lane).load();
        }
        let up_to = warp::warp_inclusive_sum(mine);
        if lane < WARPS {
            memory.sums.add(lane).store(up_to - mine);
        }
        if lane == WARPS - 1 {
            memory.begin.store(reserve(counter, up_to));
        }
    }
}
