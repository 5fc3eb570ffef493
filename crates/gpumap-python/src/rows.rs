//! `RowMap` as Python sees it.

use std::path::{Path, PathBuf};

use bytemuck::Pod;
use gpumap::{Chunk, Device};
use pyo3::prelude::*;

use crate::device::{name_of, opened};
use crate::dtype::{Dtype, Item, KeyType};
use crate::error::exception;
use crate::incoming::{Incoming, Streams, Wanted};
use crate::pairs::until_refused;
use crate::places::{Places, dump};
use crate::saved::{self, expect_one_zero_and_nan, warn_of_unknown_types};
use crate::typed::{Answer, pair};
use crate::width::for_width;

/// A row map with keys of any size. Rows are `i32`, of which -1 is that of an absent key: the bits of the library's `NO_ROW`.
trait AnyRows: Send + Sync {
    fn len(&self) -> usize;
    fn row_bound(&self) -> usize;
    fn capacity(&self) -> usize;
    fn device(&self) -> &Device;
    fn clear(&self) -> gpumap::Result<()>;
    fn reserve(&self, more: usize) -> gpumap::Result<()>;
    fn shrink_to_fit(&self) -> gpumap::Result<()>;
    fn trim(&self);
    fn insert(
        &self,
        keys: &Incoming,
        rows: &mut Places<u32>,
        new: Option<&mut Places<u8>>,
        streams: &Streams,
    ) -> gpumap::Result<usize>;
    fn get(&self, keys: &Incoming, rows: &mut Places<u32>, streams: &Streams)
    -> gpumap::Result<()>;
    fn remove(&self, keys: &Incoming, streams: &Streams) -> gpumap::Result<usize>;
    fn keys(&self, py: Python<'_>, on_device: bool, item: Item, streams: &Streams) -> Answer;
    fn retrieve_all(
        &self,
        py: Python<'_>,
        on_device: bool,
        item: Item,
        streams: &Streams,
    ) -> Answer;
    fn compact(&self, py: Python<'_>, on_device: bool, streams: &Streams) -> Answer;
    fn save(&self, path: &Path) -> gpumap::Result<u64>;
}

impl<K: Pod + Send + Sync> AnyRows for gpumap::RowMap<K> {
    fn len(&self) -> usize {
        self.len()
    }

    fn row_bound(&self) -> usize {
        self.row_bound()
    }

    fn capacity(&self) -> usize {
        self.capacity()
    }

    fn device(&self) -> &Device {
        self.device()
    }

    fn clear(&self) -> gpumap::Result<()> {
        self.clear()
    }

    fn reserve(&self, more: usize) -> gpumap::Result<()> {
        self.reserve(more)
    }

    fn shrink_to_fit(&self) -> gpumap::Result<()> {
        self.shrink_to_fit()
    }

    fn trim(&self) {
        self.trim();
    }

    fn insert(
        &self,
        keys: &Incoming,
        rows: &mut Places<u32>,
        new: Option<&mut Places<u8>>,
        streams: &Streams,
    ) -> gpumap::Result<usize> {
        let keys = keys.keys::<K>(streams)?;
        match new {
            Some(new) => self.insert_with_outcome_into(&keys, rows, new),
            None => self.insert_into(&keys, rows),
        }
    }

    fn get(
        &self,
        keys: &Incoming,
        rows: &mut Places<u32>,
        streams: &Streams,
    ) -> gpumap::Result<()> {
        self.get_into(&keys.keys::<K>(streams)?, rows)
    }

    fn remove(&self, keys: &Incoming, streams: &Streams) -> gpumap::Result<usize> {
        self.remove(&keys.keys::<K>(streams)?)
    }

    fn keys(&self, py: Python<'_>, on_device: bool, item: Item, streams: &Streams) -> Answer {
        let stream = streams.default().map_err(exception)?;
        let places = |len| Places::<K>::at(py, on_device, &stream, item, len);
        let into = |keys: &mut Places<K>| self.keys_into(keys);
        let (keys, len) = dump(py, py.detach(|| self.len()), places, into)?;
        keys.answer(py, len)
    }

    fn retrieve_all(
        &self,
        py: Python<'_>,
        on_device: bool,
        item: Item,
        streams: &Streams,
    ) -> Answer {
        let stream = streams.default().map_err(exception)?;
        let places = |len| {
            let keys = Places::<K>::at(py, on_device, &stream, item, len)?;
            let rows = Places::<u32>::at(py, on_device, &stream, Dtype::I32, len)?;
            Ok((keys, rows))
        };
        let into = |(keys, rows): &mut (_, _)| self.retrieve_all_into(keys, rows);
        let ((keys, rows), len) = dump(py, py.detach(|| self.len()), places, into)?;
        pair(py, keys.answer(py, len)?, rows.answer(py, len)?)
    }

    fn compact(&self, py: Python<'_>, on_device: bool, streams: &Streams) -> Answer {
        let stream = streams.default().map_err(exception)?;
        let places = |len| Places::<u32>::at(py, on_device, &stream, Dtype::I32, len);
        let into = |old: &mut Places<u32>| self.compact_into(old);
        let (old, len) = dump(py, py.detach(|| self.len()), places, into)?;
        old.answer(py, len)
    }

    fn save(&self, path: &Path) -> gpumap::Result<u64> {
        self.save(path)
    }
}

/// A row map; see `gpumap_rs.RowMap`.
#[pyclass(frozen, module = "gpumap_rs._native")]
pub struct RowMap {
    map: Box<dyn AnyRows>,
    key: Item,
    streams: Streams,
}

/// A map without keys, or that of a file.
fn made<K: Pod + Send + Sync>(
    device: &Device,
    capacity: usize,
    path: Option<&Path>,
    dtype: Dtype,
) -> PyResult<Box<dyn AnyRows>> {
    let builder = gpumap::RowMap::<K>::builder(device).capacity(capacity);
    let builder = builder.key_kind(dtype.kind());
    let Some(path) = path else {
        return Ok(Box::new(builder.build().map_err(exception)?));
    };
    let map = builder.load(path).map_err(exception)?;
    expect_one_zero_and_nan(path, dtype.floats(), |give| {
        let mut give = |chunk: &Chunk<K, u32>| give(chunk.keys());
        until_refused(&mut give, |take| map.for_each_chunk(saved::CHUNK, take))
    })?;
    Ok(Box::new(map))
}

#[pymethods]
impl RowMap {
    #[new]
    fn new(
        py: Python<'_>,
        key: KeyType,
        capacity: usize,
        device: Option<&str>,
        path: Option<PathBuf>,
    ) -> PyResult<Self> {
        let key = key.item()?;
        let (map, device) = py.detach(|| {
            let device = opened(device)?;
            PyResult::Ok((
                for_width!(key, made(&device, capacity, path.as_deref(), key.dtype))?,
                device,
            ))
        })?;
        if let Some(path) = &path {
            warn_of_unknown_types(py, path)?;
        }
        let streams = Streams::new(&device);
        Ok(Self { map, key, streams })
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        py.detach(|| self.map.len())
    }

    #[getter]
    fn row_bound(&self, py: Python<'_>) -> usize {
        py.detach(|| self.map.row_bound())
    }

    #[getter]
    fn capacity(&self, py: Python<'_>) -> usize {
        py.detach(|| self.map.capacity())
    }

    #[getter]
    fn device(&self) -> String {
        name_of(self.map.device())
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
        py.detach(|| self.map.clear()).map_err(exception)
    }

    fn reserve(&self, py: Python<'_>, more: usize) -> PyResult<()> {
        py.detach(|| self.map.reserve(more)).map_err(exception)
    }

    fn shrink_to_fit(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.map.shrink_to_fit()).map_err(exception)
    }

    fn trim(&self, py: Python<'_>) {
        py.detach(|| self.map.trim());
    }

    /// The row of each key, and if requested which are first occurrences of new keys.
    fn insert(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        outcomes: bool,
        stream: usize,
    ) -> Answer {
        let keys = self.incoming(keys, stream)?;
        let mut rows = Places::beside(py, &keys, &self.streams, Dtype::I32)?;
        let new = || Places::<u8>::beside(py, &keys, &self.streams, Dtype::Bool);
        let mut new = outcomes.then(new).transpose()?;
        py.detach(|| {
            self.map
                .insert(&keys, &mut rows, new.as_mut(), &self.streams)
        })
        .map_err(exception)?;
        let rows = rows.answer(py, keys.len())?;
        match new {
            None => Ok(rows),
            Some(new) => pair(py, rows, new.answer(py, keys.len())?),
        }
    }

    /// The row of each key, or -1.
    fn get(&self, py: Python<'_>, keys: &Bound<'_, PyAny>, stream: usize) -> Answer {
        let keys = self.incoming(keys, stream)?;
        let mut rows = Places::beside(py, &keys, &self.streams, Dtype::I32)?;
        py.detach(|| self.map.get(&keys, &mut rows, &self.streams))
            .map_err(exception)?;
        rows.answer(py, keys.len())
    }

    fn remove(&self, py: Python<'_>, keys: &Bound<'_, PyAny>, stream: usize) -> PyResult<usize> {
        let keys = self.incoming(keys, stream)?;
        py.detach(|| self.map.remove(&keys, &self.streams))
            .map_err(exception)
    }

    fn keys(&self, py: Python<'_>, on_device: bool) -> Answer {
        self.map.keys(py, on_device, self.key, &self.streams)
    }

    fn retrieve_all(&self, py: Python<'_>, on_device: bool) -> Answer {
        self.map
            .retrieve_all(py, on_device, self.key, &self.streams)
    }

    /// The row that each key had, in the order of its new one.
    fn compact(&self, py: Python<'_>, on_device: bool) -> Answer {
        self.map.compact(py, on_device, &self.streams)
    }

    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<u64> {
        py.detach(|| self.map.save(&path)).map_err(exception)
    }
}

impl RowMap {
    fn incoming(&self, keys: &Bound<'_, PyAny>, stream: usize) -> PyResult<Incoming> {
        let keys = Incoming::of(keys, Wanted::Item(self.key), "the keys", stream)?;
        keys.expect_on(self.map.device())?;
        Ok(keys)
    }
}
