//! [`Merge`]: what becomes of two values of one key.

use gpumap_simt::atomic::part::Update;

use super::Numeric;

/// What [`Map::merge`](super::Map::merge) makes of the value that a present key has and the one
/// that comes with it.
///
/// | | integers | floats |
/// |---|---|---|
/// | `Add` | wraps around | rounds to nearest even; the order of additions is not fixed |
/// | `Min`, `Max` | signed or unsigned, as the type is | by [`total_cmp`](f64::total_cmp) |
/// | `And`, `Or`, `Xor` | bitwise | on the bits |
///
/// A sum of `f32` takes subnormal numbers, those nearer to zero than 1.2e-38, for zeros, and is
/// itself zero rather than subnormal: that is how the memory of a GPU adds. `f64` keeps them.
///
/// A map keeps bits: by `total_cmp` a NaN with a sign lies below all numbers, and one without above them. The minima and maxima of
/// [primitives](crate::primitives#order-of-minima-and-maxima) pass over NaNs.
///
/// How the bits of a value are to be read is said by its type, [`Numeric::NUMBER`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Merge {
    /// Their sum.
    Add,
    /// The smaller.
    Min,
    /// The larger.
    Max,
    /// The bits that both have.
    And,
    /// The bits that either has.
    Or,
    /// The bits that one of them has.
    Xor,
}

/// How the bits of a [`Value`](super::Value) are read as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Number {
    /// As `u32` or `u64`.
    Unsigned,
    /// As `i32` or `i64`.
    Signed,
    /// As `f32` or `f64`.
    Float,
}

impl Merge {
    /// As the kernels take it.
    pub(crate) fn update<V: Numeric>(self) -> Update {
        const {
            assert!(
                size_of::<V>() == 0 || size_of::<V>() == 4 || size_of::<V>() == 8,
                "merged values have 4 or 8 bytes"
            );
        };
        self.reading(V::NUMBER)
    }

    /// The same, of values that are such numbers.
    fn reading(self, number: Number) -> Update {
        match (self, number) {
            (Self::Add, Number::Float) => Update::AddFloat,
            (Self::Add, _) => Update::Add,
            (Self::Min, Number::Unsigned) => Update::MinUnsigned,
            (Self::Min, Number::Signed) => Update::MinSigned,
            (Self::Min, Number::Float) => Update::MinFloat,
            (Self::Max, Number::Unsigned) => Update::MaxUnsigned,
            (Self::Max, Number::Signed) => Update::MaxSigned,
            (Self::Max, Number::Float) => Update::MaxFloat,
            (Self::And, _) => Update::And,
            (Self::Or, _) => Update::Or,
            (Self::Xor, _) => Update::Xor,
        }
    }

    /// An update that merges, of values that are such numbers; another is as it was.
    pub(crate) fn reread(update: Update, number: Number) -> Update {
        let merge = match update {
            Update::Add | Update::AddFloat => Self::Add,
            Update::MinUnsigned | Update::MinSigned | Update::MinFloat => Self::Min,
            Update::MaxUnsigned | Update::MaxSigned | Update::MaxFloat => Self::Max,
            _ => return update,
        };
        merge.reading(number)
    }
}
