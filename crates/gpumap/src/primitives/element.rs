//! [`Element`] and [`Op`]: what can be scanned, reduced and filtered, and how.
//!
//! Kernels know six types of numbers, by their [`Kernels`](sealed::Kernels). An element is one of them or a newtype of
//! one, and to the kernels it is that number.

use bytemuck::Pod;
use gpumap_kernels::primitives::combine;
use gpumap_kernels::primitives::filter::{self, FilterArgs};
use gpumap_kernels::primitives::reduce::{self, ReduceArgs};
use gpumap_kernels::primitives::scan::{self, ScanArgs};
use gpumap_kernels::primitives::word::Word;
use gpumap_kernels::rows::{Number, Operation};
use gpumap_simt::kernel::Kernel;

/// An associative operation of a scan or a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Op {
    /// The sum: of integers wrapping around, of floats rounded at each step.
    Add,
    /// The least; of floats NaN only of nothing else, and -0.0 below 0.0.
    Min,
    /// The greatest; of floats NaN only of nothing else, and -0.0 below 0.0.
    Max,
}

/// What the primitives work on: `u32`, `i32`, `f32`, `u64`, `i64`, `f64`, and newtypes of these.
///
/// For a type of your own use [`element_type!`](crate::element_type).
///
/// # Safety
/// `Self` has the size and the alignment of `Scalar`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not known to be a number",
    label = "scans, reductions, filters and `retain` by predicate work on numbers",
    note = "a newtype of a number is made one by `gpumap::element_type!`"
)]
pub unsafe trait Element: Pod + Send + Sync + PartialOrd {
    /// The number that it is compared and added up as.
    type Scalar: sealed::Kernels;
}

/// Lets a newtype of a number be an [`Element`]: of a scan, a reduction or a filter, and of a
/// [`Predicate`](crate::primitives::Predicate) that a map [retains](crate::Map::retain_where) by. It is compared and added
/// up as that number, which its [`PartialOrd`] should agree with.
///
/// Size and alignment are checked when it is compiled.
///
/// ```
/// use gpumap::primitives::Predicate;
/// use gpumap::{Device, Map, element_type};
///
/// #[derive(Clone, Copy, Debug, PartialEq, PartialOrd, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(transparent)]
/// struct UserId(u64);
/// element_type!(UserId: u64);
///
/// #[derive(Clone, Copy, Debug, PartialEq, PartialOrd, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(transparent)]
/// struct Celsius(f32);
/// element_type!(Celsius: f32);
///
/// let map = Map::<UserId, Celsius>::new(&Device::cpu())?;
/// map.insert(&[UserId(7), UserId(8)], &[Celsius(36.6), Celsius(-1.0)])?;
/// map.retain_where(Predicate::Always, Predicate::Greater(Celsius(0.0)))?;
/// assert_eq!(map.get(&[UserId(7), UserId(8)])?, [Some(Celsius(36.6)), None]);
/// # Ok::<(), gpumap::Error>(())
/// ```
#[macro_export]
macro_rules! element_type {
    ($t:ty: $scalar:ty) => {
        // SAFETY: checked right here.
        unsafe impl $crate::primitives::Element for $t {
            type Scalar = $scalar;
        }
        $crate::same_layout!($t, $scalar);
    };
}

/// The bit pattern of an element.
pub(super) type BitsOf<T> = <<T as Element>::Scalar as sealed::Kernels>::Bits;

/// The kernels of one type of numbers.
#[derive(Clone, Copy, Debug)]
pub struct OpKernels<W: Word> {
    pub(super) scan: &'static Kernel<ScanArgs<W>>,
    pub(super) reduce: &'static Kernel<ReduceArgs<W>>,
    pub(super) order: combine::Order<W>,
    /// What changes nothing.
    pub(super) identity: W,
}

pub(super) mod sealed {
    use super::*;

    /// Bit patterns of one size.
    pub trait Bits: Word + Pod {
        fn filter() -> &'static Kernel<FilterArgs<Self, Self>>;
        fn filter_flag() -> &'static Kernel<FilterArgs<Self, Self>>;
        fn filter_indices() -> &'static Kernel<FilterArgs<Self, u64>>;
    }

    /// What a number is to the kernels.
    ///
    /// The *rank* of a number is an integer whose order is that of the numbers; its top bit is
    /// bit 31 or 63.
    pub trait Kernels: Pod {
        type Bits: Bits;
        /// What sums of it are told in.
        type Sum: super::Element;
        /// What a column of it holds.
        const NUMBER: Number;
        /// How it is summed.
        const SUM: Operation;
        /// Every bit but the highest for floats, else none.
        const FOLD: Self::Bits;
        /// The highest bit if there is a sign, else none.
        const SIGN: Self::Bits;
        /// The least and the greatest rank, NaN aside.
        const RANKS: (u64, u64);
        fn op(op: Op) -> OpKernels<Self::Bits>;
        /// The ranks of the numbers that equal this one: two for zero, none for NaN.
        fn ranks(self) -> Option<(u64, u64)>;
    }
}

macro_rules! bits {
    ($($t:ty, $filter:ident $filter_flag:ident $filter_indices:ident;)*) => {$(
        impl sealed::Bits for $t {
            fn filter() -> &'static Kernel<FilterArgs<Self, Self>> {
                &filter::$filter
            }
            fn filter_flag() -> &'static Kernel<FilterArgs<Self, Self>> {
                &filter::$filter_flag
            }
            fn filter_indices() -> &'static Kernel<FilterArgs<Self, u64>> {
                &filter::$filter_indices
            }
        }
    )*};
}
bits! {
    u32, FILTER_4 FILTER_FLAG_4 FILTER_INDICES_4;
    u64, FILTER_8 FILTER_FLAG_8 FILTER_INDICES_8;
}

/// The rank of the element that has these bits.
const fn rank32(bits: u32, fold: u32, sign: u32) -> u64 {
    let folded = bits ^ (((bits as i32) >> 31) as u32 & fold);
    (folded ^ sign) as u64
}

const fn rank64(bits: u64, fold: u64, sign: u64) -> u64 {
    let folded = bits ^ (((bits as i64) >> 63) as u64 & fold);
    folded ^ sign
}

macro_rules! elements {
    ($($t:ty: $bits:ty, $NUMBER:ident $SUM:ident $sum:ty, fold $fold:expr, sign $sign:expr, $rank:ident,
       $least:expr, $greatest:expr, add $SCAN_ADD:ident $REDUCE_ADD:ident $zero:expr,
       min $SCAN_MIN:ident $REDUCE_MIN:ident, equal $equal:expr;)*) => {$(
        crate::element_type!($t: $t);
        impl sealed::Kernels for $t {
            type Bits = $bits;
            type Sum = $sum;
            const NUMBER: Number = Number::$NUMBER;
            const SUM: Operation = Operation::$SUM;
            const FOLD: $bits = $fold;
            const SIGN: $bits = $sign;
            const RANKS: (u64, u64) =
                ($rank($least, $fold, $sign), $rank($greatest, $fold, $sign));
            fn op(op: Op) -> OpKernels<$bits> {
                let min = |flip| OpKernels {
                    scan: &scan::$SCAN_MIN,
                    reduce: &reduce::$REDUCE_MIN,
                    order: combine::Order { fold: $fold, flip },
                    identity: {
                        let operation = combine::Min(combine::Order { fold: $fold, flip });
                        combine::Combine::decode(&operation, !0)
                    },
                };
                match op {
                    Op::Add => OpKernels {
                        scan: &scan::$SCAN_ADD,
                        reduce: &reduce::$REDUCE_ADD,
                        order: combine::Order { fold: 0, flip: 0 },
                        identity: $zero,
                    },
                    Op::Min => min($sign),
                    Op::Max => min(!$sign),
                }
            }
            fn ranks(self) -> Option<(u64, u64)> {
                let equal: fn($t) -> Option<($bits, $bits)> = $equal;
                let (least, greatest) = equal(self)?;
                Some(($rank(least, $fold, $sign), $rank(greatest, $fold, $sign)))
            }
        }
    )*};
}

/// The bits of the floats that equal one: minus zero and zero are one number.
macro_rules! equal_floats {
    ($x:ident) => {
        if $x.is_nan() {
            None
        } else if $x == 0.0 {
            Some(((-$x.abs()).to_bits(), $x.abs().to_bits()))
        } else {
            Some(($x.to_bits(), $x.to_bits()))
        }
    };
}

const SIGN_32: u32 = 1 << 31;
const SIGN_64: u64 = 1 << 63;

elements! {
    u32: u32, U32 Sum u64, fold 0, sign 0, rank32, 0, !0,
        add SCAN_ADD_4 REDUCE_ADD_4 0, min SCAN_MIN_4 REDUCE_MIN_4,
        equal |x| Some((x, x));
    i32: u32, I32 Sum i64, fold 0, sign SIGN_32, rank32, SIGN_32, !SIGN_32,
        add SCAN_ADD_4 REDUCE_ADD_4 0, min SCAN_MIN_4 REDUCE_MIN_4,
        equal |x| Some((x as u32, x as u32));
    f32: u32, F32 SumFloat f64, fold !SIGN_32, sign SIGN_32, rank32,
        f32::NEG_INFINITY.to_bits(), f32::INFINITY.to_bits(),
        add SCAN_ADD_F4 REDUCE_ADD_F4 SIGN_32, min SCAN_MIN_4 REDUCE_MIN_4,
        equal |x| equal_floats!(x);
    u64: u64, U64 Sum u64, fold 0, sign 0, rank64, 0, !0,
        add SCAN_ADD_8 REDUCE_ADD_8 0, min SCAN_MIN_8 REDUCE_MIN_8,
        equal |x| Some((x, x));
    i64: u64, I64 Sum i64, fold 0, sign SIGN_64, rank64, SIGN_64, !SIGN_64,
        add SCAN_ADD_8 REDUCE_ADD_8 0, min SCAN_MIN_8 REDUCE_MIN_8,
        equal |x| Some((x as u64, x as u64));
    f64: u64, F64 SumFloat f64, fold !SIGN_64, sign SIGN_64, rank64,
        f64::NEG_INFINITY.to_bits(), f64::INFINITY.to_bits(),
        add SCAN_ADD_F8 REDUCE_ADD_F8 SIGN_64, min SCAN_MIN_8 REDUCE_MIN_8,
        equal |x| equal_floats!(x);
}

/// A compile-time check that two types have one size and one alignment.
#[doc(hidden)]
#[macro_export]
macro_rules! same_layout {
    ($a:ty, $b:ty) => {
        const _: () = {
            assert!(
                ::core::mem::size_of::<$a>() == ::core::mem::size_of::<$b>(),
                concat!(
                    "`",
                    stringify!($a),
                    "` and `",
                    stringify!($b),
                    "` differ in size: keys, values and elements have 4 bytes (u32) or 8 bytes (u64)"
                )
            );
            assert!(
                ::core::mem::align_of::<$a>() == ::core::mem::align_of::<$b>(),
                concat!(
                    "`",
                    stringify!($a),
                    "` and `",
                    stringify!($b),
                    "` differ in alignment: add #[repr(align(8))] for u64, or #[repr(align(4))] for u32, to the type"
                )
            );
        };
    };
}
