//! Launches side by side on one OS thread, in an interleaving that can be run again.
//!
//! Several blocks of each launch are resident together, and the schedule picks the next lane among
//! all of them. When a launch has ended, others may come: those of the host thread that waited for
//! it.

use std::rc::Rc;
use std::sync::Arc;

use super::job::Job;
use super::runner::{RESIDENT_BLOCKS, Runner, over_budget, settle};
use super::schedule::{Schedule, Script, Seat};
use super::weak::{self, Memory};

/// What a run did, for reproducing it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Trace {
    /// A digest of which lane ran at which step. Equal for equal interleavings, and different for
    /// different ones except with a chance of 2^-64. Always 0 under round robin, where several workers
    /// run at once and there is no one order.
    pub digest: u64,
    /// Lane resumes; 0 under round robin.
    pub steps: u64,
    /// Preemption points that lanes reached; 0 under round robin.
    pub points: u64,
    /// Those of them that came before an atomic that may write, or a fence.
    pub writes: u64,
    /// The turns that lanes had, for [`Schedule::Replay`], if
    /// [`Config::record`](super::Config::record) requests them.
    pub script: Option<Script>,
}

/// A run that is to be made.
pub(super) struct Explored<'a> {
    pub(super) schedule: &'a Schedule,
    pub(super) memory: Memory,
    pub(super) record: bool,
    /// The launches that come first, and then those that come because launch number so many has
    /// ended.
    pub(super) next: &'a mut dyn FnMut(Option<u32>) -> Vec<Arc<Job>>,
}

/// A launch under way.
struct Running {
    job: Arc<Job>,
    /// Its first block that has not begun.
    next: u32,
    /// Its blocks that have begun and not ended.
    resident: u32,
}

impl Running {
    fn new(job: Arc<Job>) -> Self {
        weak::launch_begins();
        Self {
            job,
            next: 0,
            resident: 0,
        }
    }

    fn waits(&self) -> bool {
        self.next < self.job.grid.blocks && !self.job.cancelled()
    }

    fn has_ended(&self) -> bool {
        self.resident == 0 && !self.waits()
    }
}

/// Runs launches until all have ended and no more come.
///
/// # Safety
/// The jobs' bodies are alive until they have ended, and fit to run on their grids.
pub(super) unsafe fn run(runner: &mut Runner, run: Explored<'_>) -> Trace {
    let Explored {
        schedule,
        memory,
        record,
        next,
    } = run;
    let policy = Rc::clone(&runner.policy);
    policy.start(schedule, record);
    weak::with(memory, || {
        let mut trace = Trace::default();
        let mut launches: Vec<Running> = next(None).into_iter().map(Running::new).collect();
        loop {
            seat(runner, &mut launches);
            let Some(entry) = policy.pick(&runner.ready) else {
                break;
            };
            let resident = &mut runner.residents[entry.slot()];
            let block = Rc::clone(&resident.block);
            let (_, number) = block.place();
            let launch = &mut launches[number as usize];
            let at =
                u64::from(number) << 42 | u64::from(block.index()) << 10 | entry.thread() as u64;
            trace.digest = (trace.digest.rotate_left(5) ^ at).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            trace.steps += 1;
            block.steps.set(block.steps.get() + 1);
            // SAFETY: this thread runs the job and keeps the body; the rest is passed on. The block
            // ends or is cancelled below.
            unsafe { resident.resume(entry.thread(), launch.job.body(), &mut runner.stacks) };
            over_budget(&launch.job, &block, entry);
            let live = block.live.get();
            if block.faulted() || live != 0 && live == block.waiting.get() {
                settle(&launch.job, resident, &mut runner.stacks);
                cancel(runner, number);
                launch.resident = 0;
            } else if live == 0 {
                launch.resident -= 1;
            } else {
                continue;
            }
            if launch.has_ended() {
                weak::launch_ends(number);
                launches.extend(next(Some(number)).into_iter().map(Running::new));
            }
        }
        trace.points = policy.points();
        trace.writes = policy.writes();
        trace.script = policy.script();
        trace
    })
}

/// Gives idle slots to launches that have blocks left, to the one with the fewest in slots first.
fn seat(runner: &mut Runner, launches: &mut [Running]) {
    let idle = |runner: &Runner| {
        let busy = |slot: &usize| runner.residents.get(*slot).is_some_and(|r| !r.idle());
        (0..RESIDENT_BLOCKS).find(|slot| !busy(slot))
    };
    loop {
        let waiting = (0..)
            .zip(launches.iter_mut())
            .filter(|(_, launch)| launch.waits());
        let Some((number, launch)) = waiting.min_by_key(|(_, launch)| launch.resident) else {
            return;
        };
        let Some(slot) = idle(runner) else { return };
        let (block, grid) = (launch.next, launch.job.grid);
        launch.next += 1;
        launch.resident += 1;
        runner.make_room(slot, grid.threads);
        weak::block_begins(slot as u32, number, grid.threads);
        let launch = number;
        runner.policy.begin(slot, Seat { launch, block });
        runner.residents[slot]
            .block
            .begin(block, grid, Some(launch));
    }
}

/// Ends all blocks of a launch that has failed.
#[cold]
fn cancel(runner: &mut Runner, launch: u32) {
    for (slot, resident) in runner.residents.iter_mut().enumerate() {
        let (_, of) = resident.block.place();
        if of == launch {
            resident.cancel(&mut runner.stacks);
            runner.ready.forget(slot);
        }
    }
}
