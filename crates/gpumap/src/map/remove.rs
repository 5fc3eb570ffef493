//! The verbs that take pairs away.

use std::ptr;
use std::sync::atomic::Ordering;

use gpumap_kernels::count::Counters;
use gpumap_kernels::kernels::RemoveArgs;
use gpumap_simt::kernel::{Kernel, Launcher};

use super::look_up::Outputs;
use super::table::Table;
use super::{Core, Key, Map, Value};
use crate::array::Array;
use crate::error::{Error, Result};
use crate::input::Input;
use crate::memory::host_vec;
use crate::output::found_values_in;
use crate::primitives::Order;
use crate::scratch::{ScratchRole, Workspace};

type RemoveKernel = &'static Kernel<RemoveArgs<u8, u8>>;

/// What a removal tells.
#[derive(Clone, Copy)]
pub(super) enum Tells {
    /// How many pairs were there.
    Count,
    /// Also of each key whether its pair was removed for it: one byte per key.
    Found(*mut u8),
    /// Also what the values were, by this kernel.
    Values(RemoveKernel, Outputs),
}

/// A batch on the device whose pairs are removed.
#[derive(Clone, Copy)]
pub(super) struct Removal {
    pub keys: *const u8,
    pub len: usize,
    pub tells: Tells,
}

/// # Remove
impl<K: Key, V: Value> Map<K, V> {
    /// Removes keys. Returns how many were present; a key that comes several times counts once.
    ///
    /// The slots of removed pairs are used again when the map is compacted, which it does by
    /// itself before it grows.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, u32>::new(&Device::cpu())?;
    /// map.insert(&[1, 2, 3], &[10, 20, 30])?;
    /// assert_eq!(map.remove(&[2, 3, 3, 4])?, 2);
    /// assert_eq!(map.get(&[1, 2])?, [Some(10), None]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) before anything is removed;
    /// [`Error::WrongDevice`](crate::Error::WrongDevice),
    /// [`Error::Poisoned`](crate::Error::Poisoned), [`Error::Driver`](crate::Error::Driver).
    pub fn remove(&self, keys: &(impl Input<K> + ?Sized)) -> Result<usize> {
        self.core.remove(keys.source().into())
    }

    /// As [`remove`](Self::remove), and says for each key whether it was removed. Of several equal
    /// keys, one was.
    ///
    /// # Errors
    /// As for [`remove`](Self::remove).
    pub fn remove_with_outcome(&self, keys: &(impl Input<K> + ?Sized)) -> Result<Vec<bool>> {
        let found = self.core.remove_with_outcome(keys.source().into())?;
        Ok(found.into_iter().map(|found| found != 0).collect())
    }

    /// Removes keys, and returns their values. Of several equal keys, one gets it. Waits for the
    /// calls in flight.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, u32>::new(&Device::cpu())?;
    /// map.insert(&[1, 2], &[10, 20])?;
    /// assert_eq!(map.remove_with_values(&[2, 3])?, [Some(20), None]);
    /// assert_eq!(map.len(), 1);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`remove`](Self::remove).
    pub fn remove_with_values(&self, keys: &(impl Input<K> + ?Sized)) -> Result<Vec<Option<V>>> {
        let keys = keys.source();
        let told = host_vec(keys.len())?;
        let mut scratch = self.core.scratch.take()?;
        let mut values = scratch.output::<V>(ScratchRole::FirstOutput, keys.len())?;
        let mut found = scratch.output::<u8>(ScratchRole::SecondOutput, keys.len())?;
        let outputs = Outputs::new(values.as_mut_ptr().cast(), found.as_mut_ptr());
        self.core.take(&mut scratch, keys.into(), outputs)?;
        let values = scratch.fetch(values, keys.len())?;
        let found = scratch.fetch(found, keys.len())?;
        Ok(found_values_in(told, values, found))
    }

    /// Removes every pair. Waits for the calls in flight. A map that is
    /// [poisoned](crate::Error::Poisoned) is usable again.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, u32>::new(&Device::cpu())?;
    /// map.insert(&[1, 2], &[10, 20])?;
    /// map.clear()?;
    /// assert!(map.is_empty());
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn clear(&self) -> Result<()> {
        self.core.clear()
    }

    /// Removes every pair and returns all of them, as [`retrieve_all`](Self::retrieve_all) does.
    /// Waits for the calls in flight.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, u32>::new(&Device::cpu())?;
    /// map.insert(&[1], &[10])?;
    /// assert_eq!(map.drain()?, (vec![1], vec![10]));
    /// assert!(map.is_empty());
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) before anything is removed;
    /// [`Error::Poisoned`](crate::Error::Poisoned), [`Error::Driver`](crate::Error::Driver).
    pub fn drain(&self) -> Result<(Vec<K>, Vec<V>)> {
        let mut scratch = self.core.scratch.take()?;
        let mut table = self.core.exclusive()?;
        let pairs = self.retrieve_from(&table, Order::Any, &mut scratch)?;
        self.core.empty(&mut table)?;
        Ok(pairs)
    }
}

impl Core {
    /// See [`Map::remove`].
    pub(crate) fn remove(&self, keys: Array<'_>) -> Result<usize> {
        let mut scratch = self.scratch.take()?;
        let table = self.table.read();
        self.take_away(&table, &mut scratch, keys, Tells::Count)
    }

    /// See [`Map::remove_with_outcome`]: a byte for each key.
    fn remove_with_outcome(&self, keys: Array<'_>) -> Result<Vec<u8>> {
        let mut scratch = self.scratch.take()?;
        let mut found = scratch.output::<u8>(ScratchRole::FirstOutput, keys.len())?;
        let found_at = found.as_mut_ptr();
        {
            let table = self.table.read();
            self.take_away(&table, &mut scratch, keys, Tells::Found(found_at))?;
        }
        scratch.fetch(found, keys.len())
    }

    /// Removes keys, and tells what their values were.
    fn take(&self, scratch: &mut Workspace, keys: Array<'_>, outputs: Outputs) -> Result<usize> {
        // Alone: a value that is read may be updated before its pair is removed.
        let table = self.exclusive()?;
        let tells = Tells::Values(self.kernels.take, outputs);
        self.take_away(&table, scratch, keys, tells)
    }

    /// See [`Map::clear`].
    pub(crate) fn clear(&self) -> Result<()> {
        self.empty(&mut *self.exclusive()?)
    }

    /// Removes keys, and waits. The caller holds the table's lock, and what is told has places for
    /// all keys.
    pub(super) fn take_away(
        &self,
        table: &Table,
        scratch: &mut Workspace,
        keys: Array<'_>,
        tells: Tells,
    ) -> Result<usize> {
        if keys.is_empty() {
            return Ok(0);
        }
        let only_counts = matches!(tells, Tells::Count);
        if only_counts && let Some(removed) = self.remove_in_chunks(table, keys)? {
            return Ok(removed);
        }
        let removal = Removal {
            // SAFETY: the wait below is over before the keys are given back.
            keys: unsafe { scratch.stage(ScratchRole::Keys, keys.bytes()) }?,
            len: keys.len(),
            tells,
        };
        self.expect_sound()?;
        if only_counts
            && let Some(removed) = self.remove_sorted(table, scratch, removal.keys, removal.len)?
        {
            self.state.occupancy.removed(removed);
            return Ok(removed);
        }
        let counters = scratch.counting()?;
        let [removed, ..] = self.or_poison_if_launched(scratch, |scratch| {
            // SAFETY: the keys are staged, and what is told has a place for each; the caller holds
            // the table's lock until this has ended.
            unsafe { self.launch_removal(table, scratch.stream(), removal, counters) }?;
            scratch.counted()
        })?;
        self.state.occupancy.removed(removed as usize);
        Ok(removed as usize)
    }

    /// Launches a removal, or records that.
    ///
    /// # Safety
    /// Keys and places of what is told are as many as it says, on the map's device. They, the
    /// counters and the table are valid until what was launched, or will be, has ended.
    pub(super) unsafe fn launch_removal(
        &self,
        table: &Table,
        on: &impl Launcher<Error = Error>,
        removal: Removal,
        removed: Counters,
    ) -> Result<()> {
        let (kernel, outputs) = match removal.tells {
            Tells::Count => (self.kernels.remove, Outputs::none()),
            Tells::Found(found) => (self.kernels.remove, Outputs::new(ptr::null_mut(), found)),
            Tells::Values(kernel, outputs) => (kernel, outputs),
        };
        let (grid, batch) = self.share_out(removal.keys, ptr::null(), removal.len);
        let args = RemoveArgs {
            view: table.view(),
            batch,
            answers: outputs.answers(),
            removed,
        };
        // SAFETY: the kernel set fits the map's types; the rest is the caller's promise.
        unsafe { kernel.launch(on, grid, args) }
    }

    /// Makes every slot empty, under the exclusive lock.
    pub(super) fn empty(&self, table: &mut Table) -> Result<()> {
        // Half-way through it holds neither what it held nor nothing.
        let poisoned = self.state.poisoned.swap(true, Ordering::AcqRel);
        table.clear()?;
        if poisoned {
            // What failed may have been the news of slabs that were replaced.
            table.publish()?;
        }
        self.state.occupancy.rebuilt(0, self.capacity());
        self.state.poisoned.store(false, Ordering::Release);
        Ok(())
    }
}
