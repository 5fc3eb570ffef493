//! How a batch is shared out among warps.

use gpumap_kernels::build::bins::Bins;
use gpumap_kernels::count::MOST_BLOCKS;
use gpumap_kernels::kernels::BATCH_THREADS;
use gpumap_kernels::source::Batch;
use gpumap_simt::kernel::Grid;
use gpumap_simt::warp;

use super::Core;

const WARP: u64 = warp::SIZE as u64;

/// Keys that a warp of a large batch works on one after the other: enough for the refill to pay,
/// few enough that warps end together. Measured best on an H200 (2026-11).
const PER_WARP: u64 = 512;

/// Warps of a block.
pub(super) const BLOCK_WARPS: u64 = BATCH_THREADS as u64 / WARP;

/// Warps that keep one multiprocessor busy: small batches are spread over as many. Three blocks
/// of them; a fourth, which not every multiprocessor would get, ends no sooner (measured on an
/// H200, 2026-11: batches of 1 M keys).
const WARPS_PER_MULTIPROCESSOR: u64 = 24;

impl Core {
    /// The grid for a batch of `len` keys, at least one, and the batch as kernels take it.
    pub(super) fn share_out(
        &self,
        keys: *const u8,
        values: *const u8,
        len: usize,
    ) -> (Grid, Batch<u8, u8>) {
        let (grid, per_warp) = share_out(len as u64, u64::from(self.device.multiprocessors()));
        let batch = Batch {
            keys,
            values,
            value: 0,
            len: len as u64,
            per_warp,
        };
        (grid, batch)
    }
}

/// The grid for `len` inputs, at least one, and the inputs per warp.
pub(crate) fn share_out(len: u64, multiprocessors: u64) -> (Grid, u32) {
    let per_warp = len
        .div_ceil(multiprocessors * WARPS_PER_MULTIPROCESSOR)
        .next_multiple_of(WARP)
        .min(PER_WARP);
    grid(len, per_warp)
}

/// The grid for a batch in bins.
pub(super) fn grid_of_bins(bins: &Bins<u8, u8>) -> Grid {
    let (grid, _) = grid(bins.len(), u64::from(bins.part));
    grid
}

/// The grid for `len` inputs, `per_warp` for each warp, or more if there are too many warps.
fn grid(len: u64, mut per_warp: u64) -> (Grid, u32) {
    // A batch with so many blocks does not fit any memory, but costs no branch.
    while len.div_ceil(per_warp).div_ceil(BLOCK_WARPS) >= MOST_BLOCKS {
        per_warp *= 2;
    }
    let warps = len.div_ceil(per_warp);
    let threads = warps.min(BLOCK_WARPS) * WARP;
    let blocks = (warps * WARP).div_ceil(threads);
    (Grid::new(blocks as u32, threads as u32), per_warp as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_a_warp() {
        for len in [1, 31, 32, 33, 255, 256, 257, 100_000, 100_000_000, 1 << 33] {
            for multiprocessors in [1, 2, 132] {
                let (grid, per_warp) = share_out(len, multiprocessors);
                let warps = u64::from(grid.blocks) * u64::from(grid.threads) / WARP;
                assert!(warps * u64::from(per_warp) >= len);
                assert_eq!(per_warp % 32, 0);
                assert_eq!(grid.threads % 32, 0);
                assert!(grid.threads <= BATCH_THREADS);
            }
        }
    }
}
