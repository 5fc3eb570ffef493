//! The types of keys, values and answers, by numpy's names of them.

use gpumap::Number;
use gpumap::file::Kind;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

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

    /// The one with this short name.
    pub fn named(name: &str) -> PyResult<Self> {
        let named = Self::ALL.into_iter().find(|dtype| dtype.name() == name);
        named.ok_or_else(|| {
            PyTypeError::new_err(format!(
                "{name:?} is no type of keys or values: use u32, i32, f32, u64, i64 or f64"
            ))
        })
    }

    /// The type of keys with this short name.
    pub fn of_keys(name: &str) -> PyResult<Self> {
        match Self::named(name)? {
            key if key.is_integer() => Ok(key),
            _ => Err(PyTypeError::new_err(format!(
                "{name:?} is no type of keys: use u32, i32, u64 or i64"
            ))),
        }
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

    /// What saved files call it.
    pub fn kind(self) -> Kind {
        let number = match self {
            Self::Bool | Self::U32 | Self::U64 => Number::Unsigned,
            Self::I32 | Self::I64 => Number::Signed,
            Self::F32 | Self::F64 => Number::Float,
        };
        Kind::Numbers(number, self.bytes() as u8)
    }

    /// Whether keys may be such numbers.
    pub fn is_integer(self) -> bool {
        matches!(self, Self::U32 | Self::I32 | Self::U64 | Self::I64)
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

/// A type of values that Rust has.
pub trait Element: bytemuck::Pod + Send + Sync {
    /// Reads one from a number of Python's.
    fn extract(number: &Bound<'_, PyAny>) -> PyResult<Self>;
}

macro_rules! elements {
    ($($t:ty)*) => {
        $(impl Element for $t {
            fn extract(number: &Bound<'_, PyAny>) -> PyResult<Self> {
                number.extract()
            }
        })*
    };
}
elements!(u32 i32 f32 u64 i64 f64);
