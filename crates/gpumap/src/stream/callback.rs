//! Calling the host in the order of a stream.

use std::ffi::c_void;

use cudarc::driver::sys::CUresult;

use super::{Queue, Stream};
use crate::cuda::cu;
use crate::device::{Call, Kind};
use crate::error::Result;
use crate::raw::CUstream;

/// What is to be called; boxed twice, so that one thin pointer leads to it.
pub(super) type Callback = Box<dyn FnOnce() + Send>;

impl Stream {
    /// Calls `f` when everything queued so far has ended, well or not, on a thread of the driver's, or at once
    /// on the CPU. It must not call the driver.
    pub(crate) fn call_host(&self, f: Callback) -> Result<()> {
        self.device().admit(Call::HostFunction)?;
        let context = match (&self.inner.queue, self.device().kind()) {
            (Queue::Cuda { .. }, Kind::Cuda(context)) => context,
            (Queue::Cpu(queue), _) => {
                self.on_host(queue, |queue| queue.call(f));
                return Ok(());
            }
            (Queue::Cuda { .. }, Kind::Cpu(_)) => return Ok(()),
        };
        let _current = context.enter()?;
        let call = Box::into_raw(Box::new(f));
        // Not `cuLaunchHostFunc`, whose function is not called any more after an error of the context: a
        // task that waits to be woken would wait for ever. (So on an H100 with a kernel that traps or
        // writes nowhere, 2026-11-23; to be called takes 80 µs instead of 78, 30 of them the kernel's.)
        // SAFETY: the stream is alive, and flags must be 0; `run` takes the box back, once.
        let queued = self
            .queue(|stream| unsafe { cu!(cuStreamAddCallback(stream, Some(run), call.cast(), 0)) });
        if queued.is_err() {
            // SAFETY: nothing else will take it.
            drop(unsafe { Box::from_raw(call) });
        }
        queued
    }
}

/// # Safety
/// `call` comes from `call_host`, and is given here once.
unsafe extern "C" fn run(_: CUstream, _: CUresult, call: *mut c_void) {
    // SAFETY: the caller's promise.
    let call = unsafe { Box::from_raw(call.cast::<Callback>()) };
    // A panic must not reach the driver.
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call));
}
