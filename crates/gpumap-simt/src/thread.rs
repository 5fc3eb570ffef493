//! Where a thread is in its block and grid, the block barrier, and the spin hint.
//!
//! Launches are one-dimensional. A warp is 32 consecutive threads of a block.

use crate::imp;

/// The thread's index in its block.
#[inline(always)]
pub fn thread_idx_x() -> u32 {
    imp::thread_idx_x()
}

/// The block's index in the grid.
#[inline(always)]
pub fn block_idx_x() -> u32 {
    imp::block_idx_x()
}

/// Threads per block.
#[inline(always)]
pub fn block_dim_x() -> u32 {
    imp::block_dim_x()
}

/// Blocks in the grid.
#[inline(always)]
pub fn grid_dim_x() -> u32 {
    imp::grid_dim_x()
}

/// The thread's index in the grid: 64 bits, so that no size of input wraps.
#[inline(always)]
pub fn index() -> u64 {
    u64::from(block_idx_x()) * u64::from(block_dim_x()) + u64::from(thread_idx_x())
}

/// How many threads the grid has: the step of a grid-stride loop.
#[inline(always)]
pub fn grid_threads() -> u64 {
    u64::from(grid_dim_x()) * u64::from(block_dim_x())
}

/// The block barrier: returns when every thread of the block has called it. Memory accesses of
/// the block before it are visible to the block after it.
///
/// | must call | result |
/// |---|---|
/// | every thread of the block, none exited, all from converged code | nothing |
///
/// # Safety
/// Every thread of the block reaches the same number of barriers. The executor reports a
/// barrier that some thread missed; a GPU hangs or goes on with half-written data.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn sync_threads() {
    // SAFETY: the caller's promise is the function's own.
    unsafe { imp::sync_threads() }
}

/// A hint inside a spin loop: let other threads go on for about `nanos` nanoseconds.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn nanosleep(nanos: u32) {
    imp::nanosleep(nanos);
}
