//! What calls of a GPU cost without a map: an empty kernel from several threads, each with a stream of its own, by calls of the driver
//! alone. So whatever the library adds, it adds to this.

use std::ffi::c_void;
use std::ptr;

use anyhow::{Context, Result};
use cudarc::driver::result::ctx;
use cudarc::driver::sys;
use gpumap::Device;

use super::race::Caller;

/// A kernel that does nothing.
const PTX: &str = "\
.version 6.0\n\
.target sm_70\n\
.address_size 64\n\
.visible .entry empty() { ret; }\n\0";

/// Bytes of the memory of a thread, on the host and on the device: of two arrays of a call.
const fn bytes_of(keys: usize) -> usize {
    2 * keys * size_of::<u64>()
}

/// What a call copies, in copies of so many bytes.
#[derive(Clone, Copy, Debug)]
pub struct Copies {
    keys: usize,
    there: [usize; 2],
    back: [usize; 2],
}

impl Copies {
    /// Nothing.
    pub const NONE: Self = Self {
        keys: 0,
        there: [0; 2],
        back: [0; 2],
    };

    /// What the map copies for a verb with so many keys in arrays of the host: nothing if they are few, which kernels reach where
    /// they are.
    pub fn of(verb: &str, keys: usize) -> Self {
        // As in `scratch::mapped` of the library.
        const FEW_BYTES: usize = 16 << 10;
        let words = keys * size_of::<u64>();
        if words <= FEW_BYTES {
            return Self::NONE;
        }
        match verb {
            "get" => Self {
                keys,
                there: [words, 0],
                back: [words, keys],
            },
            _ => Self {
                keys,
                there: [words, words],
                back: [0; 2],
            },
        }
    }

    /// Whether there is one.
    pub fn is_any(&self) -> bool {
        self.keys != 0
    }
}

/// The kernel on a device.
pub struct Driver {
    context: sys::CUcontext,
    module: sys::CUmodule,
    kernel: sys::CUfunction,
    /// Keeps the context.
    _device: Device,
}

// SAFETY: handles that the driver lets any thread use.
unsafe impl Sync for Driver {}

impl Driver {
    /// Loads the kernel.
    pub fn new(device: &Device) -> Result<Self> {
        let context = device.as_raw_context().context("not a GPU")?;
        // SAFETY: the device keeps the context.
        unsafe { ctx::set_current(context) }?;
        let (mut module, mut kernel) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the text ends with a zero, and the places are valid.
        unsafe {
            sys::cuModuleLoadData(&mut module, PTX.as_ptr().cast::<c_void>()).result()?;
            sys::cuModuleGetFunction(&mut kernel, module, c"empty".as_ptr()).result()?;
        }
        Ok(Self {
            context,
            module,
            kernel,
            _device: device.clone(),
        })
    }

    /// Threads that launch the kernel and wait, after and before copies.
    pub fn callers(&self, threads: usize, copies: Copies) -> Result<Vec<Launches<'_>>> {
        // SAFETY: the device keeps the context.
        unsafe { ctx::set_current(self.context) }?;
        let launches = |_| Launches::new(self, copies);
        (0..threads).map(launches).collect()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // SAFETY: the context is alive, and nothing of the module runs: every call was waited for.
        unsafe {
            let _ = ctx::set_current(self.context);
            let _ = sys::cuModuleUnload(self.module);
        }
    }
}

/// A thread that launches the kernel and waits.
pub struct Launches<'d> {
    driver: &'d Driver,
    stream: sys::CUstream,
    memory: sys::CUdeviceptr,
    /// As pageable as the arrays of a caller.
    host: Vec<u8>,
    copies: Copies,
}

// SAFETY: handles that the driver lets any thread use.
unsafe impl Send for Launches<'_> {}

impl<'d> Launches<'d> {
    /// The context is current.
    fn new(driver: &'d Driver, copies: Copies) -> Result<Self> {
        let bytes = bytes_of(copies.keys.max(1));
        let mut this = Self {
            driver,
            stream: ptr::null_mut(),
            memory: 0,
            host: vec![1; bytes],
            copies,
        };
        // SAFETY: a context is current, and the places are valid. The flag is CU_STREAM_NON_BLOCKING, as for the map's streams.
        unsafe {
            sys::cuStreamCreate(&mut this.stream, 1).result()?;
            sys::cuMemAlloc_v2(&mut this.memory, bytes).result()?;
        }
        Ok(this)
    }

    /// Where the second of two arrays begins.
    fn second(&self) -> usize {
        self.copies.keys * size_of::<u64>()
    }
}

impl Caller for Launches<'_> {
    fn begin(&mut self) -> Result<()> {
        // SAFETY: the device keeps the context.
        Ok(unsafe { ctx::set_current(self.driver.context) }?)
    }

    fn call(&mut self) -> Result<bool> {
        let second = self.second();
        let (stream, memory) = (self.stream, self.memory);
        let host = self.host.as_mut_ptr();
        // SAFETY: host and device have room for two arrays of words; nothing else uses them until the wait. The kernel takes nothing.
        unsafe {
            for (at, bytes) in [0, second].into_iter().zip(self.copies.there) {
                if bytes > 0 {
                    let (to, from) = (memory + at as u64, host.add(at).cast());
                    sys::cuMemcpyHtoDAsync_v2(to, from, bytes, stream).result()?;
                }
            }
            sys::cuLaunchKernel(
                self.driver.kernel,
                1,
                1,
                1,
                32,
                1,
                1,
                0,
                stream,
                ptr::null_mut(),
                ptr::null_mut(),
            )
            .result()?;
            for (at, bytes) in [0, second].into_iter().zip(self.copies.back) {
                if bytes > 0 {
                    let (to, from) = (host.add(at).cast(), memory + at as u64);
                    sys::cuMemcpyDtoHAsync_v2(to, from, bytes, stream).result()?;
                }
            }
            sys::cuStreamSynchronize(stream).result()?;
        }
        Ok(true)
    }

    /// Every call of the driver said whether it went well.
    fn verify(self) -> Result<()> {
        Ok(())
    }
}

impl Drop for Launches<'_> {
    fn drop(&mut self) {
        // SAFETY: the context is alive; whatever was queued is waited for before its memory goes.
        unsafe {
            let _ = ctx::set_current(self.driver.context);
            let _ = sys::cuStreamSynchronize(self.stream);
            let _ = sys::cuMemFree_v2(self.memory);
            let _ = sys::cuStreamDestroy_v2(self.stream);
        }
    }
}
