//! Callers of a map on a GPU, with keys and answers in buffers there.

use std::ops::Range;
use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use gpumap::{Buffer, Stream};

use super::Batch;
use super::circle::Circle;
use super::on_host::{Fresh, new_value};
use super::race::Caller;
use crate::maps::{Ours, Peer};

/// What all threads use.
struct Shared {
    map: Ours,
    keys: Buffer<u64>,
    values: Buffer<u64>,
    asked: Buffer<u64>,
}

/// A map with all pairs, or with half of them where others are stored.
pub struct OnDevice<'a, M> {
    batch: &'a Batch,
    make: M,
    name: String,
    shared: Arc<Shared>,
    fresh: Option<Arc<Fresh>>,
}

impl<'a, M: Fn() -> Result<Ours>> OnDevice<'a, M> {
    pub fn new(batch: &'a Batch, make: M) -> Result<Self> {
        let map = make()?;
        let stream = Stream::new(map.map().device())?;
        let buffer = |array: &[u64]| Buffer::from_slice(&stream, array);
        let (keys, values) = (buffer(&batch.keys)?, buffer(&batch.values)?);
        let asked = buffer(&batch.asked)?;
        batch.fill(&map, batch.len())?;
        Ok(Self {
            batch,
            make,
            name: map.name(),
            shared: Arc::new(Shared {
                map,
                keys,
                values,
                asked,
            }),
            fresh: None,
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Threads that look up present keys.
    pub fn asks(&self, threads: usize, keys: usize) -> Result<Vec<Asks<'a>>> {
        let of_share = |circle: Circle| {
            let stream = Stream::new(self.shared.map.map().device())?;
            Ok(Asks {
                shared: self.shared.clone(),
                batch: self.batch,
                circle,
                last: 0..0,
                out: Buffer::zeroed(&stream, keys)?,
                found: Buffer::zeroed(&stream, keys)?,
            })
        };
        let shares = Circle::shares(self.batch.len(), threads, keys);
        shares.map(of_share).collect()
    }

    /// Threads that give present keys new values.
    pub fn renews(&self, threads: usize, keys: usize) -> Result<Vec<Renews>> {
        let value = new_value();
        let of_share = |circle: Circle| {
            let stream = Stream::new(self.shared.map.map().device())?;
            Ok(Renews {
                shared: self.shared.clone(),
                circle,
                last: 0..0,
                value,
                values: Buffer::from_slice(&stream, &vec![value; keys])?,
            })
        };
        let shares = Circle::shares(self.batch.len(), threads, keys);
        shares.map(of_share).collect()
    }

    /// Threads that store pairs.
    pub fn stores(&mut self, threads: usize, keys: usize) -> Result<Vec<Stores>> {
        let n = self.batch.len();
        let left = self.fresh.take().map_or(n, |fresh| fresh.left());
        let is_enough = n - left >= (n - self.batch.half()) / 4;
        let fresh = match Fresh::new(left..n, threads, keys).filter(|_| is_enough) {
            Some(fresh) => fresh,
            None => {
                let half = self.batch.half();
                self.refill((self.make)()?, half)?;
                match Fresh::new(half..n, threads, keys) {
                    Some(fresh) => fresh,
                    None => bail!("too few pairs for {threads} threads with {keys} keys a call"),
                }
            }
        };
        self.fresh = Some(fresh.clone());
        let caller = |_| Stores {
            shared: self.shared.clone(),
            fresh: fresh.clone(),
            keys,
            block: 0..0,
            last: 0..0,
            given: 0,
            stored: 0,
        };
        Ok((0..threads).map(caller).collect())
    }

    /// Goes on with another map, with so many pairs.
    pub fn refill(&mut self, map: Ours, pairs: usize) -> Result<()> {
        self.batch.fill(&map, pairs)?;
        match Arc::get_mut(&mut self.shared) {
            Some(shared) => shared.map = map,
            None => bail!("callers of the map before are still there"),
        }
        Ok(())
    }
}

/// A thread that looks up present keys.
pub struct Asks<'a> {
    shared: Arc<Shared>,
    batch: &'a Batch,
    circle: Circle,
    last: Range<usize>,
    out: Buffer<u64>,
    found: Buffer<u8>,
}

impl Caller for Asks<'_> {
    fn call(&mut self) -> Result<bool> {
        let part = self.circle.next();
        let keys = self.shared.asked.slice(part.clone())?;
        let map = self.shared.map.map();
        map.get_into(&keys, &mut self.out, &mut self.found)?;
        self.last = part;
        Ok(true)
    }

    /// Of its last call alone: the answers of the others are not on the host.
    fn verify(self) -> Result<()> {
        let are_there = self.found.to_vec()?.iter().all(|&it| it == 1);
        ensure!(are_there, "a key is absent");
        let sums = &self.batch.sums;
        let right = self.last.map(|i| sums[i + 1].wrapping_sub(sums[i]));
        ensure!(right.eq(self.out.to_vec()?), "a wrong value");
        Ok(())
    }
}

/// A thread that gives present keys a new value.
pub struct Renews {
    shared: Arc<Shared>,
    circle: Circle,
    last: Range<usize>,
    value: u64,
    values: Buffer<u64>,
}

impl Caller for Renews {
    fn call(&mut self) -> Result<bool> {
        let part = self.circle.next();
        let keys = self.shared.asked.slice(part.clone())?;
        self.shared.map.map().upsert(&keys, &self.values)?;
        self.last = part;
        Ok(true)
    }

    fn verify(self) -> Result<()> {
        let keys = self.shared.asked.slice(self.last)?;
        let values = self.shared.map.map().get(&keys)?;
        let are_right = values.iter().all(|&value| value == Some(self.value));
        ensure!(are_right, "a wrong value");
        Ok(())
    }
}

/// A thread that stores pairs whose keys are absent.
pub struct Stores {
    shared: Arc<Shared>,
    fresh: Arc<Fresh>,
    keys: usize,
    block: Range<usize>,
    last: Range<usize>,
    given: usize,
    stored: usize,
}

impl Caller for Stores {
    fn call(&mut self) -> Result<bool> {
        if self.block.is_empty() {
            let Some(block) = self.fresh.take() else {
                return Ok(false);
            };
            self.block = block;
        }
        let part = self.block.start..self.block.start + self.keys;
        self.block.start = part.end;
        let keys = self.shared.keys.slice(part.clone())?;
        let values = self.shared.values.slice(part.clone())?;
        self.stored += self.shared.map.map().insert(&keys, &values)?;
        self.given += self.keys;
        self.last = part;
        Ok(true)
    }

    fn verify(self) -> Result<()> {
        let Self { given, stored, .. } = self;
        ensure!(given == stored, "{stored} of {given} stored");
        let keys = self.shared.keys.slice(self.last.clone())?;
        let values = self.shared.map.map().get(&keys)?;
        let right = self.last.map(|i| Some(i as u64));
        ensure!(right.eq(values), "a wrong value");
        Ok(())
    }
}
