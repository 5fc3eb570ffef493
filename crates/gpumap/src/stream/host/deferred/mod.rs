//! Streams whose work runs later: a test mode of the CPU back end, in which a missing ordering is a wrong
//! answer.
//!
//! What is queued on a stream is kept. The host runs it, one step of one stream after the other, when it waits for something,
//! queries the progress of something, or queues more. Which stream comes next is drawn from a seed, and only the
//! order within each stream and the points that streams wait for are respected. So work may run long after
//! the call that queued it, or as soon as it is queued, before the work of another stream or after it: whatever a GPU
//! may do.
//!
//! | | as CUDA has it |
//! |---|---|
//! | a wait | runs what it needs, and a part of the rest that is drawn |
//! | a question | runs some steps, and says what is so |
//! | an event | is the point after what was queued when it was recorded |
//! | memory | is full of rubbish from the point of its stream on at which it was allocated; it is freed at such a point, filled with a pattern, and watched for writes |
//! | copies from and to the host | are made when their turn comes, whatever memory it is |
//! | a stream that is dropped | runs to its end |
//! | a kernel that faults | is reported by waits for anything that was queued after it before the first such wait ended, also on streams that waited for it; what is queued there does not run |
//! | a host callback | is made without being waited for, on a thread of their own, on which the device [refuses](Scheduler::is_in_callback) to do anything |
//!
//! With one thread a seed is one order. Several threads that wait run steps of different streams at the same time.

mod quarantine;
mod state;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use gpumap_simt::executor::Executor;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::{Address, HostBytes, host_bytes};
use crate::error::Result;
use crate::memory::HostBlock;
use crate::stream::callback::Callback;
use quarantine::FRESH;
pub(crate) use state::Point;
use state::{Line, Needed, State, Step, Work};

struct Shared {
    state: Mutex<State>,
    ended: Condvar,
}

thread_local! {
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// Runs what the streams of a device hold.
#[derive(Clone)]
pub(crate) struct Scheduler {
    shared: Arc<Shared>,
    seed: u64,
}

/// A stream's end of it.
#[derive(Debug)]
pub(in crate::stream) struct Queue {
    scheduler: Scheduler,
    line: u64,
}

impl Scheduler {
    #[cfg(feature = "unstable-testing")]
    pub fn new(seed: u64) -> Self {
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(State::new(seed)),
                ended: Condvar::new(),
            }),
            seed,
        }
    }

    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Whether this thread runs a callback of a stream, which must not call the device.
    pub fn is_in_callback() -> bool {
        IN_CALLBACK.get()
    }

    pub(super) fn queue(&self) -> Queue {
        Queue {
            scheduler: self.clone(),
            line: self.shared.state.lock().open(),
        }
    }

    /// Waits until a point has been reached.
    pub fn wait(&self, point: Point) -> Result<()> {
        let mut state = self.reach(point);
        let outcome = state.outcome(point);
        tell(state);
        outcome
    }

    fn reach(&self, point: Point) -> MutexGuard<'_, State> {
        let mut state = self.shared.state.lock();
        let eager = [0, 1, 3][state.random.below(3) as usize];
        loop {
            let needed = match state.needed(point) {
                Needed::Nothing => break,
                Needed::Step(line) => Some(line),
                Needed::Patience => None,
            };
            let drawn = match state.random.below(4) < eager {
                true => state.any(),
                false => None,
            };
            match drawn.or(needed) {
                Some(line) => state = self.step(state, line),
                None => self.shared.ended.wait(&mut state),
            }
        }
        state
    }

    /// Whether a point has been reached; after some more steps, so that repeated queries end.
    pub fn has_reached(&self, point: Point) -> Result<bool> {
        let mut state = self.shared.state.lock();
        for _ in 0..state.random.below(3) {
            let needed = match state.needed(point) {
                Needed::Step(line) if state.random.below(2) == 0 => Some(line),
                _ => None,
            };
            if let Some(line) = needed.or_else(|| state.any()) {
                state = self.step(state, line);
            }
        }
        let outcome = match state.has_reached(point) {
            true => state.outcome(point).map(|()| true),
            false => Ok(false),
        };
        tell(state);
        outcome
    }

    /// Waits for everything on all queues, and returns a fault that no wait has returned.
    pub fn wait_for_all(&self) -> Result<()> {
        let points: Vec<_> = {
            let state = self.shared.state.lock();
            let lines = state.lines.iter();
            let end = |(&line, of): (&u64, &Line)| Point {
                line,
                step: of.queued(),
            };
            lines.map(end).collect()
        };
        for point in points {
            drop(self.reach(point));
        }
        let mut state = self.shared.state.lock();
        let mut news = state.lines.values_mut().filter(|line| line.has_news());
        let outcome = news.try_for_each(|line| line.tell(line.queued()));
        tell(state);
        outcome
    }

    /// Notes memory of the host that the device reaches by itself.
    pub fn lock(&self, block: &HostBlock) {
        let bytes = host_bytes(block.ptr, block.bytes());
        self.shared.state.lock().locked.push(bytes);
    }

    /// Frees such memory, now.
    pub fn free_locked(&self, block: HostBlock) {
        let bytes = host_bytes(block.ptr, block.bytes());
        let mut state = self.shared.state.lock();
        state.locked.retain(|locked| *locked != bytes);
        let overlaps = |step: &Step| match step {
            Step::Work {
                host: Some(host), ..
            } => host.start < bytes.end && bytes.start < host.end,
            _ => false,
        };
        if state
            .lines
            .values()
            .flat_map(|line| &line.steps)
            .any(overlaps)
        {
            let message = "locked memory was freed, and a copy from or to it is queued still";
            state.note(Err(message.to_owned()));
            // It must stay: the copy is to come.
            mem::forget(block);
        } else {
            let outcome = state.quarantine.put(block);
            state.note(outcome);
        }
        tell(state);
    }

    /// Whether an address is of such memory.
    pub fn has_locked(&self, address: *const u8) -> bool {
        let state = self.shared.state.lock();
        state
            .locked
            .iter()
            .any(|locked| locked.contains(&address.addr()))
    }

    /// Takes the next step of a queue, which has one that can be taken.
    fn step<'s>(&'s self, mut state: MutexGuard<'s, State>, at: u64) -> MutexGuard<'s, State> {
        let Some(line) = state.lines.get_mut(&at) else {
            return state;
        };
        let Some(step) = line.steps.pop_front() else {
            return state;
        };
        let number = line.ended + 1;
        let is_void = line.failure(number).is_some();
        line.is_running = true;
        match step {
            Step::Work { work, .. } => {
                if !is_void {
                    drop(state);
                    let outcome = work(Executor::global());
                    state = self.shared.state.lock();
                    if let (Err(fault), Some(line)) = (outcome, state.lines.get_mut(&at)) {
                        line.fail(number, fault);
                    }
                }
            }
            Step::Free(block) => {
                let outcome = state.quarantine.put(block);
                state.note(outcome);
            }
            Step::Wait(before) => {
                let told = state.lines.get(&before.line);
                let fault = told.and_then(|line| line.failure(before.step)).cloned();
                if let (Some(fault), Some(line)) = (fault, state.lines.get_mut(&at)) {
                    line.fail(number, fault);
                }
            }
            Step::Call(f) => {
                let scheduler = self.clone();
                drop(state);
                // A thread of its own: it may wait, and does not have the locks of this one.
                thread::spawn(move || {
                    IN_CALLBACK.set(true);
                    // A panic ends the callback, as it would on a thread of the driver's.
                    let _ = catch_unwind(AssertUnwindSafe(f));
                    IN_CALLBACK.set(false);
                    let state = scheduler.shared.state.lock();
                    drop(scheduler.end(state, at));
                });
                return self.shared.state.lock();
            }
        }
        self.end(state, at)
    }

    /// Ends the step that a queue is at.
    fn end<'s>(&'s self, mut state: MutexGuard<'s, State>, at: u64) -> MutexGuard<'s, State> {
        if let Some(line) = state.lines.get_mut(&at) {
            line.is_running = false;
            line.ended += 1;
        }
        state.tidy(at);
        self.shared.ended.notify_all();
        state
    }
}

impl Queue {
    pub fn run(&self, host: Option<HostBytes>, work: Work) {
        self.push(Step::Work { work, host });
    }

    /// The device makes the call by itself: nothing may wait for it except what it wakes.
    pub fn call(&self, f: Callback) {
        self.push(Step::Call(f));
        let (scheduler, point) = (self.scheduler.clone(), self.point());
        thread::spawn(move || drop(scheduler.reach(point)));
    }

    /// Until the queue comes here, memory is not valid: whatever is written to it before is lost.
    pub fn allocated(&self, block: &HostBlock) {
        let (to, bytes) = (Address::of(block.ptr), block.bytes());
        let work = move |_: &Executor| {
            // SAFETY: the block is freed in the order of this queue, so after this.
            unsafe { to.get().write_bytes(FRESH, bytes) };
            Ok(())
        };
        self.push(Step::Work {
            work: Box::new(work),
            host: None,
        });
    }

    pub fn free(&self, block: HostBlock) {
        self.push(Step::Free(block));
    }

    pub fn wait_for(&self, point: Point) {
        self.push(Step::Wait(point));
    }

    pub fn point(&self) -> Point {
        let state = self.scheduler.shared.state.lock();
        let step = state.lines.get(&self.line).map_or(0, Line::queued);
        Point {
            line: self.line,
            step,
        }
    }

    pub fn wait(&self) -> Result<()> {
        self.scheduler.wait(self.point())
    }

    pub fn has_ended(&self) -> Result<bool> {
        self.scheduler.has_reached(self.point())
    }

    /// Queues a step, and takes some of any queue with one chance in four.
    fn push(&self, step: Step) {
        let mut state = self.scheduler.shared.state.lock();
        if let Some(line) = state.lines.get_mut(&self.line) {
            line.steps.push_back(step);
        }
        if state.random.below(4) == 0 {
            for _ in 0..state.random.below(4) {
                if let Some(line) = state.any() {
                    state = self.scheduler.step(state, line);
                }
            }
        }
        tell(state);
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        let mut state = self.scheduler.shared.state.lock();
        if let Some(line) = state.lines.get_mut(&self.line) {
            line.is_open = false;
        }
        state.tidy(self.line);
    }
}

impl Drop for Shared {
    /// Runs what is left. Nothing else knows the device any more.
    fn drop(&mut self) {
        let state = self.state.get_mut();
        while let Some(at) = state.any() {
            let Some(line) = state.lines.get_mut(&at) else {
                break;
            };
            let is_void = line.failure(line.ended + 1).is_some();
            line.ended += 1;
            match line.steps.pop_front() {
                Some(Step::Work { work, .. }) if !is_void => {
                    if let Err(fault) = work(Executor::global()) {
                        let first = line.ended;
                        line.fail(first, fault);
                    }
                }
                Some(Step::Free(block)) => {
                    let outcome = state.quarantine.put(block);
                    state.note(outcome);
                }
                Some(Step::Call(f)) => {
                    let _ = catch_unwind(AssertUnwindSafe(f));
                }
                Some(Step::Work { .. } | Step::Wait(_)) | None => {}
            }
        }
        let outcome = state.quarantine.release_all();
        state.note(outcome);
        expect_kept(state.broken.take());
    }
}

/// Reports a rule that was broken.
fn tell(mut state: MutexGuard<'_, State>) {
    let broken = state.broken.take();
    drop(state);
    expect_kept(broken);
}

/// A test must not pass then, wherever it is: so this is a panic, unless there is one already.
fn expect_kept(broken: Option<String>) {
    if let Some(message) = broken
        && !thread::panicking()
    {
        panic!("{message}");
    }
}

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduler")
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}
