//! Rung 3: lanes that count in the same counter at the same time send one atomic.

use super::Position;
use gpumap_simt::aggregate::atomic_agg_inc;

/// The general form of warp aggregation: it may be called from divergent code, and lanes may count
/// in different counters. A `match` on the counter's **address** finds the lanes that share one.
///
/// A filter has one counter for all, and pays here for what it does not need.
#[derive(Clone, Copy, Debug)]
pub struct Aggregated;

impl Position for Aggregated {
    #[inline(always)]
    unsafe fn of(keep: bool, counter: *mut u64) -> u64 {
        if !keep {
            return 0;
        }
        // SAFETY: the counter is accessed atomically only.
        unsafe { atomic_agg_inc(counter) }
    }
}
