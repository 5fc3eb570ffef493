//! [`Event`]: a point in a stream's order that can be waited for and timed.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use cudarc::driver::sys::CUresult;
use parking_lot::Mutex;

use crate::cuda::{check, cu, elapsed_ms, until_answered, until_ended};
use crate::device::{Call, Device, Kind};
use crate::error::{Error, Result};
use crate::raw::CUevent;
use crate::stream::{Point, Scheduler, Stream};

/// Whether an event takes the time; one that does not is cheaper to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timing {
    On,
    Off,
}

/// A point in the order of a stream.
///
/// ```
/// use gpumap::{Buffer, Device, Event, Stream};
///
/// let stream = Stream::new(&Device::cpu())?;
/// let (start, end) = (Event::new(stream.device())?, Event::new(stream.device())?);
/// start.record(&stream)?;
/// let buffer = Buffer::<u32>::zeroed(&stream, 1 << 20)?;
/// end.record(&stream)?;
/// println!("4 MiB in {:?}", end.elapsed_since(&start)?);
/// # Ok::<(), gpumap::Error>(())
/// ```
pub struct Event {
    device: Device,
    /// Null on the CPU.
    handle: CUevent,
    timing: Timing,
    recorded: Mutex<Option<Recorded>>,
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("device", &self.device)
            .field("is_recorded", &self.recorded.lock().is_some())
            .finish_non_exhaustive()
    }
}

/// When and where an event was last recorded.
#[derive(Clone, Debug)]
struct Recorded {
    /// When it happened, by the host's clock, on the CPU.
    at: Arc<OnceLock<Instant>>,
    /// On a device whose events are points.
    point: Option<Point>,
}

// SAFETY: a CUevent is a handle that the driver lets any thread use.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// An event that has not happened yet.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn new(device: &Device) -> Result<Self> {
        Self::with_timing(device, Timing::On)
    }

    pub(crate) fn with_timing(device: &Device, timing: Timing) -> Result<Self> {
        device.admit(Call::CreateEvent)?;
        let mut handle: CUevent = std::ptr::null_mut();
        if let Kind::Cuda(context) = device.kind() {
            let _current = context.enter()?;
            // CU_EVENT_DEFAULT or CU_EVENT_DISABLE_TIMING.
            let flags = match timing {
                Timing::On => 0,
                Timing::Off => 2,
            };
            // SAFETY: a context is current and the place is valid; destroyed in `drop`.
            unsafe { cu!(cuEventCreate(&mut handle, flags)) }?;
        }
        Ok(Self {
            device: device.clone(),
            handle,
            timing,
            recorded: Mutex::new(None),
        })
    }

    /// Puts the event after everything queued on a stream so far. Recording again moves it.
    ///
    /// # Errors
    /// [`Error::WrongDevice`] or [`Error::Driver`].
    pub fn record(&self, stream: &Stream) -> Result<()> {
        self.device.expect_same(stream.device())?;
        self.device.admit(Call::RecordEvent)?;
        let mut recorded = self.recorded.lock();
        if let Kind::Cuda(context) = self.device.kind() {
            let _current = context.enter()?;
            // SAFETY: both handles are alive and of the current context.
            stream.queue(|stream| unsafe { cu!(cuEventRecord(self.handle, stream)) })?;
        }
        let at = match self.timing {
            Timing::On => stream.take_time()?,
            Timing::Off => Arc::default(),
        };
        let point = stream.point()?;
        *recorded = Some(Recorded { at, point });
        Ok(())
    }

    /// Where it was last recorded, on a device whose events are points.
    pub(crate) fn point(&self) -> Option<Point> {
        let recorded = self.recorded.lock();
        recorded
            .as_ref()
            .and_then(|recorded| recorded.point.clone())
    }

    /// Waits until it has happened. One that was never recorded is not waited for.
    ///
    /// # Errors
    /// [`Error::Driver`], also for a kernel that went wrong earlier.
    pub fn synchronize(&self) -> Result<()> {
        until_answered(|| self.device.wait(Call::WaitForEvent, || self.wait_once()))
    }

    /// As [`synchronize`](Self::synchronize): what it follows has ended on return also if the driver refused the wait; see
    /// [`Stream::finish`].
    pub(crate) fn finish(&self) -> Result<()> {
        let waited = self.synchronize();
        if waited.is_err() && !Scheduler::is_in_callback() {
            until_ended(|| until_answered(|| self.wait_once()));
        }
        waited
    }

    fn wait_once(&self) -> Result<()> {
        match self.device.kind() {
            Kind::Cuda(context) => {
                let _current = context.enter()?;
                // SAFETY: the event is alive and of the current context.
                unsafe { cu!(cuEventSynchronize(self.handle)) }
            }
            Kind::Cpu(cpu) => match (cpu.scheduler(), self.point()) {
                (Some(scheduler), Some(point)) => scheduler.wait(&point),
                _ => Ok(()),
            },
        }
    }

    /// Whether it has happened, or never will; a wait must follow, which returns the error. False
    /// if the driver refuses to say.
    pub(crate) fn has_ended(&self) -> bool {
        match self.is_done() {
            Ok(is_done) => is_done,
            Err(error) => !error.is_refusal(),
        }
    }

    /// Whether it has happened, or was never recorded.
    ///
    /// # Errors
    /// [`Error::Driver`], also for a kernel that went wrong earlier.
    pub fn is_done(&self) -> Result<bool> {
        self.device.admit(Call::AskEvent)?;
        let context = match self.device.kind() {
            Kind::Cuda(context) => context,
            Kind::Cpu(cpu) => {
                return match (cpu.scheduler(), self.point()) {
                    (Some(scheduler), Some(point)) => scheduler.has_reached(&point),
                    _ => Ok(true),
                };
            }
        };
        let _current = context.enter()?;
        // SAFETY: the event is alive and of the current context.
        match unsafe { cudarc::driver::sys::cuEventQuery(self.handle) } {
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            code => check("cuEventQuery", code).map(|()| true),
        }
    }

    /// The time from an earlier event to this one, after waiting for both: the device's time on
    /// CUDA (about half a microsecond fine), the host's on the CPU. Zero if this was the earlier.
    ///
    /// # Errors
    /// [`Error::EventNotRecorded`], [`Error::WrongDevice`] or [`Error::Driver`].
    pub fn elapsed_since(&self, earlier: &Self) -> Result<Duration> {
        self.device.expect_same(&earlier.device)?;
        // One after the other: an event may be compared with itself.
        let recorded = |event: &Self| event.recorded.lock().clone();
        let start = recorded(earlier).ok_or(Error::EventNotRecorded)?;
        let end = recorded(self).ok_or(Error::EventNotRecorded)?;
        earlier.synchronize()?;
        self.synchronize()?;
        let Kind::Cuda(context) = self.device.kind() else {
            // Neither has a time if a kernel before it has faulted, which the waits above return.
            let times = start.at.get().zip(end.at.get());
            let between =
                |(start, end): (&Instant, &Instant)| end.saturating_duration_since(*start);
            return Ok(times.map(between).unwrap_or_default());
        };
        let _current = context.enter()?;
        // SAFETY: both events are alive and of one context, and both take the time, as all do
        // that a caller can have.
        let milliseconds = unsafe { elapsed_ms(earlier.handle, self.handle) }?;
        Ok(Duration::try_from_secs_f64(f64::from(milliseconds) / 1e3).unwrap_or_default())
    }

    /// The device it belongs to.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The driver's handle, or none on the CPU. It stays alive as long as the event.
    pub fn as_raw(&self) -> Option<CUevent> {
        self.device.is_cuda().then_some(self.handle)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let Kind::Cuda(context) = self.device.kind() else {
            return;
        };
        let destroyed = context.enter().and_then(|_current| {
            // Streams that wait for it still do; the driver frees it after that.
            // SAFETY: created by `with_timing` and destroyed only here.
            unsafe { cu!(cuEventDestroy_v2(self.handle)) }
        });
        if let Err(error) = destroyed {
            tracing::debug!(%error, "could not destroy an event");
        }
    }
}
