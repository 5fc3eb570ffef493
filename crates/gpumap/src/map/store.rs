//! The verbs that store pairs, and what happens when they may not fit.
//!
//! A batch that fits whatever its keys are runs beside others. One that may not fit runs alone, and
//! its absent keys are counted first. If they do not fit either, the map grows. Of a batch that is
//! large against the map even then, as much as fits goes in before it grows again, since many of
//! its keys may be equal; such a batch notes what it stores, so that it can be taken back if memory
//! ends, or a fixed capacity.

use std::ptr;

use gpumap_kernels::build::bins::Bins;
use gpumap_kernels::kernels::{CountArgs, StoreArgs, StoreBinsArgs, UndoArgs};
use gpumap_kernels::verbs::store::{Account, Select};
use gpumap_simt::atomic::part::Update;
use gpumap_simt::kernel::Kernel;
use parking_lot::RwLockReadGuard;

use super::bulk::Binned;
use super::grow::PARTS;
use super::launch::grid_of_bins;
use super::merge::Merge;
use super::table::Table;
use super::{Growth, Key, Map, Value};
use crate::buffer::Buffer;
use crate::error::{Error, Result, expect_room};
use crate::input::{Input, Source};
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

/// What is done with keys that are present.
#[derive(Clone, Copy)]
pub(super) enum Verb<K: Key, V: Value> {
    Insert,
    Merge(Update),
    GetOrInsert,
    /// Replaces values by this kernel, which reports what was there.
    Exchange(StoreKernel<K, V>),
}

/// The kernels that store share their arguments.
pub(super) type StoreKernel<K, V> =
    &'static Kernel<StoreArgs<<K as Key>::Bits, <V as Value>::Bits>>;

/// A batch on the device, or the part of it that is still to be done.
#[derive(Clone, Copy)]
pub(super) struct Job<K: Key, V: Value> {
    pub verb: Verb<K, V>,
    pub keys: *const K,
    pub values: *const V,
    /// What the map holds for each key, or held; null unless the verb tells.
    pub held: *mut V,
    /// A zeroed byte per key; may be null.
    pub outcomes: *mut u8,
    /// The same batch, sorted; only if there are no outcomes and the verb does not tell.
    pub bins: Option<Bins<K, V>>,
    pub len: usize,
}

impl<K: Key, V: Value> Job<K, V> {
    /// How many bits it takes to note something of each pair.
    fn places(&self) -> usize {
        self.bins
            .as_ref()
            .map_or(self.len, |bins| bins.len() as usize)
    }

    /// The first `len` keys.
    fn first(self, len: usize) -> Self {
        Self { len, ..self }
    }

    /// What comes after the first `done` keys.
    fn after(self, done: usize) -> Self {
        Self {
            keys: self.keys.wrapping_add(done),
            values: self.values.wrapping_add(done),
            held: offset(self.held, done),
            outcomes: offset(self.outcomes, done),
            len: self.len - done,
            ..self
        }
    }
}

/// Null stays null.
fn offset<T>(pointer: *mut T, by: usize) -> *mut T {
    if pointer.is_null() {
        pointer
    } else {
        pointer.wrapping_add(by)
    }
}

/// What a batch that may be taken back has done so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    pub stored: usize,
    /// Whether pairs have moved to other slots since it began.
    moved: bool,
}

/// What a kernel reports.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    pub stored: usize,
    pub unplaced: usize,
}

/// A map with less than one pair in so many slots does not grow for keys that find no room: they have
/// been made to collide.
const SPARSE: usize = 64;

impl<K: Key, V: Value> Map<K, V> {
    /// Stores pairs whose key is absent; a present key keeps its value. Of several pairs of the
    /// batch with one key, one is stored. Returns how many were.
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

    /// As [`get_or_insert`](Self::get_or_insert), into a buffer of the device as long as the keys or
    /// longer. Returns how many pairs were stored.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert); [`Error::OutputTooSmall`].
    pub fn get_or_insert_into(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
        held: &mut Buffer<V>,
    ) -> Result<usize> {
        self.store_and_tell(keys.source(), values.source(), held)
    }

    pub(super) fn store_and_tell(
        &self,
        keys: Source<'_, K>,
        values: Source<'_, V>,
        held: &mut Buffer<V>,
    ) -> Result<usize> {
        expect_room(keys.len(), held.len())?;
        let mut scratch = self.scratch.take()?;
        let held = scratch.target(held)?;
        self.store_job(&mut scratch, keys, values, |job| Job {
            verb: Verb::GetOrInsert,
            held,
            ..job
        })
    }

    pub(super) fn store(
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
        let outcome = |byte| match byte {
            0 => Outcome::Present,
            _ => Outcome::Inserted,
        };
        let outcomes = scratch.fetch(outcomes, len)?;
        Ok(outcomes.into_iter().map(outcome).collect())
    }

    /// Stages a batch and stores it; `with` says how. Returns how many pairs were stored.
    fn store_job(
        &self,
        scratch: &mut Workspace,
        keys: Source<'_, K>,
        values: Source<'_, V>,
        with: impl FnOnce(Job<K, V>) -> Job<K, V>,
    ) -> Result<usize> {
        if keys.len() != values.len() {
            return Err(Error::LengthMismatch {
                keys: keys.len(),
                values: values.len(),
            });
        }
        if keys.is_empty() {
            return Ok(0);
        }
        // SAFETY: the workspace waits for its stream before this call returns.
        let job = unsafe {
            Job {
                verb: Verb::Insert,
                keys: scratch.stage(Slot::Keys, keys)?,
                values: scratch.stage(Slot::Values, values)?,
                held: ptr::null_mut(),
                outcomes: ptr::null_mut(),
                bins: None,
                len: keys.len(),
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
            if let Some(promise) = self.room.promise(job.len) {
                return self.store_part(table, promise, scratch, job);
            }
        }
        let mut table = self.exclusive();
        let absent = self.count_absent(&table, scratch, job)?;
        if absent == 0 && matches!(job.verb, Verb::Insert) {
            // Nothing to do, and outcomes say so.
            return Ok(0);
        }
        // Nothing is in flight, so what is left is exact.
        if absent > self.room.left() && self.growth != Growth::Fixed {
            match self.make_room(&mut table, absent) {
                // Equal keys may need less than it seems.
                Err(Error::OutOfMemory { .. } | Error::Full { .. }) => {}
                made => made?,
            }
        }
        if absent > self.room.left() {
            return self.store_alone(&mut table, scratch, job);
        }
        if let Some(stored) = self.build_from(&mut table, scratch, job)? {
            return Ok(stored);
        }
        let sorted = self.sorted(&table, scratch, &job)?;
        let job = Job {
            bins: sorted.as_ref().map(Binned::bins),
            ..job
        };
        let report = self.run(&table, scratch, job, Select::All)?;
        self.room.stored(report.stored);
        if report.unplaced == 0 {
            return Ok(report.stored);
        }
        let mut progress = Progress::default();
        self.place_colliding(&mut table, scratch, job, report, &mut progress)?;
        Ok(report.stored + progress.stored)
    }

    /// How many keys of a batch are absent; of several equal ones each.
    fn count_absent(
        &self,
        table: &Table,
        scratch: &mut Workspace,
        job: Job<K, V>,
    ) -> Result<usize> {
        self.expect_sound()?;
        let (grid, batch) = self.share_out(job.keys, ptr::null(), job.len);
        let args = CountArgs {
            view: table.view(),
            batch,
            absent: scratch.counting()?,
        };
        // SAFETY: the kernel set fits the map's types, the keys are staged; the caller holds the
        // table's lock until this has ended.
        unsafe {
            self.kernels
                .count_absent
                .launch(scratch.stream(), grid, args)
        }?;
        let [absent, _] = scratch.counted()?;
        Ok(absent as usize)
    }

    /// Stores what fits for sure, beside other calls.
    fn store_part(
        &self,
        table: RwLockReadGuard<'_, Table>,
        promise: Promise<'_>,
        scratch: &mut Workspace,
        part: Job<K, V>,
    ) -> Result<usize> {
        let sorted = self.sorted(&table, scratch, &part)?;
        let part = Job {
            bins: sorted.as_ref().map(Binned::bins),
            ..part
        };
        let report = self.run(&table, scratch, part, Select::All)?;
        // Under the lock still: who rebuilds the table next takes the books as they are then.
        promise.keep(report.stored);
        drop(table);
        if report.unplaced == 0 {
            return Ok(report.stored);
        }
        let (mut table, mut progress) = (self.exclusive(), Progress::default());
        self.place_colliding(&mut table, scratch, part, report, &mut progress)?;
        Ok(report.stored + progress.stored)
    }

    /// Stores the pairs of a part that found no room though there was some: their keys collide.
    pub(super) fn place_colliding(
        &self,
        table: &mut Table,
        scratch: &mut Workspace,
        part: Job<K, V>,
        Report {
            mut stored,
            mut unplaced,
        }: Report,
        progress: &mut Progress,
    ) -> Result<()> {
        // Ends when the map is sparse, if not before.
        while let Growth::By(factor) = self.growth
            && self.room.len().saturating_mul(SPARSE) >= self.slots()
        {
            let larger = (self.capacity() as f64 * factor) as usize + 1;
            if self.rebuild(table, larger).is_err() {
                break;
            }
            progress.moved = true;
            let report = self.run(table, scratch, part, Select::Unplaced)?;
            self.room.stored(report.stored);
            progress.stored += report.stored;
            unplaced = report.unplaced;
            if unplaced == 0 {
                return Ok(());
            }
            // Keys of one region of the table find more room the larger it is, say those that another
            // map with the same seed gave out one after the other; keys with one walk never do.
            let helped = (factor - 1.0) / 4.0 * stored as f64;
            if report.stored == 0 || (report.stored as f64) < helped {
                break;
            }
            stored += report.stored;
        }
        Err(self.full(part.len, unplaced, true))
    }

    /// Stores a batch that may find no room, and takes it back if it does: all or nothing.
    fn store_alone(
        &self,
        table: &mut Table,
        scratch: &mut Workspace,
        job: Job<K, V>,
    ) -> Result<usize> {
        let outcomes = if job.outcomes.is_null() {
            let outcomes: *mut u8 = scratch.reserve(Slot::SecondOutput, job.len)?;
            // SAFETY: reserved with one byte per key.
            unsafe { scratch.stream().fill(outcomes, 0, job.len) }?;
            outcomes
        } else {
            job.outcomes
        };
        // First the absent keys. Values of present ones, which could not be taken back, are
        // touched when nothing can fail any more.
        let insert = Job {
            verb: Verb::Insert,
            outcomes,
            ..job
        };
        let mut progress = Progress::default();
        let stored = match self.growth {
            Growth::Fixed => self.fill_up(table, scratch, insert, &mut progress),
            Growth::By(_) => self.grow_and_fill(table, scratch, insert, &mut progress),
        };
        if let Err(error) = stored {
            self.undo(table, scratch, insert, progress)?;
            return Err(match error {
                Error::Full { unplaced, .. } => self.full(job.len, unplaced, false),
                other => other,
            });
        }
        let second = Job { outcomes, ..job };
        match job.verb {
            Verb::Insert => {}
            Verb::Merge(_) | Verb::Exchange(_) => {
                self.run(table, scratch, second, Select::NotStored)?;
            }
            Verb::GetOrInsert => {
                self.run(table, scratch, second, Select::All)?;
            }
        }
        Ok(progress.stored)
    }

    /// Inserts a batch into a map that does not grow, down to its last slot.
    fn fill_up(
        &self,
        table: &mut Table,
        scratch: &mut Workspace,
        insert: Job<K, V>,
        progress: &mut Progress,
    ) -> Result<()> {
        loop {
            let report = self.run(table, scratch, insert, Select::UntilFull)?;
            self.room.stored(report.stored);
            progress.stored += report.stored;
            if report.unplaced == 0 {
                return Ok(());
            }
            // Once, as that leaves no tombstones behind.
            self.make_room(table, insert.len - progress.stored)?;
            progress.moved = true;
        }
    }

    /// Inserts a batch into a map that grows, in parts that fit for sure.
    fn grow_and_fill(
        &self,
        table: &mut Table,
        scratch: &mut Workspace,
        insert: Job<K, V>,
        progress: &mut Progress,
    ) -> Result<()> {
        let mut rest = insert;
        while rest.len != 0 {
            let room = self.room.left();
            if room < rest.len.div_ceil(PARTS) {
                match self.make_room(table, rest.len) {
                    Ok(()) => progress.moved = true,
                    // What is left is used to the end: many keys may be present, or equal.
                    Err(Error::OutOfMemory { .. }) if room != 0 => {}
                    Err(error) => return Err(error),
                }
            }
            let part = rest.first(self.room.left().min(rest.len));
            if part.len == 0 {
                return Err(self.full(insert.len, rest.len, false));
            }
            let report = self.run(table, scratch, part, Select::All)?;
            self.room.stored(report.stored);
            progress.stored += report.stored;
            if report.unplaced != 0 {
                self.place_colliding(table, scratch, part, report, progress)?;
            }
            rest = rest.after(part.len);
        }
        Ok(())
    }

    /// Runs a kernel that stores, and waits for it. The caller holds the table's lock.
    pub(super) fn run(
        &self,
        table: &Table,
        scratch: &mut Workspace,
        job: Job<K, V>,
        select: Select,
    ) -> Result<Report> {
        self.expect_sound()?;
        let unplaced = match select {
            // As the run before has left them.
            Select::Unplaced => scratch.bits(),
            _ => scratch.clear_bits(job.places())?,
        };
        let account = Account {
            outcomes: job.outcomes,
            unplaced,
            counters: scratch.counting()?,
            select,
        };
        // Until the kernel has ended well, as far as anyone knows.
        scratch.dirty_bits();
        let [stored, unplaced] = self.or_poison(scratch, |scratch| {
            self.launch(table, scratch, job, account)?;
            scratch.counted()
        })?;
        if unplaced == 0 && select != Select::Unplaced {
            scratch.untouched_bits();
        }
        Ok(Report {
            stored: stored as usize,
            unplaced: unplaced as usize,
        })
    }

    /// Queues a kernel that stores.
    fn launch(
        &self,
        table: &Table,
        scratch: &mut Workspace,
        job: Job<K, V>,
        account: Account,
    ) -> Result<()> {
        let (view, stream) = (table.view(), scratch.stream());
        let (kernel, update) = self.kernel_of(job.verb);
        let (Some(bins), Some(kernels)) = (job.bins, &self.kernels.bulk) else {
            let (grid, batch) = self.share_out(job.keys, job.values, job.len);
            let args = StoreArgs {
                view,
                batch,
                update,
                values: job.held.cast(),
                account,
            };
            // SAFETY: the kernel set fits the map's types; inputs are staged, outputs and bits are
            // as long as the batch; the caller holds the table's lock until this has ended.
            return unsafe { kernel.launch(stream, grid, args) };
        };
        let kernel = match job.verb {
            Verb::Merge(_) => kernels.merge,
            // The verbs that tell are not sorted.
            Verb::Insert | Verb::GetOrInsert | Verb::Exchange(_) => kernels.insert,
        };
        let grid = grid_of_bins(&bins);
        let args = StoreBinsArgs {
            view,
            bins: bins.cast(),
            update,
            account,
        };
        // SAFETY: as above; there is a bit for each place, and the bins live as long as the job.
        unsafe { kernel.launch(stream, grid, args) }
    }

    /// The kernel of a verb, and what it does to values of present keys.
    pub(super) fn kernel_of(&self, verb: Verb<K, V>) -> (StoreKernel<K, V>, Update) {
        match verb {
            Verb::Insert => (self.kernels.insert, Update::Replace),
            Verb::Merge(update) => (self.kernels.merge, update),
            Verb::GetOrInsert => (self.kernels.get_or_insert, Update::Replace),
            Verb::Exchange(kernel) => (kernel, Update::Replace),
        }
    }

    /// Takes back what a batch stored, and waits.
    fn undo(
        &self,
        table: &Table,
        scratch: &mut Workspace,
        job: Job<K, V>,
        Progress { stored, moved }: Progress,
    ) -> Result<()> {
        let (grid, batch) = self.share_out(job.keys, job.values, job.len);
        let args = UndoArgs {
            view: table.view(),
            batch,
            outcomes: job.outcomes,
            buries: u32::from(moved),
        };
        self.or_poison(scratch, |scratch| {
            // SAFETY: the batch has ended and left its outcomes; the exclusive lock keeps all
            // other operations away.
            unsafe { self.kernels.undo.launch(scratch.stream(), grid, args) }?;
            scratch.stream().synchronize()
        })?;
        self.room.removed(stored);
        if !moved {
            self.room.emptied(stored);
        }
        Ok(())
    }

    pub(super) fn full(&self, batch: usize, unplaced: usize, partial: bool) -> Error {
        Error::Full {
            len: self.len(),
            slots: self.slots(),
            batch,
            unplaced,
            partial,
        }
    }
}
