//! The slabs of a memory block that are taken, listed by a block of threads.

use super::WARPS;
use crate::chained::allocator::{Pool, UNITS, UNITS_LOG2};
use crate::chained::slab::{Slab, SlabIndex};
use gpumap_simt::{mask::LaneMask, shared_array, thread, warp};

/// A list of units in shared memory.
pub(super) struct Taken {
    /// How many they are.
    pub len: u32,
    /// Which, by their numbers in the memory block,
    units: *const u16,
    /// whose number this is.
    block: u32,
}

impl Taken {
    /// Those of memory block number `block`, as they are at one moment. `units` says of how many units of each super-block there
    /// is memory.
    ///
    /// | must call | result |
    /// |---|---|
    /// | every thread of the block, converged, once | the same in all of them |
    ///
    /// # Safety
    /// As the table says; the pool is live and has the memory block.
    #[inline(always)]
    pub unsafe fn of(pool: &Pool, block: u32, units: *const u64) -> Self {
        let list = shared_array![u16; UNITS as usize];
        let words = shared_array![u32; warp::SIZE as usize];
        let lane = warp::lane_id();
        let warp_id = thread::thread_idx_x() / warp::SIZE;
        // SAFETY: whole warps are at each collective. One warp writes the words, which all read after a barrier; and each
        // place of the list is one lane's, since all have the same words.
        unsafe {
            if warp_id == 0 {
                *words.add(lane as usize) = pool.taken(block, lane, units);
            }
            thread::sync_threads();
            let mine = *words.add(lane as usize);
            let up_to = warp::warp_inclusive_sum(mine.count_ones());
            let below = up_to - mine.count_ones();
            // Ends: a word each time.
            let mut w = warp_id;
            while w < warp::SIZE {
                let word = warp::warp_shuffle_idx(LaneMask::FULL, mine, w, warp::SIZE);
                let first = warp::warp_shuffle_idx(LaneMask::FULL, below, w, warp::SIZE);
                let taken = LaneMask::new(word);
                if taken.contains(lane) {
                    let at = first + taken.rank_of(lane);
                    *list.add(at as usize) = (w * warp::SIZE + lane) as u16;
                }
                w += WARPS;
            }
            let len = warp::warp_shuffle_idx(LaneMask::FULL, up_to, warp::SIZE - 1, warp::SIZE);
            thread::sync_threads();
            Self {
                len,
                units: list.cast_const(),
                block,
            }
        }
    }

    /// Slab number `i` of the list, if it has that.
    ///
    /// # Safety
    /// The pool is the one that the list is of.
    #[inline(always)]
    pub unsafe fn slab(&self, pool: &Pool, i: u32) -> Slab {
        if i >= self.len {
            return Slab::NONE;
        }
        // SAFETY: a place of the list, which nothing writes to any more; it says a unit that exists.
        unsafe {
            let unit = u64::from(*self.units.add(i as usize));
            pool.slab(SlabIndex::new(u64::from(self.block) << UNITS_LOG2 | unit))
        }
    }
}
