//! [`Buffer`]: typed memory on a device.

mod pinned;
#[cfg(test)]
mod tests;
mod view;

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;

use bytemuck::Pod;

pub use pinned::PinnedBuffer;
pub use view::{BufferView, BufferViewMut};

use crate::device::Device;
use crate::error::{Error, Result};
use crate::memory::{Memory, bytes_of};
use crate::stream::Stream;

/// Elements of `T` in the memory of a device.
///
/// Allocated and freed in the order of the stream that it was made on, which is also the one that
/// copies go through. Work that you queue on another stream must be ordered after it
/// ([`Stream::wait_stream`]), and have ended before the buffer is dropped; maps see to that
/// themselves. Copies to and from the host are finished when they return, unless their name ends
/// in `_async`; they begin when what was queued on the stream has ended, and large ones go through streams of the library's own.
///
/// ```
/// use gpumap::{Buffer, Device, Stream};
///
/// let stream = Stream::new(&Device::cpu())?;
/// let mut buffer = Buffer::from_slice(&stream, &[1u32, 2, 3, 4])?;
/// buffer.slice_mut(1..3)?.copy_from_slice(&[20, 30])?;
/// assert_eq!(buffer.to_vec()?, [1, 20, 30, 4]);
/// # Ok::<(), gpumap::Error>(())
/// ```
pub struct Buffer<T> {
    memory: Memory,
    len: usize,
    _elements: PhantomData<T>,
}

impl<T> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe::<T>(f, "Buffer", self.len, self.memory.stream().device())
    }
}

/// What `Debug` shows of elements on a device: never the elements, which are not the host's to read.
fn describe<T>(f: &mut fmt::Formatter<'_>, name: &str, len: usize, on: &Device) -> fmt::Result {
    f.debug_struct(name)
        .field(
            "elements",
            &format_args!("{len} x {}", std::any::type_name::<T>()),
        )
        .field("bytes", &(len * size_of::<T>()))
        .field("device", on)
        .finish()
}

impl<T: Pod> Buffer<T> {
    /// `len` elements that have not been written. [`zeroed`](Self::zeroed) is the safe form, which takes one more pass
    /// over the memory on a GPU.
    ///
    /// ```
    /// use gpumap::{Buffer, Device, Stream};
    ///
    /// let stream = Stream::new(&Device::cpu())?;
    /// // SAFETY: all of it is written in the next line.
    /// let mut buffer = unsafe { Buffer::<u32>::uninit(&stream, 3) }?;
    /// buffer.copy_from_slice(&[1, 2, 3])?;
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::CapacityOverflow`] or [`Error::Driver`].
    ///
    /// # Safety
    /// Every element is written, on the device or by a copy, before anything reads it. Until then the memory has what
    /// was there before: on a GPU keys and values of maps that were dropped, or data of another library in
    /// this process.
    pub unsafe fn uninit(stream: &Stream, len: usize) -> Result<Self> {
        Self::unwritten(stream, len)
    }

    /// The same within the crate, which keeps that promise for its own memory: docs/reliability.md lists the
    /// places that rest on it, and compute-sanitizer's initcheck looks at them.
    pub(crate) fn unwritten(stream: &Stream, len: usize) -> Result<Self> {
        Ok(Self {
            memory: Memory::new(stream, bytes_of::<T>(len)?)?,
            len,
            _elements: PhantomData,
        })
    }

    /// A larger one with the first `used` elements, when it can be used from other streams: for `wished`, or if that is too
    /// few or there is no memory for it, for `least`. The caller has this one alone.
    pub(crate) fn grown(&self, used: usize, least: usize, wished: usize) -> Result<Self> {
        if wished > least
            && let done @ (Ok(_) | Err(Error::Driver { .. })) = self.moved(used, wished)
        {
            return done;
        }
        self.moved(used, least)
    }

    /// One of such a length with the first `used` elements, when it can be used from other streams.
    pub(crate) fn moved(&self, used: usize, len: usize) -> Result<Self> {
        let stream = self.stream();
        let mut moved = Self::unwritten(stream, len)?;
        let (to, from) = (moved.as_mut_ptr().cast(), self.as_ptr().cast());
        // SAFETY: so many are in use, and fit.
        unsafe { stream.copy(to, from, used * size_of::<T>()) }?;
        stream.finish()?;
        Ok(moved)
    }

    /// `len` elements of zero bytes.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::CapacityOverflow`] or [`Error::Driver`].
    pub fn zeroed(stream: &Stream, len: usize) -> Result<Self> {
        let mut buffer = Self::unwritten(stream, len)?;
        // Memory that is the host's is zeroed as it is.
        if stream.device().has_own_memory() {
            buffer.fill_bytes(0)?;
        }
        Ok(buffer)
    }

    /// A copy of a host slice.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] or [`Error::Driver`].
    pub fn from_slice(stream: &Stream, source: &[T]) -> Result<Self> {
        let mut buffer = Self::unwritten(stream, source.len())?;
        buffer.copy_from_slice(source)?;
        Ok(buffer)
    }

    /// Uses memory of another owner, which is not freed on drop. `ptr` is a device address: a
    /// host pointer on the CPU.
    ///
    /// # Errors
    /// [`Error::CapacityOverflow`].
    ///
    /// # Safety
    /// `ptr` is aligned for `T` and leads to `len` initialised elements in memory of the stream's
    /// device that stay valid until the buffer is dropped, and that nothing else writes to, or
    /// reads while the buffer is written to, except in the order of the stream; and not even so while a copy from or to the host has
    /// not returned.
    pub unsafe fn from_raw_parts(stream: &Stream, ptr: *mut T, len: usize) -> Result<Self> {
        let bytes = bytes_of::<T>(len)?;
        Ok(Self {
            // SAFETY: the contract of this function.
            memory: unsafe { Memory::borrowed(stream, ptr.cast(), bytes) },
            len,
            _elements: PhantomData,
        })
    }

    /// Gives the memory away: it is no longer freed on drop, nor counted by the device. On CUDA
    /// it can be freed with `cuMemFreeAsync` or `cuMemFree`; on the CPU it stays for good.
    pub fn into_raw_parts(self) -> (*mut T, usize) {
        let parts = (self.memory.ptr().cast(), self.len);
        self.memory.leak();
        parts
    }

    /// How many elements it has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The device that its memory is on.
    pub fn device(&self) -> &Device {
        self.memory.stream().device()
    }

    /// The stream that it is ordered by.
    pub fn stream(&self) -> &Stream {
        self.memory.stream()
    }

    /// Where it is on the device: to be passed to kernels, and read by the host only on the CPU.
    pub fn as_ptr(&self) -> *const T {
        self.memory.ptr().cast()
    }

    /// Where it is on the device, for kernels that write to it.
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.memory.ptr().cast()
    }

    /// All of it.
    pub fn as_view(&self) -> BufferView<'_, T> {
        // SAFETY: the memory has `len` elements and lives as long as the borrow.
        unsafe { BufferView::new(self.memory.stream(), self.as_ptr(), self.len) }
    }

    /// All of it, to write to.
    pub fn as_view_mut(&mut self) -> BufferViewMut<'_, T> {
        let ptr = self.as_mut_ptr();
        // SAFETY: the memory has `len` elements and is borrowed for as long as the view.
        unsafe { BufferViewMut::new(self.memory.stream(), ptr, self.len) }
    }

    /// A part of it.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<BufferView<'_, T>> {
        self.as_view().slice(range)
    }

    /// A part of it, to write to.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Result<BufferViewMut<'_, T>> {
        self.as_view_mut().slice(range)
    }

    /// A copy on the host.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] of the host, or [`Error::Driver`].
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.as_view().to_vec()
    }

    /// Copies all of it to a host slice of the same length.
    ///
    /// # Errors
    /// [`Error::CopyLength`] for another length, or [`Error::Driver`].
    pub fn copy_to_slice(&self, target: &mut [T]) -> Result<()> {
        self.as_view().copy_to_slice(target)
    }

    /// Copies a host slice of the same length over all of it.
    ///
    /// # Errors
    /// [`Error::CopyLength`] for another length, or [`Error::Driver`].
    pub fn copy_from_slice(&mut self, source: &[T]) -> Result<()> {
        self.as_view_mut().copy_from_slice(source)
    }

    /// Copies `source`, of the same device, to the elements from `at` on.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::WrongDevice`] or [`Error::Driver`].
    pub fn copy_range(&mut self, at: usize, source: &BufferView<'_, T>) -> Result<()> {
        let end = at.checked_add(source.len()).ok_or(Error::OutOfRange {
            start: at,
            end: usize::MAX,
            len: self.len,
        })?;
        self.slice_mut(at..end)?.copy_from(source)
    }

    /// Sets every byte, in the order of the stream.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn fill_bytes(&mut self, value: u8) -> Result<()> {
        self.as_view_mut().fill_bytes(value)
    }
}
