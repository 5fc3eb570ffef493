//! The link itself: copies of page-locked and of plain memory.

use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::Result;
use gpumap::{Buffer, PinnedBuffer, Stream};

use crate::bench::Bench;
use crate::measure::Time;
use crate::report::Row;

/// Bytes of a piece, as large as those that batches are cut into.
const PIECE: usize = 2 << 20;

/// Bytes per millisecond.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    there: f64,
    back: f64,
    /// Of both directions together, while both are used.
    both: f64,
}

impl Link {
    /// Measures copies of `bytes` bytes each way.
    pub fn measure(bench: &mut Bench, bytes: usize) -> Result<Self> {
        let stream = bench.stream;
        let second = Stream::new(bench.device())?;
        let mut there = bench.zeroed::<u8>(bytes)?;
        let back = Buffer::<u8>::zeroed(&second, bytes)?;
        let from = PinnedBuffer::<u8>::zeroed(bench.device(), bytes)?;
        let mut to = PinnedBuffer::<u8>::zeroed(bench.device(), bytes)?;
        let (took, ()) = bench.time(|| {
            // SAFETY: the source is not used until the wait.
            unsafe { there.as_view_mut().copy_from_pinned_async(&from) }?;
            stream.synchronize()
        })?;
        let rate_there = add(bench, "link, pinned, to the device", took, bytes);
        let (took, ()) = bench.time(|| {
            // SAFETY: the target is not used until the wait.
            unsafe { back.as_view().copy_to_pinned_async(&mut to) }?;
            second.synchronize()
        })?;
        let rate_back = add(bench, "link, pinned, from the device", took, bytes);
        let (took, ()) = bench.time(|| {
            // SAFETY: both are not used until the waits.
            unsafe {
                there.as_view_mut().copy_from_pinned_async(&from)?;
                back.as_view().copy_to_pinned_async(&mut to)?;
            }
            stream.synchronize()?;
            second.synchronize()
        })?;
        let rate_both = add(bench, "link, pinned, both ways at once", took, 2 * bytes);
        drop((from, to));
        plain(bench, &mut there, &back)?;
        Ok(Self {
            there: rate_there,
            back: rate_back,
            both: rate_both,
        })
    }

    /// Milliseconds for so many bytes to the device and back.
    pub fn ceiling(&self, bytes_there: usize, bytes_back: usize) -> f64 {
        let (there, back) = (bytes_there as f64, bytes_back as f64);
        // While both ways are used, each may be slower; the longer one goes on alone.
        let shared = 2.0 * there.min(back) / self.both;
        let alone = |rate: f64| (there - back).abs() / rate;
        let rest = if there > back {
            alone(self.there)
        } else {
            alone(self.back)
        };
        (there / self.there)
            .max(back / self.back)
            .max(shared + rest)
    }
}

/// Adds a row of copies of so many bytes; returns bytes per millisecond.
fn add(bench: &mut Bench, name: &str, took: Time, moved: usize) -> f64 {
    let row = Row::ceiling(name, took, moved).moving(moved as f64);
    bench.report.add(row);
    moved as f64 / took.median
}

/// Copies of plain memory: what the driver makes of it, and threads without any device.
fn plain(bench: &mut Bench, there: &mut Buffer<u8>, back: &Buffer<u8>) -> Result<()> {
    let bytes = there.len();
    let mut plain = vec![1u8; bytes];
    let (took, ()) = bench.time(|| there.copy_from_slice(&plain))?;
    add(bench, "link, plain, to the device", took, bytes);
    let (took, ()) = bench.time(|| back.copy_to_slice(&mut plain))?;
    add(bench, "link, plain, from the device", took, bytes);
    // Batches in vectors cannot be faster than that.
    let threads = thread::available_parallelism().map_or(1, |threads| threads.get().min(16));
    let piece = || PinnedBuffer::zeroed(bench.device(), PIECE);
    let mut pieces: Vec<_> = (0..threads).map(|_| piece()).collect::<Result<_, _>>()?;
    let (took, ()) = bench.time(|| {
        into_pieces(&plain, &mut pieces);
        anyhow::Ok(())
    })?;
    add(bench, "plain memory, into pinned pieces", took, bytes);
    if bench.device().is_cuda() {
        let (took, ()) = bench.time(|| locked_for_a_copy(there, &plain))?;
        add(bench, "link, plain, locked for the copy", took, bytes);
    }
    Ok(())
}

/// Copies plain memory piece by piece, a thread for each of these.
fn into_pieces(plain: &[u8], pieces: &mut [PinnedBuffer<u8>]) {
    let parts = Mutex::new(plain.chunks(PIECE));
    let next = || parts.lock().unwrap_or_else(PoisonError::into_inner).next();
    thread::scope(|scope| {
        for piece in pieces {
            scope.spawn(|| {
                while let Some(part) = next() {
                    piece[..part.len()].copy_from_slice(part);
                }
            });
        }
    });
}

/// Locks plain memory for one copy.
fn locked_for_a_copy(there: &mut Buffer<u8>, plain: &[u8]) -> Result<()> {
    use cudarc::driver::{result, sys};
    if let Some(context) = there.device().as_raw_context() {
        // SAFETY: the context is alive.
        unsafe { result::ctx::set_current(context) }?;
    }
    let start = plain.as_ptr().cast_mut().cast();
    // SAFETY: the memory is there until it is unlocked below; copies only read it.
    unsafe { sys::cuMemHostRegister_v2(start, plain.len(), 0).result() }?;
    let copied = there.copy_from_slice(plain);
    // SAFETY: locked just now, and the copy has been waited for.
    unsafe { sys::cuMemHostUnregister(start).result() }?;
    Ok(copied?)
}
