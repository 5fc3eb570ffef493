//! `group_by` and `GroupBy`: aggregates of columns by key, chosen by their names.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytemuck::Pod;
use gpumap::primitives::{Chosen, Function, GroupBy as Native, Grouping, NumbersMut};
use gpumap::{Buffer, BufferViewMut, Device, Stream};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyTuple;

use crate::device::primitives;
use crate::dtype::{Dtype, Item};
use crate::error::exception;
use crate::incoming::{Incoming, Items, Streams, Wanted};
use crate::places::{self, Places};
use crate::unique::device_of;
use crate::width::for_width;

/// One aggregate, and its column; a count has none.
struct Asked {
    function: Function,
    column: Option<Incoming>,
}

impl Asked {
    fn of(name: &str, column: Option<&Bound<'_, PyAny>>, stream: usize) -> PyResult<Self> {
        let function = match name {
            "count" => Function::Count,
            "sum" => Function::Sum,
            "min" => Function::Min,
            "max" => Function::Max,
            "mean" => Function::Mean,
            _ => {
                return Err(PyValueError::new_err(format!(
                    "{name:?} is no aggregate: use count, sum, min, max or mean"
                )));
            }
        };
        let column = match (function, column) {
            (Function::Count, None) => None,
            (Function::Count, Some(_)) => {
                return Err(PyValueError::new_err("a count has no column"));
            }
            (_, None) => {
                return Err(PyValueError::new_err(format!(
                    "{name} needs a column: pass ({name:?}, array)"
                )));
            }
            (_, Some(column)) => Some(Incoming::of(column, Wanted::Numbers, name, stream)?),
        };
        Ok(Self { function, column })
    }

    /// What its answers are.
    fn answers(&self) -> Dtype {
        let dtype = self.column.as_ref().map(|column| column.item.dtype);
        match (self.function, dtype) {
            (Function::Min | Function::Max, Some(dtype)) => dtype,
            (Function::Sum, Some(Dtype::I32 | Dtype::I64)) => Dtype::I64,
            (Function::Sum, Some(Dtype::F32 | Dtype::F64)) | (Function::Mean, _) => Dtype::F64,
            _ => Dtype::U64,
        }
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

            fn ask<'g, T, K: Pod>(
                &'g self,
                grouping: Grouping<'g, T, K, Chosen>,
                function: Function,
            ) -> Grouping<'g, T, K, Chosen> {
                match self {
                    $(Self::$name(items) => grouping.aggregate(function, items),)*
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

/// What the aggregates of a batch are of, in their order: none for a count.
struct Columns<'a>(Vec<(Function, Option<Column<'a>>)>);

impl<'a> Columns<'a> {
    fn of(asked: &'a [Asked], streams: &Streams) -> gpumap::Result<Self> {
        let of = |asked: &'a Asked| {
            let column = match &asked.column {
                Some(column) => Column::of(column, streams)?,
                None => None,
            };
            Ok((asked.function, column))
        };
        asked
            .iter()
            .map(of)
            .collect::<gpumap::Result<_>>()
            .map(Self)
    }

    fn ask<'g, T, K: Pod>(
        &'g self,
        grouping: Grouping<'g, T, K, ()>,
    ) -> Grouping<'g, T, K, Chosen> {
        let add = |grouping: Grouping<'g, T, K, Chosen>,
                   (function, column): &'g (Function, Option<Column<'a>>)| {
            match column {
                Some(column) => column.ask(grouping, *function),
                None => grouping.count(),
            }
        };
        self.0.iter().fold(grouping.chosen(), add)
    }
}

/// Places for the different keys, and for a column of each aggregate.
struct Groups<K: Pod> {
    keys: Places<K>,
    columns: Vec<AnyPlaces>,
    stream: Stream,
}

impl<K: Pod + Send + Sync> Groups<K> {
    /// In the memory of the host where that is the device's.
    fn new(
        py: Python<'_>,
        stream: Stream,
        key: Item,
        answers: &[Dtype],
        len: usize,
    ) -> PyResult<Self> {
        let on_device = stream.device().is_cuda();
        let places = |&answers: &Dtype| AnyPlaces::at(py, on_device, &stream, answers, len);
        let columns = answers.iter().map(places).collect::<PyResult<_>>()?;
        Ok(Self {
            keys: Places::at(py, on_device, &stream, key, len)?,
            columns,
            stream,
        })
    }

    /// Has groups written to the places, and returns what that does.
    fn filled(
        &mut self,
        write: impl FnOnce(BufferViewMut<'_, K>, Vec<NumbersMut<'_>>) -> gpumap::Result<usize>,
    ) -> gpumap::Result<usize> {
        let stream = &self.stream;
        let buffers = self.columns.iter_mut().map(|places| places.buffer(stream));
        let mut buffers: Vec<_> = buffers.collect::<gpumap::Result<_>>()?;
        let columns = buffers.iter_mut().map(AnyBuffer::places).collect();
        write((&mut self.keys.buffer(stream)?).into(), columns)
    }

    /// The first `len` of each: a tuple.
    fn fitted(self, py: Python<'_>, len: usize, to_host: bool) -> PyResult<Bound<'_, PyTuple>> {
        let mut answers = vec![self.keys.fitted(py, len, to_host)?];
        for places in self.columns {
            answers.push(places.fitted(py, len, to_host)?);
        }
        PyTuple::new(py, answers)
    }
}

/// An aggregate as it comes: what it is, and its column.
type Wish<'py> = (String, Option<Bound<'py, PyAny>>);

/// The keys of a batch and what is asked of it, on the device that is named or the one of the keys.
fn batch_of(
    keys: &Bound<'_, PyAny>,
    wanted: Wanted,
    asked: &[Wish<'_>],
    device: impl FnOnce(&Incoming) -> PyResult<Device>,
    stream: usize,
) -> PyResult<(Device, Incoming, Vec<Asked>)> {
    let keys = Incoming::of(keys, wanted, "the keys", stream)?;
    let device = device(&keys)?;
    keys.expect_on(&device)?;
    let asked = asked.iter().map(|(name, column)| {
        let asked = Asked::of(name, column.as_ref(), stream)?;
        let mut column = asked.column.iter();
        column.try_for_each(|column| column.expect_on(&device))?;
        Ok(asked)
    });
    let asked = asked.collect::<PyResult<_>>()?;
    Ok((device, keys, asked))
}

/// The different keys, and a column for each aggregate: a tuple.
#[pyfunction]
pub fn group_by<'py>(
    py: Python<'py>,
    keys: &Bound<'py, PyAny>,
    asked: Vec<Wish<'py>>,
    device: Option<&str>,
    stream: usize,
) -> PyResult<Bound<'py, PyTuple>> {
    let device = |keys: &Incoming| device_of(py, device, keys);
    let (device, keys, asked) = batch_of(keys, Wanted::Keys, &asked, device, stream)?;
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
    let answers: Vec<_> = asked.iter().map(Asked::answers).collect();
    let mut groups = Groups::<K>::new(py, stream, keys.item, &answers, keys.len())?;
    let run = || {
        let (keys, columns) = (keys.keys::<K>(&streams)?, Columns::of(asked, &streams)?);
        let primitives = primitives(device);
        let grouping = columns.ask(primitives.group_by(&keys));
        groups.filled(|keys, columns| grouping.run_into(keys, columns))
    };
    let len = py.detach(run).map_err(exception)?;
    groups.fitted(py, len, !keys.is_on_device())
}

/// Groups by keys of any size.
trait Batched: Send + Sync {
    fn add(&self, keys: &Incoming, asked: &[Asked], streams: &Streams) -> gpumap::Result<usize>;
    fn finish<'py>(
        &self,
        py: Python<'py>,
        of: &Started,
        to_device: bool,
    ) -> PyResult<Bound<'py, PyTuple>>;
    fn len(&self) -> usize;
    fn clear(&self) -> gpumap::Result<()>;
    fn trim(&self);
}

impl<K: Pod + Send + Sync> Batched for Native<K, Chosen> {
    fn add(&self, keys: &Incoming, asked: &[Asked], streams: &Streams) -> gpumap::Result<usize> {
        let (keys, columns) = (keys.keys::<K>(streams)?, Columns::of(asked, streams)?);
        columns.ask(self.batch(&keys)).run()
    }

    fn finish<'py>(
        &self,
        py: Python<'py>,
        of: &Started,
        to_device: bool,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let stream = py.detach(|| of.streams.default()).map_err(exception)?;
        let places = |room| Groups::<K>::new(py, stream.clone(), of.key, &of.answers, room);
        let finish =
            |groups: &mut Groups<K>| groups.filled(|keys, columns| self.finish_into(keys, columns));
        let (groups, len) = places::dump(py, py.detach(|| self.len()), places, finish)?;
        groups.fitted(py, len, !to_device)
    }

    fn len(&self) -> usize {
        Self::len(self)
    }

    fn clear(&self) -> gpumap::Result<()> {
        Self::clear(self)
    }

    fn trim(&self) {
        Self::trim(self);
    }
}

/// What the first batch has decided.
struct Started {
    names: Vec<String>,
    key: Item,
    answers: Vec<Dtype>,
    streams: Streams,
    groups: Box<dyn Batched>,
}

/// Groups that come in batches.
#[pyclass(frozen, module = "gpumap_rs._native")]
pub struct GroupBy {
    device: Option<String>,
    started: Mutex<Option<Arc<Started>>>,
}

#[pymethods]
impl GroupBy {
    #[new]
    fn new(device: Option<String>) -> Self {
        Self {
            device,
            started: Mutex::default(),
        }
    }

    /// The device, once there is a first batch.
    #[getter]
    fn device(&self, py: Python<'_>) -> Option<String> {
        let started = self.started(py)?;
        Some(crate::device::name_of(&started.streams.device))
    }

    /// The names of the aggregates, once there is a first batch.
    #[getter]
    fn names(&self, py: Python<'_>) -> Option<Vec<String>> {
        self.started(py).map(|started| started.names.clone())
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        let started = self.started(py);
        py.detach(|| started.map_or(0, |started| started.groups.len()))
    }

    /// Adds a batch: for each aggregate its name, what it is, and its column. Returns how many groups are new.
    fn batch(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        asked: Vec<(String, String, Option<Bound<'_, PyAny>>)>,
        stream: usize,
    ) -> PyResult<usize> {
        let names: Vec<String> = asked.iter().map(|(name, ..)| name.clone()).collect();
        let mut asked: Vec<_> = asked
            .into_iter()
            .map(|(_, what, column)| (what, column))
            .collect();
        let started = match self.started(py) {
            Some(started) => started,
            None => match self.first(py, keys, &asked, &names, stream)? {
                Ok(new) => return Ok(new),
                Err(started) => started,
            },
        };
        // In the order of the first batch.
        let place = |name| names.iter().position(|given| given == name);
        match started.names.iter().map(place).collect::<Option<Vec<_>>>() {
            Some(order) if order.len() == names.len() => {
                asked = order.into_iter().map(|i| asked[i].clone()).collect();
            }
            _ => {
                return Err(PyValueError::new_err(format!(
                    "the aggregates are named {}, and in the first batch {}: use the same names",
                    names.join(", "),
                    started.names.join(", ")
                )));
            }
        }
        let device = |_: &Incoming| Ok(started.streams.device.clone());
        let (_, keys, asked) = batch_of(keys, Wanted::Item(started.key), &asked, device, stream)?;
        py.detach(|| started.groups.add(&keys, &asked, &started.streams))
            .map_err(exception)
    }

    /// The different keys, and a column for each aggregate: a tuple.
    fn finish<'py>(&self, py: Python<'py>, to_device: bool) -> PyResult<Bound<'py, PyTuple>> {
        match self.started(py) {
            Some(started) => started.groups.finish(py, &started, to_device),
            None => Err(PyValueError::new_err(
                "no batch has come, so the types of keys and columns are not known: add a batch first, an empty one if need be",
            )),
        }
    }

    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        match self.started(py) {
            Some(started) => py.detach(|| started.groups.clear()).map_err(exception),
            None => Ok(()),
        }
    }

    fn trim(&self, py: Python<'_>) {
        if let Some(started) = self.started(py) {
            py.detach(|| started.groups.trim());
        }
    }
}

impl GroupBy {
    /// Adds the first batch, which decides what the groups are, and returns how many there are; or what another thread has decided
    /// meanwhile.
    fn first(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        asked: &[Wish<'_>],
        names: &[String],
        stream: usize,
    ) -> PyResult<Result<usize, Arc<Started>>> {
        let device = |keys: &Incoming| device_of(py, self.device.as_deref(), keys);
        // Not under the lock: a conversion of an argument is code of the caller, which may use the groups.
        let (device, keys, asked) = batch_of(keys, Wanted::Keys, asked, device, stream)?;
        // Other threads wait for the end of the batch.
        let mut first = self.lock(py);
        if let Some(started) = &*first {
            return Ok(Err(Arc::clone(started)));
        }
        let names = names.to_vec();
        let (started, new) = for_width!(keys.item, start(py, &device, &keys, &asked, names))?;
        *first = Some(Arc::new(started));
        Ok(Ok(new))
    }

    fn lock(&self, py: Python<'_>) -> MutexGuard<'_, Option<Arc<Started>>> {
        let locked = self.started.lock_py_attached(py);
        locked.unwrap_or_else(PoisonError::into_inner)
    }

    fn started(&self, py: Python<'_>) -> Option<Arc<Started>> {
        self.lock(py).clone()
    }
}

/// Groups with a first batch; and how many groups that has.
fn start<K: Pod + Send + Sync>(
    py: Python<'_>,
    device: &Device,
    keys: &Incoming,
    asked: &[Asked],
    names: Vec<String>,
) -> PyResult<(Started, usize)> {
    let streams = Streams::new(device);
    let start = || {
        let (keys, columns) = (keys.keys::<K>(&streams)?, Columns::of(asked, &streams)?);
        columns.ask(primitives(device).group_by(&keys)).start()
    };
    let groups = py.detach(start).map_err(exception)?;
    let new = groups.len();
    let started = Started {
        names,
        key: keys.item,
        answers: asked.iter().map(Asked::answers).collect(),
        streams,
        groups: Box::new(groups),
    };
    Ok((started, new))
}
