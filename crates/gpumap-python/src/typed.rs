//! Maps and sets of one pair of types behind one trait each, so that Python's have the types as values.

use std::path::Path;

use gpumap::op::{self, Execute};
use gpumap::{Device, Key, Map, Merge, Value};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::array::{Array, Incoming, Places, together};
use crate::dtype::{Dtype, Element};
use crate::error::exception;

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
    fn contains(&self, py: Python<'_>, keys: &Incoming) -> PyResult<Array>;
    fn remove(&self, py: Python<'_>, keys: &Incoming, outcomes: bool) -> PyResult<Changed>;
}

/// How many pairs were changed, and if requested, which.
pub type Changed = (usize, Option<Array>);

/// A set.
pub trait AnySet: AnyKeys {
    fn insert(&self, py: Python<'_>, keys: &Incoming, outcomes: bool) -> PyResult<Changed>;
    fn retrieve_all(&self, py: Python<'_>, on_device: bool) -> PyResult<Array>;
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
    ) -> PyResult<Changed>;
    /// A merge of one value with those of all keys, or of those that are present.
    fn merge_one(
        &self,
        py: Python<'_>,
        how: How,
        keys: &Incoming,
        value: &Bound<'_, PyAny>,
        outcomes: bool,
    ) -> PyResult<Changed>;
    /// Values, and what was found; `takes` says that the pairs are removed.
    fn get(&self, py: Python<'_>, keys: &Incoming, takes: bool) -> PyResult<(Array, Array)>;
    fn get_or(
        &self,
        py: Python<'_>,
        keys: &Incoming,
        default: &Bound<'_, PyAny>,
    ) -> PyResult<Array>;
    fn get_or_insert(&self, py: Python<'_>, keys: &Incoming, values: &Incoming) -> PyResult<Array>;
    fn retrieve_all(&self, py: Python<'_>, on_device: bool) -> PyResult<(Array, Array)>;
}

/// A map of these types, and the names that Python has for them.
pub struct Typed<K: Key, V: Value> {
    map: Map<K, V>,
    key: Dtype,
    value: Option<Dtype>,
}

impl<K: Key + Element, V: Value> Typed<K, V> {
    /// A place for a byte of each key, if it is wanted.
    fn flags(&self, is_wanted: bool, keys: &Incoming) -> gpumap::Result<Option<Places<u8>>> {
        let device = self.map.device();
        let places = || Places::new(device, keys.is_on_device(), keys.len());
        is_wanted.then(places).transpose()
    }

    /// Runs an operation that counts.
    fn count<'a>(
        &self,
        op: op::Op<'a, K, V, usize>,
        flags: &'a mut Option<Places<u8>>,
    ) -> gpumap::Result<usize> {
        self.map.execute(match flags {
            Some(flags) => op.outcomes(flags),
            None => op,
        })
    }

    /// What Python gets of that.
    fn changed(count: usize, flags: Option<Places<u8>>, keys: &Incoming) -> Changed {
        let flags = flags.map(|flags| flags.into_array(Dtype::Bool, keys.len()));
        (count, flags)
    }
}

/// Runs a call of the library without Python's lock, as other threads of Python may run meanwhile.
fn call<T: Send>(py: Python<'_>, run: impl FnOnce() -> gpumap::Result<T> + Send) -> PyResult<T> {
    py.detach(run).map_err(exception)
}

impl<K: Key + Element, V: Value> AnyKeys for Typed<K, V> {
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

    fn contains(&self, py: Python<'_>, keys: &Incoming) -> PyResult<Array> {
        together(keys, None, self.map.device())?;
        call(py, || {
            let device = self.map.device();
            let mut found = Places::<u8>::new(device, keys.is_on_device(), keys.len())?;
            let elements = keys.elements::<K>(device)?;
            self.map.contains_into(&elements, &mut found)?;
            Ok(found.into_array(Dtype::Bool, keys.len()))
        })
    }

    fn remove(&self, py: Python<'_>, keys: &Incoming, outcomes: bool) -> PyResult<Changed> {
        together(keys, None, self.map.device())?;
        call(py, || {
            let mut flags = self.flags(outcomes, keys)?;
            let elements = keys.elements::<K>(self.map.device())?;
            let count = self.count(op::remove(&elements), &mut flags)?;
            Ok(Self::changed(count, flags, keys))
        })
    }
}

impl<K: Key + Element> AnySet for Typed<K, ()> {
    fn insert(&self, py: Python<'_>, keys: &Incoming, outcomes: bool) -> PyResult<Changed> {
        together(keys, None, self.map.device())?;
        call(py, || {
            let mut flags = self.flags(outcomes, keys)?;
            let elements = keys.elements::<K>(self.map.device())?;
            let count = self.count(op::insert_keys(&elements), &mut flags)?;
            Ok(Self::changed(count, flags, keys))
        })
    }

    fn retrieve_all(&self, py: Python<'_>, on_device: bool) -> PyResult<Array> {
        call(py, || {
            let (keys, len) = dump(self.map.len(), |places| {
                let mut keys = Places::<K>::new(self.map.device(), on_device, places)?;
                let len = self.map.retrieve_keys_into(&mut keys)?;
                Ok((keys, len))
            })?;
            Ok(keys.into_array(self.key, len))
        })
    }
}

/// Calls `into` with as many places as there are pairs. There are more by the time of the call if other threads insert.
fn dump<T>(len: usize, mut into: impl FnMut(usize) -> gpumap::Result<T>) -> gpumap::Result<T> {
    let mut places = len;
    loop {
        match into(places) {
            Err(gpumap::Error::OutputTooSmall { needed, .. }) if needed > places => {
                places = needed + needed / 8;
            }
            other => return other,
        }
    }
}

impl<K: Key + Element, V: Value + Element> Typed<K, V> {
    fn value(&self) -> Dtype {
        self.value.unwrap_or(Dtype::Bool)
    }
}

impl<K: Key + Element, V: Value + Element> AnyMap for Typed<K, V> {
    fn change(
        &self,
        py: Python<'_>,
        change: Change,
        keys: &Incoming,
        values: &Incoming,
        outcomes: bool,
    ) -> PyResult<Changed> {
        together(keys, Some(values), self.map.device())?;
        call(py, || {
            let mut flags = self.flags(outcomes, keys)?;
            let device = self.map.device();
            let (k, v) = (keys.elements::<K>(device)?, values.elements::<V>(device)?);
            let op = match change {
                Change::Insert => op::insert(&k, &v),
                Change::Upsert => op::upsert(&k, &v),
                Change::Assign => op::update(&k, &v),
                Change::Merge(how) if how.present => op::update_with(&k, &v, how.merge),
                Change::Merge(how) => op::merge(&k, &v, how.merge),
            };
            let count = self.count(op, &mut flags)?;
            Ok(Self::changed(count, flags, keys))
        })
    }

    fn merge_one(
        &self,
        py: Python<'_>,
        how: How,
        keys: &Incoming,
        value: &Bound<'_, PyAny>,
        outcomes: bool,
    ) -> PyResult<Changed> {
        together(keys, None, self.map.device())?;
        let value = <V as Element>::extract(value)?;
        call(py, || {
            let mut flags = self.flags(outcomes, keys)?;
            let elements = keys.elements::<K>(self.map.device())?;
            let op = match how.present {
                true => op::update_with(&elements, value, how.merge),
                false => op::merge(&elements, value, how.merge),
            };
            let count = self.count(op, &mut flags)?;
            Ok(Self::changed(count, flags, keys))
        })
    }

    fn get(&self, py: Python<'_>, keys: &Incoming, takes: bool) -> PyResult<(Array, Array)> {
        together(keys, None, self.map.device())?;
        call(py, || {
            let (device, len) = (self.map.device(), keys.len());
            let mut values = Places::<V>::new(device, keys.is_on_device(), len)?;
            let mut found = Places::<u8>::new(device, keys.is_on_device(), len)?;
            let elements = keys.elements::<K>(device)?;
            let op = match takes {
                true => op::take(&elements),
                false => op::get(&elements),
            };
            self.map.execute(op.into(&mut values).found(&mut found))?;
            Ok((
                values.into_array(self.value(), len),
                found.into_array(Dtype::Bool, len),
            ))
        })
    }

    fn get_or(
        &self,
        py: Python<'_>,
        keys: &Incoming,
        default: &Bound<'_, PyAny>,
    ) -> PyResult<Array> {
        together(keys, None, self.map.device())?;
        let default = <V as Element>::extract(default)?;
        call(py, || {
            let (device, len) = (self.map.device(), keys.len());
            let mut values = Places::<V>::new(device, keys.is_on_device(), len)?;
            let elements = keys.elements::<K>(device)?;
            self.map.get_or_into(&elements, default, &mut values)?;
            Ok(values.into_array(self.value(), len))
        })
    }

    fn get_or_insert(&self, py: Python<'_>, keys: &Incoming, values: &Incoming) -> PyResult<Array> {
        together(keys, Some(values), self.map.device())?;
        call(py, || {
            let (device, len) = (self.map.device(), keys.len());
            let mut held = Places::<V>::new(device, keys.is_on_device(), len)?;
            let (k, v) = (keys.elements::<K>(device)?, values.elements::<V>(device)?);
            self.map.get_or_insert_into(&k, &v, &mut held)?;
            Ok(held.into_array(self.value(), len))
        })
    }

    fn retrieve_all(&self, py: Python<'_>, on_device: bool) -> PyResult<(Array, Array)> {
        call(py, || {
            let (keys, values, len) = dump(self.map.len(), |places| {
                let device = self.map.device();
                let mut keys = Places::<K>::new(device, on_device, places)?;
                let mut values = Places::<V>::new(device, on_device, places)?;
                let len = self.map.retrieve_all_into(&mut keys, &mut values)?;
                Ok((keys, values, len))
            })?;
            Ok((
                keys.into_array(self.key, len),
                values.into_array(self.value(), len),
            ))
        })
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
    Ok(Typed { map, key, value })
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
