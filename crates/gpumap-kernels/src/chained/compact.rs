//! Compaction of chains: pairs move up to where tombstones were, and slabs that are left empty go
//! back to the pool.
//!
//! A tile compacts a chain. It reads it slab by slab; the pairs of a slab keep their order and go to
//! the places after those of the pairs before them. These are never further down the chain than
//! where the pairs come from, and a slab is read whole before its pairs are written: so nothing is
//! overwritten that is still to be read. What remains after the last pair is then made empty, and
//! the slabs after that one are given back.
//!
//! Nothing else runs on the map: slots become empty again, and pairs are for a moment in two places.
//! The links do not change before all pairs have moved.
//!
//! Each loop goes down a chain once, and no further than the pool has slabs.

use super::slab::{LANES, Slab, SlabIndex, slots, slots_of_slab};
use super::view::{ChainedView, bases};
use crate::count::Counters;
use crate::slot::{Format, KeyWord};
use gpumap_simt::tile::Tile;
use gpumap_simt::{U64x2, kernel_args, mem, thread};

kernel_args! {
    /// Arguments of a `compact` kernel: blocks of whole warps, eight threads for each base slab or more.
    /// Nothing else runs on the map.
    pub struct CompactArgs {
        /// The map.
        pub view: ChainedView,
        /// Slabs given back.
        pub freed: Counters,
    }
}

/// Compacts the chain of the calling tile. Returns how many slabs were given back, in the tile's
/// first lane; 0 in the others.
///
/// # Safety
/// See [`CompactArgs`]; the lanes of a tile come here together.
#[inline(always)]
pub unsafe fn compact<F: Format>(view: &ChainedView) -> u32 {
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::ALONE || crate::native::is_here() {
        let block = crate::native::block();
        // SAFETY: passed on.
        return unsafe { crate::native::chains::compact::<F>(view, block) };
    }
    let chain = thread::index() / u64::from(LANES);
    if chain >= bases(view.buckets) {
        return 0; // the same for all lanes of the tile
    }
    let tile = Tile::<LANES>::diverging();
    let base = view.base(chain);
    // SAFETY: the tile is here, and goes its way together: links are the same in all its lanes.
    unsafe {
        let (end, used) = move_up::<F>(view, tile, base);
        tile.sync();
        let behind = end.next();
        tile.sync();
        clear_from::<F>(tile, end, used);
        give_back(view, tile, behind)
    }
}

/// Moves the pairs of a chain together. Returns the slab that the last of them is in, and how many of
/// its slots are used; the base slab if there are none.
///
/// # Safety
/// As for [`compact`]; the tile's lanes call it together.
#[inline(always)]
unsafe fn move_up<F: Format>(view: &ChainedView, tile: Tile<LANES>, base: Slab) -> (Slab, u32) {
    let mut from = base;
    let mut to = base;
    let mut used = 0;
    let mut slabs_left = view.pool.units();
    loop {
        // SAFETY: slabs of a chain; the tile is here. Each lane writes pairs that only it has read.
        unsafe {
            let vector = from.load(tile.rank());
            let link = from.next();
            let mut mine = 0;
            let mut s = 0;
            while s < F::SLOTS {
                mine |= u32::from(F::word(vector, s).is_key()) << s;
                s += 1;
            }
            let live = slots_of_slab::<F>(tile, mine);
            // All lanes have read the slab before one of them writes to it.
            tile.sync();
            // The rest of `to`, and the slab after it if that is not enough: `from` at the latest.
            let fits = slots::<F>() - used;
            let beyond = if live.count_ones() > fits {
                view.pool.slab(to.next())
            } else {
                to
            };
            let mut s = 0;
            while s < F::SLOTS {
                let i = tile.rank() * F::SLOTS + s;
                if live >> i & 1 != 0 {
                    let rank = (live & ((1 << i) - 1)).count_ones();
                    let (slab, at) = if rank < fits {
                        (to, used + rank)
                    } else {
                        (beyond, rank - fits)
                    };
                    let (word, value) = (F::word(vector, s), F::value(vector, s));
                    F::write(slab.slots(), u64::from(at), word, value);
                }
                s += 1;
            }
            used += live.count_ones();
            if live.count_ones() > fits {
                used -= slots::<F>();
                to = beyond;
            }
            if !link.is_some() || slabs_left == 0 {
                return (to, used);
            }
            slabs_left -= 1;
            from = view.pool.slab(link);
        }
    }
}

/// Makes the slots of a slab from number `used` on empty, and takes its link away.
///
/// # Safety
/// As for [`compact`]; the tile's lanes call it together.
#[inline(always)]
unsafe fn clear_from<F: Format>(tile: Tile<LANES>, slab: Slab, used: u32) {
    let first = tile.rank() * F::SLOTS;
    // SAFETY: each lane writes to its own vector.
    unsafe {
        if F::SLOTS == 1 || used <= first {
            if used <= first {
                mem::store(slab.vector(tile.rank()), U64x2::new(!0, !0));
            }
        } else if used == first + 1 {
            // The second half of a vector with two slots.
            let half = slab.vector(tile.rank()).cast::<u64>().wrapping_add(1);
            mem::store(half, !0);
        }
        if tile.rank() == LANES - 1 {
            let link = slab.vector(LANES - 1).cast::<u64>().wrapping_add(1);
            mem::store(link, !0);
        }
    }
}

/// Makes all slabs of the rest of a chain empty, and gives them back. Returns how many, in the first
/// lane.
///
/// # Safety
/// As for [`compact`]; the tile's lanes call it together. No slab in use leads there any more.
#[inline(always)]
unsafe fn give_back(view: &ChainedView, tile: Tile<LANES>, first: SlabIndex) -> u32 {
    let mut freed = 0;
    let mut index = first;
    let mut slabs_left = view.pool.units();
    while index.is_some() && slabs_left != 0 {
        // SAFETY: a slab of the chain's rest; each lane writes to its own vector when all have
        // read the link, and one of them gives the slab back when all have written.
        unsafe {
            let slab = view.pool.slab(index);
            let next = slab.next();
            tile.sync();
            mem::store(slab.vector(tile.rank()), U64x2::new(!0, !0));
            tile.sync();
            if tile.rank() == 0 {
                view.pool.free(index);
                freed += 1;
            }
            index = next;
        }
        slabs_left -= 1;
    }
    freed
}
