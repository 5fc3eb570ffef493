//! The one place that launches the kernel of a [`Command`], and how a batch is shared out among warps.

use std::ptr;

use gpumap_kernels::build::bins::Bins;
use gpumap_kernels::count::{Counters, MOST_BLOCKS};
use gpumap_kernels::kernels::{BATCH_THREADS, BatchArgs, Operation, OperationArgs};
use gpumap_kernels::source::Batch;
use gpumap_kernels::table::MapView;
use gpumap_kernels::verbs::look_up::Answers;
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
    pub fn account(self, outcomes: *mut u8) -> Account {
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
        if command.kind == Kind::Dump {
            let (keys, values) = (command.keys.cast_mut(), command.values.cast_mut());
            let dump = Dump::of(table, Order::Any, keys, values, command.len)?;
            let (kernel, counters) = (self.kernels.retrieve_all, notes.counters);
            // SAFETY: passed on.
            return unsafe { dump.queue(kernel, on, &self.device, counters, ptr::null_mut()) };
        }
        let (operation, mode) = self.operation(command.kind);
        let view = match command.kind.traits().stores {
            true => table.view_to_store(),
            false => table.view(),
        };
        let update = match command.kind {
            Kind::Merge(update) | Kind::Update(update) | Kind::GetAndTouch(update) => update,
            _ => Update::Replace,
        };
        // SAFETY: the kernels are for keys and values of these sizes; bins live as long as the batch, and there is a bit for
        // each place; the rest is the caller's promise.
        unsafe {
            if let (Some(bins), Some(kernel)) = (command.bins, self.kernels.bins(operation)) {
                let args = OperationArgs {
                    update,
                    mode,
                    ..self.operation_args(view, bins, notes.account(command.out_flags))
                };
                return kernel.launch(on, grid_of_bins(&bins), args);
            }
            let (grid, batch) = self.share_out(command.keys, command.values, command.len);
            let batch = Batch {
                value: command.value,
                ..batch
            };
            let args = OperationArgs {
                update,
                mode,
                answers: command.outputs(),
                ..self.operation_args(view, batch, notes.account(command.out_flags))
            };
            self.batch_kernel(operation)?.launch(on, grid, args)
        }
    }

    /// The operation of a kind, and which of its [modes](OperationArgs::mode).
    const fn operation(&self, kind: Kind) -> (Operation, u32) {
        let operation = match kind {
            Kind::Get | Kind::GetStrings(_) | Kind::Dump => Operation::Get,
            Kind::CountAbsent => Operation::Count,
            Kind::Insert => Operation::Insert,
            Kind::Merge(_) => Operation::Merge,
            Kind::GetOrInsert => Operation::GetOrInsert,
            Kind::ExchangeIds => Operation::Exchange,
            // The keys of a set have no values: those that are present are counted.
            Kind::Update(_) if self.pair.value == 0 => return (Operation::Count, 1),
            Kind::Update(_) => Operation::Assign,
            Kind::GetAndTouch(_) => Operation::Touch,
            Kind::Remove => Operation::Remove,
            Kind::Take => Operation::Take,
            Kind::TakeIds => Operation::Withdraw,
        };
        (operation, 0)
    }

    /// The kernel of an operation on a batch as it comes.
    ///
    /// # Errors
    /// [`Error::KernelMissing`] for one on ids in a map that has none.
    pub(super) fn batch_kernel(&self, operation: Operation) -> Result<&'static Kernel<BatchArgs>> {
        match self.kernels.batch(operation) {
            Some(kernel) => Ok(kernel),
            // Made only here: an error is no plain data.
            None => Err(Error::KernelMissing { kernel: "of ids" }),
        }
    }

    /// The kernel of a kind on a batch as it comes.
    pub(super) fn kernel_of(&self, kind: Kind) -> Result<&'static Kernel<BatchArgs>> {
        self.batch_kernel(self.operation(kind).0)
    }

    /// Arguments of an operation without answers.
    #[inline]
    pub(super) fn operation_args<S>(
        &self,
        view: MapView,
        input: S,
        account: Account,
    ) -> OperationArgs<S, u8> {
        OperationArgs {
            view,
            input,
            key_bytes: self.pair.key as u32,
            value_bytes: self.pair.value as u32,
            update: Update::Replace,
            mode: 0,
            answers: Answers {
                values: ptr::null_mut(),
                found: ptr::null_mut(),
                default: 0,
            },
            account,
            operations: ptr::null(),
            removed: Notes::NONE.counters,
        }
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

/// The grid for `len` inputs, at least one, and the inputs per warp.
#[inline]
pub(crate) fn share_out(len: u64, multiprocessors: u64) -> (Grid, u32) {
    let warps = multiprocessors * WARPS_PER_MULTIPROCESSOR;
    if len <= warps * WARP {
        // As below. A batch of few keys takes no longer than some divisions do.
        return grid(len, WARP);
    }
    let per_warp = len.div_ceil(warps).next_multiple_of(WARP).min(PER_WARP);
    grid(len, per_warp)
}

/// The grid for a batch in bins.
pub(super) fn grid_of_bins(bins: &Bins<u8, u8>) -> Grid {
    let (grid, _) = grid(bins.len(), u64::from(bins.part));
    grid
}

/// The grid for `len` inputs, `per_warp` for each warp, or more if there are too many warps.
#[inline]
pub(crate) fn grid(len: u64, mut per_warp: u64) -> (Grid, u32) {
    let shares = |per_warp| {
        let warps = len.div_ceil(per_warp);
        (warps, warps.div_ceil(BLOCK_WARPS))
    };
    let (mut warps, mut blocks) = shares(per_warp);
    // A batch with so many blocks does not fit any memory, but costs no branch.
    while blocks >= MOST_BLOCKS {
        per_warp *= 2;
        (warps, blocks) = shares(per_warp);
    }
    let threads = warps.min(BLOCK_WARPS) * WARP;
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
