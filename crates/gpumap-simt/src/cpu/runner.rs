//! A runner drives the blocks that are resident on one OS thread. Runners are kept between launches
//! with their stacks and lane tables: a launch allocates only what no launch before it needed.

use std::rc::Rc;

use super::block::Block;
use super::diagnose;
use super::fault::FaultKind;
use super::job::Job;
use super::resident::Resident;
use super::schedule::{Entry, Random, Ready};
use super::stack::StackPool;

/// Blocks that are resident together under the random schedule.
const RESIDENT_BLOCKS: usize = 8;

/// How many steps a block may take before it looks whether the launch has been cancelled.
const CANCEL_INTERVAL: u64 = 256;

/// What a launch did, for reproducing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Trace {
    /// A digest of which lane ran at which step. Equal for equal interleavings, and different for
    /// different ones but for a chance of 2^-64. Always 0 under round robin, where several workers
    /// run at once and there is no one order.
    pub digest: u64,
    /// Lane resumes under the random schedule, 0 under round robin.
    pub steps: u64,
}

/// Stacks, lane tables and the queue of ready lanes of one OS thread.
pub(super) struct Runner {
    residents: Vec<Resident>,
    threads: u32,
    ready: Rc<Ready>,
    dice: Rc<Random>,
    stacks: StackPool,
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
            threads: 0,
            ready: Rc::new(Ready::new(1)),
            dice: Rc::new(Random::new(0)),
            stacks: StackPool::new(stack_bytes),
        })
    }

    /// Runs blocks of `job` under round robin until none is left to start.
    ///
    /// # Safety
    /// The job's body is alive and fit to run on the job's grid.
    pub(super) unsafe fn run(&mut self, job: &Job) {
        self.0.prepare(job, 1);
        while let Some(index) = job.next_block() {
            // SAFETY: passed on.
            unsafe { self.0.run_block(job, index) };
        }
        self.0.release();
    }

    /// Runs all of `job` under the random schedule.
    ///
    /// # Safety
    /// As for `run`.
    pub(super) unsafe fn run_random(&mut self, job: &Job, seed: u64) -> Trace {
        let blocks = RESIDENT_BLOCKS.min(job.grid.blocks as usize);
        self.0.prepare(job, blocks);
        // SAFETY: passed on.
        let trace = unsafe { self.0.run_mixed(job, seed, blocks) };
        self.0.release();
        trace
    }

    #[cfg(test)]
    pub(super) fn stacks(&self) -> (usize, usize) {
        self.0.stacks.count()
    }
}

impl Runner {
    /// Makes room for `blocks` resident blocks of the job's size.
    fn prepare(&mut self, job: &Job, blocks: usize) {
        if self.threads < job.grid.threads || self.residents.len() < blocks {
            let threads = self.threads.max(job.grid.threads);
            let blocks = blocks.max(self.residents.len());
            self.threads = threads;
            self.ready = Rc::new(Ready::new(blocks * threads as usize));
            self.residents = (0..blocks as u32)
                .map(|slot| {
                    let (ready, dice) = (Rc::clone(&self.ready), Rc::clone(&self.dice));
                    Resident::new(Block::new(slot, threads, ready, dice), threads)
                })
                .collect();
        }
        self.ready.clear();
    }

    fn release(&mut self) {
        for resident in &self.residents {
            debug_assert!(resident.idle());
            resident.block.shared.borrow_mut().clear();
        }
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
        block.begin(index, job.grid, false);
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

    /// # Safety
    /// As for [`IdleRunner::run_random`].
    unsafe fn run_mixed(&mut self, job: &Job, seed: u64, blocks: usize) -> Trace {
        let Self {
            residents,
            ready,
            dice,
            stacks,
            ..
        } = self;
        let residents = &mut residents[..blocks];
        dice.reseed(seed);
        let mut trace = Trace::default();
        for resident in &mut *residents {
            if let Some(index) = job.next_block() {
                resident.block.begin(index, job.grid, true);
            }
        }
        while let Some(entry) = ready.pop_random(dice) {
            let resident = &mut residents[entry.slot()];
            let block = Rc::clone(&resident.block);
            let at = u64::from(block.index()) << 10 | entry.thread() as u64;
            trace.digest = (trace.digest.rotate_left(5) ^ at).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            trace.steps += 1;
            block.steps.set(block.steps.get() + 1);
            // SAFETY: as in `run_block`.
            unsafe { resident.resume(entry.thread(), job.body(), stacks) };
            over_budget(job, &block, entry);
            let live = block.live.get();
            if block.faulted() || live != 0 && live == block.waiting.get() {
                for resident in residents
                    .iter_mut()
                    .filter(|r| !Rc::ptr_eq(&r.block, &block))
                {
                    resident.cancel(stacks);
                }
                settle(job, &mut residents[entry.slot()], stacks);
                ready.clear();
                break;
            }
            if live == 0
                && let Some(index) = job.next_block()
            {
                block.begin(index, job.grid, true);
            }
        }
        trace
    }
}

/// Ends a block that cannot go on: by its own fault, because nobody in it can run, or because the
/// launch has been cancelled.
#[cold]
fn settle(job: &Job, resident: &mut Resident, stacks: &mut StackPool) {
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
fn over_budget(job: &Job, block: &Block, entry: Entry) {
    if block.steps.get() > job.step_budget {
        let lane = block.lane(entry.thread());
        block.raise(FaultKind::StepBudget {
            budget: job.step_budget,
            lane: lane.reference(),
            site: lane.site.get(),
        });
    }
}
