//! [`Digit`]: what a partition sorts by.

use std::ops::Range;

use gpumap_kernels::primitives::binning::DigitOf;
use gpumap_kernels::primitives::partition::THREADS;

use crate::error::{Result, Setting};
use crate::map::{Key, bits};

/// The most parts of a partition.
pub const MAX_PARTS: usize = THREADS as usize;

/// What a partition sorts by: a bit field of the key, or of the key's hash.
///
/// ```
/// use gpumap::primitives::Digit;
///
/// assert_eq!(Digit::of_bits(4..6).parts(), 4);
/// assert_eq!(Digit::of_bits(4..6).part(0b10_0000u32), 2);
/// assert!(Digit::of_hash(56..64, 7).part(1u64) < 256);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digit {
    first: u32,
    end: u32,
    seed: Option<u64>,
}

impl Digit {
    /// These bits of the key, counted from its lowest.
    pub const fn of_bits(bits: Range<u32>) -> Self {
        Self {
            first: bits.start,
            end: bits.end,
            seed: None,
        }
    }

    /// These bits of the 64-bit hash that maps place the key with, under this seed
    /// ([`MapBuilder::hash_seed`](crate::MapBuilder::hash_seed)).
    pub const fn of_hash(bits: Range<u32>, seed: u64) -> Self {
        Self {
            first: bits.start,
            end: bits.end,
            seed: Some(seed),
        }
    }

    /// How many bits it has.
    const fn width(self) -> u32 {
        self.end.saturating_sub(self.first)
    }

    /// How many values it has: two to the power of its bits. What cannot be used has at most 0.
    pub const fn parts(self) -> usize {
        match 1usize.checked_shl(self.width()) {
            Some(parts) if self.width() > 0 => parts,
            _ => 0,
        }
    }

    /// The digit of a key, if it has [`parts`](Self::parts).
    pub fn part<K: Key>(self, key: K) -> usize {
        const {
            assert!(
                size_of::<K>() == 4 || size_of::<K>() == 8,
                "digits are of keys of 4 or 8 bytes"
            );
        }
        let bits = bits(key);
        match self.kernel() {
            _ if self.first >= 64 || self.parts() == 0 => 0,
            // The hash of a word is that of its width.
            kernel if size_of::<K>() == size_of::<u32>() => kernel.digit(bits as u32) as usize,
            kernel => kernel.digit(bits) as usize,
        }
    }

    /// As kernels take it.
    pub(crate) const fn kernel(self) -> DigitOf {
        DigitOf {
            seed: match self.seed {
                Some(seed) => seed,
                None => 0,
            },
            shift: self.first,
            mask: (self.parts() as u64).wrapping_sub(1) as u32,
            hashed: self.seed.is_some() as u32,
        }
    }

    /// Checks it for keys of so many bytes.
    pub(super) fn checked(self, key_bytes: usize) -> Result<DigitOf> {
        let bits = match self.seed {
            Some(_) => 64,
            None => 8 * key_bytes as u32,
        };
        Setting::DigitBits.expect(self.width().into(), 1.0..=MAX_PARTS.ilog2().into())?;
        Setting::DigitEnd.expect(self.end.into(), 1.0..=bits.into())?;
        Ok(self.kernel())
    }
}
