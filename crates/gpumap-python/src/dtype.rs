//! The types of keys, values and answers, by numpy's names of them.

use bytemuck::Pod;
use gpumap::Number as NumberKind;
use gpumap::file::Kind;
use gpumap::primitives::Floats;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::number::Number;

/// The type of an array's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// One byte, 1 or 0, which is numpy's `bool`.
    Bool,
    U32,
    I32,
    F32,
    U64,
    I64,
    F64,
}

impl Dtype {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::Bool,
        Self::U32,
        Self::I32,
        Self::F32,
        Self::U64,
        Self::I64,
        Self::F64,
    ];

    /// The one of keys or values with this short name.
    pub fn named(name: &str) -> PyResult<Self> {
        let named = Self::ALL.into_iter().find(|dtype| dtype.name() == name);
        let named = named.filter(|&dtype| dtype != Self::Bool);
        named.ok_or_else(|| {
            PyTypeError::new_err(format!(
                "{name:?} is no type of keys or values: use u32, i32, f32, u64, i64 or f64"
            ))
        })
    }

    /// The one that the array interfaces call so.
    pub fn with_typestr(typestr: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|dtype| dtype.typestr() == typestr)
    }

    /// Its short name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::F32 => "f32",
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::F64 => "f64",
        }
    }

    /// What the array interfaces call it.
    pub fn typestr(self) -> &'static str {
        match self {
            Self::Bool => "|b1",
            Self::U32 => "<u4",
            Self::I32 => "<i4",
            Self::F32 => "<f4",
            Self::U64 => "<u8",
            Self::I64 => "<i8",
            Self::F64 => "<f8",
        }
    }

    /// Bytes of a number.
    pub fn bytes(self) -> usize {
        match self {
            Self::Bool => 1,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// How the library reads its bits.
    pub fn number(self) -> NumberKind {
        match self {
            Self::Bool | Self::U32 | Self::U64 => NumberKind::Unsigned,
            Self::I32 | Self::I64 => NumberKind::Signed,
            Self::F32 | Self::F64 => NumberKind::Float,
        }
    }

    /// What saved files call it.
    pub fn kind(self) -> Kind {
        Kind::Numbers(self.number(), self.bytes() as u8)
    }

    /// Which words of a key of such numbers are floats.
    pub fn floats<K: Pod>(self) -> Floats<K> {
        match self {
            Self::F32 => Floats::all_f32(),
            Self::F64 => Floats::all_f64(),
            _ => Floats::none(),
        }
    }

    /// `DLDataType`: the code of the kind of numbers.
    pub fn dlpack_code(self) -> u8 {
        match self {
            Self::I32 | Self::I64 => 0,
            Self::U32 | Self::U64 => 1,
            Self::F32 | Self::F64 => 2,
            Self::Bool => 6,
        }
    }
}

/// What one key, value or answer is: a number, or a row of so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    pub dtype: Dtype,
    pub width: Option<usize>,
}

impl Item {
    /// Bytes of one.
    pub fn bytes(self) -> usize {
        self.dtype.bytes().saturating_mul(self.width.unwrap_or(1))
    }
}

impl From<Dtype> for Item {
    fn from(dtype: Dtype) -> Self {
        Self { dtype, width: None }
    }
}

/// The type of keys that are numbers, or of the numbers of keys that have so many.
#[derive(FromPyObject)]
pub enum KeyType {
    Number(String),
    Row(String, usize),
}

impl KeyType {
    /// What one key is.
    pub fn item(&self) -> PyResult<Item> {
        let (name, width) = match self {
            Self::Number(name) => (name, None),
            Self::Row(name, width) => (name, Some(*width)),
        };
        let dtype = Dtype::named(name)?;
        Ok(Item { dtype, width })
    }
}

/// A type of numbers that Rust has.
pub trait Element: Pod + Send + Sync {
    const DTYPE: Dtype;

    /// The value that equals a number of Python's. A float that a type of floats has not is rounded, as everywhere; an integer is not.
    fn exactly(number: Number) -> Option<Self>;
}

macro_rules! integers {
    ($($t:ident $dtype:ident),*) => {
        $(impl Element for $t {
            const DTYPE: Dtype = Dtype::$dtype;

            fn exactly(number: Number) -> Option<Self> {
                number.integer()?.try_into().ok()
            }
        })*
    };
}
integers!(u32 U32, i32 I32, u64 U64, i64 I64);

macro_rules! floats {
    ($($t:ident $dtype:ident),*) => {
        $(impl Element for $t {
            const DTYPE: Dtype = Dtype::$dtype;

            fn exactly(number: Number) -> Option<Self> {
                if let Number::Float(number) = number {
                    let rounded = number as $t;
                    return (rounded.is_finite() || !number.is_finite()).then_some(rounded);
                }
                let integer = number.integer()?;
                let float = integer as $t;
                (float as i128 == integer).then_some(float)
            }
        })*
    };
}
floats!(f32 F32, f64 F64);

/// Calls a generic function for numbers of this type.
macro_rules! for_number {
    ($dtype:expr, $function:ident::<_ $(, $more:ty)?> $arguments:tt) => {
        match $dtype {
            Dtype::U32 => $function::<u32 $(, $more)?> $arguments,
            Dtype::I32 => $function::<i32 $(, $more)?> $arguments,
            Dtype::F32 => $function::<f32 $(, $more)?> $arguments,
            Dtype::U64 => $function::<u64 $(, $more)?> $arguments,
            Dtype::I64 => $function::<i64 $(, $more)?> $arguments,
            Dtype::F64 => $function::<f64 $(, $more)?> $arguments,
            Dtype::Bool => Err(pyo3::exceptions::PyTypeError::new_err(
                "numbers are not of bool: use u32, i32, f32, u64, i64 or f64",
            )),
        }
    };
}
pub(crate) use for_number;
