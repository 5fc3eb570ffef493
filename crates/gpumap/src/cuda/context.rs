//! A context on one device: where its streams, memory and modules live.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdevice_attribute, CUmemPool_attribute, CUmemoryPool,
};
use gpumap_kernels::primitives::order;
use parking_lot::Mutex;

use super::driver::{cu, device_count, ensure, expect_own};
use super::module::{Function, Modules};
use super::ptx::{PtxText, Symbol};
use super::query::{attribute, capability, check_supported, is_locked, name};
use super::relaxed::Relaxed;
use super::streams::Streams;
use crate::device::{ComputeCapability, DriverVersion, PtxChoice};
use crate::error::{Error, Result};

/// A context and what was found out about its device once.
///
/// Our own contexts are the devices' primary ones, shared with the CUDA runtime and with every
/// library that does the same, so that pointers can be passed around freely.
#[derive(Debug)]
pub(crate) struct Context {
    handle: CUcontext,
    device: CUdevice,
    owned: bool,
    /// Something on the device may use memory for ever.
    abandoned: AtomicBool,
    modules: Modules,
    /// The device's default pool, where the device has pools.
    pool: Option<CUmemoryPool>,
    /// The number of the device, as the driver counts.
    pub ordinal: usize,
    /// The driver's name of it.
    pub name: String,
    /// What its hardware can do.
    pub capability: ComputeCapability,
    /// How many multiprocessors it has.
    pub multiprocessors: u32,
    /// Bytes of its memory.
    pub total_memory: usize,
    /// Bytes of its second-level cache.
    pub l2_bytes: u64,
    /// The most dynamic shared memory a block can have.
    pub max_shared_bytes: u32,
    /// The most blocks in a grid.
    pub max_blocks: u32,
    /// Which kernels were loaded.
    pub ptx: PtxChoice,
    /// The streams of this library in it.
    streams: Streams,
}

// SAFETY: contexts, pools and modules are handles that the driver lets any thread use; what is
// current on a thread is set around every call by `Current`.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// Shows that the context is current on this thread, whose capture mode is [relaxed](Relaxed); puts
/// back what was there before.
#[derive(Debug)]
pub(crate) struct Current<'a> {
    pushed: bool,
    _relaxed: Relaxed,
    // What is current belongs to a thread, so this must not leave it.
    _context: PhantomData<(&'a Context, *const ())>,
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        if self.pushed {
            let mut popped: CUcontext = std::ptr::null_mut();
            // SAFETY: `enter` pushed one context on this thread, and guards drop in order.
            let _ = unsafe { cu!(cuCtxPopCurrent_v2(&mut popped)) };
        }
    }
}

/// The contexts that are open, so that a device is opened and its kernels compiled once.
static OPEN: Mutex<Vec<(usize, PtxChoice, Weak<Context>)>> = Mutex::new(Vec::new());

impl Context {
    /// Opens a device by number, or shares it where this process has it open with the same
    /// kernels.
    pub(crate) fn open(ordinal: usize, choice: &PtxChoice) -> Result<Arc<Self>> {
        let count = device_count()?;
        let missing = Error::NoDevice { ordinal, count };
        if ordinal >= count {
            return Err(missing);
        }
        let mut open = OPEN.lock();
        open.retain(|(_, _, context)| context.strong_count() > 0);
        let known = open
            .iter()
            .find(|(at, with, _)| *at == ordinal && with == choice)
            .and_then(|(_, _, context)| context.upgrade());
        if let Some(context) = known {
            return Ok(context);
        }
        let mut device: CUdevice = 0;
        let number = i32::try_from(ordinal).map_err(|_| missing)?;
        // SAFETY: the driver is initialised and `device` is a valid place for a handle.
        unsafe { cu!(cuDeviceGet(&mut device, number)) }?;
        check_supported(device)?;
        let mut handle: CUcontext = std::ptr::null_mut();
        // SAFETY: `device` was returned by the driver. Released once, in `drop` of the value
        // that `with_handle` makes of it, or there when it fails.
        unsafe { cu!(cuDevicePrimaryCtxRetain(&mut handle, device)) }?;
        // SAFETY: the context was retained just now.
        let context = Arc::new(unsafe { Self::with_handle(handle, device, true, choice) }?);
        open.push((ordinal, choice.clone(), Arc::downgrade(&context)));
        Ok(context)
    }

    /// Uses a context of another owner.
    ///
    /// # Safety
    /// The context stays alive for as long as the value and everything made from it.
    pub(crate) unsafe fn borrow(handle: CUcontext, choice: &PtxChoice) -> Result<Arc<Self>> {
        ensure()?;
        let mut device: CUdevice = 0;
        {
            // SAFETY: the caller says that it is a context.
            let _current = unsafe { make_current(handle) }?;
            // SAFETY: a context is current, and the place is valid.
            unsafe { cu!(cuCtxGetDevice(&mut device)) }?;
        }
        check_supported(device)?;
        // SAFETY: passed on.
        Ok(Arc::new(unsafe {
            Self::with_handle(handle, device, false, choice)
        }?))
    }

    /// # Safety
    /// `handle` is a live context of `device`, retained for this value if `owned`.
    unsafe fn with_handle(
        handle: CUcontext,
        device: CUdevice,
        owned: bool,
        choice: &PtxChoice,
    ) -> Result<Self> {
        // Made first with what cannot fail, so that an error on the way drops it and releases.
        let mut context = Self {
            handle,
            device,
            owned,
            abandoned: AtomicBool::new(false),
            modules: Modules::default(),
            pool: None,
            ordinal: usize::try_from(device).unwrap_or(0),
            name: String::new(),
            capability: ComputeCapability { major: 0, minor: 0 },
            multiprocessors: 0,
            total_memory: 0,
            l2_bytes: 0,
            max_shared_bytes: 0,
            max_blocks: 0,
            ptx: choice.clone(),
            streams: Streams::default(),
        };
        use CUdevice_attribute as A;
        let of = |which| attribute(device, which);
        context.name = name(device)?;
        context.capability = capability(device)?;
        context.multiprocessors = of(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        // SAFETY: `device` came from the driver, and the place is valid.
        unsafe { cu!(cuDeviceTotalMem_v2(&mut context.total_memory, device)) }?;
        context.l2_bytes = of(A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?.into();
        context.max_shared_bytes = of(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
        context.max_blocks = of(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)?;
        if of(A::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? != 0 {
            context.pool = Some(context.default_pool()?);
        }
        if *choice == PtxChoice::Auto {
            context.ptx = PtxChoice::for_capability(context.capability);
        }
        let text = PtxText::of(&context.ptx)?;
        if text.is_built_in() {
            let current = context.enter()?;
            context
                .modules
                .add_by_kernel(&current, text, Symbol::from(&order::NUMBER))?;
        } else {
            context.add_module(text)?;
        }
        Ok(context)
    }

    /// The pool that stream-ordered memory comes from. In a context of our own it keeps what is
    /// freed, so that the next allocation costs no system call.
    fn default_pool(&self) -> Result<CUmemoryPool> {
        let mut pool: CUmemoryPool = std::ptr::null_mut();
        // SAFETY: the device supports pools, as the caller has checked; the place is valid.
        unsafe { cu!(cuDeviceGetDefaultMemPool(&mut pool, self.device)) }?;
        if self.owned {
            let mut threshold = u64::MAX;
            let attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
            let _current = self.enter()?;
            // SAFETY: this attribute is a 64-bit number, which the driver copies.
            unsafe {
                cu!(cuMemPoolSetAttribute(
                    pool,
                    attribute,
                    (&raw mut threshold).cast()
                ))
            }?;
        }
        Ok(pool)
    }

    /// Makes the context current on this thread until the guard drops.
    pub(crate) fn enter(&self) -> Result<Current<'_>> {
        // SAFETY: the context is alive while `self` is: retained by us, or by the contract of
        // `borrow`.
        unsafe { make_current(self.handle) }
    }

    /// From now on no memory of the context is freed: something that could not be ended may use it.
    #[cfg(feature = "nccl")]
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Release);
    }

    /// Whether memory of the context must not be freed.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Acquire)
    }

    /// The handle itself.
    pub(crate) fn handle(&self) -> CUcontext {
        self.handle
    }

    /// The driver's handle of its device.
    pub(super) fn device(&self) -> CUdevice {
        self.device
    }

    /// The pool that memory comes from, if the device has pools.
    pub(super) fn pool(&self) -> Option<CUmemoryPool> {
        self.pool
    }

    /// Whether memory is allocated in stream order.
    pub(crate) fn has_pool(&self) -> bool {
        self.pool.is_some()
    }

    /// Gives memory that the pool keeps back to the driver, where nothing uses it.
    pub(crate) fn trim(&self) -> Result<()> {
        let Some(pool) = self.pool else { return Ok(()) };
        // Only what has been freed for good can be given back.
        self.synchronize()?;
        let _current = self.enter()?;
        // SAFETY: the device's default pool lives as long as the process.
        unsafe { cu!(cuMemPoolTrimTo(pool, 0)) }
    }

    /// Waits for everything that this library has queued in the context.
    pub(crate) fn synchronize(&self) -> Result<()> {
        let current = self.enter()?;
        self.streams.synchronize(&current)
    }

    /// The streams that are to be waited for by [`synchronize`](Self::synchronize).
    pub(crate) fn streams(&self) -> &Streams {
        &self.streams
    }

    /// Free and total bytes of device memory.
    pub(crate) fn memory(&self) -> Result<(u64, u64)> {
        let _current = self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: a context is current and both places are valid.
        unsafe { cu!(cuMemGetInfo_v2(&mut free, &mut total)) }?;
        Ok((free as u64, total as u64))
    }

    /// Bytes that can be allocated: free ones, and those that the pool keeps unused.
    pub(crate) fn available(&self) -> Result<u64> {
        let (free, _) = self.memory()?;
        let Some(pool) = self.pool else {
            return Ok(free);
        };
        let _current = self.enter()?;
        let of_pool = |attribute| {
            let mut bytes = 0u64;
            // SAFETY: the pool lives as long as the process; these attributes are 64 bits wide.
            unsafe {
                cu!(cuMemPoolGetAttribute(
                    pool,
                    attribute,
                    (&raw mut bytes).cast()
                ))
            }
            .map(|()| bytes)
        };
        let reserved = of_pool(CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?;
        let used = of_pool(CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?;
        Ok(free + reserved.saturating_sub(used))
    }

    /// Whether an address is of page-locked memory of the host.
    pub(crate) fn has_locked(&self, address: *const u8) -> bool {
        let Ok(_current) = self.enter() else {
            return false;
        };
        is_locked(address)
    }

    /// The version of CUDA that the driver supports.
    pub(crate) fn driver_version(&self) -> Result<DriverVersion> {
        let mut version = 0;
        // SAFETY: the place is valid.
        unsafe { cu!(cuDriverGetVersion(&mut version)) }?;
        let version = u32::try_from(version).unwrap_or(0);
        Ok(DriverVersion {
            major: version / 1000,
            minor: version % 1000 / 10,
        })
    }

    /// Finds a kernel in the modules of this context.
    pub(crate) fn function(
        &self,
        current: &Current<'_>,
        symbol: impl Into<Symbol>,
    ) -> Result<Arc<Function>> {
        self.modules.function(current, symbol.into())
    }

    /// Adds a module to those in which kernels are searched.
    pub(crate) fn add_module(&self, ptx: PtxText) -> Result<()> {
        let current = self.enter()?;
        self.modules.add(&current, ptx)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.is_abandoned() || expect_own().is_err() {
            // What is below would wait for the device, or for what stayed with another process.
            return;
        }
        // SAFETY: still alive; see `enter`.
        if let Ok(current) = unsafe { make_current(self.handle) } {
            // Streams hold the context, so only retired ones are left: after this nothing of ours
            // runs, unless an error has ended it.
            let _ = self.streams.synchronize(&current);
            if self.owned
                && let Some(pool) = self.pool
            {
                // What our own release threshold kept is given back to other processes.
                // SAFETY: a context is current, and the default pool outlives it.
                let _ = unsafe { cu!(cuMemPoolTrimTo(pool, 0)) };
            }
            self.modules.unload(&current);
        }
        if self.owned {
            // SAFETY: retained once in `open`. Streams and memory hold the context, so nothing
            // of ours is left in it.
            let released = unsafe { cu!(cuDevicePrimaryCtxRelease_v2(self.device)) };
            if let Err(error) = released {
                tracing::debug!(%error, "could not release the primary context");
            }
        }
    }
}

/// Pushes a context unless it is current already.
///
/// # Safety
/// `handle` is a context and outlives the guard.
unsafe fn make_current<'a>(handle: CUcontext) -> Result<Current<'a>> {
    expect_own()?;
    let mut now: CUcontext = std::ptr::null_mut();
    // SAFETY: the place is valid; no current context is needed.
    unsafe { cu!(cuCtxGetCurrent(&mut now)) }?;
    let pushed = now != handle;
    if pushed {
        // SAFETY: the caller says that it is a context.
        unsafe { cu!(cuCtxPushCurrent_v2(handle)) }?;
    }
    // Last: the guard exists from here on, and puts both back.
    let current = Current {
        pushed,
        _relaxed: Relaxed::enter(),
        _context: PhantomData,
    };
    Ok(current)
}
