//! [`HostQueue`]: a stream of the CPU back end. Everything that a stream does on the CPU goes
//! through this interface, so that there can be several kinds:
//!
//! | kind | when work runs | for |
//! |---|---|---|
//! | immediate | at once, on the thread that queues it | streams of the library's own calls, which wait for their work; the checked executor |
//! | [deferred](deferred) | later, on a thread of the stream's own, or of a caller that waits | streams of callers |
//! | deferred, drawn | later, in a seeded order that keeps only what streams and events promise | tests of order |

mod deferred;

use gpumap_simt::executor::{Executor, Fault};
use parking_lot::{Mutex, MutexGuard};

use super::callback::Callback;
use crate::error::{Error, Result};
use crate::memory::HostBlock;
pub(crate) use deferred::{Point, Scheduler};

/// A queue of the CPU back end.
#[derive(Debug)]
pub(super) enum HostQueue {
    Immediate(Immediate),
    Deferred(deferred::Queue),
}

/// A queue on which work has ended when the call returns that queues it.
#[derive(Debug, Default)]
pub(super) struct Immediate {
    /// What other queues of the device are run by.
    others: Option<Scheduler>,
    /// Points of those that come before what is queued next. Locked while something runs, so that threads that share a
    /// stream keep its order.
    before: Mutex<Vec<Point>>,
}

impl Immediate {
    /// Waits for the points, each of which is waited for once. A fault that was before one of them remains to be reported by
    /// waits for its own stream.
    fn reach(&self) -> Result<MutexGuard<'_, Vec<Point>>> {
        let mut before = self.before.lock();
        let mut outcome = Ok(());
        for point in before.drain(..) {
            let others = self.others.as_ref();
            outcome = outcome.and(others.map_or(Ok(()), |others| others.pass(&point)));
        }
        outcome.map(|()| before)
    }

    fn has_ended(&self) -> bool {
        let before = self.before.lock();
        let is_behind = |point: &Point| {
            let others = self.others.as_ref();
            others.is_none_or(|others| others.is_behind(point))
        };
        before.iter().all(is_behind)
    }
}

impl HostQueue {
    /// A queue whose work runs at once, after that of other queues of the device that it waits for.
    pub fn immediate(others: Option<&Scheduler>) -> Self {
        Self::Immediate(Immediate {
            others: others.cloned(),
            before: Mutex::default(),
        })
    }

    /// A queue whose work runs later.
    pub fn deferred(scheduler: &Scheduler) -> Self {
        Self::Deferred(scheduler.queue())
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
            Self::Immediate(queue) => {
                let _order = queue.reach()?;
                work(executor).map_err(Error::from)
            }
            Self::Deferred(queue) => {
                queue.run(host, Box::new(work));
                Ok(())
            }
        }
    }

    /// Calls the host in the order of the queue, however what was before has ended.
    pub fn call(&self, f: Callback) {
        match self {
            Self::Immediate(queue) => {
                let _order = queue.reach();
                f();
            }
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
            Self::Immediate(queue) => {
                let _order = queue.reach();
                drop(block);
            }
            Self::Deferred(queue) => queue.free(block),
        }
    }

    /// Waits for everything queued so far.
    pub fn wait(&self) -> Result<()> {
        match self {
            Self::Immediate(queue) => queue.reach().map(drop),
            Self::Deferred(queue) => queue.wait(),
        }
    }

    /// Whether everything queued so far has ended.
    pub fn has_ended(&self) -> Result<bool> {
        match self {
            Self::Immediate(queue) => Ok(queue.has_ended()),
            Self::Deferred(queue) => queue.has_ended(),
        }
    }

    /// The point after everything queued so far; none if that has ended, which an immediate queue waits for.
    pub fn point(&self) -> Result<Option<Point>> {
        match self {
            Self::Immediate(queue) => queue.reach().map(|_| None),
            Self::Deferred(queue) => Ok(Some(queue.point())),
        }
    }

    /// Lets what is queued from now on wait for a point.
    pub fn wait_for(&self, point: Point) {
        match self {
            Self::Immediate(queue) => queue.before.lock().push(point),
            Self::Deferred(queue) => queue.wait_for(point),
        }
    }

    /// Whether there may be something to wait for.
    pub fn may_be_busy(&self) -> bool {
        match self {
            Self::Immediate(queue) => !queue.before.lock().is_empty(),
            Self::Deferred(_) => true,
        }
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
