//! The verbs that store pairs, and what happens when they may not fit.
//!
//! A batch that fits whatever its keys are runs beside others. One that may not fit runs alone, and
//! its absent keys are counted first. If they do not fit either, the map grows. Of a batch that is
//! large against the map even then, as much as fits goes in before it grows again, since many of
//! its keys may be equal; such a batch notes what it stores, so that it can be taken back if memory
//! ends, or a fixed capacity.

mod alone;
mod job;
mod run;

pub(super) use alone::Progress;
pub(super) use job::Job;
pub(crate) use job::Verb;
pub(super) use run::Report;

use gpumap_kernels::verbs::store::Select;
use gpumap_simt::atomic::part::Update;
use parking_lot::RwLockReadGuard;

use super::bulk::Binned;
use super::merge::Merge;
use super::table::Table;
use super::{Growth, Key, Map, Value};
use crate::error::{Error, Result, expect_room, expect_same_len};
use crate::input::{Input, Source};
use crate::output::{Output, Sink};
use crate::room::Promise;
use crate::scratch::{Slot, Workspace};

/// What became of one key of a batch that stores pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The key was there before, or another pair of the batch was faster.
    Present,
    /// This pair was stored.
    Inserted,
}

impl Outcome {
    /// As kernels report it.
    pub(super) fn from_byte(byte: u8) -> Self {
        match byte {
            0 => Self::Present,
            _ => Self::Inserted,
        }
    }
}

impl<K: Key, V: Value> Map<K, V> {
    /// Stores pairs whose key is absent; a present key keeps its value. Of several pairs of the
    /// batch with one key, one is stored. Returns how many were.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, u32>::new(&Device::cpu())?;
    /// assert_eq!(map.insert(&[1, 2], &[10, 20])?, 2);
    /// assert_eq!(map.insert(&[2, 3], &[99, 30])?, 1);
    /// assert_eq!(map.get(&[1, 2, 3])?, [Some(10), Some(20), Some(30)]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::LengthMismatch`]; [`Error::OutOfMemory`], or [`Error::Full`] if the map does not
    /// grow, and then nothing of the batch is in the map, unless that error says `partial`;
    /// [`Error::WrongDevice`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn insert(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
    ) -> Result<usize> {
        self.store(Verb::Insert, keys.source(), values.source())
    }

    /// As [`insert`](Self::insert), and says for each pair whether it was stored.
    ///
    /// ```
    /// use gpumap::{Device, Map, Outcome};
    /// let map = Map::<u32, u32>::new(&Device::cpu())?;
    /// map.insert(&[1], &[10])?;
    /// let outcomes = map.insert_with_outcome(&[1, 2], &[11, 20])?;
    /// assert_eq!(outcomes, [Outcome::Present, Outcome::Inserted]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn insert_with_outcome(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
    ) -> Result<Vec<Outcome>> {
        self.store_with_outcome(Verb::Insert, keys.source(), values.source())
    }

    /// Stores pairs; a present key gets the new value. Of several pairs of the batch with one key,
    /// one is there in the end. Returns how many keys were new.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, u32>::new(&Device::cpu())?;
    /// map.insert(&[1, 2], &[10, 20])?;
    /// assert_eq!(map.upsert(&[2, 3], &[99, 30])?, 1);
    /// assert_eq!(map.get(&[1, 2, 3])?, [Some(10), Some(99), Some(30)]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn upsert(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
    ) -> Result<usize> {
        self.store(Verb::Merge(Update::Replace), keys.source(), values.source())
    }

    /// As [`upsert`](Self::upsert), and says for each pair whether its key was new.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn upsert_with_outcome(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
    ) -> Result<Vec<Outcome>> {
        let verb = Verb::Merge(Update::Replace);
        self.store_with_outcome(verb, keys.source(), values.source())
    }

    /// Merges values with those of present keys, and stores the pairs whose key is absent. Several
    /// pairs of the batch may have one key: all are merged. Returns how many keys were new.
    ///
    /// ```
    /// use gpumap::{Device, Map, Merge};
    /// let counts = Map::<u32, u64>::with_capacity(&Device::cpu(), 10)?;
    /// assert_eq!(counts.merge(&[7, 8, 7, 7], &[1, 1, 1, 1], Merge::Add)?, 2);
    /// assert_eq!(counts.get(&[7, 8])?, [Some(3), Some(1)]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn merge(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
        merge: Merge,
    ) -> Result<usize> {
        let verb = Verb::Merge(merge.update::<V>());
        self.store(verb, keys.source(), values.source())
    }

    /// Stores pairs whose key is absent, and returns for each key the value that the map holds:
    /// its own where it was stored, else the one that was there.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, u32>::new(&Device::cpu())?;
    /// map.insert(&[1], &[10])?;
    /// assert_eq!(map.get_or_insert(&[1, 2], &[11, 20])?, [10, 20]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn get_or_insert(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
    ) -> Result<Vec<V>> {
        let (keys, values) = (keys.source(), values.source());
        let mut scratch = self.scratch.take()?;
        let mut held = scratch.output::<V>(Slot::FirstOutput, keys.len())?;
        let held_at = held.as_mut_ptr();
        self.store_job(&mut scratch, keys, values, |job| Job {
            verb: Verb::GetOrInsert,
            held: held_at,
            ..job
        })?;
        scratch.fetch(held, keys.len())
    }

    /// As [`get_or_insert`](Self::get_or_insert), into memory of the host or of the device: `held[i]` is the
    /// value of `keys[i]`. Returns how many pairs were stored.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, u32>::new(&Device::cpu())?;
    /// map.insert(&[1], &[10])?;
    /// let mut held = [0; 2];
    /// assert_eq!(map.get_or_insert_into(&[1, 2], &[11, 20], &mut held)?, 1);
    /// assert_eq!(held, [10, 20]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`insert`](Self::insert); [`Error::OutputTooSmall`].
    pub fn get_or_insert_into(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
        held: &mut (impl Output<V> + ?Sized),
    ) -> Result<usize> {
        self.store_and_tell(keys.source(), values.source(), held.sink())
    }

    /// As [`get_or_insert_into`](Self::get_or_insert_into).
    pub(super) fn store_and_tell(
        &self,
        keys: Source<'_, K>,
        values: Source<'_, V>,
        held: Sink<'_, V>,
    ) -> Result<usize> {
        expect_room(keys.len(), held.len())?;
        let len = keys.len();
        let mut scratch = self.scratch.take()?;
        let mut held = scratch.landing(Slot::FirstOutput, held, len)?;
        let held_at = held.as_mut_ptr();
        let stored = self.store_job(&mut scratch, keys, values, |job| Job {
            verb: Verb::GetOrInsert,
            held: held_at,
            ..job
        })?;
        scratch.land(held, len)?;
        Ok(stored)
    }

    pub(crate) fn store(
        &self,
        verb: Verb<K, V>,
        keys: Source<'_, K>,
        values: Source<'_, V>,
    ) -> Result<usize> {
        let mut scratch = self.scratch.take()?;
        self.store_job(&mut scratch, keys, values, |job| Job { verb, ..job })
    }

    fn store_with_outcome(
        &self,
        verb: Verb<K, V>,
        keys: Source<'_, K>,
        values: Source<'_, V>,
    ) -> Result<Vec<Outcome>> {
        let len = keys.len();
        let mut scratch = self.scratch.take()?;
        let mut outcomes = scratch.output::<u8>(Slot::FirstOutput, len)?;
        let outcomes_at = outcomes.as_mut_ptr();
        // SAFETY: one byte per key.
        unsafe { scratch.stream().fill(outcomes_at, 0, len) }?;
        self.store_job(&mut scratch, keys, values, |job| Job {
            verb,
            outcomes: outcomes_at,
            ..job
        })?;
        let outcomes = scratch.fetch(outcomes, len)?;
        Ok(outcomes.into_iter().map(Outcome::from_byte).collect())
    }

    /// Stages a batch and stores it; `with` says how. Returns how many pairs were stored.
    fn store_job(
        &self,
        scratch: &mut Workspace,
        keys: Source<'_, K>,
        values: Source<'_, V>,
        with: impl Fn(Job<K, V>) -> Job<K, V>,
    ) -> Result<usize> {
        expect_same_len(keys.len(), values.len())?;
        if keys.is_empty() {
            return Ok(0);
        }
        if let Some(stored) = self.store_in_pieces(scratch, keys, values, &with)? {
            return Ok(stored);
        }
        // SAFETY: the workspace waits for its stream before this call returns.
        let job = unsafe {
            Job {
                keys: scratch.stage(Slot::Keys, keys)?,
                values: scratch.stage(Slot::Values, values)?,
                ..Job::insert(keys.len())
            }
        };
        self.store_all(scratch, with(job))
    }

    /// Stores a batch: beside other calls if it fits for sure, else alone, growing as need be.
    pub(super) fn store_all(&self, scratch: &mut Workspace, job: Job<K, V>) -> Result<usize> {
        if let Some(mut table) = self.alone_to_build(&job)
            && let Some(stored) = self.build_from(&mut table, scratch, job)?
        {
            return Ok(stored);
        }
        {
            let table = self.table.read();
            if let Some(promise) = self.books.room.promise(job.len) {
                return self.store_part(table, promise, scratch, job);
            }
        }
        let mut table = self.exclusive()?;
        // In order it is counted faster too.
        let mut sorted = self.sorted(&table, scratch, &job)?;
        let absent = self.count_absent(&table, scratch, job.sorted(sorted.as_ref()))?;
        if absent == 0 && matches!(job.verb, Verb::Insert) {
            // Nothing to do, and outcomes say so.
            return Ok(0);
        }
        // Nothing is in flight, so what is left is exact.
        if absent > self.books.room.left() && self.growth != Growth::Fixed {
            self.try_to_grow(&mut table, absent, &mut sorted)?;
        }
        if absent > self.books.room.left() {
            // By parts of the batch as it came.
            drop(sorted);
            return self.store_alone(&mut table, scratch, job);
        }
        self.store_fitting(&mut table, scratch, job, sorted.as_ref())
    }

    /// Stores a batch that fits, alone on the map: page by page if that pays, and in order if it has been sorted.
    fn store_fitting(
        &self,
        table: &mut Table,
        scratch: &mut Workspace,
        job: Job<K, V>,
        sorted: Option<&Binned>,
    ) -> Result<usize> {
        let (in_bins, job) = (sorted.map(Binned::in_bins), job.sorted(sorted));
        let given = in_bins.as_ref();
        let made = match self.build_from_bins(table, scratch, job, given)? {
            // Perhaps there are more pages than can be reached from these bins.
            None if given.is_some() => self.build_from(table, scratch, job)?,
            made => made,
        };
        if let Some(stored) = made {
            return Ok(stored);
        }
        let report = self.run(table, scratch, job, Select::All)?;
        self.books.room.stored(report.stored);
        if report.unplaced == 0 {
            return Ok(report.stored);
        }
        let mut progress = Progress::default();
        self.place_colliding(table, scratch, job, report, &mut progress)?;
        Ok(report.stored + progress.stored)
    }

    /// Grows for so many absent keys, if there is memory for that: if need be, that which the sorted batch takes.
    /// Equal keys may need less than it seems.
    fn try_to_grow(
        &self,
        table: &mut Table,
        absent: usize,
        sorted: &mut Option<Binned>,
    ) -> Result<()> {
        let mut grown = self.make_room(table, absent);
        if matches!(grown, Err(Error::OutOfMemory { .. })) && sorted.take().is_some() {
            grown = self.make_room(table, absent);
        }
        match grown {
            Err(Error::OutOfMemory { .. } | Error::Full { .. }) => Ok(()),
            grown => grown,
        }
    }

    /// Stores what fits for sure, beside other calls.
    pub(super) fn store_part(
        &self,
        table: RwLockReadGuard<'_, Table>,
        promise: Promise<'_>,
        scratch: &mut Workspace,
        part: Job<K, V>,
    ) -> Result<usize> {
        let sorted = match part.bins {
            Some(_) => None,
            None => self.sorted(&table, scratch, &part)?,
        };
        let part = part.sorted(sorted.as_ref());
        let report = self.run(&table, scratch, part, Select::All)?;
        // Under the lock still: who rebuilds the table next takes the books as they are then.
        promise.keep(report.stored);
        drop(table);
        if report.unplaced == 0 {
            return Ok(report.stored);
        }
        let (mut table, mut progress) = (self.exclusive()?, Progress::default());
        self.place_colliding(&mut table, scratch, part, report, &mut progress)?;
        Ok(report.stored + progress.stored)
    }
}
