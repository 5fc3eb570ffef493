//! Errors of the library as exceptions.

use gpumap::file::FileError;
use gpumap::{Error, ErrorKind};
use pyo3::create_exception;
use pyo3::exceptions::{PyMemoryError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

create_exception!(
    gpumap_rs,
    GpumapError,
    PyRuntimeError,
    "An operation failed: see the classes that are derived from this; else an error of the driver, of a group or of a kernel."
);
create_exception!(
    gpumap_rs,
    FullError,
    GpumapError,
    "A map that does not grow has no room for a batch: remove pairs, or make it with more capacity."
);
create_exception!(
    gpumap_rs,
    BusyError,
    GpumapError,
    "Refused for the moment, by a graph capture, an iterator over chunks or the system: call again later."
);
create_exception!(
    gpumap_rs,
    PoisonedError,
    GpumapError,
    "A write failed half-way: clear() makes the map usable again."
);
create_exception!(
    gpumap_rs,
    DeviceError,
    GpumapError,
    "There is no such GPU, or none that can be used: install a driver, or use another device or the CPU."
);

/// The exception that Python expects of an error.
pub fn exception(error: Error) -> PyErr {
    let text = error.to_string();
    match error.kind() {
        ErrorKind::OutOfMemory => PyMemoryError::new_err(text),
        ErrorKind::InvalidInput => PyValueError::new_err(text),
        ErrorKind::File => match os_code(&error) {
            // With a code Python makes FileNotFoundError of it, PermissionError and so on.
            Some(code) => PyOSError::new_err((code, text)),
            None => PyOSError::new_err(text),
        },
        ErrorKind::Full => FullError::new_err(text),
        ErrorKind::Busy => BusyError::new_err(text),
        ErrorKind::Poisoned => PoisonedError::new_err(text),
        ErrorKind::NoDevice => DeviceError::new_err(text),
        _ => GpumapError::new_err(text),
    }
}

/// What the system calls the error of a file.
fn os_code(error: &Error) -> Option<i32> {
    match error {
        Error::File {
            cause: FileError::Io(cause),
            ..
        } => cause.raw_os_error(),
        _ => None,
    }
}
