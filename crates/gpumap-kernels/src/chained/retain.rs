//! Removing every pair of a chained map that a pair of predicates does not hold for, alone on the map.

use super::slab::{LANES, SlabIndex, is_slot, link_in};
use super::view::{ChainedView, bases};
use crate::count::Counters;
use crate::retain::Stay;
use crate::slot::{Bits, Format, KeyWord};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::tile::Tile;
use gpumap_simt::{kernel_args, thread, warp};

kernel_args! {
    /// Arguments of a `retain` kernel of chained maps: blocks of whole warps, eight threads for each base slab or
    /// more. Nothing else runs on the map.
    pub struct RetainChainsArgs {
        /// The map.
        pub view: ChainedView,
        /// Which pairs stay.
        pub stay: Stay,
        /// Added to: pairs removed.
        pub removed: Counters,
    }
}

/// The body of the kernels: a tile goes down each chain, once.
///
/// # Safety
/// See [`RetainChainsArgs`].
#[inline(always)]
pub unsafe fn retain<F: Format>(args: &RetainChainsArgs) {
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::ALONE || crate::native::is_here() {
        let block = crate::native::block();
        // SAFETY: passed on.
        return unsafe { crate::native::chains::retain::<F>(args, block) };
    }
    let view = &args.view;
    let tile = Tile::<LANES>::diverging();
    let chain = thread::index() / u64::from(LANES);
    let mut removed = 0;
    // SAFETY: slabs of a chain of a live map; a tile goes its way together, since links are the same in all its lanes,
    // and each slot is one lane's. All threads of the block come to the count.
    unsafe {
        if chain < bases(view.buckets) {
            let mut slab = view.base(chain);
            let mut slabs_left = view.pool.units();
            loop {
                let vector = slab.load(tile.rank());
                let mut s = 0;
                while s < F::SLOTS {
                    let word = F::word(vector, s);
                    if is_slot::<F>(tile.rank(), s) && word.is_key() {
                        let key = view.key::<F>(chain, word).to_u64();
                        if !args.stay.holds(key, F::value(vector, s).to_u64()) {
                            let slot = slab.slot::<F>(tile.rank() * F::SLOTS + s);
                            removed += u32::from(F::bury(slot, word));
                        }
                    }
                    s += 1;
                }
                let link = SlabIndex::new(tile.shfl(link_in(vector).bits(), LANES - 1));
                if !link.is_some() || slabs_left == 0 {
                    break;
                }
                slabs_left -= 1;
                slab = view.pool.slab(link);
            }
        }
        warp::sync_warp(LaneMask::FULL);
        args.removed.add_from_block(removed);
    }
}
