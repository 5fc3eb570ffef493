//! [`Lane`]: a workspace with page-locked memory, which one thread takes pieces of arrays of the host to
//! the device with, and back.

use std::mem::{self, MaybeUninit};
use std::ops::{Deref, DerefMut};
use std::ptr;

use bytemuck::Pod;

use super::Workspace;
use crate::buffer::PinnedBuffer;
use crate::device::Device;
use crate::error::Result;

/// Which of the two pieces of page-locked memory of a lane.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Berth {
    First,
    Second,
}

/// A workspace whose copies from and to the host go through page-locked memory of its own. Each
/// [`Berth`] has room for one piece.
///
/// Who uses a lane waits for its stream between one piece and the next.
#[derive(Debug)]
pub(crate) struct Lane {
    workspace: Workspace,
    berths: [PinnedBuffer<u8>; 2],
}

impl Lane {
    pub fn new(device: &Device, piece_bytes: usize) -> Result<Self> {
        let berth = || PinnedBuffer::zeroed(device, piece_bytes);
        Ok(Self {
            workspace: Workspace::new(device, None)?,
            berths: [berth()?, berth()?],
        })
    }

    /// Queues a copy of a piece to the device.
    ///
    /// # Safety
    /// `to` leads to as many elements of the device that nothing else uses until the lane has been
    /// waited for, and until then nobody frees or writes to the piece.
    pub unsafe fn upload<T: Pod>(&mut self, through: Berth, to: *mut T, piece: &[T]) -> Result<()> {
        let bytes = bytes_of(piece);
        let from = if self.is_direct(bytes.as_ptr(), bytes.len()) {
            // The device reads it where it is.
            bytes
        } else {
            let berth = &mut self.berths[through as usize][..bytes.len()];
            berth.copy_from_slice(bytes);
            berth
        };
        let stream = self.workspace.stream();
        // SAFETY: the caller's promise; a berth is left alone until the lane has been waited for.
        unsafe { stream.upload(to.cast(), from.as_ptr(), bytes.len()) }
    }

    /// Queues a copy of a piece of the device into a berth, where [`landed`](Self::landed) has it after
    /// the wait.
    ///
    /// # Safety
    /// `from` leads to `len` elements of the device that nothing writes to until then.
    pub unsafe fn download<T: Pod>(
        &mut self,
        through: Berth,
        from: *const T,
        len: usize,
    ) -> Result<()> {
        let bytes = len * size_of::<T>();
        let berth = &mut self.berths[through as usize][..bytes];
        // SAFETY: the caller's promise; the berth has as many bytes, and is left alone until the lane
        // has been waited for.
        unsafe {
            self.workspace
                .stream()
                .download(berth.as_mut_ptr(), from.cast(), bytes)
        }
    }

    /// Queues a copy of a piece of the device to places of the host: there if the device reaches them, and else
    /// into a berth, until it is [handed out](Self::hand_out).
    ///
    /// # Safety
    /// As for [`download`](Self::download); until the lane has been waited for, nobody uses the places.
    pub unsafe fn land<T: Pod>(
        &mut self,
        through: Berth,
        from: *const T,
        places: &mut [MaybeUninit<T>],
    ) -> Result<()> {
        let (to, bytes) = (places.as_mut_ptr().cast(), size_of_val(places));
        // SAFETY: the caller's promise.
        unsafe {
            if self.is_direct(to, bytes) {
                self.workspace.stream().download(to, from.cast(), bytes)
            } else {
                self.download(through, from, places.len())
            }
        }
    }

    /// Sees to it that what has [landed](Self::land) is in its places, once the lane has been waited for.
    pub fn hand_out<T: Pod>(&self, through: Berth, places: &mut [MaybeUninit<T>]) {
        let (to, bytes) = (places.as_mut_ptr().cast(), size_of_val(places));
        if !self.is_direct(to, bytes) {
            let berth = &self.berths[through as usize][..bytes];
            // SAFETY: the places as bytes, of which any are elements.
            unsafe { to.copy_from_nonoverlapping(berth.as_ptr(), bytes) };
        }
    }

    /// Whether a piece goes through no berth: if it is locked, or nothing, or, of an array whose ends are
    /// locked, larger than a berth, and then it may be that the driver takes it there.
    fn is_direct(&self, start: *const u8, bytes: usize) -> bool {
        let device = self.workspace.stream().device();
        bytes == 0 || bytes > self.berths[0].len() || device.has_locked(start, bytes)
    }

    /// What was downloaded, once the lane has been waited for.
    pub fn landed<T: Pod>(&self, through: Berth, len: usize) -> &[T] {
        if size_of::<T>() == 0 {
            // SAFETY: elements of no bytes, of which any number is anywhere.
            return unsafe { std::slice::from_raw_parts(std::ptr::dangling(), len) };
        }
        bytemuck::cast_slice(&self.berths[through as usize][..len * size_of::<T>()])
    }

    /// Drops what can be dropped after a failed wait: copies may be on their way to or from the berths for
    /// as long as the process lives.
    pub fn abandon(self) {
        mem::forget(self.berths);
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

/// The bytes of some elements, which may have none.
fn bytes_of<T: Pod>(elements: &[T]) -> &[u8] {
    if size_of::<T>() == 0 {
        return &[];
    }
    bytemuck::cast_slice(elements)
}

impl Deref for Lane {
    type Target = Workspace;

    fn deref(&self) -> &Workspace {
        &self.workspace
    }
}

impl DerefMut for Lane {
    fn deref_mut(&mut self) -> &mut Workspace {
        &mut self.workspace
    }
}
