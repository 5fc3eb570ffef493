//! Maps and sets behind one trait, so that Python's have the types of keys and values as values. The library has the bits of both: there is a
//! type in Rust for each size.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bytemuck::Pod;
use gpumap::op::{self, Execute, Op};
use gpumap::{Key, Layout, Merge, Numeric, Output};
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;

use crate::chunks::{Chunks, copied, owned};
use crate::dtype::{Dtype, Item};
use crate::error::{BusyError, exception};
use crate::gate::{Change as Changing, Gate};
use crate::incoming::{Incoming, Items, Streams};
use crate::pairs::{Origin, Pairs, Place};
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

/// The bytes of a value, and zeros if it has fewer.
pub type Bytes = [u8; 8];

/// What Python gets: an array, several, or how many pairs were changed and if requested which.
pub type Answer = PyResult<Py<PyAny>>;

/// A map, or a set, which is a map without values.
pub trait AnyMap: Send + Sync {
    /// The names of the devices.
    fn place(&self) -> String;
    fn layout(&self) -> Layout;
    fn len(&self) -> usize;
    fn capacity(&self) -> usize;
    fn is_fixed(&self) -> bool;
    fn clear(&self) -> PyResult<()>;
    fn reserve(&self, more: usize) -> PyResult<()>;
    fn shrink_to_fit(&self) -> PyResult<()>;
    fn save(&self, path: &Path) -> gpumap::Result<u64>;
    fn contains(&self, py: Python<'_>, keys: &Incoming) -> Answer;
    fn remove(&self, py: Python<'_>, keys: &Incoming, outcomes: bool) -> Answer;
    fn change(
        &self,
        py: Python<'_>,
        change: Change,
        keys: &Incoming,
        values: Option<&Incoming>,
        outcomes: bool,
    ) -> Answer;
    /// A merge of one value with those of all keys, or of those that are present.
    fn merge_one(
        &self,
        py: Python<'_>,
        how: How,
        keys: &Incoming,
        value: Bytes,
        outcomes: bool,
    ) -> Answer;
    /// Values, and what was found; `takes` says that the pairs are removed.
    fn get(&self, py: Python<'_>, keys: &Incoming, takes: bool) -> Answer;
    fn get_or(&self, py: Python<'_>, keys: &Incoming, default: Bytes) -> Answer;
    fn get_or_insert(&self, py: Python<'_>, keys: &Incoming, values: &Incoming) -> Answer;
    fn retrieve_all(&self, py: Python<'_>, on_device: bool) -> Answer;
    /// All that it has, about so many at a time.
    fn chunks(&self, pairs: usize) -> io::Result<Chunks>;
}

/// A map of these types, and the names that Python has for them.
struct Typed<K: Key, V: Numeric> {
    map: Arc<Pairs<K, V>>,
    streams: Streams,
    gate: Arc<Gate>,
    key: Item,
    /// None of a set.
    value: Option<Dtype>,
}

impl<K: Key, V: Numeric> Typed<K, V> {
    fn new(place: &Place, origin: Origin<'_>, key: Item, value: Option<Dtype>) -> PyResult<Self> {
        let kinds = (key.dtype.kind(), value.map(Dtype::kind));
        let map = Pairs::<K, V>::made(place, origin, kinds.0, kinds.1).map_err(exception)?;
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
        })
    }

    /// The type of answers that are values.
    fn value(&self) -> Dtype {
        self.value.unwrap_or(Dtype::Bool)
    }

    /// Of a map that may not change while chunks of it are given out: such calls would wait for the end of them.
    fn gate(&self) -> Option<&Arc<Gate>> {
        matches!(Pairs::<K, V>::LAYOUT, Layout::Rows).then_some(&self.gate)
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

    /// The same with values; those of a set are nothing.
    fn call_with<T: Send>(
        &self,
        py: Python<'_>,
        keys: &Incoming,
        values: Option<&Incoming>,
        run: impl FnOnce(&Items<'_, K>, &Items<'_, V>) -> gpumap::Result<T> + Send,
    ) -> PyResult<T> {
        if let Some(values) = values {
            values.expect_on(self.map.device())?;
        }
        self.call(py, keys, |k| {
            let values = match values {
                Some(values) => values.items(&self.streams)?,
                None => Items::Owned(vec![V::zeroed(); keys.len()]),
            };
            run(k, &values)
        })
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

impl<K: Key, V: Numeric> AnyMap for Typed<K, V> {
    fn place(&self) -> String {
        self.map.place()
    }

    fn layout(&self) -> Layout {
        Pairs::<K, V>::LAYOUT
    }

    fn len(&self) -> usize {
        self.map.len()
    }

    fn capacity(&self) -> usize {
        self.map.capacity()
    }

    fn is_fixed(&self) -> bool {
        self.map.is_fixed()
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

    fn change(
        &self,
        py: Python<'_>,
        change: Change,
        keys: &Incoming,
        values: Option<&Incoming>,
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
                self.execute(op.numbers(self.value().number()), flags)
            })
        })
    }

    fn merge_one(
        &self,
        py: Python<'_>,
        how: How,
        keys: &Incoming,
        value: Bytes,
        outcomes: bool,
    ) -> Answer {
        let value = of_bytes::<V>(value);
        self.count(py, keys, outcomes, |flags| {
            self.call(py, keys, |k| {
                let op = match how.present {
                    true => op::update_with(k, value, how.merge),
                    false => op::merge(k, value, how.merge),
                };
                self.execute(op.numbers(self.value().number()), flags)
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

    fn get_or(&self, py: Python<'_>, keys: &Incoming, default: Bytes) -> Answer {
        let default = of_bytes::<V>(default);
        let mut values = self.places(py, keys, self.value())?;
        self.call(py, keys, |k| {
            self.map.execute(op::get(k).or(default).into(&mut values))
        })?;
        values.answer(py, keys.len())
    }

    fn get_or_insert(&self, py: Python<'_>, keys: &Incoming, values: &Incoming) -> Answer {
        let _change = self.change()?;
        let mut held = self.places(py, keys, self.value())?;
        self.call_with(py, keys, Some(values), |k, v| {
            self.map.execute(op::get_or_insert(k, v).into(&mut held))
        })?;
        held.answer(py, keys.len())
    }

    fn retrieve_all(&self, py: Python<'_>, on_device: bool) -> Answer {
        let places = |len| {
            let values = |value| self.places_at(py, on_device, value, len);
            let values = self.value.map(values).transpose()?;
            Ok((self.places_at(py, on_device, self.key, len)?, values))
        };
        let into = |(keys, values): &mut (Places<K>, Option<Places<V>>)| match values {
            Some(values) => self.map.dump(keys, values),
            None => {
                let mut nothing = vec![V::zeroed(); keys.sink().len()];
                self.map.dump(keys, &mut nothing)
            }
        };
        let len = py.detach(|| self.map.len());
        let ((keys, values), len) = dump(py, len, places, into)?;
        let keys = keys.answer(py, len)?;
        match values {
            Some(values) => pair(py, keys, values.answer(py, len)?),
            None => Ok(keys),
        }
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

/// The value with these bytes.
fn of_bytes<V: Pod>(bytes: Bytes) -> V {
    bytemuck::pod_read_unaligned(&bytes[..size_of::<V>()])
}

/// A map of keys and values of these types, or a set.
pub fn made(
    place: &Place,
    origin: Origin<'_>,
    key: Item,
    value: Option<Dtype>,
) -> PyResult<Box<dyn AnyMap>> {
    match (key.width, key.dtype.bytes()) {
        // A row of one number is laid out as the number.
        (None | Some(1), 4) => with_key::<u32>(place, origin, key, value),
        (None | Some(1), _) => with_key::<u64>(place, origin, key, value),
        _ => for_width!(
            key, with_key(place, origin, key, value), 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16
        ),
    }
}

fn with_key<K: Key>(
    place: &Place,
    origin: Origin<'_>,
    key: Item,
    value: Option<Dtype>,
) -> PyResult<Box<dyn AnyMap>> {
    Ok(match value.map(Dtype::bytes) {
        None => Box::new(Typed::<K, ()>::new(place, origin, key, value)?),
        Some(4) => Box::new(Typed::<K, u32>::new(place, origin, key, value)?),
        Some(_) => Box::new(Typed::<K, u64>::new(place, origin, key, value)?),
    })
}
