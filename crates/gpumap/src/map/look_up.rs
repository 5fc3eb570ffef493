//! Looking keys up.

use std::mem::MaybeUninit;
use std::ptr;

use gpumap_kernels::kernels::GetArgs;
use gpumap_kernels::verbs::look_up::Answers;
use gpumap_simt::kernel::Launcher;

use super::chunked::Wanted;
use super::table::Table;
use super::{Core, Key, Map, Value, bits};
use crate::array::{Array, ArrayMut};
use crate::error::{Error, Result, expect_room};
use crate::input::{Input, Source};
use crate::memory::{bytes_of_places, host_vec};
use crate::output::Output;
use crate::scratch::{Fill, Places, ScratchRole, Workspace, address_of};

/// Bytes that outputs are a multiple of.
const WORD: usize = size_of::<u64>();

/// Where on the device the answers to a batch go: one place per key, or null where that is not
/// wanted.
#[derive(Clone, Copy)]
pub(super) struct Outputs {
    /// The value of each key.
    pub values: *mut u8,
    /// 1 for each key that was found, 0 for the others.
    pub found: *mut u8,
    /// What absent keys get for a value, as bits.
    pub default: u64,
}

impl Outputs {
    /// Absent keys get zeros.
    pub fn new(values: *mut u8, found: *mut u8) -> Self {
        Self {
            values,
            found,
            default: 0,
        }
    }

    /// Nowhere.
    pub fn none() -> Self {
        Self::new(ptr::null_mut(), ptr::null_mut())
    }

    /// As kernels take them.
    pub fn answers(self) -> Answers<u8> {
        Answers {
            values: self.values,
            found: self.found,
            default: self.default,
        }
    }
}

/// A batch on the device that is looked up.
#[derive(Clone, Copy)]
pub(super) struct LookUp {
    pub keys: *const u8,
    pub len: usize,
    pub outputs: Outputs,
}

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
        let outputs = [Some(values.into()), None];
        self.core.look_up_into(keys.into(), outputs, bits(default))
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
        let outputs = [Some(values.into()), Some(found.into())];
        self.core.look_up_into(keys.into(), outputs, 0)
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
        let outputs = [None, Some(found.into())];
        self.core.look_up_into(keys.into(), outputs, 0)
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
        let outputs = Outputs {
            values: match wanted.values {
                true => values.as_mut_ptr().cast(),
                false => ptr::null_mut(),
            },
            found: match wanted.found {
                true => found.as_mut_ptr().cast(),
                false => ptr::null_mut(),
            },
            default,
        };
        self.look_up(&mut scratch, keys, outputs)?;
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

    /// Looks keys up into memory of the host or of the device, which has room for as many answers: values, if they are wanted,
    /// and bytes that say which keys were found.
    pub(crate) fn look_up_into(
        &self,
        keys: Array<'_>,
        outputs: [Option<ArrayMut<'_>>; 2],
        default: u64,
    ) -> Result<()> {
        let Some([values, found]) = self.look_up_for_host(keys, outputs, default)? else {
            return Ok(());
        };
        let len = keys.len();
        let mut scratch = self.scratch.take()?;
        let mut values = scratch.host_target_if(ScratchRole::FirstOutput, values, len)?;
        let mut found = scratch.host_target_if(ScratchRole::SecondOutput, found, len)?;
        let outputs = Outputs {
            values: address_of(&mut values),
            found: address_of(&mut found),
            default,
        };
        self.look_up(&mut scratch, keys, outputs)?;
        scratch.copy_all_to_host(values.into_iter().chain(found))
    }

    /// Looks keys up, and waits. Outputs are as long as they.
    pub(super) fn look_up(
        &self,
        scratch: &mut Workspace,
        keys: Array<'_>,
        outputs: Outputs,
    ) -> Result<()> {
        let len = keys.len();
        if len == 0 {
            return Ok(());
        }
        // SAFETY: the callers wait for the workspace while they hold `keys`.
        let keys = unsafe { scratch.stage(ScratchRole::Keys, keys.bytes()) }?;
        let table = self.table.read();
        let look_up = LookUp { keys, len, outputs };
        self.look_up_staged(&table, scratch, look_up)
    }

    /// Looks up keys that are on the device, and waits. To be called under the table's lock.
    pub(super) fn look_up_staged(
        &self,
        table: &Table,
        scratch: &mut Workspace,
        look_up: LookUp,
    ) -> Result<()> {
        if self.look_up_sorted(table, scratch, look_up)? {
            return Ok(());
        }
        self.expect_sound()?;
        // SAFETY: the keys are staged and the outputs are as long as the batch; the caller holds
        // the lock until this has ended.
        unsafe { self.launch_look_up(table, scratch.stream(), look_up) }?;
        scratch.wait()
    }

    /// Launches a lookup, or records that.
    ///
    /// # Safety
    /// Keys and outputs are as many as it says, on the map's device. They and the table are valid
    /// until what was launched, or will be, has ended: whatever would free or empty the table waits
    /// for its lock, or for all pending calls.
    pub(super) unsafe fn launch_look_up(
        &self,
        table: &Table,
        on: &impl Launcher<Error = Error>,
        look_up: LookUp,
    ) -> Result<()> {
        let (grid, batch) = self.share_out(look_up.keys, ptr::null(), look_up.len);
        let args = GetArgs {
            view: table.view(),
            batch,
            answers: look_up.outputs.answers(),
        };
        // SAFETY: the kernel set fits the map's types; the rest is the caller's promise.
        unsafe { self.kernels.get.launch(on, grid, args) }
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
