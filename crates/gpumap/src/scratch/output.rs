//! Where results of a call are made, and how the host gets them.

use std::mem::MaybeUninit;
use std::ptr;

use bytemuck::Pod;

use super::{Arrays, ScratchRole, Workspace, bytes_of_places, places_of};
use crate::array::ArrayMut;
use crate::buffer::BufferViewMut;
use crate::error::{Result, expect_room};
use crate::memory::{host_vec, host_zeroed};
use crate::output::{Output, Sink};

/// A result that is being made, for a vector of the host.
#[derive(Debug)]
pub(crate) struct HostOutput<T> {
    pub(super) ptr: *mut T,
    pub(super) len: usize,
    /// On the CPU what kernels write to. On CUDA a vector with room, or none yet.
    pub(super) host: Option<Vec<T>>,
}

impl<T> HostOutput<T> {
    /// Where kernels write it.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut T {
        self.ptr
    }
}

/// A result that is being made, for memory of the caller.
#[derive(Debug)]
pub(crate) struct HostTarget<'a, T> {
    pub(super) ptr: *mut T,
    /// Where it is copied to afterwards.
    pub(super) host: Option<&'a mut [T]>,
}

impl<'a, T: Pod> HostTarget<'a, T> {
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

/// Says where an output of so many bytes is written.
pub(super) type TargetOf<'a> =
    fn(&mut Workspace, ScratchRole, Sink<'a, u8>, usize) -> Result<HostTarget<'a, u8>>;

impl Workspace {
    /// Where elements of the caller can be written to by what is queued from now on.
    pub(crate) fn target<T: Pod>(&self, mut view: BufferViewMut<'_, T>) -> Result<*mut T> {
        self.stream.wait_stream(view.stream())?;
        Ok(view.as_mut_ptr())
    }

    /// Where what is queued from now on can write a result of `len` elements for memory of the caller: there, or into a
    /// slot, from which [`copy_to_host`](Self::copy_to_host) copies it. An error if there are fewer places: an output
    /// need not return the same length each time.
    pub(crate) fn host_target<'a, T: Pod>(
        &mut self,
        role: ScratchRole,
        sink: Sink<'a, T>,
        len: usize,
    ) -> Result<HostTarget<'a, T>> {
        expect_room(len, sink.len())?;
        match sink {
            Sink::Device(mut view) => {
                self.wait_for(view.stream())?;
                let (ptr, host) = (view.as_mut_ptr(), None);
                Ok(HostTarget { ptr, host })
            }
            Sink::Host(slice)
                if self.stream.device().has_own_memory() && size_of::<T>() * len.min(1) != 0 =>
            {
                let ptr = self.reserve(role, len)?;
                let host = Some(&mut slice[..len]);
                Ok(HostTarget { ptr, host })
            }
            Sink::Host(slice) => {
                let (ptr, host) = (slice.as_mut_ptr(), None);
                Ok(HostTarget { ptr, host })
            }
        }
    }

    /// Sees to it that the first `len` elements of a result, which has been waited for, are where the caller
    /// wants them. There are as many places.
    pub(crate) fn copy_to_host<T: Pod>(
        &mut self,
        target: HostTarget<'_, T>,
        len: usize,
    ) -> Result<()> {
        // SAFETY: the scratch buffer has as many elements as the slice.
        unsafe { self.download(Arrays::Used, target.bytes(len)) }
    }

    /// The same for two results of as many elements, at once.
    pub(crate) fn copy_both_to_host<T: Pod, U: Pod>(
        &mut self,
        first: HostTarget<'_, T>,
        second: HostTarget<'_, U>,
        len: usize,
    ) -> Result<()> {
        let arrays = first.bytes(len).into_iter().chain(second.bytes(len));
        // SAFETY: the scratch buffers have as many elements as the slices.
        unsafe { self.download(Arrays::Used, arrays) }
    }

    /// As [`host_target`](Self::host_target), of the outputs of a batch of `len` keys that there are.
    pub(crate) fn host_targets<'a>(
        &mut self,
        outputs: [Option<ArrayMut<'a>>; 2],
        len: usize,
    ) -> Result<[Option<HostTarget<'a, u8>>; 2]> {
        self.targets_by(outputs, len, Self::host_target)
    }

    /// The same, where `target` says where one output of so many bytes is written.
    pub(super) fn targets_by<'a>(
        &mut self,
        [values, flags]: [Option<ArrayMut<'a>>; 2],
        len: usize,
        target: TargetOf<'a>,
    ) -> Result<[Option<HostTarget<'a, u8>>; 2]> {
        let mut one = |role, output: Option<ArrayMut<'a>>| {
            let one = |output: ArrayMut<'a>| {
                let bytes = len * output.element();
                target(self, role, output.into_bytes(), bytes)
            };
            output.map(one).transpose()
        };
        Ok([
            one(ScratchRole::FirstOutput, values)?,
            one(ScratchRole::SecondOutput, flags)?,
        ])
    }

    /// As [`copy_to_host`](Self::copy_to_host), of results that are wanted whole, at once.
    pub(crate) fn copy_all_to_host<'a>(
        &mut self,
        targets: impl IntoIterator<Item = HostTarget<'a, u8>>,
    ) -> Result<()> {
        let whole = |target: HostTarget<'a, u8>| {
            let len = target.host.as_ref().map_or(0, |host| host.len());
            target.bytes(len)
        };
        // SAFETY: the scratch buffers have as many elements as the slices.
        unsafe { self.download(Arrays::Used, targets.into_iter().filter_map(whole)) }
    }

    /// Writes pairs to two outputs of the caller, which have to have room for `len`, as many as there seem to be: `write`
    /// gets where to write them and for how many there is room, waits, and returns how many there are. Returns that.
    ///
    /// Outputs may be much longer, and the device need not have room for as many; so if calls in flight have stored more
    /// meanwhile, it starts again.
    pub(crate) fn copy_pairs_to_host<K: Pod, V: Pod>(
        &mut self,
        keys: &mut (impl Output<K> + ?Sized),
        values: &mut (impl Output<V> + ?Sized),
        len: usize,
        write: impl Fn(&mut Self, (*mut K, *mut V), usize) -> Result<usize>,
    ) -> Result<usize> {
        let most = keys.sink().len().min(values.sink().len());
        expect_room(len, most)?;
        let mut room = len;
        loop {
            let mut keys = self.host_target(ScratchRole::FirstOutput, keys.sink(), room)?;
            let mut values = self.host_target(ScratchRole::SecondOutput, values.sink(), room)?;
            let pairs = write(self, (keys.as_mut_ptr(), values.as_mut_ptr()), room)?;
            expect_room(pairs, most)?;
            if pairs <= room {
                self.copy_both_to_host(keys, values, pairs)?;
                return Ok(pairs);
            }
            room = with_spare(pairs, most);
        }
    }

    /// Pairs as vectors. `write` gets where to write them and for how many there is room, waits, and returns how many
    /// there are: `len`, or more if calls in flight store some meanwhile, and at most `most`.
    pub(crate) fn collect_pairs<K: Pod, V: Pod>(
        &mut self,
        len: usize,
        most: usize,
        write: impl Fn(&mut Self, (*mut K, *mut V), usize) -> Result<usize>,
    ) -> Result<(Vec<K>, Vec<V>)> {
        let mut room = len;
        loop {
            let mut keys = self.output_of_some::<K>(ScratchRole::FirstOutput, room)?;
            let mut values = self.output_of_some::<V>(ScratchRole::SecondOutput, room)?;
            let pairs = write(self, (keys.as_mut_ptr(), values.as_mut_ptr()), room)?;
            if pairs <= room || room == most {
                return Ok((self.fetch(keys, pairs)?, self.fetch(values, pairs)?));
            }
            room = with_spare(pairs, most);
        }
    }

    /// Room for a result of `len` elements that the host wants: a scratch buffer, or on the CPU the very
    /// vector that [`fetch`](Self::fetch) returns. The host's memory is there as well, so that when kernels
    /// have changed something, no answer is missing for want of it.
    pub(crate) fn output<T: Pod>(
        &mut self,
        role: ScratchRole,
        len: usize,
    ) -> Result<HostOutput<T>> {
        let mut output = self.output_of_some(role, len)?;
        if output.host.is_none() {
            output.host = Some(host_vec(len)?);
        }
        Ok(output)
    }

    /// The same for a result of which the host may want much less: its memory is had when that is known.
    pub(crate) fn output_of_some<T: Pod>(
        &mut self,
        role: ScratchRole,
        len: usize,
    ) -> Result<HostOutput<T>> {
        if self.stream.device().has_own_memory() {
            let ptr = self.reserve(role, len)?;
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
        let mut vec = match output.host {
            Some(vec) => vec,
            None => host_vec(len)?,
        };
        if self.stream.device().has_own_memory() {
            // SAFETY: the scratch buffer has at least as many.
            unsafe { self.read_to(&mut vec, output.ptr, len) }?;
        } else {
            self.wait()?;
            vec.truncate(len);
        }
        Ok(vec)
    }

    /// Waits for everything queued, and returns the first `bytes` bytes of a result, in words; the rest of the last word,
    /// which no kernel wrote, is zero or what the result had before.
    pub(crate) fn fetch_bytes(
        &mut self,
        mut output: HostOutput<u64>,
        bytes: usize,
    ) -> Result<Vec<u64>> {
        if let Some(words) = output.host.take() {
            self.wait()?;
            return Ok(words);
        }
        let mut words = host_zeroed(bytes.div_ceil(size_of::<u64>()))?;
        let places: &mut [u8] = &mut bytemuck::cast_slice_mut(&mut words)[..bytes];
        // SAFETY: places for bytes, into which only bytes are written.
        let places = unsafe { &mut *(ptr::from_mut(places) as *mut [MaybeUninit<u8>]) };
        self.fetch_to(output, places)?;
        Ok(words)
    }

    /// Waits for everything queued, and copies the bytes of a result to places for as many, or fewer.
    pub(crate) fn fetch_to(
        &mut self,
        output: HostOutput<u64>,
        places: &mut [MaybeUninit<u8>],
    ) -> Result<()> {
        debug_assert!(places.len() <= output.len * size_of::<u64>());
        let Some(host) = output.host else {
            // SAFETY: the scratch buffer has at least as many bytes.
            return unsafe {
                self.download(Arrays::New, [(places, output.ptr.cast_const().cast())])
            };
        };
        self.wait()?;
        let bytes: &[u8] = bytemuck::cast_slice(&host);
        places.write_copy_of_slice(&bytes[..places.len()]);
        Ok(())
    }

    /// Waits for everything queued, and returns the first `len` elements of a
    /// [reserved](Self::reserve) slot.
    ///
    /// # Safety
    /// The scratch buffer was not reserved again since, and has as many elements, all of them written to.
    pub(crate) unsafe fn read<T: Pod>(&mut self, from: *const T, len: usize) -> Result<Vec<T>> {
        let mut vec = host_vec(len)?;
        // SAFETY: passed on.
        unsafe { self.read_to(&mut vec, from, len) }?;
        Ok(vec)
    }

    /// The same, replacing the elements of a vector that has room for as many.
    ///
    /// # Safety
    /// As for [`read`](Self::read).
    pub(crate) unsafe fn read_to<T: Pod>(
        &mut self,
        vec: &mut Vec<T>,
        from: *const T,
        len: usize,
    ) -> Result<()> {
        vec.clear();
        let places = &mut vec.spare_capacity_mut()[..len];
        let bytes = bytes_of_places(places);
        // SAFETY: the scratch buffer has as many elements, by the caller.
        unsafe { self.download(Arrays::New, [(bytes, from.cast())]) }?;
        // SAFETY: the copy has ended, so `len` elements are written; `T` takes any bytes.
        unsafe { vec.set_len(len) };
        Ok(())
    }
}

/// Where kernels write a result that may not be wanted; null if it is not.
pub(crate) fn address_of(target: &mut Option<HostTarget<'_, u8>>) -> *mut u8 {
    target
        .as_mut()
        .map_or(ptr::null_mut(), HostTarget::as_mut_ptr)
}

/// Room for pairs that there were, and some to spare, where `most` is all there can be.
fn with_spare(pairs: usize, most: usize) -> usize {
    (pairs + pairs / 8 + 1).min(most)
}

#[cfg(test)]
mod tests {
    use super::super::ScratchPool;
    use super::*;
    use crate::error::Error;
    use crate::testing::on_every_device;

    #[test]
    fn the_hosts_memory_is_there_before_the_answer() {
        on_every_device(|device| {
            let pool = ScratchPool::new(device);
            let mut scratch = pool.take().unwrap();
            let output = scratch
                .output::<u32>(ScratchRole::FirstOutput, 1000)
                .unwrap();
            let there = output.host.as_ref().map(Vec::as_ptr);
            let fetched = scratch.fetch(output, 900).unwrap();
            assert_eq!((there, fetched.len()), (Some(fetched.as_ptr()), 900));
        });
    }

    #[test]
    fn long_outputs_take_no_more_than_the_answer() {
        on_every_device(|device| {
            let device = device.with_memory_budget(1 << 20);
            let pool = ScratchPool::new(&device);
            let mut scratch = pool.take().unwrap();
            let mut long = vec![7u64; 1 << 20];
            let target = scratch.host_target(ScratchRole::FirstOutput, long[..99].sink(), 100);
            assert!(matches!(target, Err(Error::OutputTooSmall { .. })));
            let target = scratch.host_target(ScratchRole::FirstOutput, long.sink(), 100);
            scratch.copy_to_host(target.unwrap(), 100).unwrap();
            assert!(long[100..].iter().all(|&element| element == 7));

            let (mut keys, mut values) = (vec![7u64; 1 << 20], vec![7u64; 1 << 20]);
            let nine = |scratch: &mut Workspace, (keys, values): (*mut u64, *mut u64), room| {
                // SAFETY: both have this room.
                unsafe {
                    scratch.stream().fill(keys.cast(), 1, 8 * room)?;
                    scratch.stream().fill(values.cast(), 2, 8 * room)?;
                }
                Ok(9)
            };
            // There are as many as there seem to be, or more.
            for seem in [9, 5] {
                let pairs = scratch.copy_pairs_to_host(&mut keys, &mut values, seem, nine);
                assert_eq!(pairs.unwrap(), 9);
                assert_eq!(keys[..9], [0x0101_0101_0101_0101; 9]);
                assert_eq!(values[..9], [0x0202_0202_0202_0202; 9]);
                assert!(keys[9 + 9 / 8 + 1..].iter().all(|&key| key == 7));
            }
            let refused = scratch.copy_pairs_to_host(&mut keys[..8], &mut values, 5, nine);
            let Err(Error::OutputTooSmall { needed, given }) = refused else {
                panic!("{refused:?}")
            };
            assert_eq!((needed, given), (9, 8));
        });
    }
}
