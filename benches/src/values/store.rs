//! [`Store`]: pairs with large values, in cells or in a column by row.

use std::ops::Range;

use anyhow::Result;
use gpumap::bytemuck::Pod;
use gpumap::{Buffer, BufferView, Device, Map, Stream, Value};

use super::rows::{Layout, Rows};
use super::{Call, Large};

/// Where values lie.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// In cells, each of which has an id.
    Cells,
    /// In one array by row, which is copied when it grows.
    Rows,
    /// In segments by row, which never move.
    Segments,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::Cells, Self::Rows, Self::Segments];

    /// What rows of the report call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cells => "cells",
            Self::Rows => "rows",
            Self::Segments => "rows in segments",
        }
    }

    /// A store of this kind with room for so many pairs, whose hash is the same in each run of the program.
    pub fn build<V: Large>(self, device: &Device, pairs: usize) -> Result<Store<V>> {
        Ok(match self {
            Self::Cells => {
                let map = Map::builder(device).capacity(pairs).hash_seed(1);
                Store::Cells(Box::new(map.build()?))
            }
            Self::Rows => Store::Rows(Box::new(Rows::new(device, pairs, Layout::Whole)?)),
            Self::Segments => Store::Rows(Box::new(Rows::new(device, pairs, Layout::Segments)?)),
        })
    }
}

/// Pairs with large values.
pub enum Store<V: Value> {
    Cells(Box<Map<u64, V>>),
    Rows(Box<Rows<V>>),
}

/// Keys and values of a call.
pub struct Pairs<'a, V> {
    pub keys: BufferView<'a, u64>,
    pub values: BufferView<'a, V>,
}

impl<'a, V: Pod> Pairs<'a, V> {
    /// A part of all.
    pub fn of(keys: &'a Buffer<u64>, values: &'a Buffer<V>, part: Range<usize>) -> Result<Self> {
        Ok(Self {
            keys: keys.slice(part.clone())?,
            values: values.slice(part)?,
        })
    }
}

impl<V: Large> Store<V> {
    pub fn len(&self) -> usize {
        match self {
            Self::Cells(map) => map.len(),
            Self::Rows(rows) => rows.len(),
        }
    }

    pub fn clear(&self) -> Result<()> {
        match self {
            Self::Cells(map) => Ok(map.clear()?),
            Self::Rows(rows) => rows.clear(),
        }
    }

    /// Stores pairs whose keys are absent. Returns how many.
    pub fn insert(&self, lane: &mut Lane<V>, pairs: Pairs<'_, V>) -> Result<usize> {
        match self {
            Self::Cells(map) => Ok(map.insert(&pairs.keys, &pairs.values)?),
            Self::Rows(rows) => rows.insert(&mut lane.scratch, pairs),
        }
    }

    /// Stores pairs, present keys too. Returns how many keys were new.
    pub fn upsert(&self, lane: &mut Lane<V>, pairs: Pairs<'_, V>) -> Result<usize> {
        match self {
            Self::Cells(map) => Ok(map.upsert(&pairs.keys, &pairs.values)?),
            Self::Rows(rows) => rows.upsert(&mut lane.scratch, pairs),
        }
    }

    /// Looks up the keys at these places of all, to the answers of a lane that has them.
    pub fn get(
        &self,
        lane: &mut Lane<V>,
        keys: &BufferView<'_, u64>,
        part: Range<usize>,
    ) -> Result<()> {
        let at = part.start - lane.keys.start..part.end - lane.keys.start;
        let mut values = lane.values.slice_mut(at.clone())?;
        let mut found = lane.found.slice_mut(at)?;
        match self {
            Self::Cells(map) => Ok(map.get_into(keys, &mut values, &mut found)?),
            Self::Rows(rows) => rows.get(&mut lane.scratch, keys, values, found),
        }
    }
}

/// A stream's part of the keys, and where its answers go.
pub struct Lane<V: Pod> {
    keys: Range<usize>,
    values: Buffer<V>,
    found: Buffer<u8>,
    scratch: Scratch,
}

/// What calls on rows have beside: arrays for a batch each.
pub struct Scratch {
    pub stream: Stream,
    pub rows: Buffer<u32>,
    /// 1 at the first occurrence of a new key.
    pub new: Buffer<u8>,
    /// 0, 1, 2 and so on.
    pub places: Buffer<u32>,
    /// The place that was elected for each key.
    pub elected: Buffer<u32>,
}

impl Scratch {
    /// For batches of so many keys.
    pub fn new(stream: &Stream, batch: usize) -> Result<Self> {
        let places: Vec<u32> = (0..batch as u32).collect();
        Ok(Self {
            stream: stream.clone(),
            rows: Buffer::zeroed(stream, batch)?,
            new: Buffer::zeroed(stream, batch)?,
            places: Buffer::from_slice(stream, &places)?,
            elected: Buffer::zeroed(stream, batch)?,
        })
    }
}

impl<V: Large> Lane<V> {
    /// Of these keys, in batches.
    pub fn new(stream: &Stream, keys: Range<usize>, batch: usize) -> Result<Self> {
        Ok(Self {
            values: Buffer::zeroed(stream, keys.len())?,
            found: Buffer::zeroed(stream, keys.len())?,
            scratch: Scratch::new(stream, batch.min(keys.len()))?,
            keys,
        })
    }

    /// Calls a verb on all keys of the lane. Returns how many were new.
    pub fn run(&mut self, store: &Store<V>, batch: usize, call: &Call<'_, V>) -> Result<usize> {
        let keys = self.keys.clone();
        keys.clone().step_by(batch).try_fold(0, |new, start| {
            Ok(new + call(store, self, start..(start + batch).min(keys.end))?)
        })
    }

    /// Whether all keys of the last lookup were found, with these values by place.
    pub fn found_all(&self, expected: impl Fn(usize) -> V) -> Result<bool> {
        let mut pairs = self.keys.clone().zip(self.values.to_vec()?);
        let right = pairs.all(|(i, value)| value == expected(i));
        Ok(right && self.found.to_vec()?.into_iter().all(|found| found == 1))
    }

    /// The first values of the last lookup.
    pub fn first_values(&self, len: usize) -> Result<Vec<V>> {
        Ok(self.values.slice(..len)?.to_vec()?)
    }

    /// Whether none was.
    pub fn found_none(&self) -> Result<bool> {
        Ok(self.found.to_vec()?.into_iter().all(|found| found == 0))
    }
}
