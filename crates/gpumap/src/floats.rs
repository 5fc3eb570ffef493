//! [`Floats`]: which fields of a key are floats. [`Keys::stage`](crate::rows::Keys::stage) is where they count: keys of groups,
//! joins and unique keys get one zero and one NaN there, keys of maps keep their bits.

use std::any::TypeId;
use std::fmt;
use std::marker::PhantomData;

use bytemuck::Pod;

use crate::input::{Input, Source};

/// Which words of 4 bytes of a key are floats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FloatWords {
    /// A bit for each `f32`.
    pub narrow: u16,
    /// A bit for the first word of each `f64`.
    pub wide: u16,
}

impl FloatWords {
    pub const NONE: Self = Self { narrow: 0, wide: 0 };

    /// A float of 4 or 8 bytes at byte `at` of a key, which is a multiple of 4.
    pub fn with(self, at: usize, bytes: usize) -> Self {
        let bit = u32::try_from(at / size_of::<u32>()).map_or(0, |word| {
            // Longer keys are no keys.
            1u16.checked_shl(word).unwrap_or(0)
        });
        match bytes {
            4 => Self {
                narrow: self.narrow | bit,
                ..self
            },
            _ => Self {
                wide: self.wide | bit,
                ..self
            },
        }
    }

    /// The floats of both.
    pub fn and(self, other: Self) -> Self {
        Self {
            narrow: self.narrow | other.narrow,
            wide: self.wide | other.wide,
        }
    }
}

/// Which fields of a key are floats: `f32` and `f64` have two zeros and many NaNs, and keys are compared by their bits.
///
/// For groups, joins and unique keys there is **one zero and one NaN** in each float, and keys that are returned have `0.0`
/// and a positive NaN without a payload for them. Keys of type `f32`, `f64`, `[f32; N]` and `[f64; N]` are known to be floats.
/// Of a struct [`floats!`](crate::floats!) names those fields; all others are compared by their bits.
///
/// ```
/// use gpumap::primitives::Primitives;
/// use gpumap::{Device, floats};
///
/// #[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(C)]
/// struct Sale {
///     shop: u32,
///     price: f32,
/// }
/// let sale = |shop, price| Sale { shop, price };
///
/// let primitives = Primitives::new(&Device::cpu());
/// let sales = [sale(7, 0.0), sale(7, -0.0), sale(9, f32::NAN), sale(9, -f32::NAN)];
/// let floats = floats!(Sale { price });
/// let unique = primitives.unique(&floats.of(&sales))?;
/// assert_eq!(unique.counts, [2, 2]);
/// assert_eq!(primitives.unique(&sales)?.counts, [1, 1, 1, 1]); // by their bits
/// assert_eq!(primitives.unique(&[0.0f32, -0.0])?.keys, [0.0]);
/// # Ok::<(), gpumap::Error>(())
/// ```
///
/// A map is a map of bits: pass it keys that [`normalize_floats`](crate::primitives::Primitives::normalize_floats) has made.
pub struct Floats<K> {
    words: FloatWords,
    _key: PhantomData<fn(K)>,
}

impl<K> Clone for Floats<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Floats<K> {}

impl<K> PartialEq for Floats<K> {
    fn eq(&self, other: &Self) -> bool {
        self.words == other.words
    }
}

impl<K> Eq for Floats<K> {}

impl<K> fmt::Debug for Floats<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = |bits: u16| {
            (0..16)
                .filter(move |word| bits >> word & 1 != 0)
                .map(|word| word * 4)
        };
        f.debug_struct("Floats")
            .field("f32", &places(self.words.narrow).collect::<Vec<_>>())
            .field("f64", &places(self.words.wide).collect::<Vec<_>>())
            .finish()
    }
}

impl<K: Pod> Floats<K> {
    /// No field is a float: keys are compared by their bits.
    pub const fn none() -> Self {
        Self::of_words(FloatWords::NONE)
    }

    /// What the type says: all of `f32`, `f64` and arrays of these, and none of another type.
    pub fn of_type() -> Self {
        macro_rules! is_array_of {
            ($t:ty: $($n:literal)*) => {
                TypeId::of::<K>() == TypeId::of::<$t>()
                    $(|| TypeId::of::<K>() == TypeId::of::<[$t; $n]>())*
            };
        }
        if is_array_of!(f32: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16) {
            Self::all_f32()
        } else if is_array_of!(f64: 1 2 3 4 5 6 7 8) {
            Self::all_f64()
        } else {
            Self::none()
        }
    }

    /// A key is one `f32` behind the other.
    pub fn all_f32() -> Self {
        Self::none().with(0, size_of::<K>() / 4, 4)
    }

    /// A key is one `f64` behind the other.
    pub fn all_f64() -> Self {
        Self::none().with(0, size_of::<K>() / 8, 8)
    }

    /// Keys with these floats, to be passed where keys are.
    pub fn of<I: Input<K> + ?Sized>(self, keys: &I) -> FloatKeys<'_, K, I> {
        FloatKeys { keys, floats: self }
    }

    /// So many floats of 4 or 8 bytes from byte `at` on.
    fn with(self, at: usize, n: usize, bytes: usize) -> Self {
        let more = |words: FloatWords, i| words.with(at + i * bytes, bytes);
        Self::of_words((0..n).fold(self.words, more))
    }

    /// The field at byte `at`, a multiple of 4.
    #[doc(hidden)]
    pub fn with_field<F: FloatField>(self, at: usize, _field: fn(&K) -> F) -> Self {
        self.with(at, size_of::<F>() / F::BYTES, F::BYTES)
    }

    pub(crate) const fn of_words(words: FloatWords) -> Self {
        Self {
            words,
            _key: PhantomData,
        }
    }

    pub(crate) const fn words(self) -> FloatWords {
        self.words
    }
}

/// A field that is a float, or several.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no float",
    label = "not a float",
    note = "name fields of type f32 or f64, or arrays of these: all others are compared by their bits"
)]
pub trait FloatField {
    /// Bytes of one.
    const BYTES: usize;
}

macro_rules! float_fields {
    ($($t:ty)*) => {$(
        impl FloatField for $t {
            const BYTES: usize = size_of::<$t>();
        }
        impl<const N: usize> FloatField for [$t; N] {
            const BYTES: usize = size_of::<$t>();
        }
    )*};
}
float_fields! { f32 f64 }

/// Keys, and which of their fields are floats: see [`Floats::of`].
pub struct FloatKeys<'a, K, I: ?Sized> {
    keys: &'a I,
    floats: Floats<K>,
}

impl<K, I: ?Sized> fmt::Debug for FloatKeys<'_, K, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FloatKeys")
            .field("floats", &self.floats)
            .finish_non_exhaustive()
    }
}

impl<K: Pod, I: Input<K> + ?Sized> Input<K> for FloatKeys<'_, K, I> {
    fn source(&self) -> Source<'_, K> {
        self.keys.source()
    }

    fn floats(&self) -> Floats<K> {
        self.floats
    }
}

/// Names the fields of a key that are floats, `f32` or `f64` or arrays of these: see [`Floats`](crate::primitives::Floats).
///
/// Another field does not compile:
///
/// ```compile_fail,E0277
/// # #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(C)]
/// struct Sale {
///     shop: u32,
///     price: f32,
/// }
/// gpumap::floats!(Sale { shop });
/// ```
#[macro_export]
macro_rules! floats {
    ($key:ty { $($field:ident),* $(,)? }) => {
        $crate::primitives::Floats::<$key>::none()$(.with_field(
            const {
                let at = ::core::mem::offset_of!($key, $field);
                assert!(at % 4 == 0, "a float in a key lies at a multiple of 4 bytes");
                at
            },
            |key: &$key| key.$field,
        ))*
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words<K: Pod>() -> (u16, u16) {
        let words = Floats::<K>::of_type().words();
        (words.narrow, words.wide)
    }

    #[test]
    fn a_type_says_which_words_are_floats() {
        assert_eq!(words::<f32>(), (1, 0));
        assert_eq!(words::<f64>(), (0, 1));
        assert_eq!(words::<[f32; 3]>(), (7, 0));
        assert_eq!(words::<[f32; 16]>(), (!0, 0));
        assert_eq!(words::<[f64; 3]>(), (0, 0b1_0101));
        assert_eq!(words::<[f64; 8]>(), (0, 0x5555));
        for none in [
            words::<u32>(),
            words::<i64>(),
            words::<[u32; 2]>(),
            words::<u128>(),
        ] {
            assert_eq!(none, (0, 0));
        }
    }

    #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
    #[repr(C)]
    struct Mixed {
        id: u32,
        place: [f32; 2],
        bits: u32,
        weight: f64,
    }

    #[test]
    fn fields_are_named() {
        let floats = crate::floats!(Mixed { place, weight });
        let words = floats.words();
        assert_eq!((words.narrow, words.wide), (0b110, 1 << 4));
        assert_eq!(format!("{floats:?}"), "Floats { f32: [4, 8], f64: [16] }");
        assert_eq!(crate::floats!(Mixed {}), Floats::none());
    }
}
