//! `unique` and `isin`: what keys there are, and which are among others.

use bytemuck::Pod;
use gpumap::Device;
use gpumap::primitives::UniqueOutputs;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::device::{gpu, opened, primitives};
use crate::dtype::Dtype;
use crate::error::exception;
use crate::incoming::{Incoming, Streams, Wanted};
use crate::pairs::{Origin, Place};
use crate::places::Places;
use crate::typed::{self, Answer, Change};
use crate::width::for_width;

/// The device that is asked for; without a name that of the keys, or else the best there is.
pub fn device_of(py: Python<'_>, name: Option<&str>, keys: &Incoming) -> PyResult<Device> {
    py.detach(|| match (name, keys.gpu()) {
        (None, Some(ordinal)) => gpu(ordinal),
        _ => opened(name),
    })
}

/// Which results are wanted beside the keys.
#[derive(Clone, Copy)]
struct Beside {
    inverse: bool,
    counts: bool,
    first: bool,
}

/// The different keys, and if requested their inverse, counts and first places: a tuple.
#[pyfunction]
pub fn unique<'py>(
    py: Python<'py>,
    keys: &Bound<'py, PyAny>,
    inverse: bool,
    counts: bool,
    first: bool,
    device: Option<&str>,
    stream: usize,
) -> PyResult<Bound<'py, PyTuple>> {
    let keys = Incoming::of(keys, Wanted::Keys, "the keys", stream)?;
    let device = device_of(py, device, &keys)?;
    keys.expect_on(&device)?;
    let beside = Beside {
        inverse,
        counts,
        first,
    };
    for_width!(keys.item, unique_of(py, &device, &keys, beside))
}

fn unique_of<'py, K: Pod + Send + Sync>(
    py: Python<'py>,
    device: &Device,
    keys: &Incoming,
    beside: Beside,
) -> PyResult<Bound<'py, PyTuple>> {
    let streams = Streams::new(device);
    let stream = keys.stream_of_answers(&streams)?;
    let n = keys.len();
    // The memory of the host where that is the device's.
    let on_device = device.is_cuda();
    let place = |is_wanted: bool| {
        let places = || Places::<u32>::at(py, on_device, &stream, Dtype::I32, n);
        is_wanted.then(places).transpose()
    };
    let mut different = Places::<K>::at(py, on_device, &stream, keys.item, n)?;
    let mut inverse = place(beside.inverse)?;
    let mut counts = place(beside.counts)?;
    let mut first = place(beside.first)?;
    let run = || {
        let items = keys.keys::<K>(&streams)?;
        let buffer = |places: &mut Option<Places<u32>>| {
            let places = places.as_mut();
            places.map(|places| places.buffer(&stream)).transpose()
        };
        let mut different = different.buffer(&stream)?;
        let mut inverse = buffer(&mut inverse)?;
        let mut counts = buffer(&mut counts)?;
        let mut first = buffer(&mut first)?;
        let mut outputs = UniqueOutputs::new().keys(&mut different);
        if let Some(inverse) = &mut inverse {
            outputs = outputs.inverse(inverse);
        }
        if let Some(counts) = &mut counts {
            outputs = outputs.counts(counts);
        }
        if let Some(first) = &mut first {
            outputs = outputs.first(first);
        }
        primitives(device).unique_into(&items, outputs)
    };
    let len = py.detach(run).map_err(exception)?;
    let to_host = !keys.is_on_device();
    let mut answers = vec![different.fitted(py, len, to_host)?];
    for (places, len) in [(inverse, n), (counts, len), (first, len)] {
        if let Some(places) = places {
            answers.push(places.fitted(py, len, to_host)?);
        }
    }
    PyTuple::new(py, answers)
}

/// For each key whether it is among others of the same type.
#[pyfunction]
pub fn isin(
    py: Python<'_>,
    keys: &Bound<'_, PyAny>,
    among: &Bound<'_, PyAny>,
    device: Option<&str>,
    stream: usize,
) -> Answer {
    let keys = Incoming::of(keys, Wanted::Keys, "the keys", stream)?;
    let among = Incoming::of(among, Wanted::Item(keys.item), "the others", stream)?;
    let at = if among.is_on_device() { &among } else { &keys };
    let device = device_of(py, device, at)?;
    let origin = Origin::New {
        capacity: among.len(),
        grows: true,
    };
    let place = Place::Device(device);
    let set = py.detach(|| typed::made(&place, origin, keys.item, None))?;
    set.change(py, Change::Insert, &among, None, false)?;
    set.contains(py, &keys)
}
