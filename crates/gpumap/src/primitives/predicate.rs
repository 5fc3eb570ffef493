//! [`Predicate`]: which elements a filter keeps, as data.

use gpumap_kernels::primitives::filter::Test;
use gpumap_kernels::primitives::word::Word;

use super::element::sealed::Kernels;
use super::element::{BitsOf, Element};

/// Which elements a filter keeps.
///
/// Comparisons are those of Rust's operators: with a NaN on either side all but
/// [`NotEqual`](Self::NotEqual) and [`Outside`](Self::Outside) are false, and minus zero equals
/// zero. Bit masks look at the bits of the element, of a float at those of
/// [`to_bits`](f32::to_bits).
///
/// ```
/// use gpumap::primitives::Predicate;
/// assert!(Predicate::Between { low: 1, high: 3 }.holds(3));
/// assert!(!Predicate::Less(f32::NAN).holds(1.0));
/// // Odd numbers:
/// assert!(Predicate::Bits { mask: 1u32, value: 1 }.holds(7));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Predicate<T> {
    /// Every `x`.
    Always,
    /// `x < c`
    Less(T),
    /// `x <= c`
    LessOrEqual(T),
    /// `x > c`
    Greater(T),
    /// `x >= c`
    GreaterOrEqual(T),
    /// `x == c`
    Equal(T),
    /// `x != c`
    NotEqual(T),
    /// `low <= x && x <= high`
    Between {
        /// The least that is kept.
        low: T,
        /// The greatest that is kept.
        high: T,
    },
    /// `!(low <= x && x <= high)`
    Outside {
        /// The least that is not kept.
        low: T,
        /// The greatest that is not kept.
        high: T,
    },
    /// `x & mask == value`, on bits
    Bits {
        /// The bits that count.
        mask: T,
        /// What they are.
        value: T,
    },
    /// `x & mask != value`, on bits
    NotBits {
        /// The bits that count.
        mask: T,
        /// What they are not.
        value: T,
    },
}

impl<T: Element> Predicate<T> {
    /// Whether it holds for an element: what the device computes.
    pub fn holds(&self, x: T) -> bool {
        self.test().holds(bytemuck::cast(x))
    }

    /// As the kernels take it: every comparison is a range of ranks, of which zero has two.
    pub(crate) fn test(&self) -> Test<BitsOf<T>> {
        let (first, last) = T::Scalar::RANKS;
        let equal = ranks::<T>;
        // `None` where nothing is in range.
        let (range, invert) = match *self {
            Self::Always => (None, true),
            Self::Less(c) => {
                let below = equal(c).filter(|c| c.0 > first);
                (below.map(|c| (first, c.0 - 1)), false)
            }
            Self::LessOrEqual(c) => (equal(c).map(|c| (first, c.1)), false),
            Self::Greater(c) => {
                let above = equal(c).filter(|c| c.1 < last);
                (above.map(|c| (c.1 + 1, last)), false)
            }
            Self::GreaterOrEqual(c) => (equal(c).map(|c| (c.0, last)), false),
            Self::Equal(c) => (equal(c), false),
            Self::NotEqual(c) => (equal(c), true),
            Self::Between { low, high } => (between(low, high), false),
            Self::Outside { low, high } => (between(low, high), true),
            Self::Bits { mask, value } => return masked(mask, value, false),
            Self::NotBits { mask, value } => return masked(mask, value, true),
        };
        match range {
            Some((low, high)) => Test {
                mask: BitsOf::<T>::ONES,
                fold: T::Scalar::FOLD,
                low: BitsOf::<T>::from_u64(low) ^ T::Scalar::SIGN,
                span: BitsOf::<T>::from_u64(high - low),
                invert: u32::from(invert),
            },
            // All words are in this range, so that none is outside.
            None => Test {
                mask: BitsOf::<T>::ONES,
                fold: BitsOf::<T>::ZERO,
                low: BitsOf::<T>::ZERO,
                span: BitsOf::<T>::ONES,
                invert: u32::from(!invert),
            },
        }
    }
}

/// The ranks of the elements that equal this one.
fn ranks<T: Element>(element: T) -> Option<(u64, u64)> {
    bytemuck::cast::<T, T::Scalar>(element).ranks()
}

fn between<T: Element>(low: T, high: T) -> Option<(u64, u64)> {
    let (low, high) = (ranks(low)?.0, ranks(high)?.1);
    (low <= high).then_some((low, high))
}

fn masked<T: Element>(mask: T, value: T, invert: bool) -> Test<BitsOf<T>> {
    Test {
        mask: bytemuck::cast(mask),
        fold: BitsOf::<T>::ZERO,
        low: bytemuck::cast(value),
        span: BitsOf::<T>::ZERO,
        invert: u32::from(invert),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every predicate on every pair of constants against Rust's operators.
    fn check<T: Element + std::fmt::Debug>(
        all: &[T],
        and: impl Fn(T, T) -> T,
        same: impl Fn(T, T) -> bool,
    ) {
        for &x in all {
            for &c in all {
                let is = |p: Predicate<T>, expected: bool| {
                    assert_eq!(p.holds(x), expected, "{p:?} of {x:?}");
                };
                is(Predicate::Less(c), x < c);
                is(Predicate::LessOrEqual(c), x <= c);
                is(Predicate::Greater(c), x > c);
                is(Predicate::GreaterOrEqual(c), x >= c);
                is(Predicate::Equal(c), x == c);
                is(Predicate::NotEqual(c), x != c);
                for &high in all {
                    let inside = c <= x && x <= high;
                    is(Predicate::Between { low: c, high }, inside);
                    is(Predicate::Outside { low: c, high }, !inside);
                    let bits = same(and(x, c), high);
                    is(
                        Predicate::Bits {
                            mask: c,
                            value: high,
                        },
                        bits,
                    );
                    is(
                        Predicate::NotBits {
                            mask: c,
                            value: high,
                        },
                        !bits,
                    );
                }
            }
        }
    }

    #[test]
    fn integers_compare_as_in_rust() {
        check(
            &[0, 1, 2, 7, 8, u32::MAX / 2, u32::MAX - 1, u32::MAX],
            |a, b| a & b,
            |a, b| a == b,
        );
        check(
            &[
                i32::MIN,
                i32::MIN + 1,
                -2,
                -1,
                0,
                1,
                5,
                i32::MAX - 1,
                i32::MAX,
            ],
            |a, b| a & b,
            |a, b| a == b,
        );
        check(
            &[0, 1, 1 << 40, u64::MAX - 1, u64::MAX],
            |a, b| a & b,
            |a, b| a == b,
        );
        check(
            &[i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX],
            |a, b| a & b,
            |a, b| a == b,
        );
    }

    #[test]
    fn floats_compare_as_in_rust() {
        let some = [
            0.0,
            1.0,
            1.5,
            f32::MIN_POSITIVE,
            f32::MAX,
            f32::INFINITY,
            f32::NAN,
            f32::from_bits(1),
        ];
        let all: Vec<f32> = some.iter().flat_map(|&x| [x, -x]).collect();
        check(
            &all,
            |a, b| f32::from_bits(a.to_bits() & b.to_bits()),
            |a, b| a.to_bits() == b.to_bits(),
        );
        let all: Vec<f64> = all.into_iter().map(f64::from).collect();
        check(
            &all,
            |a, b| f64::from_bits(a.to_bits() & b.to_bits()),
            |a, b| a.to_bits() == b.to_bits(),
        );
    }
}
