//! [`Communicator`]: one rank's membership in a group of processes, as NCCL has it.
//!
//! Every phase has an end, also where the other ranks are lost: joining, queueing a call, its work on the device,
//! aborting, and leaving. What is not over when its time is up is aborted, by the rank that waits or by a [`Watch`]
//! while the rank does something else. What NCCL or the driver does not return from is left to a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cudarc::nccl::sys::ncclComm_t;
use parking_lot::Mutex;

use super::bounded::bounded;
use super::handle::Handle;
use super::library::{Code, Library};
use super::watch::Watch;
use crate::device::{Device, Kind};
use crate::error::{Error, Result};
use crate::raw::CUstream;
use crate::sharded::error::GroupError;
use crate::sharded::membership::GroupId;
use crate::stream::Stream;

/// For as long nothing but asking is done between two questions: most waits are short.
const IMPATIENT: Duration = Duration::from_millis(20);

/// How long is waited for what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// For the other ranks.
    timeout: Duration,
    /// For all of them to join.
    joining: Duration,
    /// For each of aborting, what is on the device to end then, and leaving.
    farewell: Duration,
}

impl Limits {
    /// Those of a group whose ranks wait so long for each other.
    pub(super) fn new(timeout: Duration) -> Self {
        /// NCCL looks at the whole machine first.
        const JOINING: Duration = Duration::from_secs(60);
        const FAREWELL: Duration = Duration::from_secs(10);
        Self {
            timeout,
            joining: timeout.max(JOINING),
            farewell: FAREWELL,
        }
    }
}

/// One rank's membership.
pub(super) struct Communicator {
    shared: Arc<Shared>,
    watch: Watch,
}

/// What the rank shares with the watch.
struct Shared {
    device: Device,
    limits: Limits,
    /// None when it has been given up.
    handle: Mutex<Option<Handle>>,
    /// Whether what is under way is over.
    is_over: Mutex<Option<Arc<dyn Fn() -> bool + Send + Sync>>>,
    /// The watch has given it up, and the rank has not had the error yet.
    was_late: AtomicBool,
}

impl Communicator {
    /// Joins a group, and returns when all ranks have.
    pub(super) fn join(
        library: &'static Library,
        device: &Device,
        id: &GroupId,
        [rank, ranks]: [usize; 2],
        limits: Limits,
    ) -> Result<Self> {
        let begin = Instant::now();
        let silent = || silent(limits.joining);
        let (id, on) = (*id, device.clone());
        let handle = bounded(limits.joining, move || {
            Handle::join(library, on, &id, rank, ranks)
        });
        let shared = Arc::new(Shared {
            device: device.clone(),
            limits,
            handle: Mutex::new(Some(handle.ok_or_else(silent)??)),
            is_over: Mutex::default(),
            was_late: AtomicBool::new(false),
        });
        let late = Arc::clone(&shared);
        let watch = Watch::new(move || late.late());
        let joined = watch
            .map_err(|cause| Error::from(GroupError::no_thread(cause)))
            .and_then(|watch| {
                let left = limits.joining.saturating_sub(begin.elapsed());
                shared.settle("ncclCommInitRankConfig", left)?;
                Ok(watch)
            });
        match joined {
            Ok(watch) => Ok(Self { shared, watch }),
            Err(error) => {
                shared.give_up(false);
                Err(match error {
                    Error::Group(GroupError::Silent { .. }) => silent(),
                    error => error,
                })
            }
        }
    }

    /// Makes calls as one group, in the order of a stream, and waits until they are queued. After an error nothing
    /// of them is left on the device.
    ///
    /// # Safety
    /// The calls are sound; what they use lives until [`wait`](Self::wait) has returned.
    pub(super) unsafe fn queue(
        &mut self,
        stream: &Stream,
        call: &'static str,
        calls: impl FnOnce(&Library, ncclComm_t, CUstream) -> Code,
    ) -> Result<()> {
        let of_watch = stream.clone();
        self.begin(move || of_watch.has_ended());
        let queued = stream.queue(|stream| {
            self.shared.with(|handle| {
                // SAFETY: the caller's promise.
                unsafe { handle.group(call, |nccl, comm| calls(nccl, comm, stream)) }
            })
        });
        let queued = queued.and_then(|()| self.shared.settle(call, self.shared.limits.timeout));
        queued.inspect_err(|_| self.fail(stream))
    }

    /// Waits until everything queued on a stream has ended. After an error nothing is left there.
    pub(super) fn wait(&mut self, stream: &Stream) -> Result<()> {
        self.finish(|| stream.is_idle())
            .inspect_err(|_| self.fail(stream))
    }

    /// From now on something is under way.
    fn begin(&self, is_over: impl Fn() -> bool + Send + Sync + 'static) {
        *self.shared.is_over.lock() = Some(Arc::new(is_over));
        self.extend();
    }

    /// What is under way has the whole time again.
    fn extend(&self) {
        let deadline = Instant::now().checked_add(self.shared.limits.timeout);
        self.watch.set(deadline);
    }

    /// Waits for it.
    fn finish(&self, is_over: impl Fn() -> Result<bool>) -> Result<()> {
        self.extend();
        let done = self.shared.wait(self.shared.limits.timeout, || {
            self.shared.with(|_| Ok(()))?;
            // The watch must be able to give up while this call is in the driver.
            if is_over()? {
                return Ok(true);
            }
            let others = |handle: &Handle| handle.is_settled("an exchange of other ranks");
            self.shared.with(others).map(|_| false)
        });
        self.watch.set(None);
        *self.shared.is_over.lock() = None;
        done
    }

    /// Gives it up, and sees that nothing is left on a stream.
    fn fail(&self, stream: &Stream) {
        self.give_up();
        let stream = stream.clone();
        if bounded(self.shared.limits.farewell, move || stream.drain()).is_none() {
            self.shared.abandon();
        }
    }

    /// Ends everything at once, also on the device.
    pub(super) fn give_up(&self) {
        self.watch.set(None);
        self.shared.give_up(false);
    }
}

impl Shared {
    /// Calls something on the communicator.
    fn with<R>(&self, call: impl FnOnce(&Handle) -> Result<R>) -> Result<R> {
        match &*self.handle.lock() {
            Some(handle) => call(handle),
            None if self.was_late.swap(false, Ordering::Relaxed) => {
                Err(silent(self.limits.timeout))
            }
            None => Err(Error::Group(GroupError::Ended)),
        }
    }

    /// Waits until a call has been carried out.
    fn settle(&self, call: &'static str, limit: Duration) -> Result<()> {
        self.wait(limit, || self.with(|handle| handle.is_settled(call)))
    }

    fn wait(&self, limit: Duration, done: impl Fn() -> Result<bool>) -> Result<()> {
        let begin = Instant::now();
        while !done()? {
            let waited = begin.elapsed();
            if waited > limit {
                return Err(silent(limit));
            }
            match waited < IMPATIENT {
                true => thread::yield_now(),
                false => thread::sleep(Duration::from_micros(100)),
            }
        }
        Ok(())
    }

    /// What is under way had its time. It may be over, though its rank does not wait for it yet.
    fn late(&self) {
        let is_over = self.is_over.lock().clone();
        let over = is_over.and_then(|is_over| bounded(self.limits.farewell, move || is_over()));
        if over != Some(true) {
            self.give_up(true);
        }
    }

    /// Ends everything at once, also on the device. The rank needs no error for its own abort.
    fn give_up(&self, by_watch: bool) {
        let Some(mut member) = self.handle.try_lock_for(self.limits.farewell) else {
            return self.abandon();
        };
        if member.is_some() || !by_watch {
            self.was_late.store(by_watch, Ordering::Relaxed);
        }
        let handle = member.take();
        drop(member);
        let Some(handle) = handle else { return };
        if bounded(self.limits.farewell, move || drop(handle)).is_none() {
            self.abandon();
        }
    }

    /// Work that cannot be ended may write to memory for ever: none of it is freed any more.
    fn abandon(&self) {
        tracing::warn!(device = %self.device, "NCCL cannot be aborted: memory of the device is not freed any more");
        if let Kind::Cuda(context) = self.device.kind() {
            context.abandon();
        }
    }

    /// Leaves the group in order: returns when all ranks have, or it has taken too long.
    fn leave(&self) {
        let left = self
            .with(Handle::finalize)
            .and_then(|()| self.settle("ncclCommFinalize", self.limits.farewell));
        if let Err(error) = left {
            tracing::debug!(%error, "could not leave a group in order");
            return self.give_up(false);
        }
        let handle = self.handle.lock().take();
        let destroyed = bounded(self.limits.farewell, move || handle.map(Handle::destroy));
        if destroyed.is_none() {
            tracing::debug!("a communicator is still being destroyed");
        }
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        self.watch.set(None);
        self.shared.leave();
    }
}

fn silent(waited: Duration) -> Error {
    Error::Group(GroupError::Silent { waited })
}

#[cfg(test)]
mod tests;
