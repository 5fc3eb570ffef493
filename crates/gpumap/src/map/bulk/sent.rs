//! Batches that other ranks have sent, which are in bins already.

use gpumap_kernels::build::bins::{Bins, PART};
use gpumap_kernels::kernels::{GetBinsArgs, reply_bytes};
use gpumap_kernels::p2p::{ReceiveBuffer, SendArgs};
use gpumap_kernels::primitives::partition::ScatterKernel;
use gpumap_simt::kernel::Grid;

use super::bins::InBins;
use crate::error::Result;
use crate::map::Core;
use crate::map::command::{Command, Kind};
use crate::map::launch::grid_of_bins;
use crate::map::plan::BatchInfo;
use crate::map::table::Table;
use crate::stream::Stream;

/// The kernels that send the batches of a map.
pub(crate) struct SendKernels {
    pub(crate) pairs: ScatterKernel<SendArgs<u8, u8>>,
    /// Of pairs that are fetched.
    pub(crate) sorted: ScatterKernel<SendArgs<u8, u8>>,
    pub(crate) keys: ScatterKernel<SendArgs<u8, u8>>,
}

impl Core {
    /// The seed of its hashes.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// In how many stages so many pairs should come, if pages are made from them.
    pub(crate) fn stages_of(&self, pairs: usize) -> usize {
        pairs * self.pair.bytes() / self.tuning.stage_bytes
    }

    /// Whether memory of bins is zeroed before pairs come into it.
    pub(crate) fn zeroes_bins(&self) -> bool {
        self.tuning.zeroes_bins
    }

    /// Pairs that fit beside those it has and those that are reserved.
    pub(crate) fn room_left(&self) -> usize {
        self.state.occupancy.left()
    }

    /// The kernels that batches are sent with, for one of so many keys on this rank: none where
    /// that does not pay.
    pub(crate) fn send_kernels(&self, len: usize) -> Option<SendKernels> {
        let kernels = &self.kernels.bulk;
        self.tuning.sends(len).then_some(SendKernels {
            pairs: kernels.send,
            sorted: kernels.sort,
            keys: kernels.send_keys,
        })
    }

    /// Whether a batch of so many keys would make pages now, if it came in bins.
    pub(crate) fn would_make_pages(&self, kind: Kind, len: usize) -> bool {
        let job = Command::of(kind, self.pair, len);
        let batch = BatchInfo {
            has_copy: false,
            fits: false,
        };
        self.plan(&job, batch).pages.is_some()
    }

    /// Runs an operation on what others have sent, and waits; returns what it counts.
    pub(crate) fn run_sent(&self, kind: Kind, sent: &InBins) -> Result<usize> {
        self.table.expect_no_callback()?;
        match (sent.len, kind.traits().stores) {
            (0, _) => Ok(0),
            (_, true) => self.store_sent(kind, sent),
            (_, false) => self.change_sent(kind, sent),
        }
    }

    /// Stores what was sent, for which there is [room](Self::room_left), as it comes. Returns how
    /// many pairs were stored.
    fn store_sent(&self, kind: Kind, sent: &InBins) -> Result<usize> {
        let mut scratch = self.scratch.take()?;
        let job = Command {
            bins: Some(sent.bins),
            ..Command::of(kind, self.pair, sent.len)
        };
        if let Some(mut table) = self.alone_to_build(&job)
            && let Some(stored) =
                self.build_from_bins(&mut table, &mut scratch, job, Some(sent), false)?
        {
            return Ok(stored);
        }
        if let Some(last) = sent.arrivals.last() {
            scratch.stream().wait_event(&last.event)?;
        }
        let table = self.table.read();
        match self.state.occupancy.reserve_pairs(sent.len) {
            Some(reservation) => self.store_part(table, reservation, &mut scratch, job),
            // Another call has stored pairs meanwhile, in the rank's own map.
            None => Err(self.full(sent.len, sent.len, false)),
        }
    }

    /// Changes or removes what is present of a batch that has come, and waits; returns how many keys were.
    fn change_sent(&self, kind: Kind, sent: &InBins) -> Result<usize> {
        let mut scratch = self.scratch.take()?;
        let table = self.table.read();
        self.expect_sound()?;
        let command = Command {
            bins: Some(sent.bins),
            ..Command::of(kind, self.pair, sent.len)
        };
        self.run_change(&table, &mut scratch, command)
    }

    /// Looks up what was sent, and waits.
    ///
    /// # Safety
    /// `answers` leads to the answers of each source, as [`GetBinsArgs`] says, in memory that this
    /// map's device has mapped.
    pub(crate) unsafe fn get_sent(
        &self,
        sent: &InBins,
        answers: *const ReceiveBuffer,
        default: u64,
    ) -> Result<()> {
        if sent.len == 0 {
            return Ok(());
        }
        let scratch = self.scratch.take()?;
        let table = self.table.read();
        self.expect_sound()?;
        let (stream, bins) = (scratch.stream(), sent.bins);
        // SAFETY: the bins and, by the caller's promise, the answers live until the wait.
        unsafe {
            self.queue_get_bins(&table, stream, bins, sent.sources, answers, default)?;
        }
        scratch.wait()
    }

    /// Queues looking up what is in bins. To be called under the table's lock, which is to be held
    /// until the stream has been waited for.
    ///
    /// # Safety
    /// As [`GetBinsArgs`] says, until then.
    pub(super) unsafe fn queue_get_bins(
        &self,
        table: &Table,
        stream: &Stream,
        bins: Bins<u8, u8>,
        sources: u32,
        answers: *const ReceiveBuffer,
        default: u64,
    ) -> Result<()> {
        // What a warp has answers for.
        let bins = Bins { part: PART, ..bins };
        let args = GetBinsArgs {
            view: table.view(),
            bins,
            sources,
            answers,
            default,
        };
        let grid = grid_of_bins(&bins);
        let grid = Grid {
            shared_bytes: reply_bytes(grid.threads, self.pair.value as u32),
            ..grid
        };
        // SAFETY: the kernel set fits the map's types; the caller's promise.
        unsafe { self.kernels.bulk.get.launch(stream, grid, args) }
    }
}
