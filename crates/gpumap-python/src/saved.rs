//! What Python is told about saved files.

use std::fs::File;
use std::path::Path;

use bytemuck::Pod;
use gpumap::Device;
use gpumap::file::Header;
use gpumap::primitives::Floats;
use pyo3::exceptions::{PyOSError, PyUserWarning};
use pyo3::prelude::*;

use crate::device::primitives;
use crate::error::exception;

/// How many keys are looked at together.
pub const CHUNK: usize = 1 << 20;

/// Refuses a file with a zero or a NaN that keys of a batch never have ([`Incoming::keys`](crate::incoming::Incoming::keys)): no
/// lookup would find it. `give` gives all keys to a closure, some at a time, until that returns false.
pub fn expect_one_zero_and_nan<K: Pod>(
    path: &Path,
    floats: Floats<K>,
    give: impl FnOnce(&mut dyn FnMut(&[K]) -> bool) -> gpumap::Result<()>,
) -> PyResult<()> {
    if floats == Floats::none() {
        return Ok(());
    }
    let host = primitives(&Device::cpu());
    let mut are_normal = Ok(true);
    give(&mut |keys| {
        let normal = host.normalize_floats(&floats.of(keys));
        let same = |normal: Vec<K>| {
            bytemuck::cast_slice::<K, u8>(keys) == bytemuck::cast_slice::<K, u8>(&normal)
        };
        are_normal = normal.map(same);
        matches!(are_normal, Ok(true))
    })
    .map_err(exception)?;
    match are_normal.map_err(exception)? {
        true => Ok(()),
        false => Err(PyOSError::new_err(format!(
            "{}: has a key that is -0.0, or a NaN with a sign or a payload, which no key of floats is here: let the program that saved it \
             make its keys one zero and one NaN (normalize_floats)",
            path.display()
        ))),
    }
}

/// Warns if a file that was loaded does not say the type of its keys: it is of an earlier version.
pub fn warn_of_unknown_types(py: Python<'_>, path: &Path) -> PyResult<()> {
    // A pipe is read once.
    if !path.is_file() {
        return Ok(());
    }
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
