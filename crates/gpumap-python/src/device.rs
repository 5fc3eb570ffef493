//! Devices by their names.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use gpumap::primitives::Primitives;
use gpumap::sharded::{self, GroupError, Ranks};
use gpumap::{Device, Error};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::exception;

/// How many GPUs there are.
#[pyfunction]
pub fn device_count() -> usize {
    Device::cuda_count()
}

/// GPUs that were used. They stay open, with their kernels, the memory that was freed, and the stream and scratch memory of
/// primitives: else a function such as `unique`, after which no map is left, would make all of it each time.
static OPEN: Mutex<Vec<(Device, Arc<Primitives>)>> = Mutex::new(Vec::new());

/// The device, which stays open if it is a GPU: by one handle, whose pinned memory serves all calls.
fn kept(device: Device) -> Device {
    match device.is_cuda() {
        true => primitives(&device).device().clone(),
        false => device,
    }
}

/// The primitives of a device: those that are kept, if it is a GPU.
pub fn primitives(device: &Device) -> Arc<Primitives> {
    let new = || Arc::new(Primitives::new(device));
    if !device.is_cuda() {
        return new();
    }
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, primitives)) = open.iter().find(|(open, _)| open == device) {
        return Arc::clone(primitives);
    }
    let primitives = new();
    open.push((device.clone(), Arc::clone(&primitives)));
    primitives
}

/// Closes GPUs that no map and no array uses.
#[pyfunction]
pub fn close_devices(py: Python<'_>) {
    py.detach(|| {
        let open = mem::take(&mut *OPEN.lock().unwrap_or_else(PoisonError::into_inner));
        // Not under the lock: it waits for the GPUs.
        drop(open);
    });
}

/// The GPU of this number.
pub fn gpu(ordinal: usize) -> PyResult<Device> {
    Device::cuda(ordinal).map(kept).map_err(exception)
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
    device.map(kept).map_err(exception)
}

/// The group of devices with these names; without any, that of all GPUs, or else the CPU.
pub fn group(names: &[String]) -> PyResult<Ranks> {
    let ranks = match names {
        [] => Ranks::best(),
        _ => sharded::devices(names.join(",")).and_then(|devices| Ranks::new(&devices)),
    };
    ranks.map_err(|error| match error {
        Error::Group(GroupError::DeviceList { .. }) => PyValueError::new_err(error.to_string()),
        other => exception(other),
    })
}

/// `cpu`, or `cuda:0`.
pub fn name_of(device: &Device) -> String {
    match device.ordinal() {
        Some(ordinal) => format!("cuda:{ordinal}"),
        None => "cpu".to_owned(),
    }
}
