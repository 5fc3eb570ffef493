//! Looking keys up.

use std::ptr;

use gpumap_kernels::kernels::GetArgs;
use gpumap_kernels::verbs::look_up::Answers;

use super::table::Table;
use super::{Key, Map, Value};
use crate::buffer::Buffer;
#[cfg(doc)]
use crate::error::Error;
use crate::error::{Result, expect_room};
use crate::input::{Input, Source};
use crate::scratch::{Output, Slot, Workspace};

impl<K: Key, V: Value> Map<K, V> {
    /// Looks keys up: for each its value, or none.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::WrongDevice`], [`Error::Driver`].
    pub fn get(&self, keys: &(impl Input<K> + ?Sized)) -> Result<Vec<Option<V>>> {
        let keys = keys.source();
        let mut scratch = self.scratch.take()?;
        let mut values = scratch.output::<V>(Slot::FirstOutput, keys.len())?;
        let mut found = scratch.output::<u8>(Slot::SecondOutput, keys.len())?;
        self.look_up(
            &mut scratch,
            keys,
            values.as_mut_ptr(),
            found.as_mut_ptr(),
            V::zeroed(),
        )?;
        let values = scratch.fetch(values, keys.len())?;
        let found = scratch.fetch(found, keys.len())?;
        let answer = |(value, found)| (found != 0).then_some(value);
        Ok(values.into_iter().zip(found).map(answer).collect())
    }

    /// Looks keys up into buffers of the device: `values[i]` is the value of `keys[i]`, or
    /// `default` where it is absent.
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`] if `values` is shorter than `keys`; [`Error::WrongDevice`],
    /// [`Error::Driver`].
    pub fn get_or_into(
        &self,
        keys: &(impl Input<K> + ?Sized),
        default: V,
        values: &mut Buffer<V>,
    ) -> Result<()> {
        let keys = keys.source();
        expect_room(keys.len(), values.len())?;
        let mut scratch = self.scratch.take()?;
        let values = scratch.target(values)?;
        self.look_up(&mut scratch, keys, values, ptr::null_mut(), default)?;
        scratch.stream().synchronize()
    }

    /// Looks keys up into buffers of the device: `found[i]` is 1 and `values[i]` the value of
    /// `keys[i]`, or both are 0 where it is absent.
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`] if an output is shorter than `keys`; [`Error::WrongDevice`],
    /// [`Error::Driver`].
    pub fn get_into(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &mut Buffer<V>,
        found: &mut Buffer<u8>,
    ) -> Result<()> {
        let keys = keys.source();
        expect_room(keys.len(), values.len().min(found.len()))?;
        let mut scratch = self.scratch.take()?;
        let values = scratch.target(values)?;
        let found = scratch.target(found)?;
        self.look_up(&mut scratch, keys, values, found, V::zeroed())?;
        scratch.stream().synchronize()
    }

    /// For each key whether it is present.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::WrongDevice`], [`Error::Driver`].
    pub fn contains(&self, keys: &(impl Input<K> + ?Sized)) -> Result<Vec<bool>> {
        let keys = keys.source();
        let mut scratch = self.scratch.take()?;
        let mut found: Output<u8> = scratch.output(Slot::FirstOutput, keys.len())?;
        let found_at = found.as_mut_ptr();
        self.look_up(&mut scratch, keys, ptr::null_mut(), found_at, V::zeroed())?;
        let found = scratch.fetch(found, keys.len())?;
        Ok(found.into_iter().map(|found| found != 0).collect())
    }

    /// For each key whether it is present, into a buffer of the device: `found[i]` is 1 or 0.
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`] if `found` is shorter than `keys`; [`Error::WrongDevice`],
    /// [`Error::Driver`].
    pub fn contains_into(
        &self,
        keys: &(impl Input<K> + ?Sized),
        found: &mut Buffer<u8>,
    ) -> Result<()> {
        let keys = keys.source();
        expect_room(keys.len(), found.len())?;
        let mut scratch = self.scratch.take()?;
        let found = scratch.target(found)?;
        self.look_up(&mut scratch, keys, ptr::null_mut(), found, V::zeroed())
    }

    /// Looks keys up, and waits. Outputs may be null.
    pub(super) fn look_up(
        &self,
        scratch: &mut Workspace,
        keys: Source<'_, K>,
        values: *mut V,
        found: *mut u8,
        default: V,
    ) -> Result<()> {
        let len = keys.len();
        if len == 0 {
            return Ok(());
        }
        // SAFETY: the callers wait for the workspace while they hold `keys`.
        let staged = unsafe { scratch.stage(Slot::Keys, keys) }?;
        let table = self.table.read();
        self.look_up_staged(&table, scratch, staged, len, values, found, default)
    }

    /// Looks up `len` keys that are on the device, and waits. Outputs may be null. To be called
    /// under the table's lock.
    #[expect(
        clippy::too_many_arguments,
        reason = "the two outputs of one verb and its inputs"
    )]
    pub(super) fn look_up_staged(
        &self,
        table: &Table,
        scratch: &mut Workspace,
        keys: *const K,
        len: usize,
        values: *mut V,
        found: *mut u8,
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
        // empty it waits for the lock, and the wait below is inside it.
        unsafe { self.kernels.get.launch(scratch.stream(), grid, args) }?;
        scratch.stream().synchronize()
    }
}
