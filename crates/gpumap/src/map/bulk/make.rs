//! Making all pages of a map: bins are sorted to pages, and pages made, stage by stage.

use std::ops::Range;

use gpumap_kernels::build::combine::Combine;
use gpumap_kernels::build::page::{BuildArgs, Merging};
use gpumap_kernels::build::pages::PagesArgs;
use gpumap_kernels::build::spill::Spill;
use gpumap_kernels::count::Counters;
use gpumap_kernels::kernels::BulkKernels;
use gpumap_kernels::primitives::partition::ScatterKernel;
use gpumap_simt::atomic::part::Update;
use gpumap_simt::kernel::{Grid, Kernel};

use super::bins::InBins;
use super::build::Parts;
use super::plan::{Before, Plan};
use super::stages::{Stage, stages};
use crate::error::Result;
use crate::map::table::Table;
use crate::map::{Core, Pair};
use crate::primitives::scatter_tile;
use crate::scratch::Workspace;
use crate::stream::Stream;

/// What pages are made of, and how.
pub(super) struct Build<'a> {
    pub table: &'a Table,
    pub kernels: &'a BulkKernels,
    pub parts: &'a Parts,
    pub plan: Plan,
    /// What becomes of values, if those of equal keys are merged.
    pub merge: Option<PageMerge>,
    pub batch: &'a InBins,
    pub pair: Pair,
}

/// What becomes of the values of equal keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::map) struct PageMerge {
    pub update: Update,
    /// Whether pairs whose key is absent are not stored: there may be no room for them.
    pub leaves_absent: bool,
}

/// What came of making pages.
pub(super) struct Made {
    /// Pairs that are in them.
    pub stored: usize,
    /// Pairs that are not.
    pub spilled: usize,
    /// Whether some of these never reached their page.
    pub crowded: bool,
}

/// What a build reports.
#[derive(Clone, Copy)]
struct Reports {
    counters: Counters,
    crowded: *mut u64,
}

/// The kernel that sorts bins to pages, with its arguments except for which bins.
struct Sorting {
    kernel: ScatterKernel<PagesArgs<u8, u8>>,
    args: PagesArgs<u8, u8>,
    grid: Grid,
}

/// The kernel that makes pages, with its arguments except for which pages.
struct Making {
    kernel: &'static Kernel<BuildArgs<u8, u8>>,
    args: BuildArgs<u8, u8>,
    grid: Grid,
}

impl Sorting {
    /// Queues the sorting of some bins.
    ///
    /// # Safety
    /// As [`PagesArgs`] says, until the stream has finished.
    unsafe fn launch(&self, stream: &Stream, bins: &Range<u32>) -> Result<()> {
        let grid = Grid {
            blocks: self.args.tiles * bins.len() as u32,
            ..self.grid
        };
        let first = bins.start;
        let args = PagesArgs { first, ..self.args };
        // SAFETY: passed on.
        unsafe { self.kernel.kernel.launch(stream, grid, args) }
    }
}

impl Making {
    /// Queues the making of some pages, which counts what is stored.
    ///
    /// # Safety
    /// As [`BuildArgs`] says, until the stream has finished.
    unsafe fn launch(&self, stream: &Stream, pages: &Range<u32>, stored: Counters) -> Result<()> {
        let grid = Grid {
            blocks: pages.len() as u32,
            ..self.grid
        };
        let args = BuildArgs {
            first: pages.start,
            stored,
            ..self.args
        };
        // SAFETY: passed on.
        unsafe { self.kernel.launch(stream, grid, args) }
    }
}

impl Build<'_> {
    /// The list of pairs that are not at the head of their page, or find no place in it.
    fn spill(&self, count: *mut u64) -> Spill<u8, u8> {
        Spill {
            keys: self.parts.spilled_keys.ptr(),
            values: self.parts.spilled_values.ptr(),
            count,
            room: self.plan.spill as u64,
        }
    }

    /// The list of pairs that find no place in their page, in the memory of the bins, which nothing reads any more when
    /// all are at the heads of pages: there is room for all.
    pub fn left(&self, count: *mut u64) -> Spill<u8, u8> {
        let bins = &self.batch.bins;
        let keys = bins.keys.cast_mut();
        let places = bins.len();
        Spill {
            keys,
            values: match self.pair.side_by_side() {
                true => keys.wrapping_add(places as usize * self.pair.key),
                false => bins.values.cast_mut(),
            },
            count,
            room: places,
        }
    }

    /// The count of the pairs that found no room at the head of their page, if values are merged.
    pub fn sent_away(&self) -> *mut u64 {
        let words = self.parts.cursors.ptr().cast::<u64>();
        words.wrapping_add(self.plan.pages as usize + 1)
    }

    /// What sorts the bins, on a device for which tiles have so many keys.
    fn sorting(&self, tile: u32, reports: Reports) -> Sorting {
        let (plan, bins) = (&self.plan, &self.batch.bins);
        let combined = self.kernels.combined.zip(self.batch.combined);
        let (kernel, combine) = match combined {
            Some((kernels, combine)) => (kernels.to_pages, combine),
            None => (self.kernels.to_pages, Combine::KEEP),
        };
        let capacity = bins.capacity();
        let args = PagesArgs {
            view: self.table.view(),
            keys: bins.keys,
            values: bins.values,
            counts: bins.counts,
            capacity,
            bits: plan.bits,
            sources: self.batch.sources,
            first: 0,
            tiles: capacity.div_ceil(u64::from(tile)) as u32,
            tile,
            parts: plan.parts,
            heads: plan.heads(&self.parts.heads, self.pair.bytes()),
            cursors: self.parts.cursors.ptr().cast(),
            combine,
            spill: self.spill(match self.merge {
                Some(_) => self.sent_away(),
                None => reports.counters.unplaced(),
            }),
        };
        let grid = Grid {
            blocks: 0,
            threads: kernel.threads,
            shared_bytes: kernel.shared_bytes(tile, plan.parts),
        };
        Sorting { kernel, args, grid }
    }

    /// What makes the pages of such slots from what was sorted.
    fn making(&self, slot_bytes: u32, sorted: &Sorting, reports: Reports) -> Making {
        let plan = &self.plan;
        let merged = self.merge.and(self.kernels.merged);
        let [build, fill] = merged.unwrap_or(self.kernels.pages);
        let kernel = match plan.before {
            Before::Nothing => build,
            Before::Pairs => fill,
        };
        let cursors = sorted.args.cursors;
        let args = BuildArgs {
            view: sorted.args.view,
            first: 0,
            heads: sorted.args.heads,
            counts: cursors.cast_const(),
            equal: cursors.wrapping_add(plan.pages as usize),
            crowded: reports.crowded,
            spill: match self.merge {
                Some(_) => self.left(reports.counters.unplaced()),
                None => sorted.args.spill,
            },
            merging: Merging {
                update: self.merge.map_or(Update::Replace, |merge| merge.update),
                leaves_absent: u32::from(self.merge.is_some_and(|merge| merge.leaves_absent)),
                sent_away: self.sent_away(),
                most_sent_away: sorted.args.spill.room,
            },
            stored: reports.counters,
        };
        let sizes = self.pair.sizes();
        let grid = Grid {
            blocks: 0,
            threads: plan.threads(),
            shared_bytes: plan.shared_bytes(sizes, slot_bytes),
        };
        Making { kernel, args, grid }
    }
}

impl Core {
    /// Sorts the bins to the pages and makes these, stage by stage, and waits.
    pub(super) fn make_all_pages(
        &self,
        scratch: &mut Workspace,
        build: &Build<'_>,
    ) -> Result<Made> {
        let reports = Reports {
            counters: scratch.counting()?,
            crowded: scratch.question(),
        };
        let plan = &build.plan;
        let tile = scatter_tile(&self.device, &build.kernels.to_pages, plan.parts);
        let sorting = build.sorting(tile, reports);
        let making = build.making(self.kernels.slot_bytes, &sorting, reports);
        self.device
            .load_kernels([sorting.kernel.kernel.entry(), making.kernel.entry()])?;
        let stages = stages(&build.table.shape, plan, build.batch);
        // Bins of the next stage are sorted while pages of this one are made, unless there is no
        // second stream to be had.
        let beside = match &*stages {
            [_] => None,
            _ => self.scratch.take().ok(),
        };
        let [stored, spilled] = self.or_poison_if_launched(scratch, |scratch| {
            let stream = scratch.stream();
            let beside = beside.as_ref().map_or(stream, |other| other.stream());
            let cursors = &build.parts.cursors;
            // SAFETY: the kernel set fits the map's types; bins, heads, cursors and the list live
            // until the waits, of both streams, and the exclusive lock keeps all other operations
            // away.
            unsafe {
                stream.fill(cursors.ptr(), 0, plan.cursors() * size_of::<u64>())?;
                run_stages(stream, beside, &stages, &sorting, &making, plan.pages)?;
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

/// Queues all stages: bins are sorted on the stream `beside`, and `pages` pages made on the other.
/// Pages are made when no bin is sorted any more that reaches into them.
///
/// # Safety
/// As for what is launched, until both streams have finished.
unsafe fn run_stages(
    stream: &Stream,
    beside: &Stream,
    stages: &[Stage<'_>],
    sorting: &Sorting,
    making: &Making,
    pages: u32,
) -> Result<()> {
    let counters = making.args.stored;
    beside.wait_stream(stream)?;
    for stage in stages {
        if let Some(event) = stage.after {
            beside.wait_event(event)?;
        }
        // SAFETY: passed on.
        unsafe { sorting.launch(beside, &stage.bins) }?;
        stream.wait_stream(beside)?;
        // The last one hands over what all have counted.
        let stored = match stage.pages.end == pages {
            true => counters,
            false => Counters::of(counters.words),
        };
        // SAFETY: passed on.
        unsafe { making.launch(stream, &stage.pages, stored) }?;
    }
    Ok(())
}
