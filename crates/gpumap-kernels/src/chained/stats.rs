//! Counting what the slots of a chained map hold, and how long its chains are.

use super::slab::{LANES, SlabIndex, is_slot, link_in};
use super::view::{ChainedView, bases};
use crate::count::add_block_sum;
use crate::slot::{Format, KeyWord};
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::tile::Tile;
use gpumap_simt::{kernel_args, thread, warp};

/// What [`ChainStatsArgs::figures`] has.
pub mod figure {
    /// Pairs.
    pub const PAIRS: usize = 0;
    /// Slots of pairs that were removed.
    pub const TOMBSTONES: usize = 1;
    /// Slabs of the pool that are in chains.
    pub const LINKED: usize = 2;
    /// Slabs of the longest chain, its base slab included.
    pub const LONGEST: usize = 3;
    /// How many figures there are.
    pub const COUNT: usize = 4;
}

kernel_args! {
    /// Arguments of a `stats` kernel of chained maps: blocks of whole warps, eight threads for each
    /// base slab or more.
    pub struct ChainStatsArgs {
        /// The map.
        pub view: ChainedView,
        /// Added to, except for the longest chain; see [`figure`]. Zero at the start.
        pub figures: *mut u64,
    }
}

/// The body of the kernels.
///
/// # Safety
/// See [`ChainStatsArgs`].
#[inline(always)]
pub unsafe fn stats<F: Format>(args: &ChainStatsArgs) {
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::ALONE || crate::native::is_here() {
        let block = crate::native::block();
        // SAFETY: passed on.
        return unsafe { crate::native::chains::stats::<F>(args, block) };
    }
    let tile = Tile::<LANES>::diverging();
    let chain = thread::index() / u64::from(LANES);
    let (mut pairs, mut tombstones, mut slabs) = (0, 0, 0);
    // SAFETY: slabs of a chain of a live map; a tile goes its way together, since links are the same
    // in all its lanes. All threads of the block reach the sums.
    unsafe {
        if chain < bases(args.view.buckets) {
            let mut slab = args.view.base(chain);
            let mut slabs_left = args.view.pool.units();
            loop {
                let vector = slab.load(tile.rank());
                slabs += 1;
                let mut s = 0;
                while s < F::SLOTS {
                    if is_slot::<F>(tile.rank(), s) {
                        let word = F::word(vector, s);
                        pairs += u32::from(word.is_key());
                        tombstones += u32::from(word == F::Word::TOMBSTONE);
                    }
                    s += 1;
                }
                let link = SlabIndex::new(tile.shfl(link_in(vector).bits(), LANES - 1));
                if !link.is_some() || slabs_left == 0 {
                    break;
                }
                slabs_left -= 1;
                slab = args.view.pool.slab(link);
            }
        }
        warp::sync_warp(LaneMask::FULL);
        // Each chain once: by the first lane of its tile.
        let linked = if tile.rank() == 0 && slabs != 0 {
            slabs - 1
        } else {
            0
        };
        add_block_sum(args.figures.add(figure::PAIRS), pairs);
        add_block_sum(args.figures.add(figure::TOMBSTONES), tombstones);
        add_block_sum(args.figures.add(figure::LINKED), linked);
        let longest = !warp::warp_reduce_min(!slabs);
        if warp::lane_id() == 0 && longest != 0 {
            let place = args.figures.add(figure::LONGEST);
            atomic::fetch_max(place, u64::from(longest), Relaxed);
        }
    }
}
