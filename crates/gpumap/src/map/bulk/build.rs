//! Making all pages of a map with one batch: of an empty map, or of one that is in use.

use std::ptr;

use gpumap_kernels::kernels::BulkKernels;
use gpumap_kernels::verbs::store::Select;

use super::bins::{Binned, InBins, spare};
use super::make::{Build, Made, PageMerge};
use super::merge::{Lists, Merged};
use super::plan::{Before, Plan};
use crate::error::Result;
use crate::lock::WriteGuard;
use crate::map::Core;
use crate::map::command::Command;
use crate::map::plan::{self, BatchInfo, TableInfo};
use crate::map::store::Progress;
use crate::map::table::Table;
use crate::memory::{Memory, bytes_of, bytes_of_each};
use crate::scratch::Workspace;

/// How pages are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::map) struct PageJob {
    pub(in crate::map) before: Before,
    /// What becomes of the values of equal keys: none if any pair may be kept, and one that was there before is.
    pub(in crate::map) merge: Option<PageMerge>,
}

/// Scratch of a build, all of it there before the table is touched.
pub(super) struct Parts {
    /// Unless the batch came in bins.
    bins: Option<Binned>,
    pub(super) heads: Memory,
    pub(super) cursors: Memory,
    pub(super) spilled_keys: Memory,
    pub(super) spilled_values: Memory,
}

impl Core {
    /// How a command is run on the map as it is.
    pub(in crate::map) fn plan(&self, command: &Command, batch: BatchInfo) -> plan::Plan {
        // First: to count pairs reads what each thread has counted, and calls with few keys write there.
        if self.tuning.is_small(command.len) {
            return plan::Plan::AS_IT_COMES;
        }
        let occupancy = &self.state.occupancy;
        let slots = self.slots();
        let table = TableInfo {
            len: occupancy.len(),
            capacity: self.capacity(),
            left: occupancy.left(),
            slots,
            bytes: slots as u64 * u64::from(self.kernels.slot_bytes),
            merges_in_pages: self.kernels.bulk.merged.is_some(),
        };
        plan::plan(command, batch, &table, &self.tuning)
    }

    /// The table alone, if pages may be made with the batch of a job and no call is in flight.
    /// Does not wait.
    pub(in crate::map) fn alone_to_build(&self, job: &Command) -> Option<WriteGuard<'_, Table>> {
        self.plan(job, BatchInfo::of(job)).pages?;
        let table = self.table.try_write()?;
        self.state.all_retired().then_some(table)
    }

    /// Makes the pages of the map with the batch of a job, and returns how many pairs were stored.
    /// None if that is not worth while, or cannot be done; then nothing has happened.
    ///
    /// To be called under the table's exclusive lock.
    pub(in crate::map) fn build_from(
        &self,
        table: &mut Table,
        scratch: &mut Workspace,
        job: Command,
    ) -> Result<Option<usize>> {
        self.build_from_bins(table, scratch, job, None, false)
    }

    /// As [`build_from`](Self::build_from), with a batch that may be in bins already, and then, unless these are a copy,
    /// is not anywhere else. `fits` if there is room for all of its absent keys.
    pub(in crate::map) fn build_from_bins(
        &self,
        table: &mut Table,
        scratch: &mut Workspace,
        job: Command,
        given: Option<&InBins>,
        fits: bool,
    ) -> Result<Option<usize>> {
        self.expect_sound()?;
        let batch = BatchInfo {
            has_copy: given.is_none_or(|given| given.is_copy),
            fits,
        };
        let page_job = self.plan(&job, batch).pages;
        let Some(PageJob { before, merge }) = page_job else {
            return Ok(None);
        };
        let kernels = &self.kernels.bulk;
        let leaves_absent = merge.is_some_and(|merge| merge.leaves_absent);
        let sample = job.first(job.len.min(self.tuning.sample));
        if leaves_absent && self.count_absent(table, scratch, sample)? != 0 {
            // Likely more than there is room for.
            return Ok(None);
        }
        let bits = given.map(|given| given.bits);
        let Some(plan) = self.plan_for(table, kernels, job.len, before, bits) else {
            return Ok(None);
        };
        let Some(parts) = self.parts_of(scratch, &job, plan, given.is_none())? else {
            return Ok(None);
        };
        tracing::debug!(pairs = job.len, ?plan, "building the table");
        // Those of pages in use are carried on.
        let marked = before == Before::Nothing || table.is_marked();
        table.set_marked(false);
        let own = parts.bins.as_ref().map(Binned::in_bins);
        let Some(batch) = given.or(own.as_ref()) else {
            return Ok(None);
        };
        let build = Build {
            table,
            kernels,
            parts: &parts,
            plan,
            merge,
            batch,
            pair: self.pair,
        };
        let made = self.make_all_pages(scratch, &build)?;
        if let Some(merge) = merge {
            let lists = Lists {
                sent_away: build.sent_away(),
                left: build.left(ptr::null_mut()),
            };
            let merged = Merged {
                made,
                merge,
                lists,
                marked,
            };
            return self.end_merge(table, scratch, job, &parts, plan, merged);
        }
        if before == Before::Nothing {
            // Whatever tombstones there were are gone.
            self.state.occupancy.rebuilt(0, self.capacity());
        }
        self.state.occupancy.stored(made.stored);
        let Some(rest) = rest_of(job, &parts, plan, &made) else {
            table.set_marked(marked);
            return Ok(Some(made.stored));
        };
        let report = self.or_poison(scratch, |scratch| {
            self.run_store(table, scratch, rest, Select::All)
        })?;
        self.state.occupancy.stored(report.stored);
        let mut progress = Progress::default();
        let Made {
            stored,
            spilled,
            crowded,
        } = made;
        if report.unplaced != 0 {
            self.place_colliding(table, scratch, rest, report, &mut progress)?;
        } else if spilled <= plan.spill && !crowded {
            // Those that walked off their pages have left their marks there.
            table.set_marked(marked);
        }
        Ok(Some(stored + report.stored + progress.stored))
    }

    /// How so many pairs get to the pages, from bins by so many `bits` if they are in bins: none if
    /// pages are too many, or too large for a block.
    fn plan_for(
        &self,
        table: &Table,
        kernels: &BulkKernels,
        len: usize,
        before: Before,
        bits: Option<u32>,
    ) -> Option<Plan> {
        let plan = Plan::new(&table.shape, len, kernels.to_pages.most_parts, before, bits)?;
        let sizes = self.pair.sizes();
        let shared_bytes = plan.shared_bytes(sizes, self.kernels.slot_bytes);
        (shared_bytes <= self.device.shared_memory()).then_some(plan)
    }

    /// Memory for all that follows, and the batch in bins if it is to be sorted.
    fn parts_of(
        &self,
        scratch: &mut Workspace,
        job: &Command,
        plan: Plan,
        sorts: bool,
    ) -> Result<Option<Parts>> {
        let pair = self.pair.bytes();
        let Some(heads) = spare(scratch, plan.head_bytes(pair))? else {
            return Ok(None);
        };
        let Some(cursors) = spare(scratch, bytes_of::<u64>(plan.cursors())?)? else {
            return Ok(None);
        };
        let Some(spilled_keys) = spare(scratch, bytes_of_each(self.pair.key, plan.spill)?)? else {
            return Ok(None);
        };
        let Some(spilled_values) = spare(scratch, bytes_of_each(self.pair.value, plan.spill)?)?
        else {
            return Ok(None);
        };
        // Used if the batch is stored once more as it is.
        if scratch.clear_bits(job.places()).is_err() {
            return Ok(None);
        }
        let bins = match sorts {
            true => self.pairs_to_bins(scratch, job, plan.bits, true)?,
            false => None,
        };
        let whole = bins.is_some() || !sorts;
        Ok(whole.then_some(Parts {
            bins,
            heads,
            cursors,
            spilled_keys,
            spilled_values,
        }))
    }
}

/// What is still to be stored of a batch that pages were made with.
fn rest_of(
    job: Command,
    parts: &Parts,
    plan: Plan,
    &Made { spilled, .. }: &Made,
) -> Option<Command> {
    match spilled {
        0 => None,
        // Too many equal keys: those that are in will be found.
        _ if spilled > plan.spill => Some(job),
        _ => Some(Command {
            keys: parts.spilled_keys.ptr(),
            values: parts.spilled_values.ptr(),
            bins: None,
            len: spilled,
            ..job
        }),
    }
}
