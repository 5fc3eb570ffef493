//! [`HostQueue`]: a stream of the CPU back end. Everything that a stream does on the CPU goes
//! through this interface, so that there can be several kinds:
//!
//! | kind | when work runs | for |
//! |---|---|---|
//! | immediate | at once, on the thread that queues it | every device but the next |
//! | [deferred](deferred) | later, in a seeded order that keeps only what streams and events promise | tests of order |

mod deferred;

use gpumap_simt::executor::{Executor, Fault};
use parking_lot::Mutex;

use super::callback::Callback;
use crate::error::{Error, Result};
use crate::memory::HostBlock;
pub(crate) use deferred::{Point, Scheduler};

/// A queue of the CPU back end.
#[derive(Debug)]
pub(super) enum HostQueue {
    /// Held while something runs, so that threads that share a stream keep its order.
    Immediate(Mutex<()>),
    Deferred(deferred::Queue),
}

impl HostQueue {
    /// A queue of a device, whose work runs later if the device has a scheduler.
    pub fn new(scheduler: Option<&Scheduler>) -> Self {
        match scheduler {
            None => Self::Immediate(Mutex::new(())),
            Some(scheduler) => Self::Deferred(scheduler.queue()),
        }
    }

    /// Runs some work in the order of the queue. A kernel that faults is an error of this call, or
    /// on a deferred queue of the next wait.
    ///
    /// `host` is the memory of the host that the work copies from or to.
    pub fn run(
        &self,
        executor: &Executor,
        host: Option<HostBytes>,
        work: impl FnOnce(&Executor) -> Result<(), Fault> + Send + 'static,
    ) -> Result<()> {
        match self {
            Self::Immediate(order) => {
                let _order = order.lock();
                work(executor).map_err(Error::from)
            }
            Self::Deferred(queue) => {
                queue.run(host, Box::new(work));
                Ok(())
            }
        }
    }

    /// Calls the host in the order of the queue.
    pub fn call(&self, f: Callback) {
        match self {
            Self::Immediate(_) => f(),
            Self::Deferred(queue) => queue.call(f),
        }
    }

    /// Makes memory valid in the order of the queue.
    pub fn allocated(&self, block: &HostBlock) {
        if let Self::Deferred(queue) = self {
            queue.allocated(block);
        }
    }

    /// Frees memory in the order of the queue.
    pub fn free(&self, block: HostBlock) {
        match self {
            Self::Immediate(_) => drop(block),
            Self::Deferred(queue) => queue.free(block),
        }
    }

    /// Waits for everything queued so far.
    pub fn wait(&self) -> Result<()> {
        match self {
            Self::Immediate(_) => Ok(()),
            Self::Deferred(queue) => queue.wait(),
        }
    }

    /// Whether everything queued so far has ended.
    pub fn has_ended(&self) -> Result<bool> {
        match self {
            Self::Immediate(_) => Ok(true),
            Self::Deferred(queue) => queue.has_ended(),
        }
    }

    /// The point after everything queued so far; none if that has ended.
    pub fn point(&self) -> Option<Point> {
        match self {
            Self::Immediate(_) => None,
            Self::Deferred(queue) => Some(queue.point()),
        }
    }

    /// Lets what is queued from now on wait for a point.
    pub fn wait_for(&self, point: Option<Point>) {
        if let (Self::Deferred(queue), Some(point)) = (self, point) {
            queue.wait_for(point);
        }
    }

    /// Whether work is run later, and so is to be counted when it is queued.
    pub fn defers(&self) -> bool {
        matches!(self, Self::Deferred(_))
    }
}

/// An address that goes to the thread that runs the work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address(*mut u8);

// SAFETY: the contract of what is queued is about the memory, whichever thread uses it.
unsafe impl Send for Address {}

impl Address {
    pub fn of(address: *const u8) -> Self {
        Self(address.cast_mut())
    }

    /// The address. A method, so that closures take the whole.
    pub fn get(self) -> *mut u8 {
        self.0
    }
}

/// Some bytes of the host, by their addresses.
pub(super) type HostBytes = std::ops::Range<usize>;

/// The bytes that begin at an address of the host.
pub(super) fn host_bytes(start: *const u8, bytes: usize) -> HostBytes {
    start.addr()..start.addr() + bytes
}
