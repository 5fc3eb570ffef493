//! The one place that launches the kernel of a [`Command`], and how a batch is shared out among warps.

use std::ptr;

use gpumap_kernels::build::bins::Bins;
use gpumap_kernels::count::{Counters, MOST_BLOCKS};
use gpumap_kernels::kernels::ids::{IdKernels, id_kernels};
use gpumap_kernels::kernels::{
    AssignArgs, AssignBinsArgs, BATCH_THREADS, CountArgs, CountBinsArgs, Encoding, GetArgs,
    RemoveArgs, RemoveBinsArgs, StoreArgs, StoreBinsArgs,
};
use gpumap_kernels::map_ref::SlotKind;
use gpumap_kernels::source::Batch;
use gpumap_kernels::verbs::store::{Account, Select};
use gpumap_simt::atomic::part::Update;
use gpumap_simt::kernel::{Grid, Kernel, Launcher};
use gpumap_simt::warp;

use super::Core;
use super::command::{Command, Kind};
use super::retrieve::Dump;
use super::table::Table;
use crate::error::{Error, Result};
use crate::primitives::Order;

const WARP: u64 = warp::SIZE as u64;

/// Keys that a warp of a large batch works on one after the other: enough for the refill to pay,
/// few enough that warps end together. Measured best on an H200 (2026-11).
const PER_WARP: u64 = 512;

/// Warps of a block.
pub(super) const BLOCK_WARPS: u64 = BATCH_THREADS as u64 / WARP;

/// Warps that keep one multiprocessor busy: small batches are spread over as many. Three blocks
/// of them; a fourth, which not every multiprocessor would get, ends no sooner (measured on an
/// H200, 2026-11: batches of 1 M keys).
const WARPS_PER_MULTIPROCESSOR: u64 = 24;

/// What a kernel notes beside its answers.
#[derive(Clone, Copy)]
pub(super) struct Notes {
    /// What it counts: pairs that were stored or removed, keys that were present or absent.
    pub counters: Counters,
    /// A bit for each pair that finds no room; null if nothing can be done about it.
    pub unplaced: *mut u32,
    /// Which pairs of the batch are stored.
    pub select: Select,
}

impl Notes {
    /// Nothing.
    pub const NONE: Self = Self {
        counters: Counters {
            words: ptr::null_mut(),
            mirror: ptr::null_mut(),
        },
        unplaced: ptr::null_mut(),
        select: Select::All,
    };

    /// Only what it counts.
    pub fn of(counters: Counters) -> Self {
        Self {
            counters,
            ..Self::NONE
        }
    }

    /// The same as kernels that store take it, with a byte for each key that is stored, or none.
    fn account(self, outcomes: *mut u8) -> Account {
        Account {
            outcomes,
            unplaced: self.unplaced,
            counters: self.counters,
            select: self.select,
        }
    }
}

impl Core {
    /// Launches the kernel of a command, or records that; nothing if there is nothing to do.
    ///
    /// # Safety
    /// The addresses lead to as many elements as the command says, on the map's device. They, the
    /// counters and the table are valid until what was launched, or will be, has ended: whatever would free or empty the
    /// table waits for its lock, or for all pending calls.
    pub(super) unsafe fn launch(
        &self,
        table: &Table,
        on: &impl Launcher<Error = Error>,
        command: &Command,
        notes: Notes,
    ) -> Result<()> {
        if command.is_empty() {
            return Ok(());
        }
        match (command.bins, self.kernels.bulk) {
            // SAFETY: passed on.
            (Some(bins), Some(_)) => unsafe { self.launch_bins(table, on, command, bins, notes) },
            // SAFETY: passed on.
            _ => unsafe { self.launch_batch(table, on, command, notes) },
        }
    }

    /// As [`launch`](Self::launch), of a batch as it came.
    unsafe fn launch_batch(
        &self,
        table: &Table,
        on: &impl Launcher<Error = Error>,
        command: &Command,
        notes: Notes,
    ) -> Result<()> {
        let (grid, batch) = self.share_out(command.keys, command.values, command.len);
        let batch = Batch {
            value: command.value,
            ..batch
        };
        let answers = command.outputs();
        // SAFETY: the kernel set is for keys and values of these sizes; the rest is the caller's promise.
        unsafe {
            match command.kind {
                Kind::Get => {
                    let args = GetArgs {
                        view: table.view(),
                        batch,
                        answers,
                    };
                    self.kernels.get.launch(on, grid, args)
                }
                Kind::CountAbsent => {
                    let args = CountArgs {
                        view: table.view(),
                        batch,
                        absent: notes.counters,
                    };
                    self.kernels.count_absent.launch(on, grid, args)
                }
                Kind::Insert | Kind::Merge(_) | Kind::GetOrInsert | Kind::ExchangeIds => {
                    let args = StoreArgs {
                        view: table.view_to_store(),
                        batch,
                        update: update_of(command.kind),
                        values: command.out_values,
                        account: notes.account(command.out_flags),
                    };
                    self.store_kernel(command.kind).launch(on, grid, args)
                }
                Kind::Update(update) => {
                    let args = AssignArgs {
                        view: table.view(),
                        batch,
                        update,
                        present: notes.counters,
                    };
                    self.kernels.assign.launch(on, grid, args)
                }
                Kind::Remove | Kind::Take | Kind::TakeIds => {
                    let kernel = match command.kind {
                        Kind::Take => self.kernels.take,
                        Kind::TakeIds => self.id_kernels().withdraw,
                        _ => self.kernels.remove,
                    };
                    let args = RemoveArgs {
                        view: table.view(),
                        batch,
                        answers,
                        removed: notes.counters,
                    };
                    kernel.launch(on, grid, args)
                }
                Kind::Dump => {
                    let (keys, values) = (command.keys.cast_mut(), command.values.cast_mut());
                    let dump = Dump::of(table, Order::Any, keys, values, command.len)?;
                    let kernel = self.kernels.retrieve_all;
                    dump.queue(kernel, on, &self.device, notes.counters, ptr::null_mut())
                }
            }
        }
    }

    /// As [`launch`](Self::launch), of a batch in bins: of those kinds that are sorted.
    unsafe fn launch_bins(
        &self,
        table: &Table,
        on: &impl Launcher<Error = Error>,
        command: &Command,
        bins: Bins<u8, u8>,
        notes: Notes,
    ) -> Result<()> {
        let Some(kernels) = self.kernels.bulk else {
            return Ok(());
        };
        let grid = grid_of_bins(&bins);
        // SAFETY: as above; the bins live as long as the batch, and there is a bit for each place.
        unsafe {
            match (command.kind, kernels.assign) {
                (Kind::CountAbsent, _) => {
                    let args = CountBinsArgs {
                        view: table.view(),
                        bins,
                        absent: notes.counters,
                    };
                    kernels.count_absent.launch(on, grid, args)
                }
                (Kind::Update(update), Some(kernel)) => {
                    let args = AssignBinsArgs {
                        view: table.view(),
                        bins,
                        update,
                        present: notes.counters,
                    };
                    kernel.launch(on, grid, args)
                }
                (Kind::Insert | Kind::Merge(_), _) => {
                    let args = StoreBinsArgs {
                        view: table.view_to_store(),
                        bins,
                        update: update_of(command.kind),
                        account: notes.account(command.out_flags),
                    };
                    let kernel = match command.kind {
                        Kind::Merge(_) => kernels.merge,
                        _ => kernels.insert,
                    };
                    kernel.launch(on, grid, args)
                }
                (Kind::Remove, _) => {
                    let args = RemoveBinsArgs {
                        view: table.view(),
                        bins,
                        removed: notes.counters,
                    };
                    kernels.remove.launch(on, grid, args)
                }
                // What tells something of each key is not sorted, nor what a set has no values for.
                _ => self.launch_batch(table, on, command, notes),
            }
        }
    }

    /// The kernel of a kind that stores.
    pub(super) fn store_kernel(&self, kind: Kind) -> &'static Kernel<StoreArgs<u8, u8>> {
        match kind {
            Kind::Merge(_) => self.kernels.merge,
            Kind::GetOrInsert => self.kernels.get_or_insert,
            Kind::ExchangeIds => self.id_kernels().exchange,
            _ => self.kernels.insert,
        }
    }

    /// What a map of ids has beside its other kernels.
    fn id_kernels(&self) -> &'static IdKernels {
        let encoding = match self.kernels.slots {
            SlotKind::Split => Encoding::Split,
            SlotKind::Packed | SlotKind::Wide | SlotKind::Keys => Encoding::Wide,
        };
        id_kernels(self.pair.key as u32, encoding)
    }

    /// The grid for a batch of `len` keys, at least one, and the batch as kernels take it.
    pub(super) fn share_out(
        &self,
        keys: *const u8,
        values: *const u8,
        len: usize,
    ) -> (Grid, Batch<u8, u8>) {
        let (grid, per_warp) = share_out(len as u64, u64::from(self.device.multiprocessors()));
        let batch = Batch {
            keys,
            values,
            value: 0,
            len: len as u64,
            per_warp,
        };
        (grid, batch)
    }
}

/// What a kernel that stores does to values of present keys, if it does.
fn update_of(kind: Kind) -> Update {
    match kind {
        Kind::Merge(update) => update,
        _ => Update::Replace,
    }
}

/// The grid for `len` inputs, at least one, and the inputs per warp.
pub(crate) fn share_out(len: u64, multiprocessors: u64) -> (Grid, u32) {
    let per_warp = len
        .div_ceil(multiprocessors * WARPS_PER_MULTIPROCESSOR)
        .next_multiple_of(WARP)
        .min(PER_WARP);
    grid(len, per_warp)
}

/// The grid for a batch in bins.
pub(super) fn grid_of_bins(bins: &Bins<u8, u8>) -> Grid {
    let (grid, _) = grid(bins.len(), u64::from(bins.part));
    grid
}

/// The grid for `len` inputs, `per_warp` for each warp, or more if there are too many warps.
fn grid(len: u64, mut per_warp: u64) -> (Grid, u32) {
    // A batch with so many blocks does not fit any memory, but costs no branch.
    while len.div_ceil(per_warp).div_ceil(BLOCK_WARPS) >= MOST_BLOCKS {
        per_warp *= 2;
    }
    let warps = len.div_ceil(per_warp);
    let threads = warps.min(BLOCK_WARPS) * WARP;
    let blocks = (warps * WARP).div_ceil(threads);
    (Grid::new(blocks as u32, threads as u32), per_warp as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_a_warp() {
        for len in [1, 31, 32, 33, 255, 256, 257, 100_000, 100_000_000, 1 << 33] {
            for multiprocessors in [1, 2, 132] {
                let (grid, per_warp) = share_out(len, multiprocessors);
                let warps = u64::from(grid.blocks) * u64::from(grid.threads) / WARP;
                assert!(warps * u64::from(per_warp) >= len);
                assert_eq!(per_warp % 32, 0);
                assert_eq!(grid.threads % 32, 0);
                assert!(grid.threads <= BATCH_THREADS);
            }
        }
    }
}
