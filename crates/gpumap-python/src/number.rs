//! Numbers of Python, which have no type of an array's elements yet: each becomes the value of a [`Dtype`] that equals it, or is
//! refused with [`InexactError`]. numpy is not asked for the type of a list: of integers beyond 2^63 it makes floats.

use std::fmt;

use pyo3::exceptions::{PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyFloat, PyInt, PyList, PyRange, PyTuple};
use pyo3::{create_exception, ffi, intern};

use crate::dtype::{Dtype, Element, Item};
use crate::numpy;

create_exception!(
    gpumap_rs,
    InexactError,
    PyValueError,
    "A number is none of a type's values: it is negative, too large or a fraction. Derived from ValueError."
);

/// A number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    Int(i64),
    /// Beyond the greatest `i64`.
    Large(u64),
    Float(f64),
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => number.fmt(f),
            Self::Large(number) => number.fmt(f),
            // As Python writes it: 1.0 is no integer.
            Self::Float(number) => write!(f, "{number:?}"),
        }
    }
}

impl Number {
    /// The integer that it is, if it is one.
    pub fn integer(self) -> Option<i128> {
        match self {
            Self::Int(number) => Some(number.into()),
            Self::Large(number) => Some(number.into()),
            // Beyond, floats are integers that no type has.
            Self::Float(number) if number.fract() == 0.0 && number.abs() < 1e30 => {
                Some(number as i128)
            }
            Self::Float(_) => None,
        }
    }

    /// The value of this type that equals it.
    fn exactly<T: Element>(self, what: &dyn fmt::Display) -> PyResult<T> {
        T::exactly(self).ok_or_else(|| inexact(what, self, T::DTYPE.name()))
    }
}

fn inexact(what: &dyn fmt::Display, number: impl fmt::Display, dtype: &str) -> PyErr {
    InexactError::new_err(format!("{what} is {number}, which is no value of {dtype}"))
}

/// The value of this type that a number of Python's equals; `what` names it in an error.
pub fn exactly<T: Element>(number: &Bound<'_, PyAny>, what: &str) -> PyResult<T> {
    match read(number)? {
        Read::Number(number, _) => number.exactly(&what),
        Read::Beyond => Err(inexact(&what, shown(number), T::DTYPE.name())),
        Read::Other => Err(no_number(&what, number)),
    }
}

/// What an object is.
enum Read {
    /// A number, and numpy's type of it if it is a scalar of numpy.
    Number(Number, Option<Dtype>),
    /// An integer that neither a type of integers nor a float has.
    Beyond,
    Other,
}

/// Reads an object. A `bool` is 1 or 0, as everywhere in Python.
fn read(object: &Bound<'_, PyAny>) -> PyResult<Read> {
    if let Ok(int) = object.cast::<PyInt>() {
        return of_int(int);
    }
    if let Ok(float) = object.cast::<PyFloat>() {
        return Ok(Read::Number(Number::Float(float.value()), None));
    }
    let py = object.py();
    if numpy::is_scalar(object)? {
        let dtype = object.getattr(intern!(py, "dtype"))?;
        let kind: char = dtype.getattr(intern!(py, "kind"))?.extract()?;
        // Times have an `item` too, and in nanoseconds it is an integer.
        if !matches!(kind, 'b' | 'i' | 'u' | 'f') {
            return Ok(Read::Other);
        }
        let typestr: String = dtype.getattr(intern!(py, "str"))?.extract()?;
        // Floats of more than 64 bits are no `float` then.
        let item = object.call_method0(intern!(py, "item"))?;
        return Ok(match numpy::is_scalar(&item)? {
            true => Read::Other,
            false => match read(&item)? {
                Read::Number(number, _) => Read::Number(number, Dtype::with_typestr(&typestr)),
                other => other,
            },
        });
    }
    // Integers of other libraries, as an element of a tensor.
    if object.hasattr(intern!(py, "__index__"))? {
        // SAFETY: the object is alive, and Python's lock is held.
        let index =
            unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyNumber_Index(object.as_ptr())) };
        if let Ok(index) = index {
            return of_int(index.cast::<PyInt>()?);
        }
    }
    Ok(Read::Other)
}

fn of_int(int: &Bound<'_, PyInt>) -> PyResult<Read> {
    let py = int.py();
    let mut overflow = 0;
    // SAFETY: it is an int, and Python's lock is held.
    let small = unsafe { ffi::PyLong_AsLongLongAndOverflow(int.as_ptr(), &raw mut overflow) };
    if overflow == 0 {
        return Ok(Read::Number(Number::Int(small), None));
    }
    if overflow > 0
        && let Ok(large) = int.extract::<u64>()
    {
        return Ok(Read::Number(Number::Large(large), None));
    }
    // SAFETY: the same.
    let float = unsafe { ffi::PyLong_AsDouble(int.as_ptr()) };
    // Beyond all floats.
    if PyErr::take(py).is_some() || !PyAnyMethods::eq(int.as_any(), PyFloat::new(py, float))? {
        return Ok(Read::Beyond);
    }
    Ok(Read::Number(Number::Float(float), None))
}

fn no_number(what: &dyn fmt::Display, object: &Bound<'_, PyAny>) -> PyErr {
    let name = object.get_type().name();
    let name = name.map_or_else(|_| "another type".to_owned(), |name| name.to_string());
    let shown = shown(object);
    PyTypeError::new_err(format!("{what} is {shown} of type {name}, and no number"))
}

/// An object as Python shows it, shortened.
fn shown(object: &Bound<'_, PyAny>) -> String {
    const MOST: usize = 40;
    let Ok(text) = object.repr() else {
        return "an object".to_owned();
    };
    let text = text.to_string_lossy().into_owned();
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// Where a number is in a list.
struct Place<'a> {
    what: &'a str,
    row: usize,
    /// In a row of several.
    column: Option<usize>,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, row, column } = self;
        match column {
            None => write!(f, "{what}: element {row}"),
            Some(column) => write!(f, "{what}: element [{row}, {column}]"),
        }
    }
}

/// The numbers of a list.
pub struct Numbers {
    numbers: Vec<Number>,
    /// How many rows there are.
    pub len: usize,
    /// How many numbers each has, if the list is one of lists.
    pub width: Option<usize>,
    /// The type of all, if they are numpy's.
    dtype: Option<Dtype>,
}

impl Numbers {
    /// Those of a number, a list, a tuple and whatever else has elements in an order; nothing if the object is none of these.
    ///
    /// `width` is that of rows: a list of numbers is one row then.
    pub fn of(list: &Bound<'_, PyAny>, width: Option<usize>, what: &str) -> PyResult<Option<Self>> {
        let mut all = Self {
            numbers: Vec::new(),
            len: 0,
            width: None,
            dtype: None,
        };
        if !is_list(list)? {
            if matches!(read(list)?, Read::Other) {
                return Ok(None);
            }
            all.push(list, what, 0, None)?;
            all.len = 1;
            return Ok(Some(all));
        }
        let first = list.try_iter()?.next().transpose()?;
        let has_rows = match &first {
            Some(first) => is_row(first)?,
            None => false,
        };
        if !has_rows {
            let len = all.push_each(list, what, |i| (i, None))?;
            // One row, or none.
            (all.len, all.width) = match width {
                Some(_) => (
                    usize::from(len != 0),
                    Some(len).filter(|&len| len != 0).or(width),
                ),
                None => (len, None),
            };
            return Ok(Some(all));
        }
        for (i, row) in list.try_iter()?.enumerate() {
            let row = row?;
            if !is_row(&row)? {
                let shown = shown(&row);
                return Err(PyValueError::new_err(format!(
                    "{what}: row {i} is {shown}, and row 0 a list"
                )));
            }
            let len = all.push_each(&row, what, |j| (i, Some(j)))?;
            let width = *all.width.get_or_insert(len);
            if len != width {
                return Err(PyValueError::new_err(format!(
                    "{what}: row {i} has {len} numbers, and row 0 has {width}"
                )));
            }
            all.len += 1;
        }
        Ok(Some(all))
    }

    /// Adds the numbers of a list, and returns how many there are.
    fn push_each(
        &mut self,
        list: &Bound<'_, PyAny>,
        what: &str,
        place: impl Fn(usize) -> (usize, Option<usize>),
    ) -> PyResult<usize> {
        let len = list.len()?;
        let room = self.numbers.try_reserve(len);
        room.map_err(|_| PyMemoryError::new_err(format!("{what}: no memory for {len} numbers")))?;
        let mut count = 0;
        for number in list.try_iter()? {
            let (row, column) = place(count);
            self.push(&number?, what, row, column)?;
            count += 1;
        }
        Ok(count)
    }

    fn push(
        &mut self,
        number: &Bound<'_, PyAny>,
        what: &str,
        row: usize,
        column: Option<usize>,
    ) -> PyResult<()> {
        let place = Place { what, row, column };
        match read(number)? {
            Read::Number(number, dtype) => {
                if self.numbers.is_empty() {
                    self.dtype = dtype;
                } else if self.dtype != dtype {
                    self.dtype = None;
                }
                self.numbers.push(number);
                Ok(())
            }
            Read::Beyond => Err(inexact(&place, shown(number), "any type")),
            Read::Other => Err(no_number(&place, number)),
        }
    }

    /// The type that has all of them: numpy's, if they are of one type there; else the type of integers, `i64` before `u64`; or `f64`,
    /// if there is a float.
    pub fn dtype(&self, what: &str) -> PyResult<Dtype> {
        if let Some(dtype) = self.dtype.filter(|&dtype| dtype != Dtype::Bool) {
            return Ok(dtype);
        }
        let has = |is: fn(&Number) -> bool| self.numbers.iter().find(|&number| is(number));
        let large = has(|number| matches!(number, Number::Large(_)));
        let negative = has(|number| matches!(number, Number::Int(..0)));
        if has(|number| matches!(number, Number::Float(_))).is_some() {
            return Ok(Dtype::F64);
        }
        match (large, negative) {
            (Some(large), Some(negative)) => Err(InexactError::new_err(format!(
                "{what}: no type of integers has both {negative} and {large}"
            ))),
            (Some(_), None) => Ok(Dtype::U64),
            _ => Ok(Dtype::I64),
        }
    }

    /// All as values of this type, which are items of this kind.
    pub fn values<T: Element>(&self, item: Item, what: &str) -> PyResult<Vec<T>> {
        let mut values = Vec::new();
        let room = values.try_reserve_exact(self.numbers.len());
        room.map_err(|_| {
            let len = self.numbers.len();
            PyMemoryError::new_err(format!("{what}: no memory for {len} numbers"))
        })?;
        for (i, number) in self.numbers.iter().enumerate() {
            let (row, column) = match item.width.filter(|&width| width != 0) {
                Some(width) => (i / width, Some(i % width)),
                None => (i, None),
            };
            values.push(number.exactly(&Place { what, row, column })?);
        }
        Ok(values)
    }
}

/// Whether an element of a list has numbers itself.
fn is_row(element: &Bound<'_, PyAny>) -> PyResult<bool> {
    // An array of no dimension is one number.
    Ok(is_list(element)?
        || numpy::is_array(element)? && !numpy::described(element)?.shape.is_empty())
}

/// Whether an object has elements in an order: a list, a tuple, a range, another `Sequence` except strings and bytes, or a view of a
/// dictionary.
fn is_list(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    static LISTS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    if object.is_instance_of::<PyList>()
        || object.is_instance_of::<PyTuple>()
        || object.is_instance_of::<PyRange>()
    {
        return Ok(true);
    }
    if object.is_instance_of::<PyInt>() || object.is_instance_of::<PyFloat>() {
        return Ok(false);
    }
    let py = object.py();
    let lists = LISTS.get_or_try_init(py, || {
        let arrays = py.import("gpumap_rs._arrays")?;
        PyResult::Ok(arrays.getattr("is_list")?.unbind())
    })?;
    lists.bind(py).call1((object,))?.extract()
}
