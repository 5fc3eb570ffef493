//! Which kernel counts, how often, and in what grid.

use gpumap_kernels::primitives::histogram::CACHE_BYTES;
use gpumap_kernels::primitives::sweep::IN_FLIGHT;
use gpumap_simt::kernel::Grid;

/// Threads per block where counters are in shared memory: one block to a multiprocessor, which
/// may have all of it. Two smaller blocks were 3 % slower on an H200 (2026-11).
const THREADS: u32 = 1024;

/// Threads per block where counters are in global memory.
const GLOBAL_THREADS: u32 = 512;

/// Lanes of a warp, and the most copies of a counter that help.
const MAX_COPIES_LOG2: u32 = 5;

/// Sweeps over the input that are still faster than counting in global memory.
const MAX_PASSES: u64 = 8;

/// Fewer words than this are counted in global memory rather than in several sweeps.
const MANY_WORDS: u64 = 1 << 22;

/// How a histogram is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Sweeps over the input; none is one sweep with counters in global memory.
    pub passes: u32,
    /// Bins per sweep.
    pub count: u32,
    /// Copies of each counter, a power of two.
    pub copies_log2: u32,
    /// The grid of each sweep.
    pub grid: Grid,
}

impl Plan {
    /// For `len` words, `per_vector` to 16 bytes, and `bins` bins, those outside included.
    pub fn new(
        len: u64,
        per_vector: u64,
        bins: u64,
        max_shared_bytes: u32,
        multiprocessors: u32,
    ) -> Self {
        let counters = u64::from(max_shared_bytes / 4);
        let passes = bins.div_ceil(counters);
        if passes > MAX_PASSES || passes > 1 && len < MANY_WORDS {
            return Self {
                passes: 0,
                count: 0,
                copies_log2: 0,
                grid: grid(
                    len,
                    per_vector,
                    GLOBAL_THREADS,
                    4 * multiprocessors,
                    CACHE_BYTES,
                ),
            };
        }
        let count = bins.div_ceil(passes);
        let copies_log2 = (counters / count).ilog2().min(MAX_COPIES_LOG2);
        let shared_bytes = ((4 * count) << copies_log2) as u32;
        Self {
            passes: passes as u32,
            count: count as u32,
            copies_log2,
            grid: grid(len, per_vector, THREADS, multiprocessors, shared_bytes),
        }
    }
}

/// Enough blocks to keep the device busy, and no more than there is work for; each gets less
/// than 2^32 words.
fn grid(len: u64, per_vector: u64, threads: u32, blocks: u32, shared_bytes: u32) -> Grid {
    let chunk = u64::from(threads * IN_FLIGHT) * per_vector;
    let busy = u64::from(blocks).max(len >> 31);
    Grid {
        blocks: len.div_ceil(chunk).min(busy).max(1) as u32,
        threads,
        shared_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const H100: u32 = 227 << 10;

    #[test]
    fn counters_fit_and_cover_all_bins() {
        for shared in [48 << 10, 64 << 10, H100] {
            for bins in [
                1,
                3,
                18,
                1026,
                5000,
                58_000,
                58_113,
                65_538,
                400_000,
                1 << 20,
                1 << 32,
            ] {
                for len in [1, 1 << 20, 400_000_000, 1 << 36] {
                    let plan = Plan::new(len, 4, bins, shared, 132);
                    assert!(plan.grid.blocks > 0 && plan.grid.shared_bytes <= shared);
                    if plan.passes > 0 {
                        assert!(u64::from(plan.passes) * u64::from(plan.count) >= bins);
                        let bytes = (4 * plan.count) << plan.copies_log2;
                        assert_eq!(plan.grid.shared_bytes, bytes);
                        // An empty last sweep would be a waste.
                        assert!(u64::from(plan.passes - 1) * u64::from(plan.count) < bins);
                    }
                    assert!(len / u64::from(plan.grid.blocks) < 1 << 32);
                }
            }
        }
    }

    #[test]
    fn few_bins_have_a_copy_per_lane() {
        assert_eq!(Plan::new(400_000_000, 4, 1026, H100, 132).copies_log2, 5);
        assert_eq!(Plan::new(400_000_000, 4, 18, H100, 132).copies_log2, 5);
        assert_eq!(Plan::new(400_000_000, 4, 65_538, H100, 132).passes, 2);
    }
}
