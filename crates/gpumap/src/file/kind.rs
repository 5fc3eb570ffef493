//! [`Kind`]: what the bytes of keys and values are. A file says it, and a map of another kind refuses the file.

use std::any::TypeId;
use std::fmt;
use std::marker::PhantomData;

use crate::map::Number;

/// Bytes of the largest number.
const MOST_BYTES: u8 = 16;

/// What the bytes of a key or of a value are, beside how many there are.
///
/// ```
/// use gpumap::Number;
/// use gpumap::file::Kind;
///
/// assert_eq!(Kind::of::<i64>(), Kind::Numbers(Number::Signed, 8));
/// assert_eq!(Kind::of::<[f32; 3]>(), Kind::Numbers(Number::Float, 4));
/// assert_eq!(Kind::of::<[u8; 16]>(), Kind::Bytes); // a UUID, perhaps
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Bytes whose meaning only the program knows: a type of its own, or an array of `u8`. They fit every kind of the same
    /// size, and every kind fits them.
    Bytes,
    /// A number, or an array of numbers, of so many bytes each: 1, 2, 4, 8 or 16.
    Numbers(Number, u8),
}

impl Kind {
    /// That of a type: a primitive number, or an array of 1 to 64 of them, of which those of `u8` are bytes. All other types
    /// are bytes.
    pub fn of<T: 'static>() -> Self {
        Self::of_id(TypeId::of::<T>(), size_of::<T>())
    }

    fn of_id(id: TypeId, bytes: usize) -> Self {
        use Number::{Float, Signed, Unsigned};
        // The type, its number, and whether arrays of it are such numbers too.
        macro_rules! first {
            ($($number:ty: $kind:expr, $arrays:expr;)*) => {
                $(if id == TypeId::of::<$number>() || $arrays && is_array_of::<$number>(id, bytes) {
                    return Self::Numbers($kind, size_of::<$number>() as u8);
                })*
            };
        }
        first! {
            u8: Unsigned, false;
            u16: Unsigned, true;
            u32: Unsigned, true;
            u64: Unsigned, true;
            u128: Unsigned, true;
            usize: Unsigned, true;
            i8: Signed, true;
            i16: Signed, true;
            i32: Signed, true;
            i64: Signed, true;
            i128: Signed, true;
            isize: Signed, true;
            f32: Float, true;
            f64: Float, true;
        }
        Self::Bytes
    }

    /// Whether bytes of this kind may be taken as those of another one. Unsigned integers may be taken as smaller ones: a `u128`
    /// as `[u64; 2]`, the lower half first.
    pub fn fits(self, other: Self) -> bool {
        match (self, other) {
            (Self::Bytes, _) | (_, Self::Bytes) => true,
            (Self::Numbers(Number::Unsigned, _), Self::Numbers(Number::Unsigned, _)) => true,
            _ => self == other,
        }
    }

    /// As a byte of a header.
    pub(super) fn encode(self) -> u8 {
        match self {
            Self::Bytes => 0,
            Self::Numbers(number, bytes) => {
                let number = match number {
                    Number::Unsigned => 1,
                    Number::Signed => 2,
                    Number::Float => 3,
                };
                number | (bytes.trailing_zeros() as u8) << 4
            }
        }
    }

    /// That of a byte of a header, for a key or a value of so many bytes; none if it means nothing.
    pub(super) fn decode(byte: u8, of_bytes: usize) -> Option<Self> {
        let number = match byte & 0xf {
            0 => return (byte == 0).then_some(Self::Bytes),
            1 => Number::Unsigned,
            2 => Number::Signed,
            3 => Number::Float,
            _ => return None,
        };
        let bytes = 1_u8.checked_shl((byte >> 4).into())?;
        let is_whole = of_bytes != 0 && of_bytes.is_multiple_of(bytes.into());
        (bytes <= MOST_BYTES && is_whole).then_some(Self::Numbers(number, bytes))
    }

    /// The type that it is of so many bytes, as Rust writes it.
    pub(super) fn type_of(self, bytes: usize) -> TypeName {
        TypeName { kind: self, bytes }
    }
}

/// Whether a type of so many bytes is an array of 1 to 64 numbers of this type.
fn is_array_of<T: 'static>(id: TypeId, bytes: usize) -> bool {
    is_one_of(Arrays::<T>::BY_LEN, id, bytes / size_of::<T>())
}

fn is_one_of(arrays: &[TypeId], id: TypeId, len: usize) -> bool {
    len != 0 && arrays.get(len - 1) == Some(&id)
}

struct Arrays<T>(PhantomData<T>);

impl<T: 'static> Arrays<T> {
    /// The arrays of 1 to 64 elements. As data, it is smaller than code that compares with each.
    const BY_LEN: &'static [TypeId] = {
        macro_rules! each {
            ($($len:literal)*) => { &[$(TypeId::of::<[T; $len]>()),*] };
        }
        each! {
            1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
            33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64
        }
    };
}

/// A kind and a size: `u64`, `[f32; 3]`, `12 bytes`.
#[derive(Debug)]
pub(super) struct TypeName {
    kind: Kind,
    bytes: usize,
}

impl fmt::Display for TypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Kind::Numbers(number, bytes) = self.kind else {
            return write!(f, "{} bytes", self.bytes);
        };
        let letter = match number {
            Number::Unsigned => 'u',
            Number::Signed => 'i',
            Number::Float => 'f',
        };
        let bits = 8 * u32::from(bytes);
        match self.bytes / usize::from(bytes) {
            1 => write!(f, "{letter}{bits}"),
            many => write!(f, "[{letter}{bits}; {many}]"),
        }
    }
}

/// The kinds of a map's keys and values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kinds {
    pub key: Kind,
    pub value: Kind,
}

impl Kinds {
    /// Those that fit all.
    pub const ANY: Self = Self {
        key: Kind::Bytes,
        value: Kind::Bytes,
    };

    /// Those of such keys and values.
    pub fn of<K: 'static, V: 'static>() -> Self {
        Self {
            key: Kind::of::<K>(),
            value: Kind::of::<V>(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_types_read_back_and_have_names() {
        #[derive(Clone, Copy)]
        #[repr(transparent)]
        struct Id(u64);
        assert_eq!(Id(7).0, 7);
        macro_rules! expect {
            ($($t:ty => $name:literal;)*) => {
                $(
                    let (kind, bytes) = (Kind::of::<$t>(), size_of::<$t>());
                    assert_eq!(kind.type_of(bytes).to_string(), $name);
                    assert_eq!(Kind::decode(kind.encode(), bytes), Some(kind), $name);
                )*
            };
        }
        expect! {
            u8 => "u8";
            u32 => "u32";
            i32 => "i32";
            f32 => "f32";
            u64 => "u64";
            i64 => "i64";
            f64 => "f64";
            u128 => "u128";
            i128 => "i128";
            usize => "u64";
            [u32; 1] => "u32";
            [i32; 3] => "[i32; 3]";
            [f32; 64] => "[f32; 64]";
            [u64; 8] => "[u64; 8]";
            [u16; 2] => "[u16; 2]";
            [u8; 4] => "4 bytes";
            [u8; 64] => "64 bytes";
            Id => "8 bytes";
            [[f32; 2]; 2] => "16 bytes";
            () => "0 bytes";
        }
        for (byte, bytes) in [(1, 0), (0x10, 4), (4, 4), (0x51, 32), (0xf1, 4), (0x31, 12)] {
            assert_eq!(Kind::decode(byte, bytes), None, "{byte:#x} of {bytes}");
        }
    }

    #[test]
    fn only_the_kinds_of_numbers_refuse_each_other() {
        let kinds = [
            Kind::of::<u32>(),
            Kind::of::<i32>(),
            Kind::of::<f32>(),
            Kind::of::<u64>(),
        ];
        for one in kinds {
            assert!(one.fits(Kind::Bytes) && Kind::Bytes.fits(one));
            for other in kinds {
                let are_unsigned =
                    [one, other].map(|kind| matches!(kind, Kind::Numbers(Number::Unsigned, _)));
                assert_eq!(one.fits(other), one == other || are_unsigned == [true; 2]);
            }
        }
    }
}
