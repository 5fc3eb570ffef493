//! The types of keys, values and answers, by numpy's names of them.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// The type of an array's elements.
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
    const ALL: [(Self, &str, &str); 7] = [
        (Self::Bool, "bool", "|b1"),
        (Self::U32, "u32", "<u4"),
        (Self::I32, "i32", "<i4"),
        (Self::F32, "f32", "<f4"),
        (Self::U64, "u64", "<u8"),
        (Self::I64, "i64", "<i8"),
        (Self::F64, "f64", "<f8"),
    ];

    /// The one with this short name.
    pub fn named(name: &str) -> PyResult<Self> {
        let named = Self::ALL.iter().find(|(_, its, _)| *its == name);
        named.map(|&(dtype, ..)| dtype).ok_or_else(|| {
            PyTypeError::new_err(format!(
                "{name:?} is no type of keys or values: use u32, i32, f32, u64, i64 or f64"
            ))
        })
    }

    fn row(self) -> (&'static str, &'static str) {
        let row = Self::ALL.iter().find(|(dtype, ..)| *dtype == self);
        row.map_or(("", ""), |&(_, name, typestr)| (name, typestr))
    }

    /// Its short name.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// What the array interfaces call it.
    pub fn typestr(self) -> &'static str {
        self.row().1
    }

    /// Bytes of an element.
    pub fn bytes(self) -> usize {
        match self {
            Self::Bool => 1,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
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

/// A type of elements that Rust has.
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
elements!(u8 u32 i32 f32 u64 i64 f64);
