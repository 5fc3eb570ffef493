//! What comes after pages were merged with a batch: the pairs that are in no page yet, and, if there is no room for these,
//! taking back what was merged.
//!
//! A pair that is merged twice is one too many, so each is in one place when the pages have been made: in its page, in the
//! list of those that found no room at the head of their page, or in that of those that found no place in their page. The
//! first list may be too short. Then the kernel that makes pages has done nothing, and the batch is stored as it came.

use gpumap_kernels::build::spill::Spill;
use gpumap_kernels::verbs::store::Select;
use gpumap_simt::atomic::part::Update;

use super::build::Parts;
use super::make::{Made, PageMerge};
use super::plan::{Before, Plan};
use crate::error::Result;
use crate::map::Core;
use crate::map::command::{Command, Kind};
use crate::map::store::Progress;
use crate::map::table::Table;
use crate::scratch::Workspace;

/// The pairs of a batch that are in no page.
pub(super) struct Lists {
    /// How many found no room at the head of their page, on the device.
    pub sent_away: *const u64,
    /// Those that found no place in their page.
    pub left: Spill<u8, u8>,
}

/// What came of merging pages with a batch.
pub(super) struct Merged {
    pub made: Made,
    pub merge: PageMerge,
    pub lists: Lists,
    /// Whether the pages say what passed them, if no pair is stored in another way.
    pub marked: bool,
}

impl Core {
    /// Stores what is in no page of a batch that pages were merged with. Returns how many pairs were stored in all; none
    /// if there is no room for them, and then nothing has happened.
    pub(super) fn end_merge(
        &self,
        table: &mut Table,
        scratch: &mut Workspace,
        job: Command,
        parts: &Parts,
        plan: Plan,
        merged: Merged,
    ) -> Result<Option<usize>> {
        let Merged {
            made,
            merge,
            lists,
            marked,
        } = merged;
        let sent_away = match made.crowded {
            true => self.or_poison(scratch, |scratch| read_count(scratch, lists.sent_away))?,
            false => 0,
        };
        let is_whole = sent_away <= plan.spill;
        if plan.before == Before::Nothing {
            if !is_whole {
                // Pairs lie where the pages will be.
                self.or_poison(scratch, |_| table.clear())?;
            }
            self.state.occupancy.rebuilt(0, self.capacity());
        }
        if !is_whole {
            // Nothing was merged.
            if merge.leaves_absent {
                return Ok(None);
            }
            let (stored, _) = self.store_rest(table, scratch, job)?;
            return Ok(Some(stored));
        }
        self.state.occupancy.stored(made.stored);
        let list = |keys: *mut u8, values: *mut u8, len| Command {
            keys,
            values,
            bins: None,
            len,
            ..job
        };
        let spilled = (&parts.spilled_keys, &parts.spilled_values);
        let lists = [
            list(spilled.0.ptr(), spilled.1.ptr(), sent_away),
            list(lists.left.keys, lists.left.values, made.spilled),
        ];
        let lists = || lists.into_iter().filter(|list| list.len != 0);
        if merge.leaves_absent {
            let mut absent = 0;
            for list in lists() {
                absent += self.count_absent(table, scratch, list)?;
            }
            if absent > self.state.occupancy.left() {
                self.take_back(table, scratch, merge.update, job, lists())?;
                return Ok(None);
            }
        }
        let mut stored = made.stored;
        // Those that walked off their pages have left their marks there; others have not been to their page.
        let mut are_marked = marked && !made.crowded && !(merge.leaves_absent && made.spilled != 0);
        for list in lists() {
            let (more, all_placed) = self.store_rest(table, scratch, list)?;
            stored += more;
            are_marked &= all_placed;
        }
        if are_marked {
            table.set_marked(true);
        }
        Ok(Some(stored))
    }

    /// Stores the rest of a batch of which a part is in the map. Returns how many pairs were stored, and whether all
    /// found room at once.
    fn store_rest(
        &self,
        table: &mut Table,
        scratch: &mut Workspace,
        rest: Command,
    ) -> Result<(usize, bool)> {
        let report = self.or_poison(scratch, |scratch| {
            self.run_store(table, scratch, rest, Select::All)
        })?;
        self.state.occupancy.stored(report.stored);
        let mut progress = Progress::default();
        if report.unplaced != 0 {
            self.place_colliding(table, scratch, rest, report, &mut progress)?;
        }
        Ok((report.stored + progress.stored, report.unplaced == 0))
    }

    /// Takes back what a batch was merged with, except for the pairs in lists, which it was not.
    fn take_back(
        &self,
        table: &Table,
        scratch: &mut Workspace,
        update: Update,
        job: Command,
        lists: impl Iterator<Item = Command>,
    ) -> Result<()> {
        // As it came: its bins may be in use for the lists.
        let updates = |job: Command, update| Command {
            bins: None,
            ..job.as_kind(Kind::Update(update))
        };
        // All of the batch whose keys are present; and then again those of the lists that are.
        let whole = update.inverse().map(|inverse| updates(job, inverse));
        let lists = lists.map(|list| updates(list, update));
        for assignment in whole.into_iter().chain(lists) {
            self.or_poison(scratch, |scratch| {
                self.run_change(table, scratch, assignment)
            })?;
        }
        Ok(())
    }
}

/// A count on the device, when all that is queued has been done.
fn read_count(scratch: &mut Workspace, at: *const u64) -> Result<usize> {
    let mut count = 0u64;
    let stream = scratch.stream();
    // SAFETY: a word of scratch memory that lives; the host's is there until the wait, which is reached unless the copy
    // was not queued.
    unsafe { stream.download((&raw mut count).cast(), at.cast(), size_of::<u64>()) }?;
    stream.finish()?;
    Ok(count as usize)
}
