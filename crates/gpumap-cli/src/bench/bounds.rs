//! What this machine does at best with the bytes of a job: each step of counting has one of these as its bound.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use gpumap::file::AtomicFile;
use gpumap::{Buffer, Device, PinnedBuffer, Stream};

use crate::error::{Error, Result};

/// Bytes that a thread reads or writes at once.
const BLOCK: u64 = 8 << 20;

/// Bytes that are copied to measure the link and the device's memory.
const COPIED: usize = 256 << 20;

/// Runs of each copy, of which the fastest counts.
const RUNS: usize = 3;

/// Seconds that all threads take to read a file once.
pub fn read(path: &Path) -> Result<f64> {
    let measure = || {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        by_blocks(bytes, |buffer, at| file.read_exact_at(buffer, at))
    };
    measure().map_err(|source| Error::Read {
        name: path.display().to_string(),
        source,
    })
}

/// Seconds that all threads take to write so many bytes, which are there already, to a file that is whole or not at all.
pub fn write(path: &Path, bytes: u64) -> Result<f64> {
    let measure = || {
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
    measure().map_err(|source| Error::Write {
        path: path.to_owned(),
        source,
    })
}

/// Does the same in as many threads as the machine runs at once. If that fails, the error of one of them.
pub fn by_all_threads(work: impl Fn() -> io::Result<()> + Sync) -> io::Result<()> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(&work)).collect();
        threads.into_iter().try_for_each(|thread| {
            let ended = thread.join();
            ended.unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
        })
    })
}

/// Does something with each block of so many bytes, by all threads; returns seconds.
fn by_blocks(
    bytes: u64,
    block: impl Fn(&mut [u8], u64) -> io::Result<()> + Sync,
) -> io::Result<f64> {
    let next = AtomicU64::new(0);
    let start = Instant::now();
    by_all_threads(|| {
        let mut buffer = vec![1; BLOCK.min(bytes) as usize];
        loop {
            let at = next.fetch_add(BLOCK, Ordering::Relaxed);
            if at >= bytes {
                return Ok(());
            }
            block(&mut buffer[..BLOCK.min(bytes - at) as usize], at)?;
        }
    })?;
    Ok(start.elapsed().as_secs_f64())
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
        measure().map_err(Error::while_doing("cannot measure the device"))
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
