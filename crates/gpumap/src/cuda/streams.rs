//! [`Streams`]: all streams of this library in a context, to be waited for together.
//!
//! Not by `cuCtxSynchronize`: while any thread of the process captures a graph in the default mode, the
//! driver refuses that call, in [relaxed mode](super::relaxed) too, and the capture is lost (H200,
//! 2026-11-24).

use std::fmt;
use std::sync::Weak;

use cudarc::driver::sys::{CUresult, CUstream, cuStreamQuery};
use parking_lot::Mutex;

use super::context::Current;
use super::driver::cu;
use super::refusal::until_answered;
use crate::error::Result;

/// A stream that can be waited for.
pub(crate) trait Awaited: fmt::Debug + Send + Sync {
    /// Waits until everything queued so far has ended.
    fn wait(&self) -> Result<()>;
}

/// The streams of a context.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    live: Mutex<Vec<Weak<dyn Awaited>>>,
    retired: Mutex<Vec<Retired>>,
}

/// A stream whose last owner is gone and whose work may not have ended.
#[derive(Debug)]
struct Retired(CUstream);

// SAFETY: a CUstream is a handle that the driver lets any thread use.
unsafe impl Send for Retired {}

impl Streams {
    /// Adds a stream.
    pub(crate) fn add(&self, stream: Weak<dyn Awaited>) {
        let mut live = self.live.lock();
        if live.len() == live.capacity() {
            live.retain(|stream| stream.strong_count() > 0);
        }
        live.push(stream);
    }

    /// Takes over a stream whose owner is gone. It is destroyed once its work has ended, so that
    /// [`synchronize`](Self::synchronize) can wait for it until then.
    ///
    /// # Safety
    /// The stream is alive, of the current context, and the caller's alone.
    pub(crate) unsafe fn retire(&self, current: &Current<'_>, stream: CUstream) {
        let mut retired = self.retired.lock();
        retired.push(Retired(stream));
        retired.retain(|stream| !stream.has_ended(current) || !stream.destroy(current));
    }

    /// Waits for all of them, also after an error of one; returns the first error.
    pub(super) fn synchronize(&self, current: &Current<'_>) -> Result<()> {
        let live: Vec<_> = self.live.lock().iter().filter_map(Weak::upgrade).collect();
        let mut outcome = Ok(());
        for stream in live {
            outcome = outcome.and(stream.wait());
        }
        let mut retired = self.retired.lock();
        for stream in retired.drain(..) {
            outcome = outcome.and(stream.wait(current));
            stream.destroy(current);
        }
        outcome
    }
}

impl Retired {
    /// Whether its work has ended, well or not.
    fn has_ended(&self, _: &Current<'_>) -> bool {
        // SAFETY: the stream is alive until `destroy`, and of the current context.
        let answer = unsafe { cuStreamQuery(self.0) };
        answer != CUresult::CUDA_ERROR_NOT_READY && !crate::error::DriverCode(answer).is_refusal()
    }

    fn wait(&self, _: &Current<'_>) -> Result<()> {
        // SAFETY: as above.
        until_answered(|| unsafe { cu!(cuStreamSynchronize(self.0)) })
    }

    /// Always true: what is left of it is the driver's.
    fn destroy(&self, _: &Current<'_>) -> bool {
        // SAFETY: created by the library and destroyed only here, by the one owner.
        let destroyed = unsafe { cu!(cuStreamDestroy_v2(self.0)) };
        if let Err(error) = destroyed {
            tracing::debug!(%error, "could not destroy a stream");
        }
        true
    }
}
