//! [`Setting`]: what can be out of range.

use std::fmt;
use std::ops::RangeInclusive;

use super::{Error, Result};

/// A setting of a map, a multimap, a histogram or a digit that can be out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Setting {
    /// Pairs per slot.
    MaxLoadFactor,
    /// How many submaps.
    Submaps,
    /// Slabs per page, a power of two.
    PageSlabs,
    /// How many times the capacity a map grows to.
    GrowthFactor,
    /// Buckets of a multimap.
    Buckets,
    /// Slabs in the pool of a multimap.
    PoolSlabs,
    /// Bins of a histogram.
    Bins,
    /// Edges of a histogram.
    Edges,
    /// Bits of a digit.
    DigitBits,
    /// The end of a digit: one more than its highest bit.
    DigitEnd,
}

impl Setting {
    /// An error unless a value lies in the range, as a NaN never does.
    pub(crate) fn expect(self, value: f64, range: RangeInclusive<f64>) -> Result<()> {
        match range.contains(&value) {
            true => Ok(()),
            false => Err(self.refused(value, range)),
        }
    }

    /// The error for a value that it cannot have.
    pub(crate) fn refused(self, value: f64, range: RangeInclusive<f64>) -> Error {
        Error::Setting {
            setting: self,
            value,
            least: *range.start(),
            most: *range.end(),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MaxLoadFactor => "the maximum load factor",
            Self::Submaps => "the number of submaps",
            Self::GrowthFactor => "the growth factor",
            Self::Buckets => "the number of buckets",
            Self::PoolSlabs => "the number of slabs in the pool",
            Self::PageSlabs => "the number of slabs per page",
            Self::Bins => "the number of bins",
            Self::Edges => "the number of edges",
            Self::DigitBits => "the number of bits of the digit",
            Self::DigitEnd => "the end of the digit",
        })
    }
}
