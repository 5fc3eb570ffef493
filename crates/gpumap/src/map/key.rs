//! [`Key`] and [`Value`]: what a map can hold, and [`Layout`]: how it holds them.

use bytemuck::Pod;
use gpumap_kernels::kernels::{KeyBits, ValueBits};

use super::merge::Number;

/// A key: plain data of 4 to 64 bytes, compared by its bits. **Every bit pattern is allowed.** Of floats, 0.0 and -0.0 are two
/// keys, and NaNs of different bits are different keys.
///
/// Every [`Pod`] type that threads may share is one, your own too. Their sizes choose the [`Layout`].
///
/// ```
/// use gpumap::{Device, Map};
///
/// #[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(transparent)]
/// struct UserId(u64);
///
/// let map = Map::<UserId, u32>::with_capacity(&Device::cpu(), 10)?;
/// map.insert(&[UserId(7)], &[70])?;
/// assert_eq!(map.get(&[UserId(7), UserId(8)])?, [Some(70), None]);
/// # Ok::<(), gpumap::Error>(())
/// ```
///
/// Another type does not compile, with a message that says what to do:
///
/// ```compile_fail,E0277
/// # use gpumap::{Device, Map};
/// let map = Map::<String, u32>::new(&Device::cpu());
/// ```
///
/// Nor does a size that no layout has:
///
/// ```compile_fail,E0080
/// # use gpumap::{Device, Map};
/// let map = Map::<[u8; 6], u32>::new(&Device::cpu());
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a key of a map: keys are plain data of 4 to 64 bytes",
    label = "not a key of a map",
    note = "use an integer, an array of them, or a `#[repr(C)]` type of your own that derives `bytemuck::Pod` (`u32` for `char`)",
    note = "strings are what `gpumap::RowMap<str>` is for"
)]
pub trait Key: Pod + Send + Sync {}

#[diagnostic::do_not_recommend]
impl<K: Pod + Send + Sync> Key for K {}

/// A value: plain data of up to 256 bytes, of which every bit pattern is allowed; `()` makes the map a
/// [set](crate::Map#sets).
///
/// Every [`Pod`] type that threads may share is one, your own too.
///
/// Another type does not compile, with a message that says what to do:
///
/// ```compile_fail,E0277
/// # use gpumap::{Device, Map};
/// let map = Map::<u32, bool>::new(&Device::cpu());
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a value of a map: values are plain data of up to 256 bytes, or `()`",
    label = "not a value of a map",
    note = "use a number, an array of them, `()`, or a `#[repr(C)]` type of your own that derives `bytemuck::Pod` (`u8` for `bool`)"
)]
pub trait Value: Pod + Send + Sync {}

#[diagnostic::do_not_recommend]
impl<V: Pod + Send + Sync> Value for V {}

/// A value that merges read as a [`Number`]: of 4 or 8 bytes.
///
/// For a type of your own it takes a line:
///
/// ```
/// use gpumap::{Device, Map, Merge, Number, Numeric};
///
/// #[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(transparent)]
/// struct Celsius(f32);
///
/// impl Numeric for Celsius {
///     const NUMBER: Number = Number::Float;
/// }
///
/// let map = Map::<u32, Celsius>::with_capacity(&Device::cpu(), 10)?;
/// map.merge(&[1, 1, 1], &[Celsius(-3.0), Celsius(-8.5), Celsius(2.0)], Merge::Min)?;
/// assert_eq!(map.get(&[1])?, [Some(Celsius(-8.5))]);
/// # Ok::<(), gpumap::Error>(())
/// ```
///
/// A type of another size does not compile:
///
/// ```compile_fail,E0080
/// # use gpumap::{Device, Map, Merge, Number, Numeric};
/// # #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
/// # #[repr(transparent)]
/// # struct Point([f32; 3]);
/// impl Numeric for Point {
///     const NUMBER: Number = Number::Float;
/// }
/// let map = Map::<u32, Point>::new(&Device::cpu())?;
/// map.merge(&[1], &[Point([0.0; 3])], Merge::Add)?;
/// # Ok::<(), gpumap::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a number that values can be merged by",
    note = "implement `gpumap::Numeric` for a type of your own that has 4 or 8 bytes"
)]
pub trait Numeric: Value {
    /// How its bits are read.
    const NUMBER: Number;
}

macro_rules! numeric {
    ($($t:ty: $number:ident;)*) => {
        $(impl Numeric for $t {
            const NUMBER: Number = Number::$number;
        })*
    };
}

numeric! {
    (): Unsigned;
    u32: Unsigned;
    i32: Signed;
    f32: Float;
    u64: Unsigned;
    i64: Signed;
    f64: Float;
}

/// A number, a type with the bits of one, or `()`: what kernels of yours find in a [map that is lent](crate::Map::launch_with), and what
/// a [`MultiMap`](crate::MultiMap) holds.
///
/// # Safety
/// `Self` has the size and the alignment of `Bits`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no word: kernels and multimaps work on u32, i32, u64, i64, f32 or f64",
    note = "a type of your own with the size and the alignment of `u32` or `u64` needs `unsafe impl gpumap::Word`"
)]
pub unsafe trait Word: Pod + Send + Sync {
    /// The unsigned integer of this size, `u32` or `u64`; or `()`.
    type Bits: ValueBits + Pod;
}

macro_rules! word {
    ($($t:ty: $bits:ty;)*) => {
        $(
            // SAFETY: both have one size and one alignment.
            unsafe impl Word for $t {
                type Bits = $bits;
            }
        )*
    };
}

word! {
    (): ();
    u32: u32;
    i32: u32;
    f32: u32;
    u64: u64;
    i64: u64;
    f64: u64;
}

/// A [`Word`] that may be a key: `u32`, `i32`, `u64`, `i64`, `f32`, `f64`, or a type with their bits.
pub trait WordKey: Word<Bits: KeyBits> {}

#[diagnostic::do_not_recommend]
impl<K: Word<Bits: KeyBits>> WordKey for K {}

/// How a map holds its pairs: the types of its keys and values choose.
///
/// | | keys | values | calls that change the map | dumps | at most |
/// |---|---|---|---|---|---|
/// | [`Inline`](Self::Inline) | 4 or 8 bytes, with the alignment of `u32` or `u64` | 0, 4 or 8 bytes, aligned so | side by side | in no order | memory |
/// | [`Cells`](Self::Cells) | the same | all others, up to 256 bytes | side by side, but replacing waits for removing | in no order | 2^32 pairs |
/// | [`Rows`](Self::Rows) | all others of 4 to 64 bytes, a multiple of 4 | all, up to 256 bytes | take turns, and lookups wait for them | in the order in which keys came | 2^31 pairs |
///
/// A pair that lies `Inline` costs one trip to memory, one in `Cells` two, one in `Rows` three. A program that relies on a layout says so
/// in a line:
///
/// ```
/// use gpumap::{Layout, Map};
///
/// const _: () = assert!(matches!(Map::<u64, u32>::LAYOUT, Layout::Inline));
/// assert_eq!(Map::<u64, [f32; 8]>::LAYOUT, Layout::Cells);
/// assert_eq!(Map::<u128, u32>::LAYOUT, Layout::Rows);
/// assert_eq!(Map::<[u8; 16], [u8; 64]>::LAYOUT, Layout::Rows);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layout {
    /// Key and value are side by side in the slots of a table.
    Inline,
    /// Keys are in the slots of a table, with numbers of cells, where values are.
    Cells,
    /// Keys have rows: a key and its value are in arrays, at the row that a table of tags leads to.
    Rows,
}

impl Layout {
    /// That of a map with such keys and values.
    pub const fn of<K, V>() -> Self {
        let key = size_of::<K>();
        assert!(
            size_of::<V>() <= 256,
            "values of a map have at most 256 bytes"
        );
        if is_word::<K>() {
            return match has_words::<V>() {
                true => Self::Inline,
                false => Self::Cells,
            };
        }
        assert!(
            key >= 4 && key <= 64 && key.is_multiple_of(4),
            "keys of a map have 4 to 64 bytes, a multiple of 4: pad the type"
        );
        Self::Rows
    }

    /// Its name in errors, and for `Debug`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inline => "Inline",
            Self::Cells => "Cells",
            Self::Rows => "Rows",
        }
    }
}

/// Whether maps have values of a type as words, or nothing of them; else they have bytes, which are copied and no numbers.
pub(crate) const fn has_words<V>() -> bool {
    size_of::<V>() == 0 || is_word::<V>()
}

/// Whether a type has the size and the alignment of `u32` or `u64`.
pub(crate) const fn is_word<T>() -> bool {
    let bytes = size_of::<T>();
    (bytes == 4 || bytes == 8) && align_of::<T>() == bytes
}
