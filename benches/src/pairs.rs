//! Batches of pairs that are made on the device.

use anyhow::Result;
use gpumap::simt::kernel::Grid;
use gpumap::{Buffer, Stream};
use gpumap_bench_kernels::pairs::{PAIRS, PairsArgs};

/// A batch on a device whose kernels are [registered](gpumap_benches::ladder::register_kernels).
pub struct Pairs {
    stream: Stream,
    /// Sparse keys.
    pub keys: Buffer<u64>,
    /// Their numbers.
    pub values: Buffer<u64>,
}

impl Pairs {
    /// Room for `len` pairs.
    pub fn new(stream: &Stream, len: usize) -> Result<Self> {
        Ok(Self {
            stream: stream.clone(),
            keys: Buffer::zeroed(stream, len)?,
            values: Buffer::zeroed(stream, len)?,
        })
    }

    /// The pairs from number `first` on.
    pub fn make(&mut self, first: usize) -> Result<()> {
        self.make_every(1, first)
    }

    /// Likewise, every `step`-th of them.
    pub fn make_every(&mut self, step: usize, first: usize) -> Result<()> {
        let n = self.keys.len() as u64;
        let args = PairsArgs {
            first: first as u64,
            step: step as u64,
            n,
            keys: self.keys.as_mut_ptr(),
            values: self.values.as_mut_ptr(),
        };
        // SAFETY: both buffers have `n` elements; they are of this stream, and so is the wait.
        unsafe { PAIRS.launch(&self.stream, Grid::covering(n, 256), args) }?;
        Ok(self.stream.synchronize()?)
    }
}
