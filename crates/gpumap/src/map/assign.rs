//! The verbs that change values of present keys, and store nothing.

use gpumap_kernels::count::Counters;
use gpumap_kernels::kernels::AssignArgs;
use gpumap_kernels::source::Batch;
use gpumap_simt::atomic::part::Update;
use gpumap_simt::kernel::Launcher;

use super::merge::Merge;
use super::operand::{Operand, Operands, Values};
use super::table::Table;
use super::{Core, Key, Map, Value};
use crate::array::Array;
use crate::error::{Error, Result};
use crate::input::{Input, Source};
use crate::scratch::ScratchRole;

/// A batch on the device with new values for keys that are present.
#[derive(Clone, Copy)]
pub(super) struct Assignment {
    pub keys: *const u8,
    /// Null if all keys have the same.
    pub values: *const u8,
    /// What comes with every key then, as bits.
    pub value: u64,
    pub len: usize,
    /// What becomes of the value that a key has and of that of the batch.
    pub update: Update,
}

/// # Update if present
impl<K: Key, V: Value> Map<K, V> {
    /// Gives present keys new values; absent keys stay absent, so the map never grows. Of several
    /// pairs of the batch with one key, the value of one is there in the end. Returns how many keys
    /// of the batch were present; one that comes several times counts each time. The name is that of
    /// NVIDIA's HierarchicalKV.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, u32>::new(&Device::cpu())?;
    /// map.insert(&[1, 2], &[10, 20])?;
    /// assert_eq!(map.assign(&[2, 3], &[99, 30])?, 1);
    /// assert_eq!(map.get(&[1, 2, 3])?, [Some(10), Some(99), None]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::LengthMismatch`]; [`Error::OutOfMemory`] before anything is changed;
    /// [`Error::WrongDevice`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn assign(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
    ) -> Result<usize> {
        self.assign_all(Update::Replace, keys.source(), values.source())
    }

    /// Merges values with those of present keys, as [`merge`](Self::merge) does; absent keys stay
    /// absent. Returns how many keys of the batch were present; one that comes several times counts
    /// each time.
    ///
    /// ```
    /// use gpumap::{Device, Map, Merge};
    /// let watched = Map::<u32, u64>::from_pairs(&Device::cpu(), [(7, 0), (8, 0)])?;
    /// assert_eq!(watched.merge_present(&[7, 9, 7], &[1, 1, 1], Merge::Add)?, 2);
    /// assert_eq!(watched.get(&[7, 8, 9])?, [Some(2), Some(0), None]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`assign`](Self::assign).
    pub fn merge_present<Form>(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: impl Operand<V, Form>,
        merge: Merge,
    ) -> Result<usize> {
        self.assign_all(merge.update::<V>(), keys.source(), values.values())
    }

    pub(crate) fn assign_all<'a>(
        &self,
        update: Update,
        keys: Source<'_, K>,
        values: impl Into<Values<'a, V>>,
    ) -> Result<usize> {
        let values = values.into();
        values.expect_for(keys.len())?;
        self.core.assign(update, keys.into(), values.erased())
    }
}

impl Core {
    /// Updates what is present of pairs, of which there are as many values as keys; returns how many keys were.
    fn assign(&self, update: Update, keys: Array<'_>, values: Operands<'_>) -> Result<usize> {
        let len = keys.len();
        if len == 0 {
            return Ok(0);
        }
        let mut scratch = self.scratch.take()?;
        let table = self.table.read();
        if let Some(present) = self.assign_in_chunks(&table, update, keys, values)? {
            return Ok(present);
        }
        // SAFETY: the wait below is over before keys and values are given back.
        let assignment = unsafe {
            Assignment {
                keys: scratch.stage(ScratchRole::Keys, keys.bytes())?,
                values: values.stage(&mut scratch)?,
                value: values.same(),
                len,
                update,
            }
        };
        self.expect_sound()?;
        if let Some(present) = self.assign_sorted(&table, &mut scratch, assignment)? {
            return Ok(present);
        }
        let counters = scratch.counting()?;
        let [present, ..] = self.or_poison_if_launched(&mut scratch, |scratch| {
            // SAFETY: the pairs are staged; the table's lock is held until this has ended.
            unsafe { self.launch_assignment(&table, scratch.stream(), assignment, counters) }?;
            scratch.counted()
        })?;
        Ok(present as usize)
    }

    /// Launches an assignment, or records that.
    ///
    /// # Safety
    /// Keys and values are as many as it says, on the map's device. They, the counters and the table
    /// are valid until what was launched, or will be, has ended.
    pub(super) unsafe fn launch_assignment(
        &self,
        table: &Table,
        on: &impl Launcher<Error = Error>,
        assignment: Assignment,
        present: Counters,
    ) -> Result<()> {
        let Assignment {
            keys, values, len, ..
        } = assignment;
        let (grid, batch) = self.share_out(keys, values, len);
        let args = AssignArgs {
            view: table.view(),
            batch: Batch {
                value: assignment.value,
                ..batch
            },
            update: assignment.update,
            present,
        };
        // SAFETY: the kernel set fits the map's types; the rest is the caller's promise.
        unsafe { self.kernels.assign.launch(on, grid, args) }
    }
}
