//! Rung 1: each kept element takes its position from the one counter, by itself.

use super::Position;
use gpumap_simt::atomic::{self, Relaxed};

/// One atomic in global memory per kept element.
///
/// All of them go to one address, and the memory system works them off one after the other, at
/// about one per nanosecond. (Compilers know the pattern: ptxas may add up the lanes of a warp by
/// itself, and what is measured then is the rung after the next.)
#[derive(Clone, Copy, Debug)]
pub struct Naive;

impl Position for Naive {
    #[inline(always)]
    unsafe fn of(keep: bool, counter: *mut u64) -> u64 {
        if !keep {
            return 0;
        }
        // SAFETY: the counter is accessed atomically only.
        unsafe { atomic::fetch_add(counter, 1, Relaxed) }
    }
}
