//! The slab allocator: a pool of units that warps take from and give back to while they run.
//!
//! | unit | what | found by |
//! |---|---|---|
//! | unit | one slab | a bit of the bitmap of its memory block, set while it is taken |
//! | memory block | 1,024 units | its bitmap: 32 words, one for each lane of a warp |
//! | super-block | a power of two of memory blocks | the pool's directory |
//!
//! Each warp has a **resident** block, chosen by a hash of its number, and holds the bitmap of it in
//! registers, a word a lane. A ballot says which lanes see a free unit; one of them sets the bit by
//! an atomic or, which also says whether another warp was faster. When nothing is left in the
//! resident block, the next one becomes resident. A warp that has seen all blocks without a free unit
//! finds the pool exhausted, and says so at once from then on, unless it gives a unit back itself. (It
//! would else look through the whole pool for every pair that does not fit.)
//!
//! A super-block can be added between launches: no slab moves. A pool of any size is made by setting
//! the bits of the units that do not exist; no memory is needed for these.
//!
//! Invariant: a unit that is free is all ones; [`Pool::free`] requires it.
//!
//! All accesses are relaxed. A bit says whose the unit is; the slab itself was made empty by an
//! earlier launch, and orders nothing.
//!
//! After SlabAlloc of Ashkiani, Farach-Colton and Owens (2018), which goes round for ever when the
//! pool is exhausted.

use super::slab::{SLAB_BYTES, Slab, SlabIndex};
use crate::hash::{mix64, scale};
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::{U64x2, layout, mem, warp};

/// Units per memory block, as a power of two: 32 words of 32 bits.
pub const UNITS_LOG2: u32 = 10;
/// Units per memory block.
pub const UNITS: u32 = 1 << UNITS_LOG2;
/// Bits of a bitmap word.
const WORD_LOG2: u32 = 5;

/// An entry of the pool's directory.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub struct SuperBlock {
    /// Its slabs, in the order of their units.
    pub slabs: *mut u8,
    /// The bitmaps of its memory blocks, 32 words each.
    pub bitmaps: *mut u32,
}
layout!(SuperBlock { slabs, bitmaps });

/// The pool as kernels see it. The host owns what the pointers lead to.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Pool {
    /// The directory, not written while operations run.
    pub super_blocks: *const SuperBlock,
    /// Entries of the directory; none is a pool that is exhausted.
    pub count: u32,
    /// Memory blocks per super-block: `1 << blocks_log2`. All together are fewer than 2^32.
    pub blocks_log2: u32,
}
layout!(Pool {
    super_blocks,
    count,
    blocks_log2
});

// SAFETY: an address; what it leads to is synchronised by the kernels.
unsafe impl Send for SuperBlock {}
// SAFETY: as above.
unsafe impl Sync for SuperBlock {}
// SAFETY: as above.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    /// Memory blocks.
    #[inline(always)]
    pub const fn blocks(&self) -> u32 {
        self.count << self.blocks_log2
    }

    /// Units, those included that are marked because they do not exist.
    #[inline(always)]
    pub const fn units(&self) -> u64 {
        (self.blocks() as u64) << UNITS_LOG2
    }

    /// The directory entry of a memory block, and the number of the block in it.
    ///
    /// # Safety
    /// The pool is live and has more than `block` memory blocks.
    #[inline(always)]
    unsafe fn super_block(&self, block: u32) -> (SuperBlock, u32) {
        let entry = self
            .super_blocks
            .wrapping_add((block >> self.blocks_log2) as usize);
        // SAFETY: `SuperBlock` is 16 bytes, aligned to 16, and not written during the launch.
        let words: U64x2 = unsafe { mem::load_readonly(entry.cast()) };
        let super_block = SuperBlock {
            slabs: words.x as *mut u8,
            bitmaps: words.y as *mut u32,
        };
        (super_block, block & ((1 << self.blocks_log2) - 1))
    }

    /// Word `lane` of the bitmap of a memory block.
    ///
    /// # Safety
    /// As for [`super_block`](Self::super_block), and `lane < 32`.
    #[inline(always)]
    unsafe fn bitmap_word(&self, block: u32, lane: u32) -> *mut u32 {
        // SAFETY: the caller's promise.
        let (super_block, block) = unsafe { self.super_block(block) };
        let word = u64::from(block) * u64::from(warp::SIZE) + u64::from(lane);
        super_block.bitmaps.wrapping_add(word as usize)
    }

    /// The slab with this number.
    ///
    /// # Safety
    /// The pool is live, and the slab is one of its units.
    #[inline(always)]
    pub unsafe fn slab(&self, index: SlabIndex) -> Slab {
        let index = index.bits();
        // SAFETY: the caller's promise.
        let (super_block, block) = unsafe { self.super_block((index >> UNITS_LOG2) as u32) };
        let unit = u64::from(block) << UNITS_LOG2 | index & ((1 << UNITS_LOG2) - 1);
        let offset = unit * u64::from(SLAB_BYTES);
        Slab::at(super_block.slabs.wrapping_add(offset as usize))
    }

    /// The units of word `lane` of the bitmap of a memory block that are taken now, a bit for each. `units` says of how
    /// many units of each super-block there is memory: the others are marked as well.
    ///
    /// # Safety
    /// The pool is live and has more than `block` memory blocks; `lane < 32`, and there is a number for each
    /// super-block.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn taken(&self, block: u32, lane: u32, units: *const u64) -> u32 {
        // SAFETY: the caller's promise; bitmaps are accessed atomically only.
        let (word, units) = unsafe {
            let units = units.wrapping_add((block >> self.blocks_log2) as usize);
            let word = self.bitmap_word(block, lane);
            (atomic::load(word, Relaxed), mem::load_readonly(units))
        };
        let block = block & ((1 << self.blocks_log2) - 1);
        let first = u64::from(block) << UNITS_LOG2 | u64::from(lane << WORD_LOG2);
        let left = units.saturating_sub(first).min(u64::from(u32::BITS)) as u32;
        let exist = if left == u32::BITS {
            !0
        } else {
            (1 << left) - 1
        };
        word & exist
    }

    /// Gives a unit back. Any lane may call it.
    ///
    /// # Safety
    /// The unit is taken and the caller's, no chain has it, and it is all ones.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn free(&self, index: SlabIndex) {
        let index = index.bits();
        let lane = (index >> WORD_LOG2) as u32 & (warp::SIZE - 1);
        let bit = 1 << (index & ((1 << WORD_LOG2) - 1));
        // SAFETY: a word of a bitmap of the pool; bitmaps are accessed atomically only.
        unsafe {
            let word = self.bitmap_word((index >> UNITS_LOG2) as u32, lane);
            atomic::fetch_and(word, !bit, Relaxed);
        }
    }
}

/// A warp's share of the allocator: its resident block.
#[derive(Clone, Copy, Debug)]
pub struct Resident {
    /// The resident block; the same in all lanes.
    block: u32,
    /// The lane's word of its bitmap, as last seen. A unit that was given back since is still
    /// marked here, a unit that was taken since is not yet.
    bitmap: u32,
    /// The lane that is tried first, so that warps with one resident block try different ones.
    first: u32,
    /// Whether the whole pool was seen without a free unit.
    exhausted: bool,
}

impl Resident {
    /// For the warp with this number.
    #[inline(always)]
    pub fn new(pool: &Pool, warp: u64) -> Self {
        let hash = mix64(warp);
        Self {
            block: scale((hash >> 32) as u32, pool.blocks()),
            // Nothing is loaded before it is needed: the first allocation goes to the next block.
            bitmap: !0,
            first: hash as u32 & (warp::SIZE - 1),
            exhausted: false,
        }
    }

    /// Takes a unit, or none if the pool is exhausted. Visits each memory block at most once.
    ///
    /// | must call | result |
    /// |---|---|
    /// | every lane of a full warp, converged | the same in every lane |
    ///
    /// # Safety
    /// As the table says; the pool is live, and the one that the share was made for.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn allocate(&mut self, pool: &Pool) -> SlabIndex {
        let mut visits = 0;
        while !self.exhausted {
            // SAFETY: the whole warp is here. The resident block is one of the pool's when the
            // bitmap shows a free unit, and when it is visited there is one at least.
            unsafe {
                let unit = self.take(pool);
                if unit.is_some() {
                    return unit;
                }
                if visits == pool.blocks() {
                    self.exhausted = true;
                } else {
                    self.visit_next(pool);
                    visits += 1;
                }
            }
        }
        SlabIndex::NONE
    }

    /// As [`allocate`](Self::allocate), by a native block: it looks at one word after the other, of which `first` says
    /// the one at hand.
    ///
    /// # Safety
    /// The pool is live, and the one that the share was made for.
    #[cfg(not(target_arch = "nvptx64"))]
    pub(crate) unsafe fn allocate_alone(&mut self, pool: &Pool) -> SlabIndex {
        let words = u64::from(pool.blocks()) * u64::from(warp::SIZE);
        let mut visits = 0;
        while !self.exhausted {
            // SAFETY: a word shows a free unit only if it was loaded, and when one is visited there is one at least.
            unsafe {
                while self.bitmap != !0 {
                    let unit = self.mark(pool, self.first);
                    if unit.is_some() {
                        return unit;
                    }
                }
                if visits == words {
                    self.exhausted = true;
                    break;
                }
                visits += 1;
                self.first += 1;
                if self.first == warp::SIZE {
                    self.first = 0;
                    self.block += 1;
                    if self.block >= pool.blocks() {
                        self.block = 0;
                    }
                }
                self.look(pool, self.first);
            }
        }
        SlabIndex::NONE
    }

    /// Forgets that the pool was exhausted: the warp has given a unit back. All lanes call it.
    #[inline(always)]
    pub fn look_again(&mut self) {
        self.exhausted = false;
    }

    /// Takes a unit of the resident block, or none. Each turn marks one more unit in the bitmap.
    ///
    /// # Safety
    /// As for [`allocate`](Self::allocate).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn take(&mut self, pool: &Pool) -> SlabIndex {
        let lane = warp::lane_id();
        loop {
            // SAFETY: the whole warp is here: the exits are the same in all lanes. The bitmap has a
            // free unit only if it was loaded.
            unsafe {
                let free = warp::warp_vote_ballot(LaneMask::FULL, self.bitmap != !0);
                if free.is_empty() {
                    return SlabIndex::NONE;
                }
                let from_first = free.bits().rotate_right(self.first).trailing_zeros();
                let taker = (from_first + self.first) & (warp::SIZE - 1);
                let mut unit = SlabIndex::NONE;
                if lane == taker {
                    unit = self.mark(pool, lane);
                }
                let unit = warp::warp_shuffle_idx(LaneMask::FULL, unit.bits(), taker, warp::SIZE);
                if SlabIndex::new(unit).is_some() {
                    return SlabIndex::new(unit);
                }
            }
        }
    }

    /// Marks the first unit that the lane's word shows free. None if another warp was faster; then the
    /// word is as that has left it. One lane does it.
    ///
    /// # Safety
    /// The pool is live, the lane's word of the resident block was loaded, and it shows a free unit.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn mark(&mut self, pool: &Pool, lane: u32) -> SlabIndex {
        let bit = (!self.bitmap).trailing_zeros();
        // SAFETY: a word of a block of the pool; bitmaps are accessed atomically only.
        let seen = unsafe {
            let word = pool.bitmap_word(self.block, lane);
            atomic::fetch_or(word, 1 << bit, Relaxed)
        };
        self.bitmap |= seen | 1 << bit;
        if seen >> bit & 1 != 0 {
            return SlabIndex::NONE;
        }
        let block = u64::from(self.block) << UNITS_LOG2;
        SlabIndex::new(block | u64::from(lane << WORD_LOG2 | bit))
    }

    /// Loads the lane's word of the resident block; says whether it shows a free unit.
    ///
    /// # Safety
    /// The pool is live and has the resident block.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn look(&mut self, pool: &Pool, lane: u32) -> bool {
        // SAFETY: as above.
        self.bitmap = unsafe { atomic::load(pool.bitmap_word(self.block, lane), Relaxed) };
        self.bitmap != !0
    }

    /// Makes the next memory block resident.
    ///
    /// # Safety
    /// As for [`allocate`](Self::allocate), and there is a memory block.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn visit_next(&mut self, pool: &Pool) {
        self.block += 1;
        if self.block >= pool.blocks() {
            self.block = 0;
        }
        // SAFETY: it is a block of the pool now.
        unsafe { self.look(pool, warp::lane_id()) };
    }
}
