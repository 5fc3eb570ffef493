//! [`Stage`]: a workspace with page-locked memory, by which a chunk of arrays of the host goes to the device, and back.

use std::mem::{self, MaybeUninit};
use std::ops::{Deref, DerefMut};
use std::ptr;

use bytemuck::Pod;

use super::Workspace;
use super::copy_task::{CopyTasks, Fill, Places};
use crate::buffer::PinnedBuffer;
use crate::device::Device;
use crate::error::Result;
use crate::memory::bytes_of_slice;

/// Copy tasks of an array of a chunk: enough that all threads work on the chunk that came first, and that taking one from the
/// queue costs nothing beside it.
const COPY_TASKS: usize = 16;

/// A workspace whose copies from and to the host go through a pinned buffer of its own, unless the device
/// reaches arrays where they are. `at` is a byte offset into the pinned buffer.
///
/// Copies between arrays and the pinned buffer are [`CopyTasks`]: they are noted, and done by any thread. So a chunk goes this way:
/// [`load`](Self::load), copy tasks, [`upload`](Self::upload) and whatever else is to be queued, [`copy_to_host`](Self::copy_to_host), the
/// device, [`deliver`](Self::deliver), copy tasks.
#[derive(Debug)]
pub(crate) struct Stage {
    workspace: Workspace,
    pinned: PinnedBuffer<u8>,
    pub(super) tasks: CopyTasks,
}

impl Stage {
    pub fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            workspace: Workspace::new(device, None)?,
            pinned: PinnedBuffer::zeroed(device, 0)?,
            tasks: CopyTasks::new(),
        })
    }

    /// Makes it one for chunks of so many bytes: with a pinned buffer for two, for keys and values, or values and bytes that say
    /// which of them are there.
    pub fn fit(mut self, chunk_bytes: usize) -> Result<Self> {
        if self.pinned.len() < 2 * chunk_bytes {
            self.pinned = PinnedBuffer::zeroed(self.device(), 2 * chunk_bytes)?;
        }
        self.tasks.limit(chunk_bytes / COPY_TASKS);
        Ok(self)
    }

    /// Notes that a chunk is to be copied to the pinned buffer, if the device does not reach it where it is.
    ///
    /// # Safety
    /// Until the copy tasks are done, nothing frees or writes to the chunk.
    pub unsafe fn load<T: Pod>(&mut self, at: usize, chunk: &[T]) {
        let chunk = bytes_of_slice(chunk);
        if !self.is_direct(chunk.as_ptr(), chunk.len()) {
            let pinned = &mut self.pinned[at..][..chunk.len()];
            // SAFETY: the caller's promise; the pinned buffer is not used until the copy tasks are done.
            unsafe {
                self.tasks
                    .note_copy(pinned.as_mut_ptr(), chunk.as_ptr(), chunk.len());
            }
        }
    }

    /// Notes that unwritten places are to have pages, before something is copied there.
    ///
    /// # Safety
    /// Until the copy tasks are done, nothing else uses the places.
    pub unsafe fn touch<T>(&mut self, places: &mut [MaybeUninit<T>]) {
        let (array, bytes) = extent(places);
        // SAFETY: the caller's promise.
        unsafe { self.tasks.note_touch(array, bytes) };
    }

    /// Queues a copy of a chunk to the device, which has been [loaded](Self::load).
    ///
    /// # Safety
    /// `to` leads to as many elements of the device that nothing else uses until the stage has been waited for, and until then
    /// nothing frees or writes to the chunk.
    pub unsafe fn upload<T: Pod>(&mut self, at: usize, to: *mut T, chunk: &[T]) -> Result<()> {
        let chunk = bytes_of_slice(chunk);
        let from = if self.is_direct(chunk.as_ptr(), chunk.len()) {
            chunk
        } else {
            &self.pinned[at..][..chunk.len()]
        };
        let stream = self.workspace.stream();
        // SAFETY: the caller's promise; a pinned buffer is not used until the stage has been waited for.
        unsafe { stream.upload(to.cast(), from.as_ptr(), chunk.len()) }
    }

    /// Queues a copy of a chunk of the device into the pinned buffer, where [`fill`](Self::fill) and
    /// [`deliver`](Self::deliver) find it after the wait.
    ///
    /// # Safety
    /// `from` leads to so many bytes of the device that nothing writes to until then.
    pub unsafe fn download(&mut self, at: usize, from: *const u8, bytes: usize) -> Result<()> {
        let pinned = &mut self.pinned[at..][..bytes];
        // SAFETY: the caller's promise; the pinned buffer has as many bytes, and is not used until the stage has
        // been waited for.
        unsafe {
            self.workspace
                .stream()
                .download(pinned.as_mut_ptr(), from, bytes)
        }
    }

    /// Queues copies of two chunks of the device, one right after the other, to places of the host: there if the
    /// device reaches them, and else into the pinned buffer, until they are [delivered](Self::deliver).
    ///
    /// # Safety
    /// As for [`download`](Self::download); until the stage has been waited for, nothing uses the places.
    pub unsafe fn copy_to_host<T: Pod, U: Pod>(
        &mut self,
        from: *const u8,
        first: &mut [MaybeUninit<T>],
        second: &mut [MaybeUninit<U>],
    ) -> Result<()> {
        let arrays = [extent(first), extent(second)];
        let is_direct = arrays.map(|(to, bytes)| self.is_direct(to, bytes));
        let bytes = arrays.map(|(_, bytes)| bytes);
        // SAFETY: the caller's promise.
        unsafe {
            if is_direct == [false, false] {
                // By one copy: each costs the link something beside its bytes.
                return self.download(0, from, bytes[0] + bytes[1]);
            }
            let mut at = 0;
            for ((to, bytes), is_direct) in arrays.into_iter().zip(is_direct) {
                let from = from.wrapping_add(at);
                if is_direct {
                    self.workspace.stream().download(to, from, bytes)?;
                } else {
                    self.download(at, from, bytes)?;
                }
                at += bytes;
            }
        }
        Ok(())
    }

    /// Notes what has to be copied so that what has [copied to the host](Self::copy_to_host) is in its places, once the stage has been
    /// waited for.
    ///
    /// # Safety
    /// Until the copy tasks are done, nothing else uses the places.
    pub unsafe fn deliver<T: Pod, U: Pod>(
        &mut self,
        first: &mut [MaybeUninit<T>],
        second: &mut [MaybeUninit<U>],
    ) {
        let mut at = 0;
        for (to, bytes) in [extent(first), extent(second)] {
            if !self.is_direct(to, bytes) {
                let from = self.pinned[at..][..bytes].as_ptr();
                // SAFETY: the caller's promise; the pinned buffer is not used until the copy tasks are done.
                unsafe { self.tasks.note_copy(to, from, bytes) };
            }
            at += bytes;
        }
    }

    /// Notes that places are to be filled from two arrays that were [downloaded](Self::download), one right after the
    /// other, once the stage has been waited for.
    ///
    /// # Safety
    /// As for [`deliver`](Self::deliver). There are places for `len` elements of so many bytes, and `fill` is for these,
    /// and for elements of the arrays that have `of` bytes.
    pub unsafe fn fill(
        &mut self,
        fill: Fill,
        (places, element): (&mut [MaybeUninit<u8>], usize),
        of: [usize; 2],
        len: usize,
    ) {
        let [first, second] = of.map(|bytes| len * bytes);
        let copied = self.pinned[..first + second].as_ptr();
        let places = Places {
            to: places[..len * element].as_mut_ptr().cast(),
            from: [copied, copied.wrapping_add(first)],
            len,
        };
        // SAFETY: the caller's promise; the pinned buffer is not used until the copy tasks are done.
        unsafe { self.tasks.note(fill, places, element, of) };
    }

    /// Whether an array goes past the pinned buffer: if it is locked, or nothing.
    fn is_direct(&self, start: *const u8, bytes: usize) -> bool {
        bytes == 0 || self.device().has_locked(start, bytes)
    }

    fn device(&self) -> &Device {
        self.workspace.stream.device()
    }

    /// Whether all that was queued has ended, well or not, which the wait will return.
    pub fn has_ended(&self) -> bool {
        self.workspace.stream.has_ended()
    }

    /// Drops what can be dropped after a failed wait: copies may be on their way to or from the pinned buffer for
    /// as long as the process lives.
    pub fn abandon(self) {
        mem::forget(self.pinned);
    }
}

/// The places of some elements.
///
/// # Safety
/// Only elements are written there.
pub(crate) unsafe fn places_of<T>(elements: &mut [T]) -> &mut [MaybeUninit<T>] {
    // SAFETY: places of the same elements; the caller's promise.
    unsafe { &mut *(ptr::from_mut(elements) as *mut [MaybeUninit<T>]) }
}

/// The bytes of places.
pub(crate) fn bytes_of_places<T: Pod>(places: &mut [MaybeUninit<T>]) -> &mut [MaybeUninit<u8>] {
    let (start, bytes) = extent(places);
    // SAFETY: the same memory, where elements are of any bytes.
    unsafe { std::slice::from_raw_parts_mut(start.cast(), bytes) }
}

/// Where places begin, and how many bytes they have.
fn extent<T>(places: &mut [MaybeUninit<T>]) -> (*mut u8, usize) {
    (places.as_mut_ptr().cast(), size_of_val(places))
}

impl Deref for Stage {
    type Target = Workspace;

    fn deref(&self) -> &Workspace {
        &self.workspace
    }
}

impl DerefMut for Stage {
    fn deref_mut(&mut self) -> &mut Workspace {
        &mut self.workspace
    }
}
