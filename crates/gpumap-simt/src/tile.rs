//! Tiles: power-of-two parts of a warp that work as one.
//!
//! A `Tile<4>` is four consecutive lanes; the eight of a warp serve eight slabs at a time. Lane
//! numbers inside a tile are *ranks*, `0..N`, and a tile's votes come back as a [`LaneMask`] of
//! ranks.
//!
//! | how the tile was made | must call each collective | PTX |
//! |---|---|---|
//! | [`Tile::converged`] | **all 32 lanes of the warp**, so all its tiles together | one instruction with the constant full mask |
//! | [`Tile::diverging`] | the N lanes of the tile; tiles go their own ways | the tile's own mask |
//!
//! Results are valid in every calling lane. The source of the idea is the tile of CUDA's
//! cooperative groups.

use crate::mask::LaneMask;
use crate::warp::{self, ShuffleValue};

/// The calling lane's tile of `N` lanes, `N` one of 2, 4, 8, 16, 32.
#[derive(Clone, Copy, Debug)]
pub struct Tile<const N: u32> {
    /// The lanes that take part in each collective: the tile's, or the whole warp's.
    members: LaneMask,
    /// The first lane of the tile.
    base: u32,
    /// The caller's rank.
    rank: u32,
}

impl<const N: u32> Tile<N> {
    const VALID: () = assert!(N.is_power_of_two() && N >= 2 && N <= 32);

    #[inline(always)]
    fn with_members(members: impl FnOnce(u32) -> LaneMask) -> Self {
        const { Self::VALID };
        let lane = warp::lane_id();
        let base = lane & !(N - 1);
        Self {
            members: members(base),
            base,
            rank: lane & (N - 1),
        }
    }

    /// A tile whose collectives are called by all lanes of the warp together: the cheap form
    /// for loops that a warp runs as a whole.
    #[inline(always)]
    pub fn converged() -> Self {
        Self::with_members(|_| LaneMask::FULL)
    }

    /// A tile that may diverge from the other tiles of its warp.
    #[inline(always)]
    pub fn diverging() -> Self {
        Self::with_members(|base| LaneMask::new(LaneMask::first(N).bits() << base))
    }

    /// The same tile, however it was made, as one that may diverge from the others.
    #[inline(always)]
    pub const fn on_its_own(self) -> Self {
        Self {
            members: LaneMask::new(LaneMask::first(N).bits() << self.base),
            ..self
        }
    }

    /// How many lanes the tile has.
    #[inline(always)]
    pub const fn size(self) -> u32 {
        N
    }

    /// The caller's place in the tile, `0..N`.
    #[inline(always)]
    pub const fn rank(self) -> u32 {
        self.rank
    }

    /// The ranks whose `predicate` is true.
    ///
    /// # Safety
    /// See the [module](self) table.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn ballot(self, predicate: bool) -> LaneMask {
        // SAFETY: the lanes of `members` are here, by the caller's promise.
        let warp = unsafe { warp::warp_vote_ballot(self.members, predicate) };
        LaneMask::new(warp.bits() >> self.base & LaneMask::first(N).bits())
    }

    /// Whether `predicate` is true in any lane of the tile.
    ///
    /// # Safety
    /// See the [module](self) table.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn any(self, predicate: bool) -> bool {
        // SAFETY: passed on.
        !unsafe { self.ballot(predicate) }.is_empty()
    }

    /// Whether `predicate` is true in all lanes of the tile.
    ///
    /// # Safety
    /// See the [module](self) table.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn all(self, predicate: bool) -> bool {
        // SAFETY: passed on.
        unsafe { self.ballot(predicate) }.bits() == LaneMask::first(N).bits()
    }

    /// The `value` of the lane with this rank (taken modulo N).
    ///
    /// # Safety
    /// See the [module](self) table.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn shfl<T: ShuffleValue>(self, value: T, rank: u32) -> T {
        // SAFETY: the source is in the caller's tile, so in `members`.
        unsafe { warp::warp_shuffle_idx(self.members, value, rank, N) }
    }

    /// The `value` of the lane `delta` ranks below; the caller's own where there is none.
    ///
    /// # Safety
    /// See the [module](self) table.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn shfl_up<T: ShuffleValue>(self, value: T, delta: u32) -> T {
        // SAFETY: the source is in the caller's tile, so in `members`.
        unsafe { warp::warp_shuffle_up(self.members, value, delta, N) }
    }

    /// The `value` of the lane `delta` ranks above; the caller's own where there is none.
    ///
    /// # Safety
    /// See the [module](self) table.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn shfl_down<T: ShuffleValue>(self, value: T, delta: u32) -> T {
        // SAFETY: the source is in the caller's tile, so in `members`.
        unsafe { warp::warp_shuffle_down(self.members, value, delta, N) }
    }

    /// The `value` of the lane whose rank is the caller's xor `bits` (`bits < N`).
    ///
    /// # Safety
    /// See the [module](self) table.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn shfl_xor<T: ShuffleValue>(self, value: T, bits: u32) -> T {
        // SAFETY: the source is in the caller's tile, so in `members`.
        unsafe { warp::warp_shuffle_xor(self.members, value, bits, N) }
    }

    /// The ranks that hold the caller's `value`.
    ///
    /// # Safety
    /// See the [module](self) table.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn match_any(self, value: u32) -> LaneMask {
        // SAFETY: the lanes of `members` are here, by the caller's promise.
        let warp = unsafe { warp::warp_match_any_32(self.members, value) };
        LaneMask::new(warp.bits() >> self.base & LaneMask::first(N).bits())
    }

    /// Waits for the tile; orders its memory accesses.
    ///
    /// # Safety
    /// See the [module](self) table.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn sync(self) {
        // SAFETY: the lanes of `members` are here, by the caller's promise.
        unsafe { warp::sync_warp(self.members) }
    }
}
