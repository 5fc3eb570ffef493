//! [`Key`] and [`Value`]: what a map can hold.

use bytemuck::Pod;
use gpumap_kernels::kernels::{KeyBits, ValueBits};

use super::merge::Number;
use crate::file::Kind;

/// A key: plain data of 4 or 8 bytes, compared by its bits. **Every bit pattern is allowed.** Of a type of your own that is a float,
/// 0.0 and -0.0 are two keys, and NaNs of different bits are different keys.
///
/// Implemented for `u32`, `i32`, `u64`, `i64`. For a type of your own use
/// [`key_type!`](crate::key_type).
///
/// # Safety
/// `Self` has the size and the alignment of `Bits`.
///
/// Another type does not compile, with a message that says what to do:
///
/// ```compile_fail,E0277
/// # use gpumap::{Device, Map};
/// let map = Map::<u128, u32>::new(&Device::cpu());
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a key: keys are plain data of 4 or 8 bytes",
    label = "not a key of a map",
    note = "use u32, i32, u64 or i64, or write `gpumap::key_type!({Self}: u64);` for a `bytemuck::Pod` type of your own"
)]
pub unsafe trait Key: Pod + Send + Sync {
    /// The unsigned integer of this size: `u32` or `u64`.
    type Bits: KeyBits + Pod;

    /// What saved files say that the keys are. Those of a type of your own are bytes, which fit every kind of that size, unless
    /// [`key_type!`](crate::key_type) names the number.
    fn kind() -> Kind {
        Kind::of::<Self>()
    }
}

/// A value: plain data of 4 or 8 bytes, of which every bit pattern is allowed; or `()`, which makes
/// the map a [set](crate::Map#sets).
///
/// Implemented for `u32`, `i32`, `f32`, `u64`, `i64`, `f64`, `()`. For a type of your own use
/// [`value_type!`](crate::value_type).
///
/// # Safety
/// `Self` has the size and the alignment of `Bits`.
///
/// Another type does not compile, with a message that says what to do:
///
/// ```compile_fail,E0277
/// # use gpumap::{Device, Map};
/// let map = Map::<u32, [f32; 3]>::new(&Device::cpu());
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a value of a map: values are plain data of 4 or 8 bytes, or `()`",
    label = "not a value of a map",
    note = "use u32, i32, f32, u64, i64, f64 or (), or write `gpumap::value_type!({Self}: u64);` for a `bytemuck::Pod` type of your own",
    note = "values of up to 256 bytes are what `gpumap::ArenaMap` is for"
)]
pub unsafe trait Value: Pod + Send + Sync {
    /// The unsigned integer of this size, `u32` or `u64`, or `()`.
    type Bits: ValueBits + Pod;

    /// How [`Map::merge`](crate::Map::merge) reads it as a number.
    const NUMBER: Number = Number::Unsigned;
}

/// Lets a [`Pod`](bytemuck::Pod) type of 4 or 8 bytes be a [`Key`].
///
/// Size and alignment are checked when it is compiled.
///
/// ```
/// use gpumap::{Device, Map, key_type};
///
/// #[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(transparent)]
/// struct UserId(u64);
/// key_type!(UserId: u64);
///
/// let map = Map::<UserId, u32>::with_capacity(&Device::cpu(), 10)?;
/// map.insert(&[UserId(7)], &[70])?;
/// assert_eq!(map.get(&[UserId(7), UserId(8)])?, [Some(70), None]);
/// # Ok::<(), gpumap::Error>(())
/// ```
///
/// The [`Number`](crate::Number) that such a key is may be said, so that a [saved](crate::Map::save) map is loaded only with keys of
/// that kind:
///
/// ```
/// use gpumap::file::Kind;
/// use gpumap::{Key, Number, key_type};
///
/// #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(transparent)]
/// struct Price(f64); // keys are compared by their bits: one of -0.0 is not one of 0.0
/// key_type!(Price: u64, Number::Float);
/// assert_eq!(Price::kind(), Kind::of::<f64>());
/// ```
///
/// A type of another size, or of another alignment, does not compile:
///
/// ```compile_fail,E0080
/// #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(C)]
/// struct Uuid([u64; 2]);
/// gpumap::key_type!(Uuid: u64);
/// ```
///
/// ```compile_fail,E0080
/// #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(C)] // and align(8) is missing
/// struct Cell(u32, u32);
/// gpumap::key_type!(Cell: u64);
/// ```
#[macro_export]
macro_rules! key_type {
    ($t:ty: $bits:ty $(, $number:expr)?) => {
        // SAFETY: checked right here.
        unsafe impl $crate::Key for $t {
            type Bits = $bits;
            $(
                fn kind() -> $crate::file::Kind {
                    $crate::file::Kind::Numbers($number, ::core::mem::size_of::<$t>() as u8)
                }
            )?
        }
        $crate::same_layout!($t, $bits);
    };
}

/// Lets a [`Pod`](bytemuck::Pod) type of 4 or 8 bytes be a [`Value`]; see
/// [`key_type!`](crate::key_type). How [`Map::merge`](crate::Map::merge) reads it as a
/// [`Number`](crate::Number) may be said, and is `Unsigned` else.
///
/// ```
/// use gpumap::{Device, Map, Merge, Number, value_type};
///
/// #[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(transparent)]
/// struct Celsius(f32);
/// value_type!(Celsius: u32, Number::Float);
///
/// let map = Map::<u32, Celsius>::with_capacity(&Device::cpu(), 10)?;
/// map.merge(&[1, 1, 1], &[Celsius(-3.0), Celsius(-8.5), Celsius(2.0)], Merge::Min)?;
/// assert_eq!(map.get(&[1])?, [Some(Celsius(-8.5))]);
/// # Ok::<(), gpumap::Error>(())
/// ```
///
/// ```compile_fail,E0080
/// #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(transparent)]
/// struct Point([f32; 3]);
/// gpumap::value_type!(Point: u64);
/// ```
#[macro_export]
macro_rules! value_type {
    ($t:ty: $bits:ty) => {
        $crate::value_type!($t: $bits, $crate::Number::Unsigned);
    };
    ($t:ty: $bits:ty, $number:expr) => {
        // SAFETY: checked right here.
        unsafe impl $crate::Value for $t {
            type Bits = $bits;
            const NUMBER: $crate::Number = $number;
        }
        $crate::same_layout!($t, $bits);
    };
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

key_type!(u32: u32);
key_type!(i32: u32);
key_type!(u64: u64);
key_type!(i64: u64);
value_type!((): ());
value_type!(u32: u32);
value_type!(i32: u32, Number::Signed);
value_type!(f32: u32, Number::Float);
value_type!(u64: u64);
value_type!(i64: u64, Number::Signed);
value_type!(f64: u64, Number::Float);
