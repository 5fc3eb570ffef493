//! The verbs that take pairs away.

use std::ptr;
use std::sync::atomic::Ordering;

use gpumap_kernels::count::Counters;
use gpumap_kernels::kernels::RemoveArgs;
use gpumap_kernels::verbs::store::Select;
use gpumap_simt::kernel::{Kernel, Launcher};

use super::grow::TRIES;
use super::look_up::{LookUp, Outputs};
use super::store::{Job, Progress};
use super::table::Table;
use super::{Key, Map, Value};
use crate::error::{Error, Result};
use crate::input::{Input, Source};
use crate::memory::host_vec;
use crate::output::found_values_in;
use crate::primitives::Order;
use crate::scratch::{Slot, Workspace};

type RemoveKernel<K, V> = &'static Kernel<RemoveArgs<<K as Key>::Bits, <V as Value>::Bits>>;

/// What a removal tells.
#[derive(Clone, Copy)]
pub(super) enum Tells<K: Key, V: Value> {
    /// How many pairs were there.
    Count,
    /// Also of each key whether its pair was removed for it: one byte per key.
    Found(*mut u8),
    /// Also what the values were, by this kernel.
    Values(RemoveKernel<K, V>, Outputs<V>),
}

/// A batch on the device whose pairs are removed.
#[derive(Clone, Copy)]
pub(super) struct Removal<K: Key, V: Value> {
    pub keys: *const K,
    pub len: usize,
    pub tells: Tells<K, V>,
}

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
        self.take_away(&table, &mut scratch, keys.source(), Tells::Count)
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
            self.take_away(&table, &mut scratch, keys, Tells::Found(found_at))?;
        }
        let found = scratch.fetch(found, keys.len())?;
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
        let mut scratch = self.scratch.take()?;
        let mut values = scratch.output::<V>(Slot::FirstOutput, keys.len())?;
        let mut found = scratch.output::<u8>(Slot::SecondOutput, keys.len())?;
        let outputs = Outputs::new(values.as_mut_ptr(), found.as_mut_ptr());
        {
            // Alone: a value that is read may be updated before its pair is removed.
            let table = self.exclusive();
            let tells = Tells::Values(self.kernels.take, outputs);
            self.take_away(&table, &mut scratch, keys, tells)?;
        }
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
        self.empty(&mut self.exclusive())
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
        let mut scratch = self.scratch.take()?;
        let mut table = self.exclusive();
        let pairs = self.retrieve_from(&table, Order::Any, &mut scratch)?;
        self.empty(&mut table)?;
        Ok(pairs)
    }

    /// Keeps the pairs whose key is in the batch, and removes all others. Returns how many were
    /// removed. Waits for the calls in flight.
    ///
    /// Pairs that stay are stored anew, in a second table if there is memory for one. A map that is
    /// so full that they do not find room in another order becomes larger, whatever its
    /// [growth](crate::Growth).
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, u32>::new(&Device::cpu())?;
    /// map.insert(&[1, 2, 3], &[10, 20, 30])?;
    /// assert_eq!(map.retain_keys(&[3, 4])?, 2);
    /// assert_eq!(map.retrieve_all()?, (vec![3], vec![30]));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) before anything is removed;
    /// [`Error::Full`](crate::Error::Full) if keys that were made to collide find no room, and
    /// unless that says `partial` the map is as it was;
    /// [`Error::WrongDevice`](crate::Error::WrongDevice),
    /// [`Error::Poisoned`](crate::Error::Poisoned), [`Error::Driver`](crate::Error::Driver).
    pub fn retain_keys(&self, keys: &(impl Input<K> + ?Sized)) -> Result<usize> {
        let keys = keys.source();
        let mut scratch = self.scratch.take()?;
        let mut table = self.exclusive();
        self.keep_only(&mut table, &mut scratch, keys)
    }

    /// Takes out the pairs of the batch and puts them into a table of their own, or, for want of
    /// memory, back into the same one.
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
        // Allocated now: once the table is empty, nothing may fail for want of memory.
        scratch.clear_bits(len)?;
        let look_up = LookUp {
            keys: staged,
            len,
            outputs: Outputs::new(values, found),
        };
        self.look_up_staged(table, scratch, look_up)?;
        let kept = Job {
            keys: staged,
            values,
            outcomes: found,
            ..Job::insert(len)
        };
        let (fresh, stored) = match self.table_of(table, scratch, kept) {
            Ok(made) => made,
            Err(Error::OutOfMemory { .. }) if self.fits_again(table, scratch, kept)? => {
                let stored = self.put_back(table, scratch, kept)?;
                return Ok(before - stored);
            }
            Err(error) => return Err(error),
        };
        let capacity = fresh.shape.capacity;
        self.note_shape(&fresh.shape);
        *table = fresh;
        self.room.rebuilt(stored, capacity);
        Ok(before - stored)
    }

    /// Whether the pairs of a batch that are present find room in the emptied table for sure, and
    /// nobody goes on dumping it as it is.
    fn fits_again(&self, table: &Table, scratch: &mut Workspace, batch: Job<K, V>) -> Result<bool> {
        let present = batch.len - self.count_absent(table, scratch, batch)?;
        Ok(!table.is_shared() && present <= self.capacity())
    }

    /// Empties the table, stores the marked pairs of a batch in it, and returns how many they are.
    fn put_back(
        &self,
        table: &mut Table,
        scratch: &mut Workspace,
        marked: Job<K, V>,
    ) -> Result<usize> {
        self.empty(table)?;
        let report = self.or_poison(scratch, |scratch| {
            self.run(table, scratch, marked, Select::Marked)
        })?;
        self.room.stored(report.stored);
        let mut progress = Progress::default();
        if report.unplaced != 0 {
            self.place_colliding(table, scratch, marked, report, &mut progress)?;
        }
        Ok(report.stored + progress.stored)
    }

    /// A table like the map's that has the marked pairs of a batch and nothing else, and how many
    /// they are. It is larger if they do not find room in the order of the batch, as may be in a
    /// map that is full.
    fn table_of(
        &self,
        table: &Table,
        scratch: &mut Workspace,
        marked: Job<K, V>,
    ) -> Result<(Table, usize)> {
        let mut shape = table.shape.clone();
        let mut unplaced = 0;
        for _ in 0..TRIES {
            let fresh = Table::new(table.stream(), shape, self.seed)?;
            let report = self.run(&fresh, scratch, marked, Select::Marked)?;
            if report.unplaced == 0 {
                return Ok((fresh, report.stored));
            }
            unplaced = report.unplaced;
            let capacity = fresh.shape.capacity;
            shape = self
                .shape_for(capacity + capacity / 4 + 1)?
                .aligned_to(&table.shape);
        }
        Err(self.full(marked.len, unplaced, false))
    }

    /// Removes keys, and waits. The caller holds the table's lock, and what is told has places for
    /// all keys.
    pub(super) fn take_away(
        &self,
        table: &Table,
        scratch: &mut Workspace,
        keys: Source<'_, K>,
        tells: Tells<K, V>,
    ) -> Result<usize> {
        if keys.is_empty() {
            return Ok(0);
        }
        let only_counts = matches!(tells, Tells::Count);
        if only_counts && let Some(removed) = self.remove_in_pieces(table, keys)? {
            return Ok(removed);
        }
        let removal = Removal {
            // SAFETY: the wait below is over before the keys are given back.
            keys: unsafe { scratch.stage(Slot::Keys, keys) }?,
            len: keys.len(),
            tells,
        };
        self.expect_sound()?;
        if only_counts
            && let Some(removed) = self.remove_sorted(table, scratch, removal.keys, removal.len)?
        {
            self.room.removed(removed);
            return Ok(removed);
        }
        let counters = scratch.counting()?;
        let [removed, ..] = self.or_poison(scratch, |scratch| {
            // SAFETY: the keys are staged, and what is told has a place for each; the caller holds
            // the table's lock until this has ended.
            unsafe { self.launch_removal(table, scratch.stream(), removal, counters) }?;
            scratch.counted()
        })?;
        self.room.removed(removed as usize);
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
        removal: Removal<K, V>,
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
