//! What every suite measures with.

use anyhow::{Error, Result};
use gpumap::bytemuck::Pod;
use gpumap::{Buffer, Device, Key, Map, MapBuilder, Numeric, Stream};

use crate::ceilings::Ceilings;
use crate::measure::{Clock, Time};
use crate::report::{Report, Row};

/// A device, a size, a clock, what the device can do, and where rows go.
pub struct Bench<'a> {
    /// What buffers belong to.
    pub stream: &'a Stream,
    /// Pairs in a map, or elements of an array.
    pub n: usize,
    /// What times are taken with.
    pub clock: Clock,
    /// Of `n` operations each.
    pub ceilings: Ceilings,
    /// The table.
    pub report: &'a mut Report,
}

impl Bench<'_> {
    /// The device.
    pub fn device(&self) -> &Device {
        self.stream.device()
    }

    /// Times `body`, which returns when the device is done; with what it returned last.
    pub fn time<T, E: Into<Error>>(&self, body: impl FnMut() -> Result<T, E>) -> Result<(Time, T)> {
        self.clock.time(body)
    }

    /// Likewise; `prepare` goes before each run and is not timed.
    pub fn time_after<T, P: Into<Error>, E: Into<Error>>(
        &self,
        prepare: impl FnMut() -> Result<(), P>,
        body: impl FnMut() -> Result<T, E>,
    ) -> Result<(Time, T)> {
        self.clock.time_after(prepare, body)
    }

    /// A map whose hash is the same in each run of the program.
    pub fn map<K: Key, V: Numeric>(&self, capacity: usize, max_load: f64) -> MapBuilder<K, V> {
        Map::builder(self.device())
            .capacity(capacity)
            .max_load_factor(max_load)
            .hash_seed(1)
    }

    /// A buffer of these elements.
    pub fn buffer<T: Pod>(&self, elements: impl IntoIterator<Item = T>) -> Result<Buffer<T>> {
        let elements: Vec<T> = elements.into_iter().collect();
        Ok(Buffer::from_slice(self.stream, &elements)?)
    }

    /// A buffer of `len` elements to write to.
    pub fn zeroed<T: Pod>(&self, len: usize) -> Result<Buffer<T>> {
        Ok(Buffer::zeroed(self.stream, len)?)
    }

    /// Adds a row of `n` operations.
    pub fn add(&mut self, name: impl Into<String>, took: Time, ceiling_ms: f64) {
        self.report.add(Row::op(name, took, self.n, ceiling_ms));
    }

    /// A row of what reads and writes so many bytes, beside a copy that does.
    pub fn beside_copy(&self, name: impl Into<String>, took: Time, n: usize, bytes: usize) -> Row {
        Row::op(name, took, n, self.ceilings.copy_ms(bytes)).moving(bytes as f64)
    }
}
