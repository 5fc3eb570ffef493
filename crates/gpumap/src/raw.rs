//! Handles of the CUDA driver, for programs that also use `cudarc`, `cust` or the C API.
//!
//! Ours go out through [`Device::as_raw_context`](crate::Device::as_raw_context),
//! [`Stream::as_raw`](crate::Stream::as_raw), [`Event::as_raw`](crate::Event::as_raw) and
//! [`Buffer::as_ptr`](crate::Buffer::as_ptr); others' come in through
//! [`Device::from_raw_context`](crate::Device::from_raw_context),
//! [`Stream::from_raw`](crate::Stream::from_raw) and
//! [`Buffer::from_raw_parts`](crate::Buffer::from_raw_parts). The types are `cudarc`'s. Those of
//! another binding are the same C pointers under another name:
//!
//! ```no_run
//! use gpumap::{Buffer, Device, Stream};
//! # let (their_context, their_stream) = (std::ptr::null_mut::<u8>(), std::ptr::null_mut::<u8>());
//! # let (their_pointer, len) = (0u64, 0usize);
//!
//! // From `cust`: `context.get_inner()`, `stream.as_inner()`, `buffer.as_device_ptr().as_raw()`.
//! // SAFETY: the context, the stream and the memory outlive what is made from them here.
//! let (stream, keys) = unsafe {
//!     let device = Device::from_raw_context(their_context.cast())?;
//!     let stream = Stream::from_raw(&device, their_stream.cast())?;
//!     let keys = Buffer::<u64>::from_raw_parts(&stream, their_pointer as *mut u64, len)?;
//!     (stream, keys)
//! };
//! # Ok::<(), gpumap::Error>(())
//! ```
//!
//! [`Device::cuda`](crate::Device::cuda) uses the device's primary context, as the CUDA runtime
//! and `cudarc` do, so with those memory can be shared without `from_raw_context`. Every call
//! into this crate leaves the thread's current context as it was.
//!
//! Memory of a [`Buffer`](crate::Buffer) comes from the device's default pool
//! (`cuMemAllocAsync`): other streams may use it once they are ordered after the buffer's own,
//! and other devices once the pool's access says so (`cuMemPoolSetAccess`).

pub use cudarc::driver::sys::{CUcontext, CUdeviceptr, CUevent, CUstream};
