//! [`Stream`]: a queue of work on a device.

mod callback;
mod graph;
mod host;
mod launch;
#[cfg(test)]
mod tests;
mod transfer;
mod work;

use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;
use std::{fmt, ptr};

use cudarc::driver::sys::{CUresult, CUstreamCaptureStatus};
use gpumap_simt::executor::{Executor, Fault};

use crate::cuda::{Awaited, check, cu, until_answered, until_ended};
use crate::device::{Call, Device, Kind};
use crate::error::{Error, Result};
use crate::event::{Event, Timing};
use crate::memory::HostBlock;
use crate::raw::CUstream;
use crate::scratch::StagePool;
pub(crate) use graph::{LaunchOn, Recorded, Recorder};
use host::{HostBytes, HostQueue};
pub(crate) use host::{Point, Scheduler};
pub(crate) use launch::launches_started;
use work::Work;

/// A queue of work on one device. What is queued runs in order; what different streams hold may
/// run at the same time.
///
/// Cheap to clone: clones are the same queue. On [the CPU](Device::cpu) a stream has a thread of its own, started by the first
/// work that is queued, and a thread that waits for the stream runs work itself that has not begun. On the
/// [checked executor](Device::checked) every call is finished when it returns.
///
/// Streams do not wait for the legacy default stream of CUDA: data that another library makes
/// there must be waited for, or that stream be passed to [`from_raw`](Self::from_raw).
#[derive(Clone)]
pub struct Stream {
    inner: Arc<Inner>,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.inner, f)
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("device", &self.device)
            .field("queue", &self.queue)
            .finish()
    }
}

struct Inner {
    device: Device,
    queue: Queue,
    work: Work,
    /// What other streams wait for; made when one does.
    order: OnceLock<Event>,
    /// What takes large arrays of the host to buffers of this stream and back, once one has come.
    stages: OnceLock<Arc<StagePool>>,
}

enum Queue {
    Cpu(HostQueue),
    Cuda { handle: CUstream, owned: bool },
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu(HostQueue::Immediate(_)) => f.write_str("immediate"),
            Self::Cpu(_) => f.write_str("deferred"),
            Self::Cuda { handle, .. } => write!(f, "{handle:p}"),
        }
    }
}

// SAFETY: a CUstream is a handle that the driver lets any thread use.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Stream {
    /// A new queue on a device.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn new(device: &Device) -> Result<Self> {
        Self::with(device, || match device.scheduler() {
            Some(scheduler) => HostQueue::deferred(scheduler),
            None => HostQueue::immediate(None),
        })
    }

    /// A queue of the library's own, for calls that wait for what they queue: on the CPU that has ended when it has been
    /// queued.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub(crate) fn of_calls(device: &Device) -> Result<Self> {
        match device.scheduler() {
            Some(scheduler) if scheduler.seed().is_none() => {
                Self::with(device, || HostQueue::immediate(Some(scheduler)))
            }
            _ => Self::new(device),
        }
    }

    fn with(device: &Device, host: impl FnOnce() -> HostQueue) -> Result<Self> {
        device.admit(Call::CreateStream)?;
        let queue = match device.kind() {
            Kind::Cpu(_) => Queue::Cpu(host()),
            Kind::Cuda(context) => {
                let _current = context.enter()?;
                let mut handle: CUstream = ptr::null_mut();
                // CU_STREAM_NON_BLOCKING: no hidden waits for the legacy default stream.
                // SAFETY: a context is current and the place is valid; destroyed in `drop`.
                unsafe { cu!(cuStreamCreate(&mut handle, 1)) }?;
                let owned = true;
                Queue::Cuda { handle, owned }
            }
        };
        Ok(Self::of(device, queue, Work::default()))
    }

    /// Uses a stream of another owner; it is not destroyed. Null is the legacy default stream.
    ///
    /// # Errors
    /// [`Error::WrongDevice`] on the CPU, which has no such streams.
    ///
    /// # Safety
    /// `stream` is null or a live stream of the device's context, and stays so until the last
    /// clone and everything allocated on it has been dropped.
    pub unsafe fn from_raw(device: &Device, stream: CUstream) -> Result<Self> {
        match device.kind() {
            Kind::Cpu(_) => Err(Error::WrongDevice {
                expected: device.to_string(),
                found: "a CUDA stream".to_owned(),
            }),
            Kind::Cuda(_) => {
                let (handle, owned) = (stream, false);
                let queue = Queue::Cuda { handle, owned };
                Ok(Self::of(device, queue, Work::shared()))
            }
        }
    }

    /// The driver's handle, or none on the CPU. It stays alive as long as any clone.
    pub fn as_raw(&self) -> Option<CUstream> {
        self.inner.work.share();
        self.raw()
    }

    /// The same, for callers that count what they [queue](Self::queue).
    fn raw(&self) -> Option<CUstream> {
        match self.inner.queue {
            Queue::Cpu(_) => None,
            Queue::Cuda { handle, .. } => Some(handle),
        }
    }

    /// The device it is a queue of.
    pub fn device(&self) -> &Device {
        &self.inner.device
    }

    /// What takes large arrays of the host to its buffers and back. Not for streams of stages, which must not keep it.
    pub(crate) fn stages(&self) -> &Arc<StagePool> {
        self.inner.stages.get_or_init(|| self.device().stages())
    }

    /// Waits until everything queued so far has ended.
    ///
    /// # Errors
    /// [`Error::Driver`], also for a kernel of this stream that went wrong earlier.
    pub fn synchronize(&self) -> Result<()> {
        self.inner.expect_not_captured()?;
        let wait = || self.inner.wait_once();
        until_answered(|| self.device().wait(Call::WaitForStream, wait))
    }

    /// As [`synchronize`](Self::synchronize), for a call that has lent something to what is queued, memory of the host or what a
    /// lock guards: nothing that was queued before runs any more when it returns, or ever will. So a wait that the driver
    /// [refuses](crate::DriverCode::is_refusal) because of a graph capture takes as long as the capture; a callback of the
    /// driver, where every wait is refused, can have queued nothing.
    pub(crate) fn finish(&self) -> Result<()> {
        let waited = self.synchronize();
        if waited.is_err() && !Scheduler::is_in_callback() {
            until_ended(|| self.inner.wait());
        }
        waited
    }

    /// As [`finish`](Self::finish), after an error of what was to be queued behind the rest. A stream that may be captured by this
    /// very thread is not waited for.
    pub(crate) fn finish_after(&self, error: &Error) {
        let _ = match error.is_of_capture() {
            true => self.synchronize(),
            false => self.finish(),
        };
    }

    /// As [`synchronize`](Self::synchronize), for a thread that works for another device: where calls of devices are
    /// made to fail, this one is none of this device.
    pub(crate) fn drain(&self) -> Result<()> {
        until_answered(|| self.inner.wait_once())
    }

    /// Whether everything queued so far has ended.
    ///
    /// # Errors
    /// [`Error::Driver`], also for a kernel of this stream that went wrong earlier.
    pub fn is_idle(&self) -> Result<bool> {
        self.device().admit(Call::AskStream)?;
        self.query()
    }

    /// Whether everything queued so far has ended, well or not. A wait must follow, which returns the
    /// error. False if the driver refuses to say.
    pub(crate) fn has_ended(&self) -> bool {
        match self.query() {
            Ok(is_idle) => is_idle,
            Err(error) => !error.is_refusal(),
        }
    }

    /// An error if others are capturing it.
    pub(crate) fn expect_not_captured(&self) -> Result<()> {
        self.inner.expect_not_captured()
    }

    fn query(&self) -> Result<bool> {
        if self.inner.work.has_ended() {
            return Ok(true);
        }
        self.inner.expect_not_captured()?;
        let so_far = self.inner.work.so_far();
        let has_ended = match (&self.inner.queue, self.device().kind()) {
            (&Queue::Cuda { handle, .. }, Kind::Cuda(context)) => {
                let _current = context.enter()?;
                // SAFETY: the stream is alive and of the current context.
                match unsafe { cudarc::driver::sys::cuStreamQuery(handle) } {
                    CUresult::CUDA_ERROR_NOT_READY => false,
                    code => check("cuStreamQuery", code).map(|()| true)?,
                }
            }
            (Queue::Cpu(queue), _) => queue.has_ended()?,
            (Queue::Cuda { .. }, Kind::Cpu(_)) => true,
        };
        if has_ended {
            self.inner.work.ended(so_far);
        }
        Ok(has_ended)
    }

    /// Lets what is queued from now on wait for an event, without stopping the host. An event
    /// that was never recorded is not waited for.
    ///
    /// # Errors
    /// [`Error::WrongDevice`], [`Error::StreamIsCaptured`] or [`Error::Driver`].
    pub fn wait_event(&self, event: &Event) -> Result<()> {
        self.device().expect_same(event.device())?;
        self.device().admit(Call::LetWait)?;
        match (&self.inner.queue, self.device().kind(), event.as_raw()) {
            (Queue::Cuda { .. }, Kind::Cuda(context), Some(event)) => {
                let _current = context.enter()?;
                // SAFETY: both handles are alive and of the current context; flags must be 0.
                self.queue(|stream| unsafe { cu!(cuStreamWaitEvent(stream, event, 0)) })
            }
            (Queue::Cpu(queue), ..) => {
                if let Some(point) = event.point() {
                    self.on_host(queue, |queue| queue.wait_for(point));
                }
                Ok(())
            }
            (Queue::Cuda { .. }, ..) => Ok(()),
        }
    }

    /// Lets what is queued from now on wait for everything queued on `other` so far, without
    /// stopping the host.
    ///
    /// # Errors
    /// [`Error::WrongDevice`], [`Error::StreamIsCaptured`] or [`Error::Driver`].
    pub fn wait_stream(&self, other: &Self) -> Result<()> {
        self.device().expect_same(other.device())?;
        self.expect_not_captured()?;
        if self.is_same_as(other) {
            return Ok(());
        }
        // Most often nothing is queued there: that costs one call at most instead of two.
        match other.is_idle() {
            Ok(false) => {}
            Ok(true) => return Ok(()),
            // Not known to be idle.
            Err(error) if error.is_refusal() => {}
            Err(error) => return Err(error),
        }
        let event = match other.inner.order.get() {
            Some(event) => event,
            None => {
                let event = Event::with_timing(self.device(), Timing::Off)?;
                other.inner.order.get_or_init(|| event)
            }
        };
        // If another thread records it as well before the wait is queued, that waits for more.
        event.record(other)?;
        self.wait_event(event)
    }

    /// Whether both are one queue.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        let one_handle = || self.raw().is_some() && self.raw() == other.raw();
        // The legacy default streams of all devices have one handle, which is null.
        let one_device = || self.device() == other.device();
        Arc::ptr_eq(&self.inner, &other.inner) || one_handle() && one_device()
    }

    /// Has something queued by the driver, or by what is built on it. On the CPU the handle is null, and nothing may use
    /// it.
    ///
    /// All that is queued comes through here: so it is known when there is something to wait for.
    ///
    /// # Errors
    /// [`Error::StreamIsCaptured`], and what `call` returns.
    pub(crate) fn queue<T>(&self, call: impl FnOnce(CUstream) -> Result<T>) -> Result<T> {
        self.inner.expect_not_captured()?;
        let queued = call(self.raw().unwrap_or(ptr::null_mut()));
        self.inner.work.queued();
        queued
    }

    /// Has something queued on the CPU.
    fn on_host<R>(&self, queue: &HostQueue, call: impl FnOnce(&HostQueue) -> R) -> R {
        let queued = call(queue);
        if queue.may_be_busy() {
            self.inner.work.queued();
        }
        queued
    }

    /// Runs some work on the CPU, in the order of the stream. `host` is the memory of the host that it copies from or to.
    fn run_on_host(
        &self,
        host: Option<HostBytes>,
        work: impl FnOnce(&Executor) -> Result<(), Fault> + Send + 'static,
    ) -> Result<()> {
        match (&self.inner.queue, self.device().kind()) {
            (Queue::Cpu(queue), Kind::Cpu(cpu)) => {
                self.on_host(queue, |queue| queue.run(cpu.executor(), host, work))
            }
            _ => Err(Error::WrongDevice {
                expected: "a stream of the CPU".to_owned(),
                found: self.device().to_string(),
            }),
        }
    }

    /// Has something done between what was queued before and what is queued after, on the CPU; on a GPU nothing is done.
    pub(crate) fn then_on_cpu(&self, work: impl FnOnce() + Send + 'static) -> Result<()> {
        match self.inner.queue {
            Queue::Cpu(_) => self.run_on_host(None, move |_| {
                work();
                Ok(())
            }),
            Queue::Cuda { .. } => Ok(()),
        }
    }

    /// Makes memory of the CPU valid from here on, in the order of the stream.
    pub(crate) fn allocated(&self, block: &HostBlock) {
        if let Queue::Cpu(queue) = &self.inner.queue {
            self.on_host(queue, |queue| queue.allocated(block));
        }
    }

    /// Frees memory of the CPU, in the order of the stream.
    pub(crate) fn free(&self, block: HostBlock) {
        if let Queue::Cpu(queue) = &self.inner.queue {
            self.on_host(queue, |queue| queue.free(block));
        }
    }

    /// The point after what was queued so far, on a device that has such points.
    pub(crate) fn point(&self) -> Result<Option<Point>> {
        match &self.inner.queue {
            Queue::Cpu(queue) => self.on_host(queue, HostQueue::point),
            Queue::Cuda { .. } => Ok(None),
        }
    }

    /// Takes the time when everything queued so far has ended, on the CPU.
    pub(crate) fn take_time(&self) -> Result<Arc<OnceLock<Instant>>> {
        let time = Arc::new(OnceLock::new());
        let set = Arc::clone(&time);
        self.then_on_cpu(move || {
            let _ = set.set(Instant::now());
        })?;
        Ok(time)
    }

    fn of(device: &Device, queue: Queue, work: Work) -> Self {
        let inner = Arc::new(Inner {
            device: device.clone(),
            queue,
            work,
            order: OnceLock::new(),
            stages: OnceLock::new(),
        });
        if let Kind::Cuda(context) = device.kind() {
            let stream: Weak<Inner> = Arc::downgrade(&inner);
            context.streams().add(stream);
        }
        Self { inner }
    }
}

impl Inner {
    /// An error if others are capturing the stream: what is queued would become part of their graph, and
    /// a wait would destroy it.
    fn expect_not_captured(&self) -> Result<()> {
        if !self.work.is_shared() {
            return Ok(());
        }
        let (Kind::Cuda(context), Queue::Cuda { handle, .. }) = (self.device.kind(), &self.queue)
        else {
            return Ok(());
        };
        let _current = context.enter()?;
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: the stream is alive and of the current context; the place is valid.
        unsafe { cu!(cuStreamIsCapturing(*handle, &mut status)) }?;
        match status {
            CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE => Ok(()),
            _ => Err(Error::StreamIsCaptured),
        }
    }

    fn wait_once(&self) -> Result<()> {
        if self.work.has_ended() {
            return Ok(());
        }
        let so_far = self.work.so_far();
        match (&self.queue, self.device.kind()) {
            (&Queue::Cuda { handle, .. }, Kind::Cuda(context)) => {
                let _current = context.enter()?;
                // SAFETY: the stream is alive and of the current context.
                unsafe { cu!(cuStreamSynchronize(handle)) }?;
            }
            (Queue::Cpu(queue), _) => queue.wait()?,
            (Queue::Cuda { .. }, Kind::Cpu(_)) => {}
        }
        self.work.ended(so_far);
        Ok(())
    }
}

impl Awaited for Inner {
    /// A call of the device that is waited for, and none of the handle that the stream was made by: what that handle is
    /// made to fail is not the error of another one.
    fn wait(&self) -> Result<()> {
        self.expect_not_captured()?;
        until_answered(|| self.wait_once())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let Queue::Cuda {
            handle,
            owned: true,
        } = self.queue
        else {
            return;
        };
        let Kind::Cuda(context) = self.device.kind() else {
            return;
        };
        match context.enter() {
            // What is queued still runs.
            // SAFETY: created by `new`, and this is its only owner.
            Ok(current) => unsafe { context.streams().retire(&current, handle) },
            Err(error) => tracing::debug!(%error, "could not destroy a stream"),
        }
    }
}
