//! Making all pages of a map with one batch: of an empty map, or of one that is in use.

use std::ptr;

use gpumap_kernels::kernels::BulkKernels;
use gpumap_kernels::verbs::store::Select;
use gpumap_simt::atomic::part::Update;
use parking_lot::RwLockWriteGuard;

use super::bins::{Binned, InBins, spare};
use super::make::{Build, Made, PageMerge};
use super::merge::{Lists, Merged};
use super::plan::{Before, Plan};
use crate::error::Result;
use crate::map::Core;
use crate::map::command::{Command, Kind};
use crate::map::store::Progress;
use crate::map::table::Table;
use crate::memory::{Memory, bytes_of, bytes_of_each};
use crate::scratch::Workspace;

/// How pages are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageJob {
    pub(super) before: Before,
    /// What becomes of the values of equal keys: none if any pair may be kept, and one that was there before is.
    pub(super) merge: Option<PageMerge>,
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
    /// Whether pages are made with the batch of a job, as the map's state has it, and how: none if they are not. Values are
    /// merged only if there is another `copy` of the batch than in bins. `fits` if there is room for all absent keys.
    pub(super) fn makes_pages(&self, job: &Command, copy: bool, fits: bool) -> Option<PageJob> {
        if job.answers() {
            return None;
        }
        let (len, slots) = (job.len, self.slots());
        let is_empty = self.state.occupancy.len() == 0;
        let merge = match job.kind {
            Kind::Insert => None,
            // Of several pairs with one key any may be kept.
            Kind::Merge(Update::Replace) if is_empty => None,
            Kind::Merge(update) => self.kernels.bulk?.merged.map(|_| update),
            _ => return None,
        };
        let can_fill_in_values = self.pair.side_by_side() || !job.values.is_null();
        if merge.is_some() && !(copy && can_fill_in_values) {
            return None;
        }
        let page_job = |before, leaves_absent| PageJob {
            before,
            merge: merge.map(|update| PageMerge {
                update,
                leaves_absent,
            }),
        };
        let has_room = fits || len <= self.state.occupancy.left();
        let can_take_back = merge.and_then(Update::inverse).is_some();
        match is_empty {
            true if len <= self.capacity() && self.bulk.builds(len, slots) => {
                Some(page_job(Before::Nothing, false))
            }
            true => None,
            false if !self.bulk.fills(len, slots) => None,
            false if has_room => Some(page_job(Before::Pairs, false)),
            false if can_take_back => Some(page_job(Before::Pairs, true)),
            false => None,
        }
    }

    /// The table alone, if pages may be made with the batch of a job and no call is in flight:
    /// nobody is waited for.
    pub(in crate::map) fn alone_to_build(
        &self,
        job: &Command,
    ) -> Option<RwLockWriteGuard<'_, Table>> {
        self.makes_pages(job, job.bins.is_none(), false)?;
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
        let copy = given.is_none_or(|given| given.is_copy);
        let page_job = self.makes_pages(&job, copy, fits);
        let (Some(PageJob { before, merge }), Some(kernels)) = (page_job, &self.kernels.bulk)
        else {
            return Ok(None);
        };
        let leaves_absent = merge.is_some_and(|merge| merge.leaves_absent);
        let sample = job.first(job.len.min(self.bulk.sample));
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
