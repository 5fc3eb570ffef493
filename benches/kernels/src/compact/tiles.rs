//! Rungs 7 to 10: ranks by ballot within a tile of lanes, places of tiles from the counter of the block.

use super::{BlockMemory, Position, reserve};
use gpumap_simt::thread;
use gpumap_simt::tile::Tile;

/// One atomic in shared memory per tile of `N` lanes, one in global memory per block. With 32
/// lanes the tile is the warp.
#[derive(Clone, Copy, Debug)]
pub struct Tiles<const N: u32>;

impl<const N: u32> Position for Tiles<N> {
    #[inline(always)]
    unsafe fn of(keep: bool, counter: *mut u64) -> u64 {
        let memory = BlockMemory::of_block();
        let tile = Tile::<N>::converged();
        let t = thread::thread_idx_x();
        // SAFETY: every thread of the block reaches each barrier, and so all tiles of a warp
        // to each vote and shuffle together. Between two barriers a shared word is written by
        // one thread, or only counted in.
        unsafe {
            if t == 0 {
                memory.count.store(0);
            }
            thread::sync_threads();
            let kept = tile.ballot(keep);
            let mut first = 0;
            if tile.rank() == 0 {
                first = memory.count.fetch_add(kept.count());
            }
            let first = tile.shfl(first, 0);
            thread::sync_threads();
            if t == 0 {
                memory.begin.store(reserve(counter, memory.count.load()));
            }
            thread::sync_threads();
            memory.begin.load() + u64::from(first + kept.rank_of(tile.rank()))
        }
    }
}
