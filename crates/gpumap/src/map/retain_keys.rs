//! Keeping the pairs of a batch of keys, and no others.

use gpumap_kernels::verbs::store::Select;

use super::command::{Command, Kind};
use super::grow::TRIES;
use super::store::Progress;
use super::table::Table;
use super::{Core, Held, Key, Map, Place, Value};
use crate::array::Array;
use crate::error::{Error, Result};
use crate::input::Input;
use crate::scratch::{ScratchRole, Workspace};

/// # Remove all other keys
impl<K: Key, V: Value, P: Place> Map<K, V, P> {
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
        self.held.retain_keys(keys.source())
    }
}

impl Core {
    /// See [`Map::retain_keys`].
    pub(crate) fn retain_keys(&self, keys: Array<'_>) -> Result<usize> {
        let mut scratch = self.scratch.take()?;
        let mut table = self.exclusive()?;
        self.keep_only(&mut table, &mut scratch, keys)
    }

    /// Takes out the pairs of the batch and puts them into a table of their own, or, for want of
    /// memory, back into the same one.
    fn keep_only(
        &self,
        table: &mut Table,
        scratch: &mut Workspace,
        keys: Array<'_>,
    ) -> Result<usize> {
        let len = keys.len();
        let before = self.len();
        if len == 0 {
            self.empty(table)?;
            return Ok(before);
        }
        // SAFETY: what is queued is waited for before the keys are given back.
        let staged = unsafe { scratch.stage(ScratchRole::Keys, keys.bytes()) }?;
        let values: *mut u8 = scratch.reserve(ScratchRole::FirstOutput, len * self.pair.value)?;
        let found: *mut u8 = scratch.reserve(ScratchRole::SecondOutput, len)?;
        // Allocated now: once the table is empty, nothing may fail for want of memory.
        scratch.clear_bits(len)?;
        let look_up = Command {
            keys: staged,
            out_values: values,
            out_flags: found,
            ..Command::of(Kind::Get, self.pair, len)
        };
        self.look_up_staged(table, scratch, look_up)?;
        let kept = Command {
            keys: staged,
            values,
            out_flags: found,
            ..Command::of(Kind::Insert, self.pair, len)
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
        self.set_shape(&fresh.shape);
        *table = fresh;
        self.state.occupancy.rebuilt(stored, capacity);
        Ok(before - stored)
    }

    /// Whether the pairs of a batch that are present find room in the emptied table for sure, and
    /// no dump of it is in progress.
    fn fits_again(&self, table: &Table, scratch: &mut Workspace, batch: Command) -> Result<bool> {
        let present = batch.len - self.count_absent(table, scratch, batch)?;
        Ok(!table.is_shared() && present <= self.capacity())
    }

    /// Empties the table, stores the marked pairs of a batch in it, and returns how many they are.
    fn put_back(
        &self,
        table: &mut Table,
        scratch: &mut Workspace,
        marked: Command,
    ) -> Result<usize> {
        self.empty(table)?;
        let report = self.or_poison(scratch, |scratch| {
            self.run_store(table, scratch, marked, Select::Marked)
        })?;
        self.state.occupancy.stored(report.stored);
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
        marked: Command,
    ) -> Result<(Table, usize)> {
        let mut shape = table.shape.clone();
        let mut unplaced = 0;
        for _ in 0..TRIES {
            let fresh = Table::new(table.stream(), shape, self.seed)?;
            let report = self.run_store(&fresh, scratch, marked, Select::Marked)?;
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
}
