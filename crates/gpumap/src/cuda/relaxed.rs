//! [`Relaxed`]: calls of the driver that other threads' graph captures neither refuse nor suffer from.
//!
//! While any thread of a process captures a CUDA graph in the default (global) mode, the driver
//! refuses on *every* thread what it holds for unsafe there: to wait for a stream or an event, to ask
//! whether one has ended, to allocate and to free. The call returns 900, and the capture is lost. A
//! thread in relaxed mode is exempt from both (`cuThreadExchangeStreamCaptureMode`; measured on an
//! H200, 2026-11-24). Nothing that this library queues can become part of a capture of others: it
//! queues only on streams that are not being captured.

use std::cell::Cell;
use std::marker::PhantomData;

use cudarc::driver::sys::CUstreamCaptureMode;

use super::driver::cu;

/// The thread's capture mode is relaxed for as long as one of these lives on it.
///
/// The driver is called only for the outermost guard of a thread.
#[derive(Debug)]
pub(super) struct Relaxed {
    // The mode belongs to a thread.
    _thread: PhantomData<*const ()>,
}

thread_local! {
    /// How many guards this thread has.
    static GUARDS: Cell<usize> = const { Cell::new(0) };
    /// Its mode before the first of them.
    static BEFORE: Cell<CUstreamCaptureMode> =
        const { Cell::new(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL) };
}

impl Relaxed {
    pub fn enter() -> Self {
        let guards = GUARDS.get();
        if guards == 0 {
            BEFORE.set(exchange(
                CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED,
            ));
        }
        GUARDS.set(guards + 1);
        Self {
            _thread: PhantomData,
        }
    }
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        let guards = GUARDS.get() - 1;
        GUARDS.set(guards);
        if guards == 0 {
            exchange(BEFORE.get());
        }
    }
}

/// Sets the thread's mode, and returns the one before. In a callback of the driver, where no call is
/// allowed, it stays what it is.
fn exchange(mode: CUstreamCaptureMode) -> CUstreamCaptureMode {
    let mut exchanged = mode;
    // SAFETY: the place is valid, and holds one of the modes; the driver is loaded, or there would be
    // no context to enter.
    let done = unsafe { cu!(cuThreadExchangeStreamCaptureMode(&mut exchanged)) };
    match done {
        Ok(()) => exchanged,
        Err(_) => CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL,
    }
}
