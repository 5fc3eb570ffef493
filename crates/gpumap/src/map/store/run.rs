//! The kernels that store, and the one that counts before them.

use std::ptr;

use gpumap_kernels::kernels::{CountArgs, CountBinsArgs, StoreArgs, StoreBinsArgs};
use gpumap_kernels::source::Batch;
use gpumap_kernels::verbs::store::{Account, Select};
use gpumap_simt::atomic::part::Update;
use gpumap_simt::kernel::Launcher;

use super::job::{Job, StoreKernel, Verb};
use crate::error::{Error, Result};
use crate::map::Core;
use crate::map::launch::grid_of_bins;
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
        job: Job,
    ) -> Result<usize> {
        self.expect_sound()?;
        let (view, absent) = (table.view(), scratch.counting()?);
        let stream = scratch.stream();
        // SAFETY: the kernel sets fit the map's types, the keys are staged, and bins live as long as
        // the job; the caller holds the table's lock until this has ended.
        unsafe {
            match (job.bins, &self.kernels.bulk) {
                (Some(bins), Some(kernels)) => {
                    let grid = grid_of_bins(&bins);
                    let args = CountBinsArgs { view, bins, absent };
                    kernels.count_absent.launch(stream, grid, args)
                }
                _ => {
                    let (grid, batch) = self.share_out(job.keys, ptr::null(), job.len);
                    let args = CountArgs {
                        view,
                        batch,
                        absent,
                    };
                    self.kernels.count_absent.launch(stream, grid, args)
                }
            }
        }?;
        let [absent, _] = scratch.counted()?;
        // It only looked.
        scratch.begin();
        Ok(absent as usize)
    }

    /// Runs a kernel that stores, and waits for it. The caller holds the table's lock.
    pub(in crate::map) fn run(
        &self,
        table: &Table,
        scratch: &mut Workspace,
        job: Job,
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
        let [stored, unplaced] = self.or_poison_if_launched(scratch, |scratch| {
            // SAFETY: inputs are staged, outputs and bits are as long as the batch; the caller
            // holds the table's lock until this has ended.
            unsafe { self.launch_store(table, scratch.stream(), job, account) }?;
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

    /// Launches a kernel that stores, or records that.
    ///
    /// # Safety
    /// Inputs, outputs and bits are as many as the job says, on the map's device. They, the
    /// counters and the table are valid until what was launched, or will be, has ended.
    pub(in crate::map) unsafe fn launch_store(
        &self,
        table: &Table,
        on: &impl Launcher<Error = Error>,
        job: Job,
        account: Account,
    ) -> Result<()> {
        let view = table.view_to_store();
        let (kernel, update) = self.kernel_of(job.verb);
        let (Some(bins), Some(kernels)) = (job.bins, &self.kernels.bulk) else {
            let (grid, batch) = self.share_out(job.keys, job.values, job.len);
            let args = StoreArgs {
                view,
                batch: Batch {
                    value: job.value,
                    ..batch
                },
                update,
                values: job.held,
                account,
            };
            // SAFETY: the kernel set fits the map's types; the rest is the caller's promise.
            return unsafe { kernel.launch(on, grid, args) };
        };
        let kernel = match job.verb {
            Verb::Merge(_) => kernels.merge,
            // The verbs that tell are not sorted.
            Verb::Insert | Verb::GetOrInsert | Verb::Exchange(_) => kernels.insert,
        };
        let grid = grid_of_bins(&bins);
        let args = StoreBinsArgs {
            view,
            bins,
            update,
            account,
        };
        // SAFETY: as above; there is a bit for each place, and the bins live as long as the job.
        unsafe { kernel.launch(on, grid, args) }
    }

    /// The kernel of a verb, and what it does to values of present keys.
    pub(in crate::map) fn kernel_of(&self, verb: Verb) -> (StoreKernel, Update) {
        match verb {
            Verb::Insert => (self.kernels.insert, Update::Replace),
            Verb::Merge(update) => (self.kernels.merge, update),
            Verb::GetOrInsert => (self.kernels.get_or_insert, Update::Replace),
            Verb::Exchange(kernel) => (kernel, Update::Replace),
        }
    }
}
