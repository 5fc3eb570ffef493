//! Making all pages of a map with one batch: of an empty map, or of one that is in use.

use gpumap_kernels::build::page::BuildArgs;
use gpumap_kernels::build::pages::PagesArgs;
use gpumap_kernels::build::spill::Spill;
use gpumap_kernels::count::Counters;
use gpumap_kernels::kernels::BulkKernels;
use gpumap_kernels::verbs::store::Select;
use gpumap_simt::atomic::part::Update;
use gpumap_simt::kernel::Grid;
use parking_lot::RwLockWriteGuard;

use super::bins::{Binned, InBins, spare};
use super::plan::{Before, Plan};
use super::stages::stages;
use crate::error::Result;
use crate::map::store::{Job, Progress, Verb};
use crate::map::table::Table;
use crate::map::{Key, Map, Value};
use crate::memory::{Memory, bytes_of};
use crate::primitives::scatter_tile;
use crate::scratch::Workspace;

/// What came of making pages.
struct Made {
    /// Pairs that are in them.
    stored: usize,
    /// Pairs that are not.
    spilled: usize,
    /// Whether some of these never came to their page.
    crowded: bool,
}

/// Scratch of a build, all of it there before the table is touched.
struct Parts {
    /// Unless the batch came in bins.
    bins: Option<Binned>,
    heads: Memory,
    cursors: Memory,
    spilled_keys: Memory,
    spilled_values: Memory,
}

impl<K: Key, V: Value> Map<K, V> {
    /// Whether pages are made with the batch of a job, as the books have it: none if they are not.
    pub(super) fn makes_pages(&self, job: &Job<K, V>) -> Option<Before> {
        if !job.outcomes.is_null() || !job.held.is_null() {
            return None;
        }
        let (len, slots) = (job.len, self.slots());
        let is_empty = self.room.len() == 0;
        match job.verb {
            // Of several pairs with one key any may be kept.
            Verb::Insert | Verb::Merge(Update::Replace)
                if is_empty && len <= self.capacity() && self.bulk.builds(len, slots) =>
            {
                Some(Before::Nothing)
            }
            Verb::Insert if len <= self.room.left() && self.bulk.fills(len, slots) => {
                Some(Before::Pairs)
            }
            _ => None,
        }
    }

    /// The table alone, if pages may be made with the batch of a job and no call is in flight:
    /// nobody is waited for.
    pub(in crate::map) fn alone_to_build(
        &self,
        job: &Job<K, V>,
    ) -> Option<RwLockWriteGuard<'_, Table>> {
        self.makes_pages(job)?;
        let table = self.table.try_write()?;
        self.books().all_landed().then_some(table)
    }

    /// Makes the pages of the map with the batch of a job, and returns how many pairs were stored.
    /// None if that is not worth while, or cannot be done; then nothing has happened.
    ///
    /// To be called under the table's exclusive lock.
    pub(in crate::map) fn build_from(
        &self,
        table: &mut Table,
        scratch: &mut Workspace,
        job: Job<K, V>,
    ) -> Result<Option<usize>> {
        self.build_from_bins(table, scratch, job, None)
    }

    /// As [`build_from`](Self::build_from), with a batch that may be in bins already, and then is
    /// not anywhere else.
    pub(super) fn build_from_bins(
        &self,
        table: &mut Table,
        scratch: &mut Workspace,
        job: Job<K, V>,
        given: Option<&InBins<K, V>>,
    ) -> Result<Option<usize>> {
        self.expect_sound()?;
        let (Some(before), Some(kernels)) = (self.makes_pages(&job), &self.kernels.bulk) else {
            return Ok(None);
        };
        let most_parts = kernels.to_pages.most_parts;
        let bits = given.map(|given| given.bits);
        let Some(plan) = Plan::new(&table.shape, job.len, most_parts, before, bits) else {
            return Ok(None);
        };
        let sizes = [size_of::<K>() as u32, size_of::<V>() as u32];
        if plan.shared_bytes(sizes, self.kernels.slot_bytes) > self.device.shared_memory() {
            return Ok(None);
        }
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
        let made = self.make_all_pages(table, scratch, kernels, &parts, plan, batch)?;
        let Made {
            stored,
            spilled,
            crowded,
        } = made;
        if before == Before::Nothing {
            // Whatever tombstones there were are gone.
            self.room.rebuilt(0, self.capacity());
        }
        self.room.stored(stored);
        let rest = match spilled {
            0 => {
                table.set_marked(marked);
                return Ok(Some(stored));
            }
            // Too many equal keys: those that are in will be found.
            _ if spilled > plan.spill => job,
            _ => Job {
                keys: parts.spilled_keys.ptr().cast_const().cast(),
                values: parts.spilled_values.ptr().cast_const().cast(),
                bins: None,
                len: spilled,
                ..job
            },
        };
        let report = self.or_poison(scratch, |scratch| {
            self.run(table, scratch, rest, Select::All)
        })?;
        self.room.stored(report.stored);
        let mut progress = Progress::default();
        if report.unplaced != 0 {
            self.place_colliding(table, scratch, rest, report, &mut progress)?;
        } else if spilled <= plan.spill && !crowded {
            // Those that walked off their pages have left their marks there.
            table.set_marked(marked);
        }
        Ok(Some(stored + report.stored + progress.stored))
    }

    /// Memory for all that follows, and the batch in bins if it is to be sorted.
    fn parts_of(
        &self,
        scratch: &mut Workspace,
        job: &Job<K, V>,
        plan: Plan,
        sorts: bool,
    ) -> Result<Option<Parts>> {
        let pair = size_of::<K>() + size_of::<V>();
        let Some(heads) = spare(scratch, plan.head_bytes(pair))? else {
            return Ok(None);
        };
        let Some(cursors) = spare(scratch, bytes_of::<u64>(plan.cursors())?)? else {
            return Ok(None);
        };
        let Some(spilled_keys) = spare(scratch, bytes_of::<K>(plan.spill)?)? else {
            return Ok(None);
        };
        let Some(spilled_values) = spare(scratch, bytes_of::<V>(plan.spill)?)? else {
            return Ok(None);
        };
        // Used if the batch is stored once more as it is.
        if scratch.clear_bits(job.places()).is_err() {
            return Ok(None);
        }
        let bins = match sorts {
            true => self.pairs_to_bins(scratch, job, plan.bits)?,
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

    /// Sorts the bins to the pages and makes these, stage by stage, and waits.
    fn make_all_pages(
        &self,
        table: &Table,
        scratch: &mut Workspace,
        kernels: &BulkKernels<K::Bits, V::Bits>,
        parts: &Parts,
        plan: Plan,
        batch: &InBins<K, V>,
    ) -> Result<Made> {
        let view = table.view();
        let (bins, sources) = (batch.bins, batch.sources);
        let counters = scratch.counting()?;
        let crowded = scratch.question();
        let spill = Spill {
            keys: parts.spilled_keys.ptr().cast(),
            values: parts.spilled_values.ptr().cast(),
            count: counters.unplaced(),
            room: plan.spill as u64,
        };
        let kernel = kernels.to_pages;
        let sizes = [size_of::<K>() as u32, size_of::<V>() as u32];
        let tile = scatter_tile(&self.device, &kernel, plan.parts);
        let capacity = bins.capacity();
        let tiles = capacity.div_ceil(u64::from(tile)) as u32;
        let heads = plan.heads(&parts.heads, size_of::<K>() + size_of::<V>());
        let pages = PagesArgs {
            view,
            keys: bins.keys.cast(),
            values: bins.values.cast(),
            counts: bins.counts,
            capacity,
            bits: plan.bits,
            sources,
            first: 0,
            tiles,
            tile,
            parts: plan.parts,
            heads,
            cursors: parts.cursors.ptr().cast(),
            spill,
        };
        let to_pages = Grid {
            blocks: 0,
            threads: kernel.threads,
            shared_bytes: kernel.shared_bytes(tile, plan.parts),
        };
        let make = match plan.before {
            Before::Nothing => kernels.build,
            Before::Pairs => kernels.fill,
        };
        let build = BuildArgs {
            view,
            first: 0,
            heads,
            counts: pages.cursors.cast_const(),
            equal: pages.cursors.wrapping_add(plan.pages as usize),
            crowded,
            spill,
            stored: counters,
        };
        let slot_bytes = self.kernels.slot_bytes;
        let of_pages = Grid {
            blocks: 0,
            threads: plan.threads(),
            shared_bytes: plan.shared_bytes(sizes, slot_bytes),
        };
        let cursor_bytes = plan.cursors() * size_of::<u64>();
        let stages = stages(&table.shape, &plan, batch);
        // Bins of the next stage are sorted while pages of this one are made, unless there is no
        // second stream to be had.
        let sorting = match &*stages {
            [_] => None,
            _ => self.scratch.take().ok(),
        };
        let [stored, spilled] = self.or_poison(scratch, |scratch| {
            let stream = scratch.stream();
            let sorting = sorting.as_ref().map_or(stream, |other| other.stream());
            // SAFETY: the kernel set fits the map's types; bins, heads, cursors and the list live
            // until the waits, of both streams, and the exclusive lock keeps all other operations
            // away. Pages are made when no bin is sorted any more that reaches into them.
            unsafe {
                stream.fill(parts.cursors.ptr(), 0, cursor_bytes)?;
                sorting.wait_stream(stream)?;
                for stage in &stages {
                    if let Some(event) = stage.after {
                        sorting.wait_event(event)?;
                    }
                    let grid = Grid {
                        blocks: tiles * stage.bins.len() as u32,
                        ..to_pages
                    };
                    let first = stage.bins.start;
                    let args = PagesArgs { first, ..pages };
                    kernel.kernel.launch(sorting, grid, args)?;
                    stream.wait_stream(sorting)?;
                    // The last one hands over what all have counted.
                    let stored = match stage.pages.end == plan.pages {
                        true => counters,
                        false => Counters::of(counters.words),
                    };
                    let grid = Grid {
                        blocks: stage.pages.len() as u32,
                        ..of_pages
                    };
                    let first = stage.pages.start;
                    let args = BuildArgs {
                        first,
                        stored,
                        ..build
                    };
                    make.launch(stream, grid, args)?;
                }
            }
            scratch.counted()
        })?;
        Ok(Made {
            stored: stored as usize,
            spilled: spilled as usize,
            crowded: scratch.answer(),
        })
    }
}
