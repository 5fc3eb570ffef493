//! A device of loom's threads, with as much of the library's interface as calls in flight need: a
//! launch is a thread, and an event is that it has ended.

use std::sync::{Arc, Mutex};

use loom::sync::Condvar;
use loom::thread;

use crate::error::{Error, Result};

/// Nothing but a name.
#[derive(Clone, Debug)]
pub struct Device;

/// Whether a launch has ended.
#[derive(Debug, Default)]
struct Completion {
    has_ended: loom::sync::Mutex<bool>,
    changed: Condvar,
}

/// Launches one after the other; here one is enough.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    last: Arc<Mutex<Option<Arc<Completion>>>>,
}

impl Stream {
    pub fn new(_: &Device) -> Result<Self> {
        Ok(Self::default())
    }

    pub fn of_calls(device: &Device) -> Result<Self> {
        Self::new(device)
    }

    /// Runs a kernel beside everything else.
    pub fn launch(&self, kernel: impl FnOnce() + 'static) {
        let completion = Arc::new(Completion::default());
        *self.last.lock().unwrap() = Some(completion.clone());
        thread::spawn(move || {
            kernel();
            *completion.has_ended.lock().unwrap() = true;
            completion.changed.notify_all();
        });
    }

    pub fn synchronize(&self) -> Result<()> {
        let last = self.last.lock().unwrap().clone();
        wait_for(last)
    }

    /// No wait is refused here.
    pub fn finish_after(&self, _: &Error) {
        let _ = self.synchronize();
    }

    pub fn wait_event(&self, _: &Event) -> Result<()> {
        unreachable!("no model lets a stream wait")
    }

    pub fn has_ended(&self) -> bool {
        unreachable!("no model has wakers")
    }

    pub fn call_host(&self, _: Box<dyn FnOnce() + Send>) -> Result<()> {
        unreachable!("no model has wakers")
    }
}

fn wait_for(completion: Option<Arc<Completion>>) -> Result<()> {
    let Some(completion) = completion else {
        return Ok(());
    };
    let mut has_ended = completion.has_ended.lock().unwrap();
    while !*has_ended {
        has_ended = completion.changed.wait(has_ended).unwrap();
    }
    Ok(())
}

/// Whether events tell the time.
#[derive(Clone, Copy, Debug)]
pub enum Timing {
    Off,
}

/// What a stream had launched when it was recorded.
#[derive(Debug, Default)]
pub struct Event(Mutex<Option<Arc<Completion>>>);

impl Event {
    pub fn with_timing(_: &Device, Timing::Off: Timing) -> Result<Self> {
        Ok(Self::default())
    }

    pub fn record(&self, stream: &Stream) -> Result<()> {
        let last = stream.last.lock().unwrap().clone();
        *self.0.lock().unwrap() = last;
        Ok(())
    }

    pub fn synchronize(&self) -> Result<()> {
        let completion = self.0.lock().unwrap().clone();
        wait_for(completion)
    }

    /// No wait is refused here.
    pub fn finish(&self) -> Result<()> {
        self.synchronize()
    }

    pub fn has_ended(&self) -> bool {
        self.is_done().is_ok_and(|is_done| is_done)
    }

    pub fn is_done(&self) -> Result<bool> {
        let completion = self.0.lock().unwrap().clone();
        Ok(completion.is_none_or(|completion| *completion.has_ended.lock().unwrap()))
    }
}

/// Memory of the device, or page-locked: here it is all the same.
#[derive(Debug)]
pub struct Buffer<T>(Vec<T>);

/// See [`Buffer`].
pub type PinnedBuffer<T> = Buffer<T>;

impl<T: Clone + Default> Buffer<T> {
    pub fn zeroed<Where>(_: &Where, len: usize) -> Result<Self> {
        Ok(Self(vec![T::default(); len]))
    }

    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.0.as_mut_ptr()
    }
}
