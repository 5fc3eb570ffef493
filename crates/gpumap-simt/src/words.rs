//! The vector words that one load or store instruction moves.

use crate::layout;

/// Two 64-bit words in one aligned 16-byte unit: a slot of 16 bytes, or two slots of 8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C, align(16))]
pub struct U64x2 {
    /// The word at the lower address.
    pub x: u64,
    /// The word at the higher address.
    pub y: u64,
}
layout!(U64x2 { x, y });

impl U64x2 {
    /// Both words, `x` first.
    #[inline(always)]
    pub const fn new(x: u64, y: u64) -> Self {
        Self { x, y }
    }

    /// The two words as one 128-bit number, `x` in the low half.
    #[inline(always)]
    pub const fn to_u128(self) -> u128 {
        self.x as u128 | (self.y as u128) << 64
    }

    /// The inverse of [`to_u128`](Self::to_u128).
    #[inline(always)]
    pub const fn from_u128(bits: u128) -> Self {
        Self::new(bits as u64, (bits >> 64) as u64)
    }
}

/// Four 32-bit words in one aligned 16-byte unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C, align(16))]
pub struct U32x4(
    /// The words, in address order.
    pub [u32; 4],
);
layout!(U32x4 { 0 });
