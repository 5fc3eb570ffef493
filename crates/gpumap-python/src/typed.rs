//! Maps and sets of one pair of types behind one trait each, so that Python's have the types as values.

use std::io;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

use bytemuck::Pod;
use gpumap::op::{self, Op};
use gpumap::sharded::Ranks;
use gpumap::{Device, Key, Map, Merge, Numeric, ShardedMap, Value};
use pyo3::exceptions::{PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::chunks::{Chunks, copied, owned};
use crate::dtype::{Dtype, Element, Item};
use crate::error::{BusyError, exception};
use crate::gate::{Change as Changing, Gate};
use crate::incoming::{Incoming, Items, Streams};
use crate::number;
use crate::pairs::{Origin, Pairs};
use crate::places::{Places, dump};
use crate::saved::{self, expect_one_zero_and_nan};
use crate::width::for_width;

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
    /// The names of the devices.
    fn place(&self) -> String;
    fn len(&self) -> usize;
    fn capacity(&self) -> usize;
    fn clear(&self) -> PyResult<()>;
    fn reserve(&self, more: usize) -> PyResult<()>;
    fn shrink_to_fit(&self) -> PyResult<()>;
    fn save(&self, path: &Path) -> gpumap::Result<u64>;
    fn contains(&self, py: Python<'_>, keys: &Incoming) -> Answer;
    fn remove(&self, py: Python<'_>, keys: &Incoming, outcomes: bool) -> Answer;
    /// All that it has, about so many at a time.
    fn chunks(&self, pairs: usize) -> io::Result<Chunks>;
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
pub struct Typed<K, V, M> {
    map: Arc<M>,
    streams: Streams,
    gate: Arc<Gate>,
    key: Item,
    /// None of a set.
    value: Option<Dtype>,
    _pair: PhantomData<fn(K) -> V>,
}

impl<K: Pod + Send + Sync, V: Value, M: Pairs<K, V>> Typed<K, V, M> {
    fn new(on: &M::On, origin: Origin<'_>, key: Item, value: Option<Dtype>) -> PyResult<Self> {
        let map = M::made(on, origin, key.dtype.kind()).map_err(exception)?;
        if let Origin::File(path) = origin {
            expect_one_zero_and_nan(path, key.dtype.floats(), |give| {
                map.chunks(saved::CHUNK, &mut |chunk| give(chunk.keys()))
            })?;
        }
        Ok(Self {
            streams: Streams::new(map.device()),
            map: Arc::new(map),
            gate: Arc::default(),
            key,
            value,
            _pair: PhantomData,
        })
    }

    /// Of a map that may not change while chunks of it are given out.
    fn gate(&self) -> Option<&Arc<Gate>> {
        M::CHUNKS_ARE_OF_ONE_MOMENT.then_some(&self.gate)
    }

    /// Begins a change, which ends when the answer is dropped.
    fn change(&self) -> PyResult<Option<Changing<'_>>> {
        let refused = || {
            BusyError::new_err(
                "chunks of the map are being given out: take all of them or drop their iterator, then change it",
            )
        };
        match self.gate() {
            Some(gate) => gate.change().ok_or_else(refused).map(Some),
            None => Ok(None),
        }
    }

    /// Runs a call of the library with the keys of a batch, without Python's lock: other threads of Python run meanwhile.
    fn call<T: Send>(
        &self,
        py: Python<'_>,
        keys: &Incoming,
        run: impl FnOnce(&Items<'_, K>) -> gpumap::Result<T> + Send,
    ) -> PyResult<T> {
        keys.expect_on(self.map.device())?;
        py.detach(|| run(&keys.keys(&self.streams)?))
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
        let _change = self.change()?;
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
        item: impl Into<Item>,
        len: usize,
    ) -> PyResult<Places<T>> {
        let stream = self.streams.default().map_err(exception)?;
        Places::at(py, on_device, &stream, item, len)
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

impl<K: Pod + Send + Sync, V: Value, M: Pairs<K, V>> AnyKeys for Typed<K, V, M> {
    fn place(&self) -> String {
        self.map.place()
    }

    fn len(&self) -> usize {
        self.map.len()
    }

    fn capacity(&self) -> usize {
        self.map.capacity()
    }

    fn clear(&self) -> PyResult<()> {
        let _change = self.change()?;
        self.map.clear().map_err(exception)
    }

    fn reserve(&self, more: usize) -> PyResult<()> {
        let _change = self.change()?;
        self.map.reserve(more).map_err(exception)
    }

    fn shrink_to_fit(&self) -> PyResult<()> {
        let _change = self.change()?;
        self.map.shrink_to_fit().map_err(exception)
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

    fn chunks(&self, pairs: usize) -> io::Result<Chunks> {
        let (key, value) = (self.key, self.value);
        Chunks::of(&self.map, self.gate(), pairs, move |chunk| {
            let pairs = owned(chunk.keys()).zip(owned(chunk.values()));
            Box::new(move |py| {
                let none = || PyMemoryError::new_err("no memory for a chunk: ask for smaller ones");
                let (keys, values) = pairs.ok_or_else(none)?;
                let keys = copied(py, &keys, key)?;
                match value {
                    Some(value) => pair(py, keys, copied(py, &values, value)?),
                    None => Ok(keys),
                }
            })
        })
    }
}

impl<K: Key> AnySet for Typed<K, (), Map<K, ()>> {
    fn insert(&self, py: Python<'_>, keys: &Incoming, outcomes: bool) -> Answer {
        self.count(py, keys, outcomes, |flags| {
            self.call(py, keys, |k| self.execute(op::insert_keys(k), flags))
        })
    }

    fn retrieve_all(&self, py: Python<'_>, on_device: bool) -> Answer {
        let places = |len| self.places_at(py, on_device, self.key, len);
        let (keys, len) = dump(
            py,
            py.detach(|| self.map.len()),
            places,
            |keys: &mut Places<K>| self.map.keys_into(keys),
        )?;
        keys.answer(py, len)
    }
}

impl<K, V, M> Typed<K, V, M> {
    fn value(&self) -> Dtype {
        self.value.unwrap_or(Dtype::Bool)
    }
}

impl<K: Pod + Send + Sync, V: Numeric + Element, M: Pairs<K, V>> AnyMap for Typed<K, V, M> {
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
        let value = number::exactly::<V>(value, "the value")?;
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
        let _change = takes.then(|| self.change()).transpose()?;
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
        let default = number::exactly::<V>(default, "the default")?;
        let mut values = self.places(py, keys, self.value())?;
        self.call(py, keys, |k| {
            self.map.execute(op::get(k).or(default).into(&mut values))
        })?;
        values.answer(py, keys.len())
    }

    fn get_or_insert(&self, py: Python<'_>, keys: &Incoming, values: &Incoming) -> Answer {
        let _change = self.change()?;
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
        let ((keys, values), len) = dump(
            py,
            py.detach(|| self.map.len()),
            places,
            |(keys, values)| self.map.dump(keys, values),
        )?;
        pair(py, keys.answer(py, len)?, values.answer(py, len)?)
    }
}

/// A set of keys of this type.
pub fn set(device: &Device, origin: Origin<'_>, key: Item) -> PyResult<Box<dyn AnySet>> {
    Ok(match key.dtype {
        Dtype::U32 => Box::new(Typed::<u32, (), Map<_, _>>::new(device, origin, key, None)?),
        Dtype::I32 => Box::new(Typed::<i32, (), Map<_, _>>::new(device, origin, key, None)?),
        Dtype::F32 => Box::new(Typed::<f32, (), Map<_, _>>::new(device, origin, key, None)?),
        Dtype::I64 => Box::new(Typed::<i64, (), Map<_, _>>::new(device, origin, key, None)?),
        Dtype::F64 => Box::new(Typed::<f64, (), Map<_, _>>::new(device, origin, key, None)?),
        _ => Box::new(Typed::<u64, (), Map<_, _>>::new(device, origin, key, None)?),
    })
}

/// Where the pairs of a map are.
pub enum Place {
    Device(Device),
    Ranks(Ranks),
}

/// Calls a generic function for a type of keys and values of this type.
macro_rules! for_value {
    ($value:expr, $function:ident::<$key:ty> $arguments:tt) => {
        match $value {
            Dtype::U32 => $function::<$key, u32> $arguments,
            Dtype::I32 => $function::<$key, i32> $arguments,
            Dtype::F32 => $function::<$key, f32> $arguments,
            Dtype::U64 => $function::<$key, u64> $arguments,
            Dtype::I64 => $function::<$key, i64> $arguments,
            Dtype::F64 => $function::<$key, f64> $arguments,
            Dtype::Bool => Err(PyTypeError::new_err(
                "'bool' is no type of values: use u32, i32, f32, u64, i64 or f64",
            )),
        }
    };
}

/// A map of keys and values of these types; a wide one if keys are rows.
pub fn map(
    place: &Place,
    origin: Origin<'_>,
    key: Item,
    value: Dtype,
) -> PyResult<Box<dyn AnyMap>> {
    match (key.width, place) {
        (None, _) => match key.dtype {
            Dtype::U32 => for_value!(value, narrow::<u32>(place, origin, key, value)),
            Dtype::I32 => for_value!(value, narrow::<i32>(place, origin, key, value)),
            Dtype::F32 => for_value!(value, narrow::<f32>(place, origin, key, value)),
            Dtype::I64 => for_value!(value, narrow::<i64>(place, origin, key, value)),
            Dtype::F64 => for_value!(value, narrow::<f64>(place, origin, key, value)),
            _ => for_value!(value, narrow::<u64>(place, origin, key, value)),
        },
        (Some(_), Place::Device(device)) => for_width!(key, wide(device, origin, key, value)),
        (Some(_), Place::Ranks(_)) => Err(PyValueError::new_err(
            "keys of several numbers are on one device",
        )),
    }
}

fn narrow<K: Key, V: Numeric + Element>(
    place: &Place,
    origin: Origin<'_>,
    key: Item,
    value: Dtype,
) -> PyResult<Box<dyn AnyMap>> {
    match place {
        Place::Device(device) => made::<K, V, Map<K, V>>(device, origin, key, value),
        Place::Ranks(ranks) => made::<K, V, ShardedMap<K, V>>(ranks, origin, key, value),
    }
}

fn wide<K: Pod + Send + Sync>(
    device: &Device,
    origin: Origin<'_>,
    key: Item,
    value: Dtype,
) -> PyResult<Box<dyn AnyMap>> {
    for_value!(value, wide_of::<K>(device, origin, key, value))
}

fn wide_of<K: Pod + Send + Sync, V: Numeric + Element>(
    device: &Device,
    origin: Origin<'_>,
    key: Item,
    value: Dtype,
) -> PyResult<Box<dyn AnyMap>> {
    made::<K, V, Map<K, V>>(device, origin, key, value)
}

fn made<K: Pod + Send + Sync, V: Numeric + Element, M: Pairs<K, V>>(
    on: &M::On,
    origin: Origin<'_>,
    key: Item,
    value: Dtype,
) -> PyResult<Box<dyn AnyMap>> {
    Ok(Box::new(Typed::<K, V, M>::new(
        on,
        origin,
        key,
        Some(value),
    )?))
}
