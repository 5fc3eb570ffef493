//! What buffers and scratch queue on a stream: filling and copying bytes.

use std::ptr;

use cudarc::driver::sys::{CUDA_MEMCPY2D, CUdeviceptr, CUmemorytype};

use super::host::{Address, HostBytes, host_bytes};
use super::{Queue, Stream};
use crate::cuda::cu;
use crate::device::{Call, Device, Kind};
use crate::error::Result;

impl Stream {
    /// Queues setting bytes.
    ///
    /// # Safety
    /// `dst` leads to `bytes` bytes of this device that nothing else uses at that point of the
    /// queue, and that live until then.
    pub(crate) unsafe fn fill(&self, dst: *mut u8, value: u8, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return self.expect_not_captured();
        }
        self.device().admit(Call::Fill)?;
        match (&self.inner.queue, self.device().kind()) {
            (Queue::Cuda { .. }, Kind::Cuda(context)) => {
                let _current = context.enter()?;
                let dst = device_ptr(dst);
                // SAFETY: the caller's contract.
                self.queue(|stream| unsafe { cu!(cuMemsetD8Async(dst, value, bytes, stream)) })
            }
            _ => {
                let dst = Address::of(dst);
                self.run_on_host(None, move |_| {
                    // SAFETY: on the CPU device memory is host memory; the caller's contract.
                    unsafe { dst.get().write_bytes(value, bytes) };
                    Ok(())
                })
            }
        }
    }

    /// Queues a copy from the host to the device.
    ///
    /// # Safety
    /// As [`fill`](Self::fill); `src` leads to `bytes` bytes of host memory that nothing writes
    /// to or frees until the queue has passed this point.
    pub(crate) unsafe fn upload(&self, dst: *mut u8, src: *const u8, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return self.expect_not_captured();
        }
        self.device().admit(Call::Upload)?;
        match (&self.inner.queue, self.device().kind()) {
            (Queue::Cuda { .. }, Kind::Cuda(context)) => {
                let _current = context.enter()?;
                let (dst, src) = (device_ptr(dst), src.cast());
                // SAFETY: the caller's contract.
                self.queue(|stream| unsafe { cu!(cuMemcpyHtoDAsync_v2(dst, src, bytes, stream)) })
            }
            // SAFETY: passed on.
            _ => unsafe { self.copy_host(dst, src, bytes, Some(host_bytes(src, bytes))) },
        }
    }

    /// Queues a copy from the device to the host.
    ///
    /// # Safety
    /// `src` leads to `bytes` bytes of this device that nothing writes to at that point of the
    /// queue; `dst` leads to as many of the host that nothing else uses until the queue has
    /// passed this point.
    pub(crate) unsafe fn download(&self, dst: *mut u8, src: *const u8, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return self.expect_not_captured();
        }
        self.device().admit(Call::Download)?;
        match (&self.inner.queue, self.device().kind()) {
            (Queue::Cuda { .. }, Kind::Cuda(context)) => {
                let _current = context.enter()?;
                let (dst, src) = (dst.cast(), device_ptr(src));
                // SAFETY: the caller's contract.
                self.queue(|stream| unsafe { cu!(cuMemcpyDtoHAsync_v2(dst, src, bytes, stream)) })
            }
            // SAFETY: passed on.
            _ => unsafe { self.copy_host(dst, src, bytes, Some(host_bytes(dst, bytes))) },
        }
    }

    /// Queues a copy on the device.
    ///
    /// # Safety
    /// As [`fill`](Self::fill) for `dst` and as [`download`](Self::download) for `src`; the two
    /// do not overlap.
    pub(crate) unsafe fn copy(&self, dst: *mut u8, src: *const u8, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return self.expect_not_captured();
        }
        self.device().admit(Call::Copy)?;
        match (&self.inner.queue, self.device().kind()) {
            (Queue::Cuda { .. }, Kind::Cuda(context)) => {
                let _current = context.enter()?;
                let (dst, src) = (device_ptr(dst), device_ptr(src));
                // SAFETY: the caller's contract.
                self.queue(|stream| unsafe { cu!(cuMemcpyDtoDAsync_v2(dst, src, bytes, stream)) })
            }
            // SAFETY: passed on.
            _ => unsafe { self.copy_host(dst, src, bytes, None) },
        }
    }

    /// Queues a copy from the memory of another device, or of this one. Where the two have no access to each
    /// other's memory, the driver takes it through that of the host.
    ///
    /// # Safety
    /// As [`copy`](Self::copy); `src` leads to memory of `source`, which is of the same kind as this device.
    pub(crate) unsafe fn copy_from(
        &self,
        dst: *mut u8,
        source: &Device,
        src: *const u8,
        bytes: usize,
    ) -> Result<()> {
        let (Kind::Cuda(here), Kind::Cuda(there), 1..) =
            (self.device().kind(), source.kind(), bytes)
        else {
            // SAFETY: passed on.
            return unsafe { self.copy(dst, src, bytes) };
        };
        if here.handle() == there.handle() {
            // SAFETY: passed on.
            return unsafe { self.copy(dst, src, bytes) };
        }
        self.device().admit(Call::Copy)?;
        let (dst, src) = (device_ptr(dst), device_ptr(src));
        let (to, from) = (here.handle(), there.handle());
        let _current = here.enter()?;
        // SAFETY: both contexts are alive; the caller's contract.
        self.queue(|stream| unsafe { cu!(cuMemcpyPeerAsync(dst, to, src, from, bytes, stream)) })
    }

    /// Queues a copy of rows of `bytes` bytes, which begin every `pitch` bytes: also from the memory of another
    /// device, if this one has it mapped.
    ///
    /// # Safety
    /// As [`copy`](Self::copy), for each of the rows.
    pub(crate) unsafe fn copy_rows(
        &self,
        dst: *mut u8,
        src: *const u8,
        bytes: usize,
        pitch: usize,
        rows: usize,
    ) -> Result<()> {
        /// The most bytes from one row to the next in one call of the driver.
        const MOST_PITCH: usize = i32::MAX as usize;
        if bytes == 0 || rows == 0 {
            return Ok(());
        }
        let (Queue::Cuda { .. }, Kind::Cuda(context), ..=MOST_PITCH) =
            (&self.inner.queue, self.device().kind(), pitch)
        else {
            for row in (0..rows).map(|row| row * pitch) {
                // SAFETY: passed on.
                unsafe { self.copy(dst.wrapping_add(row), src.wrapping_add(row), bytes) }?;
            }
            return Ok(());
        };
        self.device().admit(Call::Copy)?;
        let unified = CUmemorytype::CU_MEMORYTYPE_UNIFIED;
        let copy = CUDA_MEMCPY2D {
            srcXInBytes: 0,
            srcY: 0,
            srcMemoryType: unified,
            srcHost: ptr::null(),
            srcDevice: device_ptr(src),
            srcArray: ptr::null_mut(),
            srcPitch: pitch,
            dstXInBytes: 0,
            dstY: 0,
            dstMemoryType: unified,
            dstHost: ptr::null_mut(),
            dstDevice: device_ptr(dst),
            dstArray: ptr::null_mut(),
            dstPitch: pitch,
            WidthInBytes: bytes,
            Height: rows,
        };
        let _current = context.enter()?;
        // SAFETY: the caller's contract; the description is read by the call.
        self.queue(|stream| unsafe { cu!(cuMemcpy2DAsync_v2(&copy, stream)) })
    }

    /// # Safety
    /// Both lead to `bytes` bytes of host memory; nothing else uses `dst` or writes to `src` at that point of the
    /// queue. `host` is the one that is not memory of the device.
    unsafe fn copy_host(
        &self,
        dst: *mut u8,
        src: *const u8,
        bytes: usize,
        host: Option<HostBytes>,
    ) -> Result<()> {
        let (dst, src) = (Address::of(dst), Address::of(src));
        self.run_on_host(host, move |_| {
            // Not the non-overlapping one: two raw buffers may be the same memory.
            // SAFETY: the caller's contract.
            unsafe { ptr::copy(src.get(), dst.get(), bytes) };
            Ok(())
        })
    }
}

/// A pointer to device memory as the driver writes it.
fn device_ptr<T>(ptr: *const T) -> CUdeviceptr {
    ptr.addr() as CUdeviceptr
}
