//! The verbs that take pairs away.

use std::ptr;
use std::sync::atomic::Ordering;

use gpumap_kernels::kernels::RemoveArgs;
use gpumap_kernels::verbs::look_up::Answers;
use gpumap_kernels::verbs::store::Select;
use gpumap_simt::kernel::Kernel;

use super::store::{Job, Verb};
use super::table::Table;
use super::{Key, Map, Value};
use crate::error::Result;
use crate::input::{Input, Source};
use crate::output::found_values;
use crate::primitives::Order;
use crate::scratch::{Slot, Workspace};

type RemoveKernel<K, V> = &'static Kernel<RemoveArgs<<K as Key>::Bits, <V as Value>::Bits>>;

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
        let mut scratch = self.scratch.take()?;
        let table = self.table.read();
        let kernel = self.kernels.remove;
        let nowhere = answers::<V>(ptr::null_mut(), ptr::null_mut());
        self.take_away(&table, &mut scratch, kernel, keys.source(), nowhere)
    }

    /// As [`remove`](Self::remove), and says for each key whether it was removed. Of several equal
    /// keys, one was.
    ///
    /// # Errors
    /// As for [`remove`](Self::remove).
    pub fn remove_with_outcome(&self, keys: &(impl Input<K> + ?Sized)) -> Result<Vec<bool>> {
        let keys = keys.source();
        let mut scratch = self.scratch.take()?;
        let mut found = scratch.output::<u8>(Slot::FirstOutput, keys.len())?;
        let found_at = found.as_mut_ptr();
        {
            let table = self.table.read();
            let kernel = self.kernels.remove;
            let answers = answers::<V>(ptr::null_mut(), found_at);
            self.take_away(&table, &mut scratch, kernel, keys, answers)?;
        }
        let found = scratch.fetch(found, keys.len())?;
        Ok(found.into_iter().map(|found| found != 0).collect())
    }

    /// Removes keys, and returns their values. Of several equal keys, one gets it. Waits for the
    /// calls in flight.
    ///
    /// # Errors
    /// As for [`remove`](Self::remove).
    pub fn remove_with_values(&self, keys: &(impl Input<K> + ?Sized)) -> Result<Vec<Option<V>>> {
        let keys = keys.source();
        let mut scratch = self.scratch.take()?;
        let mut values = scratch.output::<V>(Slot::FirstOutput, keys.len())?;
        let mut found = scratch.output::<u8>(Slot::SecondOutput, keys.len())?;
        let (found_at, values_at) = (found.as_mut_ptr(), values.as_mut_ptr());
        {
            // Alone: a value that is read may be updated before its pair is removed.
            let table = self.exclusive();
            let kernel = self.kernels.take;
            let answers = answers(values_at, found_at);
            self.take_away(&table, &mut scratch, kernel, keys, answers)?;
        }
        let values = scratch.fetch(values, keys.len())?;
        let found = scratch.fetch(found, keys.len())?;
        Ok(found_values(values, found))
    }

    /// Removes every pair. Waits for the calls in flight.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn clear(&self) -> Result<()> {
        self.empty(&mut self.exclusive())
    }

    /// Removes every pair and returns all of them, as [`retrieve_all`](Self::retrieve_all) does.
    /// Waits for the calls in flight.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) before anything is removed;
    /// [`Error::Poisoned`](crate::Error::Poisoned), [`Error::Driver`](crate::Error::Driver).
    pub fn drain(&self) -> Result<(Vec<K>, Vec<V>)> {
        let mut scratch = self.scratch.take()?;
        let mut table = self.exclusive();
        let pairs = self.retrieve_from(&table, Order::Any, &mut scratch)?;
        self.empty(&mut table)?;
        Ok(pairs)
    }

    /// Keeps the pairs whose key is in the batch, and removes all others. Returns how many were
    /// removed. Waits for the calls in flight.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) before anything is removed;
    /// [`Error::WrongDevice`](crate::Error::WrongDevice),
    /// [`Error::Poisoned`](crate::Error::Poisoned), [`Error::Driver`](crate::Error::Driver).
    pub fn retain_keys(&self, keys: &(impl Input<K> + ?Sized)) -> Result<usize> {
        let keys = keys.source();
        let mut scratch = self.scratch.take()?;
        let mut table = self.exclusive();
        self.keep_only(&mut table, &mut scratch, keys)
    }

    /// Takes out the pairs of the batch, empties the table, and puts them back.
    fn keep_only(
        &self,
        table: &mut Table,
        scratch: &mut Workspace,
        keys: Source<'_, K>,
    ) -> Result<usize> {
        let len = keys.len();
        let before = self.len();
        if len == 0 {
            self.empty(table)?;
            return Ok(before);
        }
        // SAFETY: what is queued is waited for before the keys are given back.
        let staged = unsafe { scratch.stage(Slot::Keys, keys) }?;
        let values: *mut V = scratch.reserve(Slot::FirstOutput, len)?;
        let found: *mut u8 = scratch.reserve(Slot::SecondOutput, len)?;
        // Allocated now, so that nothing can fail for want of memory once the table is empty.
        scratch.clear_bits(len)?;
        // Pairs that stay get new places. Who is dumping the table goes on with the old ones.
        let fresh = if table.is_shared() {
            Some(Table::new(table.stream(), table.shape.clone(), self.seed)?)
        } else {
            None
        };
        self.look_up_staged(table, scratch, staged, len, (values, found), V::zeroed())?;
        match fresh {
            Some(fresh) => {
                *table = fresh;
                self.room.rebuilt(0, self.capacity());
            }
            None => self.empty(table)?,
        }
        let job = Job {
            verb: Verb::Insert,
            keys: staged,
            values,
            held: ptr::null_mut(),
            outcomes: found,
            bins: None,
            len,
        };
        let report = self.run(table, scratch, job, Select::Marked)?;
        self.room.stored(report.stored);
        Ok(before - report.stored)
    }

    /// Removes keys by one of the kernels that do, and waits. The caller holds the table's lock, and the
    /// answers have places for all keys.
    pub(super) fn take_away(
        &self,
        table: &Table,
        scratch: &mut Workspace,
        kernel: RemoveKernel<K, V>,
        keys: Source<'_, K>,
        answers: Answers<V::Bits>,
    ) -> Result<usize> {
        if keys.is_empty() {
            return Ok(0);
        }
        let only_removes = answers.values.is_null()
            && answers.found.is_null()
            && ptr::eq(kernel, self.kernels.remove);
        if only_removes && let Some(removed) = self.remove_in_pieces(table, keys)? {
            return Ok(removed);
        }
        // SAFETY: the wait below is over before the keys are given back.
        let staged = unsafe { scratch.stage(Slot::Keys, keys) }?;
        self.expect_sound()?;
        if only_removes
            && let Some(removed) = self.remove_sorted(table, scratch, staged, keys.len())?
        {
            self.room.removed(removed);
            return Ok(removed);
        }
        let (grid, batch) = self.share_out(staged, ptr::null(), keys.len());
        let args = RemoveArgs {
            view: table.view(),
            batch,
            answers,
            removed: scratch.counting()?,
        };
        let [removed, ..] = self.or_poison(scratch, |scratch| {
            // SAFETY: the kernel set fits the map's types, the keys are staged and outputs are
            // null or as long as the batch; the caller holds the table's lock until this has ended.
            unsafe { kernel.launch(scratch.stream(), grid, args) }?;
            scratch.counted()
        })?;
        self.room.removed(removed as usize);
        Ok(removed as usize)
    }

    /// Makes every slot empty, under the exclusive lock.
    pub(super) fn empty(&self, table: &mut Table) -> Result<()> {
        // Half-way through it holds neither what it held nor nothing.
        let poisoned = self.poisoned.swap(true, Ordering::AcqRel);
        table.clear()?;
        if poisoned {
            // What failed may have been the news of slabs that were replaced.
            table.publish()?;
        }
        self.room.rebuilt(0, self.capacity());
        self.poisoned.store(false, Ordering::Release);
        Ok(())
    }
}

/// Where answers go; either place may be null.
fn answers<V: Value>(values: *mut V, found: *mut u8) -> Answers<V::Bits> {
    Answers {
        values: values.cast(),
        found,
        default: bytemuck::cast(V::zeroed()),
    }
}
