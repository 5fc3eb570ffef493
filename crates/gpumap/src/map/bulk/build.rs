//! Making all pages of a map with one batch: of an empty map, or of one that is in use.

use std::ptr;

use gpumap_kernels::build::page::{self, BuildArgs};
use gpumap_kernels::build::pages::{Heads, PagesArgs};
use gpumap_kernels::build::spill::Spill;
use gpumap_kernels::hash::{KeyHash, scale};
use gpumap_kernels::kernels::BulkKernels;
use gpumap_kernels::verbs::store::Select;
use gpumap_simt::atomic::part::Update;
use gpumap_simt::kernel::Grid;
use parking_lot::RwLockWriteGuard;

use super::bins::{Binned, InBins, spare};
use crate::error::Result;
use crate::map::shape::Shape;
use crate::map::store::{Job, Progress, Verb};
use crate::map::table::Table;
use crate::map::{Key, Map, Value};
use crate::memory::{Memory, bytes_of};
use crate::primitives::scatter_tile;
use crate::scratch::Workspace;

/// Bits of the hash that choose a bin at most.
const MOST_BITS: u32 = 9;

/// What there is in a map before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// No pair: pages are made from nothing.
    Nothing,
    /// Pairs, which stay where they are.
    Pairs,
}

/// How a batch gets to the pages of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan {
    before: Before,
    /// Bits of the hash that choose a bin.
    bits: u32,
    /// Pages that one bin reaches into at most.
    parts: u32,
    /// Pages of all submaps.
    pages: u32,
    /// Slots of each.
    page_slots: u32,
    /// Pairs that are sent to a page without being spilled.
    room: u32,
    /// Pairs that may be spilled.
    spill: usize,
}

impl Plan {
    /// About as many bins as each of them has pages, so that runs are long in both passes. None if
    /// there are too many pages for two passes, with `most_parts` in the second, or for the bits that are
    /// given.
    fn new(
        shape: &Shape,
        len: usize,
        most_parts: u32,
        before: Before,
        given: Option<u32>,
    ) -> Option<Self> {
        let pages: usize = shape.pages.iter().map(|&pages| pages as usize).sum();
        let pages = u32::try_from(pages)
            .ok()
            .filter(|&p| p <= i32::MAX as u32)?;
        let middle = (pages.ilog2() / 2).clamp(1, MOST_BITS);
        let parts = |bits| (bits, most_pages(shape, bits));
        let bits = match given {
            Some(bits) => bits..=bits,
            None => middle..=MOST_BITS,
        };
        let (bits, parts) = bits.map(parts).find(|&(_, parts)| parts <= most_parts)?;
        let page_slots = shape.slab_slots << shape.page_log2;
        let smallest = shape.pages.iter().copied().min()?;
        // Of the fullest pages, those of the smallest submap.
        let mean = len as f64 / shape.pages.len() as f64 / f64::from(smallest);
        let room = (mean + 8.0 * mean.sqrt()).ceil() as u32;
        Some(Self {
            before,
            bits,
            parts,
            pages,
            page_slots,
            room: room.max(8).next_multiple_of(8).min(page_slots),
            spill: len / 64 + 1024,
        })
    }

    /// A cursor for each page, and one count for all.
    fn cursors(&self) -> usize {
        self.pages as usize + 1
    }

    /// Bytes of shared memory in which a block makes a page of such slots, from pairs of these sizes.
    fn shared_bytes(&self, sizes: [u32; 2], slot_bytes: u32) -> u32 {
        let in_use = self.before == Before::Pairs;
        page::shared_bytes(sizes, slot_bytes, self.page_slots, self.room, in_use)
    }

    /// Bytes of the heads in scratch memory: none if pages are their own.
    fn head_bytes(&self, pair: usize) -> usize {
        match self.before {
            Before::Nothing => 0,
            Before::Pairs => self.pages as usize * self.room as usize * pair,
        }
    }

    /// Where the heads are, of pairs of so many bytes.
    fn heads(&self, memory: &Memory, pair: usize) -> Heads {
        match self.before {
            Before::Nothing => Heads {
                at: ptr::null_mut(),
                stride: 0,
                keys: self.page_slots,
                room: self.room,
            },
            Before::Pairs => Heads {
                at: memory.ptr(),
                stride: (self.room as usize * pair) as u64,
                keys: self.room,
                room: self.room,
            },
        }
    }
}

/// The most pages that a bin of `bits` bits of the hash reaches into.
fn most_pages(shape: &Shape, bits: u32) -> u32 {
    let mut before = vec![0u64; shape.pages.len()];
    for i in 1..before.len() {
        before[i] = before[i - 1] + u64::from(shape.pages[i - 1]);
    }
    let number = |hash: KeyHash| {
        let (submap, rest) = hash.submap(shape.pages.len() as u32);
        before[submap as usize] + u64::from(scale(rest, shape.pages[submap as usize]))
    };
    let span = |bin| number(KeyHash::last_of(bin, bits)) - number(KeyHash::first_of(bin, bits)) + 1;
    let most = (0..1 << bits).map(span).max().unwrap_or(1);
    u32::try_from(most).unwrap_or(u32::MAX)
}

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
    fn makes_pages(&self, job: &Job<K, V>) -> Option<Before> {
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

    /// As [`build_from`](Self::build_from), with a batch that may be in bins already, and then is not
    /// anywhere else.
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
        let most_parts = kernels.to_pages.threads;
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
        if before == Before::Nothing {
            // Whatever tombstones there are will be gone.
            self.room.rebuilt(0, self.capacity());
        }
        // Those of pages in use are carried on.
        let marked = before == Before::Nothing || table.is_marked();
        table.set_marked(false);
        let own = parts.bins.as_ref().map(Binned::in_bins);
        let Some(batch) = given.copied().or(own) else {
            return Ok(None);
        };
        let made = self.make_all_pages(table, scratch, kernels, &parts, plan, batch)?;
        let Made {
            stored,
            spilled,
            crowded,
        } = made;
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
        let report = self.run(table, scratch, rest, Select::All)?;
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

    /// Sorts the bins to the pages and makes these, and waits.
    fn make_all_pages(
        &self,
        table: &Table,
        scratch: &mut Workspace,
        kernels: &BulkKernels<K::Bits, V::Bits>,
        parts: &Parts,
        plan: Plan,
        InBins { bins, sources, .. }: InBins<K, V>,
    ) -> Result<Made> {
        let view = table.view();
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
        let (tile, shared_bytes) = scatter_tile(&self.device, &kernel, sizes, plan.parts);
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
            tiles,
            tile,
            parts: plan.parts,
            heads,
            cursors: parts.cursors.ptr().cast(),
            spill,
        };
        let to_pages = Grid {
            blocks: tiles * bins.bins,
            threads: kernel.threads,
            shared_bytes,
        };
        let make = match plan.before {
            Before::Nothing => kernels.build,
            Before::Pairs => kernels.fill,
        };
        let build = BuildArgs {
            view,
            heads,
            counts: pages.cursors.cast_const(),
            equal: pages.cursors.wrapping_add(plan.pages as usize),
            crowded,
            spill,
            stored: counters,
        };
        let slot_bytes = self.kernels.slot_bytes;
        let of_pages = Grid {
            blocks: plan.pages,
            threads: page::threads(slot_bytes),
            shared_bytes: plan.shared_bytes(sizes, slot_bytes),
        };
        let cursor_bytes = plan.cursors() * size_of::<u64>();
        let [stored, spilled] = self.or_poison(scratch, |scratch| {
            let stream = scratch.stream();
            // SAFETY: the kernel set fits the map's types; bins, heads, cursors and the list live until
            // the wait, and the exclusive lock keeps all other operations away.
            unsafe {
                stream.fill(parts.cursors.ptr(), 0, cursor_bytes)?;
                kernel.kernel.launch(stream, to_pages, pages)?;
                make.launch(stream, of_pages, build)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(pages: &[u32]) -> Shape {
        Shape {
            page_log2: 9,
            pages: pages.to_vec(),
            slab_slots: 4,
            capacity: 0,
        }
    }

    #[test]
    fn large_maps_get_as_many_bins_as_pages_in_each() {
        let plan = Plan::new(
            &shape(&[6104; 16]),
            100_000_000,
            1024,
            Before::Nothing,
            None,
        )
        .unwrap();
        assert_eq!((plan.bits, plan.parts), (8, 382));
        assert_eq!(plan.room, 1280);
        let plan = Plan::new(&shape(&[54_254]), 100_000_000, 1024, Before::Nothing, None).unwrap();
        assert_eq!((plan.bits, plan.room), (7, 2048));
        assert_eq!(
            Plan::new(&shape(&[1 << 20]), 1 << 30, 1024, Before::Nothing, None),
            None
        );
    }

    #[test]
    fn one_page_is_one_part() {
        for pages in [&[1][..], &[1, 1, 1], &[1, 7, 2]] {
            let plan = Plan::new(&shape(pages), 100, 1024, Before::Nothing, None).unwrap();
            assert!(plan.parts >= 1 && plan.parts <= plan.pages);
        }
    }

    #[test]
    fn every_page_is_in_reach_of_some_bin() {
        for pages in [vec![3, 100, 1], vec![5; 40], vec![1000]] {
            let shape = shape(&pages);
            let all: u32 = pages.iter().sum();
            for bits in 1..=MOST_BITS {
                assert!(most_pages(&shape, bits) << bits >= all);
            }
        }
    }
}
