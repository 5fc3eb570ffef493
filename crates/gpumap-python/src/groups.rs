//! `group_by`: aggregates of columns by key, chosen by their names.

use bytemuck::Pod;
use gpumap::primitives::{Chosen, Grouping, NumbersMut, Primitives};
use gpumap::{Buffer, Device, Stream};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::dtype::Dtype;
use crate::error::exception;
use crate::incoming::{Incoming, Items, Streams, Wanted};
use crate::places::Places;
use crate::unique::device_of;
use crate::width::for_width;

/// What is asked of a column.
#[derive(Clone, Copy, PartialEq)]
enum What {
    Count,
    Sum,
    Min,
    Max,
    Mean,
}

/// One aggregate, and its column; a count has none.
struct Asked {
    what: What,
    column: Option<Incoming>,
}

impl Asked {
    fn of(name: &str, column: Option<&Bound<'_, PyAny>>, stream: usize) -> PyResult<Self> {
        let what = match name {
            "count" => What::Count,
            "sum" => What::Sum,
            "min" => What::Min,
            "max" => What::Max,
            "mean" => What::Mean,
            _ => {
                return Err(PyValueError::new_err(format!(
                    "{name:?} is no aggregate: use count, sum, min, max or mean"
                )));
            }
        };
        let column = match (what, column) {
            (What::Count, None) => None,
            (What::Count, Some(_)) => {
                return Err(PyValueError::new_err("a count has no column"));
            }
            (_, None) => {
                return Err(PyValueError::new_err(format!(
                    "{name} needs a column: pass ({name:?}, array)"
                )));
            }
            (_, Some(column)) => Some(Incoming::of(column, Wanted::Numbers, name, stream)?),
        };
        Ok(Self { what, column })
    }

    /// What its answers are.
    fn answers(&self) -> Dtype {
        let dtype = self.column.as_ref().map(|column| column.item.dtype);
        match (self.what, dtype) {
            (What::Min | What::Max, Some(dtype)) => dtype,
            (What::Sum, Some(Dtype::I32 | Dtype::I64)) => Dtype::I64,
            (What::Sum, Some(Dtype::F32 | Dtype::F64)) | (What::Mean, _) => Dtype::F64,
            _ => Dtype::U64,
        }
    }
}

/// Adds an aggregate of a column to those before.
fn ask<'a, K: Pod, N: gpumap::primitives::Element>(
    grouping: Grouping<'a, Primitives, K, Chosen>,
    what: What,
    column: &'a Items<'a, N>,
) -> Grouping<'a, Primitives, K, Chosen> {
    match what {
        What::Count => grouping.count(),
        What::Sum => grouping.sum(column),
        What::Min => grouping.min(column),
        What::Max => grouping.max(column),
        What::Mean => grouping.mean(column),
    }
}

/// For the types of numbers: columns, places for answers and buffers of these.
macro_rules! of_numbers {
    ($($name:ident: $t:ty),*) => {
        enum Column<'a> {
            $($name(Items<'a, $t>),)*
        }

        enum AnyPlaces {
            $($name(Places<$t>),)*
        }

        enum AnyBuffer {
            $($name(Buffer<$t>),)*
        }

        impl<'a> Column<'a> {
            fn of(column: &'a Incoming, streams: &Streams) -> gpumap::Result<Option<Self>> {
                Ok(match column.item.dtype {
                    $(Dtype::$name => Some(Self::$name(column.items(streams)?)),)*
                    Dtype::Bool => None,
                })
            }

            fn ask<'g, K: Pod>(
                &'g self,
                grouping: Grouping<'g, Primitives, K, Chosen>,
                what: What,
            ) -> Grouping<'g, Primitives, K, Chosen> {
                match self {
                    $(Self::$name(items) => ask(grouping, what, items),)*
                }
            }
        }

        impl AnyPlaces {
            fn at(
                py: Python<'_>,
                on_device: bool,
                stream: &Stream,
                dtype: Dtype,
                len: usize,
            ) -> PyResult<Self> {
                match dtype {
                    $(Dtype::$name => {
                        Places::at(py, on_device, stream, dtype, len).map(Self::$name)
                    })*
                    Dtype::Bool => Err(PyValueError::new_err("no answers are of bool")),
                }
            }

            fn buffer(&mut self, stream: &Stream) -> gpumap::Result<AnyBuffer> {
                Ok(match self {
                    $(Self::$name(places) => AnyBuffer::$name(places.buffer(stream)?),)*
                })
            }

            fn fitted(self, py: Python<'_>, len: usize, to_host: bool) -> PyResult<Py<PyAny>> {
                match self {
                    $(Self::$name(places) => places.fitted(py, len, to_host),)*
                }
            }
        }

        impl AnyBuffer {
            fn places(&mut self) -> NumbersMut<'_> {
                match self {
                    $(Self::$name(buffer) => NumbersMut::$name(buffer.into()),)*
                }
            }
        }
    };
}
of_numbers!(U32: u32, I32: i32, F32: f32, U64: u64, I64: i64, F64: f64);

/// The different keys, and a column for each aggregate: a tuple.
#[pyfunction]
pub fn group_by<'py>(
    py: Python<'py>,
    keys: &Bound<'py, PyAny>,
    asked: Vec<(String, Option<Bound<'py, PyAny>>)>,
    device: Option<&str>,
    stream: usize,
) -> PyResult<Bound<'py, PyTuple>> {
    let keys = Incoming::of(keys, Wanted::Keys, "the keys", stream)?;
    let device = device_of(py, device, &keys)?;
    keys.expect_on(&device)?;
    let asked = asked.iter().map(|(name, column)| {
        let asked = Asked::of(name, column.as_ref(), stream)?;
        asked
            .column
            .iter()
            .try_for_each(|column| column.expect_on(&device))?;
        Ok(asked)
    });
    let asked: Vec<Asked> = asked.collect::<PyResult<_>>()?;
    for_width!(keys.item, group(py, &device, &keys, &asked))
}

fn group<'py, K: Pod + Send + Sync>(
    py: Python<'py>,
    device: &Device,
    keys: &Incoming,
    asked: &[Asked],
) -> PyResult<Bound<'py, PyTuple>> {
    let streams = Streams::new(device);
    let stream = keys.stream_of_answers(&streams)?;
    let n = keys.len();
    // The memory of the host where that is the device's.
    let on_device = device.is_cuda();
    let mut different = Places::<K>::at(py, on_device, &stream, keys.item, n)?;
    let places = |asked: &Asked| AnyPlaces::at(py, on_device, &stream, asked.answers(), n);
    let mut places: Vec<_> = asked.iter().map(places).collect::<PyResult<_>>()?;
    let run = || {
        let items = keys.items::<K>(&streams)?;
        let mut columns = Vec::with_capacity(asked.len());
        for asked in asked {
            columns.push(match &asked.column {
                Some(column) => Column::of(column, &streams)?,
                None => None,
            });
        }
        let buffers = places.iter_mut().map(|places| places.buffer(&stream));
        let mut buffers: Vec<_> = buffers.collect::<gpumap::Result<_>>()?;
        let primitives = Primitives::new(device);
        let mut grouping = primitives.group_by(&items).chosen();
        for (asked, column) in asked.iter().zip(&columns) {
            grouping = match column {
                Some(column) => column.ask(grouping, asked.what),
                None => grouping.count(),
            };
        }
        let columns = buffers.iter_mut().map(AnyBuffer::places).collect();
        let mut different = different.buffer(&stream)?;
        grouping.run_into(&mut different, columns)
    };
    let len = py.detach(run).map_err(exception)?;
    let to_host = !keys.is_on_device();
    let mut answers = vec![different.fitted(py, len, to_host)?];
    for places in places {
        answers.push(places.fitted(py, len, to_host)?);
    }
    PyTuple::new(py, answers)
}
