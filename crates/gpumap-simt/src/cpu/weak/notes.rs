//! Writes that not every lane may have learned of, and what they overwrote.

use std::collections::VecDeque;

/// Writes that are remembered.
const NOTES: usize = 1024;

/// Bytes of the unit in which memory is remembered: no access goes across.
pub(super) const UNIT: usize = 16;

/// Moments are counted; this one has not come.
const NEVER: u64 = u64::MAX;

/// A write, and what it overwrote.
pub(super) struct Note {
    unit: usize,
    first: usize,
    len: usize,
    before: [u8; UNIT],
    pub(super) launch: u32,
    block: u32,
    thread: u32,
    written: u64,
    released: u64,
}

/// How far a lane has synchronised.
#[derive(Clone, Copy, Default)]
struct Since {
    acquired: u64,
    block: u64,
    warp: u64,
    loads: u64,
}

/// The threads of a barrier.
#[derive(Clone, Copy)]
pub(super) enum Level {
    Block,
    Warp,
}

/// A lane's place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Who {
    pub(super) launch: u32,
    pub(super) block: u32,
    pub(super) slot: u32,
    pub(super) thread: u32,
}

pub(super) struct Notes {
    seed: u64,
    now: u64,
    notes: VecDeque<Note>,
    /// When each launch began.
    launches: Vec<u64>,
    /// By slot and thread.
    lanes: Vec<Vec<Since>>,
}

impl Note {
    /// Whether a lane can only see what was written, not what was there before.
    fn is_known(&self, who: Who, since: Since) -> bool {
        self.released <= since.acquired
            || (self.launch == who.launch && self.block == who.block)
                && (self.thread == who.thread
                    || self.written <= since.block
                    || self.thread / 32 == who.thread / 32 && self.written <= since.warp)
    }
}

impl Notes {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            now: 0,
            notes: VecDeque::with_capacity(NOTES),
            launches: Vec::new(),
            lanes: Vec::new(),
        }
    }

    pub(super) fn launch_begins(&mut self) {
        self.launches.push(self.now);
    }

    /// Its lanes know what was released when their launch began.
    pub(super) fn block_begins(&mut self, slot: u32, launch: u32, threads: u32) {
        let slot = slot as usize;
        if self.lanes.len() <= slot {
            self.lanes.resize(slot + 1, Vec::new());
        }
        let since = Since {
            acquired: self.launches[launch as usize],
            ..Since::default()
        };
        self.lanes[slot] = vec![since; threads as usize];
    }

    fn since(&mut self, who: Who) -> &mut Since {
        &mut self.lanes[who.slot as usize][who.thread as usize]
    }

    /// A lane releases what it knows.
    pub(super) fn release_known(&mut self, who: Who) {
        let since = *self.since(who);
        self.release(|note| note.is_known(who, since));
    }

    /// Releases some of the writes.
    pub(super) fn release(&mut self, which: impl Fn(&Note) -> bool) {
        self.now += 1;
        for note in &mut self.notes {
            if note.released == NEVER && which(note) {
                note.released = self.now;
            }
        }
    }

    /// A lane acquires what was released.
    pub(super) fn acquire(&mut self, who: Who) {
        self.since(who).acquired = self.now;
    }

    /// What one lane of them has acquired, all have.
    pub(super) fn barrier(
        &mut self,
        slot: u32,
        threads: impl Iterator<Item = u32> + Clone,
        level: Level,
    ) {
        self.now += 1;
        let lanes = &mut self.lanes[slot as usize];
        let known = threads.clone().map(|t| lanes[t as usize].acquired).max();
        for thread in threads {
            let since = &mut lanes[thread as usize];
            since.acquired = known.unwrap_or(0);
            match level {
                Level::Block => since.block = self.now,
                Level::Warp => since.warp = self.now,
            }
        }
    }

    /// Takes note of a write at `p`.
    pub(super) fn write(
        &mut self,
        who: Who,
        p: usize,
        len: usize,
        before: [u8; UNIT],
        atomically: bool,
    ) {
        self.now += 1;
        if self.notes.len() == NOTES {
            self.notes.pop_front();
        }
        self.notes.push_back(Note {
            unit: p / UNIT,
            first: p % UNIT,
            len,
            before,
            launch: who.launch,
            block: who.block,
            thread: who.thread,
            written: self.now,
            released: if atomically { self.now } else { NEVER },
        });
    }

    /// Replaces `bytes` by what was at `p` at some moment that the lane may still see.
    pub(super) fn see(&mut self, who: Who, p: usize, bytes: &mut [u8]) {
        let (unit, first, len) = (p / UNIT, p % UNIT, bytes.len());
        let since = self.since(who);
        since.loads += 1;
        let since = *since;
        let overlapping = self.notes.iter().rev().filter(|note| {
            note.unit == unit && note.first < first + len && first < note.first + note.len
        });
        let unknown = overlapping.take_while(|note| !note.is_known(who, since));
        let choices = unknown.clone().count() as u64;
        if choices == 0 {
            return;
        }
        // The last value half of the time, else any that was overwritten.
        let lane = u64::from(who.slot) << 32 | u64::from(who.thread);
        let drawn = hash(self.seed ^ hash(lane ^ hash(since.loads)));
        if drawn & 1 == 0 {
            return;
        }
        let back = (drawn >> 1) % choices;
        for note in unknown.take(back as usize + 1) {
            let from = note.first.max(first);
            let to = (note.first + note.len).min(first + len);
            bytes[from - first..to - first]
                .copy_from_slice(&note.before[from - note.first..to - note.first]);
        }
    }
}

/// A word in which every bit of `x` counts.
fn hash(x: u64) -> u64 {
    let z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}
