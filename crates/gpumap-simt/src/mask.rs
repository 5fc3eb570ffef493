//! A set of lanes of one warp.

use core::fmt;
use core::ops::{BitAnd, BitOr, BitXor, Not};

/// A set of lanes, bit `i` for lane `i`: what a vote returns and what a collective takes.
///
/// ```
/// use gpumap_simt::mask::LaneMask;
/// let lanes = LaneMask::new(0b1011_0000);
/// assert_eq!(lanes.count(), 3);
/// assert_eq!(lanes.lowest(), Some(4));
/// assert_eq!(lanes.rank_of(7), 2); // lanes of the set below lane 7
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct LaneMask(u32);

impl LaneMask {
    /// All 32 lanes.
    pub const FULL: Self = Self(!0);
    /// No lane.
    pub const EMPTY: Self = Self(0);

    /// The set with these bits.
    #[inline(always)]
    pub const fn new(bits: u32) -> Self {
        Self(bits)
    }

    /// The lanes below `lane` (`lane <= 31`).
    #[inline(always)]
    pub const fn below(lane: u32) -> Self {
        Self((1 << lane) - 1)
    }

    /// The lowest `n` lanes (`1 <= n <= 32`).
    #[inline(always)]
    pub const fn first(n: u32) -> Self {
        Self(!0 >> (32 - n))
    }

    /// The bits.
    #[inline(always)]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether no lane is in the set.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many lanes are in the set.
    #[inline(always)]
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether `lane` (`<= 31`) is in the set.
    #[inline(always)]
    pub const fn contains(self, lane: u32) -> bool {
        self.0 >> lane & 1 != 0
    }

    /// The lowest lane of the set.
    #[inline(always)]
    pub const fn lowest(self) -> Option<u32> {
        if self.0 == 0 {
            None
        } else {
            Some(self.0.trailing_zeros())
        }
    }

    /// The position that `lane` has, or would have, in the set: how many of its lanes are below.
    #[inline(always)]
    pub const fn rank_of(self, lane: u32) -> u32 {
        (self.0 & Self::below(lane).0).count_ones()
    }
}

impl BitAnd for LaneMask {
    type Output = Self;
    #[inline(always)]
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitOr for LaneMask {
    type Output = Self;
    #[inline(always)]
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitXor for LaneMask {
    type Output = Self;
    #[inline(always)]
    fn bitxor(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }
}

impl Not for LaneMask {
    type Output = Self;
    #[inline(always)]
    fn not(self) -> Self {
        Self(!self.0)
    }
}

impl fmt::Debug for LaneMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LaneMask({:#010x})", self.0)
    }
}
