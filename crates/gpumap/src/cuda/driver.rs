//! Finding the driver without ever panicking, and calling it.
//!
//! `cudarc` panics when the library or a symbol is missing, so both are looked up first. Every
//! other module may call `cu!` once [`ensure`] has returned `Ok`, which opening a context does.

use std::sync::OnceLock;

use cudarc::driver::sys::{self, CUevent, CUresult};
use gpumap_simt::executor::forks;

use crate::error::{DriverCode, Error, Result};

/// Calls one driver function by name and turns its code into a [`Result`]. The call is unsafe;
/// the caller writes the block and says why it holds.
macro_rules! cu {
    ($name:ident($($arg:expr),* $(,)?)) => {
        $crate::cuda::check(stringify!($name), cudarc::driver::sys::$name($($arg),*))
    };
}
pub(crate) use cu;

/// The code of a driver call as a result.
pub(crate) fn check(call: &'static str, code: CUresult) -> Result<()> {
    #[cfg(test)]
    super::calls::note(call);
    match code {
        CUresult::CUDA_SUCCESS => Ok(()),
        code => Err(Error::Driver {
            call,
            code: DriverCode(code),
        }),
    }
}

/// Every driver function that is called through `cu!`.
const NEEDED: &[&str] = &[
    "cuCtxEnablePeerAccess",
    "cuCtxGetCurrent",
    "cuCtxGetDevice",
    "cuCtxPopCurrent_v2",
    "cuCtxPushCurrent_v2",
    "cuDeviceCanAccessPeer",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetDefaultMemPool",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDeviceTotalMem_v2",
    "cuDriverGetVersion",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventQuery",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuFuncGetAttribute",
    "cuFuncSetAttribute",
    "cuGraphAddKernelNode",
    "cuGraphCreate",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuInit",
    "cuLaunchKernel",
    "cuMemAllocAsync",
    "cuMemAlloc_v2",
    "cuMemFreeAsync",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemGetInfo_v2",
    "cuMemHostAlloc",
    "cuMemPoolGetAttribute",
    "cuMemPoolSetAccess",
    "cuMemPoolSetAttribute",
    "cuMemPoolTrimTo",
    "cuMemcpy2DAsync_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyPeerAsync",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleLoadDataEx",
    "cuModuleUnload",
    "cuPointerGetAttributes",
    "cuStreamAddCallback",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamIsCapturing",
    "cuStreamQuery",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuThreadExchangeStreamCaptureMode",
];

/// What the first look for a driver found; it does not change while the process lives.
enum Found {
    Ready,
    NoLibrary,
    Missing(&'static str),
    InitFailed(CUresult),
}

/// How many forks lie between the start of the program and the process that initialised the driver, or tried to.
static OWNER: OnceLock<u32> = OnceLock::new();

/// An error in a process that was forked after the driver had been initialised: it is of no use there.
pub(crate) fn expect_own() -> Result<()> {
    match OWNER.get() {
        Some(&owner) if owner != forks() => Err(Error::Forked {
            lost: "the CUDA driver",
        }),
        _ => Ok(()),
    }
}

/// Loads and initialises the driver, once per process.
pub(crate) fn ensure() -> Result<()> {
    static FOUND: OnceLock<Found> = OnceLock::new();
    match FOUND.get_or_init(find) {
        Found::Ready => expect_own(),

        Found::NoLibrary => Err(Error::NoDriver),
        Found::Missing(missing) => Err(Error::DriverTooOld { missing }),
        // The driver is there and says that there is nothing to drive.
        Found::InitFailed(CUresult::CUDA_ERROR_NO_DEVICE) => Err(Error::NoDevice {
            ordinal: 0,
            count: 0,
        }),
        Found::InitFailed(code) => check("cuInit", *code),
    }
}

fn find() -> Found {
    // SAFETY: loads libcuda, whose initialisers are safe to run; nothing else is assumed.
    if !unsafe { sys::is_culib_present() } {
        return Found::NoLibrary;
    }
    // SAFETY: the library was found just now, which is what `culib` needs not to panic.
    let library = unsafe { sys::culib() };
    for name in NEEDED {
        // SAFETY: only its existence is checked; it is never called through this type.
        if unsafe { library.get::<*const ()>(name.as_bytes()) }.is_err() {
            return Found::Missing(name);
        }
    }
    OWNER.get_or_init(forks);
    // SAFETY: `cuInit` may be called at any time, from any thread; its flags must be 0.
    match unsafe { sys::cuInit(0) } {
        CUresult::CUDA_SUCCESS => Found::Ready,
        code => Found::InitFailed(code),
    }
}

/// How many devices the driver shows.
pub(crate) fn device_count() -> Result<usize> {
    ensure()?;
    let mut count = 0;
    // SAFETY: `count` is a valid place for an int; the driver is initialised.
    unsafe { cu!(cuDeviceGetCount(&mut count)) }?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// Milliseconds between two events that have both completed.
///
/// # Safety
/// Both events are alive, and of one context.
pub(crate) unsafe fn elapsed_ms(start: CUevent, end: CUevent) -> Result<f32> {
    // The bindings have only the `_v2` of newer drivers; the first version is in all of them.
    type ElapsedTime = unsafe extern "C" fn(*mut f32, CUevent, CUevent) -> CUresult;
    // SAFETY: an event exists, so the library is loaded; the type is the one in cuda.h.
    let function = unsafe { sys::culib().get::<ElapsedTime>(b"cuEventElapsedTime") };
    let function = function.map_err(|_| Error::DriverTooOld {
        missing: "cuEventElapsedTime",
    })?;
    let mut milliseconds = 0.0;
    // SAFETY: the caller vouches for the events, and the place for the result is valid.
    check("cuEventElapsedTime", unsafe {
        function(&mut milliseconds, start, end)
    })?;
    Ok(milliseconds)
}
