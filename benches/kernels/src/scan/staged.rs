//! Rung 2: the block fetches a tile into shared memory together, where one thread adds it up.

use super::{BlockScan, TILE};
use gpumap_simt::shared_ptr::SharedPtr;
use gpumap_simt::thread;

/// Loads and stores are coalesced now, 32 words an instruction, and the serial part waits for
/// shared memory, some 30 cycles, instead of global memory, many hundreds.
#[derive(Clone, Copy, Debug)]
pub struct Staged;

impl BlockScan for Staged {
    #[inline(always)]
    unsafe fn scan(x: u32) -> (u32, u32) {
        let stage = SharedPtr::<u32>::dynamic();
        let t = thread::thread_idx_x();
        // SAFETY: every thread reaches each barrier; between them one thread has the stage.
        unsafe {
            stage.add(t).store(x);
            thread::sync_threads();
            if t == 0 {
                let mut sum = 0u32;
                let mut i = 0;
                while i < TILE {
                    sum = sum.wrapping_add(stage.add(i).load());
                    stage.add(i).store(sum);
                    i += 1;
                }
            }
            thread::sync_threads();
            (stage.add(t).load(), stage.add(TILE - 1).load())
        }
    }
}
