//! A verb that notes when each of its keys was taken up and finished.

use std::sync::atomic::{AtomicU64, Ordering};

use gpumap_kernels::probe::{Job, Next, Seen, Verb};
use gpumap_kernels::slot::Format;

/// Moments, in their order.
#[derive(Debug, Default)]
pub struct Clock(AtomicU64);

impl Clock {
    /// This moment.
    pub fn now(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// A verb whose keys are timed.
#[derive(Debug)]
pub struct Timed<'a, V> {
    /// The verb.
    pub verb: V,
    /// The time.
    pub clock: &'a Clock,
    /// Beginning and end, for each key of the batch. A key that is left out has no end.
    pub times: *mut [u64; 2],
}

impl<V> Timed<'_, V> {
    /// Notes this moment for a key.
    ///
    /// # Safety
    /// There is a place for the key, which only its lane writes.
    unsafe fn note(&self, index: u64, which: usize) {
        // SAFETY: the caller's promise.
        unsafe { (*self.times.add(index as usize))[which] = self.clock.now() };
    }

    /// Passes on what is next, and notes the end.
    ///
    /// # Safety
    /// As for [`note`](Self::note).
    unsafe fn ended(&self, index: u64, next: Next) -> Next {
        if next == Next::Done {
            // SAFETY: the caller's promise.
            unsafe { self.note(index, 1) };
        }
        next
    }
}

impl<F: Format, V: Verb<F>> Verb<F> for Timed<'_, V> {
    const TAKES: bool = V::TAKES;
    const READS: bool = V::READS;
    const LOCATES: bool = V::LOCATES;
    const CLAIMS: bool = V::CLAIMS;

    unsafe fn wants(&mut self, index: u64) -> bool {
        // SAFETY: the caller's promise; a key is taken up by one lane.
        unsafe {
            self.note(index, 0);
            self.verb.wants(index)
        }
    }

    unsafe fn serve(&mut self, job: &Job<F>, seen: Seen<F::Value>) -> Next {
        // SAFETY: as above.
        unsafe {
            let next = self.verb.serve(job, seen);
            self.ended(job.index, next)
        }
    }

    unsafe fn walked_off(&mut self, job: &Job<F>, cell: bool) -> Next {
        // SAFETY: as above.
        unsafe {
            let next = self.verb.walked_off(job, cell);
            self.ended(job.index, next)
        }
    }
}
