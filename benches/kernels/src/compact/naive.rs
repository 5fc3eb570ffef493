//! Rungs 1 and 2: each kept element takes its position from the one counter, by itself.

use super::Position;
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::thread;

/// One atomic in global memory per kept element, and no way round it.
///
/// All of them go to one address, and the memory system works them off one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Naive;

impl Position for Naive {
    #[inline(always)]
    unsafe fn of(keep: bool, counter: *mut u64) -> u64 {
        if !keep {
            return 0;
        }
        // Zero in any grid that fits a device's memory, but the assembler cannot know: it must
        // take the lanes of a warp to have different counters, and leave their atomics alone.
        let zero = (thread::index() >> 40) as usize;
        // SAFETY: the counter is accessed atomically only.
        unsafe { atomic::fetch_add(counter.wrapping_add(zero), 1, Relaxed) }
    }
}

/// The same code, left to the assembler.
///
/// It sees that all lanes of a warp add a constant to one address, and makes of it what
/// [`Ballot`](super::Ballot) says in so many words: a vote, a leader, one atomic, a shuffle.
#[derive(Clone, Copy, Debug)]
pub struct Assembled;

impl Position for Assembled {
    #[inline(always)]
    unsafe fn of(keep: bool, counter: *mut u64) -> u64 {
        if !keep {
            return 0;
        }
        // SAFETY: the counter is accessed atomically only.
        unsafe { atomic::fetch_add(counter, 1, Relaxed) }
    }
}
