//! Counters that many threads add to.

use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::{shared_array, thread, warp};

/// Adds every thread's `mine` to `*counter`, with one atomic per block.
///
/// A shuffle sums the warp, shared memory the block: an atomic per warp on one address was seen
/// to cost an insert of 100 million keys two thirds of its speed.
///
/// | must call | result |
/// |---|---|
/// | every thread of the block, converged | in `*counter`, when the launch has ended |
///
/// # Safety
/// As the table says; `counter` is valid on the device and only added to during the launch. The
/// block's sum is below 2^32.
#[inline(always)]
pub unsafe fn add_from_block(counter: *mut u64, mine: u32) {
    let sum = shared_array![u32; 1];
    // SAFETY: every thread of the block comes here, so barriers and shuffles are whole. Between
    // the barriers the word is only added to, before and after them one thread has it.
    unsafe {
        if thread::thread_idx_x() == 0 {
            *sum = 0;
        }
        thread::sync_threads();
        let of_warp = warp::warp_reduce_add(mine);
        if warp::lane_id() == 0 && of_warp != 0 {
            atomic::block_fetch_add(sum, of_warp);
        }
        thread::sync_threads();
        if thread::thread_idx_x() == 0 && *sum != 0 {
            atomic::fetch_add(counter, u64::from(*sum), Relaxed);
        }
    }
}
