//! Strings of the caller: lists and whatever else has `str` and `bytes`, and numpy's arrays of strings of one width. They are
//! copied one behind the other, while Python's lock is held. Those of Arrow lie so.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFrozenSet, PySet, PyString};

use crate::arrow::{self, Copied, Texts};
use crate::numpy;

/// The strings of a batch: the bytes of `bytes`, and those of `str` in UTF-8.
pub fn strings_of(batch: &Bound<'_, PyAny>) -> PyResult<Texts> {
    if batch.is_instance_of::<PyString>() || batch.is_instance_of::<PyBytes>() {
        return Err(PyTypeError::new_err(
            "this is a single string: pass a list of it",
        ));
    }
    if numpy::is_array(batch)?
        && let Some(strings) = of_numpy(batch)?
    {
        return Ok(Texts::Copied(strings));
    }
    if let Some(texts) = arrow::texts(batch)? {
        return Ok(texts);
    }
    numpy::expect_no_nulls(batch, "the strings")?;
    // Of arrays of numpy and pandas.
    let collected = match batch.getattr_opt(intern!(batch.py(), "tolist"))? {
        Some(method) => collected(&method.call0()?),
        None => collected(batch),
    };
    collected.map(Texts::Copied)
}

/// The strings of whatever has them one by one.
fn collected(batch: &Bound<'_, PyAny>) -> PyResult<Copied> {
    let mut strings = Copied::new();
    let name = batch.get_type().name()?;
    // What has an order: the answers have it too.
    let is_set = batch.is_instance_of::<PyDict>()
        || batch.is_instance_of::<PySet>()
        || batch.is_instance_of::<PyFrozenSet>();
    let none = || {
        let text = format!("the strings are of type {name}: pass an array or a list");
        PyTypeError::new_err(text)
    };
    if is_set {
        return Err(none());
    }
    let all = batch.try_iter();
    let all = all.map_err(
        |error| match error.is_instance_of::<PyTypeError>(batch.py()) {
            true => none(),
            false => error,
        },
    )?;
    for (i, string) in all.enumerate() {
        let string = string?;
        if let Ok(text) = string.cast::<PyString>() {
            let text = text.to_str().map_err(|_| surrogate(i))?;
            strings.push(text.as_bytes())?;
        } else if let Ok(bytes) = string.cast::<PyBytes>() {
            strings.push(bytes.as_bytes())?;
        } else {
            let name = string.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "string {i} is of type {name}, not str or bytes"
            )));
        }
    }
    Ok(strings)
}

/// Those of an array whose elements are strings of one width, with zeros behind shorter ones; nothing if it has others.
fn of_numpy(array: &Bound<'_, PyAny>) -> PyResult<Option<Copied>> {
    let py = array.py();
    let dimensions: usize = array.getattr(intern!(py, "ndim"))?.extract()?;
    if dimensions != 1 {
        return Err(PyValueError::new_err(format!(
            "the strings have {dimensions} dimensions; pass an array of one"
        )));
    }
    let dtype = array.getattr(intern!(py, "dtype"))?;
    let kind: char = dtype.getattr(intern!(py, "kind"))?.extract()?;
    let is_native: bool = dtype.getattr(intern!(py, "isnative"))?.extract()?;
    let width: usize = dtype.getattr(intern!(py, "itemsize"))?.extract()?;
    if !matches!((kind, is_native), ('S', _) | ('U', true)) {
        return Ok(None);
    }
    if width == 0 {
        return Copied::of((0..array.len()?).map(|_| &[][..])).map(Some);
    }
    // In the order of the elements, wherever they lie.
    let bytes = array.call_method0(intern!(py, "tobytes"))?;
    let bytes = bytes.cast::<PyBytes>()?.as_bytes();
    let elements = bytes.chunks_exact(width);
    if kind == 'S' {
        return Copied::of(elements.map(without_zeros)).map(Some);
    }
    let mut strings = Copied::new();
    let (mut text, mut points) = (String::new(), Vec::new());
    for (i, element) in elements.enumerate() {
        points.clear();
        points.extend(
            element
                .as_chunks()
                .0
                .iter()
                .copied()
                .map(u32::from_ne_bytes),
        );
        text.clear();
        for &point in without_zeros(&points) {
            let letter = char::from_u32(point);
            text.push(letter.ok_or_else(|| surrogate(i))?);
        }
        strings.push(text.as_bytes())?;
    }
    Ok(Some(strings))
}

fn surrogate(i: usize) -> PyErr {
    PyValueError::new_err(format!("string {i} has a surrogate, which UTF-8 has not"))
}

/// All but the zeros at the end.
fn without_zeros<T: PartialEq + Default>(element: &[T]) -> &[T] {
    let last = element.iter().rposition(|it| *it != T::default());
    &element[..last.map_or(0, |last| last + 1)]
}
