//! Devices by their names.

use gpumap::Device;
use gpumap::sharded::{self, Ranks};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::exception;

/// How many GPUs there are.
#[pyfunction]
pub fn device_count() -> usize {
    Device::cuda_count()
}

/// The device with this name; without one the best there is.
pub fn opened(name: Option<&str>) -> PyResult<Device> {
    let device = match name {
        None => Device::best(),
        Some("cpu") => Ok(Device::cpu()),
        Some("cuda") => Device::cuda(0),
        Some(name) => {
            let number = name.strip_prefix("cuda:").and_then(|n| n.parse().ok());
            Device::cuda(number.ok_or_else(|| {
                PyValueError::new_err(format!("{name:?} is no device: use cpu, cuda or cuda:1"))
            })?)
        }
    };
    device.map_err(exception)
}

/// The group of devices with these names; without any, that of all GPUs, or else the CPU.
pub fn group(names: &[String]) -> PyResult<Ranks> {
    let ranks = match names {
        [] => Ranks::best(),
        _ => sharded::devices(names.join(",")).and_then(|devices| Ranks::new(&devices)),
    };
    ranks.map_err(exception)
}

/// `cpu`, or `cuda:0`.
pub fn name_of(device: &Device) -> String {
    match device.ordinal() {
        Some(ordinal) => format!("cuda:{ordinal}"),
        None => "cpu".to_owned(),
    }
}
