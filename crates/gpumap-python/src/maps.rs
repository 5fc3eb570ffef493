//! `Map` and `Set` as Python sees them.

use std::path::PathBuf;

use gpumap::Merge;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::chunks::Chunks;
use crate::device::{group, opened};
use crate::dtype::{Dtype, Element, Item, KeyType, for_number};
use crate::error::exception;
use crate::incoming::{Incoming, Wanted};
use crate::number;
use crate::pairs::{Origin, Place};
use crate::saved::warn_of_unknown_types;
use crate::typed::{self, Answer, AnyMap, Bytes, Change, How};

fn merge(how: &str) -> PyResult<Merge> {
    Ok(match how {
        "add" => Merge::Add,
        "min" => Merge::Min,
        "max" => Merge::Max,
        "and" => Merge::And,
        "or" => Merge::Or,
        "xor" => Merge::Xor,
        _ => {
            return Err(PyValueError::new_err(format!(
                "{how:?} is no way to merge: use add, min, max, and, or, xor"
            )));
        }
    })
}

/// A merge by its name, `merge:add` or `merge_present:max`.
fn how(name: &str) -> PyResult<How> {
    let (verb, merge_by) = name.split_once(':').unwrap_or((name, ""));
    let present = match verb {
        "merge" => false,
        "merge_present" => true,
        _ => return Err(PyValueError::new_err(format!("no operation {name:?}"))),
    };
    let merge = merge(merge_by)?;
    Ok(How { merge, present })
}

/// An operation by its name.
fn change(name: &str) -> PyResult<Change> {
    Ok(match name {
        "insert" => Change::Insert,
        "upsert" => Change::Upsert,
        "assign" => Change::Assign,
        _ => Change::Merge(how(name)?),
    })
}

/// A device, or those of a group; the best if there is no name.
#[derive(FromPyObject)]
enum On {
    One(Option<String>),
    Several(Vec<String>),
}

/// A map; see `gpumap_rs.Map`.
#[pyclass(frozen, module = "gpumap_rs._native")]
pub struct Map {
    map: Box<dyn AnyMap>,
    key: Item,
    value: Dtype,
}

/// A set; see `gpumap_rs.Set`.
#[pyclass(frozen, module = "gpumap_rs._native")]
pub struct Set {
    map: Box<dyn AnyMap>,
    key: Item,
}

/// The methods of a class: those that maps and sets have in common, and its own. A class has one block of them.
macro_rules! methods {
    ($class:ident, $($own:tt)*) => {
        #[pymethods]
        impl $class {
            $($own)*

            fn __len__(&self, py: Python<'_>) -> usize {
                py.detach(|| self.map.len())
            }

            #[getter]
            fn capacity(&self, py: Python<'_>) -> usize {
                py.detach(|| self.map.capacity())
            }

            #[getter]
            fn grows(&self, py: Python<'_>) -> bool {
                py.detach(|| !self.map.is_fixed())
            }

            #[getter]
            fn device(&self) -> String {
                self.map.place()
            }

            #[getter]
            fn layout(&self) -> &'static str {
                self.map.layout().name()
            }

            #[getter]
            fn key(&self) -> &'static str {
                self.key.dtype.name()
            }

            #[getter]
            fn width(&self) -> Option<usize> {
                self.key.width
            }

            fn clear(&self, py: Python<'_>) -> PyResult<()> {
                py.detach(|| self.map.clear())
            }

            fn reserve(&self, py: Python<'_>, more: usize) -> PyResult<()> {
                py.detach(|| self.map.reserve(more))
            }

            fn shrink_to_fit(&self, py: Python<'_>) -> PyResult<()> {
                py.detach(|| self.map.shrink_to_fit())
            }

            fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<u64> {
                py.detach(|| self.map.save(&path)).map_err(exception)
            }

            fn contains(
                &self,
                py: Python<'_>,
                keys: &Bound<'_, PyAny>,
                stream: usize,
            ) -> Answer {
                self.map.contains(py, &self.keys(keys, stream)?)
            }

            fn remove(
                &self,
                py: Python<'_>,
                keys: &Bound<'_, PyAny>,
                outcomes: bool,
                stream: usize,
            ) -> Answer {
                self.map.remove(py, &self.keys(keys, stream)?, outcomes)
            }

            /// All that it has, about so many at a time.
            fn chunks(&self, pairs: usize) -> PyResult<Chunks> {
                Ok(self.map.chunks(pairs)?)
            }
        }

        impl $class {
            fn keys(&self, keys: &Bound<'_, PyAny>, stream: usize) -> PyResult<Incoming> {
                Incoming::of(keys, Wanted::Item(self.key), "the keys", stream)
            }
        }
    };
}
methods! { Set,
    #[new]
    fn new(
        py: Python<'_>,
        key: KeyType,
        capacity: usize,
        on: On,
        grows: bool,
        file: Option<PathBuf>,
    ) -> PyResult<Self> {
        let key = key.item()?;
        let map = made(py, key, None, &on, origin(file.as_ref(), capacity, grows))?;
        Ok(Self { map, key })
    }

    fn insert(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        outcomes: bool,
        stream: usize,
    ) -> Answer {
        let keys = self.keys(keys, stream)?;
        self.map.change(py, Change::Insert, &keys, None, outcomes)
    }

    fn retrieve_all(&self, py: Python<'_>, on_device: bool) -> Answer {
        self.map.retrieve_all(py, on_device)
    }
}

fn origin(file: Option<&PathBuf>, capacity: usize, grows: bool) -> Origin<'_> {
    match file {
        Some(path) => Origin::File(path),
        None => Origin::New { capacity, grows },
    }
}

/// A map, or a set if it has no values.
fn made(
    py: Python<'_>,
    key: Item,
    value: Option<Dtype>,
    on: &On,
    origin: Origin<'_>,
) -> PyResult<Box<dyn AnyMap>> {
    let map = py.detach(|| {
        let place = match on {
            On::One(name) => Place::Device(opened(name.as_deref())?),
            On::Several(names) => Place::Ranks(group(names)?),
        };
        typed::made(&place, origin, key, value)
    })?;
    if let Origin::File(path) = origin {
        warn_of_unknown_types(py, path)?;
    }
    Ok(map)
}

/// The bytes of the value that a number of Python's equals.
fn bytes_of<T: Element>(number: &Bound<'_, PyAny>, what: &str) -> PyResult<Bytes> {
    let value = number::exactly::<T>(number, what)?;
    let mut bytes = Bytes::default();
    bytes[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&value));
    Ok(bytes)
}

methods! { Map,
    #[new]
    fn new(
        py: Python<'_>,
        key: KeyType,
        value: &str,
        capacity: usize,
        on: On,
        grows: bool,
        file: Option<PathBuf>,
    ) -> PyResult<Self> {
        let (key, value) = (key.item()?, Dtype::named(value)?);
        let origin = origin(file.as_ref(), capacity, grows);
        let map = made(py, key, Some(value), &on, origin)?;
        Ok(Self { map, key, value })
    }

    #[getter]
    fn value(&self) -> &'static str {
        self.value.name()
    }

    /// `how` is insert, upsert, assign, merge or merge_present, the last two with a way to merge after a colon.
    fn change(
        &self,
        py: Python<'_>,
        how: &str,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        outcomes: bool,
        stream: usize,
    ) -> Answer {
        let change = change(how)?;
        let keys = self.keys(keys, stream)?;
        let values = self.values(values, stream)?;
        self.map.change(py, change, &keys, Some(&values), outcomes)
    }

    /// Merges one value; `how` is merge or merge_present, with a way to merge.
    fn merge_one(
        &self,
        py: Python<'_>,
        how: &str,
        keys: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        outcomes: bool,
        stream: usize,
    ) -> Answer {
        let (how, keys) = (self::how(how)?, self.keys(keys, stream)?);
        let value = self.bytes_of(value, "the value")?;
        self.map.merge_one(py, how, &keys, value, outcomes)
    }

    /// Values, and what was found; `takes` says that the pairs are removed.
    fn get(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        takes: bool,
        stream: usize,
    ) -> Answer {
        self.map.get(py, &self.keys(keys, stream)?, takes)
    }

    fn get_or(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        default: &Bound<'_, PyAny>,
        stream: usize,
    ) -> Answer {
        let keys = self.keys(keys, stream)?;
        self.map
            .get_or(py, &keys, self.bytes_of(default, "the default")?)
    }

    fn get_or_insert(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        stream: usize,
    ) -> Answer {
        let keys = self.keys(keys, stream)?;
        self.map
            .get_or_insert(py, &keys, &self.values(values, stream)?)
    }

    fn retrieve_all(&self, py: Python<'_>, on_device: bool) -> Answer {
        self.map.retrieve_all(py, on_device)
    }
}

impl Map {
    fn bytes_of(&self, number: &Bound<'_, PyAny>, what: &str) -> PyResult<Bytes> {
        for_number!(self.value, bytes_of::<_>(number, what))
    }

    fn values(&self, values: &Bound<'_, PyAny>, stream: usize) -> PyResult<Incoming> {
        Incoming::of(
            values,
            Wanted::Item(self.value.into()),
            "the values",
            stream,
        )
    }
}
