//! Looking keys up.

use std::ptr;

use gpumap_kernels::kernels::GetArgs;
use gpumap_kernels::verbs::look_up::Answers;

use super::pieces::Wanted;
use super::table::Table;
use super::{Key, Map, Value};
#[cfg(doc)]
use crate::error::Error;
use crate::error::{Result, expect_room};
use crate::input::{Input, Source};
use crate::output::{Output, found_values};
use crate::scratch::{HostOutput, Places, Slot, Workspace};

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
        let answers = unsafe { self.collect_answers::<_, V, u8>(keys, wanted, fill) }?;
        if let Some(answers) = answers {
            return Ok(answers);
        }
        let mut scratch = self.scratch.take()?;
        let mut values = scratch.output::<V>(Slot::FirstOutput, keys.len())?;
        let mut found = scratch.output::<u8>(Slot::SecondOutput, keys.len())?;
        let to = (values.as_mut_ptr(), found.as_mut_ptr());
        self.look_up(&mut scratch, keys, to, V::zeroed())?;
        let values = scratch.fetch(values, keys.len())?;
        let found = scratch.fetch(found, keys.len())?;
        Ok(found_values(values, found))
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
        let to = (values.as_mut_ptr(), ptr::null_mut());
        self.look_up(&mut scratch, keys, to, default)?;
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
        let to = (values.as_mut_ptr(), found.as_mut_ptr());
        self.look_up(&mut scratch, keys, to, V::zeroed())?;
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
        let answers = unsafe { self.collect_answers::<_, (), u8>(keys, wanted, fill_booleans) }?;
        if let Some(answers) = answers {
            return Ok(answers);
        }
        let mut scratch = self.scratch.take()?;
        let mut found: HostOutput<u8> = scratch.output(Slot::FirstOutput, keys.len())?;
        let to = (ptr::null_mut(), found.as_mut_ptr());
        self.look_up(&mut scratch, keys, to, V::zeroed())?;
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
        let to = (ptr::null_mut(), found.as_mut_ptr());
        self.look_up(&mut scratch, keys, to, V::zeroed())?;
        scratch.land(found, keys.len())
    }

    /// Looks keys up, and waits. Outputs may be null.
    pub(super) fn look_up(
        &self,
        scratch: &mut Workspace,
        keys: Source<'_, K>,
        outputs: (*mut V, *mut u8),
        default: V,
    ) -> Result<()> {
        let len = keys.len();
        if len == 0 {
            return Ok(());
        }
        // SAFETY: the callers wait for the workspace while they hold `keys`.
        let staged = unsafe { scratch.stage(Slot::Keys, keys) }?;
        let table = self.table.read();
        self.look_up_staged(&table, scratch, staged, len, outputs, default)
    }

    /// Looks up `len` keys that are on the device, and waits. Outputs may be null. To be called
    /// under the table's lock.
    pub(super) fn look_up_staged(
        &self,
        table: &Table,
        scratch: &mut Workspace,
        keys: *const K,
        len: usize,
        outputs: (*mut V, *mut u8),
        default: V,
    ) -> Result<()> {
        if self.look_up_sorted(table, scratch, keys, len, outputs, default)? {
            return Ok(());
        }
        self.queue_look_up(table, scratch, keys, len, outputs, default)?;
        scratch.wait()
    }

    /// Queues looking up `len` keys that are on the device. Outputs may be null. To be called under
    /// the table's lock, which is to be held until the workspace has been waited for.
    pub(super) fn queue_look_up(
        &self,
        table: &Table,
        scratch: &mut Workspace,
        keys: *const K,
        len: usize,
        (values, found): (*mut V, *mut u8),
        default: V,
    ) -> Result<()> {
        self.expect_sound()?;
        let (grid, batch) = self.share_out(keys, ptr::null(), len);
        let args = GetArgs {
            view: table.view(),
            batch,
            answers: Answers {
                values: values.cast(),
                found,
                default: bytemuck::cast(default),
            },
        };
        // SAFETY: the kernel set fits the map's types, the keys are staged and the outputs are
        // as long as the batch; the table outlives the launch, because whatever would free or
        // empty it waits for the lock, and the caller holds that until this has ended.
        unsafe { self.kernels.get.launch(scratch.stream(), grid, args) }
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
