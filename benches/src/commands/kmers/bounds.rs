//! What this machine does at best with the bytes of a job: each step of counting has one of these as its bound.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use gpumap::file::AtomicFile;
use gpumap::{Buffer, Device, PinnedBuffer, Stream};
use rayon::prelude::*;

/// Bytes that a thread reads or writes at once.
const BLOCK: u64 = 8 << 20;

/// Bytes that are copied to measure the link and the device's memory.
const COPIED: usize = 256 << 20;

/// Runs of each copy, of which the fastest counts.
const RUNS: usize = 3;

/// Seconds that all threads take to read a file once.
pub fn read(path: &Path) -> Result<f64> {
    let measure = || -> Result<f64> {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        let start = Instant::now();
        let blocks = (0..bytes.div_ceil(BLOCK)).into_par_iter();
        let buffer = || vec![0; BLOCK.min(bytes) as usize];
        blocks.try_for_each_init(buffer, |buffer, block| {
            let at = block * BLOCK;
            file.read_exact_at(&mut buffer[..BLOCK.min(bytes - at) as usize], at)
        })?;
        Ok(start.elapsed().as_secs_f64())
    };
    measure().with_context(|| format!("cannot read {}", path.display()))
}

/// Seconds that all threads take to write so many bytes, which are there already, to a file that is whole or not at all.
pub fn write(path: &Path, bytes: u64) -> Result<f64> {
    let measure = || -> Result<f64> {
        let block = vec![1; BLOCK as usize];
        let starts = (0..bytes).step_by(block.len());
        let parts: Vec<&[u8]> = starts
            .map(|at| &block[..BLOCK.min(bytes - at) as usize])
            .collect();
        let start = Instant::now();
        let mut file = AtomicFile::create(path)?;
        file.append_parts(&parts, 0)?;
        file.sync()?;
        Ok(start.elapsed().as_secs_f64())
    };
    measure().with_context(|| format!("cannot write {}", path.display()))
}

/// Bytes a second.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// From page-locked memory of the host to the device.
    pub there: f64,
    /// Back.
    pub back: f64,
    /// Read and written by a copy on the device.
    pub copy: f64,
}

impl Rates {
    /// Measures them.
    pub fn measure(device: &Device) -> Result<Self> {
        let measure = || -> gpumap::Result<Self> {
            let bytes = if device.is_cuda() {
                COPIED
            } else {
                COPIED / 16
            };
            let stream = Stream::new(device)?;
            let mut here = PinnedBuffer::<u8>::zeroed(device, bytes)?;
            let mut on_device = Buffer::<u8>::zeroed(&stream, bytes)?;
            let mut other = Buffer::<u8>::zeroed(&stream, bytes)?;
            Ok(Self {
                there: rate(bytes, || on_device.copy_from_slice(&here))?,
                back: rate(bytes, || on_device.copy_to_slice(&mut here))?,
                copy: rate(2 * bytes, || {
                    other.as_view_mut().copy_from(&on_device.as_view())?;
                    stream.synchronize()
                })?,
            })
        };
        measure().context("cannot measure the device")
    }
}

/// Bytes a second of the fastest run.
fn rate(bytes: usize, mut copy: impl FnMut() -> gpumap::Result<()>) -> gpumap::Result<f64> {
    let mut least = f64::INFINITY;
    for _ in 0..RUNS {
        let start = Instant::now();
        copy()?;
        least = least.min(start.elapsed().as_secs_f64());
    }
    Ok(bytes as f64 / least.max(1e-9))
}
