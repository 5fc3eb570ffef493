//! [`Lane`]: a workspace with page-locked memory, by which a piece of arrays of the host goes to the device, and back.

use std::mem::{self, MaybeUninit};
use std::ops::{Deref, DerefMut};
use std::ptr;

use bytemuck::Pod;

use super::Workspace;
use super::chore::{Chores, Fill, Places};
use crate::buffer::PinnedBuffer;
use crate::device::Device;
use crate::error::Result;
use crate::memory::bytes_of_slice;

/// Chores of an array of a piece: enough that all threads work on the piece that came first, and that taking one from the
/// queue costs nothing beside it.
const CHORES: usize = 16;

/// A workspace whose copies from and to the host go through page-locked memory of its own, its berth, unless the device
/// reaches arrays where they are. What lies in the berth is told by where it begins there, in bytes.
///
/// Copies between arrays and the berth are [`Chores`]: they are noted, and done by any thread. So a piece goes this way:
/// [`load`](Self::load), chores, [`upload`](Self::upload) and whatever else is to be queued, [`land`](Self::land), the
/// device, [`hand_out`](Self::hand_out), chores.
#[derive(Debug)]
pub(crate) struct Lane {
    workspace: Workspace,
    berth: PinnedBuffer<u8>,
    pub(super) chores: Chores,
}

impl Lane {
    pub fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            workspace: Workspace::new(device, None)?,
            berth: PinnedBuffer::zeroed(device, 0)?,
            chores: Chores::new(),
        })
    }

    /// Makes it one for pieces of so many bytes: with a berth for two, for keys and values, or values and bytes that say
    /// which of them are there.
    pub fn fit(mut self, piece_bytes: usize) -> Result<Self> {
        if self.berth.len() < 2 * piece_bytes {
            self.berth = PinnedBuffer::zeroed(self.device(), 2 * piece_bytes)?;
        }
        self.chores.cut(piece_bytes / CHORES);
        Ok(self)
    }

    /// Notes that a piece is to be copied to the berth, if the device does not reach it where it is.
    ///
    /// # Safety
    /// Until chores are done, nobody frees or writes to the piece.
    pub unsafe fn load<T: Pod>(&mut self, at: usize, piece: &[T]) {
        let piece = bytes_of_slice(piece);
        if !self.is_direct(piece.as_ptr(), piece.len()) {
            let berth = &mut self.berth[at..][..piece.len()];
            // SAFETY: the caller's promise; the berth is left alone until chores are done.
            unsafe {
                self.chores
                    .note_copy(berth.as_mut_ptr(), piece.as_ptr(), piece.len());
            }
        }
    }

    /// Notes that places which nobody has written to are to have pages, before something is copied there.
    ///
    /// # Safety
    /// Until chores are done, nobody else uses the places.
    pub unsafe fn touch<T>(&mut self, places: &mut [MaybeUninit<T>]) {
        let (array, bytes) = extent(places);
        // SAFETY: the caller's promise.
        unsafe { self.chores.note_touch(array, bytes) };
    }

    /// Queues a copy of a piece to the device, which has been [loaded](Self::load).
    ///
    /// # Safety
    /// `to` leads to as many elements of the device that nothing else uses until the lane has been
    /// waited for, and until then nobody frees or writes to the piece.
    pub unsafe fn upload<T: Pod>(&mut self, at: usize, to: *mut T, piece: &[T]) -> Result<()> {
        let piece = bytes_of_slice(piece);
        let from = if self.is_direct(piece.as_ptr(), piece.len()) {
            piece
        } else {
            &self.berth[at..][..piece.len()]
        };
        let stream = self.workspace.stream();
        // SAFETY: the caller's promise; a berth is left alone until the lane has been waited for.
        unsafe { stream.upload(to.cast(), from.as_ptr(), piece.len()) }
    }

    /// Queues a copy of a piece of the device into the berth, where [`fill`](Self::fill) and
    /// [`hand_out`](Self::hand_out) find it after the wait.
    ///
    /// # Safety
    /// `from` leads to so many bytes of the device that nothing writes to until then.
    pub unsafe fn download(&mut self, at: usize, from: *const u8, bytes: usize) -> Result<()> {
        let berth = &mut self.berth[at..][..bytes];
        // SAFETY: the caller's promise; the berth has as many bytes, and is left alone until the lane
        // has been waited for.
        unsafe {
            self.workspace
                .stream()
                .download(berth.as_mut_ptr(), from, bytes)
        }
    }

    /// Queues copies of two pieces of the device, one right behind the other, to places of the host: there if the
    /// device reaches them, and else into the berth, until they are [handed out](Self::hand_out).
    ///
    /// # Safety
    /// As for [`download`](Self::download); until the lane has been waited for, nobody uses the places.
    pub unsafe fn land<T: Pod, U: Pod>(
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

    /// Notes what has to be copied so that what has [landed](Self::land) is in its places, once the lane has been
    /// waited for.
    ///
    /// # Safety
    /// Until chores are done, nobody else uses the places.
    pub unsafe fn hand_out<T: Pod, U: Pod>(
        &mut self,
        first: &mut [MaybeUninit<T>],
        second: &mut [MaybeUninit<U>],
    ) {
        let mut at = 0;
        for (to, bytes) in [extent(first), extent(second)] {
            if !self.is_direct(to, bytes) {
                let from = self.berth[at..][..bytes].as_ptr();
                // SAFETY: the caller's promise; the berth is left alone until chores are done.
                unsafe { self.chores.note_copy(to, from, bytes) };
            }
            at += bytes;
        }
    }

    /// Notes that places are to be filled from two arrays that were [downloaded](Self::download), one right behind the
    /// other, once the lane has been waited for.
    ///
    /// # Safety
    /// As for [`hand_out`](Self::hand_out). There are places for `len` elements of so many bytes, and `fill` is for these,
    /// and for elements of the arrays that have `of` bytes.
    pub unsafe fn fill(
        &mut self,
        fill: Fill,
        (places, element): (&mut [MaybeUninit<u8>], usize),
        of: [usize; 2],
        len: usize,
    ) {
        let [first, second] = of.map(|bytes| len * bytes);
        let landed = self.berth[..first + second].as_ptr();
        let places = Places {
            to: places[..len * element].as_mut_ptr().cast(),
            from: [landed, landed.wrapping_add(first)],
            len,
        };
        // SAFETY: the caller's promise; the berth is left alone until chores are done.
        unsafe { self.chores.note(fill, places, element, of) };
    }

    /// Whether an array goes past the berth: if it is locked, or nothing.
    fn is_direct(&self, start: *const u8, bytes: usize) -> bool {
        bytes == 0 || self.device().has_locked(start, bytes)
    }

    fn device(&self) -> &Device {
        self.workspace.stream.device()
    }

    /// Whether all that was queued has ended, well or not, which the wait will tell.
    pub fn has_ended(&self) -> bool {
        self.workspace.stream.has_ended()
    }

    /// Drops what can be dropped after a failed wait: copies may be on their way to or from the berth for
    /// as long as the process lives.
    pub fn abandon(self) {
        mem::forget(self.berth);
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

/// Where places begin, and how many bytes they have.
fn extent<T>(places: &mut [MaybeUninit<T>]) -> (*mut u8, usize) {
    (places.as_mut_ptr().cast(), size_of_val(places))
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
