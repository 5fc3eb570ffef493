//! Modules of kernels on a device: loaded once, functions found by name and remembered.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cudarc::driver::sys::{CUfunction, CUfunction_attribute, CUjit_option, CUmodule, CUresult};
use parking_lot::{Mutex, RwLock};

use super::context::Current;
use super::driver::cu;
use super::ptx::{PtxText, Symbol};
use crate::error::{DriverCode, Error, PtxError, Result};

/// Bytes for what the PTX compiler of the driver has to say about a text that it rejects.
const LOG_BYTES: usize = 4096;

/// A kernel on the device, and the limits of its launches.
#[derive(Debug)]
pub(crate) struct Function {
    /// Valid for as long as the modules that it came from, which only ever grow.
    pub handle: CUfunction,
    /// Most threads per block with the registers this kernel takes.
    pub max_threads: u32,
    /// Dynamic shared memory that a launch may take now; raised on demand.
    shared_limit: AtomicU32,
}

// SAFETY: a CUfunction is a handle that the driver lets any thread use.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl Function {
    /// Allows launches with this much dynamic shared memory; more than the default 48 KiB has to
    /// be requested.
    pub(crate) fn allow_shared(&self, _: &Current<'_>, bytes: u32) -> Result<()> {
        if bytes <= self.shared_limit.load(Ordering::Acquire) {
            return Ok(());
        }
        // Two threads may both come here; each sets at least what it needs, and the larger value
        // must stay, so this is one at a time.
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _one = ONE_AT_A_TIME.lock();
        if bytes <= self.shared_limit.load(Ordering::Acquire) {
            return Ok(());
        }
        let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let value = i32::try_from(bytes).unwrap_or(i32::MAX);
        // SAFETY: the function's module is loaded and its context is current.
        unsafe { cu!(cuFuncSetAttribute(self.handle, attribute, value)) }?;
        self.shared_limit.store(bytes, Ordering::Release);
        Ok(())
    }
}

/// The kernels of one context, searched in the order in which their texts were added.
///
/// Compiling PTX takes the driver some 40 ms a kernel, and few programs use them all. So kernels
/// that come with the library are compiled one by one, at their first use; texts of others are
/// compiled as a whole when they are added, to say at once what is wrong with them.
#[derive(Debug, Default)]
pub(super) struct Modules {
    sources: RwLock<Vec<Source>>,
    loaded: Mutex<Vec<Loaded>>,
    functions: RwLock<HashMap<Symbol, Arc<Function>>>,
}

/// A text whose kernels are searched.
#[derive(Debug)]
struct Source {
    ptx: PtxText,
    /// The text compiled as a whole; without it, each kernel is compiled by itself.
    whole: Option<Loaded>,
}

/// A module on the device.
#[derive(Clone, Copy, Debug)]
struct Loaded(CUmodule);

// SAFETY: a CUmodule is a handle that the driver lets any thread use.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

impl Modules {
    /// Adds a text that is compiled kernel by kernel. The one named `probe` is compiled at once:
    /// it shows that the driver takes these texts.
    pub(super) fn add_by_kernel(
        &self,
        current: &Current<'_>,
        ptx: PtxText,
        probe: Symbol,
    ) -> Result<()> {
        self.sources.write().push(Source { ptx, whole: None });
        self.function(current, probe).map(drop)
    }

    /// Compiles a text and adds it.
    pub(super) fn add(&self, current: &Current<'_>, ptx: PtxText) -> Result<()> {
        let whole = Some(self.compile(current, &ptx.text, ptx.path.as_ref())?);
        self.sources.write().push(Source { ptx, whole });
        Ok(())
    }

    /// Compiles a text for the device. The module stays loaded until [`unload`](Self::unload).
    fn compile(&self, _: &Current<'_>, text: &str, path: Option<&PathBuf>) -> Result<Loaded> {
        let path = path.cloned();
        let Ok(text) = CString::new(text) else {
            let cause = PtxError::NotPtx;
            return Err(Error::Ptx { path, cause });
        };
        let mut log = vec![0u8; LOG_BYTES];
        let mut options = [
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ];
        // The size is passed in the pointer itself, as the driver wants small values.
        let mut values: [*mut c_void; 2] = [
            log.as_mut_ptr().cast(),
            std::ptr::without_provenance_mut(LOG_BYTES),
        ];
        let mut module: CUmodule = std::ptr::null_mut();
        // SAFETY: a context is current; the text ends in NUL; both option arrays have 2 entries,
        // and `log` has the bytes that the second one promises.
        let code = unsafe {
            cudarc::driver::sys::cuModuleLoadDataEx(
                &mut module,
                text.as_ptr().cast(),
                2,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        match code {
            CUresult::CUDA_SUCCESS => {
                self.loaded.lock().push(Loaded(module));
                Ok(Loaded(module))
            }
            CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION => Err(Error::DriverTooOld {
                missing: "support for the kernels' PTX version",
            }),
            CUresult::CUDA_ERROR_INVALID_PTX
            | CUresult::CUDA_ERROR_INVALID_IMAGE
            | CUresult::CUDA_ERROR_INVALID_SOURCE
            | CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU
            | CUresult::CUDA_ERROR_JIT_COMPILER_NOT_FOUND
            | CUresult::CUDA_ERROR_JIT_COMPILATION_DISABLED => {
                let code = DriverCode(code);
                let log = one_line(&log);
                let cause = PtxError::Rejected { code, log };
                Err(Error::Ptx { path, cause })
            }
            // At least the code itself; how much more, the driver does not say.
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => Err(Error::OutOfMemory {
                needed: text.as_bytes().len() as u64,
                available: free_bytes(),
            }),
            code => Err(Error::Driver {
                call: "cuModuleLoadDataEx",
                code: DriverCode(code),
            }),
        }
    }

    /// Finds a kernel by its name and the layout of its arguments.
    pub(super) fn function(&self, current: &Current<'_>, symbol: Symbol) -> Result<Arc<Function>> {
        if let Some(function) = self.functions.read().get(&symbol) {
            return Ok(Arc::clone(function));
        }
        let function = Arc::new(self.find(current, symbol)?);
        let mut functions = self.functions.write();
        // Another thread may have been first; all use one, for it carries the shared limit.
        Ok(Arc::clone(functions.entry(symbol).or_insert(function)))
    }

    fn find(&self, current: &Current<'_>, symbol: Symbol) -> Result<Function> {
        let missing = || Error::KernelMissing {
            kernel: symbol.name,
        };
        let name = CString::new(symbol.name).map_err(|_| missing())?;
        let sources = self.sources.read();
        let mut found = sources
            .iter()
            .filter_map(|source| Some(source.ptx.find(symbol)?.map(|()| source)));
        // Kernels of two crates may have one name: the arguments distinguish them.
        let source = match found.next().ok_or_else(missing)? {
            Ok(source) => source,
            Err(refused) => found.find_map(Result::ok).ok_or(refused)?,
        };
        let module = match source.whole {
            Some(module) => module,
            None => {
                let alone = source.ptx.kernel_alone(symbol.name).ok_or_else(missing)?;
                self.compile(current, &alone, source.ptx.path.as_ref())?
            }
        };
        let mut handle: CUfunction = std::ptr::null_mut();
        // SAFETY: the module is loaded, its context is current, the name ends in NUL.
        unsafe { cu!(cuModuleGetFunction(&mut handle, module.0, name.as_ptr())) }?;
        let attribute = |which| -> Result<u32> {
            let mut value = 0;
            // SAFETY: `handle` was found just now; `value` is a valid place for an int.
            unsafe { cu!(cuFuncGetAttribute(&mut value, which, handle)) }?;
            Ok(u32::try_from(value).unwrap_or(0))
        };
        Ok(Function {
            handle,
            max_threads: attribute(CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            shared_limit: AtomicU32::new(attribute(
                CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
            )?),
        })
    }

    /// Unloads everything. Nothing may be running on the device that came from these modules.
    pub(super) fn unload(&mut self, _: &Current<'_>) {
        self.functions.get_mut().clear();
        self.sources.get_mut().clear();
        for module in self.loaded.get_mut().drain(..) {
            // SAFETY: loaded by `compile` into the current context, and unloaded only here.
            let unloaded = unsafe { cu!(cuModuleUnload(module.0)) };
            if let Err(error) = unloaded {
                tracing::debug!(%error, "could not unload a module");
            }
        }
    }
}

/// Free bytes of the current context's device.
fn free_bytes() -> u64 {
    let (mut free, mut total) = (0, 0);
    // SAFETY: both places are valid; without a context the call fails.
    let asked = unsafe { cu!(cuMemGetInfo_v2(&mut free, &mut total)) };
    asked.map_or(0, |()| free as u64)
}

/// A C log as one line of text.
fn one_line(log: &[u8]) -> String {
    let text = log.split(|&byte| byte == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn logs_become_one_line() {
        assert_eq!(
            super::one_line(b"ptxas\n  line 3;\terror\0rest"),
            "ptxas line 3; error"
        );
        assert_eq!(super::one_line(b"no end"), "no end");
        assert_eq!(super::one_line(b"\0"), "");
    }
}
