//! Kernels that are recorded once, and then launched together again and again: on CUDA by one call of the
//! driver.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use gpumap_simt::executor::{Executor, Fault};
use gpumap_simt::kernel::{Grid, Kernel, KernelArgs, Launcher};

use super::Stream;
use super::launch::{expect_grid, note_launch, note_started, prepare};
use crate::cuda::{ExecutableGraph, KernelNodes};
use crate::device::{Call, Device, Kind};
use crate::error::{Error, Result};

/// Records launches instead of making them, one after the other.
#[derive(Debug)]
pub(crate) struct Recorder {
    device: Device,
    taken: Taken,
}

#[derive(Debug)]
enum Taken {
    Cpu(RefCell<Vec<Box<dyn Replay>>>),
    Cuda(KernelNodes),
}

/// Where kernels are launched: on a stream, or when what is recorded is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LaunchOn<'a> {
    Stream(&'a Stream),
    Recorder(&'a Recorder),
}

/// Launches that were recorded.
#[derive(Debug)]
pub(crate) struct Recorded(Ready);

#[derive(Debug)]
enum Ready {
    Cpu(Arc<[Box<dyn Replay>]>),
    Cuda(ExecutableGraph),
}

/// A launch on the CPU.
pub(super) trait Replay: fmt::Debug + Send + Sync {
    /// # Safety
    /// The pointers in its arguments are valid for as long as the call lasts.
    unsafe fn run(&self, executor: &Executor) -> Result<(), Fault>;
}

pub(super) struct CpuLaunch<A: KernelArgs> {
    pub kernel: &'static Kernel<A>,
    pub grid: Grid,
    pub args: A,
}

// SAFETY: kernel arguments are plain words; the code that launches vouches for what their pointers lead
// to.
unsafe impl<A: KernelArgs> Send for CpuLaunch<A> {}
// SAFETY: as above.
unsafe impl<A: KernelArgs> Sync for CpuLaunch<A> {}

impl<A: KernelArgs> Replay for CpuLaunch<A> {
    unsafe fn run(&self, executor: &Executor) -> Result<(), Fault> {
        // SAFETY: passed on.
        unsafe { self.kernel.run(executor, self.grid, self.args) }
    }
}

impl<A: KernelArgs> fmt::Debug for CpuLaunch<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kernel.name())
    }
}

/// Something that the CPU does between launches.
struct CpuWork<F>(F);

impl<F: Fn() + Send + Sync> Replay for CpuWork<F> {
    unsafe fn run(&self, _: &Executor) -> Result<(), Fault> {
        (self.0)();
        Ok(())
    }
}

impl<F> fmt::Debug for CpuWork<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("work of the CPU")
    }
}

impl LaunchOn<'_> {
    /// See [`Stream::then_on_cpu`].
    pub(crate) fn then_on_cpu(self, work: impl Fn() + Send + Sync + 'static) -> Result<()> {
        match self {
            Self::Stream(stream) => stream.then_on_cpu(work),
            Self::Recorder(recorder) => {
                if let Taken::Cpu(launches) = &recorder.taken {
                    launches.borrow_mut().push(Box::new(CpuWork(work)));
                }
                Ok(())
            }
        }
    }
}

impl Launcher for LaunchOn<'_> {
    type Error = Error;

    unsafe fn launch<A: KernelArgs>(
        &self,
        kernel: &'static Kernel<A>,
        grid: Grid,
        args: A,
    ) -> Result<()> {
        // SAFETY: passed on.
        unsafe {
            match *self {
                Self::Stream(stream) => kernel.launch(stream, grid, args),
                Self::Recorder(recorder) => kernel.launch(recorder, grid, args),
            }
        }
    }
}

impl Recorder {
    pub(crate) fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            device: device.clone(),
            taken: match device.kind() {
                Kind::Cpu(_) => Taken::Cpu(RefCell::default()),
                Kind::Cuda(context) => Taken::Cuda(KernelNodes::new(context)?),
            },
        })
    }

    /// Makes what was recorded ready to be launched.
    pub(crate) fn finish(self) -> Result<Recorded> {
        self.device.admit(Call::MakeGraph)?;
        Ok(Recorded(match self.taken {
            Taken::Cpu(launches) => Ready::Cpu(launches.into_inner().into()),
            Taken::Cuda(nodes) => Ready::Cuda(nodes.instantiate()?),
        }))
    }
}

impl Launcher for Recorder {
    type Error = Error;

    /// Takes a launch down. The pointers in `args` are to be valid when it is made.
    unsafe fn launch<A: KernelArgs>(
        &self,
        kernel: &'static Kernel<A>,
        grid: Grid,
        args: A,
    ) -> Result<()> {
        if grid.blocks == 0 {
            return Ok(());
        }
        match &self.taken {
            Taken::Cpu(launches) => {
                if let Kind::Cpu(cpu) = self.device.kind() {
                    cpu.expect(kernel)?;
                }
                expect_grid(kernel.name(), grid)?;
                launches
                    .borrow_mut()
                    .push(Box::new(CpuLaunch { kernel, grid, args }));
                Ok(())
            }
            Taken::Cuda(nodes) => {
                let context = nodes.context();
                let current = context.enter()?;
                let function = prepare(context, &current, kernel, grid)?;
                let mut args = args;
                // SAFETY: the function takes one parameter, the struct `A` by value, which the type of
                // `kernel` says, and allows the grid, as was checked just now.
                unsafe { nodes.add(&current, &function, grid, (&raw mut args).cast()) }
            }
        }
    }
}

impl Stream {
    /// Queues everything that was recorded on this device, by one call of the driver.
    ///
    /// # Safety
    /// The pointers in the arguments of all its kernels are valid on this device until those have ended.
    pub(crate) unsafe fn launch_recorded(&self, recorded: &Recorded) -> Result<()> {
        self.device().admit(Call::LaunchGraph)?;
        match (&recorded.0, self.device().kind()) {
            (Ready::Cpu(launches), Kind::Cpu(_)) => {
                let launches = Arc::clone(launches);
                note_launch(self.run_on_host(None, move |executor| {
                    for (i, launch) in launches.iter().enumerate() {
                        // SAFETY: the caller's promise.
                        unsafe { launch.run(executor) }.inspect_err(|_| {
                            if i > 0 {
                                // The ones before have run, whatever this one says.
                                note_started();
                            }
                        })?;
                    }
                    Ok(())
                }))
            }
            (Ready::Cuda(graph), Kind::Cuda(_)) => {
                // SAFETY: the stream is alive; the rest is the caller's promise.
                note_launch(self.queue(|stream| unsafe { graph.launch(stream) }))
            }
            (Ready::Cpu(_), Kind::Cuda(_)) | (Ready::Cuda(_), Kind::Cpu(_)) => {
                Err(Error::WrongDevice {
                    expected: self.device().to_string(),
                    found: "a graph of another device".to_owned(),
                })
            }
        }
    }
}
