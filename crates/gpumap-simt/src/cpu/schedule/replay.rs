//! A script followed: exactly if it is of the same run, and as far as it fits if turns are missing.

use std::collections::{HashMap, VecDeque};

use super::policy::Seat;
use super::progress::Progress;
use super::ready::{Entry, Ready};
use super::script::{Script, Turn};

/// Points that a lane which has no turn of its own passes at a stretch.
const FUEL: u32 = 1024;

/// How often other lanes may run so that the lane whose turn it is reaches its points.
const PATIENCE: u32 = 4096;

/// A turn under way.
struct Current {
    entry: Entry,
    /// How far it goes.
    points: u32,
    /// Whether the lane has run at all.
    ran: bool,
    patience: u32,
}

/// Follows a script.
///
/// A lane whose turn it is runs until it has passed the turn's points. If it waits before, the lanes
/// that it waits for run first: those of its warp, then those of its block, without being
/// preempted. A turn of a lane that has come farther, has ended, or not begun, is left out.
///
/// When the script has ended, each lane runs as far as it can, in the order of launches,
/// blocks and threads. That order knows nothing of the turns before, so that leaving one out changes
/// nothing but what it did.
pub(super) struct Replay {
    turns: VecDeque<Turn>,
    current: Option<Current>,
    /// How often lanes stood back for others since the last turn began.
    stood_back: HashMap<Entry, u32>,
    /// The lane that runs though it is not its turn, and the points it has passed at a stretch.
    helper: Option<(Entry, u32)>,
}

impl Replay {
    pub(super) fn new(script: &Script) -> Self {
        Self {
            turns: script.turns().iter().copied().collect(),
            current: None,
            stood_back: HashMap::new(),
            helper: None,
        }
    }

    pub(super) fn pick(
        &mut self,
        seats: &[Seat],
        progress: &Progress,
        ready: &Ready,
    ) -> Option<Entry> {
        self.helper = None;
        loop {
            let Some(current) = &mut self.current else {
                let Some(turn) = self.turns.pop_front() else {
                    let entry = ready.take(self.first(seats, ready)?)?;
                    self.helper = Some((entry, 0));
                    return Some(entry);
                };
                self.current = Current::of(turn, seats);
                continue;
            };
            let come = progress.of(current.entry);
            let place = ready.entries().position(|entry| entry == current.entry);
            match place {
                Some(place) if !current.ran && come <= current.points => {
                    current.ran = true;
                    return ready.take(place);
                }
                // It waits, and has points left.
                None if come < current.points && current.patience > 0 => {
                    current.patience -= 1;
                    // It runs on when it can.
                    current.ran = false;
                    if let Some(place) = helper(current.entry, ready) {
                        let entry = ready.take(place)?;
                        self.helper = Some((entry, 0));
                        return Some(entry);
                    }
                    self.current = None;
                }
                _ => self.current = None,
            }
        }
    }

    /// Whether the running lane hands over at this point, the `come`-th that it reaches.
    pub(super) fn hands_over(&mut self, come: u32) -> bool {
        if let Some((entry, points)) = self.helper {
            let is_tired = points + 1 >= FUEL;
            self.helper = Some((entry, points + 1));
            if is_tired {
                self.stands_back(entry);
            }
            return is_tired;
        }
        self.current
            .as_ref()
            .is_none_or(|current| come > current.points)
    }

    /// The place of the lane that is first when the script has ended.
    fn first(&self, seats: &[Seat], ready: &Ready) -> Option<usize> {
        let stood_back = |entry| self.stood_back.get(&entry).copied().unwrap_or_default();
        let (place, _) = ready
            .entries()
            .enumerate()
            .min_by_key(|&(_, entry)| (stood_back(entry), seats[entry.slot()], entry.thread()))?;
        Some(place)
    }

    /// A lane lets all others go first: it waits for one of them, or has run for so long that it may.
    pub(super) fn stands_back(&mut self, entry: Entry) {
        if self.turns.is_empty() {
            *self.stood_back.entry(entry).or_default() += 1;
        }
    }

    /// A lane has ended.
    pub(super) fn ended(&mut self, entry: Entry) {
        self.stood_back.remove(&entry);
        if self.current.as_ref().is_some_and(|it| it.entry == entry) {
            self.current = None;
        }
    }
}

impl Current {
    /// A turn of a lane of a resident block.
    fn of(turn: Turn, seats: &[Seat]) -> Option<Self> {
        let seat = Seat {
            launch: turn.launch,
            block: turn.block,
        };
        let slot = seats.iter().position(|&other| other == seat)?;
        Some(Self {
            entry: Entry::new(slot as u32, turn.thread),
            points: turn.points,
            ran: false,
            patience: PATIENCE,
        })
    }
}

/// The place of the lane that runs for another one, which waits.
fn helper(waiting: Entry, ready: &Ready) -> Option<usize> {
    let in_block = ready
        .entries()
        .enumerate()
        .filter(|(_, entry)| entry.slot() == waiting.slot());
    let (place, _) = in_block.min_by_key(|(_, entry)| {
        let elsewhere = entry.thread() / 32 != waiting.thread() / 32;
        (elsewhere, entry.thread())
    })?;
    Some(place)
}
