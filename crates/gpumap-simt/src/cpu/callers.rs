//! Host threads that take turns, so that what they launch at the same time runs in one
//! interleaving, and the same one again.
//!
//! Of all callers and the executor one runs at a time. A caller runs until it launches, waits for
//! another caller or ends; when all have, the executor runs what they have launched, until one
//! launch has ended and its caller goes on.

use std::cell::RefCell;
use std::panic::resume_unwind;
use std::ptr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::executor::Executor;
use super::explore::Trace;
use super::job::{Job, lock};
use super::schedule::Schedule;

thread_local! {
    /// The part that this thread has in a meeting.
    static HERE: RefCell<Option<Part>> = const { RefCell::new(None) };
}

/// What a host thread does.
pub type Caller<'a> = Box<dyn FnOnce() + Send + 'a>;

#[derive(Clone)]
struct Part {
    meeting: Arc<Meeting>,
    index: usize,
    /// Only compared.
    executor: *const Executor,
}

/// What a caller is doing when it is not its turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Doing {
    Launching,
    Waiting,
    Ended,
}

struct State {
    /// The caller whose turn it is; none while it is the executor's.
    turn: Option<usize>,
    doing: Vec<Doing>,
    /// The caller of each launch, in the order in which they came.
    of_launch: Vec<usize>,
    ended: usize,
    /// Launches that the executor has not begun.
    arrived: Vec<Arc<Job>>,
    given_up: bool,
}

struct Meeting {
    state: Mutex<State>,
    changed: Condvar,
}

impl Executor {
    /// Runs each caller on a thread of its own, and what they launch on this executor together.
    /// Under every schedule but round robin the callers take turns, and the interleaving of all
    /// lanes of all launches is one that can be run again.
    ///
    /// A caller that may have to wait for another one, for a lock say, does so by [`take_turns`].
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    /// use gpumap_simt::executor::{Caller, Config, Executor};
    /// use gpumap_simt::{kernel::Grid, thread};
    ///
    /// let executor = Executor::new(Config::random(7));
    /// let met = AtomicU32::new(0);
    /// // Two launches that wait for each other.
    /// let caller = || -> Caller<'_> {
    ///     Box::new(|| {
    ///         let body = || {
    ///             met.fetch_add(1, Relaxed);
    ///             while met.load(Relaxed) < 2 { thread::nanosleep(1) }
    ///         };
    ///         // SAFETY: they share an atomic only.
    ///         unsafe { executor.launch("meets", Grid::new(1, 1), &body) }.unwrap();
    ///     })
    /// };
    /// let trace = executor.run_callers(vec![caller(), caller()]);
    /// assert!(trace.steps > 2);
    /// ```
    ///
    /// # Panics
    /// With the panic of a caller, when all have ended; if callers wait and none runs.
    pub fn run_callers(&self, callers: Vec<Caller<'_>>) -> Trace {
        let meeting = Arc::new(Meeting::of(callers.len()));
        let takes_turns = self.config().schedule != Schedule::RoundRobin;
        thread::scope(|scope| {
            let part = |index| Part {
                meeting: Arc::clone(&meeting),
                index,
                executor: self,
            };
            let threads: Vec<_> = (0..)
                .zip(callers)
                .map(|(index, caller)| {
                    let part = takes_turns.then(|| SendPart(part(index)));
                    scope.spawn(move || run(part, caller))
                })
                .collect();
            let trace = if takes_turns {
                let _over = Over(&meeting);
                // SAFETY: a caller does not return from its launch before that has ended, and it
                // vouched for the body; if this unwinds, the lanes are gone before `_over` is.
                unsafe { self.explore(&mut |ended| meeting.next(ended)) }
            } else {
                Trace::default()
            };
            let outcomes: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
            for outcome in outcomes {
                outcome.unwrap_or_else(|panic| resume_unwind(panic));
            }
            trace
        })
    }
}

/// A part on its way to its thread.
struct SendPart(Part);
// SAFETY: the executor is only compared; the rest is `Send`.
unsafe impl Send for SendPart {}

/// The life of a caller's thread.
fn run(part: Option<SendPart>, caller: Caller<'_>) {
    let Some(SendPart(part)) = part else {
        return caller();
    };
    struct Leave(Part);
    impl Drop for Leave {
        fn drop(&mut self) {
            HERE.take();
            let mut state = lock(&self.0.meeting.state);
            state.doing[self.0.index] = Doing::Ended;
            state.turn = None;
            self.0.meeting.changed.notify_all();
        }
    }
    let leave = Leave(part.clone());
    drop(
        part.meeting
            .wait_for_turn(part.index, lock(&part.meeting.state)),
    );
    HERE.set(Some(part));
    caller();
    drop(leave);
}

/// If this thread is a caller of [`Executor::run_callers`]: tries until it succeeds, with turns of
/// the others between one attempt and the next. Nothing on other threads, which may just wait.
///
/// ```
/// use gpumap_simt::executor::take_turns;
/// use std::sync::Mutex;
///
/// let data = Mutex::new(5);
/// let locked = take_turns(|| data.try_lock().ok()).unwrap_or_else(|| data.lock().unwrap());
/// assert_eq!(*locked, 5);
/// ```
///
/// # Panics
/// If all callers wait for each other.
pub fn take_turns<T>(mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let part = HERE.with_borrow(Clone::clone)?;
    loop {
        if let Some(got) = attempt() {
            return Some(got);
        }
        part.meeting.pause(part.index, Doing::Waiting, None);
    }
}

/// Launches as a caller, if this thread is one of this executor's: returns when the job has ended.
pub(super) fn launch(executor: &Executor, job: &Arc<Job>) -> bool {
    let part = HERE.with_borrow(Clone::clone);
    let Some(part) = part.filter(|part| ptr::eq(part.executor, executor)) else {
        return false;
    };
    let job = Some(Arc::clone(job));
    part.meeting.pause(part.index, Doing::Launching, job);
    true
}

impl Meeting {
    fn of(callers: usize) -> Self {
        Self {
            state: Mutex::new(State {
                turn: None,
                doing: vec![Doing::Waiting; callers],
                of_launch: Vec::new(),
                ended: 0,
                arrived: Vec::new(),
                given_up: false,
            }),
            changed: Condvar::new(),
        }
    }

    /// The executor's side: what is launched when launch number `ended` has ended.
    fn next(&self, ended: Option<u32>) -> Vec<Arc<Job>> {
        let mut state = lock(&self.state);
        if let Some(launch) = ended {
            state.ended += 1;
            let caller = state.of_launch[launch as usize];
            state = self.give(caller, state);
        }
        // Those that wait may go on now, and what they do lets others go on.
        let mut moved = true;
        while moved {
            moved = false;
            for caller in 0..state.doing.len() {
                if state.doing[caller] == Doing::Waiting {
                    state = self.give(caller, state);
                    moved |= state.doing[caller] != Doing::Waiting;
                }
            }
        }
        if state.ended == state.of_launch.len() && state.doing.contains(&Doing::Waiting) {
            state.given_up = true;
            self.changed.notify_all();
        }
        std::mem::take(&mut state.arrived)
    }

    /// Lets a caller run, until it launches, waits or ends.
    fn give<'a>(
        &'a self,
        caller: usize,
        mut state: MutexGuard<'a, State>,
    ) -> MutexGuard<'a, State> {
        state.turn = Some(caller);
        self.changed.notify_all();
        while state.turn.is_some() {
            state = self.wait(state);
        }
        state
    }

    /// A caller's side: lets the others run, until it is its turn again.
    fn pause(&self, caller: usize, doing: Doing, job: Option<Arc<Job>>) {
        let mut state = lock(&self.state);
        if let Some(job) = job {
            state.of_launch.push(caller);
            state.arrived.push(job);
        }
        state.doing[caller] = doing;
        state.turn = None;
        self.changed.notify_all();
        let state = self.wait_for_turn(caller, state);
        let given_up = state.given_up;
        drop(state);
        assert!(!given_up, "callers wait for each other");
    }

    fn wait_for_turn<'a>(
        &'a self,
        caller: usize,
        mut state: MutexGuard<'a, State>,
    ) -> MutexGuard<'a, State> {
        while state.turn != Some(caller) && !state.given_up {
            state = self.wait(state);
        }
        state
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let waited = self.changed.wait(state);
        waited.unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets go of callers that would wait for a run that is over.
struct Over<'a>(&'a Meeting);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).given_up = true;
        self.0.changed.notify_all();
    }
}
