//! [`Tuning`]: from which sizes on batches take which way. Each number says where it was measured.

use gpumap_kernels::build::bins::{GRAIN, PART};

use super::bulk::Grains;
use crate::device::{Device, Kind};

/// Warps that run on a multiprocessor at the same time: four blocks of a verb.
pub(super) const RESIDENT_WARPS: u64 = 32;

/// From how many pairs on batches are sorted. Measured on an H200 (2026-11).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuning {
    /// Pairs of a batch from which an empty map is built: below it, launches and memory for three
    /// more kernels take longer than they save.
    pub(super) build: usize,
    /// Slots for each pair of such a batch at most. All slots are written, so a batch that is small
    /// against the map is better inserted.
    pub(super) build_slots_per_pair: usize,
    /// Pairs of a batch from which it is added to a map in use page by page.
    pub(super) fill: usize,
    /// Slots for each pair of such a batch at most: all slots are read and written.
    pub(super) fill_slots_per_pair: usize,
    /// Pairs of a batch of which it is seen whether keys are absent, before it is merged with a map that may have no room for
    /// them, and may have to be taken back.
    pub(super) sample: usize,
    /// Pairs of a batch from which it is sorted into bins.
    pub(super) bins: usize,
    /// Pairs of a batch from which it is seen first whether keys repeat.
    pub(super) combine: usize,
    /// Bytes of the table for each pair of such a batch at most: a bin has to have many keys for
    /// each line of its region.
    pub(super) bins_bytes_per_pair: u64,
    /// Bytes of the table at least: one that the L2 holds needs no order.
    pub(super) bins_table_bytes: u64,
    /// Bytes of the table that a warp may work on at one time, among those that work beside it, if the L2 is to
    /// hold the regions of all.
    pub(super) l2_bytes_per_warp: u64,
    /// Bytes of a table from which on any such batch is sorted: it exceeds the TLB reach of the
    /// device.
    pub(super) far_table_bytes: u64,
    /// Keys of a batch from which it is sent straight into the memory of the ranks that own them.
    pub(super) send: usize,
    /// Whether memory of bins is zeroed first: for tools that report each load of what was never written. Kernels
    /// load places of bins that no pair is in, and do not use what is there.
    pub(super) zeroes_bins: bool,
    /// Bytes at least that come together where pages are made while others are on their way: for
    /// less, the launches take longer than the link.
    pub(super) stage_bytes: usize,
}

impl Tuning {
    /// What pays on a device, for slots of so many bytes.
    pub fn of(device: &Device, slot_bytes: u32) -> Self {
        let Kind::Cuda(context) = device.kind() else {
            // The executor has no L2 to keep to, and its lanes count for more than its memory.
            return Self::NEVER;
        };
        Self {
            build: 2_000_000,
            build_slots_per_pair: 8,
            fill: 5_000_000,
            fill_slots_per_pair: 4,
            sample: 1 << 16,
            bins: 5_000_000 * (slot_bytes as usize / 8),
            combine: 50_000_000,
            bins_bytes_per_pair: 256,
            bins_table_bytes: 4 * context.l2_bytes,
            // A third of it for what passes through.
            l2_bytes_per_warp: context.l2_bytes / 3 * 2
                / (u64::from(device.multiprocessors()) * RESIDENT_WARPS),
            far_table_bytes: 78 << 30,
            send: 500_000,
            zeroes_bins: false,
            stage_bytes: 24 << 20,
        }
    }

    pub(super) const NEVER: Self = Self {
        build: usize::MAX,
        build_slots_per_pair: 0,
        fill: usize::MAX,
        fill_slots_per_pair: 0,
        sample: 1 << 10,
        bins: usize::MAX,
        combine: usize::MAX,
        bins_bytes_per_pair: 0,
        bins_table_bytes: u64::MAX,
        l2_bytes_per_warp: 0,
        far_table_bytes: u64::MAX,
        send: usize::MAX,
        zeroes_bins: false,
        stage_bytes: usize::MAX,
    };

    /// All batches of so many pairs, whatever the map: for tests. First what empty maps are built
    /// from, then what is added page by page, then what is sorted or sent sorted to other ranks.
    #[cfg(feature = "unstable-testing")]
    pub const fn from([build, fill, bins]: [usize; 3]) -> Self {
        Self {
            build,
            build_slots_per_pair: usize::MAX,
            fill,
            fill_slots_per_pair: usize::MAX,
            sample: 64,
            bins,
            combine: 1,
            bins_bytes_per_pair: u64::MAX,
            bins_table_bytes: 0,
            l2_bytes_per_warp: u64::MAX,
            far_table_bytes: 0,
            send: bins,
            zeroes_bins: false,
            stage_bytes: 1 << 12,
        }
    }

    /// Whether a batch of so many pairs is too small for any other way than as it comes.
    pub(super) fn is_small(&self, pairs: usize) -> bool {
        pairs < self.build.min(self.fill).min(self.bins)
    }

    /// Whether an empty map of so many slots is built from a batch of so many pairs.
    pub(super) fn builds(&self, pairs: usize, slots: usize) -> bool {
        pairs >= self.build && slots / pairs.max(1) <= self.build_slots_per_pair
    }

    /// Whether a batch of so many pairs is added page by page to a map of so many slots.
    pub(super) fn fills(&self, pairs: usize, slots: usize) -> bool {
        pairs >= self.fill && slots / pairs.max(1) <= self.fill_slots_per_pair
    }

    /// Whether a batch of which a rank has so many keys is sent straight to their owners.
    pub(super) fn sends(&self, keys: usize) -> bool {
        keys >= self.send
    }

    /// Whether so many keys are sorted into bins to be looked up in a table of so many bytes.
    pub(super) fn sorts_lookups(&self, keys: usize, table_bytes: u64) -> bool {
        keys >= self.bins && table_bytes >= self.far_table_bytes
    }

    /// Consecutive places for each warp, of bins with so many pairs for a table of so many bytes. Long parts keep
    /// more lanes busy, if all regions that are worked on at one time stay in the L2.
    pub(super) fn part(&self, pairs: usize, table_bytes: u64, grains: Grains) -> u32 {
        let most = self.l2_bytes_per_warp.saturating_mul(pairs as u64) / table_bytes.max(1);
        let fits = |&part: &u32| {
            let part = u64::from(part);
            part <= most && grains.capacity().is_multiple_of(part)
        };
        [PART, PART / 2].into_iter().find(fits).unwrap_or(GRAIN)
    }

    /// Whether a batch of so many pairs is sorted into bins for a table of so many bytes.
    pub(super) fn sorts(&self, pairs: usize, table_bytes: u64) -> bool {
        let is_near = table_bytes / pairs.max(1) as u64 <= self.bins_bytes_per_pair;
        pairs >= self.bins
            && table_bytes >= self.bins_table_bytes
            && (is_near || table_bytes >= self.far_table_bytes)
    }
}
