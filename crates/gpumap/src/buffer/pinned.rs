//! Host memory that a GPU reads and writes by itself.

use std::ffi::c_void;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use bytemuck::Pod;

use crate::cuda::cu;
use crate::device::{Call, Device, Kind};
use crate::error::{Error, Result};
use crate::memory::{HostBlock, bytes_of, host_block, host_zeroed, or_host_is_full};

/// Host memory that is locked in place for a CUDA device, so that copies to and from it run at
/// the full speed of the link and beside the host. Plain memory on the CPU. A slice in all else. In a process that is forked later its
/// elements must not be read or written: what is locked for a GPU need not be there.
///
/// ```
/// use gpumap::{Device, PinnedBuffer};
///
/// let mut pinned = PinnedBuffer::<u32>::zeroed(&Device::cpu(), 3)?;
/// pinned[1] = 7;
/// assert_eq!(&pinned[..], [0, 7, 0]);
/// # Ok::<(), gpumap::Error>(())
/// ```
pub struct PinnedBuffer<T> {
    storage: Storage<T>,
    device: Device,
}

enum Storage<T> {
    Plain(Vec<T>),
    /// Invariant: `len` initialised elements, owned by this value: of the block, or else from
    /// `cuMemHostAlloc`.
    Locked {
        ptr: NonNull<T>,
        len: usize,
        block: Option<HostBlock>,
    },
}

// SAFETY: it owns its elements as a vector does; any thread may free locked memory.
unsafe impl<T: Send> Send for PinnedBuffer<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for PinnedBuffer<T> {}

/// What all page-locked memory is aligned to. The driver promises no page: of 12 KiB that it gave, an H100 had
/// some that began elsewhere (2026-11-25).
const MOST_ALIGN: usize = 256;

impl<T: Pod> PinnedBuffer<T> {
    /// `len` elements of zero bytes.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] of the host, [`Error::CapacityOverflow`] or [`Error::Driver`];
    /// [`Error::Alignment`] for elements that are aligned to more than 256 bytes.
    pub fn zeroed(device: &Device, len: usize) -> Result<Self> {
        let (align, most) = (align_of::<T>(), MOST_ALIGN);
        if align > most {
            return Err(Error::Alignment { align, most });
        }
        let bytes = bytes_of::<T>(len)?;
        device.admit(Call::AllocatePinned {
            bytes: bytes as u64,
        })?;
        let storage = match device.kind() {
            Kind::Cuda(context) if bytes > 0 => {
                let mut ptr: *mut c_void = std::ptr::null_mut();
                let _current = context.enter()?;
                // No flags: write-combined memory would be slow to read.
                // SAFETY: a context is current, the place is valid, bytes is not zero.
                unsafe { cu!(cuMemHostAlloc(&mut ptr, bytes, 0)) }
                    .map_err(|error| or_host_is_full(error, bytes))?;
                let ptr = NonNull::new(ptr.cast::<T>()).ok_or(Error::OutOfMemory {
                    needed: bytes as u64,
                    available: 0,
                })?;
                // SAFETY: as many bytes were allocated just now, aligned to `MOST_ALIGN`.
                unsafe { ptr.cast::<u8>().write_bytes(0, bytes) };
                let block = None;
                Storage::Locked { ptr, len, block }
            }
            Kind::Cpu(cpu) if bytes > 0 && device.has_own_memory() => {
                let block = host_block(bytes)?;
                cpu.scheduler().inspect(|scheduler| scheduler.lock(&block));
                let ptr = NonNull::new(block.ptr.cast()).unwrap_or(NonNull::dangling());
                let block = Some(block);
                Storage::Locked { ptr, len, block }
            }
            _ => Storage::Plain(host_zeroed(len)?),
        };
        Ok(Self {
            storage,
            device: device.clone(),
        })
    }
}

impl<T> Deref for PinnedBuffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.storage {
            Storage::Plain(vec) => vec,
            // SAFETY: the invariant of `Locked`; shared for as long as `self` is.
            Storage::Locked { ptr, len, .. } => unsafe {
                std::slice::from_raw_parts(ptr.as_ptr(), *len)
            },
        }
    }
}

impl<T> DerefMut for PinnedBuffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.storage {
            Storage::Plain(vec) => vec,
            // SAFETY: the invariant of `Locked`; exclusive for as long as `self` is.
            Storage::Locked { ptr, len, .. } => unsafe {
                std::slice::from_raw_parts_mut(ptr.as_ptr(), *len)
            },
        }
    }
}

impl<T> Drop for PinnedBuffer<T> {
    fn drop(&mut self) {
        let Storage::Locked { ptr, block, .. } = &mut self.storage else {
            return;
        };
        let context = match self.device.kind() {
            Kind::Cuda(context) => context,
            Kind::Cpu(cpu) => {
                if let (Some(scheduler), Some(block)) = (cpu.scheduler(), block.take()) {
                    scheduler.free_locked(block);
                }
                return;
            }
        };
        let freed = context.enter().and_then(|_current| {
            // SAFETY: from `cuMemHostAlloc`, and freed only here; queued copies have ended by
            // the contract of the code that queues them.
            unsafe { cu!(cuMemFreeHost(ptr.as_ptr().cast())) }
        });
        if let Err(error) = freed {
            tracing::debug!(%error, "could not free pinned memory");
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for PinnedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
