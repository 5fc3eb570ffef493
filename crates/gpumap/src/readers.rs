//! [`Readers`]: readers of a lock who are counted by thread.
//!
//! A lock that is shared is a word that every reader writes twice: with sixteen callers of small batches, waiting for its cache
//! line is most of a call. Where nothing asks for a lock alone, readers are *counted*: each adds one to the lane of its thread, and
//! leaves the lock alone. A writer locks it first, then stops the counting, and waits until all lanes are zero.
//! Some readers later it begins again. The idea is that of biased locks for readers (Dice and Kogan, BRAVO, USENIX ATC 2019).
//!
//! | thread | does, in this order |
//! |---|---|
//! | reader | adds one to its lane; looks whether readers are still counted, and else takes it back and goes by the lock |
//! | writer | locks; stops the counting; reads each lane *by adding nothing to it*, until all are zero |
//!
//! Invariant: lanes are zero while counting is stopped and a writer has passed. For both change the lane by read-modify-writes, which
//! have one order: where the reader's comes first, the writer sees it; where the writer's does, the reader sees that counting has
//! stopped.

use crate::spread::Spread;
use crate::sync::{AtomicBool, AtomicUsize, Condvar, Mutex, Ordering, SHARED_READS};

/// The counted readers of a lock.
#[derive(Debug)]
pub(crate) struct Readers {
    lanes: Spread<AtomicUsize>,
    /// Whether they are counted. Changed only under the lock.
    counts: AtomicBool,
    /// Readers by the lock, before they are counted again. Not exact.
    until_counted: AtomicUsize,
    /// Locked by a writer who looks at the lanes, and to wake it.
    stopping: Mutex<()>,
    left: Condvar,
}

/// A reader who is counted, until this is dropped.
#[derive(Debug)]
pub(crate) struct Counted<'r> {
    readers: &'r Readers,
    lane: &'r AtomicUsize,
}

impl Readers {
    pub fn new() -> Self {
        Self {
            lanes: Spread::new(|| AtomicUsize::new(0)),
            counts: AtomicBool::new(false),
            until_counted: AtomicUsize::new(SHARED_READS),
            stopping: Mutex::new(()),
            left: Condvar::default(),
        }
    }

    /// Counts a reader; none if it has to go by the lock.
    #[inline]
    pub fn enter(&self) -> Option<Counted<'_>> {
        // Relaxed: a hint, asked again below.
        if !self.counts.load(Ordering::Relaxed) {
            return None;
        }
        let lane = self.lanes.mine();
        // Acquire: behind a writer's look at the lane, its stop is seen below. Release: so that the next look sees this one.
        lane.fetch_add(1, Ordering::AcqRel);
        let counted = Counted {
            readers: self,
            lane,
        };
        // Acquire: behind what was written before the counting began.
        self.counts.load(Ordering::Acquire).then_some(counted)
    }

    /// To be called by readers who share the lock.
    pub fn note_shared(&self) {
        // Relaxed: a count that others spoil is none the worse.
        if self.counts.load(Ordering::Relaxed) {
            return;
        }
        match self.until_counted.load(Ordering::Relaxed) {
            // Release: what this reader has seen, those who are counted see.
            0 => self.counts.store(true, Ordering::Release),
            more => self.until_counted.store(more - 1, Ordering::Relaxed),
        }
    }

    /// Stops the counting, and waits for those who are counted. To be called by a writer that has locked.
    pub fn stop(&self) {
        // Relaxed, as the lock orders its changes.
        if !self.counts.load(Ordering::Relaxed) {
            return;
        }
        self.set(false);
        let mut stopping = self.stopping.lock();
        self.left
            .wait_while(&mut stopping, |()| !self.are_all_gone());
    }

    /// The same without waiting: they go on if there are some, and it says so.
    pub fn try_stop(&self) -> bool {
        if !self.counts.load(Ordering::Relaxed) {
            return true;
        }
        self.set(false);
        let are_gone = self.are_all_gone();
        if !are_gone {
            self.set(true);
        }
        are_gone
    }

    fn set(&self, counts: bool) {
        self.until_counted.store(SHARED_READS, Ordering::Relaxed);
        // Release: of no use to those who stop, whose changes of lanes come behind it.
        self.counts.store(counts, Ordering::Release);
    }

    fn are_all_gone(&self) -> bool {
        // AcqRel: behind what the readers did who have left, and seen by those who come.
        self.lanes
            .iter()
            .all(|lane| lane.fetch_add(0, Ordering::AcqRel) == 0)
    }
}

impl Drop for Counted<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: what was read comes before what the writer changes. Acquire: behind its look at the lane.
        self.lane.fetch_sub(1, Ordering::AcqRel);
        // Relaxed: if a writer has seen this one in the lane, its stop is seen here.
        if !self.readers.counts.load(Ordering::Relaxed) {
            self.readers.wake();
        }
    }
}

impl Readers {
    #[cold]
    fn wake(&self) {
        // Not between a writer's look and its sleep.
        drop(self.stopping.lock());
        self.left.notify_all();
    }
}
