//! Looking keys up.

use std::mem::MaybeUninit;
use std::ptr;

use super::chunked::Wanted;
use super::command::{Batch, Command, Kind};
use super::{Core, Key, Map, Value, bits};
use crate::array::Array;
#[cfg(doc)]
use crate::error::Error;
use crate::error::{Result, expect_room};
use crate::input::{Input, Source};
use crate::memory::{bytes_of_places, host_vec};
use crate::output::Output;
use crate::scratch::{Fill, Places, ScratchRole};

/// Bytes that outputs are a multiple of.
const WORD: usize = size_of::<u64>();

/// # Look up
impl<K: Key, V: Value> Map<K, V> {
    /// Looks keys up: for each its value, or none.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, f32>::new(&Device::cpu())?;
    /// map.insert(&[1, 2], &[0.1, 0.2])?;
    /// assert_eq!(map.get(&[2, 3, 2])?, [Some(0.2), None, Some(0.2)]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::WrongDevice`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn get(&self, keys: &(impl Input<K> + ?Sized)) -> Result<Vec<Option<V>>> {
        let wanted = Wanted::BOTH;
        // SAFETY: the places are for options, the answers values and bytes.
        unsafe { self.collect(keys.source(), wanted, V::zeroed(), fill_options::<V>) }
    }

    /// Looks keys up: for each its value, or `default` where it is absent. The answers of
    /// [`get`](Self::get) with values of 4 or 8 bytes take twice as much memory, which for large batches is most of what a lookup
    /// into new memory costs.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, u32>::new(&Device::cpu())?;
    /// map.insert(&[1, 2], &[10, 20])?;
    /// assert_eq!(map.get_or(&[2, 3], 99)?, [20, 99]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::WrongDevice`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn get_or(&self, keys: &(impl Input<K> + ?Sized), default: V) -> Result<Vec<V>> {
        // SAFETY: the places are for values, and so are the answers.
        unsafe { self.collect(keys.source(), Wanted::VALUES, default, fill_values::<V>) }
    }

    /// Looks keys up into memory of the host or of the device: `values[i]` is the value of
    /// `keys[i]`, or `default` where it is absent.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, u32>::new(&Device::cpu())?;
    /// map.insert(&[1, 2], &[10, 20])?;
    /// let mut values = [0; 3];
    /// map.get_or_into(&[2, 3], 99, &mut values)?;
    /// assert_eq!(values, [20, 99, 0]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`] if `values` is shorter than `keys`; [`Error::OutOfMemory`],
    /// [`Error::WrongDevice`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn get_or_into(
        &self,
        keys: &(impl Input<K> + ?Sized),
        default: V,
        values: &mut (impl Output<V> + ?Sized),
    ) -> Result<()> {
        let (keys, values) = (keys.source(), values.sink());
        expect_room(keys.len(), values.len())?;
        self.core.run(Batch {
            default: bits(default),
            outputs: [Some(values.into()), None],
            ..Batch::of(Kind::Get, keys.into())
        })?;
        Ok(())
    }

    /// Looks keys up into memory of the host or of the device: `found[i]` is 1 and `values[i]` the
    /// value of `keys[i]`, or both are 0 where it is absent.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, u64>::new(&Device::cpu())?;
    /// map.insert(&[1, 2], &[10, 20])?;
    /// let (mut values, mut found) = ([0; 3], [0; 3]);
    /// map.get_into(&[2, 3, 1], &mut values, &mut found)?;
    /// assert_eq!((values, found), ([20, 0, 10], [1, 0, 1]));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`] if an output is shorter than `keys`; [`Error::OutOfMemory`],
    /// [`Error::WrongDevice`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn get_into(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &mut (impl Output<V> + ?Sized),
        found: &mut (impl Output<u8> + ?Sized),
    ) -> Result<()> {
        let (keys, values, found) = (keys.source(), values.sink(), found.sink());
        expect_room(keys.len(), values.len().min(found.len()))?;
        self.core.run(Batch {
            outputs: [Some(values.into()), Some(found.into())],
            ..Batch::of(Kind::Get, keys.into())
        })?;
        Ok(())
    }

    /// For each key whether it is present.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, u32>::new(&Device::cpu())?;
    /// map.insert(&[1, 2], &[10, 20])?;
    /// assert_eq!(map.contains(&[2, 3])?, [true, false]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::WrongDevice`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn contains(&self, keys: &(impl Input<K> + ?Sized)) -> Result<Vec<bool>> {
        // SAFETY: the places are for booleans, the answers bytes.
        unsafe { self.collect(keys.source(), Wanted::FOUND, V::zeroed(), fill_booleans) }
    }

    /// For each key whether it is present, into memory of the host or of the device: `found[i]` is
    /// 1 or 0.
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`] if `found` is shorter than `keys`; [`Error::OutOfMemory`],
    /// [`Error::WrongDevice`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn contains_into(
        &self,
        keys: &(impl Input<K> + ?Sized),
        found: &mut (impl Output<u8> + ?Sized),
    ) -> Result<()> {
        let (keys, found) = (keys.source(), found.sink());
        expect_room(keys.len(), found.len())?;
        self.core.run(Batch {
            outputs: [None, Some(found.into())],
            ..Batch::of(Kind::Get, keys.into())
        })?;
        Ok(())
    }

    /// Makes something of each answer, in a new vector.
    ///
    /// # Safety
    /// `fill` writes elements of this type, from values and bytes, of which those are there that are wanted.
    unsafe fn collect<T>(
        &self,
        keys: Source<'_, K>,
        wanted: Wanted,
        default: V,
        fill: Fill,
    ) -> Result<Vec<T>> {
        let len = keys.len();
        let mut answers = host_vec::<T>(len)?;
        let places = bytes_of_places(&mut answers.spare_capacity_mut()[..len]);
        let into = Collecting {
            places,
            element: size_of::<T>(),
            wanted,
            default: bits(default),
            fill,
        };
        // SAFETY: the caller's promise. All places have been written to if there is no error.
        unsafe {
            self.core.collect_answers(keys.into(), into)?;
            answers.set_len(len);
        }
        Ok(answers)
    }
}

/// Answers of a lookup that something is made of, each in its place.
pub(super) struct Collecting<'p> {
    /// Of as many elements as there are keys,
    pub places: &'p mut [MaybeUninit<u8>],
    /// and so many bytes each.
    pub element: usize,
    pub wanted: Wanted,
    pub default: u64,
    pub fill: Fill,
}

impl Core {
    /// Looks keys up, and makes something of each answer.
    ///
    /// # Safety
    /// As for [`Map::collect`].
    unsafe fn collect_answers(&self, keys: Array<'_>, into: Collecting<'_>) -> Result<()> {
        let len = keys.len();
        // SAFETY: the caller's promise.
        let Some(into) = (unsafe { self.collect_in_chunks(keys, into) })? else {
            return Ok(());
        };
        let Collecting {
            places,
            wanted,
            default,
            fill,
            ..
        } = into;
        let mut scratch = self.scratch.take()?;
        let [of_values, of_found] = wanted.bytes(self.pair, len);
        let mut values =
            scratch.output_of_some::<u64>(ScratchRole::FirstOutput, of_values.div_ceil(WORD))?;
        let mut found =
            scratch.output_of_some::<u64>(ScratchRole::SecondOutput, of_found.div_ceil(WORD))?;
        let command = Command {
            value: default,
            out_values: match wanted.values {
                true => values.as_mut_ptr().cast(),
                false => ptr::null_mut(),
            },
            out_flags: match wanted.found {
                true => found.as_mut_ptr().cast(),
                false => ptr::null_mut(),
            },
            ..Command::of(Kind::Get, self.pair, len)
        };
        self.look_up(&mut scratch, keys, command)?;
        if !wanted.found {
            return scratch.fetch_to(values, places);
        }
        let values: Vec<u64> = scratch.fetch(values, usize::MAX)?;
        let found: Vec<u64> = scratch.fetch(found, usize::MAX)?;
        let places = Places {
            to: places.as_mut_ptr().cast(),
            from: [values.as_ptr().cast(), found.as_ptr().cast()],
            len,
        };
        // SAFETY: the caller's promise; there are as many answers.
        unsafe { fill(places) };
        Ok(())
    }
}

/// What [`Map::get`] tells, from values and bytes that say which were found.
///
/// # Safety
/// The places are for as many options of such values.
unsafe fn fill_options<V: Value>(Places { to, from, len }: Places) {
    let (to, values) = (to.cast::<Option<V>>(), from[0].cast::<V>());
    for i in 0..len {
        // SAFETY: the caller's promise.
        unsafe {
            let is_found = from[1].add(i).read() != 0;
            to.add(i)
                .write(is_found.then_some(values.add(i).read_unaligned()));
        }
    }
}

/// What [`Map::get_or`] tells.
///
/// # Safety
/// The places are for as many values.
unsafe fn fill_values<V: Value>(Places { to, from, len }: Places) {
    // SAFETY: the caller's promise.
    unsafe { ptr::copy_nonoverlapping(from[0], to, len * size_of::<V>()) };
}

/// What [`Map::contains`] tells.
///
/// # Safety
/// The places are for as many booleans.
unsafe fn fill_booleans(Places { to, from, len }: Places) {
    let to = to.cast::<bool>();
    for i in 0..len {
        // SAFETY: the caller's promise.
        unsafe { to.add(i).write(from[1].add(i).read() != 0) };
    }
}
