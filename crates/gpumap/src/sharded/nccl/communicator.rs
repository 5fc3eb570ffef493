//! [`Communicator`]: one rank's membership in a group, as NCCL has it.
//!
//! It does not block: calls go on by themselves, and are waited for here, until the other ranks have
//! failed or the time is up. Only so can a rank be sure not to hang on one that is gone.

use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use cudarc::nccl::sys::{ncclComm_t, ncclConfig_t, ncclUniqueId};

use super::library::{Code, IN_PROGRESS, Library, check, library};
use crate::cuda::Context;
use crate::error::{Error, Result};
use crate::sharded::error::GroupError;
use crate::sharded::membership::GroupId;
use crate::stream::Stream;

/// How long joining may take at least, whatever the timeout: NCCL looks at the whole machine first.
const JOINING: Duration = Duration::from_secs(60);

/// How long the last farewell may take.
const FAREWELL: Duration = Duration::from_secs(10);

/// For as long nothing but asking is done between two questions: most waits are short.
const IMPATIENT: Duration = Duration::from_millis(20);

/// One rank's membership.
pub(super) struct Communicator {
    library: &'static Library,
    /// Null when it has been given up.
    handle: ncclComm_t,
    context: Arc<Context>,
    timeout: Duration,
}

// SAFETY: NCCL lets any thread use a communicator, one at a time, which `&mut` sees to.
unsafe impl Send for Communicator {}

impl Communicator {
    /// Joins a group, and returns when all ranks have.
    pub(super) fn join(
        context: &Arc<Context>,
        id: &GroupId,
        rank: usize,
        ranks: usize,
        timeout: Duration,
    ) -> Result<Self> {
        let library = library()?;
        let mut joined = Self {
            library,
            handle: ptr::null_mut(),
            context: Arc::clone(context),
            timeout: timeout.max(JOINING),
        };
        let mut config = config();
        let id = ncclUniqueId {
            internal: id.0.map(|byte| byte as _),
        };
        {
            let _current = context.enter()?;
            // SAFETY: the places are valid, the configuration is as nccl.h initialises it.
            check("ncclCommInitRankConfig", unsafe {
                (library.init)(
                    &mut joined.handle,
                    ranks as c_int,
                    id,
                    rank as c_int,
                    &mut config,
                )
            })?;
        }
        joined.settle("ncclCommInitRankConfig")?;
        joined.timeout = timeout;
        Ok(joined)
    }

    /// Makes calls as one group, and waits until they are queued.
    ///
    /// # Safety
    /// The calls are sound; what they use lives until the stream has passed them.
    pub(super) unsafe fn group(
        &mut self,
        call: &'static str,
        calls: impl FnOnce(&Library, ncclComm_t) -> Code,
    ) -> Result<()> {
        if self.handle.is_null() {
            return Err(Error::Group(GroupError::Ended));
        }
        let context = Arc::clone(&self.context);
        let current = context.enter()?;
        // SAFETY: a group is begun and ended on this thread.
        check("ncclGroupStart", unsafe { (self.library.group_start)() })?;
        let called = check(call, calls(self.library, self.handle));
        // SAFETY: as above.
        let ended = check("ncclGroupEnd", unsafe { (self.library.group_end)() });
        drop(current);
        let done = called.and(ended).and_then(|()| self.settle(call));
        if done.is_err() {
            self.give_up();
        }
        done
    }

    /// Waits until the last call is queued.
    fn settle(&mut self, call: &'static str) -> Result<()> {
        self.wait_until(|communicator| {
            let mut state: Code = 0;
            // SAFETY: the communicator is alive and the place is valid.
            let asked =
                unsafe { (communicator.library.async_error)(communicator.handle, &mut state) };
            check("ncclCommGetAsyncError", asked)?;
            check(call, state)?;
            Ok(state != IN_PROGRESS)
        })
    }

    /// Waits until everything queued on a stream has ended.
    pub(super) fn wait(&mut self, stream: &Stream) -> Result<()> {
        if self.handle.is_null() {
            return Err(Error::Group(GroupError::Ended));
        }
        let done = self.wait_until(|communicator| {
            if stream.is_idle()? {
                return Ok(true);
            }
            let mut state: Code = 0;
            // SAFETY: the communicator is alive and the place is valid.
            let asked =
                unsafe { (communicator.library.async_error)(communicator.handle, &mut state) };
            check("ncclCommGetAsyncError", asked)?;
            check("an exchange of other ranks", state)?;
            Ok(false)
        });
        if done.is_err() {
            self.give_up();
            // What was queued ends now, one way or the other; nobody may free its memory before.
            let _ = stream.synchronize();
        }
        done
    }

    fn wait_until(&mut self, mut done: impl FnMut(&Self) -> Result<bool>) -> Result<()> {
        let start = Instant::now();
        loop {
            if done(self)? {
                return Ok(());
            }
            let waited = start.elapsed();
            if waited > self.timeout {
                return Err(Error::Group(GroupError::Silent {
                    waited: self.timeout,
                }));
            }
            if waited < IMPATIENT {
                thread::yield_now();
            } else {
                thread::sleep(Duration::from_micros(100));
            }
        }
    }

    /// Ends everything at once, also on the device.
    pub(super) fn give_up(&mut self) {
        if self.handle.is_null() {
            return;
        }
        if let Ok(_current) = self.context.enter() {
            // SAFETY: alive until now, and not used again.
            unsafe { (self.library.abort)(self.handle) };
        }
        self.handle = ptr::null_mut();
    }

    /// Leaves the group in order: returns when all ranks have, or it has taken too long.
    fn leave(&mut self) {
        if self.handle.is_null() {
            return;
        }
        let context = Arc::clone(&self.context);
        let Ok(_current) = context.enter() else {
            return;
        };
        self.timeout = FAREWELL;
        // SAFETY: alive; nothing else is called on it but questions.
        let finalized = unsafe { (self.library.finalize)(self.handle) };
        let done =
            check("ncclCommFinalize", finalized).and_then(|()| self.settle("ncclCommFinalize"));
        match done {
            Ok(()) => {
                // SAFETY: finalized, and not used again.
                unsafe { (self.library.destroy)(self.handle) };
                self.handle = ptr::null_mut();
            }
            Err(error) => {
                tracing::debug!(%error, "could not leave a group in order");
                self.give_up();
            }
        }
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        self.leave();
    }
}

/// `NCCL_CONFIG_INITIALIZER`, not blocking.
fn config() -> ncclConfig_t {
    const UNDEFINED: c_int = c_int::MIN;
    // NCCL takes what it knows of, by the size and the version.
    ncclConfig_t {
        size: size_of::<ncclConfig_t>(),
        magic: 0xcafe_beef,
        version: 2 * 10_000 + 30 * 100,
        blocking: 0,
        cgaClusterSize: UNDEFINED,
        minCTAs: UNDEFINED,
        maxCTAs: UNDEFINED,
        netName: ptr::null(),
        splitShare: UNDEFINED,
        trafficClass: UNDEFINED,
        commName: ptr::null(),
        collnetEnable: UNDEFINED,
        CTAPolicy: UNDEFINED,
        shrinkShare: UNDEFINED,
        nvlsCTAs: UNDEFINED,
        nChannelsPerNetPeer: UNDEFINED,
        nvlinkCentricSched: UNDEFINED,
        graphUsageMode: UNDEFINED,
        numRmaCtx: UNDEFINED,
        maxP2pPeers: UNDEFINED,
    }
}
