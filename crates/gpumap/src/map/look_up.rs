//! Looking keys up.

use std::ptr;

use gpumap_kernels::kernels::GetArgs;
use gpumap_kernels::verbs::look_up::Answers;
use gpumap_simt::kernel::Launcher;

use super::pieces::Wanted;
use super::table::Table;
use super::{Key, Map, Value};
use crate::error::{Error, Result, expect_room};
use crate::input::{Input, Source};
use crate::output::{Output, found_values};
use crate::scratch::{HostOutput, Places, Slot, Workspace};

/// Where on the device the answers to a batch go: one place per key, or null where that is not
/// wanted.
#[derive(Clone, Copy)]
pub(super) struct Outputs<V> {
    /// The value of each key.
    pub values: *mut V,
    /// 1 for each key that was found, 0 for the others.
    pub found: *mut u8,
    /// What absent keys get for a value.
    pub default: V,
}

impl<V: Value> Outputs<V> {
    /// Absent keys get zeros.
    pub fn new(values: *mut V, found: *mut u8) -> Self {
        let default = V::zeroed();
        Self {
            values,
            found,
            default,
        }
    }

    /// Nowhere.
    pub fn none() -> Self {
        Self::new(ptr::null_mut(), ptr::null_mut())
    }

    /// As kernels take them.
    pub fn answers(self) -> Answers<V::Bits> {
        Answers {
            values: self.values.cast(),
            found: self.found,
            default: bytemuck::cast(self.default),
        }
    }
}

/// A batch on the device that is looked up.
#[derive(Clone, Copy)]
pub(super) struct LookUp<K, V> {
    pub keys: *const K,
    pub len: usize,
    pub outputs: Outputs<V>,
}

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
        let keys = keys.source();
        let wanted = Wanted {
            values: true,
            found: true,
        };
        let fill = fill_options::<V>;
        // SAFETY: the places are for options, the answers values and bytes.
        let answers = unsafe { self.collect_answers::<_, V, u8>(keys, wanted, V::zeroed(), fill) }?;
        if let Some(answers) = answers {
            return Ok(answers);
        }
        let mut scratch = self.scratch.take()?;
        let mut values = scratch.output::<V>(Slot::FirstOutput, keys.len())?;
        let mut found = scratch.output::<u8>(Slot::SecondOutput, keys.len())?;
        let outputs = Outputs::new(values.as_mut_ptr(), found.as_mut_ptr());
        self.look_up(&mut scratch, keys, outputs)?;
        let values = scratch.fetch(values, keys.len())?;
        let found = scratch.fetch(found, keys.len())?;
        found_values(values, found)
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
        let keys = keys.source();
        let wanted = Wanted {
            values: true,
            found: false,
        };
        let fill = fill_values::<V>;
        // SAFETY: the places are for values, and so are the answers.
        let answers = unsafe { self.collect_answers::<_, V, ()>(keys, wanted, default, fill) }?;
        if let Some(answers) = answers {
            return Ok(answers);
        }
        let mut scratch = self.scratch.take()?;
        let mut values = scratch.output::<V>(Slot::FirstOutput, keys.len())?;
        let outputs = Outputs {
            default,
            ..Outputs::new(values.as_mut_ptr(), ptr::null_mut())
        };
        self.look_up(&mut scratch, keys, outputs)?;
        scratch.fetch(values, keys.len())
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
        let (keys, mut values) = (keys.source(), values.sink());
        expect_room(keys.len(), values.len())?;
        if self.look_up_for_host(keys, Some(&mut values), None, default)? {
            return Ok(());
        }
        let mut scratch = self.scratch.take()?;
        let mut values = scratch.landing(Slot::FirstOutput, values, keys.len())?;
        let outputs = Outputs {
            values: values.as_mut_ptr(),
            found: ptr::null_mut(),
            default,
        };
        self.look_up(&mut scratch, keys, outputs)?;
        scratch.land(values, keys.len())
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
        let (keys, mut values, mut found) = (keys.source(), values.sink(), found.sink());
        expect_room(keys.len(), values.len().min(found.len()))?;
        if self.look_up_for_host(keys, Some(&mut values), Some(&mut found), V::zeroed())? {
            return Ok(());
        }
        let mut scratch = self.scratch.take()?;
        let mut values = scratch.landing(Slot::FirstOutput, values, keys.len())?;
        let mut found = scratch.landing(Slot::SecondOutput, found, keys.len())?;
        let outputs = Outputs::new(values.as_mut_ptr(), found.as_mut_ptr());
        self.look_up(&mut scratch, keys, outputs)?;
        scratch.land_both(values, found, keys.len())
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
        let keys = keys.source();
        let wanted = Wanted {
            values: false,
            found: true,
        };
        // SAFETY: the places are for booleans, the answers bytes.
        let answers =
            unsafe { self.collect_answers::<_, (), u8>(keys, wanted, V::zeroed(), fill_booleans) }?;
        if let Some(answers) = answers {
            return Ok(answers);
        }
        let mut scratch = self.scratch.take()?;
        let mut found: HostOutput<u8> = scratch.output(Slot::FirstOutput, keys.len())?;
        let outputs = Outputs::new(ptr::null_mut(), found.as_mut_ptr());
        self.look_up(&mut scratch, keys, outputs)?;
        let found = scratch.fetch(found, keys.len())?;
        Ok(found.into_iter().map(|found| found != 0).collect())
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
        let (keys, mut found) = (keys.source(), found.sink());
        expect_room(keys.len(), found.len())?;
        if self.look_up_for_host(keys, None, Some(&mut found), V::zeroed())? {
            return Ok(());
        }
        let mut scratch = self.scratch.take()?;
        let mut found = scratch.landing(Slot::FirstOutput, found, keys.len())?;
        let outputs = Outputs::new(ptr::null_mut(), found.as_mut_ptr());
        self.look_up(&mut scratch, keys, outputs)?;
        scratch.land(found, keys.len())
    }

    /// Looks keys up, and waits. Outputs are as long as they.
    pub(super) fn look_up(
        &self,
        scratch: &mut Workspace,
        keys: Source<'_, K>,
        outputs: Outputs<V>,
    ) -> Result<()> {
        let len = keys.len();
        if len == 0 {
            return Ok(());
        }
        // SAFETY: the callers wait for the workspace while they hold `keys`.
        let keys = unsafe { scratch.stage(Slot::Keys, keys) }?;
        let table = self.table.read();
        let look_up = LookUp { keys, len, outputs };
        self.look_up_staged(&table, scratch, look_up)
    }

    /// Looks up keys that are on the device, and waits. To be called under the table's lock.
    pub(super) fn look_up_staged(
        &self,
        table: &Table,
        scratch: &mut Workspace,
        look_up: LookUp<K, V>,
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
    /// for its lock, or for all flights.
    pub(super) unsafe fn launch_look_up(
        &self,
        table: &Table,
        on: &impl Launcher<Error = Error>,
        look_up: LookUp<K, V>,
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
