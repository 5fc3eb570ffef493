//! A runner drives the blocks that are resident on one OS thread. Runners are kept between launches
//! with their stacks and lane tables: a launch allocates only what no launch before it needed.

use std::rc::Rc;

use super::block::Block;
use super::diagnose;
use super::executor::MAX_THREADS;
use super::explore::{self, Explored};
use super::fault::FaultKind;
use super::job::Job;
use super::resident::Resident;
use super::schedule::{Entry, Policy, Ready};
use super::stack::StackPool;

/// Blocks that are resident together under schedules other than round robin.
pub(super) const RESIDENT_BLOCKS: usize = 8;

/// How many steps a block may take before it looks whether the launch has been cancelled.
const CANCEL_INTERVAL: u64 = 256;

/// Stacks, lane tables and the queue of ready lanes of one OS thread.
pub(super) struct Runner {
    pub(super) residents: Vec<Resident>,
    pub(super) ready: Rc<Ready>,
    pub(super) policy: Rc<Policy>,
    pub(super) stacks: StackPool,
}

/// A runner that runs nothing, and so may change OS threads.
pub(super) struct IdleRunner(Runner);

// SAFETY: an idle runner holds no coroutine, and its `Rc`s and raw pointers point only into itself:
// it moves as a whole.
unsafe impl Send for IdleRunner {}

impl IdleRunner {
    pub(super) fn new(stack_bytes: usize) -> Self {
        Self(Runner {
            residents: Vec::new(),
            ready: Rc::new(Ready::new(RESIDENT_BLOCKS * MAX_THREADS as usize)),
            policy: Rc::new(Policy::new(RESIDENT_BLOCKS)),
            stacks: StackPool::new(stack_bytes),
        })
    }

    /// Takes the stacks that a block of `job` needs, so that none is missing once it runs.
    pub(super) fn reserve(&mut self, job: &Job) -> Result<(), FaultKind> {
        let (threads, stacks) = (job.grid.threads, &mut self.0.stacks);
        stacks.reserve(threads as usize).map_err(|error| {
            stacks.release();
            FaultKind::NoStacks {
                threads,
                bytes: stacks.bytes(),
                error: error.kind(),
            }
        })
    }

    /// Runs blocks of `job` under round robin until none is left to start.
    ///
    /// # Safety
    /// The job's body is alive and fit to run on the job's grid.
    pub(super) unsafe fn run(&mut self, job: &Job) {
        self.0.ready.clear();
        self.0.make_room(0, job.grid.threads);
        while let Some(index) = job.next_block() {
            // SAFETY: passed on.
            unsafe { self.0.run_block(job, index) };
        }
        self.0.release();
    }

    /// Runs launches side by side; see [`explore`].
    ///
    /// # Safety
    /// As for `run`, for every job.
    pub(super) unsafe fn explore(&mut self, run: Explored<'_>) -> super::Trace {
        self.0.ready.clear();
        // SAFETY: passed on.
        let trace = unsafe { explore::run(&mut self.0, run) };
        self.0.release();
        trace
    }
}

impl Runner {
    /// Makes slot `slot`, which is idle, fit for blocks of so many threads.
    pub(super) fn make_room(&mut self, slot: usize, threads: u32) {
        while self.residents.len() <= slot {
            let resident = self.resident(self.residents.len(), 0);
            self.residents.push(resident);
        }
        if self.residents[slot].block.room() < threads {
            self.residents[slot] = self.resident(slot, threads);
        }
    }

    fn resident(&self, slot: usize, threads: u32) -> Resident {
        let (ready, policy) = (Rc::clone(&self.ready), Rc::clone(&self.policy));
        Resident::new(Block::new(slot as u32, threads, ready, policy), threads)
    }

    fn release(&mut self) {
        for resident in &self.residents {
            debug_assert!(resident.idle());
            resident.block.shared.borrow_mut().clear();
        }
        self.stacks.release();
    }

    /// # Safety
    /// As for [`IdleRunner::run`].
    unsafe fn run_block(&mut self, job: &Job, index: u32) {
        let Self {
            residents,
            ready,
            stacks,
            ..
        } = self;
        let resident = &mut residents[0];
        let block = Rc::clone(&resident.block);
        block.begin(index, job.grid, None);
        let mut look = CANCEL_INTERVAL;
        while let Some(entry) = ready.pop() {
            let steps = block.steps.get() + 1;
            block.steps.set(steps);
            // SAFETY: this thread counts in the job, which keeps the body; the rest is passed on. The
            // block ends or is cancelled below.
            unsafe { resident.resume(entry.thread(), job.body(), stacks) };
            if steps >= look {
                look = steps + CANCEL_INTERVAL;
                over_budget(job, &block, entry);
                if job.cancelled() {
                    break;
                }
            }
            if block.faulted() {
                break;
            }
        }
        if block.live.get() != 0 {
            settle(job, resident, stacks);
            ready.clear();
        }
    }
}

/// Ends a block that cannot go on: by its own fault, because no lane of it can run, or because the
/// launch has been cancelled.
#[cold]
pub(super) fn settle(job: &Job, resident: &mut Resident, stacks: &mut StackPool) {
    let block = Rc::clone(&resident.block);
    if !block.faulted() && block.live.get() == block.waiting.get() {
        block.raise(diagnose::stuck(&block));
    }
    if let Some(kind) = block.take_fault() {
        job.fail(block.index(), kind);
    }
    resident.cancel(stacks);
}

/// Raises a fault if the block has used up its steps.
pub(super) fn over_budget(job: &Job, block: &Block, entry: Entry) {
    if block.steps.get() > job.step_budget {
        let lane = block.lane(entry.thread());
        block.raise(FaultKind::StepBudget {
            budget: job.step_budget,
            lane: lane.reference(),
            site: lane.site.get(),
        });
    }
}
