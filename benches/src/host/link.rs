//! The link itself: copies of page-locked and of plain memory.

use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::Result;
use gpumap::{Buffer, PinnedBuffer, Stream};

use crate::measure::{Time, time};
use crate::report::{Report, Row};

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
    pub fn measure(
        stream: &Stream,
        bytes: usize,
        runs: usize,
        report: &mut Report,
    ) -> Result<Self> {
        let device = stream.device();
        let second = Stream::new(device)?;
        let mut there = Buffer::<u8>::zeroed(stream, bytes)?;
        let back = Buffer::<u8>::zeroed(&second, bytes)?;
        let from = PinnedBuffer::<u8>::zeroed(device, bytes)?;
        let mut to = PinnedBuffer::<u8>::zeroed(device, bytes)?;
        let nothing = || Ok(());
        let mut add = |name: &str, took: Time, moved: usize| {
            report.add(Row::ceiling(name, took, moved).moving(moved as f64));
            moved as f64 / took.median
        };

        let took = time(runs, nothing, || {
            // SAFETY: the source is left alone until the wait.
            unsafe { there.as_view_mut().copy_from_pinned_async(&from) }?;
            Ok(stream.synchronize()?)
        })?;
        let rate_there = add("link, pinned, to the device", took, bytes);
        let took = time(runs, nothing, || {
            // SAFETY: the target is left alone until the wait.
            unsafe { back.as_view().copy_to_pinned_async(&mut to) }?;
            Ok(second.synchronize()?)
        })?;
        let rate_back = add("link, pinned, from the device", took, bytes);
        let took = time(runs, nothing, || {
            // SAFETY: both are left alone until the waits.
            unsafe {
                there.as_view_mut().copy_from_pinned_async(&from)?;
                back.as_view().copy_to_pinned_async(&mut to)?;
            }
            stream.synchronize()?;
            Ok(second.synchronize()?)
        })?;
        let rate_both = add("link, pinned, both ways at once", took, 2 * bytes);
        drop((from, to));

        // What the driver makes of plain memory.
        let mut plain = vec![1u8; bytes];
        let took = time(runs, nothing, || Ok(there.copy_from_slice(&plain)?))?;
        add("link, plain, to the device", took, bytes);
        let took = time(runs, nothing, || Ok(back.copy_to_slice(&mut plain)?))?;
        add("link, plain, from the device", took, bytes);
        // What threads make of it without any device: batches in vectors cannot be faster than that.
        let threads = thread::available_parallelism().map_or(1, |threads| threads.get().min(16));
        let piece = || PinnedBuffer::zeroed(device, PIECE);
        let mut pieces: Vec<_> = (0..threads).map(|_| piece()).collect::<Result<_, _>>()?;
        let took = time(runs, nothing, || {
            into_pieces(&plain, &mut pieces);
            Ok(())
        })?;
        add("plain memory, into pinned pieces", took, bytes);
        if device.is_cuda() {
            let took = time(runs, nothing, || locked_for_a_copy(&mut there, &plain))?;
            add("link, plain, locked for the copy", took, bytes);
        }
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
