//! Parts of buffers, borrowed.

use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::{Bound, RangeBounds};

use bytemuck::Pod;

use super::describe;
use super::{Buffer, PinnedBuffer};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::memory::host_vec;
use crate::scratch::{Arrays, Link, bytes_of_places, places_of};
use crate::stream::Stream;

/// Elements of a [`Buffer`](super::Buffer), to read.
pub struct BufferView<'a, T> {
    stream: &'a Stream,
    ptr: *const T,
    len: usize,
    _elements: PhantomData<&'a [T]>,
}

/// Elements of a [`Buffer`](super::Buffer), to read and write.
pub struct BufferViewMut<'a, T> {
    stream: &'a Stream,
    ptr: *mut T,
    len: usize,
    _elements: PhantomData<&'a mut [T]>,
}

impl<T> fmt::Debug for BufferView<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe::<T>(f, "BufferView", self.len, self.stream.device())
    }
}

impl<T> fmt::Debug for BufferViewMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe::<T>(f, "BufferViewMut", self.len, self.stream.device())
    }
}

// SAFETY: a view is a borrow of a buffer, whose memory is not tied to a thread.
unsafe impl<T: Sync> Send for BufferView<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for BufferView<'_, T> {}
// SAFETY: as above; the borrow is exclusive.
unsafe impl<T: Send> Send for BufferViewMut<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for BufferViewMut<'_, T> {}

impl<T> Clone for BufferView<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for BufferView<'_, T> {}

impl<'a, T: Pod> From<&'a Buffer<T>> for BufferView<'a, T> {
    fn from(buffer: &'a Buffer<T>) -> Self {
        buffer.as_view()
    }
}

impl<'a, T> From<&BufferView<'a, T>> for BufferView<'a, T> {
    fn from(view: &BufferView<'a, T>) -> Self {
        *view
    }
}

impl<'a, T: Pod> From<&'a BufferViewMut<'_, T>> for BufferView<'a, T> {
    fn from(view: &'a BufferViewMut<'_, T>) -> Self {
        view.as_view()
    }
}

impl<'a, T: Pod> From<&'a mut Buffer<T>> for BufferViewMut<'a, T> {
    fn from(buffer: &'a mut Buffer<T>) -> Self {
        buffer.as_view_mut()
    }
}

impl<'a, T: Pod> From<&'a mut BufferViewMut<'_, T>> for BufferViewMut<'a, T> {
    fn from(view: &'a mut BufferViewMut<'_, T>) -> Self {
        view.reborrow()
    }
}

impl<'a, T: Pod> BufferView<'a, T> {
    /// # Safety
    /// `ptr` leads to `len` elements on the stream's device, which nothing writes to during `'a`
    /// except in the order of the stream.
    pub(super) unsafe fn new(stream: &'a Stream, ptr: *const T, len: usize) -> Self {
        Self {
            stream,
            ptr,
            len,
            _elements: PhantomData,
        }
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
    pub fn device(&self) -> &'a Device {
        self.stream.device()
    }

    /// The stream that its buffer is ordered by.
    pub fn stream(&self) -> &'a Stream {
        self.stream
    }

    /// Where it starts on the device.
    pub fn as_ptr(&self) -> *const T {
        self.ptr
    }

    /// The same memory as `len` elements of another type.
    ///
    /// # Safety
    /// It has as many, is aligned to them, and any bytes are such an element.
    pub(crate) unsafe fn cast<U: Pod>(&self, len: usize) -> BufferView<'a, U> {
        BufferView {
            stream: self.stream,
            ptr: self.ptr.cast(),
            len,
            _elements: PhantomData,
        }
    }

    /// The bytes of its elements.
    pub(crate) fn as_bytes(&self) -> BufferView<'a, u8> {
        BufferView {
            stream: self.stream,
            ptr: self.ptr.cast(),
            len: size_of::<T>() * self.len,
            _elements: PhantomData,
        }
    }

    /// A part of it.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn slice(self, range: impl RangeBounds<usize>) -> Result<Self> {
        let (start, len) = part(range, self.len)?;
        Ok(Self {
            ptr: self.ptr.wrapping_add(start),
            len,
            ..self
        })
    }

    /// A copy on the host.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] of the host, or [`Error::Driver`].
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let mut vec = host_vec::<T>(self.len)?;
        self.read(Arrays::New, &mut vec.spare_capacity_mut()[..self.len])?;
        // SAFETY: the copy has ended, so `len` elements are written; `T` takes any bytes.
        unsafe { vec.set_len(self.len) };
        Ok(vec)
    }

    /// Copies all of it to a host slice of the same length.
    ///
    /// # Errors
    /// [`Error::CopyLength`] for another length, or [`Error::Driver`].
    pub fn copy_to_slice(&self, target: &mut [T]) -> Result<()> {
        same_len(target.len(), self.len)?;
        // SAFETY: only elements are written there.
        self.read(Arrays::Used, unsafe { places_of(target) })
    }

    /// Copies all of it to as many places of the host, and waits.
    fn read(&self, host: Arrays, places: &mut [MaybeUninit<T>]) -> Result<()> {
        let bytes = bytes_of_places(places);
        // SAFETY: as many bytes of a buffer.
        unsafe { Link::of(self.stream).download(host, [(bytes, self.ptr.cast())]) }
    }

    /// Queues a copy of all of it to the start of pinned host memory.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] where the target is shorter, or [`Error::Driver`].
    ///
    /// # Safety
    /// `target` is neither read, written nor dropped until the stream has passed this point.
    pub unsafe fn copy_to_pinned_async(&self, target: &mut PinnedBuffer<T>) -> Result<()> {
        part(..self.len, target.len())?;
        // SAFETY: the target has room for `len` elements; the caller keeps it until the end.
        unsafe {
            self.stream
                .download(target.as_mut_ptr().cast(), self.ptr.cast(), self.bytes())
        }
    }

    fn bytes(&self) -> usize {
        // Does not overflow: this memory exists.
        self.len * size_of::<T>()
    }
}

impl<'a, T: Pod> BufferViewMut<'a, T> {
    /// # Safety
    /// `ptr` leads to `len` elements on the stream's device, which nothing else uses during `'a`
    /// except in the order of the stream.
    pub(super) unsafe fn new(stream: &'a Stream, ptr: *mut T, len: usize) -> Self {
        Self {
            stream,
            ptr,
            len,
            _elements: PhantomData,
        }
    }

    /// The same elements, to read.
    pub fn as_view(&self) -> BufferView<'_, T> {
        // SAFETY: this borrow of `self` keeps others from writing.
        unsafe { BufferView::new(self.stream, self.ptr, self.len) }
    }

    /// The same elements, to write to for a while.
    pub fn reborrow(&mut self) -> BufferViewMut<'_, T> {
        // SAFETY: this borrow of `self` keeps others away.
        unsafe { BufferViewMut::new(self.stream, self.ptr, self.len) }
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
    pub fn device(&self) -> &'a Device {
        self.stream.device()
    }

    /// The stream that its buffer is ordered by.
    pub fn stream(&self) -> &'a Stream {
        self.stream
    }

    /// Where it starts on the device.
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.ptr
    }

    /// A part of it.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn slice(self, range: impl RangeBounds<usize>) -> Result<Self> {
        let (start, len) = part(range, self.len)?;
        Ok(Self {
            ptr: self.ptr.wrapping_add(start),
            len,
            ..self
        })
    }

    /// The bytes of its elements.
    pub(crate) fn into_bytes(self) -> BufferViewMut<'a, u8> {
        BufferViewMut {
            stream: self.stream,
            ptr: self.ptr.cast(),
            len: size_of::<T>() * self.len,
            _elements: PhantomData,
        }
    }

    /// Copies a host slice of the same length over it.
    ///
    /// # Errors
    /// [`Error::CopyLength`] for another length, or [`Error::Driver`].
    pub fn copy_from_slice(&mut self, source: &[T]) -> Result<()> {
        same_len(source.len(), self.len)?;
        let source = bytemuck::cast_slice(source);
        // SAFETY: both have `len` elements, and both are borrowed until the wait is over.
        unsafe { Link::of(self.stream).upload(self.ptr.cast(), source) }?;
        self.stream.finish()
    }

    /// Copies elements of the same device and the same length over it; finished on return, so
    /// that both may be used in any order after.
    ///
    /// # Errors
    /// [`Error::CopyLength`] for another length, [`Error::WrongDevice`] or [`Error::Driver`].
    pub fn copy_from(&mut self, source: &BufferView<'_, T>) -> Result<()> {
        same_len(source.len(), self.len)?;
        self.stream.wait_stream(source.stream())?;
        // SAFETY: both have `len` elements on one device and are borrowed until the wait is
        // over; an exclusive borrow and a shared one do not overlap.
        unsafe {
            self.stream
                .copy(self.ptr.cast(), source.as_ptr().cast(), self.bytes())
        }?;
        self.stream.finish()
    }

    /// Queues a copy of the start of pinned host memory over all of it.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] where the source is shorter, or [`Error::Driver`].
    ///
    /// # Safety
    /// `source` is neither written nor dropped until the stream has passed this point.
    pub unsafe fn copy_from_pinned_async(&mut self, source: &PinnedBuffer<T>) -> Result<()> {
        part(..self.len, source.len())?;
        // SAFETY: the source has `len` elements; the caller keeps them until the end.
        unsafe {
            self.stream
                .upload(self.ptr.cast(), source.as_ptr().cast(), self.bytes())
        }
    }

    /// Sets every byte, in the order of the stream.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn fill_bytes(&mut self, value: u8) -> Result<()> {
        // SAFETY: the memory has `len` elements, borrowed exclusively; it is freed in the order
        // of the same stream.
        unsafe { self.stream.fill(self.ptr.cast(), value, self.bytes()) }
    }

    fn bytes(&self) -> usize {
        // Does not overflow: this memory exists.
        self.len * size_of::<T>()
    }
}

/// Where a range of `len` elements starts, and how many it has.
fn part(range: impl RangeBounds<usize>, len: usize) -> Result<(usize, usize)> {
    let start = match range.start_bound() {
        Bound::Included(&start) => start,
        Bound::Excluded(&before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&last) => last.saturating_add(1),
        Bound::Excluded(&end) => end,
        Bound::Unbounded => len,
    };
    if start > end || end > len {
        return Err(Error::OutOfRange { start, end, len });
    }
    Ok((start, end - start))
}

fn same_len(given: usize, len: usize) -> Result<()> {
    if given == len {
        return Ok(());
    }
    Err(Error::CopyLength { needed: len, given })
}
