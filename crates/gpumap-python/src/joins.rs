//! `join` and `JoinTable`: the row numbers of two arrays of keys that are equal.

use bytemuck::Pod;
use gpumap::Device;
use gpumap::primitives::JoinTable as Native;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::dtype::{Dtype, Item};
use crate::error::exception;
use crate::incoming::{Incoming, Streams, Wanted};
use crate::places::{self, Places};
use crate::typed::Answer;
use crate::unique::device_of;
use crate::width::for_width;

/// Which rows are wanted.
#[derive(Clone, Copy, PartialEq)]
enum How {
    Inner,
    Left,
    Semi,
    Anti,
}

impl How {
    fn named(name: &str) -> PyResult<Self> {
        match name {
            "inner" => Ok(Self::Inner),
            "left" => Ok(Self::Left),
            "semi" => Ok(Self::Semi),
            "anti" => Ok(Self::Anti),
            _ => Err(PyValueError::new_err(format!(
                "{name:?} is no kind of join: use inner, left, semi or anti"
            ))),
        }
    }

    /// Whether there are rows of the build side beside those of the probe side.
    fn has_right(self) -> bool {
        matches!(self, Self::Inner | Self::Left)
    }
}

/// Places for row numbers of both sides.
struct Rows {
    left: Places<u32>,
    right: Option<Places<u32>>,
}

/// A table of keys of any size.
trait Probed: Send + Sync {
    fn join(&self, py: Python<'_>, left: &Incoming, how: How, streams: &Streams) -> Answer;
    fn len(&self) -> usize;
    fn distinct(&self) -> usize;
    fn trim(&self);
}

impl<K: Pod + Send + Sync> Probed for Native<K> {
    fn join(&self, py: Python<'_>, left: &Incoming, how: How, streams: &Streams) -> Answer {
        let stream = left.stream_of_answers(streams)?;
        let to_host = !left.is_on_device();
        let places = |room: usize| {
            let new = || Places::at(py, !to_host, &stream, Dtype::I32, room);
            Ok(Rows {
                left: new()?,
                right: how.has_right().then(new).transpose()?,
            })
        };
        let into = |Rows { left: to, right }: &mut Rows| {
            let keys = left.keys::<K>(streams)?;
            let join = self.join(&keys);
            match (how, right) {
                (How::Inner, Some(right)) => join.inner_into(to, right),
                (How::Left, Some(right)) => join.left_into(to, right),
                (How::Anti, _) => join.anti_into(to),
                _ => join.semi_into(to),
            }
        };
        let (rows, len) = places::dump(py, left.len(), places, into)?;
        let left = rows.left.fitted(py, len, to_host)?;
        match rows.right {
            None => Ok(left),
            Some(right) => crate::typed::pair(py, left, right.fitted(py, len, to_host)?),
        }
    }

    fn len(&self) -> usize {
        Self::len(self)
    }

    fn distinct(&self) -> usize {
        Self::distinct(self)
    }

    fn trim(&self) {
        Self::trim(self);
    }
}

/// The build side of joins.
#[pyclass(frozen, module = "gpumap_rs._native")]
pub struct JoinTable {
    table: Box<dyn Probed>,
    key: Item,
    streams: Streams,
}

#[pymethods]
impl JoinTable {
    #[new]
    fn new(
        py: Python<'_>,
        right: &Bound<'_, PyAny>,
        device: Option<&str>,
        stream: usize,
    ) -> PyResult<Self> {
        let right = Incoming::of(right, Wanted::Keys, "the keys", stream)?;
        let device = device_of(py, device, &right)?;
        Self::of(py, &device, &right)
    }

    #[getter]
    fn device(&self) -> String {
        crate::device::name_of(&self.streams.device)
    }

    #[getter]
    fn distinct(&self, py: Python<'_>) -> usize {
        py.detach(|| self.table.distinct())
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        py.detach(|| self.table.len())
    }

    fn trim(&self, py: Python<'_>) {
        py.detach(|| self.table.trim());
    }

    /// The row numbers of both sides, or of the probe side.
    fn join(&self, py: Python<'_>, left: &Bound<'_, PyAny>, how: &str, stream: usize) -> Answer {
        let how = How::named(how)?;
        let left = Incoming::of(left, Wanted::Item(self.key), "the keys", stream)?;
        left.expect_on(&self.streams.device)?;
        self.table.join(py, &left, how, &self.streams)
    }
}

impl JoinTable {
    fn of(py: Python<'_>, device: &Device, right: &Incoming) -> PyResult<Self> {
        right.expect_on(device)?;
        let streams = Streams::new(device);
        let table = for_width!(right.item, built(py, device, right, &streams))?;
        Ok(Self {
            table,
            key: right.item,
            streams,
        })
    }
}

fn built<K: Pod + Send + Sync>(
    py: Python<'_>,
    device: &Device,
    right: &Incoming,
    streams: &Streams,
) -> PyResult<Box<dyn Probed>> {
    let table = py.detach(|| Native::<K>::new(device, &right.keys::<K>(streams)?));
    Ok(Box::new(table.map_err(exception)?))
}
