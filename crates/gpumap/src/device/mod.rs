//! [`Device`]: where maps live and kernels run.

mod budget;
mod choice;
#[cfg_attr(not(feature = "unstable-testing"), allow(dead_code))]
pub(crate) mod faults;
mod info;
mod registered;
#[cfg(test)]
mod tests;

use std::any::type_name;
use std::fmt;
use std::iter;
use std::sync::{Arc, LazyLock, Weak};

use gpumap_simt::executor::{self, Executor};
use gpumap_simt::kernel::{Kernel, KernelArgs};
use parking_lot::Mutex;

pub use choice::{DeviceChoice, PtxChoice};
pub(crate) use faults::Call;
use faults::Faults;
pub use info::{Backend, ComputeCapability, DeviceInfo, DriverVersion};

pub(crate) use budget::Charge;
pub(crate) use choice::{ordinal, threads, variable};

use crate::cuda::{Context, PtxText, Symbol, expect_own, until_answered};
use crate::error::{Error, Result};
use crate::raw::CUcontext;
use crate::scratch::{Chunking, StagePool};
use crate::stream::Scheduler;
use budget::Budget;
use registered::Registered;

/// A CUDA device, or the CPU.
///
/// Cheap to clone; every [`Stream`](crate::Stream), [`Buffer`](crate::Buffer) and map keeps what
/// it needs, so a `Device` may be dropped at any time. Devices are equal when memory of one can
/// be used with the other.
///
/// ```
/// use gpumap::Device;
///
/// let device = Device::cpu();
/// assert!(!device.is_cuda());
/// println!("running on {device}");
/// ```
#[derive(Clone)]
pub struct Device {
    inner: Arc<Inner>,
}

struct Inner {
    kind: Kind,
    budget: Budget,
    /// Which calls are to fail; none outside of tests.
    faults: Option<Faults>,
    /// Bytes of shared memory that a block may have; what the device has outside of tests.
    shared_memory: u32,
    /// What takes large arrays of the host to the device and back, as long as something uses it.
    stages: Mutex<Weak<StagePool>>,
}

#[derive(Clone)]
pub(crate) enum Kind {
    Cpu(Arc<Cpu>),
    Cuda(Arc<Context>),
}

/// The most threads of a CPU device: a number that is larger by mistake must not take all that the system has.
const MAX_CPU_THREADS: u32 = 1024;

/// The CPU: with an executor of its own, or the process-wide checked one.
pub(crate) struct Cpu {
    own: Option<Arc<Executor>>,
    /// What runs the work of streams later: on a native device, or in tests of order.
    scheduler: Option<Scheduler>,
    /// What the PTX of the caller's kernels says.
    registered: Registered,
    /// What every call on it returns instead: the environment asked for what cannot be.
    refusal: Option<Error>,
}

impl Cpu {
    fn native(threads: u32) -> Self {
        let config = executor::Config {
            workers: threads.clamp(1, MAX_CPU_THREADS) as usize,
            native: true,
            ..executor::Config::default()
        };
        let executor = Arc::new(Executor::new(config));
        Self {
            own: Some(Arc::clone(&executor)),
            scheduler: Some(Scheduler::with_threads(executor)),
            registered: Registered::default(),
            refusal: None,
        }
    }

    /// With as many threads as the environment says.
    fn of_env() -> Self {
        let of = |threads| Self::native(threads);
        match choice::threads() {
            Ok(threads) => of(threads.map_or_else(info::host_threads, choice::bounded)),
            Err(error) => Self {
                refusal: Some(error),
                ..of(1)
            },
        }
    }

    /// How many blocks run side by side at least: the threads of a native device, or those that the CPU runs.
    fn threads(&self) -> u32 {
        match &self.own {
            Some(executor) if self.is_native() => {
                u32::try_from(executor.config().workers).unwrap_or(u32::MAX)
            }
            _ => info::host_threads(),
        }
    }

    fn is_native(&self) -> bool {
        let own = self.own.as_ref();
        own.is_some_and(|executor| executor.config().native)
    }

    /// What runs the work of streams later.
    pub(crate) fn scheduler(&self) -> Option<&Scheduler> {
        self.scheduler.as_ref()
    }

    /// An error unless a GPU would find this kernel, if PTX was registered.
    pub(crate) fn expect<A: KernelArgs>(&self, kernel: &'static Kernel<A>) -> Result<()> {
        // Kernels with arguments of that crate are the library's own, which have its PTX. Rust promises no form of these names; a
        // test sees that such kernels run.
        match type_name::<A>().starts_with("gpumap_kernels::") {
            true => Ok(()),
            false => self.registered.expect(kernel.into()),
        }
    }

    pub(crate) fn executor(&self) -> &Executor {
        let own = self.own.as_deref();
        own.unwrap_or_else(|| Executor::global())
    }
}

impl Device {
    /// The first CUDA device that works, or else the CPU: then a [`tracing`] event of level `WARN` says why no CUDA
    /// device can be used. A program that is of no use without a GPU calls [`best_gpu`](Self::best_gpu).
    ///
    /// | `GPUMAP_DEVICE` | `best` | [`best_gpu`](Self::best_gpu) |
    /// |---|---|---|
    /// | not set, empty, `auto` | the first CUDA device that works, or else the CPU | the first CUDA device that works |
    /// | `cuda` | the first CUDA device that works | the same |
    /// | `cuda:N` | that CUDA device | the same |
    /// | `cpu` | [the CPU](Self::cpu), without a warning | [`Error::CpuChosen`] |
    /// | `checked` | [the checked executor](Self::checked) | [`Error::CpuChosen`] |
    /// | anything else | [`Error::DeviceChoice`] | the same |
    ///
    /// `GPUMAP_PTX` chooses the kernels, see [`PtxChoice`], and `GPUMAP_THREADS` the threads of [the CPU](Self::cpu).
    /// [`choose`](Self::choose) takes options of your own instead.
    ///
    /// # Errors
    /// [`Error::DeviceChoice`], [`Error::Ptx`] and [`Error::Variable`] for variables that cannot be understood or followed, also where the
    /// CPU is taken; those of [`cuda`](Self::cuda) where `GPUMAP_DEVICE` requests CUDA. A missing driver or device is
    /// no error otherwise.
    pub fn best() -> Result<Self> {
        let choice = DeviceChoice::from_env()?;
        let (device, no_cuda) = Self::choose(choice, &PtxChoice::from_env()?)?;
        if let Some(reason) = no_cuda {
            tracing::warn!(
                %reason,
                "no CUDA device can be used: taking the CPU, for which GPUMAP_DEVICE=cpu or Device::cpu() asks without a warning"
            );
        }
        tracing::info!(%device, ?choice, "device chosen");
        Ok(device)
    }

    /// The first CUDA device that works, or the one that `GPUMAP_DEVICE` names, and never the CPU: see
    /// [`best`](Self::best).
    ///
    /// ```
    /// use gpumap::{Device, Error};
    ///
    /// match Device::best_gpu() {
    ///     Ok(device) => assert!(device.is_cuda()),
    ///     Err(Error::NoDriver | Error::NoDevice { .. }) => println!("there is no GPU here"),
    ///     Err(error) => println!("there is one, and it does not work: {error}"),
    /// }
    /// ```
    ///
    /// # Errors
    /// What the driver says: [`Error::NoDriver`], [`Error::NoDevice`], and the other errors of
    /// [`cuda`](Self::cuda), of several devices that of the first. [`Error::CpuChosen`] where `GPUMAP_DEVICE` is `cpu`;
    /// [`Error::DeviceChoice`], [`Error::Ptx`] and [`Error::Variable`] for variables that cannot be understood or followed.
    pub fn best_gpu() -> Result<Self> {
        let choice = match DeviceChoice::from_env()? {
            DeviceChoice::Cpu | DeviceChoice::Checked => return Err(Error::CpuChosen),
            DeviceChoice::Auto => DeviceChoice::AnyCuda,
            named => named,
        };
        let (device, _) = Self::choose(choice, &PtxChoice::from_env()?)?;
        tracing::info!(%device, ?choice, "device chosen");
        Ok(device)
    }

    /// The device of this choice with these kernels, whatever the environment says beside `GPUMAP_THREADS`; and, where
    /// [`DeviceChoice::Auto`] selected the CPU, why no CUDA device can be used.
    ///
    /// ```
    /// use gpumap::{Device, DeviceChoice, PtxChoice};
    ///
    /// let (device, no_cuda) = Device::choose(DeviceChoice::Auto, &PtxChoice::Auto)?;
    /// match no_cuda {
    ///     None => assert!(device.is_cuda()),
    ///     Some(reason) => println!("running on {device}: {reason}"),
    /// }
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Ptx`] for a file that is no PTX, also where the CPU is taken; [`Error::Variable`] for a wrong `GPUMAP_THREADS`,
    /// also where a GPU is taken; those of [`cuda_with`](Self::cuda_with)
    /// where the choice is a CUDA device, or where kernels that were requested by name do not work on the CUDA devices
    /// that there are: others are not taken in their place. A missing driver or device is no error otherwise.
    pub fn choose(choice: DeviceChoice, ptx: &PtxChoice) -> Result<(Self, Option<Error>)> {
        ptx.check()?;
        choice::threads()?;
        let device = match choice {
            DeviceChoice::Cpu => Self::cpu(),
            DeviceChoice::Checked => Self::checked(),
            DeviceChoice::Cuda(ordinal) => Self::cuda_with(ordinal, ptx)?,
            DeviceChoice::AnyCuda => Self::first_cuda(ptx)?,
            DeviceChoice::Auto => match Self::first_cuda(ptx) {
                Ok(device) => device,
                Err(reason) if may_be_passed_over(&reason, ptx) => {
                    return Ok((Self::cpu(), Some(reason)));
                }
                Err(error) => return Err(error),
            },
        };
        Ok((device, None))
    }

    /// The CPU. Needs nothing and always works, unless `GPUMAP_THREADS` is wrong.
    ///
    /// The kernels of maps run as plain code, on as many threads as the environment variable `GPUMAP_THREADS` says, or as
    /// the CPU runs at once; 1024 at most. If the variable is no such number, every call on the device is
    /// [`Error::Variable`]. A batch that takes less time than to wake a thread stays on the thread that calls, and the
    /// first other thread is started by the first batch that takes longer. Kernels that cannot do without lanes, such as
    /// most of your own, run as on the [checked executor](Self::checked), which takes about a hundred times as long. So
    /// does everything on a processor without atomics of 128 bits.
    pub fn cpu() -> Self {
        static CPU: LazyLock<Arc<Cpu>> = LazyLock::new(|| Arc::new(Cpu::of_env()));
        Self::of(Kind::Cpu(Arc::clone(&CPU)))
    }

    /// As [`cpu`](Self::cpu), as a device of its own with so many threads, that of the caller included. 0 counts as 1, and more than
    /// 1024 as 1024.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    ///
    /// let device = Device::cpu_with_threads(1); // none is ever started
    /// let map: Map<u64, u64> = Map::with_capacity(&device, 1_000)?;
    /// assert_eq!(map.insert(&[1, 2], &[10, 20])?, 2);
    /// assert_eq!(device.multiprocessors(), 1);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    #[must_use]
    pub fn cpu_with_threads(threads: u32) -> Self {
        Self::of(Kind::Cpu(Arc::new(Cpu::native(threads))))
    }

    /// The CPU with the executor that checks kernels: each lane is a coroutine, and a collective or barrier that not all
    /// lanes reach is [`Error::Kernel`]. For tests of kernels; about a million keys per second. The library's own kernels of maps run natively
    /// here as well, unless it is built with the feature `checked-maps`.
    ///
    /// ```
    /// use gpumap::Device;
    ///
    /// assert_ne!(Device::checked(), Device::cpu());
    /// ```
    #[must_use]
    pub fn checked() -> Self {
        static CPU: LazyLock<Arc<Cpu>> = LazyLock::new(|| {
            Arc::new(Cpu {
                own: None,
                scheduler: None,
                registered: Registered::default(),
                refusal: None,
            })
        });
        Self::of(Kind::Cpu(Arc::clone(&CPU)))
    }

    /// As [`checked`](Self::checked), with an executor of its own, for tests that choose a schedule.
    ///
    /// ```
    /// use gpumap::{Device, executor::{Config, Schedule}};
    ///
    /// let schedule = Schedule::Random { seed: 7 };
    /// let device = Device::cpu_with(Config { schedule, ..Config::default() });
    /// assert_ne!(device, Device::checked());
    /// ```
    pub fn cpu_with(config: executor::Config) -> Self {
        let own = Some(Arc::new(Executor::new(config)));
        Self::of(Kind::Cpu(Arc::new(Cpu {
            own,
            scheduler: None,
            registered: Registered::default(),
            refusal: None,
        })))
    }

    /// As [`checked`](Self::checked), as a device of its own, whose streams run later, in an order drawn from a seed: a test mode in which a
    /// missing ordering is a wrong answer, and a missing wait too. Memory of the host is copied to it and back, as to a
    /// GPU. What its streams promise is what CUDA promises.
    #[cfg(feature = "unstable-testing")]
    #[doc(hidden)]
    #[must_use]
    pub fn cpu_deferred(seed: u64) -> Self {
        let scheduler = Some(Scheduler::drawn(seed));
        Self::of(Kind::Cpu(Arc::new(Cpu {
            own: None,
            scheduler,
            registered: Registered::default(),
            refusal: None,
        })))
    }

    /// Whether it is the CPU, and runs kernels natively where it can.
    pub(crate) fn is_native(&self) -> bool {
        match self.kind() {
            Kind::Cpu(cpu) => cpu.is_native(),
            Kind::Cuda(_) => false,
        }
    }

    /// What a call may run kernels of one block by, on its own thread and on memory of the host: the native CPU, where no test
    /// refuses calls or draws their order.
    pub(crate) fn runs_at_once(&self) -> Option<&Executor> {
        let Kind::Cpu(cpu) = self.kind() else {
            return None;
        };
        let is_plain = self.inner.faults.is_none() && self.drawn().is_none();
        // A callback of a stream must not call the device.
        let may_run = cpu.refusal.is_none() && !Scheduler::is_in_callback();
        (cpu.is_native() && is_plain && may_run).then(|| cpu.executor())
    }

    /// An error if the device stayed with the process that this one was forked from: neither it nor memory of the host that is locked
    /// for it may be used here.
    pub(crate) fn expect_own(&self) -> Result<()> {
        match self.kind() {
            Kind::Cpu(_) => Ok(()),
            Kind::Cuda(_) => expect_own(),
        }
    }

    /// What runs the work of streams later, on the CPU.
    pub(crate) fn scheduler(&self) -> Option<&Scheduler> {
        match self.kind() {
            Kind::Cpu(cpu) => cpu.scheduler(),
            Kind::Cuda(_) => None,
        }
    }

    /// The same, of tests that draw the order.
    fn drawn(&self) -> Option<&Scheduler> {
        let scheduler = self.scheduler();
        scheduler.filter(|scheduler| scheduler.seed().is_some())
    }

    /// Whether arrays of the host have to be copied to be used there, and new memory holds anything.
    pub(crate) fn has_own_memory(&self) -> bool {
        self.is_cuda() || self.drawn().is_some()
    }

    /// Bytes that the cache of the device holds which random accesses are to hit: the L2, of a core on the CPU.
    pub(crate) fn cache_bytes(&self) -> u64 {
        match self.kind() {
            Kind::Cuda(context) => context.l2_bytes,
            Kind::Cpu(_) => 1 << 20,
        }
    }

    /// What runs kernels on the CPU; nothing on CUDA. For tests that run several callers in one
    /// interleaving.
    #[cfg(feature = "unstable-testing")]
    #[doc(hidden)]
    pub fn executor(&self) -> Option<&Executor> {
        match self.kind() {
            Kind::Cpu(cpu) => Some(cpu.executor()),
            Kind::Cuda(_) => None,
        }
    }

    /// The CUDA device of this number, with the kernels that `GPUMAP_PTX` chooses.
    ///
    /// # Errors
    /// [`Error::NoDriver`], [`Error::DriverTooOld`], [`Error::NoDevice`],
    /// [`Error::UnsupportedDevice`], [`Error::Ptx`], or [`Error::Driver`] where the device does
    /// not work.
    pub fn cuda(ordinal: usize) -> Result<Self> {
        let ptx = PtxChoice::from_env()?;
        let device = Self::cuda_with(ordinal, &ptx)?;
        tracing::info!(%device, "device chosen");
        Ok(device)
    }

    /// The CUDA device of this number with these kernels, whatever `GPUMAP_PTX` says.
    ///
    /// # Errors
    /// As [`cuda`](Self::cuda).
    pub fn cuda_with(ordinal: usize, ptx: &PtxChoice) -> Result<Self> {
        Ok(Self::of(Kind::Cuda(Context::open(ordinal, ptx)?)))
    }

    /// How many CUDA devices there are; none without a driver.
    pub fn cuda_count() -> usize {
        crate::cuda::device_count().unwrap_or(0)
    }

    /// Works in a context that another library made, with the kernels that `GPUMAP_PTX` chooses.
    /// Nothing is retained: the context is not destroyed when the last handle goes.
    ///
    /// # Errors
    /// As [`cuda`](Self::cuda).
    ///
    /// # Safety
    /// `context` is a live context, and stays so until this device and everything made from it
    /// (streams, events, buffers, maps) has been dropped.
    pub unsafe fn from_raw_context(context: CUcontext) -> Result<Self> {
        let ptx = PtxChoice::from_env()?;
        // SAFETY: the contract of this function.
        let context = unsafe { Context::borrow(context, &ptx) }?;
        Ok(Self::of(Kind::Cuda(context)))
    }

    /// The context all work goes to, or none on the CPU. It stays alive as long as this device
    /// or anything made from it.
    pub fn as_raw_context(&self) -> Option<CUcontext> {
        match &self.inner.kind {
            Kind::Cpu(_) => None,
            Kind::Cuda(context) => Some(context.handle()),
        }
    }

    /// The same device with a limit on what may be allocated through the handle that this
    /// returns, counted from nothing. For tests of [`Error::OutOfMemory`], and for programs that
    /// share a device.
    ///
    /// ```
    /// use gpumap::{Buffer, Device, Error, Stream};
    ///
    /// let device = Device::cpu().with_memory_budget(1024);
    /// let stream = Stream::new(&device)?;
    /// let error = Buffer::<u64>::zeroed(&stream, 1000).unwrap_err();
    /// assert!(matches!(error, Error::OutOfMemory { needed: 8000, available: 1024 }));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn with_memory_budget(&self, bytes: u64) -> Self {
        self.with(|inner| inner.budget = Budget::new(bytes))
    }

    /// The same device, with so many bytes of shared memory for a block at most: for tests of what
    /// becomes of kernels that want more. More than a CUDA device has is what it has; the CPU executor
    /// gives as much as is requested. Memory is counted from nothing, without a limit.
    #[cfg(feature = "unstable-testing")]
    #[doc(hidden)]
    #[must_use]
    pub fn with_shared_memory(&self, bytes: u32) -> Self {
        let most = match self.kind() {
            Kind::Cpu(_) => u32::MAX,
            Kind::Cuda(context) => context.max_shared_bytes,
        };
        self.with(|inner| inner.shared_memory = bytes.min(most))
    }

    /// Bytes of shared memory that a block may have.
    pub(crate) fn shared_memory(&self) -> u32 {
        self.inner.shared_memory
    }

    /// Bytes allocated through this handle and its clones, now: buffers and the scratch and
    /// tables of maps, without what the driver rounds up.
    pub fn allocated_bytes(&self) -> u64 {
        self.inner.budget.used()
    }

    /// The most that [`allocated_bytes`](Self::allocated_bytes) has ever been.
    pub fn peak_allocated_bytes(&self) -> u64 {
        self.inner.budget.peak()
    }

    /// Bytes that could be allocated through this handle at this moment, if no one else takes
    /// them.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn available_bytes(&self) -> Result<u64> {
        self.admit(Call::AskMemory)?;
        let there = match &self.inner.kind {
            Kind::Cpu(_) => {
                crate::memory::host_memory().map_or(u64::MAX, |memory| memory.available)
            }
            Kind::Cuda(context) => context.available()?,
        };
        Ok(there.min(self.inner.budget.left()))
    }

    /// Whether this is a CUDA device.
    pub fn is_cuda(&self) -> bool {
        matches!(self.inner.kind, Kind::Cuda(_))
    }

    /// The number of a CUDA device, as [`cuda`](Self::cuda) takes it; none on the CPU.
    pub fn ordinal(&self) -> Option<usize> {
        match &self.inner.kind {
            Kind::Cpu(_) => None,
            Kind::Cuda(context) => Some(context.ordinal),
        }
    }

    /// The driver's name of the device; `CPU`; or `CPU executor`, where kernels are [checked](Self::checked).
    pub fn name(&self) -> &str {
        match &self.inner.kind {
            Kind::Cpu(cpu) if cpu.is_native() => "CPU",
            Kind::Cpu(_) => "CPU executor",
            Kind::Cuda(context) => &context.name,
        }
    }

    /// How many blocks run side by side at least: multiprocessors, or the CPU's threads.
    pub fn multiprocessors(&self) -> u32 {
        match &self.inner.kind {
            Kind::Cpu(cpu) => cpu.threads(),
            Kind::Cuda(context) => context.multiprocessors,
        }
    }

    /// Its properties; memory figures are of this moment.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn info(&self) -> Result<DeviceInfo> {
        match &self.inner.kind {
            Kind::Cpu(cpu) => Ok(DeviceInfo::of_host(
                self.name(),
                cpu.is_native(),
                cpu.threads(),
            )),
            Kind::Cuda(context) => DeviceInfo::of_context(context),
        }
    }

    /// Waits until everything on the device, of all streams, has ended.
    ///
    /// # Errors
    /// [`Error::Driver`], also for a kernel that went wrong earlier.
    pub fn synchronize(&self) -> Result<()> {
        let wait = || match &self.inner.kind {
            Kind::Cuda(context) => context.synchronize(),
            Kind::Cpu(cpu) => cpu.scheduler().map_or(Ok(()), Scheduler::wait_for_all),
        };
        until_answered(|| self.wait(Call::WaitForDevice, wait))
    }

    /// Adds kernels of your own, as PTX: from now on a launch on this device finds them by name,
    /// after the crate's own. The PTX is text, or text compressed by Brotli, which takes a tenth of the room in a program.
    ///
    /// The text says how the arguments of each kernel are laid out, and a launch compares that with the
    /// layout in this program: PTX that was built from another version of the source is refused
    /// ([`PtxError::Layout`](crate::PtxError)).
    ///
    /// On the CPU kernels are Rust functions, and need no PTX. But from the first text on a launch is refused there as on a GPU,
    /// if the text has other arguments for the kernel or if no text has it: so tests on the CPU find PTX that is
    /// older than the source.
    ///
    /// # Errors
    /// [`Error::Ptx`] for a text that is not PTX, that does not say how the arguments of a kernel are laid
    /// out, or that the driver rejects.
    pub fn register_ptx(&self, ptx: impl AsRef<[u8]>) -> Result<()> {
        self.register(PtxText::from_bytes(ptx)?, [])
    }

    /// Adds a text; on the CPU also others of the same source, which GPUs of another kind would load.
    pub(crate) fn register(
        &self,
        text: PtxText,
        others: impl IntoIterator<Item = PtxText>,
    ) -> Result<()> {
        match &self.inner.kind {
            Kind::Cpu(cpu) => {
                cpu.registered.add(iter::once(text).chain(others));
                Ok(())
            }
            Kind::Cuda(context) => context.add_module(text),
        }
    }

    /// Loads kernels that the library comes with, which are else compiled when they are first launched:
    /// for operations that must not stop between two launches.
    pub(crate) fn load_kernels(
        &self,
        kernels: impl IntoIterator<Item = impl Into<Symbol>>,
    ) -> Result<()> {
        let Kind::Cuda(context) = &self.inner.kind else {
            return Ok(());
        };
        let current = context.enter()?;
        let mut kernels = kernels.into_iter();
        kernels.try_for_each(|kernel| context.function(&current, kernel).map(drop))
    }

    /// Whether some bytes of the host, at least one, are locked in place for this device, so that it copies
    /// from and to them by itself.
    pub(crate) fn has_locked(&self, start: *const u8, bytes: usize) -> bool {
        let has_locked = |address| match &self.inner.kind {
            Kind::Cuda(context) => context.has_locked(address),
            Kind::Cpu(_) => {
                let drawn = self.drawn();
                drawn.is_some_and(|scheduler| scheduler.has_locked(address))
            }
        };
        // What lies between two ends is locked if they are, unless it was locked in parts: then it takes longer.
        has_locked(start) && has_locked(start.wrapping_add(bytes.saturating_sub(1)))
    }

    /// Whether the device reaches an array of the host by itself. It does if there is nothing of it.
    pub(crate) fn reaches<T>(&self, array: &[T]) -> bool {
        let bytes = size_of_val(array);
        bytes == 0 || self.has_locked(array.as_ptr().cast(), bytes)
    }

    /// What takes large arrays of the host to the device and back: one for all that uses the device by handles of one origin, and
    /// there as long as one of them keeps it.
    pub(crate) fn stages(&self) -> Arc<StagePool> {
        let mut known = self.inner.stages.lock();
        known.upgrade().unwrap_or_else(|| {
            let stages = StagePool::new(self, Chunking::of(self));
            *known = Arc::downgrade(&stages);
            stages
        })
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.inner.kind
    }

    /// Counts an allocation against the budget until the charge is dropped.
    pub(crate) fn charge(&self, bytes: u64) -> Result<Charge> {
        self.inner.budget.charge(bytes)?;
        Ok(Charge::new(self.clone(), bytes))
    }

    pub(crate) fn refund(&self, bytes: u64) {
        self.inner.budget.refund(bytes);
    }

    /// An error unless memory of `other` can be used here.
    pub(crate) fn expect_same(&self, other: &Self) -> Result<()> {
        if self == other {
            return Ok(());
        }
        Err(Error::WrongDevice {
            expected: self.to_string(),
            found: other.to_string(),
        })
    }

    fn first_cuda(ptx: &PtxChoice) -> Result<Self> {
        let count = crate::cuda::device_count()?;
        let mut first_error = None;
        for ordinal in 0..count {
            match Self::cuda_with(ordinal, ptx) {
                Ok(device) => return Ok(device),
                Err(error) => {
                    tracing::warn!(ordinal, %error, "CUDA device does not work");
                    first_error.get_or_insert(error);
                }
            }
        }
        Err(first_error.unwrap_or(Error::NoDevice { ordinal: 0, count }))
    }

    fn of(kind: Kind) -> Self {
        let shared_memory = match &kind {
            // Native blocks have none, but plans are made with it: as much as a large GPU has.
            Kind::Cpu(cpu) if cpu.is_native() => 227 << 10,
            // As little as every GPU has: the same cases come up with less data.
            Kind::Cpu(_) => 48 << 10,
            Kind::Cuda(context) => context.max_shared_bytes,
        };
        Self {
            inner: Arc::new(Inner {
                kind,
                budget: Budget::new(u64::MAX),
                faults: None,
                shared_memory,
                stages: Mutex::default(),
            }),
        }
    }

    /// Another handle of the same device, whose memory is counted from nothing, with a change.
    fn with(&self, change: impl FnOnce(&mut Inner)) -> Self {
        let Inner {
            kind,
            budget: _,
            faults,
            shared_memory,
            stages: _,
        } = &*self.inner;
        let mut inner = Inner {
            kind: kind.clone(),
            budget: Budget::new(u64::MAX),
            faults: faults.clone(),
            shared_memory: *shared_memory,
            stages: Mutex::default(),
        };
        change(&mut inner);
        Self {
            inner: Arc::new(inner),
        }
    }
}

/// Whether the CPU stands in for CUDA devices that cannot be used for this reason: where there are none at all; and
/// where they do not work, unless the kernels were requested by name.
fn may_be_passed_over(reason: &Error, ptx: &PtxChoice) -> bool {
    let is_absent = matches!(reason, Error::NoDriver | Error::NoDevice { .. });
    is_absent || *ptx == PtxChoice::Auto
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        match (&self.inner.kind, &other.inner.kind) {
            (Kind::Cpu(a), Kind::Cpu(b)) => Arc::ptr_eq(a, b),
            (Kind::Cuda(a), Kind::Cuda(b)) => a.handle() == b.handle(),
            _ => false,
        }
    }
}

impl Eq for Device {}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.inner.kind {
            Kind::Cpu(_) => match self.drawn().and_then(Scheduler::seed) {
                None => f.write_str(self.name()),
                Some(seed) => write!(f, "{}, deferred streams, seed {seed}", self.name()),
            },
            Kind::Cuda(context) => write!(
                f,
                "{} (cuda:{}, compute capability {}, kernels {})",
                context.name, context.ordinal, context.capability, context.ptx
            ),
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({self})")
    }
}
