//! Where results of a call are made, and how the host gets them.

use std::mem::MaybeUninit;
use std::ptr;

use bytemuck::Pod;

use super::{Arrays, Slot, Workspace, places_of};
use crate::buffer::BufferViewMut;
use crate::error::{Result, expect_room};
use crate::memory::{host_vec, host_zeroed};
use crate::output::{Output, Sink};

/// A result that is being made, for a vector of the host.
#[derive(Debug)]
pub(crate) struct HostOutput<T> {
    ptr: *mut T,
    len: usize,
    host: Option<Vec<T>>,
}

impl<T> HostOutput<T> {
    /// Where kernels write it.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut T {
        self.ptr
    }
}

/// A result that is being made, for memory of the caller.
#[derive(Debug)]
pub(crate) struct Landing<'a, T> {
    ptr: *mut T,
    /// Where it is copied to afterwards.
    host: Option<&'a mut [T]>,
}

impl<'a, T: Pod> Landing<'a, T> {
    /// Where kernels write it.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut T {
        self.ptr
    }

    /// The bytes of the first `len` places on the host, and where on the device they come from; none if
    /// kernels write to the places.
    fn bytes(self, len: usize) -> Option<(&'a mut [MaybeUninit<u8>], *const u8)> {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.host?[..len]);
        // SAFETY: only initialised bytes are written to them.
        let places = unsafe { places_of(bytes) };
        Some((places, self.ptr.cast_const().cast()))
    }
}

impl Workspace {
    /// Where elements of the caller can be written to by what is queued from now on.
    pub(crate) fn target<T: Pod>(&self, mut view: BufferViewMut<'_, T>) -> Result<*mut T> {
        self.stream.wait_stream(view.stream())?;
        Ok(view.as_mut_ptr())
    }

    /// Where what is queued from now on can write a result for memory of the caller: there, or into a
    /// slot, from which [`land`](Self::land) copies it.
    pub(crate) fn landing<'a, T: Pod>(
        &mut self,
        slot: Slot,
        sink: Sink<'a, T>,
    ) -> Result<Landing<'a, T>> {
        match sink {
            Sink::Device(mut view) => {
                self.wait_for(view.stream())?;
                let (ptr, host) = (view.as_mut_ptr(), None);
                Ok(Landing { ptr, host })
            }
            Sink::Host(slice) if self.stream.device().is_cuda() && size_of::<T>() != 0 => {
                let ptr = self.reserve(slot, slice.len())?;
                let host = Some(slice);
                Ok(Landing { ptr, host })
            }
            Sink::Host(slice) => {
                let (ptr, host) = (slice.as_mut_ptr(), None);
                Ok(Landing { ptr, host })
            }
        }
    }

    /// Sees to it that the first `len` elements of a result, which has been waited for, are where the caller
    /// wants them. There are as many places.
    pub(crate) fn land<T: Pod>(&mut self, landing: Landing<'_, T>, len: usize) -> Result<()> {
        // SAFETY: the slot has as many elements as the slice.
        unsafe { self.download(Arrays::Used, landing.bytes(len)) }
    }

    /// The same for two results of as many elements, at once.
    pub(crate) fn land_both<T: Pod, U: Pod>(
        &mut self,
        first: Landing<'_, T>,
        second: Landing<'_, U>,
        len: usize,
    ) -> Result<()> {
        let arrays = first.bytes(len).into_iter().chain(second.bytes(len));
        // SAFETY: the slots have as many elements as the slices.
        unsafe { self.download(Arrays::Used, arrays) }
    }

    /// Sees to it that pairs come to two outputs of the caller, which have to have room for `len`: `write` is told where to
    /// write them and for how many there is room, waits, and says how many there are. Returns that.
    pub(crate) fn land_pairs<K: Pod, V: Pod>(
        &mut self,
        keys: &mut (impl Output<K> + ?Sized),
        values: &mut (impl Output<V> + ?Sized),
        len: usize,
        write: impl FnOnce(&mut Self, (*mut K, *mut V), usize) -> Result<usize>,
    ) -> Result<usize> {
        let (keys, values) = (keys.sink(), values.sink());
        let room = keys.len().min(values.len());
        expect_room(len, room)?;
        let mut keys = self.landing(Slot::FirstOutput, keys)?;
        let mut values = self.landing(Slot::SecondOutput, values)?;
        let pairs = write(self, (keys.as_mut_ptr(), values.as_mut_ptr()), room)?;
        expect_room(pairs, room)?;
        self.land_both(keys, values, pairs)?;
        Ok(pairs)
    }

    /// Room for a result of `len` elements that the host wants: a slot, or on the CPU the very
    /// vector that [`fetch`](Self::fetch) returns.
    pub(crate) fn output<T: Pod>(&mut self, slot: Slot, len: usize) -> Result<HostOutput<T>> {
        if self.stream.device().is_cuda() {
            let ptr = self.reserve(slot, len)?;
            let host = None;
            return Ok(HostOutput { ptr, len, host });
        }
        let mut vec = host_zeroed(len)?;
        let ptr = vec.as_mut_ptr();
        let host = Some(vec);
        Ok(HostOutput { ptr, len, host })
    }

    /// Waits for everything queued, and returns the first `len` elements of a result of this
    /// workspace, whose slot was not reserved again since.
    pub(crate) fn fetch<T: Pod>(&mut self, output: HostOutput<T>, len: usize) -> Result<Vec<T>> {
        let len = len.min(output.len);
        if let Some(mut vec) = output.host {
            self.wait()?;
            vec.truncate(len);
            return Ok(vec);
        }
        // SAFETY: the slot has at least as many.
        unsafe { self.read(output.ptr, len) }
    }

    /// Waits for everything queued, and returns the first `len` elements of a
    /// [reserved](Self::reserve) slot.
    ///
    /// # Safety
    /// The slot was not reserved again since, and has as many elements, all of them written to.
    pub(crate) unsafe fn read<T: Pod>(&mut self, from: *const T, len: usize) -> Result<Vec<T>> {
        let mut vec = host_vec::<T>(len)?;
        let places = ptr::slice_from_raw_parts_mut(vec.as_mut_ptr().cast(), len * size_of::<T>());
        // SAFETY: the vector has room for `len` elements.
        let places: &mut [MaybeUninit<u8>] = unsafe { &mut *places };
        // SAFETY: the slot has as many elements, by the caller.
        unsafe { self.download(Arrays::New, [(places, from.cast())]) }?;
        // SAFETY: the copy has ended, so `len` elements are written; `T` takes any bytes.
        unsafe { vec.set_len(len) };
        Ok(vec)
    }

    /// Waits for everything queued, and copies arrays of the device to the host.
    ///
    /// # Safety
    /// Each leads to as many bytes of the device as there are places.
    unsafe fn download<'a>(
        &mut self,
        host: Arrays,
        arrays: impl IntoIterator<Item = (&'a mut [MaybeUninit<u8>], *const u8)>,
    ) -> Result<()> {
        let arrays: Vec<_> = arrays.into_iter().collect();
        if let Some(mut crew) = self.crew(arrays.iter().map(|(to, _)| &**to)) {
            // Its lanes have streams of their own.
            self.wait()?;
            // SAFETY: the caller's promise, and nothing is queued any more.
            return unsafe { crew.download(host, arrays) };
        }
        for (to, from) in arrays {
            // SAFETY: the caller's promise; the places are not used until the wait is over.
            unsafe {
                self.stream()
                    .download(to.as_mut_ptr().cast(), from, to.len())
            }?;
        }
        self.wait()
    }
}
