//! How pairs and the link lie in a slab of a chain.
//!
//! | bytes | pairs of 4 + 4 | all others |
//! |---|---|---|
//! | 0 to 111 | 14 slots of 8 bytes | 7 slots of 16 bytes |
//! | 112 to 119 | one more slot | all ones |
//! | 120 to 127 | the link | the link |
//!
//! A slab is eight vectors of 16 bytes, one for each lane of the tile that reads it. The slots are
//! those of [`slot`](crate::slot), with its formats and its states; the last place of the last
//! vector is the link to the next slab.
//!
//! Invariant: a slab without pairs and without a link is all ones.

use core::ptr;

use crate::slot::Format;
use gpumap_simt::U64x2;
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::tile::Tile;

/// Bytes per slab.
pub const SLAB_BYTES: u32 = 128;
/// Lanes that read a slab together, one vector each.
pub const LANES: u32 = SLAB_BYTES / 16;
/// Where the link begins, in bytes.
const LINK_AT: u32 = SLAB_BYTES - 8;

/// How many pairs a slab has room for.
#[inline(always)]
pub const fn slots<F: Format>() -> u32 {
    LANES * F::SLOTS - 1
}

/// The number of a slab of the pool, or none. What a link holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct SlabIndex(u64);

impl SlabIndex {
    /// No slab: all ones, so that a slab is emptied by filling it with `0xff`.
    pub const NONE: Self = Self(!0);

    /// The slab with this number.
    #[inline(always)]
    pub const fn new(index: u64) -> Self {
        Self(index)
    }

    /// The number; all ones for none.
    #[inline(always)]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether there is one.
    #[inline(always)]
    pub const fn is_some(self) -> bool {
        self.0 != !0
    }
}

/// A slab in device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Slab(*mut u8);

impl Slab {
    /// No slab.
    pub const NONE: Self = Self(ptr::null_mut());

    /// Whether there is one.
    #[inline(always)]
    pub fn is_some(self) -> bool {
        !self.0.is_null()
    }

    /// The slab at this address.
    #[inline(always)]
    pub const fn at(address: *mut u8) -> Self {
        Self(address)
    }

    /// Its address, as a shuffle can move it.
    #[inline(always)]
    pub fn address(self) -> u64 {
        self.0 as u64
    }

    /// The inverse of [`address`](Self::address).
    #[inline(always)]
    pub fn from_address(address: u64) -> Self {
        Self(address as *mut u8)
    }

    /// The vector that the lane of this rank reads.
    #[inline(always)]
    pub fn vector(self, rank: u32) -> *mut U64x2 {
        self.0.cast::<U64x2>().wrapping_add(rank as usize)
    }

    /// Slot number `i`.
    #[inline(always)]
    pub fn slot<F: Format>(self, i: u32) -> *mut u8 {
        self.0.wrapping_add((i * F::SLOT_BYTES) as usize)
    }

    /// The first slot.
    #[inline(always)]
    pub fn slots(self) -> *mut u8 {
        self.0
    }

    #[inline(always)]
    fn link_word(self) -> *mut u64 {
        self.0.wrapping_add(LINK_AT as usize).cast()
    }

    /// What the vector of this rank holds.
    ///
    /// # Safety
    /// The slab is one of a live map, and `rank < LANES`.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn load(self, rank: u32) -> U64x2 {
        // SAFETY: slabs are 128 aligned bytes, written atomically while operations run.
        unsafe { atomic::load(self.vector(rank), Relaxed) }
    }

    /// The slab that comes next.
    ///
    /// # Safety
    /// The slab is one of a live map.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn next(self) -> SlabIndex {
        // SAFETY: as above.
        SlabIndex(unsafe { atomic::load(self.link_word(), Relaxed) })
    }

    /// Puts a slab after this one, unless there is one already. Returns the one that was there:
    /// none means that `new` is in the chain now.
    ///
    /// Relaxed: a lane that finds the link finds an empty slab, made by an earlier launch.
    ///
    /// # Safety
    /// The slab is one of a live map and has no empty slot; `new` is taken, empty, and in no chain.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn link(self, new: SlabIndex) -> SlabIndex {
        let none = SlabIndex::NONE.0;
        // SAFETY: as above.
        SlabIndex(unsafe { atomic::compare_exchange(self.link_word(), none, new.0, Relaxed) })
    }
}

/// The link in the vector of the tile's last lane.
#[inline(always)]
pub fn link_in(vector: U64x2) -> SlabIndex {
    SlabIndex(vector.y)
}

/// Whether place `i` of the vector of this rank is a slot, rather than the link's.
#[inline(always)]
pub const fn is_slot<F: Format>(rank: u32, i: u32) -> bool {
    rank * F::SLOTS + i < slots::<F>()
}

/// From the slots of each lane's vector, bit `i` for slot `i`, to the slots of the slab. The link's
/// place is left out.
///
/// | must call | result |
/// |---|---|
/// | the lanes that the tile's collectives wait for | in every lane of the tile |
///
/// # Safety
/// As the table says.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn slots_of_slab<F: Format>(tile: Tile<LANES>, of_vector: u32) -> u32 {
    // SAFETY: all of them are here.
    let all = unsafe {
        if F::SLOTS == 1 {
            tile.ballot(of_vector != 0).bits()
        } else {
            let even = tile.ballot(of_vector & 1 != 0).bits();
            let odd = tile.ballot(of_vector & 2 != 0).bits();
            spread_bits(even) | spread_bits(odd) << 1
        }
    };
    all & ((1 << slots::<F>()) - 1)
}

/// Bits 0 to 7 to bits 0, 2, .. 14.
#[inline(always)]
const fn spread_bits(bits: u32) -> u32 {
    let pairs = (bits | bits << 4) & 0x0f0f;
    let pairs = (pairs | pairs << 2) & 0x3333;
    (pairs | pairs << 1) & 0x5555
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::{Packed, Wide};

    #[test]
    fn slots_and_link_fill_a_slab() {
        assert_eq!(slots::<Packed>() * Packed::SLOT_BYTES, LINK_AT);
        type W = Wide<u64, u64>;
        assert_eq!(slots::<W>() * W::SLOT_BYTES + 8, LINK_AT);
    }

    #[test]
    fn spreading_leaves_a_gap_after_each_bit() {
        for bits in 0..256u32 {
            let spread = (0..8).fold(0, |all, i| all | (bits >> i & 1) << (2 * i));
            assert_eq!(spread_bits(bits), spread);
        }
    }
}
