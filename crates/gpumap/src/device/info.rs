//! Properties of a device.

use std::fmt;
use std::num::NonZero;
use std::sync::LazyLock;

use super::PtxChoice;
use crate::cuda::Context;
use crate::error::Result;

/// Which back end a device is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// The CPU: kernels run as plain code where they can do without lanes.
    Cpu,
    /// The executor that runs kernels lane by lane on the CPU, and checks them.
    Checked,
    /// An NVIDIA GPU, through the CUDA driver.
    Cuda,
}

/// What an NVIDIA GPU's hardware can do, such as 9.0 for Hopper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComputeCapability {
    /// The generation.
    pub major: u32,
    /// The variant.
    pub minor: u32,
}

impl ComputeCapability {
    /// The oldest that the kernels are built for.
    pub(crate) const OLDEST: Self = Self { major: 7, minor: 0 };
}

impl fmt::Display for ComputeCapability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The newest version of CUDA that a driver supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DriverVersion {
    /// Major version.
    pub major: u32,
    /// Minor version.
    pub minor: u32,
}

impl fmt::Display for DriverVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A device's name, size and shape, as [`Device::info`](crate::Device::info) found them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// What [`Device::name`](crate::Device::name) says.
    pub name: String,
    /// Which back end it is of.
    pub backend: Backend,
    /// The number of a CUDA device.
    pub ordinal: Option<usize>,
    /// What the hardware of a CUDA device can do.
    pub compute_capability: Option<ComputeCapability>,
    /// What the CUDA driver supports.
    pub driver_version: Option<DriverVersion>,
    /// Bytes of memory, where known.
    pub total_memory: Option<u64>,
    /// Bytes of free memory, where known.
    pub free_memory: Option<u64>,
    /// Multiprocessors of a GPU, or threads of the CPU.
    pub multiprocessors: u32,
    /// Bytes of the second-level cache of a GPU.
    pub l2_bytes: Option<u64>,
    /// Which kernels were loaded on a CUDA device; never `Auto`.
    pub ptx: Option<PtxChoice>,
}

impl DeviceInfo {
    pub(super) fn of_host(name: &str, is_native: bool, threads: u32) -> Self {
        let memory = crate::memory::host_memory();
        Self {
            name: name.to_owned(),
            backend: match is_native {
                true => Backend::Cpu,
                false => Backend::Checked,
            },
            ordinal: None,
            compute_capability: None,
            driver_version: None,
            total_memory: memory.map(|memory| memory.total),
            free_memory: memory.map(|memory| memory.available),
            multiprocessors: threads,
            l2_bytes: None,
            ptx: None,
        }
    }

    pub(super) fn of_context(context: &Context) -> Result<Self> {
        let (free, total) = context.memory()?;
        Ok(Self {
            name: context.name.clone(),
            backend: Backend::Cuda,
            ordinal: Some(context.ordinal),
            compute_capability: Some(context.capability),
            driver_version: Some(context.driver_version()?),
            total_memory: Some(total),
            free_memory: Some(free),
            multiprocessors: context.multiprocessors,
            l2_bytes: Some(context.l2_bytes),
            ptx: Some(context.ptx.clone()),
        })
    }
}

/// Threads that the CPU runs at once. Queried once: for this the system reads several files, which
/// takes longer than a small batch.
pub(super) fn host_threads() -> u32 {
    static THREADS: LazyLock<u32> = LazyLock::new(|| {
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        u32::try_from(threads).unwrap_or(u32::MAX)
    });
    *THREADS
}
