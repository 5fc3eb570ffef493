//! [`Handle`]: a communicator of NCCL, and the calls on it.
//!
//! It does not block: its operations go on by themselves, and are [polled](Handle::is_settled).
//! Making, aborting and destroying one may block all the same.

use std::ffi::c_int;
use std::{mem, ptr};

use cudarc::nccl::sys::{ncclComm_t, ncclConfig_t, ncclUniqueId};

use super::library::{Code, IN_PROGRESS, Library, check};
use crate::cuda::Current;
use crate::device::{Device, Kind};
use crate::error::Result;
use crate::sharded::membership::GroupId;

/// A communicator. Aborted when it is dropped, also on the device.
pub(super) struct Handle {
    library: &'static Library,
    device: Device,
    /// Null when there is nothing to abort.
    raw: ncclComm_t,
}

// SAFETY: NCCL lets any thread use a communicator, one at a time, which its owner sees to.
unsafe impl Send for Handle {}

impl Handle {
    /// Begins to join a group.
    pub(super) fn join(
        library: &'static Library,
        device: Device,
        id: &GroupId,
        rank: usize,
        ranks: usize,
    ) -> Result<Self> {
        let mut handle = Self {
            library,
            device,
            raw: ptr::null_mut(),
        };
        let mut config = config();
        let id = ncclUniqueId {
            internal: id.0.map(|byte| byte as _),
        };
        {
            let _current = enter(&handle.device)?;
            let (rank, ranks) = (rank as c_int, ranks as c_int);
            // SAFETY: the places are valid, the configuration is as nccl.h initialises it.
            check("ncclCommInitRankConfig", unsafe {
                (library.init)(&mut handle.raw, ranks, id, rank, &mut config)
            })?;
        }
        Ok(handle)
    }

    /// Whether the last call, which this names, has been carried out; or its error.
    pub(super) fn is_settled(&self, call: &'static str) -> Result<bool> {
        let mut state: Code = 0;
        // SAFETY: the communicator is alive and the place is valid.
        let asked = unsafe { (self.library.async_error)(self.raw, &mut state) };
        check("ncclCommGetAsyncError", asked)?;
        check(call, state)?;
        Ok(state != IN_PROGRESS)
    }

    /// Makes calls as one group.
    ///
    /// # Safety
    /// The calls are sound; what they use lives until the stream has passed them.
    pub(super) unsafe fn group(
        &self,
        call: &'static str,
        calls: impl FnOnce(&Library, ncclComm_t) -> Code,
    ) -> Result<()> {
        let _current = enter(&self.device)?;
        // SAFETY: a group is begun and ended on this thread.
        check("ncclGroupStart", unsafe { (self.library.group_start)() })?;
        let called = check(call, calls(self.library, self.raw));
        // SAFETY: as above.
        let ended = check("ncclGroupEnd", unsafe { (self.library.group_end)() });
        called.and(ended)
    }

    /// Begins to leave the group in order, as all ranks do.
    pub(super) fn finalize(&self) -> Result<()> {
        let _current = enter(&self.device)?;
        // SAFETY: alive; nothing else is called on it but questions.
        check("ncclCommFinalize", unsafe {
            (self.library.finalize)(self.raw)
        })
    }

    /// Frees it, when it has left the group.
    pub(super) fn destroy(mut self) {
        let raw = mem::replace(&mut self.raw, ptr::null_mut());
        if let Ok(_current) = enter(&self.device) {
            // SAFETY: finalized, and not used again.
            unsafe { (self.library.destroy)(raw) };
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.raw.is_null() {
            return;
        }
        if let Ok(_current) = enter(&self.device) {
            // SAFETY: alive until now, and not used again.
            unsafe { (self.library.abort)(self.raw) };
        }
    }
}

/// Makes the context of a GPU current. The CPU, which tests have, has none.
fn enter(device: &Device) -> Result<Option<Current<'_>>> {
    match device.kind() {
        Kind::Cuda(context) => context.enter().map(Some),
        Kind::Cpu(_) => Ok(None),
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
