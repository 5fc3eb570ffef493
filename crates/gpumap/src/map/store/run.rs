//! Running commands that store, and the one that counts before them.

use gpumap_kernels::verbs::store::Select;

use crate::error::Result;
use crate::map::Core;
use crate::map::command::{Command, Kind};
use crate::map::launch::Notes;
use crate::map::table::Table;
use crate::scratch::Workspace;

/// What a kernel reports.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::map) struct Report {
    pub stored: usize,
    pub unplaced: usize,
}

impl Core {
    /// How many keys of a batch are absent; of several equal ones each.
    pub(in crate::map) fn count_absent(
        &self,
        table: &Table,
        scratch: &mut Workspace,
        command: Command,
    ) -> Result<usize> {
        self.expect_sound()?;
        let notes = Notes::of(scratch.counting()?);
        let count = command.as_kind(Kind::CountAbsent);
        // SAFETY: the keys are staged, and bins live as long as the command; the caller holds the table's
        // lock until this has ended.
        unsafe { self.launch(table, scratch.stream(), &count, notes) }?;
        let [absent, _] = scratch.counted()?;
        // It only looked.
        scratch.begin();
        Ok(absent as usize)
    }

    /// Runs a kernel that stores, and waits for it. The caller holds the table's lock.
    pub(in crate::map) fn run_store(
        &self,
        table: &Table,
        scratch: &mut Workspace,
        command: Command,
        select: Select,
    ) -> Result<Report> {
        self.expect_sound()?;
        let unplaced = match select {
            // As the run before has left them.
            Select::Unplaced => scratch.bits(),
            _ => scratch.clear_bits(command.places())?,
        };
        let notes = Notes {
            counters: scratch.counting()?,
            unplaced,
            select,
        };
        // Until the kernel is known to have ended well.
        scratch.dirty_bits();
        let [stored, unplaced] = self.or_poison_if_launched(scratch, |scratch| {
            // SAFETY: inputs are staged, outputs and bits are as long as the batch; the caller
            // holds the table's lock until this has ended.
            unsafe { self.launch(table, scratch.stream(), &command, notes) }?;
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
}
