//! Batches that may not fit, alone on the map: growing, filling up, taking back.

use gpumap_kernels::kernels::{Operation, OperationArgs};
use gpumap_kernels::verbs::store::Select;

use super::run::Report;
use crate::error::{Error, Result};
use crate::map::command::{Command, Kind};
use crate::map::grow::PARTS;
use crate::map::launch::Notes;
use crate::map::table::Table;
use crate::map::{Core, Growth};
use crate::scratch::{ScratchRole, Workspace};

/// A map grows for keys that find no room up to a capacity of this many pairs for each pair that it has or is to have.
const SPARSE: usize = 64;

/// What a batch that may be taken back has done so far.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::map) struct Progress {
    pub stored: usize,
    /// Whether pairs have moved to other slots since it began.
    moved: bool,
}

/// Whether a map grows once more for `unplaced` keys of a batch, beside `len` pairs. `stalled` says that it has grown for
/// them and not one of them found a slot by that.
///
/// Keys of one region of the hash range, say those that another map with the same seed gave out one after the other, need a
/// table in which that region is large enough. A larger table need not take in more of them at once: a walk leaves its
/// home page for the next ones, so a region smaller than a page has the same slots in a table twice as large. So growth ends
/// by size alone, except that a batch that is small beside the table does not make it grow again without success: its
/// keys have one walk.
fn grows_on(capacity: usize, len: usize, unplaced: usize, batch: usize, stalled: bool) -> bool {
    let allows = |pairs: usize| pairs.saturating_mul(SPARSE) >= capacity;
    allows(len + unplaced) && (!stalled || allows(batch))
}

impl Core {
    /// Stores the pairs of a part that found no room though there was some: their keys collide.
    pub(in crate::map) fn place_colliding(
        &self,
        table: &mut Table,
        scratch: &mut Workspace,
        part: Command,
        report: Report,
        progress: &mut Progress,
    ) -> Result<()> {
        let mut again = |table: &Table, scratch: &mut Workspace| {
            self.run_store(table, scratch, part, Select::Unplaced)
        };
        self.place_by(table, scratch, part.len, report, progress, &mut again)
    }

    /// As [`place_colliding`](Self::place_colliding), for `batch` keys of which those without room are
    /// tried once more by `again`.
    pub(in crate::map) fn place_by(
        &self,
        table: &mut Table,
        scratch: &mut Workspace,
        batch: usize,
        Report { mut unplaced, .. }: Report,
        progress: &mut Progress,
        again: &mut dyn FnMut(&Table, &mut Workspace) -> Result<Report>,
    ) -> Result<()> {
        let before = table.shape.clone();
        let mut capacity = self.capacity();
        // Slots of removed pairs first: there may be as many as there are keys without room.
        let mut compacts = self.state.occupancy.used() > self.state.occupancy.len();
        let mut stalled = false;
        let mut refusal = None;
        // Ends when the map is sparse, if not before.
        loop {
            let grows = match self.growth {
                _ if compacts => false,
                Growth::By(factor)
                    if grows_on(
                        capacity,
                        self.state.occupancy.len(),
                        unplaced,
                        batch,
                        stalled,
                    ) =>
                {
                    capacity = (capacity as f64 * factor) as usize + 1;
                    true
                }
                _ => break,
            };
            compacts = false;
            match self.rebuild(table, capacity) {
                Ok(()) => {}
                // Those that are in may not find room either, until there is more of it.
                Err(Error::Full { .. }) => continue,
                // The map's contents are unknown.
                Err(error) if self.expect_sound().is_err() => return Err(error),
                Err(error) => {
                    refusal = Some(error);
                    break;
                }
            }
            progress.moved = true;
            // A part of the batch is in the map.
            let report = self.or_poison(scratch, |scratch| again(table, scratch))?;
            self.state.occupancy.stored(report.stored);
            progress.stored += report.stored;
            unplaced = report.unplaced;
            if unplaced == 0 {
                return Ok(());
            }
            stalled = grows && report.stored == 0;
        }
        // Growth that did not help.
        self.give_back(table, before);
        Err(self.full(batch, unplaced, true).because(refusal))
    }

    /// Stores a batch that may find no room, and takes it back if it does: all or nothing.
    pub(in crate::map) fn store_alone(
        &self,
        table: &mut Table,
        scratch: &mut Workspace,
        job: Command,
    ) -> Result<usize> {
        let outcomes = if job.out_flags.is_null() {
            let outcomes: *mut u8 = scratch.reserve(ScratchRole::SecondOutput, job.len)?;
            // SAFETY: reserved with one byte per key.
            unsafe { scratch.stream().fill(outcomes, 0, job.len) }?;
            outcomes
        } else {
            job.out_flags
        };
        // For all of it now: once pairs are stored, nothing may fail for want of memory.
        scratch.clear_bits(job.places())?;
        let kernels = [
            self.batch_kernel(Operation::Insert)?,
            self.kernel_of(job.kind)?,
            self.batch_kernel(Operation::Undo)?,
        ];
        self.device.load_kernels(kernels)?;
        // First the absent keys. Values of present ones, which could not be taken back, are
        // touched when nothing can fail any more.
        let insert = Command {
            kind: Kind::Insert,
            out_flags: outcomes,
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
                Error::Full { unplaced, .. } => {
                    self.full(job.len, unplaced, false).because(Some(error))
                }
                other => other,
            });
        }
        let select = match job.kind {
            Kind::Insert => return Ok(progress.stored),
            Kind::Merge(_) | Kind::ExchangeIds => Select::NotStored,
            _ => Select::All,
        };
        let second = Command {
            out_flags: outcomes,
            ..job
        };
        self.or_poison(scratch, |scratch| {
            self.run_store(table, scratch, second, select)
        })?;
        Ok(progress.stored)
    }

    /// Inserts a batch into a map that does not grow, down to its last slot.
    fn fill_up(
        &self,
        table: &mut Table,
        scratch: &mut Workspace,
        insert: Command,
        progress: &mut Progress,
    ) -> Result<()> {
        loop {
            let report = self.run_store(table, scratch, insert, Select::UntilFull)?;
            self.state.occupancy.stored(report.stored);
            progress.stored += report.stored;
            if report.unplaced == 0 {
                return Ok(());
            }
            // Once, as that leaves no tombstones behind.
            self.make_room(table, insert.len - progress.stored, 0)?;
            progress.moved = true;
        }
    }

    /// Inserts a batch into a map that grows, in parts that fit for sure.
    fn grow_and_fill(
        &self,
        table: &mut Table,
        scratch: &mut Workspace,
        insert: Command,
        progress: &mut Progress,
    ) -> Result<()> {
        let mut rest = insert;
        // Of the keys of the last part, how many were new.
        let mut new = 0.0;
        while rest.len != 0 {
            let room = self.state.occupancy.left();
            if room < rest.len.div_ceil(PARTS) {
                let likely = (rest.len as f64 * new) as usize;
                match self.make_room(table, rest.len, likely) {
                    Ok(()) => progress.moved = true,
                    // What is left is used to the end: many keys may be present, or equal.
                    Err(Error::OutOfMemory { .. }) if room != 0 => {}
                    Err(error) => return Err(error),
                }
            }
            let part = rest.first(self.state.occupancy.left().min(rest.len));
            if part.len == 0 {
                return Err(self.full(insert.len, rest.len, false));
            }
            let report = self.run_store(table, scratch, part, Select::All)?;
            self.state.occupancy.stored(report.stored);
            progress.stored += report.stored;
            if report.unplaced != 0 {
                self.place_colliding(table, scratch, part, report, progress)?;
            }
            new = report.stored as f64 / part.len as f64;
            rest = rest.after(part.len);
        }
        Ok(())
    }

    /// Takes back what a batch stored, and waits.
    fn undo(
        &self,
        table: &Table,
        scratch: &mut Workspace,
        job: Command,
        Progress { stored, moved }: Progress,
    ) -> Result<()> {
        let (grid, batch) = self.share_out(job.keys, job.values, job.len);
        let kernel = self.batch_kernel(Operation::Undo)?;
        let account = Notes::NONE.account(job.out_flags);
        let args = OperationArgs {
            mode: u32::from(moved),
            ..self.operation_args(table.view_to_store(), batch, account)
        };
        self.or_poison(scratch, |scratch| {
            // SAFETY: the batch has ended and left its outcomes; the exclusive lock keeps all
            // other operations away.
            unsafe { kernel.launch(scratch.stream(), grid, args) }?;
            scratch.stream().finish()
        })?;
        self.state.occupancy.removed(stored);
        if !moved {
            self.state.occupancy.emptied(stored);
        }
        Ok(())
    }

    pub(in crate::map) fn full(&self, batch: usize, unplaced: usize, partial: bool) -> Error {
        Error::Full {
            len: self.len(),
            slots: self.slots(),
            batch,
            unplaced,
            partial,
            growth: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::grows_on;

    #[test]
    fn a_map_grows_on_for_keys_of_one_region_and_not_for_those_with_one_walk() {
        // Capacity, pairs, keys without a slot, keys of the batch.
        assert!(grows_on(62_500, 42_000, 20_000, 62_500, false));
        assert!(grows_on(62_500, 42_000, 20_000, 62_500, true), "one page");
        assert!(grows_on(4_000_000, 62_499, 1, 62_500, false), "the last");
        assert!(!grows_on(4_000_001, 62_499, 1, 62_500, false), "sparse");
        assert!(grows_on(100_000_000, 80_000_000, 64, 2_112, false), "once");
        assert!(!grows_on(200_000_000, 80_000_000, 64, 2_112, true));
    }
}
