//! How a batch that is staged is stored: beside others if it fits for sure, else alone, growing as need be.

use gpumap_kernels::verbs::store::Select;

use super::alone::Progress;
use crate::error::{Error, Result};
use crate::lock::ReadGuard;
use crate::map::bulk::Binned;
use crate::map::command::{Command, Kind};
use crate::map::table::Table;
use crate::map::{Core, Growth};
use crate::occupancy::Reservation;
use crate::scratch::{ScratchRole, Workspace};

impl Core {
    /// Stores a batch: beside other calls if it fits for sure, else alone, growing as need be.
    pub(in crate::map) fn store_all(&self, scratch: &mut Workspace, job: Command) -> Result<usize> {
        if let Some(mut table) = self.alone_to_build(&job)
            && let Some(stored) = self.build_from(&mut table, scratch, job)?
        {
            return Ok(stored);
        }
        {
            let table = self.table.read();
            if let Some(reservation) = self.state.occupancy.reserve_pairs(job.len) {
                return self.store_part(table, reservation, scratch, job);
            }
        }
        let mut table = self.exclusive()?;
        // In order it is counted faster too.
        let sorted = self.sorted(scratch, &job, true)?;
        if self.update_with(&table, scratch, &job, sorted.as_ref())? {
            return Ok(0);
        }
        let absent = self.count_absent(&table, scratch, job.sorted(sorted.as_ref()))?;
        if absent == 0 && matches!(job.kind, Kind::Insert) {
            // Nothing to do, and outcomes say so.
            return Ok(0);
        }
        let stored = self.or_give_back(&mut table, |table| {
            let stored = self.store_absent(table, scratch, job, absent, sorted);
            if stored.is_err() {
                // So that there is memory to shrink.
                scratch.free(job.out_flags.is_null().then_some(ScratchRole::SecondOutput));
            }
            stored
        });
        match stored {
            Err(error @ Error::OutOfMemory { .. }) if self.expect_sound().is_ok() => {
                self.store_in_one_step(&mut table, scratch, job, absent, error)
            }
            stored => stored,
        }
    }

    /// Merges a batch whose keys all seem to be present in one pass, without counting them first. If one is absent after all, or
    /// the merge cannot be taken back, returns false, with the map as it was. The caller holds the table alone.
    fn update_with(
        &self,
        table: &Table,
        scratch: &mut Workspace,
        job: &Command,
        sorted: Option<&Binned>,
    ) -> Result<bool> {
        let Kind::Merge(update) = job.kind else {
            return Ok(false);
        };
        let (Some(inverse), true) = (update.inverse(), job.out_flags.is_null()) else {
            return Ok(false);
        };
        let sample = job.first(job.len.min(self.tuning.sample));
        if self.count_absent(table, scratch, sample)? != 0 {
            return Ok(false);
        }
        let updates = |update| job.sorted(sorted).as_kind(Kind::Update(update));
        let present = self.run_change(table, scratch, updates(update))?;
        if present == job.len {
            return Ok(true);
        }
        self.or_poison(scratch, |scratch| {
            self.run_change(table, scratch, updates(inverse))
        })?;
        Ok(false)
    }

    /// Stores a batch with so many absent keys, alone on the map, which grows by steps: many of them may be equal.
    fn store_absent(
        &self,
        table: &mut Table,
        scratch: &mut Workspace,
        job: Command,
        absent: usize,
        sorted: Option<Binned>,
    ) -> Result<usize> {
        // Nothing is in flight, so what is left is exact.
        if absent > self.state.occupancy.left() && self.growth != Growth::Fixed {
            self.try_to_grow(table, absent)?;
        }
        if absent > self.state.occupancy.left() {
            // By parts of the batch as it came.
            drop(sorted);
            return self.store_alone(table, scratch, job);
        }
        self.store_fitting(table, scratch, job, sorted.as_ref())
    }

    /// Stores a batch for which there was too little memory, though as little of it as can be: one large table is
    /// made, beside which there is no other of the steps to it, and nothing is noted to be taken back.
    /// If that is too much as well, the error says how much it takes.
    fn store_in_one_step(
        &self,
        table: &mut Table,
        scratch: &mut Workspace,
        job: Command,
        absent: usize,
        error: Error,
    ) -> Result<usize> {
        if absent > self.state.occupancy.left() && self.growth == Growth::Fixed {
            let noted = match job.out_flags.is_null() {
                true => Workspace::bytes_of(job.len),
                false => 0,
            };
            return Err(error.of_batch_of(Workspace::bytes_of_bits(job.len) + noted));
        }
        // What the steps have done is undone.
        scratch.begin();
        let bytes = self.bytes_to_store(table, absent, job.len);
        self.or_give_back(table, |table| {
            let bits = scratch.clear_bits(job.places());
            bits.map_err(|error| error.of_batch_of(bytes))?;
            if absent > self.state.occupancy.left() {
                let bits = Workspace::bytes_of_bits(job.len);
                let grown = self.make_room_for_all(table, absent);
                grown.map_err(|error| error.of_batch_with(bits))?;
            }
            let stored = self.store_fitting(table, scratch, job, None);
            if stored.is_err() {
                scratch.free(None);
            }
            stored
        })
    }

    /// Stores a batch that fits, alone on the map: page by page if that pays, and in order if it has been sorted.
    fn store_fitting(
        &self,
        table: &mut Table,
        scratch: &mut Workspace,
        job: Command,
        sorted: Option<&Binned>,
    ) -> Result<usize> {
        let (in_bins, job) = (sorted.map(Binned::in_bins), job.sorted(sorted));
        // Keys alone are not what pages are made from.
        let given = in_bins.as_ref().filter(|sorted| sorted.bins.same == 0);
        let made = match self.build_from_bins(table, scratch, job, given, true)? {
            // Perhaps there are more pages than can be reached from these bins.
            None if given.is_some() => self.build_from_bins(table, scratch, job, None, true)?,
            made => made,
        };
        if let Some(stored) = made {
            return Ok(stored);
        }
        let report = self.run_store(table, scratch, job, Select::All)?;
        self.state.occupancy.stored(report.stored);
        if report.unplaced == 0 {
            return Ok(report.stored);
        }
        let mut progress = Progress::default();
        self.place_colliding(table, scratch, job, report, &mut progress)?;
        Ok(report.stored + progress.stored)
    }

    /// Grows for so many absent keys, if there is memory for that. Equal keys may need less than it seems.
    fn try_to_grow(&self, table: &mut Table, absent: usize) -> Result<()> {
        match self.make_room(table, absent, 0) {
            Err(Error::OutOfMemory { .. } | Error::Full { .. }) => Ok(()),
            grown => grown,
        }
    }

    /// Stores what fits for sure, beside other calls.
    pub(in crate::map) fn store_part(
        &self,
        table: ReadGuard<'_, Table>,
        reservation: Reservation<'_>,
        scratch: &mut Workspace,
        part: Command,
    ) -> Result<usize> {
        let sorted = match part.bins {
            Some(_) => None,
            None => self.sorted(scratch, &part, true)?,
        };
        let part = part.sorted(sorted.as_ref());
        let report = self.run_store(&table, scratch, part, Select::All)?;
        // Under the lock still: the next rebuild of the table takes the state as it is then.
        reservation.commit(report.stored);
        drop(table);
        if report.unplaced == 0 {
            return Ok(report.stored);
        }
        let (mut table, mut progress) = (self.exclusive()?, Progress::default());
        self.place_colliding(&mut table, scratch, part, report, &mut progress)?;
        Ok(report.stored + progress.stored)
    }
}
