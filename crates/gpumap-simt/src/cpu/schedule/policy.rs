//! Which lane is next, and whether a lane goes on at a preemption point.

use std::cell::{Cell, RefCell};

use super::Schedule;
use super::pct::Pct;
use super::progress::Progress;
use super::random::Random;
use super::ready::{Entry, Ready};
use super::replay::Replay;
use super::script::{Script, Turn};

/// Whose block is in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(in super::super) struct Seat {
    /// The launch, counted from 0 in the order in which they came.
    pub(in super::super) launch: u32,
    /// The block of its grid.
    pub(in super::super) block: u32,
}

/// A seat that is not taken yet.
const NOBODY: Seat = Seat {
    launch: u32::MAX,
    block: u32::MAX,
};

enum Kind {
    InOrder,
    Random(Random),
    Pct(Pct),
    Replay(Replay),
}

/// A schedule under way. Lanes and the runner share it, and take turns on one OS thread.
pub(in super::super) struct Policy {
    kind: RefCell<Kind>,
    seats: RefCell<Vec<Seat>>,
    points: Cell<u64>,
    writes: Cell<u64>,
    progress: RefCell<Progress>,
    /// The turns so far, if they are to be written down.
    turns: RefCell<Option<Vec<Turn>>>,
}

impl Policy {
    pub(in super::super) fn new(slots: usize) -> Self {
        Self {
            kind: RefCell::new(Kind::InOrder),
            seats: RefCell::new(vec![NOBODY; slots]),
            points: Cell::new(0),
            writes: Cell::new(0),
            progress: RefCell::new(Progress::new(slots)),
            turns: RefCell::new(None),
        }
    }

    /// Starts a run.
    pub(in super::super) fn start(&self, schedule: &Schedule, record: bool) {
        *self.kind.borrow_mut() = match *schedule {
            Schedule::RoundRobin | Schedule::Lockstep => Kind::InOrder,
            Schedule::Random { seed } => Kind::Random(Random::new(seed)),
            Schedule::Pct {
                seed,
                depth,
                changes,
                points,
            } => Kind::Pct(Pct::new(seed, depth, changes, points)),
            Schedule::Replay(ref script) => Kind::Replay(Replay::new(script)),
        };
        self.seats.borrow_mut().fill(NOBODY);
        self.points.set(0);
        self.writes.set(0);
        self.turns.replace(record.then(Vec::new));
    }

    /// A block takes a slot.
    pub(in super::super) fn begin(&self, slot: usize, seat: Seat) {
        self.seats.borrow_mut()[slot] = seat;
        self.progress.borrow_mut().begin(slot);
        if let Kind::Pct(pct) = &mut *self.kind.borrow_mut() {
            pct.begin(slot);
        }
    }

    /// The lane that is next. Its turn begins.
    pub(in super::super) fn pick(&self, ready: &Ready) -> Option<Entry> {
        let (seats, progress) = (self.seats.borrow(), self.progress.borrow());
        let entry = match &mut *self.kind.borrow_mut() {
            Kind::InOrder => ready.pop(),
            Kind::Random(random) => {
                let place = random_place(random, ready)?;
                ready.take(place)
            }
            Kind::Pct(pct) => pct.pick(ready),
            Kind::Replay(replay) => replay.pick(&seats, &progress, ready),
        }?;
        if let Some(turns) = &mut *self.turns.borrow_mut() {
            let Seat { launch, block } = seats[entry.slot()];
            turns.push(Turn {
                launch,
                block,
                thread: entry.thread() as u32,
                // It passes the one that it stands at.
                points: progress.of(entry),
            });
        }
        Some(entry)
    }

    /// Whether the running lane hands over at this point, which may be before a write.
    pub(in super::super) fn hands_over(&self, entry: Entry, writes: bool) -> bool {
        self.points.set(self.points.get() + 1);
        self.writes.set(self.writes.get() + u64::from(writes));
        let come = self.progress.borrow_mut().come(entry);
        let hands_over = match &mut *self.kind.borrow_mut() {
            Kind::InOrder => true,
            Kind::Random(random) => random.coin(),
            Kind::Pct(pct) => pct.hands_over(entry, writes),
            Kind::Replay(replay) => replay.hands_over(come),
        };
        if !hands_over
            && let Some(turns) = &mut *self.turns.borrow_mut()
            && let Some(turn) = turns.last_mut()
        {
            turn.points = come;
        }
        hands_over
    }

    /// The running lane yields to others.
    pub(in super::super) fn sleeps(&self, entry: Entry) {
        match &mut *self.kind.borrow_mut() {
            Kind::Pct(pct) => pct.put_last(entry),
            Kind::Replay(replay) => replay.stands_back(entry),
            Kind::InOrder | Kind::Random(_) => (),
        }
    }

    /// A lane has ended.
    pub(in super::super) fn ended(&self, entry: Entry) {
        if let Kind::Replay(replay) = &mut *self.kind.borrow_mut() {
            replay.ended(entry);
        }
    }

    /// Preemption points so far.
    pub(in super::super) fn points(&self) -> u64 {
        self.points.get()
    }

    /// Those before writes.
    pub(in super::super) fn writes(&self) -> u64 {
        self.writes.get()
    }

    /// The turns of the run, if they were written down.
    pub(in super::super) fn script(&self) -> Option<Script> {
        self.turns.take().map(Script::from)
    }
}

/// A place that is drawn among all.
fn random_place(random: &mut Random, ready: &Ready) -> Option<usize> {
    let lanes = ready.len();
    (lanes != 0).then(|| random.below(lanes as u64) as usize)
}
