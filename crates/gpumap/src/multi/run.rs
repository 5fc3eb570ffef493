//! Launching the kernels that serve a batch.

use gpumap_kernels::chained::answer::Report;
use gpumap_kernels::chained::kernels::ChainedArgs;
use gpumap_kernels::count::Counters;
use gpumap_kernels::source::Batch;
use gpumap_simt::kernel::{Grid, Kernel};

use super::chains::Chains;
use super::{MultiMap, Word, WordKey};
use crate::error::Result;
use crate::map::share_out;
use crate::scratch::Workspace;

use std::ptr;

/// A kernel that serves batches of keys of this type.
pub(super) type BatchKernel<K> = Kernel<ChainedArgs<<K as Word>::Bits, <K as Word>::Bits>>;

/// A batch on the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job<K, V> {
    pub keys: *const K,
    /// Null for verbs that store nothing.
    pub values: *const V,
    /// What is done with each key, if they are not all treated the same.
    pub operations: *const u8,
    /// A byte per key, for what became of it; may be null.
    pub outcomes: *mut u8,
    /// A byte per key, 1 where a pair was stored or removed; may be null.
    pub flags: *mut u8,
    /// A value per key, for those that are found or removed; may be null.
    pub found: *mut V,
    pub len: usize,
}

impl<K, V> Job<K, V> {
    /// Keys only, and no answers.
    pub fn of_keys(keys: *const K, len: usize) -> Self {
        Self {
            keys,
            values: ptr::null(),
            operations: ptr::null(),
            outcomes: ptr::null_mut(),
            flags: ptr::null_mut(),
            found: ptr::null_mut(),
            len,
        }
    }
}

impl<K: WordKey, V: Word<Bits = K::Bits>> MultiMap<K, V> {
    /// How a batch is shared out among warps: the grid, and the keys of each.
    pub(super) fn share_out(&self, len: usize) -> (Grid, u32) {
        share_out(len as u64, u64::from(self.device.multiprocessors()))
    }

    /// Runs a kernel that changes the map, and waits for it. Returns its two counts. The caller holds
    /// the lock of the chains.
    pub(super) fn change(
        &self,
        chains: &Chains,
        scratch: &mut Workspace,
        kernel: &'static BatchKernel<K>,
        job: Job<K, V>,
        (grid, per_warp): (Grid, u32),
    ) -> Result<[usize; 2]> {
        let counters = scratch.counting()?;
        let args = arguments(chains, job, per_warp, counters);
        let counts = self.or_poison_if_launched(scratch, |scratch| {
            // SAFETY: the kernel set fits the map's types; inputs are staged, and outputs are null or as
            // long as the batch; the caller holds the lock until this has ended.
            unsafe { kernel.launch(scratch.stream(), grid, args) }?;
            scratch.counted()
        })?;
        Ok(counts.map(|count| count as usize))
    }

    /// Runs a kernel that changes nothing, and waits for it. The caller holds the lock of the chains.
    pub(super) fn look(
        &self,
        chains: &Chains,
        scratch: &mut Workspace,
        kernel: &'static BatchKernel<K>,
        job: Job<K, V>,
    ) -> Result<()> {
        let (grid, per_warp) = self.share_out(job.len);
        let args = arguments(chains, job, per_warp, Counters::of(ptr::null_mut()));
        // SAFETY: as above; such a kernel counts nothing.
        unsafe { kernel.launch(scratch.stream(), grid, args) }?;
        scratch.stream().finish()
    }
}

/// The arguments of a kernel that serves a batch.
pub(super) fn arguments<K: WordKey, V: Word<Bits = K::Bits>>(
    chains: &Chains,
    job: Job<K, V>,
    per_warp: u32,
    counters: Counters,
) -> ChainedArgs<K::Bits, K::Bits> {
    ChainedArgs {
        view: chains.view(),
        batch: Batch {
            keys: job.keys.cast(),
            values: job.values.cast(),
            value: 0,
            len: job.len as u64,
            per_warp,
        },
        operations: job.operations,
        report: Report {
            outcomes: job.outcomes,
            flags: job.flags,
            values: job.found.cast(),
        },
        counters,
    }
}
