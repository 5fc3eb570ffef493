//! Streams whose work runs later.
//!
//! What is queued on a stream is kept. Its steps are taken one after the other, in the order of the stream and of the points that
//! it waits for. There are two kinds:
//!
//! - **By a thread.** The stream has a thread of its own, which takes its steps. A caller that waits takes steps that the wait needs
//!   itself, so that it need not wait for that thread to wake; except callbacks, which may take locks that the caller has. The thread is
//!   started by the first step, and ends when the stream has been dropped and everything on it has run. If the system starts none, a
//!   call returns when what it queued has run. A stream keeps [`MOST_STEPS`] steps: a caller that queues more waits.
//! - **Drawn.** A test mode, in which a missing ordering is a wrong answer. There are no threads: the host runs steps when it waits for
//!   something, queries the progress of something, or queues more. Which stream comes next is drawn from a seed. So work may run long
//!   after the call that queued it, or as soon as it is queued, before the work of another stream or after it: whatever a GPU may do.
//!   With one thread a seed is one order. Several threads that wait run steps of different streams at the same time.
//!
//! | | as CUDA has it |
//! |---|---|
//! | a wait | returns when what was queued before has run; drawn, it runs what it needs and a part of the rest |
//! | a question | says what is so; drawn, it runs some steps first |
//! | an event | is the point after what was queued when it was recorded |
//! | memory | is freed at a point of its stream; drawn, it is full of rubbish from such a point on, and filled with a pattern and watched for writes once it is freed |
//! | copies from and to the host | are made when their turn comes, whatever memory it is |
//! | a stream that is dropped | runs to its end |
//! | a kernel that faults | is reported by waits for anything that was queued after it before the first such wait ended, also on streams that waited for it; what is queued there does not run |
//! | a host callback | is made on a thread that waits for nothing else, on which the device [refuses](Scheduler::is_in_callback) to do anything |

mod quarantine;
mod state;
#[cfg(test)]
mod tests;
mod worker;

use std::cell::Cell;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;

use gpumap_simt::executor::{Executor, PerProcess};

use super::{Address, HostBytes, host_bytes};
use crate::error::Result;
use crate::memory::HostBlock;
use crate::stream::callback::Callback;
use quarantine::FRESH;
pub(crate) use state::Point;
use state::{Drawn, Line, Needed, State, Step, Work};

/// How many steps a stream with a thread keeps, as many as a CUDA stream or more.
const MOST_STEPS: usize = 1024;

struct Shared {
    queues: PerProcess<Queues>,
    /// What runs kernels; the checked one of the process if none.
    executor: Option<Arc<Executor>>,
    /// What the order is drawn from; none if streams have threads.
    seed: Option<u64>,
}

/// What the streams of one process hold. Their threads sleep in locks of the system, of which nothing is left in a forked process.
struct Queues {
    state: Mutex<State>,
    ended: Condvar,
}

impl Queues {
    fn new(state: State) -> Self {
        Self {
            state: Mutex::new(state),
            ended: Condvar::new(),
        }
    }

    /// Those of a forked process.
    fn forked(before: &Self) -> Self {
        Self::new(match before.state.try_lock() {
            Ok(before) => State::forked(Some(&before)),
            Err(TryLockError::Poisoned(before)) => State::forked(Some(&before.into_inner())),
            // A thread that is not here was at it.
            Err(TryLockError::WouldBlock) => State::forked(None),
        })
    }
}

/// Waits for a change.
fn wait<'s>(change: &Condvar, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
    change.wait(state).unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn queues(&self) -> &Queues {
        self.queues.get(|before| match before {
            Some(before) => Queues::forked(before),
            None => Queues::new(State::new(None)),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let state = self.queues().state.lock();
        // A rule that was broken may be reported while it is locked.
        state.unwrap_or_else(PoisonError::into_inner)
    }

    fn executor(&self) -> &Executor {
        let executor = self.executor.as_deref();
        executor.unwrap_or_else(|| Executor::global())
    }
}

thread_local! {
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// Runs what the streams of a device hold.
#[derive(Clone)]
pub(crate) struct Scheduler {
    shared: Arc<Shared>,
}

/// A stream's end of it.
#[derive(Debug)]
pub(in crate::stream) struct Queue {
    scheduler: Scheduler,
    line: u64,
}

impl Scheduler {
    /// Streams with threads, which run kernels on this executor.
    pub fn with_threads(executor: Arc<Executor>) -> Self {
        Self::of(Some(executor), None, None)
    }

    /// Streams whose order is drawn from a seed.
    #[cfg(feature = "unstable-testing")]
    pub fn drawn(seed: u64) -> Self {
        Self::of(None, Some(seed), Some(Drawn::new(seed)))
    }

    fn of(executor: Option<Arc<Executor>>, seed: Option<u64>, drawn: Option<Drawn>) -> Self {
        let queues = PerProcess::new();
        queues.get(|_| Queues::new(State::new(drawn)));
        Self {
            shared: Arc::new(Shared {
                queues,
                executor,
                seed,
            }),
        }
    }

    /// The seed that the order is drawn from; none if streams have threads.
    pub fn seed(&self) -> Option<u64> {
        self.shared.seed
    }

    /// Whether this thread runs a callback of a stream, which must not call the device.
    pub fn is_in_callback() -> bool {
        IN_CALLBACK.get()
    }

    pub(super) fn queue(&self) -> Queue {
        Queue {
            scheduler: self.clone(),
            line: self.shared.state().open(),
        }
    }

    /// Waits until a point has been reached.
    pub fn wait(&self, point: &Point) -> Result<()> {
        let mut state = self.reach(point);
        let outcome = state.outcome(point);
        tell(state);
        outcome
    }

    /// Waits until a point has been reached, for something that is queued nowhere: a fault before it is an error, and
    /// remains to be reported by waits.
    pub fn pass(&self, point: &Point) -> Result<()> {
        let state = self.reach(point);
        let fault = state.failure(point);
        tell(state);
        fault.map_or(Ok(()), Err)
    }

    /// Whether a point has been reached, well or not.
    pub fn is_behind(&self, point: &Point) -> bool {
        self.shared.state().has_reached(point)
    }

    fn reach(&self, point: &Point) -> MutexGuard<'_, State> {
        let mut state = self.shared.state();
        let eager = [0, 1, 3][state.below(3) as usize];
        loop {
            let needed = match state.needed(point) {
                Needed::Nothing => break,
                Needed::Step(line) => Some(line),
                Needed::Patience => None,
            };
            match state.draw(eager).or(needed) {
                Some(line) => state = self.step(state, line),
                None => state = wait(&self.shared.queues().ended, state),
            }
        }
        state
    }

    /// Whether a point has been reached; after some more steps, so that repeated queries end.
    pub fn has_reached(&self, point: &Point) -> Result<bool> {
        let mut state = self.shared.state();
        for _ in 0..state.below(3) {
            let needed = match state.needed(point) {
                Needed::Step(line) if state.below(2) == 0 => Some(line),
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
            let state = self.shared.state();
            let lines = state.lines.iter();
            let end = |(&line, of): (&u64, &Line)| of.point(line, of.queued());
            lines.map(end).collect()
        };
        for point in &points {
            drop(self.reach(point));
        }
        let mut state = self.shared.state();
        let outcome = state.tell_all();
        tell(state);
        outcome
    }

    /// Notes memory of the host that the device reaches by itself, where an order is drawn.
    pub fn lock(&self, block: &HostBlock) {
        let bytes = host_bytes(block.ptr, block.bytes());
        if let Some(drawn) = &mut self.shared.state().drawn {
            drawn.locked.push(bytes);
        }
    }

    /// Frees such memory, now.
    pub fn free_locked(&self, block: HostBlock) {
        let bytes = host_bytes(block.ptr, block.bytes());
        let mut state = self.shared.state();
        let overlaps = |step: &Step| match step {
            Step::Work {
                host: Some(host), ..
            } => host.start < bytes.end && bytes.start < host.end,
            _ => false,
        };
        let mut steps = state.lines.values().flat_map(|line| &line.steps);
        let is_used = steps.any(overlaps);
        if let Some(drawn) = &mut state.drawn {
            drawn.locked.retain(|locked| *locked != bytes);
            if is_used {
                let message = "locked memory was freed, and a copy from or to it is queued still";
                drawn.note(Err(message.to_owned()));
                // It must stay: the copy is to come.
                mem::forget(block);
            } else {
                drawn.put(block);
            }
        }
        tell(state);
    }

    /// Whether an address is of such memory.
    pub fn has_locked(&self, address: *const u8) -> bool {
        let state = self.shared.state();
        let mut locked = state.drawn.iter().flat_map(|drawn| &drawn.locked);
        locked.any(|locked| locked.contains(&address.addr()))
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
                    let run = || work(self.shared.executor());
                    let outcome = catch_unwind(AssertUnwindSafe(run));
                    state = self.shared.state();
                    match (outcome, state.lines.get_mut(&at)) {
                        (Ok(Err(fault)), Some(line)) => line.fail(number, fault.into()),
                        (Ok(_), _) => {}
                        // A kernel that panics has faulted, so this is a bug of the library: those that wait must not hang.
                        (Err(panic), _) => {
                            drop(self.end(state, at));
                            resume_unwind(panic);
                        }
                    }
                }
            }
            Step::Free(block) => state.free(block),
            Step::Wait(before) => {
                let fault = state.failure(&before);
                if let (Some(fault), Some(line)) = (fault, state.lines.get_mut(&at)) {
                    line.fail(number, fault);
                }
            }
            Step::Call(f) => {
                let scheduler = self.clone();
                let is_drawn = state.drawn.is_some();
                drop(state);
                let call = move || {
                    let before = IN_CALLBACK.replace(true);
                    // A panic ends the callback, as it would on a thread of the driver's.
                    let _ = catch_unwind(AssertUnwindSafe(f));
                    IN_CALLBACK.set(before);
                    let state = scheduler.shared.state();
                    drop(scheduler.end(state, at));
                };
                match is_drawn {
                    // A thread of its own: it may wait, and does not have the locks of this one.
                    true => drop(thread::spawn(call)),
                    false => call(),
                }
                return self.shared.state();
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
        worker::wake(&state);
        self.shared.queues().ended.notify_all();
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
        if self.scheduler.seed().is_none() {
            return;
        }
        let (scheduler, point) = (self.scheduler.clone(), self.point());
        thread::spawn(move || drop(scheduler.reach(&point)));
    }

    /// Until the queue comes here, memory is not valid where the order is drawn: whatever is written to it before is lost.
    pub fn allocated(&self, block: &HostBlock) {
        if self.scheduler.seed().is_none() {
            return;
        }
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
        match self.is_empty() {
            true => drop(block),
            false => self.push(Step::Free(block)),
        }
    }

    pub fn wait_for(&self, point: Point) {
        self.push(Step::Wait(point));
    }

    /// Whether everything has run, and nothing is drawn.
    fn is_empty(&self) -> bool {
        let state = self.scheduler.shared.state();
        let line = state.lines.get(&self.line);
        let has_run = |line: &Line| line.steps.is_empty() && !line.is_running;
        state.drawn.is_none() && line.is_some_and(has_run)
    }

    pub fn point(&self) -> Point {
        let state = self.scheduler.shared.state();
        let line = state.lines.get(&self.line);
        let end = |line: &Line| line.point(self.line, line.queued());
        line.map_or_else(|| Point::lost(self.line), end)
    }

    pub fn wait(&self) -> Result<()> {
        self.scheduler.wait(&self.point())
    }

    pub fn has_ended(&self) -> Result<bool> {
        self.scheduler.has_reached(&self.point())
    }

    /// Queues a step. Where an order is drawn, it takes some of any queue with one chance in four.
    fn push(&self, step: Step) {
        let mut state = self.scheduler.shared.state();
        if state.drawn.is_none() {
            drop(state);
            return self.scheduler.hand_over(self.line, step);
        }
        if let Some(line) = state.lines.get_mut(&self.line) {
            line.steps.push_back(step);
        }
        if state.below(4) == 0 {
            for _ in 0..state.below(4) {
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
        let mut state = self.scheduler.shared.state();
        if let Some(line) = state.lines.get_mut(&self.line) {
            line.is_open = false;
            line.wake.notify_one();
        }
        state.tidy(self.line);
    }
}

impl Drop for Shared {
    /// Runs what is left, which is something only where an order is drawn. Nothing else knows the device any more.
    fn drop(&mut self) {
        let executor = self.executor.take();
        let executor = executor.as_deref().unwrap_or_else(|| Executor::global());
        let Some(queues) = self.queues.get_mut() else {
            return;
        };
        let state = queues.state.get_mut();
        let state = state.unwrap_or_else(PoisonError::into_inner);
        while let Some(at) = state.any() {
            let Some(line) = state.lines.get_mut(&at) else {
                break;
            };
            let is_void = line.failure(line.ended + 1).is_some();
            line.ended += 1;
            match line.steps.pop_front() {
                Some(Step::Work { work, .. }) if !is_void => {
                    if let Err(fault) = work(executor) {
                        let first = line.ended;
                        line.fail(first, fault.into());
                    }
                }
                Some(Step::Free(block)) => state.free(block),
                Some(Step::Call(f)) => {
                    let _ = catch_unwind(AssertUnwindSafe(f));
                }
                Some(Step::Work { .. } | Step::Wait(_)) | None => {}
            }
        }
        if let Some(drawn) = &mut state.drawn {
            drawn.release_all();
            expect_kept(drawn.take_broken());
        }
    }
}

/// Reports a rule that was broken.
fn tell(mut state: MutexGuard<'_, State>) {
    let broken = state.drawn.as_mut().and_then(Drawn::take_broken);
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
            .field("seed", &self.seed())
            .finish_non_exhaustive()
    }
}
