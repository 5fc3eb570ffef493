//! Priorities that change a few times: see [`Schedule::Pct`](super::Schedule::Pct).

use super::Changes;
use super::random::Random;
use super::ready::{Entry, Ready};

/// Points that a lane passes at one priority before it counts as spinning. Lanes of a warp may spin
/// together and wait for each other in between, so it is not those that it passes in one go.
const SPINNING: u32 = 500;

/// The priority of a lane that has none yet.
const NONE: u64 = 0;

/// First priorities are above this one, those of lanes that were put last below it.
const FIRST: u64 = 1 << 63;

/// Where a lane stands.
#[derive(Clone, Copy)]
struct Standing {
    priority: u64,
    /// Points that it has passed at this priority.
    points: u32,
}

impl Standing {
    /// At a priority from now on.
    const fn at(priority: u64) -> Self {
        Self {
            priority,
            points: 0,
        }
    }
}

/// Priorities of lanes, and the points at which they change.
pub(super) struct Pct {
    random: Random,
    at: Changes,
    /// By slot and thread. A run reads that of every lane that can run at every turn.
    standings: Vec<Vec<Standing>>,
    /// Points to come at which the running lane is put last; the next one is the last element.
    changes: Vec<u64>,
    points: u64,
    /// The next lane that is put last gets one less than the one before.
    last: u64,
}

impl Pct {
    pub(super) fn new(seed: u64, depth: u32, at: Changes, points: u64) -> Self {
        let mut random = Random::new(seed);
        let mut changes: Vec<u64> = (1..depth).map(|_| random.below(points)).collect();
        changes.sort_unstable_by(|a, b| b.cmp(a));
        Self {
            random,
            at,
            standings: Vec::new(),
            changes,
            points: 0,
            last: FIRST,
        }
    }

    /// A block has begun: its lanes have no priorities yet.
    pub(super) fn begin(&mut self, slot: usize) {
        if let Some(standings) = self.standings.get_mut(slot) {
            standings.fill(Standing::at(NONE));
        }
    }

    /// Where a lane stands.
    fn standing(standings: &mut Vec<Vec<Standing>>, entry: Entry) -> &mut Standing {
        let (slot, thread) = (entry.slot(), entry.thread());
        if standings.len() <= slot {
            standings.resize_with(slot + 1, Vec::new);
        }
        let of_slot = &mut standings[slot];
        if of_slot.len() <= thread {
            of_slot.resize(thread + 1, Standing::at(NONE));
        }
        &mut of_slot[thread]
    }

    pub(super) fn pick(&mut self, ready: &Ready) -> Option<Entry> {
        let Self {
            random, standings, ..
        } = self;
        let mut priority = |entry| {
            let standing = Self::standing(standings, entry);
            if standing.priority == NONE {
                standing.priority = random.next() | FIRST;
            }
            standing.priority
        };
        let (best, _) = ready
            .entries()
            .map(&mut priority)
            .enumerate()
            .max_by_key(|&(_, priority)| priority)?;
        ready.take(best)
    }

    /// Whether the running lane hands over at this point.
    pub(super) fn hands_over(&mut self, entry: Entry, writes: bool) -> bool {
        self.points += u64::from(writes || self.at == Changes::Anywhere);
        let standing = Self::standing(&mut self.standings, entry);
        standing.points += 1;
        let mut changes = standing.priority == NONE || standing.points >= SPINNING;
        while self.changes.last().is_some_and(|&at| at < self.points) {
            self.changes.pop();
            changes = true;
        }
        if changes {
            self.put_last(entry);
        }
        changes
    }

    pub(super) fn put_last(&mut self, entry: Entry) {
        self.last -= 1;
        *Self::standing(&mut self.standings, entry) = Standing::at(self.last);
    }
}
