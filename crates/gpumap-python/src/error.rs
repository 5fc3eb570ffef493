//! Errors of the library as exceptions.

use gpumap::file::FileError;
use gpumap::sharded::GroupError;
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
    let text = words(&error);
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

/// What an error says to a program in Python: the remedy is by its own names.
fn words(error: &Error) -> String {
    match error {
        Error::NoDriver => {
            "no CUDA driver found: install an NVIDIA driver, or pass device=\"cpu\"".to_owned()
        }
        Error::NoDevice { ordinal, count } => format!(
            "no CUDA device {ordinal}: the driver shows {count}; pass another device, and check CUDA_VISIBLE_DEVICES"
        ),
        Error::UnsupportedDevice {
            name, major, minor, ..
        } => format!(
            "{name} has compute capability {major}.{minor}, and 7.0 or newer is needed: pass another device, or device=\"cpu\""
        ),
        Error::Full {
            len,
            slots,
            batch,
            growth: None,
            ..
        } => format!(
            "the map is full: a batch of {batch} pairs does not fit beside {len} pairs in {slots} slots; make it with a larger capacity, or with grows=True"
        ),
        Error::StreamIsCaptured => {
            "the stream is being captured into a CUDA graph: end the capture first, or pass another stream".to_owned()
        }
        Error::Group(GroupError::SameDevice { first, second, .. }) => {
            format!("ranks {first} and {second} have the same GPU: name each once")
        }
        Error::File {
            path: Some(path),
            cause,
        } => match words_of_file(cause) {
            Some(words) => format!("{}: {words}", path.display()),
            None => error.to_string(),
        },
        _ => error.to_string(),
    }
}

/// What is wrong with a file, where the library's remedy is not one of Python's.
fn words_of_file(cause: &FileError) -> Option<String> {
    Some(match cause {
        FileError::NotAMap => "is not a saved map: pass a file that save wrote".to_owned(),
        FileError::Multimap => {
            "has several pairs with one key, which no map of Python can have".to_owned()
        }
        FileError::RowBound { rows, most, .. } => format!(
            "has rows below {rows}, and load makes {most} at most for its keys: pass capacity={rows}, or call compact before it is saved"
        ),
        FileError::Slots {
            slots, pairs, most, ..
        } => format!(
            "asks for {slots} slots for {pairs} pairs, and load makes {most} at most: call shrink_to_fit before it is saved"
        ),
        _ => return None,
    })
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
