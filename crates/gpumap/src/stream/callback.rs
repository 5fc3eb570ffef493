//! Calling the host in the order of a stream.

use std::ffi::c_void;

use super::{Queue, Stream};
use crate::cuda::cu;
use crate::device::{Call, Kind};
use crate::error::Result;

/// What is to be called; boxed twice, so that one thin pointer leads to it.
type Callback = Box<dyn FnOnce() + Send>;

impl Stream {
    /// Calls `f` when everything queued so far has ended, on a thread of the driver's, or at once
    /// on the CPU. It must not call the driver.
    pub(crate) fn call_host(&self, f: Callback) -> Result<()> {
        self.device().admit(Call::CallHost)?;
        let (Queue::Cuda { .. }, Kind::Cuda(context)) = (&self.inner.queue, self.device().kind())
        else {
            f();
            return Ok(());
        };
        let _current = context.enter()?;
        let call = Box::into_raw(Box::new(f));
        // SAFETY: the stream is alive; `run` takes the box back, once.
        let queued =
            self.queue(|stream| unsafe { cu!(cuLaunchHostFunc(stream, Some(run), call.cast())) });
        if queued.is_err() {
            // SAFETY: nobody else will take it.
            drop(unsafe { Box::from_raw(call) });
        }
        queued
    }
}

/// # Safety
/// `call` comes from `call_host`, and is given here once.
unsafe extern "C" fn run(call: *mut c_void) {
    // SAFETY: the caller's promise.
    let call = unsafe { Box::from_raw(call.cast::<Callback>()) };
    // A panic must not reach the driver.
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call));
}
