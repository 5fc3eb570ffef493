//! The native part of the Python package `gpumap_rs`. Arrays come and go by their interfaces, without a copy; the part in
//! Python (`python/gpumap_rs`) turns lists into arrays, and has the documentation.

mod array;
mod arrow;
mod chunks;
mod device;
mod dlpack;
mod dtype;
mod error;
mod gate;
mod groups;
mod incoming;
mod joins;
mod maps;
mod number;
mod numpy;
mod pairs;
mod places;
mod rows;
mod saved;
mod sorts;
mod string_rows;
mod texts;
mod typed;
mod unique;
mod width;

use pyo3::prelude::*;

/// Maps and sets in the memory of a GPU, or of the CPU.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::array::Array;
    #[pymodule_export]
    use crate::chunks::Chunks;
    #[pymodule_export]
    use crate::device::{close_devices, device_count};
    #[pymodule_export]
    use crate::error::{BusyError, DeviceError, FullError, GpumapError, PoisonedError};
    #[pymodule_export]
    use crate::groups::{GroupBy, group_by};
    #[pymodule_export]
    use crate::joins::JoinTable;
    #[pymodule_export]
    use crate::maps::{Map, Set};
    #[pymodule_export]
    use crate::number::InexactError;
    #[pymodule_export]
    use crate::rows::RowMap;
    #[pymodule_export]
    use crate::sorts::{sort, top_k};
    #[pymodule_export]
    use crate::string_rows::StringRowMap;
    #[pymodule_export]
    use crate::unique::{isin, unique};
}
