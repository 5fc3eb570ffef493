//! Untyped device memory: what buffers and scratch are made of.
//!
//! It is allocated and freed in the order of one stream. On the CPU it is page-aligned host memory. All of it is counted against the device's budget.

mod host;
mod large_pages;
#[cfg(test)]
mod tests;

use std::mem::MaybeUninit;
use std::ptr;

use bytemuck::Pod;
use cudarc::driver::sys::{CUdeviceptr, CUresult};

use crate::cuda::{Context, cu};
use crate::device::{Call, Charge, Kind};
use crate::error::{Error, Result};
use crate::stream::Stream;
pub use host::allocation_may_fail;
pub(crate) use host::{
    HOST_ALIGN, HostBlock, block as host_block, fallible, host_collect, host_memory, host_push,
    host_vec, host_zeroed, refused as host_is_full, retain_at,
};
pub(crate) use large_pages::LARGE_PAGE;

/// The bytes of `len` elements of `T`.
pub(crate) fn bytes_of<T>(len: usize) -> Result<usize> {
    bytes_of_each(size_of::<T>(), len)
}

/// The bytes of `len` elements of so many bytes.
pub(crate) fn bytes_of_each(element_bytes: usize, len: usize) -> Result<usize> {
    element_bytes
        .checked_mul(len)
        // The most that one Rust object can have, and pointer offsets stay in range.
        .filter(|&bytes| bytes <= isize::MAX as usize - HOST_ALIGN)
        .ok_or(Error::CapacityOverflow {
            elements: len,
            element_bytes,
        })
}

/// The bytes of some elements, which may have none.
pub(crate) fn bytes_of_slice<T: Pod>(elements: &[T]) -> &[u8] {
    if size_of::<T>() == 0 {
        return &[];
    }
    bytemuck::cast_slice(elements)
}

/// The bytes of some places.
pub(crate) fn bytes_of_places<T>(places: &mut [MaybeUninit<T>]) -> &mut [MaybeUninit<u8>] {
    let (start, bytes) = (places.as_mut_ptr().cast(), size_of_val(places));
    // SAFETY: the same places, which may be written to byte by byte.
    unsafe { &mut *ptr::slice_from_raw_parts_mut(start, bytes) }
}

/// A piece of device memory with the stream it is ordered by.
///
/// Invariant: `ptr` leads to `bytes` bytes that are valid on the stream's device until the drop,
/// or `bytes` is zero.
#[derive(Debug)]
pub(crate) struct Memory {
    ptr: *mut u8,
    bytes: usize,
    stream: Stream,
    owned: Option<Owned>,
}

/// How to free it, and its share of the budget.
#[derive(Debug)]
struct Owned {
    block: Block,
    charge: Charge,
}

#[derive(Debug)]
enum Block {
    Host(HostBlock),
    Cuda(CUdeviceptr),
}

// SAFETY: memory is not tied to a thread; writes to it are ordered by streams and by
// `&mut` in the types above.
unsafe impl Send for Memory {}
// SAFETY: as above; `&Memory` gives only the address away.
unsafe impl Sync for Memory {}

impl Memory {
    /// `bytes` bytes of unspecified, but not uninitialised, contents.
    pub(crate) fn new(stream: &Stream, bytes: usize) -> Result<Self> {
        let mut memory = Self {
            ptr: ptr::without_provenance_mut(HOST_ALIGN),
            bytes,
            stream: stream.clone(),
            owned: None,
        };
        if bytes == 0 {
            return Ok(memory);
        }
        let charge = stream.device().charge(bytes as u64)?;
        stream.device().admit(Call::Allocate {
            bytes: bytes as u64,
        })?;
        let (ptr, block) = match stream.device().kind() {
            Kind::Cpu(_) => {
                let block = host_block(bytes)?;
                stream.allocated(&block);
                (block.ptr, Block::Host(block))
            }
            Kind::Cuda(context) => {
                let ptr = cuda_block(context, stream, bytes)?;
                let address = usize::try_from(ptr).unwrap_or(0);
                (ptr::without_provenance_mut(address), Block::Cuda(ptr))
            }
        };
        memory.ptr = ptr;
        memory.owned = Some(Owned { block, charge });
        Ok(memory)
    }

    /// Memory that another owner frees.
    ///
    /// # Safety
    /// `ptr` leads to `bytes` bytes, valid on the stream's device for as long as the value.
    pub(crate) unsafe fn borrowed(stream: &Stream, ptr: *mut u8, bytes: usize) -> Self {
        Self {
            ptr,
            bytes,
            stream: stream.clone(),
            owned: None,
        }
    }

    /// Where it is, on its device.
    pub(crate) fn ptr(&self) -> *mut u8 {
        self.ptr
    }

    /// How many bytes it has.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The stream that it is freed in the order of.
    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Gives up ownership: the memory is never freed by this crate. Its bytes no longer count.
    pub(crate) fn leak(mut self) {
        if let Some(Owned { block, charge }) = self.owned.take() {
            drop(charge);
            std::mem::forget(block);
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let Some(Owned { block, charge: _ }) = self.owned.take() else {
            return;
        };
        match (block, self.stream.device().kind()) {
            (Block::Host(block), _) => self.stream.free(block),
            (Block::Cuda(_), Kind::Cuda(context)) if context.is_abandoned() => {}
            (Block::Cuda(ptr), Kind::Cuda(context)) => {
                if let Err(error) = cuda_free(context, &self.stream, ptr) {
                    tracing::debug!(%error, "could not free device memory");
                }
            }
            (Block::Cuda(_), Kind::Cpu(_)) => {}
        }
    }
}

/// Device memory in the order of a stream.
fn cuda_block(context: &Context, stream: &Stream, bytes: usize) -> Result<CUdeviceptr> {
    let refused = || Error::OutOfMemory {
        needed: bytes as u64,
        available: context.memory().map_or(0, |(free, _)| free),
    };
    // The driver has other errors for what no device could ever hold.
    if bytes > context.total_memory {
        return Err(refused());
    }
    match cuda_allocate(context, stream, bytes) {
        Err(error) if is_out_of_memory(&error) => {
            // What the pool keeps for other sizes may be what is missing.
            context.trim()?;
            cuda_allocate(context, stream, bytes).map_err(|error| {
                if is_out_of_memory(&error) {
                    refused()
                } else {
                    error
                }
            })
        }
        other => other,
    }
}

fn cuda_allocate(context: &Context, stream: &Stream, bytes: usize) -> Result<CUdeviceptr> {
    let _current = context.enter()?;
    let mut ptr: CUdeviceptr = 0;
    if context.has_pool() {
        // SAFETY: the stream is of the current context; the place is valid; bytes is not zero.
        stream.queue(|stream| unsafe { cu!(cuMemAllocAsync(&mut ptr, bytes, stream)) })?;
    } else {
        // SAFETY: a context is current, the place is valid, bytes is not zero.
        unsafe { cu!(cuMemAlloc_v2(&mut ptr, bytes)) }?;
    }
    Ok(ptr)
}

fn cuda_free(context: &Context, stream: &Stream, ptr: CUdeviceptr) -> Result<()> {
    let _current = context.enter()?;
    if context.has_pool() {
        // SAFETY: `ptr` was allocated on this stream, which the memory keeps alive, and is freed
        // only here; work queued on the stream before still has it.
        stream.queue(|stream| unsafe { cu!(cuMemFreeAsync(ptr, stream)) })
    } else {
        // Waits for the whole device, so nothing can be using it.
        // SAFETY: `ptr` was allocated in this context and is freed only here.
        unsafe { cu!(cuMemFree_v2(ptr)) }
    }
}

/// What the driver says when the host has no memory to lock, as the library's own error.
pub(crate) fn or_host_is_full(error: Error, bytes: usize) -> Error {
    match is_out_of_memory(&error) {
        true => host::refused(bytes),
        false => error,
    }
}

fn is_out_of_memory(error: &Error) -> bool {
    matches!(error, Error::Driver { code, .. } if code.0 == CUresult::CUDA_ERROR_OUT_OF_MEMORY)
}
