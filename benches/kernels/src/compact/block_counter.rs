//! Rung 5: elements take their rank from a counter of the block, and the block its place from
//! the counter of all.

use super::{BlockMemory, Position, reserve};
use gpumap_simt::thread;

/// One atomic in shared memory per kept element, one in global memory per block.
///
/// Three barriers, and each is needed: the counter is zero before any thread counts, all have
/// counted before it is read, and the block's place is known before any uses it.
#[derive(Clone, Copy, Debug)]
pub struct BlockCounter;

impl Position for BlockCounter {
    #[inline(always)]
    unsafe fn of(keep: bool, counter: *mut u64) -> u64 {
        let memory = BlockMemory::of_block();
        let t = thread::thread_idx_x();
        // SAFETY: every thread of the block reaches each barrier. Between two of them a shared
        // word is written by one thread, or only counted in.
        unsafe {
            if t == 0 {
                memory.count.store(0);
            }
            thread::sync_threads();
            let mut rank = 0;
            if keep {
                rank = memory.count.fetch_add(1);
            }
            thread::sync_threads();
            if t == 0 {
                memory.begin.store(reserve(counter, memory.count.load()));
            }
            thread::sync_threads();
            memory.begin.load() + u64::from(rank)
        }
    }
}
