//! [`Faults`]: calls of a device that fail on purpose, for tests of what becomes of maps then.
//!
//! Everything that a device may refuse to do calls [`Device::admit`] on both back ends: so a test can count
//! the calls of a verb, and then let each of them fail in turn. What fails is not done, except for a wait for the device: one
//! that is [refused](DriverCode::is_refusal) has not waited, and the work is still to come; after any other error of a wait
//! nothing runs any more, as after one of a driver.

use std::sync::Arc;

use cudarc::driver::sys::CUresult;
use parking_lot::Mutex;

use super::{Device, Kind};
use crate::error::{DriverCode, Error, Result};
use crate::stream::Scheduler;

/// A request to a device. On CUDA each is one call of the driver at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Call {
    /// Memory of the device.
    Allocate {
        /// How much.
        bytes: u64,
    },
    /// Page-locked memory of the host.
    AllocatePinned {
        /// How much.
        bytes: u64,
    },
    /// How much memory there is.
    AskMemory,
    /// Setting bytes.
    Fill,
    /// A copy to the device.
    Upload,
    /// A copy from the device.
    Download,
    /// A copy on the device.
    Copy,
    /// A kernel.
    Launch,
    /// Making a graph of kernels.
    MakeGraph,
    /// All kernels of a graph.
    LaunchGraph,
    /// Calling the host in the order of a stream.
    HostFunction,
    /// A new stream.
    CreateStream,
    /// Waiting for a stream.
    WaitForStream,
    /// Whether a stream has ended.
    AskStream,
    /// Letting a stream wait for an event.
    LetWait,
    /// A new event.
    CreateEvent,
    /// Putting an event into a stream.
    RecordEvent,
    /// Waiting for an event.
    WaitForEvent,
    /// Whether an event has happened.
    AskEvent,
    /// Waiting for everything.
    WaitForDevice,
}

impl Call {
    /// The function of the driver that does it, as errors name it on both back ends.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allocate { .. } => "cuMemAllocAsync",
            Self::AllocatePinned { .. } => "cuMemHostAlloc",
            Self::AskMemory => "cuMemGetInfo_v2",
            Self::Fill => "cuMemsetD8Async",
            Self::Upload => "cuMemcpyHtoDAsync_v2",
            Self::Download => "cuMemcpyDtoHAsync_v2",
            Self::Copy => "cuMemcpyDtoDAsync_v2",
            Self::Launch => "cuLaunchKernel",
            Self::MakeGraph => "cuGraphInstantiateWithFlags",
            Self::LaunchGraph => "cuGraphLaunch",
            Self::HostFunction => "cuStreamAddCallback",
            Self::CreateStream => "cuStreamCreate",
            Self::WaitForStream => "cuStreamSynchronize",
            Self::AskStream => "cuStreamQuery",
            Self::LetWait => "cuStreamWaitEvent",
            Self::CreateEvent => "cuEventCreate",
            Self::RecordEvent => "cuEventRecord",
            Self::WaitForEvent => "cuEventSynchronize",
            Self::AskEvent => "cuEventQuery",
            Self::WaitForDevice => "cuCtxSynchronize",
        }
    }

    /// Whether it waits for the device, or queries its progress.
    fn waits(self) -> bool {
        matches!(
            self,
            Self::WaitForStream
                | Self::AskStream
                | Self::WaitForEvent
                | Self::AskEvent
                | Self::WaitForDevice
        )
    }

    /// Whether it takes memory.
    fn allocates(self) -> bool {
        matches!(self, Self::Allocate { .. } | Self::AllocatePinned { .. })
    }

    /// What this call alone says when it fails.
    fn error(self) -> Error {
        match self {
            Self::Allocate { bytes } | Self::AllocatePinned { bytes } => Error::OutOfMemory {
                needed: bytes,
                available: 0,
            },
            _ => self.refused(CUresult::CUDA_ERROR_UNKNOWN),
        }
    }

    fn refused(self, code: CUresult) -> Error {
        Error::Driver {
            call: self.name(),
            code: DriverCode(code),
        }
    }
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// That call alone: an allocation with [`Error::OutOfMemory`], all else with [`Error::Driver`].
    Once,
    /// From that call on there is no memory: allocations fail with [`Error::OutOfMemory`], however little they
    /// request.
    NoMemory,
    /// From that call on every wait and every question is refused, as in a callback of the driver.
    Forbidden,
    /// That call and all after it, as when a kernel has spoiled the context.
    Lost,
    /// From that call on so many waits, and questions how far something is, are refused with
    /// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED`, as while another thread captures a graph. Nothing else fails.
    WaitsRefused(u64),
}

/// The faults of a device that was made by [`Device::with_faults`], and the requests that it has had.
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<Mutex<Plan>>);

#[derive(Debug, Default)]
struct Plan {
    /// Calls since the plan was made.
    calls: u64,
    /// Which of them fails, and how.
    fails: Option<(u64, Fault)>,
    /// Waits that have been refused.
    refused: u64,
    /// What has failed first.
    failed: Option<Call>,
}

impl Faults {
    /// The call after `after` more calls fails.
    pub fn plan(&self, after: u64, fault: Fault) {
        *self.0.lock() = Plan {
            fails: Some((after, fault)),
            ..Plan::default()
        };
    }

    /// Nothing fails any more, and calls are counted from zero.
    pub fn heal(&self) {
        *self.0.lock() = Plan::default();
    }

    /// Calls since the last plan.
    pub fn calls(&self) -> u64 {
        self.0.lock().calls
    }

    /// The call that failed as planned, or the first of those.
    pub fn failed(&self) -> Option<Call> {
        self.0.lock().failed
    }

    /// Counts a call, and says whether it may succeed.
    fn admit(&self, call: Call) -> Result<()> {
        let mut plan = self.0.lock();
        let number = plan.calls;
        plan.calls += 1;
        let error = match plan.fails {
            Some((at, Fault::Once)) if number == at => call.error(),
            Some((at, Fault::NoMemory)) if number >= at && call.allocates() => call.error(),
            Some((at, Fault::Forbidden)) if number >= at && call.waits() => {
                call.refused(CUresult::CUDA_ERROR_NOT_PERMITTED)
            }
            Some((at, Fault::Lost)) if number >= at => {
                call.refused(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS)
            }
            Some((at, Fault::WaitsRefused(times)))
                if number >= at && call.waits() && plan.refused < times =>
            {
                plan.refused += 1;
                call.refused(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
            }
            _ => return Ok(()),
        };
        plan.failed.get_or_insert(call);
        Err(error)
    }
}

impl Device {
    /// The same device, whose calls through the handle that this returns fail as planned. Its memory
    /// is counted from nothing, as by [`with_memory_budget`](Self::with_memory_budget).
    #[cfg(feature = "unstable-testing")]
    #[doc(hidden)]
    #[must_use]
    pub fn with_faults(&self, faults: &Faults) -> Self {
        self.with(|inner| inner.faults = Some(faults.clone()))
    }

    /// Whether a call may succeed, as far as the faults of this handle and the environment are concerned.
    pub(crate) fn admit(&self, call: Call) -> Result<()> {
        if Scheduler::is_in_callback() {
            return Err(call.refused(CUresult::CUDA_ERROR_NOT_PERMITTED));
        }
        if let Kind::Cpu(cpu) = &self.inner.kind
            && let Some(refusal) = &cpu.refusal
        {
            return Err(refusal.clone());
        }
        match &self.inner.faults {
            Some(faults) => faults.admit(call),
            None => Ok(()),
        }
    }

    /// Waits, unless that is to be refused; see the [module](self).
    pub(crate) fn wait(&self, call: Call, wait: impl FnOnce() -> Result<()>) -> Result<()> {
        match self.admit(call) {
            Err(error) if error.is_refusal() => Err(error),
            admitted => wait().and(admitted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Buffer, Stream};

    #[test]
    fn the_planned_call_fails_and_says_so() {
        let faults = Faults::default();
        let device = Device::cpu().with_faults(&faults);
        faults.plan(1, Fault::Once);
        let stream = Stream::new(&device).unwrap();
        let refused = Buffer::<u64>::zeroed(&stream, 10).unwrap_err();
        assert!(
            matches!(refused, Error::OutOfMemory { needed: 80, .. }),
            "{refused}"
        );
        assert_eq!(faults.failed(), Some(Call::Allocate { bytes: 80 }));
        assert_eq!((faults.calls(), device.allocated_bytes()), (2, 0));
        Buffer::<u64>::zeroed(&stream, 10).unwrap();
    }

    #[test]
    fn memory_that_has_ended_is_not_to_be_had_in_smaller_pieces() {
        let faults = Faults::default();
        let device = Device::cpu().with_faults(&faults);
        let stream = Stream::new(&device).unwrap();
        let mut buffer = Buffer::from_slice(&stream, &[1u32, 2]).unwrap();
        faults.plan(0, Fault::NoMemory);
        buffer.fill_bytes(0).unwrap();
        for len in [100, 1] {
            let refused = Buffer::<u32>::zeroed(&stream, len).unwrap_err();
            assert!(matches!(refused, Error::OutOfMemory { .. }), "{refused}");
        }
        assert_eq!(buffer.to_vec().unwrap(), [0, 0]);
        assert_eq!(faults.failed(), Some(Call::Allocate { bytes: 400 }));
    }

    #[test]
    fn a_lost_device_does_nothing_any_more() {
        let faults = Faults::default();
        let device = Device::cpu().with_faults(&faults);
        let stream = Stream::new(&device).unwrap();
        let mut buffer = Buffer::from_slice(&stream, &[1u32, 2]).unwrap();
        faults.plan(0, Fault::Lost);
        for call in [
            buffer.fill_bytes(0).unwrap_err(),
            stream.synchronize().unwrap_err(),
            buffer.to_vec().unwrap_err(),
            Buffer::<u32>::zeroed(&stream, 1).unwrap_err(),
        ] {
            let Error::Driver { code, .. } = call else {
                panic!("{call}")
            };
            assert_eq!(code.value(), 700);
        }
        assert_eq!(faults.failed(), Some(Call::Fill));
        faults.heal();
        assert_eq!(buffer.to_vec().unwrap(), [1, 2]);
    }
}
