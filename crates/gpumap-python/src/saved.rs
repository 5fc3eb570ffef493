//! What Python is told about saved files.

use std::fs::File;
use std::path::Path;

use gpumap::file::Header;
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;

/// Warns if a file that was loaded does not say the type of its keys: it is of an earlier version.
pub fn warn_of_unknown_types(py: Python<'_>, path: Option<&Path>) -> PyResult<()> {
    // A pipe is read once.
    let Some(path) = path.filter(|path| path.is_file()) else {
        return Ok(());
    };
    let header = File::open(path)
        .ok()
        .and_then(|mut file| Header::read(&mut file).ok());
    match header {
        Some(header) if header.key_kind.is_none() => PyErr::warn(
            py,
            &py.get_type::<PyUserWarning>(),
            c"the file is of an earlier version of gpumap, which does not say the type of the keys: it was not checked",
            2,
        ),
        _ => Ok(()),
    }
}
