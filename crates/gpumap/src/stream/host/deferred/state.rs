//! What the device knows of its queues, and which step comes next.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar};

use gpumap_simt::executor::{Executor, Fault, forks};

use super::quarantine::Quarantine;
use crate::error::{Error, Result};
use crate::memory::HostBlock;
use crate::stream::callback::Callback;
use crate::stream::host::HostBytes;

/// What a kernel or a copy does.
pub(super) type Work = Box<dyn FnOnce(&Executor) -> Result<(), Fault> + Send>;

/// What a queue holds.
pub(super) enum Step {
    Work { work: Work, host: Option<HostBytes> },
    Call(Callback),
    Free(HostBlock),
    Wait(Point),
}

/// A point in the order of a queue: after its first `step` steps.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(super) line: u64,
    pub(super) step: u64,
    /// While there are such points, what became of the queue may be asked.
    _asker: Arc<()>,
}

impl Point {
    /// Of a queue of which nothing is known.
    pub fn lost(line: u64) -> Self {
        Self {
            line,
            step: 0,
            _asker: Arc::default(),
        }
    }
}

/// What the device knows of a queue.
pub(super) struct Line {
    pub steps: VecDeque<Step>,
    /// How many steps have ended; the one that runs comes next.
    pub ended: u64,
    pub is_running: bool,
    /// Whether more may come.
    pub is_open: bool,
    /// Whether a thread of its own takes its steps.
    pub has_worker: bool,
    /// What that thread waits for while none can be taken.
    pub wake: Arc<Condvar>,
    /// How often it is drawn, compared with others.
    weight: u64,
    failures: Vec<Failure>,
    /// What its points share with it.
    askers: Arc<()>,
}

/// What [`Error::Forked`] says of steps.
const WORK: &str = "work that was queued on a stream";

/// Steps that do nothing because of a fault, and that waits report.
#[derive(Clone)]
struct Failure {
    first: u64,
    /// Known once a wait has reported it.
    last: Option<u64>,
    fault: Error,
}

impl Line {
    fn new(weight: u64) -> Self {
        Self {
            steps: VecDeque::new(),
            ended: 0,
            is_running: false,
            is_open: true,
            has_worker: false,
            wake: Arc::default(),
            weight,
            failures: Vec::new(),
            askers: Arc::default(),
        }
    }

    /// What is left of it in a forked process: its threads are not here, and what they were at is not known. So all of what had
    /// not ended never runs, and waits say so.
    fn forked(&self) -> Self {
        let mut line = Self {
            ended: self.queued(),
            is_open: self.is_open,
            failures: self.failures.clone(),
            askers: Arc::clone(&self.askers),
            ..Self::new(self.weight)
        };
        if self.ended < line.ended {
            line.fail(self.ended + 1, Error::Forked { lost: WORK });
        }
        line
    }

    /// Whether nothing can come of it any more.
    fn is_over(&self) -> bool {
        let is_asked = || !self.failures.is_empty() && Arc::strong_count(&self.askers) > 1;
        !self.is_open && !self.is_running && self.steps.is_empty() && !is_asked()
    }

    /// The point after so many of its steps.
    pub fn point(&self, line: u64, step: u64) -> Point {
        Point {
            line,
            step,
            _asker: Arc::clone(&self.askers),
        }
    }

    /// How many steps were ever queued.
    pub fn queued(&self) -> u64 {
        self.ended + u64::from(self.is_running) + self.steps.len() as u64
    }

    pub fn failure(&self, step: u64) -> Option<&Error> {
        let failure = self
            .failures
            .iter()
            .find(|failure| failure.first <= step && failure.last.is_none_or(|last| step <= last));
        failure.map(|failure| &failure.fault)
    }

    /// Returns a failure to a wait for a step. What is queued from now on is sound.
    pub fn tell(&mut self, step: u64) -> Result<()> {
        let Some(fault) = self.failure(step).cloned() else {
            return Ok(());
        };
        let queued = self.queued();
        for failure in &mut self.failures {
            failure.last.get_or_insert(queued);
        }
        Err(fault)
    }

    /// A failure that no wait has returned.
    fn news(&self) -> Option<Error> {
        let mut failures = self.failures.iter();
        let news = failures.find(|failure| failure.last.is_none());
        news.map(|failure| failure.fault.clone())
    }

    pub fn fail(&mut self, first: u64, fault: Error) {
        self.failures.push(Failure {
            first,
            last: None,
            fault,
        });
    }
}

/// What has to be done for a wait.
pub(super) enum Needed {
    Nothing,
    /// The next step of this queue.
    Step(u64),
    /// To wait until a step that runs has ended.
    Patience,
}

pub(super) struct State {
    pub lines: BTreeMap<u64, Line>,
    /// The number of the next queue.
    next: u64,
    /// Of queues below this number nothing is known but what is here.
    unknown: u64,
    /// The first fault of a queue that is gone, which no wait has returned.
    untold: Option<Error>,
    /// There where the order is drawn.
    pub drawn: Option<Drawn>,
}

/// What tests draw an order from, and look at.
pub(super) struct Drawn {
    random: Random,
    quarantine: Quarantine,
    /// Memory of the host that is locked.
    pub locked: Vec<HostBytes>,
    /// A rule that was broken, to be reported by the next call.
    broken: Option<String>,
}

impl Drawn {
    #[cfg(feature = "unstable-testing")]
    pub fn new(seed: u64) -> Self {
        Self {
            random: Random(seed),
            quarantine: Quarantine::default(),
            locked: Vec::new(),
            broken: None,
        }
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    /// Takes memory that is free now.
    pub fn put(&mut self, block: HostBlock) {
        let outcome = self.quarantine.put(block);
        self.note(outcome);
    }

    /// Looks at all such memory that is left.
    pub fn release_all(&mut self) {
        let outcome = self.quarantine.release_all();
        self.note(outcome);
    }

    pub fn note(&mut self, outcome: Result<(), String>) {
        if let Err(message) = outcome {
            self.broken.get_or_insert(message);
        }
    }

    pub fn take_broken(&mut self) -> Option<String> {
        self.broken.take()
    }
}

impl State {
    pub fn new(drawn: Option<Drawn>) -> Self {
        Self {
            lines: BTreeMap::new(),
            next: 0,
            unknown: 0,
            untold: None,
            drawn,
        }
    }

    /// That of a forked process. Without that of the process before, all of its queues are lost.
    pub fn forked(before: Option<&Self>) -> Self {
        let first = u64::from(forks()) << 48;
        let lines = before.map_or_else(BTreeMap::new, |before| {
            let lines = before.lines.iter();
            lines.map(|(&at, line)| (at, line.forked())).collect()
        });
        Self {
            lines,
            next: first,
            unknown: before.map_or(first, |before| before.unknown),
            untold: before.and_then(|before| before.untold.clone()),
            drawn: None,
        }
    }

    /// A new queue.
    pub fn open(&mut self) -> u64 {
        // Some may have been asked for the last time.
        let over = self.lines.iter().filter(|(_, line)| line.is_over());
        for at in over.map(|(&at, _)| at).collect::<Vec<_>>() {
            self.tidy(at);
        }
        let line = self.next;
        self.next += 1;
        // Some are always late.
        let drawn = self.drawn.as_mut();
        let weight = drawn.map_or(1, |drawn| [1, 8, 64][drawn.below(3) as usize]);
        let new = Line::new(weight);
        self.lines.insert(line, new);
        line
    }

    /// Frees memory, which nothing that is queued uses any more.
    pub fn free(&mut self, block: HostBlock) {
        match &mut self.drawn {
            Some(drawn) => drawn.put(block),
            None => drop(block),
        }
    }

    pub fn has_reached(&self, point: &Point) -> bool {
        // A queue that was dropped has run to its end.
        let line = self.lines.get(&point.line);
        line.is_none_or(|line| line.ended >= point.step)
    }

    pub fn needed(&self, point: &Point) -> Needed {
        if self.has_reached(point) {
            return Needed::Nothing;
        }
        let mut at = point.line;
        // It ends: a point that is waited for was there before.
        while let Some(line) = self.lines.get(&at) {
            match line.steps.front() {
                _ if line.is_running => return Needed::Patience,
                // The caller may have locks that the call takes.
                Some(Step::Call(_)) if line.has_worker => return Needed::Patience,
                Some(Step::Wait(before)) if !self.has_reached(before) => at = before.line,
                Some(_) => return Needed::Step(at),
                None => break,
            }
        }
        Needed::Nothing
    }

    /// Whether the next step of a queue can run.
    pub fn can_run(&self, line: &Line) -> bool {
        match line.steps.front() {
            _ if line.is_running => false,
            Some(Step::Wait(before)) => self.has_reached(before),
            step => step.is_some(),
        }
    }

    /// A queue whose next step can run, drawn.
    pub fn any(&mut self) -> Option<u64> {
        let lines = self.lines.iter().filter(|(_, line)| self.can_run(line));
        let lines: Vec<_> = lines.map(|(&at, line)| (at, line.weight)).collect();
        let all = lines.iter().map(|(_, weight)| weight).sum();
        let drawn = self.drawn.as_mut();
        let mut drawn = drawn.map_or(0, |drawn| drawn.below(all));
        let at = lines.iter().find(|(_, weight)| {
            let is_it = drawn < *weight;
            drawn = drawn.saturating_sub(*weight);
            is_it
        });
        at.map(|&(at, _)| at)
    }

    /// A queue whose next step is to run with so many chances in four; none where no order is drawn.
    pub fn draw(&mut self, chances: u64) -> Option<u64> {
        let drawn = self.drawn.as_mut()?;
        match drawn.below(4) < chances {
            true => self.any(),
            false => None,
        }
    }

    /// A number below the bound; 0 where nothing is drawn.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.drawn.as_mut().map_or(0, |drawn| drawn.below(bound))
    }

    /// The result of a wait for a point that has been reached.
    pub fn outcome(&mut self, point: &Point) -> Result<()> {
        match self.lines.get_mut(&point.line) {
            Some(line) => line.tell(point.step),
            None => self.failure(point).map_or(Ok(()), Err),
        }
    }

    /// A failure that no wait has returned, of any queue. What is queued from now on is sound.
    pub fn tell_all(&mut self) -> Result<()> {
        let gone = self.untold.take().map_or(Ok(()), Err);
        let mut told = self.lines.values_mut().map(|line| match line.news() {
            Some(_) => line.tell(line.queued()),
            None => Ok(()),
        });
        gone.and(told.find(Result::is_err).unwrap_or(Ok(())))
    }

    /// Why the step before a point did nothing, if it did nothing.
    pub fn failure(&self, point: &Point) -> Option<Error> {
        match self.lines.get(&point.line) {
            Some(line) => line.failure(point.step).cloned(),
            None if point.line < self.unknown => Some(Error::Forked { lost: WORK }),
            None => None,
        }
    }

    /// Forgets a queue that nothing can come of any more.
    pub fn tidy(&mut self, at: u64) {
        if self.lines.get(&at).is_some_and(Line::is_over)
            && let Some(line) = self.lines.remove(&at)
        {
            self.untold = self.untold.take().or_else(|| line.news());
        }
    }
}

/// Numbers that look drawn (SplitMix64): the same for the same seed.
struct Random(u64);

impl Random {
    /// One less than `bound`, or 0.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31).checked_rem(bound).unwrap_or(0)
    }
}
