//! Maps and sets of one pair of types behind one trait each, so that Python's have the types as values.

use std::path::Path;

use bytemuck::Pod;
use gpumap::op::{self, Execute, Op};
use gpumap::{Device, Key, Map, Merge, Value};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::dtype::{Dtype, Element};
use crate::error::exception;
use crate::incoming::{Incoming, Items, Streams};
use crate::places::{Places, dump};

/// What a batch of pairs does to a map.
#[derive(Clone, Copy)]
pub enum Change {
    Insert,
    Upsert,
    Assign,
    Merge(How),
}

/// A merge, of the values of all keys, or of those of present ones.
#[derive(Clone, Copy)]
pub struct How {
    pub merge: Merge,
    pub present: bool,
}

/// What maps and sets have in common.
pub trait AnyKeys: Send + Sync {
    fn device(&self) -> &Device;
    fn len(&self) -> usize;
    fn capacity(&self) -> usize;
    fn clear(&self) -> gpumap::Result<()>;
    fn reserve(&self, more: usize) -> gpumap::Result<()>;
    fn shrink_to_fit(&self) -> gpumap::Result<()>;
    fn save(&self, path: &Path) -> gpumap::Result<u64>;
    fn contains(&self, py: Python<'_>, keys: &Incoming) -> Answer;
    fn remove(&self, py: Python<'_>, keys: &Incoming, outcomes: bool) -> Answer;
}

/// What Python gets: an array, several, or how many pairs were changed and if requested which.
pub type Answer = PyResult<Py<PyAny>>;

/// A set.
pub trait AnySet: AnyKeys {
    fn insert(&self, py: Python<'_>, keys: &Incoming, outcomes: bool) -> Answer;
    fn retrieve_all(&self, py: Python<'_>, on_device: bool) -> Answer;
}

/// A map.
pub trait AnyMap: AnyKeys {
    fn change(
        &self,
        py: Python<'_>,
        change: Change,
        keys: &Incoming,
        values: &Incoming,
        outcomes: bool,
    ) -> Answer;
    /// A merge of one value with those of all keys, or of those that are present.
    fn merge_one(
        &self,
        py: Python<'_>,
        how: How,
        keys: &Incoming,
        value: &Bound<'_, PyAny>,
        outcomes: bool,
    ) -> Answer;
    /// Values, and what was found; `takes` says that the pairs are removed.
    fn get(&self, py: Python<'_>, keys: &Incoming, takes: bool) -> Answer;
    fn get_or(&self, py: Python<'_>, keys: &Incoming, default: &Bound<'_, PyAny>) -> Answer;
    fn get_or_insert(&self, py: Python<'_>, keys: &Incoming, values: &Incoming) -> Answer;
    fn retrieve_all(&self, py: Python<'_>, on_device: bool) -> Answer;
}

/// A map of these types, and the names that Python has for them.
pub struct Typed<K: Key, V: Value> {
    map: Map<K, V>,
    streams: Streams,
    key: Dtype,
    value: Option<Dtype>,
}

impl<K: Key, V: Value> Typed<K, V> {
    /// Runs a call of the library with the keys of a batch, without Python's lock: other threads of Python run meanwhile.
    fn call<T: Send>(
        &self,
        py: Python<'_>,
        keys: &Incoming,
        run: impl FnOnce(&Items<'_, K>) -> gpumap::Result<T> + Send,
    ) -> PyResult<T> {
        keys.expect_on(self.map.device())?;
        py.detach(|| run(&keys.items(&self.streams)?))
            .map_err(exception)
    }

    /// The same with values.
    fn call_with<T: Send>(
        &self,
        py: Python<'_>,
        keys: &Incoming,
        values: &Incoming,
        run: impl FnOnce(&Items<'_, K>, &Items<'_, V>) -> gpumap::Result<T> + Send,
    ) -> PyResult<T> {
        values.expect_on(self.map.device())?;
        self.call(py, keys, |keys| run(keys, &values.items(&self.streams)?))
    }

    /// Places beside keys for answers of this type.
    fn places<T: Pod + Send + Sync>(
        &self,
        py: Python<'_>,
        keys: &Incoming,
        dtype: Dtype,
    ) -> PyResult<Places<T>> {
        keys.expect_on(self.map.device())?;
        Places::beside(py, keys, &self.streams, dtype)
    }

    /// Runs something that counts, and tells if requested which keys it counts.
    fn count(
        &self,
        py: Python<'_>,
        keys: &Incoming,
        outcomes: bool,
        run: impl FnOnce(Option<&mut Places<u8>>) -> PyResult<usize>,
    ) -> Answer {
        if !outcomes {
            return Ok(run(None)?.into_pyobject(py)?.into_any().unbind());
        }
        let mut flags = self.places(py, keys, Dtype::Bool)?;
        let count = run(Some(&mut flags))?;
        pair(py, count, flags.answer(py, keys.len())?)
    }

    /// Runs an operation that counts.
    fn execute<'a>(
        &self,
        op: Op<'a, K, V, usize>,
        flags: Option<&'a mut Places<u8>>,
    ) -> gpumap::Result<usize> {
        self.map.execute(match flags {
            Some(flags) => op.outcomes(flags),
            None => op,
        })
    }

    /// Places on the host or the device.
    fn places_at<T: Pod + Send + Sync>(
        &self,
        py: Python<'_>,
        on_device: bool,
        dtype: Dtype,
        len: usize,
    ) -> PyResult<Places<T>> {
        let stream = self.streams.default().map_err(exception)?;
        Places::at(py, on_device, &stream, dtype, len)
    }
}

/// A tuple of two.
pub fn pair<'py>(
    py: Python<'py>,
    first: impl IntoPyObject<'py>,
    second: impl IntoPyObject<'py>,
) -> Answer {
    Ok((first, second).into_pyobject(py)?.into_any().unbind())
}

impl<K: Key, V: Value> AnyKeys for Typed<K, V> {
    fn device(&self) -> &Device {
        self.map.device()
    }

    fn len(&self) -> usize {
        self.map.len()
    }

    fn capacity(&self) -> usize {
        self.map.capacity()
    }

    fn clear(&self) -> gpumap::Result<()> {
        self.map.clear()
    }

    fn reserve(&self, more: usize) -> gpumap::Result<()> {
        self.map.reserve(more)
    }

    fn shrink_to_fit(&self) -> gpumap::Result<()> {
        self.map.shrink_to_fit()
    }

    fn save(&self, path: &Path) -> gpumap::Result<u64> {
        self.map.save(path)
    }

    fn contains(&self, py: Python<'_>, keys: &Incoming) -> Answer {
        let mut found = self.places(py, keys, Dtype::Bool)?;
        self.call(py, keys, |k| {
            self.map.execute(op::contains(k).found(&mut found))
        })?;
        found.answer(py, keys.len())
    }

    fn remove(&self, py: Python<'_>, keys: &Incoming, outcomes: bool) -> Answer {
        self.count(py, keys, outcomes, |flags| {
            self.call(py, keys, |k| self.execute(op::remove(k), flags))
        })
    }
}

impl<K: Key> AnySet for Typed<K, ()> {
    fn insert(&self, py: Python<'_>, keys: &Incoming, outcomes: bool) -> Answer {
        self.count(py, keys, outcomes, |flags| {
            self.call(py, keys, |k| self.execute(op::insert_keys(k), flags))
        })
    }

    fn retrieve_all(&self, py: Python<'_>, on_device: bool) -> Answer {
        let places = |len| self.places_at(py, on_device, self.key, len);
        let (keys, len) = dump(py, self.map.len(), places, |keys: &mut Places<K>| {
            self.map.retrieve_keys_into(keys)
        })?;
        keys.answer(py, len)
    }
}

impl<K: Key, V: Value> Typed<K, V> {
    fn value(&self) -> Dtype {
        self.value.unwrap_or(Dtype::Bool)
    }
}

impl<K: Key, V: Value + Element> AnyMap for Typed<K, V> {
    fn change(
        &self,
        py: Python<'_>,
        change: Change,
        keys: &Incoming,
        values: &Incoming,
        outcomes: bool,
    ) -> Answer {
        self.count(py, keys, outcomes, |flags| {
            self.call_with(py, keys, values, |k, v| {
                let op = match change {
                    Change::Insert => op::insert(k, v),
                    Change::Upsert => op::upsert(k, v),
                    Change::Assign => op::update(k, v),
                    Change::Merge(how) if how.present => op::update_with(k, v, how.merge),
                    Change::Merge(how) => op::merge(k, v, how.merge),
                };
                self.execute(op, flags)
            })
        })
    }

    fn merge_one(
        &self,
        py: Python<'_>,
        how: How,
        keys: &Incoming,
        value: &Bound<'_, PyAny>,
        outcomes: bool,
    ) -> Answer {
        let value = <V as Element>::extract(value)?;
        self.count(py, keys, outcomes, |flags| {
            self.call(py, keys, |k| {
                let op = match how.present {
                    true => op::update_with(k, value, how.merge),
                    false => op::merge(k, value, how.merge),
                };
                self.execute(op, flags)
            })
        })
    }

    fn get(&self, py: Python<'_>, keys: &Incoming, takes: bool) -> Answer {
        let mut values = self.places(py, keys, self.value())?;
        let mut found = self.places(py, keys, Dtype::Bool)?;
        self.call(py, keys, |k| {
            let op = match takes {
                true => op::take(k),
                false => op::get(k),
            };
            self.map.execute(op.into(&mut values).found(&mut found))
        })?;
        let n = keys.len();
        pair(py, values.answer(py, n)?, found.answer(py, n)?)
    }

    fn get_or(&self, py: Python<'_>, keys: &Incoming, default: &Bound<'_, PyAny>) -> Answer {
        let default = <V as Element>::extract(default)?;
        let mut values = self.places(py, keys, self.value())?;
        self.call(py, keys, |k| {
            self.map.execute(op::get(k).or(default).into(&mut values))
        })?;
        values.answer(py, keys.len())
    }

    fn get_or_insert(&self, py: Python<'_>, keys: &Incoming, values: &Incoming) -> Answer {
        let mut held = self.places(py, keys, self.value())?;
        self.call_with(py, keys, values, |k, v| {
            self.map.execute(op::get_or_insert(k, v).into(&mut held))
        })?;
        held.answer(py, keys.len())
    }

    fn retrieve_all(&self, py: Python<'_>, on_device: bool) -> Answer {
        let places = |len| {
            Ok((
                self.places_at(py, on_device, self.key, len)?,
                self.places_at(py, on_device, self.value(), len)?,
            ))
        };
        let ((keys, values), len) = dump(py, self.map.len(), places, |(keys, values)| {
            self.map.retrieve_all_into(keys, values)
        })?;
        pair(py, keys.answer(py, len)?, values.answer(py, len)?)
    }
}

/// How a map is made.
pub enum Origin<'a> {
    New { capacity: usize, grows: bool },
    File(&'a Path),
}

fn typed<K: Key, V: Value>(
    device: &Device,
    origin: Origin<'_>,
    key: Dtype,
    value: Option<Dtype>,
) -> gpumap::Result<Typed<K, V>> {
    let map = match origin {
        Origin::File(path) => Map::load(device, path)?,
        Origin::New { capacity, grows } => {
            let builder = Map::builder(device).capacity(capacity);
            match grows {
                true => builder,
                false => builder.growth(gpumap::Growth::Fixed),
            }
            .build()?
        }
    };
    let streams = Streams::new(device);
    Ok(Typed {
        map,
        streams,
        key,
        value,
    })
}

/// A set of keys of this type.
pub fn set(device: &Device, origin: Origin<'_>, key: Dtype) -> gpumap::Result<Box<dyn AnySet>> {
    Ok(match key.bytes() {
        4 => Box::new(typed::<u32, ()>(device, origin, key, None)?),
        _ => Box::new(typed::<u64, ()>(device, origin, key, None)?),
    })
}

/// A map of keys and values of these types.
pub fn map(
    device: &Device,
    origin: Origin<'_>,
    key: Dtype,
    value: Dtype,
) -> PyResult<Box<dyn AnyMap>> {
    macro_rules! of {
        ($t:ty) => {
            match key.bytes() {
                4 => {
                    Box::new(typed::<u32, $t>(device, origin, key, Some(value)).map_err(exception)?)
                }
                _ => {
                    Box::new(typed::<u64, $t>(device, origin, key, Some(value)).map_err(exception)?)
                }
            }
        };
    }
    Ok(match value {
        Dtype::U32 => of!(u32),
        Dtype::I32 => of!(i32),
        Dtype::F32 => of!(f32),
        Dtype::U64 => of!(u64),
        Dtype::I64 => of!(i64),
        Dtype::F64 => of!(f64),
        Dtype::Bool => {
            return Err(PyTypeError::new_err(
                "'bool' is no type of values: use u32, i32, f32, u64, i64 or f64",
            ));
        }
    })
}
