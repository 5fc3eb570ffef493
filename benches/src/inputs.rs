//! Keys on the device: what is stored, and what is looked up.

use anyhow::Result;
use gpumap::Buffer;

use crate::bench::Bench;
use crate::data::{BenchKey, strided};

/// As many keys of each sort.
pub struct Inputs<K> {
    /// Keys to store.
    pub keys: Buffer<K>,
    /// The same keys in another order, in which they are looked up.
    pub asked: Buffer<K>,
    /// Keys that are not stored.
    pub absent: Buffer<K>,
}

impl<K: BenchKey> Inputs<K> {
    /// The first `n` keys, and the `n` that follow.
    pub fn new(bench: &Bench, key_of: impl Fn(u64) -> K) -> Result<Self> {
        let n = bench.n as u64;
        Ok(Self {
            keys: bench.buffer((0..n).map(&key_of))?,
            asked: bench.buffer((0..n).map(|i| key_of(strided(i, n))))?,
            absent: bench.buffer((n..2 * n).map(&key_of))?,
        })
    }
}
