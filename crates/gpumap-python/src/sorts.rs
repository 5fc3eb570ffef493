//! `sort` and `top_k`: numbers in their order, and what belongs to them.

use bytemuck::Pod;
use gpumap::primitives::{Direction, Element as Number};
use gpumap::{Device, Stream, Value};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::device::primitives;
use crate::dtype::{Dtype, for_number};
use crate::error::exception;
use crate::incoming::{Incoming, Streams, Wanted};
use crate::places::Places;
use crate::typed::Answer;
use crate::unique::device_of;

/// An array of the caller, and where the work on it is done.
struct Work {
    numbers: Incoming,
    streams: Streams,
    /// That answers are ordered by.
    stream: Stream,
}

impl Work {
    fn new(numbers: &Bound<'_, PyAny>, device: Option<&str>, stream: usize) -> PyResult<Self> {
        let py = numbers.py();
        let numbers = Incoming::of(numbers, Wanted::Numbers, "the numbers", stream)?;
        let device = device_of(py, device, &numbers)?;
        numbers.expect_on(&device)?;
        let streams = Streams::new(&device);
        let stream = numbers.stream_of_answers(&streams)?;
        Ok(Self {
            numbers,
            streams,
            stream,
        })
    }

    fn device(&self) -> &Device {
        &self.streams.device
    }

    /// So many places, in the memory of the host where that is the device's.
    fn places<T: Pod + Send + Sync>(
        &self,
        py: Python<'_>,
        dtype: Dtype,
        len: usize,
    ) -> PyResult<Places<T>> {
        Places::at(py, self.device().is_cuda(), &self.stream, dtype, len)
    }

    /// What Python gets of them: where the numbers are.
    fn answer<T: Pod + Send + Sync>(
        &self,
        py: Python<'_>,
        places: Places<T>,
        len: usize,
    ) -> Answer {
        places.fitted(py, len, !self.numbers.is_on_device())
    }
}

/// The numbers in their order, and if there are some what belongs to them: a tuple.
#[pyfunction]
pub fn sort<'py>(
    py: Python<'py>,
    numbers: &Bound<'py, PyAny>,
    values: Option<&Bound<'py, PyAny>>,
    descending: bool,
    device: Option<&str>,
    stream: usize,
) -> PyResult<Bound<'py, PyTuple>> {
    let work = Work::new(numbers, device, stream)?;
    let of = |values| Incoming::of(values, Wanted::Numbers, "the values", stream);
    let values = values.map(of).transpose()?;
    let direction = match descending {
        true => Direction::Descending,
        false => Direction::Ascending,
    };
    let dtype = work.numbers.item.dtype;
    let Some(values) = values else {
        return for_number!(dtype, sorted::<_>(py, &work, direction));
    };
    values.expect_on(work.device())?;
    // What belongs to numbers is only moved.
    match values.item.bytes() {
        4 => for_number!(dtype, sorted_pairs::<_, u32>(py, &work, &values, direction)),
        _ => for_number!(dtype, sorted_pairs::<_, u64>(py, &work, &values, direction)),
    }
}

fn sorted<'py, T: Number>(
    py: Python<'py>,
    work: &Work,
    direction: Direction,
) -> PyResult<Bound<'py, PyTuple>> {
    let Work {
        numbers,
        streams,
        stream,
    } = work;
    let n = numbers.len();
    let mut sorted = work.places::<T>(py, numbers.item.dtype, n)?;
    let run = || {
        let numbers = numbers.items::<T>(streams)?;
        primitives(work.device()).sort_into(&numbers, direction, &mut sorted.buffer(stream)?)
    };
    py.detach(run).map_err(exception)?;
    PyTuple::new(py, [work.answer(py, sorted, n)?])
}

fn sorted_pairs<'py, T: Number, V: Value>(
    py: Python<'py>,
    work: &Work,
    values: &Incoming,
    direction: Direction,
) -> PyResult<Bound<'py, PyTuple>> {
    let Work {
        numbers,
        streams,
        stream,
    } = work;
    let n = numbers.len();
    let mut sorted = work.places::<T>(py, numbers.item.dtype, n)?;
    let mut beside = work.places::<V>(py, values.item.dtype, n)?;
    let run = || {
        let numbers = numbers.items::<T>(streams)?;
        let values = values.items::<V>(streams)?;
        primitives(work.device()).sort_pairs_into(
            &numbers,
            &values,
            direction,
            &mut sorted.buffer(stream)?,
            &mut beside.buffer(stream)?,
        )
    };
    py.detach(run).map_err(exception)?;
    PyTuple::new(
        py,
        [work.answer(py, sorted, n)?, work.answer(py, beside, n)?],
    )
}

/// The greatest numbers, and where they are.
#[pyfunction]
pub fn top_k<'py>(
    py: Python<'py>,
    numbers: &Bound<'py, PyAny>,
    k: usize,
    device: Option<&str>,
    stream: usize,
) -> PyResult<Bound<'py, PyTuple>> {
    let work = Work::new(numbers, device, stream)?;
    if i32::try_from(work.numbers.len()).is_err() {
        return Err(PyValueError::new_err(format!(
            "there are {} numbers: places are i32, so pass up to 2^31 - 1",
            work.numbers.len()
        )));
    }
    for_number!(work.numbers.item.dtype, greatest::<_>(py, &work, k))
}

fn greatest<'py, T: Number>(
    py: Python<'py>,
    work: &Work,
    k: usize,
) -> PyResult<Bound<'py, PyTuple>> {
    let Work {
        numbers,
        streams,
        stream,
    } = work;
    let k = k.min(numbers.len());
    let mut greatest = work.places::<T>(py, numbers.item.dtype, k)?;
    let mut places = work.places::<u32>(py, Dtype::I32, k)?;
    let run = || {
        let numbers = numbers.items::<T>(streams)?;
        let mut greatest = greatest.buffer(stream)?;
        let mut places = places.buffer(stream)?;
        primitives(work.device()).top_k_into(&numbers, k, &mut greatest, &mut places)
    };
    py.detach(run).map_err(exception)?;
    PyTuple::new(
        py,
        [work.answer(py, greatest, k)?, work.answer(py, places, k)?],
    )
}
