//! What the warps of a block exchange, turn by turn.

use super::WARPS;
use crate::primitives::look_back::{LAG, NO_TILE};
use gpumap_simt::U64x2;
use gpumap_simt::shared_ptr::SharedPtr;

/// The bit beside a tile's length that says that it is of the reserved slabs.
pub const RESERVED: u32 = 1 << 31;

/// What lies in shared memory after the packed tiles, all by turns.
#[derive(Clone, Copy)]
pub struct Words {
    /// Where each warp's part of the outputs begins.
    pub begins: SharedPtr<u64>,
    /// Where a tile lies,
    pub places: SharedPtr<u64>,
    /// how many vectors it has, beside [`RESERVED`],
    pub lens: SharedPtr<u32>,
    /// and its number.
    pub numbers: SharedPtr<u32>,
    /// The pairs of each warp.
    pub sums: SharedPtr<u32>,
}

impl Words {
    #[inline(always)]
    pub fn behind(packed: SharedPtr<U64x2>) -> Self {
        let begins = packed.cast::<u64>();
        let places = begins.add(2 * WARPS);
        let lens = places.add(2).cast::<u32>();
        Self {
            begins,
            places,
            lens,
            numbers: lens.add(2),
            sums: lens.add(4),
        }
    }
}

/// The turns of a block: control and workers have the same.
pub struct Turns {
    /// 0 and 1 by turns.
    pub turn: u32,
    pub tile: u32,
    /// The tiles of the turns before, the last one first.
    pub behind: [u32; LAG + 1],
}

impl Turns {
    /// The first one, when the block knows its first tile.
    ///
    /// # Safety
    /// The words have been written, and a barrier has passed.
    #[inline(always)]
    pub unsafe fn first(words: &Words) -> Self {
        Self {
            turn: 0,
            // SAFETY: the caller's promise.
            tile: unsafe { words.numbers.load() },
            behind: [NO_TILE; LAG + 1],
        }
    }

    /// Whether anything is left to do.
    #[inline(always)]
    pub fn go_on(&self, tiles: u32) -> bool {
        self.tile < tiles || self.behind[0] < tiles || self.behind[LAG] < tiles
    }

    /// The tile that comes next.
    ///
    /// # Safety
    /// As for [`first`](Self::first), in this turn.
    #[inline(always)]
    pub unsafe fn coming(&self, words: &Words) -> u32 {
        // SAFETY: written in the turn before.
        unsafe { words.numbers.add(1 - self.turn).load() }
    }

    #[inline(always)]
    pub fn next(&mut self, coming: u32) {
        let mut b = LAG;
        while b > 0 {
            self.behind[b] = self.behind[b - 1];
            b -= 1;
        }
        self.behind[0] = self.tile;
        self.tile = coming;
        self.turn = 1 - self.turn;
    }
}
