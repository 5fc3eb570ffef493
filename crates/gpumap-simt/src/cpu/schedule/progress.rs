//! How far each lane has come.

use super::super::executor::MAX_THREADS;
use super::ready::Entry;

/// The preemption points that the lanes of the blocks in each slot have reached.
pub(super) struct Progress(Box<[u32]>);

impl Progress {
    pub(super) fn new(slots: usize) -> Self {
        Self(vec![0; slots * MAX_THREADS as usize].into())
    }

    fn place(entry: Entry) -> usize {
        entry.slot() * MAX_THREADS as usize + entry.thread()
    }

    /// A block begins in a slot.
    pub(super) fn begin(&mut self, slot: usize) {
        let lanes = MAX_THREADS as usize;
        self.0[slot * lanes..][..lanes].fill(0);
    }

    /// A lane has reached one more. Returns how many these are.
    pub(super) fn come(&mut self, entry: Entry) -> u32 {
        let points = &mut self.0[Self::place(entry)];
        *points = points.saturating_add(1);
        *points
    }

    /// How many points a lane has reached.
    pub(super) fn of(&self, entry: Entry) -> u32 {
        self.0[Self::place(entry)]
    }
}
