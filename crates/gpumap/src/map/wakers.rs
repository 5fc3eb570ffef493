//! [`Wakers`]: how the device wakes tasks that await calls in flight.
//!
//! A stream of the map's own waits for the event of a call, and then has the task woken. While a call is awaited it
//! has such a stream to itself, so that no task is woken late because another's kernel takes long.
//!
//! Wakers are called, and dropped, on one thread of this library, never on the driver's: there no call of the driver is
//! allowed, and a waker may poll its task, call any operation, or drop the last handle of a map.
//!
//! A [`Wish`] is no `AtomicWaker`: whether a request is the first, which queues the call that wakes, or comes after the end, has to
//! be known in the step that leaves it.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock, PoisonError};
use std::task::Waker;
use std::thread;

use gpumap_simt::executor::PerProcess;

use crate::device::Device;
use crate::error::{Error, Result};
use crate::stream::Stream;
use crate::sync::Mutex;

/// The streams that wakers are queued on.
#[derive(Debug)]
pub(super) struct Wakers {
    device: Device,
    streams: Mutex<Vec<Stream>>,
}

/// How many streams there are at most. If more calls are awaited some share one, and may be woken when the other has
/// ended. On an H100 64 streams that waited for an event held up none of 40 others (2026-11-23, a CUDA program that is not in the project).
const STREAMS: usize = 16;

/// The task to wake when a call has ended.
#[derive(Debug, Default)]
pub(super) struct Alarm(OnceLock<Arc<Mutex<Wish>>>);

#[derive(Debug, Default)]
enum Wish {
    /// No request.
    #[default]
    None,
    /// The last request, and the call that wakes is queued.
    Wake(Waker),
    /// It has ended.
    Ended,
}

impl Wakers {
    pub fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            streams: Mutex::default(),
        }
    }

    /// Wakes a task when a call has ended, or now if it has; the task of an earlier request is not woken any more.
    /// `let_wait` lets a stream wait for the call.
    pub fn wake(
        &self,
        alarm: &Alarm,
        waker: Waker,
        let_wait: impl FnOnce(&Stream) -> Result<()>,
    ) -> Result<()> {
        let wish = alarm.0.get_or_init(Arc::default);
        match exchange(wish, Wish::Wake(waker)) {
            Wish::None => {
                let queued = self.queue(wish.clone(), let_wait);
                if queued.is_err() {
                    exchange(wish, Wish::None);
                }
                queued
            }
            Wish::Wake(_) => Ok(()),
            Wish::Ended => {
                ring(wish);
                Ok(())
            }
        }
    }

    /// Queues the call that wakes, on a stream that waits for nothing else if there is one.
    fn queue(
        &self,
        wish: Arc<Mutex<Wish>>,
        let_wait: impl FnOnce(&Stream) -> Result<()>,
    ) -> Result<()> {
        let mut streams = self.streams.lock();
        let free = match streams.iter().position(Stream::has_ended) {
            Some(free) => free,
            None if streams.len() < STREAMS => {
                streams.push(Stream::new(&self.device)?);
                streams.len() - 1
            }
            None => {
                streams.rotate_left(1);
                0
            }
        };
        let stream = streams[free].clone();
        let_wait(&stream)?;
        drop(streams);
        let bell = bell()?;
        // Sending calls no driver. The thread takes messages for as long as the process lives.
        stream.call_host(Box::new(move || drop(bell.send(wish))))
    }
}

/// Whose wakers the thread that calls them is to call next. It is started by the first call that is awaited.
///
/// # Errors
/// [`Error::OutOfMemory`] if the system starts no thread; the next call tries again.
fn bell() -> Result<Sender<Arc<Mutex<Wish>>>> {
    // Not the one of `crate::sync`: a model has nothing to try here.
    type Bell = std::sync::Mutex<Option<Sender<Arc<Mutex<Wish>>>>>;
    static BELL: PerProcess<Bell> = PerProcess::new();
    let bell = BELL.get(|_| Bell::default());
    let mut bell = bell.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(bell) = &*bell {
        return Ok(bell.clone());
    }
    let (sender, wishes) = channel::<Arc<Mutex<Wish>>>();
    let call_wakers = move || {
        for wish in wishes {
            // The panic of a waker is not the next one's. The last handle of the wish goes here as well.
            let _ = catch_unwind(AssertUnwindSafe(move || ring(&wish)));
        }
    };
    let started = thread::Builder::new()
        .name("gpumap-wakers".to_owned())
        .spawn(call_wakers);
    if started.is_err() {
        return Err(Error::OutOfMemory {
            needed: 0,
            available: 0,
        });
    }
    Ok(bell.insert(sender).clone())
}

/// Wakes the task of the last request, and from now on that of any request.
fn ring(wish: &Mutex<Wish>) {
    if let Wish::Wake(waker) = exchange(wish, Wish::Ended) {
        waker.wake();
    }
}

/// What was wished before: its waker is neither called nor dropped under the lock, since it may do anything.
fn exchange(wish: &Mutex<Wish>, next: Wish) -> Wish {
    mem::replace(&mut *wish.lock(), next)
}
