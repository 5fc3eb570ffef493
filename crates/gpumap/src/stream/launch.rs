//! Launching kernels on a stream, the same way on both back ends.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use gpumap_simt::executor::Executor;
use gpumap_simt::kernel::{Grid, Kernel, KernelArgs, Launcher};

use super::Stream;
use super::graph::{CpuLaunch, Replay};
use crate::cuda::{Context, Current, Function, cu};
use crate::device::{Call, Kind};
use crate::error::{Error, Result};

/// The limits of every CUDA device that matters here, and of the executor.
const MAX_THREADS: u32 = 1024;
const MAX_BLOCKS: u32 = i32::MAX as u32;

thread_local! {
    static STARTED: Cell<u64> = const { Cell::new(0) };
}

/// How many launches of this thread have started, on any stream: what they write may be written. One
/// that the device refused, or that had no memory, has not.
pub(crate) fn launches_started() -> u64 {
    STARTED.get()
}

/// Counts a launch, unless its outcome says that it has not started.
pub(super) fn note_launch<T>(outcome: Result<T>) -> Result<T> {
    // On the CPU a kernel that broke a rule has run until then.
    if matches!(outcome, Ok(_) | Err(Error::Kernel(_))) {
        note_started();
    }
    outcome
}

/// Counts a launch.
pub(super) fn note_started() {
    STARTED.set(STARTED.get() + 1);
}

impl Launcher for Stream {
    type Error = Error;

    /// Queues a launch. A grid without blocks launches nothing. On the [checked executor](crate::Device::checked) the
    /// kernel has ended when this returns, and a rule that it broke is [`Error::Kernel`]; elsewhere errors of a kernel are
    /// returned by a later wait.
    unsafe fn launch<A: KernelArgs>(
        &self,
        kernel: &'static Kernel<A>,
        grid: Grid,
        args: A,
    ) -> Result<()> {
        if grid.blocks == 0 {
            return Ok(());
        }
        self.device().admit(Call::Launch)?;
        match self.device().kind() {
            Kind::Cpu(cpu) => {
                cpu.expect(kernel)?;
                expect_grid(kernel.name(), grid)?;
                let launch = CpuLaunch { kernel, grid, args };
                // SAFETY: the caller vouches for the pointers in `args`.
                let run = move |executor: &Executor| unsafe { launch.run(executor) };
                note_launch(self.run_on_host(None, run))
            }
            Kind::Cuda(context) => {
                let current = context.enter()?;
                let function = prepare(context, &current, kernel, grid)?;
                let mut args = args;
                let mut params: [*mut c_void; 1] = [(&raw mut args).cast()];
                // SAFETY: the function takes one parameter, the struct `A` by value, which the
                // type of `kernel` says and the driver copies before it returns; the stream and
                // the function are of the current context; the caller vouches for the pointers.
                note_launch(self.queue(|stream| unsafe {
                    cu!(cuLaunchKernel(
                        function.handle,
                        grid.blocks,
                        1,
                        1,
                        grid.threads,
                        1,
                        1,
                        grid.shared_bytes,
                        stream,
                        params.as_mut_ptr(),
                        ptr::null_mut(),
                    ))
                }))
            }
        }
    }
}

/// Whether the executor can run such a grid.
pub(super) fn expect_grid(kernel: &'static str, grid: Grid) -> Result<()> {
    if (1..=MAX_THREADS).contains(&grid.threads) && grid.blocks <= MAX_BLOCKS {
        return Ok(());
    }
    Err(bad_shape(kernel, grid, [MAX_BLOCKS, MAX_THREADS, u32::MAX]))
}

/// Finds a kernel on a device, and sees to it that it can be launched with such a grid.
pub(super) fn prepare<A: KernelArgs>(
    context: &Context,
    current: &Current<'_>,
    kernel: &'static Kernel<A>,
    grid: Grid,
) -> Result<Arc<Function>> {
    let function = context.function(current, kernel)?;
    if grid.threads == 0
        || grid.threads > function.max_threads
        || grid.blocks > context.max_blocks
        || grid.shared_bytes > context.max_shared_bytes
    {
        let limits = [
            context.max_blocks,
            function.max_threads,
            context.max_shared_bytes,
        ];
        return Err(bad_shape(kernel.name(), grid, limits));
    }
    function.allow_shared(current, grid.shared_bytes)?;
    Ok(function)
}

fn bad_shape(kernel: &'static str, grid: Grid, limits: [u32; 3]) -> Error {
    let [max_blocks, max_threads, max_shared_bytes] = limits;
    Error::LaunchShape {
        kernel,
        blocks: grid.blocks,
        threads: grid.threads,
        shared_bytes: grid.shared_bytes,
        max_blocks,
        max_threads,
        max_shared_bytes,
    }
}
