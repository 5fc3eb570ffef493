//! Kernels as nodes of a graph of the driver's, one after the other.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{
    self, CUDA_KERNEL_NODE_PARAMS_v1, CUgraph, CUgraphExec, CUgraphNode, CUresult, CUstream,
};
use gpumap_simt::kernel::Grid;

use super::context::{Context, Current};
use super::driver::{check, cu};
use super::module::Function;
use crate::error::{Error, Result};

/// Nodes that are being put one after the other.
#[derive(Debug)]
pub(crate) struct KernelNodes {
    context: Arc<Context>,
    graph: CUgraph,
    /// Null before the first.
    last: Cell<CUgraphNode>,
}

/// Nodes that can be launched, by one call of the driver each time.
#[derive(Debug)]
pub(crate) struct ExecutableGraph {
    context: Arc<Context>,
    handle: CUgraphExec,
}

// SAFETY: a handle that the driver lets any thread use; `&self` only launches it, which the driver puts
// in order by itself.
unsafe impl Send for ExecutableGraph {}
// SAFETY: as above.
unsafe impl Sync for ExecutableGraph {}

impl KernelNodes {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Self> {
        let mut graph: CUgraph = ptr::null_mut();
        let _current = context.enter()?;
        // SAFETY: the place is valid, flags must be 0; destroyed in `drop`.
        unsafe { cu!(cuGraphCreate(&mut graph, 0)) }?;
        Ok(Self {
            context: context.clone(),
            graph,
            last: Cell::new(ptr::null_mut()),
        })
    }

    /// Where they will be launched.
    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Adds a kernel after the last one.
    ///
    /// # Safety
    /// `args` leads to the only parameter of the function, which is copied, and the function allows the
    /// grid.
    pub(crate) unsafe fn add(
        &self,
        _: &Current<'_>,
        function: &Function,
        grid: Grid,
        args: *mut c_void,
    ) -> Result<()> {
        let mut params = [args];
        let node = CUDA_KERNEL_NODE_PARAMS_v1 {
            func: function.handle,
            gridDimX: grid.blocks,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: grid.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: grid.shared_bytes,
            kernelParams: params.as_mut_ptr(),
            extra: ptr::null_mut(),
        };
        let last = self.last.get();
        let before: &[CUgraphNode] = if last.is_null() { &[] } else { &[last] };
        let mut added: CUgraphNode = ptr::null_mut();
        // SAFETY: the graph is this value's, which one thread has; `before` is a node of it; the caller
        // vouches for the function and its parameter.
        unsafe { add_kernel_node(&mut added, self.graph, before, &node) }?;
        self.last.set(added);
        Ok(())
    }

    /// Makes them ready to be launched.
    pub(crate) fn instantiate(&self) -> Result<ExecutableGraph> {
        let mut handle: CUgraphExec = ptr::null_mut();
        let _current = self.context.enter()?;
        // SAFETY: the place is valid and the graph this value's, which one thread has; there are no
        // flags. Destroyed in `drop`.
        unsafe { cu!(cuGraphInstantiateWithFlags(&mut handle, self.graph, 0)) }?;
        Ok(ExecutableGraph {
            context: self.context.clone(),
            handle,
        })
    }
}

impl Drop for KernelNodes {
    fn drop(&mut self) {
        let destroyed = self.context.enter().and_then(|_current| {
            // What was made of it does not need it.
            // SAFETY: created by `new` and destroyed only here.
            unsafe { cu!(cuGraphDestroy(self.graph)) }
        });
        if let Err(error) = destroyed {
            tracing::debug!(%error, "could not destroy a graph");
        }
    }
}

impl ExecutableGraph {
    /// Queues all of its kernels.
    ///
    /// # Safety
    /// The stream is alive and of the same context; what the kernels were given is valid until they
    /// have ended.
    pub(crate) unsafe fn launch(&self, stream: CUstream) -> Result<()> {
        let _current = self.context.enter()?;
        // SAFETY: the graph is alive; the caller vouches for the rest.
        unsafe { cu!(cuGraphLaunch(self.handle, stream)) }
    }
}

impl Drop for ExecutableGraph {
    fn drop(&mut self) {
        let destroyed = self.context.enter().and_then(|_current| {
            // A launch of it that has not ended goes on; the driver frees the graph after that.
            // SAFETY: created by `instantiate` and destroyed only here.
            unsafe { cu!(cuGraphExecDestroy(self.handle)) }
        });
        if let Err(error) = destroyed {
            tracing::debug!(%error, "could not destroy an executable graph");
        }
    }
}

/// # Safety
/// As for `cuGraphAddKernelNode`.
unsafe fn add_kernel_node(
    added: &mut CUgraphNode,
    graph: CUgraph,
    before: &[CUgraphNode],
    node: &CUDA_KERNEL_NODE_PARAMS_v1,
) -> Result<()> {
    // The bindings have the version of one age of drivers; the first one is in all of them.
    type AddKernelNode = unsafe extern "C" fn(
        *mut CUgraphNode,
        CUgraph,
        *const CUgraphNode,
        usize,
        *const CUDA_KERNEL_NODE_PARAMS_v1,
    ) -> CUresult;
    const NAME: &str = "cuGraphAddKernelNode";
    // SAFETY: a graph exists, so the library is loaded; the type is the one in cuda.h.
    let function = unsafe { sys::culib().get::<AddKernelNode>(NAME.as_bytes()) };
    let function = function.map_err(|_| Error::DriverTooOld { missing: NAME })?;
    let no_nodes = ptr::null();
    let first = before.first().map_or(no_nodes, ptr::from_ref);
    // SAFETY: the caller's promise.
    check(NAME, unsafe {
        function(added, graph, first, before.len(), node)
    })
}
