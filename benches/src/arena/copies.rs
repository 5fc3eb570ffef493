//! What the cells of an arena cost at best: copies of values at random places, by the kernels that the map
//! uses, from an array whose places are known.

use anyhow::Result;
use gpumap::bytemuck::Pod;
use gpumap::simt::kernel::{Grid, Kernel};
use gpumap_kernels::cells::{CHUNK, CopyArgs, GATHER, SCATTER, THREADS};

use crate::bench::Bench;
use crate::data::strided;
use crate::report::Row;

/// Milliseconds that copying `n` values takes.
pub struct Copies {
    pub gather: f64,
    pub scatter: f64,
}

impl Copies {
    /// Measures copies of the values of an array in a strided order.
    pub fn measure<V: Pod>(bench: &mut Bench, n: usize) -> Result<Self> {
        let bytes = size_of::<V>();
        let cells = bench.zeroed::<u8>(n * bytes)?;
        let mut values = bench.zeroed::<u8>(n * bytes)?;
        let ids = bench.buffer((0..n as u64).map(|i| strided(i, n as u64) as u32))?;
        let chunk = |i| cells.as_ptr().wrapping_add(i * CHUNK as usize * bytes) as u64;
        let chunks = bench.buffer((0..n.div_ceil(CHUNK as usize)).map(chunk))?;
        let args = CopyArgs {
            ids: ids.as_ptr(),
            values: values.as_mut_ptr(),
            found: std::ptr::null_mut(),
            chunks: chunks.as_ptr(),
            len: n as u64,
            word: 16,
            words: (bytes / 16) as u32,
            stride: bytes as u32,
        };
        let grid = Grid::new(n.div_ceil(THREADS as usize) as u32, THREADS);
        let stream = bench.stream;
        let mut measure = |what: &str, kernel: &'static Kernel<CopyArgs>| {
            let (took, ()) = bench.time(|| {
                // SAFETY: the buffers outlive the launch, which is waited for; each id is once in
                // the order.
                unsafe { kernel.launch(stream, grid, args) }?;
                stream.synchronize()
            })?;
            let row = Row::ceiling(format!("random {what} of {bytes} bytes"), took, n);
            bench.report.add(row.moving((2 * n * bytes) as f64));
            anyhow::Ok(took.median)
        };
        Ok(Self {
            gather: measure("gather", &GATHER)?,
            scatter: measure("scatter", &SCATTER)?,
        })
    }
}
