//! `StringRowMap` as Python sees it.

use std::path::PathBuf;

use gpumap::strings::Strings;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::chunks::copied;
use crate::device::{name_of, opened};
use crate::dtype::Dtype;
use crate::error::exception;
use crate::places::Places;
use crate::texts::strings_of;
use crate::typed::{Answer, pair};

/// A row map of strings; see `gpumap_rs.StringRowMap`. Rows are `i32`, of which -1 is that of an absent string.
#[pyclass(frozen, module = "gpumap_rs._native")]
pub struct StringRowMap {
    map: gpumap::RowMap<[u8]>,
}

#[pymethods]
impl StringRowMap {
    #[new]
    fn new(
        py: Python<'_>,
        capacity: usize,
        bytes: usize,
        device: Option<&str>,
        path: Option<PathBuf>,
    ) -> PyResult<Self> {
        let map = py.detach(|| {
            let builder = gpumap::RowMap::<[u8]>::builder(&opened(device)?);
            let builder = builder.capacity(capacity).bytes(bytes);
            let map = match path {
                Some(path) => builder.load(path),
                None => builder.build(),
            };
            map.map_err(exception)
        })?;
        Ok(Self { map })
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        py.detach(|| self.map.len())
    }

    #[getter]
    fn row_bound(&self, py: Python<'_>) -> usize {
        py.detach(|| self.map.row_bound())
    }

    #[getter]
    fn capacity(&self, py: Python<'_>) -> usize {
        py.detach(|| self.map.capacity())
    }

    #[getter]
    fn byte_capacity(&self, py: Python<'_>) -> usize {
        py.detach(|| self.map.byte_capacity())
    }

    #[getter]
    fn device(&self) -> String {
        name_of(self.map.device())
    }

    fn byte_len(&self, py: Python<'_>) -> PyResult<usize> {
        py.detach(|| self.map.byte_len()).map_err(exception)
    }

    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.map.clear()).map_err(exception)
    }

    fn reserve(&self, py: Python<'_>, more: usize, bytes: usize) -> PyResult<()> {
        py.detach(|| self.map.reserve_bytes(more, bytes))
            .map_err(exception)
    }

    fn shrink_to_fit(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.map.shrink_to_fit()).map_err(exception)
    }

    fn trim(&self, py: Python<'_>) {
        py.detach(|| self.map.trim());
    }

    /// The row of each string, and if requested which are first occurrences of new ones.
    fn insert(&self, py: Python<'_>, strings: &Bound<'_, PyAny>, outcomes: bool) -> Answer {
        let strings = strings_of(strings)?;
        let len = strings.len();
        let mut rows = Places::<u32>::on_host(py, Dtype::I32, len)?;
        let new = || Places::<u8>::on_host(py, Dtype::Bool, len);
        let mut new = outcomes.then(new).transpose()?;
        py.detach(|| match &mut new {
            Some(new) => self.map.insert_with_outcome_into(&strings, &mut rows, new),
            None => self.map.insert_into(&strings, &mut rows),
        })
        .map_err(exception)?;
        let rows = rows.answer(py, len)?;
        match new {
            None => Ok(rows),
            Some(new) => pair(py, rows, new.answer(py, len)?),
        }
    }

    /// The row of each string, or -1.
    fn get(&self, py: Python<'_>, strings: &Bound<'_, PyAny>) -> Answer {
        let strings = strings_of(strings)?;
        let mut rows = Places::<u32>::on_host(py, Dtype::I32, strings.len())?;
        py.detach(|| self.map.get_into(&strings, &mut rows))
            .map_err(exception)?;
        rows.answer(py, strings.len())
    }

    fn remove(&self, py: Python<'_>, strings: &Bound<'_, PyAny>) -> PyResult<usize> {
        let strings = strings_of(strings)?;
        py.detach(|| self.map.remove(&strings)).map_err(exception)
    }

    fn keys(&self, py: Python<'_>, raw: bool) -> Answer {
        let strings = py.detach(|| self.map.keys()).map_err(exception)?;
        list(py, &strings, raw)
    }

    fn retrieve_all(&self, py: Python<'_>, raw: bool) -> Answer {
        let all = py.detach(|| self.map.retrieve_all());
        let (strings, rows) = all.map_err(exception)?;
        pair(py, list(py, &strings, raw)?, copied(py, &rows, Dtype::I32)?)
    }

    /// Where each string begins, and where the last one ends, and the bytes of all.
    fn key_columns(&self, py: Python<'_>) -> Answer {
        let strings = py.detach(|| self.map.keys()).map_err(exception)?;
        let bytes = bytes_of(py, strings.bytes())?.into_any().unbind();
        pair(py, copied(py, strings.offsets(), Dtype::I64)?, bytes)
    }

    /// The row that each string had, in the order of its new one.
    fn compact(&self, py: Python<'_>) -> Answer {
        let old = py.detach(|| self.map.compact()).map_err(exception)?;
        copied(py, &old, Dtype::I32)
    }

    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<u64> {
        py.detach(|| self.map.save(&path)).map_err(exception)
    }
}

/// Strings as a list of `bytes`, or of `str`.
fn list(py: Python<'_>, strings: &Strings, raw: bool) -> Answer {
    // One by one: each of these says what it has no memory for, and a list of a known length would panic.
    let list = PyList::empty(py);
    for (i, bytes) in strings.iter().enumerate() {
        if raw {
            list.append(bytes_of(py, bytes)?)?;
            continue;
        }
        if str::from_utf8(bytes).is_err() {
            return Err(PyValueError::new_err(format!(
                "string {i} is not UTF-8: pass raw=True for bytes"
            )));
        }
        list.append(PyString::from_bytes(py, bytes)?)?;
    }
    Ok(list.into_any().unbind())
}

/// Bytes as `bytes`, where there is memory for them.
fn bytes_of<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, bytes.len(), |places| {
        places.copy_from_slice(bytes);
        Ok(())
    })
}
