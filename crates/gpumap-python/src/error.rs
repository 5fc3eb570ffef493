//! Errors of the library as exceptions.

use gpumap::{Error, ErrorKind};
use pyo3::create_exception;
use pyo3::exceptions::{PyMemoryError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

create_exception!(
    gpumap_rs,
    GpumapError,
    PyRuntimeError,
    "An operation failed: a full or poisoned map, a missing GPU, an error of the driver."
);

/// The exception that Python expects of an error.
pub fn exception(error: Error) -> PyErr {
    let text = error.to_string();
    match error.kind() {
        ErrorKind::OutOfMemory => PyMemoryError::new_err(text),
        ErrorKind::InvalidInput => PyValueError::new_err(text),
        ErrorKind::File => PyOSError::new_err(text),
        _ => GpumapError::new_err(text),
    }
}
