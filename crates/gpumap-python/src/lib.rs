//! The native part of the Python package `gpumap_rs`. Arrays come and go by their interfaces, without a copy; the part in
//! Python (`python/gpumap_rs`) turns lists into arrays, and has the documentation.

mod array;
mod dlpack;
mod dtype;
mod error;
mod maps;
mod typed;

use pyo3::prelude::*;

/// Maps and sets in the memory of a GPU, or of the CPU.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::array::Array;
    #[pymodule_export]
    use crate::error::GpumapError;
    #[pymodule_export]
    use crate::maps::{Map, Set, device_count};
}
