//! Sorting by digits: numbers, pairs, and the greatest numbers.

use bytemuck::Pod;
use gpumap_kernels::primitives::order::{NUMBER, NumberArgs};
use gpumap_kernels::primitives::sort::{RANK_4, RANK_8, RankArgs, THREADS};
use gpumap_simt::kernel::Grid;

use super::element::sealed::Kernels;
use super::partition::expect_words;
use super::{Element, Primitives};
use crate::buffer::BufferViewMut;
#[cfg(doc)]
use crate::error::Error;
use crate::error::{Result, expect_room, expect_same_len};
use crate::input::{Input, Source};
use crate::map::Value;
use crate::scratch::{ScratchRole, Workspace};

/// Which way a sorted array goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The least first.
    Ascending,
    /// The greatest first.
    Descending,
}

/// Arrays on the device, and how the numbers are compared.
struct Job {
    keys: *const u8,
    /// Beside the keys; null if there are none.
    values: *const u8,
    len: usize,
    /// 4 or 8.
    key_bytes: usize,
    /// 0, 4 or 8.
    value_bytes: usize,
    fold: u64,
    flip: u64,
    turn: u64,
    out_keys: *mut u8,
    out_values: *mut u8,
}

impl Job {
    fn new<T: Element>(len: usize, direction: Direction) -> Self {
        let bits = |word: <T::Scalar as Kernels>::Bits| {
            let mut bytes = [0; 8];
            bytes[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&word));
            u64::from_le_bytes(bytes)
        };
        let sign = bits(T::Scalar::SIGN);
        // Of floats as many as there are NaNs with a sign, of integers none.
        let (least, _) = T::Scalar::RANKS;
        Self {
            keys: std::ptr::null(),
            values: std::ptr::null(),
            len,
            key_bytes: size_of::<T>(),
            value_bytes: 0,
            fold: bits(T::Scalar::FOLD),
            flip: match direction {
                Direction::Ascending => sign,
                Direction::Descending => !sign,
            },
            turn: match direction {
                Direction::Ascending => least.wrapping_neg(),
                Direction::Descending => least,
            },
            out_keys: std::ptr::null_mut(),
            out_values: std::ptr::null_mut(),
        }
    }
}

/// # Sorting
///
/// By radix: one stable partition for each byte of the numbers. So equal numbers keep their order, and results are the same on
/// every run and every device.
///
/// Floats have a total order: minus zero comes before zero, and **NaNs of both signs come after infinity**, as in numpy, torch and
/// polars, so they are the last of an ascending order, and the first of a descending one and of [`top_k`](Self::top_k). Every
/// number keeps its bits; of NaNs those without a sign come first, and each sign is in the order of [`f32::total_cmp`].
impl Primitives {
    /// The numbers, sorted.
    ///
    /// ```
    /// use gpumap::Device;
    /// use gpumap::primitives::{Direction, Primitives};
    ///
    /// let primitives = Primitives::new(&Device::cpu());
    /// let sorted = primitives.sort(&[0.5f32, -3.0, 8.0], Direction::Descending)?;
    /// assert_eq!(sorted, [8.0, 0.5, -3.0]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::WrongDevice`], [`Error::Driver`].
    pub fn sort<T: Element>(
        &self,
        numbers: &(impl Input<T> + ?Sized),
        direction: Direction,
    ) -> Result<Vec<T>> {
        let (sorted, _) = self.sorted::<T, ()>(numbers, None::<&[()]>, direction)?;
        Ok(sorted)
    }

    /// The same, into a buffer or a part of one.
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`], before anything is written; else as for [`sort`](Self::sort).
    pub fn sort_into<'a, T: Element>(
        &self,
        numbers: &(impl Input<T> + ?Sized),
        direction: Direction,
        output: impl Into<BufferViewMut<'a, T>>,
    ) -> Result<()> {
        let (numbers, output) = (numbers.source(), output.into());
        expect_room(numbers.len(), output.len())?;
        let mut scratch = self.scratch.take()?;
        let job = Job {
            // SAFETY: the workspace waits for its stream before this call returns.
            keys: unsafe { scratch.stage(ScratchRole::Keys, numbers) }?.cast(),
            out_keys: scratch.target(output)?.cast(),
            ..Job::new::<T>(numbers.len(), direction)
        };
        // SAFETY: staged, and room for as many.
        unsafe { self.sort_staged(&mut scratch, &job) }
    }

    /// Pairs, sorted by their keys; those with equal keys keep their order. Such as the counts of a map by key, or the keys by
    /// count.
    ///
    /// Values have 0, 4 or 8 bytes, aligned as `u32` or `u64`: of others sort the places.
    ///
    /// ```
    /// use gpumap::primitives::{Direction, Primitives};
    /// use gpumap::{Device, Map, Merge};
    ///
    /// let map = Map::<u64, u32>::new(&Device::cpu())?;
    /// map.merge(&[7, 9, 7, 8, 7, 9], 1, Merge::Add)?;
    /// let (keys, counts) = map.retrieve_all()?;
    /// let primitives = Primitives::new(map.device());
    /// let (counts, keys) = primitives.sort_pairs(&counts, &keys, Direction::Descending)?;
    /// assert_eq!((counts, keys), (vec![3, 2, 1], vec![7, 9, 8]));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::LengthMismatch`], [`Error::PairSize`]; else as for [`sort`](Self::sort).
    pub fn sort_pairs<K: Element, V: Value>(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
        direction: Direction,
    ) -> Result<(Vec<K>, Vec<V>)> {
        expect_words::<K, V>()?;
        self.sorted(keys, Some(values), direction)
    }

    /// The same, into buffers or parts of them.
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`], before anything is written; else as for [`sort_pairs`](Self::sort_pairs).
    pub fn sort_pairs_into<'a, K: Element, V: Value>(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
        direction: Direction,
        out_keys: impl Into<BufferViewMut<'a, K>>,
        out_values: impl Into<BufferViewMut<'a, V>>,
    ) -> Result<()> {
        expect_words::<K, V>()?;
        let (keys, values) = (keys.source(), values.source());
        let (out_keys, out_values) = (out_keys.into(), out_values.into());
        let len = keys.len();
        expect_same_len(len, values.len())?;
        expect_room(len, out_keys.len().min(out_values.len()))?;
        let mut scratch = self.scratch.take()?;
        let job = Job {
            // SAFETY: the workspace waits for its stream before this call returns.
            keys: unsafe { scratch.stage(ScratchRole::Keys, keys) }?.cast(),
            // SAFETY: as above.
            values: unsafe { scratch.stage(ScratchRole::Values, values) }?.cast(),
            value_bytes: size_of::<V>(),
            out_keys: scratch.target(out_keys)?.cast(),
            out_values: scratch.target(out_values)?.cast(),
            ..Job::new::<K>(len, direction)
        };
        // SAFETY: staged, and room for as many.
        unsafe { self.sort_staged(&mut scratch, &job) }
    }

    /// The `k` greatest numbers, the greatest first, and where they are; all if there are fewer. Of equal numbers those that come
    /// first. Up to 2^32 - 1 numbers.
    ///
    /// ```
    /// use gpumap::{Device, primitives::Primitives};
    ///
    /// let primitives = Primitives::new(&Device::cpu());
    /// let (greatest, places) = primitives.top_k(&[3i64, -1, 9, 3], 2)?;
    /// assert_eq!((greatest, places), (vec![9, 3], vec![2, 0]));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::CapacityOverflow`] for more numbers; else as for [`sort`](Self::sort).
    pub fn top_k<T: Element>(
        &self,
        numbers: &(impl Input<T> + ?Sized),
        k: usize,
    ) -> Result<(Vec<T>, Vec<u32>)> {
        let numbers = numbers.source();
        let len = numbers.len();
        let mut scratch = self.scratch.take()?;
        let mut greatest = scratch.output::<T>(ScratchRole::Ids, len)?;
        let mut places = scratch.output::<u32>(ScratchRole::Held, len)?;
        let outputs = (greatest.as_mut_ptr(), places.as_mut_ptr());
        // SAFETY: room for as many.
        unsafe { self.sort_with_places(&mut scratch, numbers, outputs) }?;
        let k = k.min(len);
        Ok((scratch.fetch(greatest, k)?, scratch.fetch(places, k)?))
    }

    /// The same, into buffers or parts of them. Returns how many there are, `k` or all.
    ///
    /// ```
    /// use gpumap::primitives::Primitives;
    /// use gpumap::{Buffer, Device, Stream};
    ///
    /// let stream = Stream::new(&Device::cpu())?;
    /// let (mut greatest, mut places) = (Buffer::zeroed(&stream, 2)?, Buffer::zeroed(&stream, 2)?);
    /// let primitives = Primitives::new(stream.device());
    /// let found = primitives.top_k_into(&[0.5f32, 8.0, 2.0], 2, &mut greatest, &mut places)?;
    /// assert_eq!((found, greatest.to_vec()?, places.to_vec()?), (2, vec![8.0, 2.0], vec![1, 2]));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`], before anything is written; else as for [`top_k`](Self::top_k).
    pub fn top_k_into<'a, T: Element>(
        &self,
        numbers: &(impl Input<T> + ?Sized),
        k: usize,
        greatest: impl Into<BufferViewMut<'a, T>>,
        places: impl Into<BufferViewMut<'a, u32>>,
    ) -> Result<usize> {
        let numbers = numbers.source();
        let (greatest, places) = (greatest.into(), places.into());
        let len = numbers.len();
        let k = k.min(len);
        expect_room(k, greatest.len().min(places.len()))?;
        let mut scratch = self.scratch.take()?;
        let sorted = scratch.reserve::<T>(ScratchRole::Ids, len)?;
        let sorted_places = scratch.reserve::<u32>(ScratchRole::Held, len)?;
        let to: *mut u8 = scratch.target(greatest)?.cast();
        let to_places: *mut u8 = scratch.target(places)?.cast();
        // SAFETY: reserved, and the first `k` fit the outputs, which no other call uses before the wait.
        unsafe {
            self.sort_with_places(&mut scratch, numbers, (sorted, sorted_places))?;
            let stream = scratch.stream();
            stream.copy(to, sorted.cast(), k * size_of::<T>())?;
            stream.copy(to_places, sorted_places.cast(), k * size_of::<u32>())?;
        }
        scratch.wait()?;
        Ok(k)
    }

    /// Sorts numbers, the greatest first, and their places with them, and waits.
    ///
    /// # Safety
    /// The outputs are on the device, and have room for as many.
    unsafe fn sort_with_places<T: Element>(
        &self,
        scratch: &mut Workspace,
        numbers: Source<'_, T>,
        (sorted, sorted_places): (*mut T, *mut u32),
    ) -> Result<()> {
        let len = numbers.len();
        if u32::try_from(len).is_err() {
            return Err(crate::error::Error::CapacityOverflow {
                elements: len,
                element_bytes: size_of::<T>(),
            });
        }
        if len == 0 {
            return Ok(());
        }
        let places = scratch.reserve::<u32>(ScratchRole::Values, len)?;
        let job = Job {
            // SAFETY: the workspace waits for its stream before this call returns.
            keys: unsafe { scratch.stage(ScratchRole::Keys, numbers) }?.cast(),
            values: places.cast_const().cast(),
            value_bytes: size_of::<u32>(),
            out_keys: sorted.cast(),
            out_values: sorted_places.cast(),
            ..Job::new::<T>(len, Direction::Descending)
        };
        let number = NumberArgs {
            places,
            n: len as u64,
        };
        // SAFETY: reserved and staged, with room for as many.
        unsafe {
            let grid = Grid::covering(len as u64, THREADS);
            NUMBER.launch(scratch.stream(), grid, number)?;
            self.sort_staged(scratch, &job)
        }
    }

    /// Sorted vectors; without values if there are none.
    fn sorted<K: Element, V: Pod>(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: Option<&(impl Input<V> + ?Sized)>,
        direction: Direction,
    ) -> Result<(Vec<K>, Vec<V>)> {
        let keys = keys.source();
        let len = keys.len();
        let mut scratch = self.scratch.take()?;
        let mut sorted = scratch.output::<K>(ScratchRole::Ids, len)?;
        let mut job = Job {
            // SAFETY: the workspace waits for its stream before this call returns.
            keys: unsafe { scratch.stage(ScratchRole::Keys, keys) }?.cast(),
            out_keys: sorted.as_mut_ptr().cast(),
            ..Job::new::<K>(len, direction)
        };
        let mut beside = None;
        if let Some(values) = values {
            let values = values.source();
            expect_same_len(len, values.len())?;
            // SAFETY: as above.
            job.values = unsafe { scratch.stage(ScratchRole::Values, values) }?.cast();
            job.value_bytes = size_of::<V>();
            let output = beside.insert(scratch.output::<V>(ScratchRole::Held, len)?);
            job.out_values = output.as_mut_ptr().cast();
        }
        // SAFETY: staged, and room for as many.
        unsafe { self.sort_staged(&mut scratch, &job) }?;
        let beside = beside.map(|output| scratch.fetch(output, len));
        Ok((
            scratch.fetch(sorted, len)?,
            beside.transpose()?.unwrap_or_default(),
        ))
    }

    /// Sorts, and waits.
    ///
    /// # Safety
    /// The arrays of the job are on the device, and outputs have room for as many.
    unsafe fn sort_staged(&self, scratch: &mut Workspace, job: &Job) -> Result<()> {
        let &Job {
            len,
            key_bytes,
            value_bytes,
            ..
        } = job;
        if len == 0 {
            return Ok(());
        }
        let other_keys = scratch.reserve::<u8>(ScratchRole::ThirdOutput, len * key_bytes)?;
        let other_values = scratch.reserve::<u8>(ScratchRole::FourthOutput, len * value_bytes)?;
        let kernel = match key_bytes {
            4 => &RANK_4,
            _ => &RANK_8,
        };
        let grid = Grid::covering(len as u64, THREADS);
        let ranks = RankArgs {
            from: job.keys,
            to: job.out_keys,
            n: len as u64,
            fold: job.fold,
            flip: job.flip,
            turn: job.turn,
            back: 0,
        };
        // SAFETY: passed on; the keys of each pass are what the one before has written, and an even number of passes ends in
        // the outputs.
        unsafe {
            kernel.launch(scratch.stream(), grid, ranks)?;
            let mut values = job.values;
            for pass in 0..key_bytes as u32 {
                let (from, to, to_values) = match pass % 2 {
                    0 => (job.out_keys, other_keys, other_values),
                    _ => (other_keys, job.out_keys, job.out_values),
                };
                let sizes = (key_bytes, value_bytes);
                self.stable_pass(scratch, pass, (from, values), (to, to_values), len, sizes)?;
                values = to_values;
            }
            let back = RankArgs {
                from: job.out_keys,
                back: 1,
                ..ranks
            };
            kernel.launch(scratch.stream(), grid, back)?;
        }
        scratch.wait()
    }
}
