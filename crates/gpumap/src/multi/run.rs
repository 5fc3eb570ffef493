//! Running operations, and launching the kernels that serve a batch.

use std::ptr;
use std::sync::Arc;

use gpumap_kernels::chained::answer::{Outcome, Report};
use gpumap_kernels::chained::kernels::ChainedArgs;
use gpumap_kernels::count::Counters;
use gpumap_kernels::source;
use gpumap_simt::kernel::{Grid, Kernel, KernelArgs, Launcher};

use super::Core;
use super::chains::Chains;
use super::retrieve::Part;
use super::store::Storing;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::lock::ReadGuard;
use crate::map::{
    Arrays, Batch, Command, HeldPairs, MapMemory, MapState, Outputs, Pair, Receiver,
    StreamReceiver, share_out,
};
use crate::poison;
use crate::primitives::Order;
use crate::scratch::{ScratchPool, ScratchRole, Workspace, address_of};
use crate::stream::LaunchOn;

/// A kernel that serves batches.
pub(super) type BatchKernel = Kernel<ChainedArgs<u8, u8>>;

/// A batch on the device, and how it is shared out among warps.
#[derive(Clone, Copy)]
pub(super) struct Job {
    pub grid: Grid,
    pub batch: source::Batch<u8, u8>,
    /// What is done with each key, if they are not all treated the same.
    pub operations: *const u8,
    pub report: Report<u8>,
}

impl Job {
    /// How many keys it has.
    pub fn len(&self) -> usize {
        self.batch.len as usize
    }

    /// The arguments of a kernel that serves it.
    fn arguments(self, chains: &Chains, counters: Counters) -> ChainedArgs<u8, u8> {
        ChainedArgs {
            view: chains.view(),
            batch: self.batch,
            operations: self.operations,
            report: self.report,
            counters,
        }
    }
}

// Of a lookup outcomes are what callers want to know.
const _: () = assert!(Outcome::Absent as u8 == 0 && Outcome::Present as u8 == 1);

impl Core {
    /// Runs an operation that has been checked. Returns what it counts.
    pub(super) fn run(&self, batch: &Batch<'_>, outputs: Outputs<'_>) -> Result<usize> {
        let Batch { keys, values, .. } = *batch;
        outputs.through_arrays(keys.len(), |arrays| match batch.kind.traits().stores {
            true => {
                let stored = self.store(Storing::INSERT, keys, values.each(), arrays);
                stored.map(|(stored, _)| stored)
            }
            false => self.answer(batch, arrays),
        })
    }

    /// Looks keys up, or removes a pair for each, and waits. The outputs are at least as long as the keys. Returns how many pairs
    /// were removed.
    fn answer(&self, batch: &Batch<'_>, outputs: Arrays<'_>) -> Result<usize> {
        let len = batch.len();
        let mut scratch = self.scratch.take()?;
        let mut targets = scratch.host_targets(outputs, len)?;
        if len == 0 {
            return Ok(0);
        }
        let command = Command {
            // SAFETY: what is queued has ended when this returns, or when the workspace goes back.
            keys: unsafe { scratch.stage(ScratchRole::Keys, batch.keys.bytes()) }?,
            ..Command::of_batch(batch, self.pair, targets.each_mut().map(address_of))
        };
        if let Some((at, bytes)) = command.zeroed() {
            // SAFETY: there is a place for each key. The kernel writes to those of present keys.
            unsafe { scratch.stream().fill(at, 0, bytes) }?;
        }
        let mut removed = 0;
        if command.kind.traits().removes {
            let chains = self.shared_to_change()?;
            let (kernel, job) = self.job_of(&command);
            [removed, _] = self.change(&chains, &mut scratch, kernel, job)?;
            self.state.occupancy.removed(removed);
        } else {
            self.look(&*self.shared()?, &mut scratch, &command)?;
        }
        scratch.copy_all_to_host(targets.into_iter().flatten())?;
        Ok(removed)
    }

    /// Looks up keys that are on the device, and waits. The caller holds the lock of the chains.
    pub(super) fn look(
        &self,
        chains: &Chains,
        scratch: &mut Workspace,
        command: &Command,
    ) -> Result<()> {
        let nothing = Counters::of(ptr::null_mut());
        // SAFETY: keys are staged, and outputs are null or as long; the caller holds the lock until this has ended.
        unsafe { self.launch(chains, scratch.stream(), command, nothing) }?;
        scratch.stream().finish()
    }

    /// Launches the kernel of a lookup or of a removal, or records that.
    ///
    /// # Safety
    /// As for [`MapMemory::launch`].
    unsafe fn launch(
        &self,
        chains: &Chains,
        on: &impl Launcher<Error = Error>,
        command: &Command,
        counters: Counters,
    ) -> Result<()> {
        let (kernel, job) = self.job_of(command);
        // SAFETY: the kernel set fits the map's types; the rest is the caller's promise.
        unsafe { kernel.launch(on, job.grid, job.arguments(chains, counters)) }
    }

    /// The kernel of a lookup or of a removal, and what it works on.
    fn job_of(&self, command: &Command) -> (&'static BatchKernel, Job) {
        let (grid, batch) = self.batch(command.keys, ptr::null(), command.len);
        let (flags, none) = (command.out_flags, ptr::null_mut());
        let (kernel, outcomes, flags) = match command.kind.traits().removes {
            true => (self.kernels.remove, none, flags),
            false => (self.kernels.get, flags, none),
        };
        let job = Job {
            grid,
            batch,
            operations: ptr::null(),
            report: Report {
                outcomes,
                flags,
                values: command.out_values,
            },
        };
        (kernel, job)
    }

    /// How keys and values are shared out among warps.
    pub(super) fn batch(
        &self,
        keys: *const u8,
        values: *const u8,
        len: usize,
    ) -> (Grid, source::Batch<u8, u8>) {
        let len = len as u64;
        let (grid, per_warp) = share_out(len, u64::from(self.device.multiprocessors()));
        let batch = source::Batch {
            keys,
            values,
            value: 0,
            len,
            per_warp,
        };
        (grid, batch)
    }

    /// Runs a kernel that changes the map, and waits for it. Returns its two counts. The caller holds
    /// the lock of the chains.
    pub(super) fn change(
        &self,
        chains: &Chains,
        scratch: &mut Workspace,
        kernel: &'static BatchKernel,
        job: Job,
    ) -> Result<[usize; 2]> {
        let args = job.arguments(chains, scratch.counting()?);
        // SAFETY: inputs are staged, and outputs are null or as long as the batch.
        unsafe { self.change_by(scratch, kernel, job.grid, args) }
    }

    /// Runs a kernel of the set that changes the map, and waits for it. Returns its two counts.
    ///
    /// # Safety
    /// The arguments are as the kernel says, and the caller holds the lock of the chains, alone if the kernel wants that.
    pub(super) unsafe fn change_by<A: KernelArgs>(
        &self,
        scratch: &mut Workspace,
        kernel: &'static Kernel<A>,
        grid: Grid,
        args: A,
    ) -> Result<[usize; 2]> {
        let counts = poison::or_poison_if_launched(&self.state.poisoned, scratch, |scratch| {
            // SAFETY: the kernel set fits the sizes of keys and values; the rest is the caller's promise.
            unsafe { kernel.launch(scratch.stream(), grid, args) }?;
            scratch.counted()
        })?;
        Ok(counts.map(|count| count as usize))
    }
}

impl StreamReceiver for Core {
    fn receiver(&self) -> Receiver {
        Receiver::Multi
    }

    fn device(&self) -> &Device {
        &self.device
    }

    fn state(&self) -> &Arc<MapState> {
        &self.state
    }

    fn scratch(&self) -> &ScratchPool {
        &self.scratch
    }

    fn pair(&self) -> Pair {
        self.pair
    }

    fn len(&self) -> usize {
        self.state.retire_ended();
        self.state.occupancy.len()
    }

    fn expect_no_callback(&self) -> Result<()> {
        self.chains.expect_no_callback()
    }

    fn memory(&self) -> Result<Box<dyn MapMemory + '_>> {
        let chains = self.shared()?;
        Ok(Box::new(ChainsMemory { core: self, chains }))
    }

    fn run(&self, batch: &Batch<'_>, outputs: Outputs<'_>) -> Result<usize> {
        self.run(batch, outputs)
    }

    fn write_pairs(&self, scratch: &mut Workspace, to: [*mut u8; 2], room: usize) -> Result<usize> {
        let chains = self.shared()?;
        Part::all(self, &chains).write(scratch, Order::Any, to, room)
    }
}

/// Chains.
struct ChainsMemory<'m> {
    core: &'m Core,
    chains: ReadGuard<'m, Chains>,
}

impl MapMemory for ChainsMemory<'_> {
    fn sight(&self) -> Vec<u64> {
        self.chains.sight()
    }

    unsafe fn launch(
        &self,
        on: LaunchOn<'_>,
        command: &Command,
        counters: Counters,
        _: *mut u8,
    ) -> Result<()> {
        // SAFETY: the promise of the caller, to whom the command's memory belongs; the lock of the chains is held here.
        unsafe { self.core.launch(&self.chains, &on, command, counters) }
    }
}
