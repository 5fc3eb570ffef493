//! The state of one block: its lanes and warps, which lanes wait, and what went wrong.
//!
//! Everything is in `Cell`s: the scheduler and the lanes take turns on one OS thread, and none holds
//! a reference into a cell while another runs.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::thread;

use crate::kernel::Grid;

use super::fault::{FaultKind, Site};
use super::lane::{FUEL, Lane, Next};
use super::schedule::{Entry, Policy, Ready};
use super::shared::SharedMemory;
use super::warp::Warp;
use super::weak;

/// A resident block.
pub(super) struct Block {
    index: Cell<u32>,
    grid: Cell<Grid>,
    lanes: Vec<Lane>,
    warps: Vec<Warp>,
    slot: u32,
    launch: Cell<u32>,
    ready: Rc<Ready>,
    policy: Rc<Policy>,
    /// Whether the schedule is any but round robin.
    pub(super) explored: Cell<bool>,
    /// Lanes that have not exited.
    pub(super) live: Cell<u32>,
    /// Of those, how many wait for others, at the barrier or in a collective.
    pub(super) waiting: Cell<u32>,
    /// Of those, how many wait at the barrier.
    at_barrier: Cell<u32>,
    /// Resumes and preemption points so far.
    pub(super) steps: Cell<u64>,
    sleeps: Cell<u32>,
    pub(super) shared: RefCell<SharedMemory>,
    fault: Cell<Option<Box<FaultKind>>>,
    faulted: Cell<bool>,
    cancelling: Cell<bool>,
    host_panicking: Cell<bool>,
}

impl Block {
    /// A block of up to `threads` lanes, in the scheduler's slot `slot`.
    pub(super) fn new(slot: u32, threads: u32, ready: Rc<Ready>, policy: Rc<Policy>) -> Self {
        Self {
            index: Cell::new(0),
            grid: Cell::new(Grid {
                blocks: 0,
                threads: 0,
                shared_bytes: 0,
            }),
            lanes: (0..threads).map(Lane::new).collect(),
            warps: (0..threads.div_ceil(32)).map(|_| Warp::new()).collect(),
            slot,
            launch: Cell::new(0),
            ready,
            policy,
            explored: Cell::new(false),
            live: Cell::new(0),
            waiting: Cell::new(0),
            at_barrier: Cell::new(0),
            steps: Cell::new(0),
            sleeps: Cell::new(0),
            shared: RefCell::new(SharedMemory::default()),
            fault: Cell::new(None),
            faulted: Cell::new(false),
            cancelling: Cell::new(false),
            host_panicking: Cell::new(false),
        }
    }

    /// Starts block `index` of the grid of launch number `launch`, or of the only one: all its lanes
    /// become ready.
    pub(super) fn begin(&self, index: u32, grid: Grid, launch: Option<u32>) {
        debug_assert!(grid.threads as usize <= self.lanes.len());
        self.index.set(index);
        self.launch.set(launch.unwrap_or(0));
        self.grid.set(grid);
        self.explored.set(launch.is_some());
        self.live.set(grid.threads);
        self.waiting.set(0);
        self.at_barrier.set(0);
        self.steps.set(0);
        self.shared.borrow_mut().begin();
        self.fault.set(None);
        self.faulted.set(false);
        self.cancelling.set(false);
        self.host_panicking.set(thread::panicking());
        for (warp, first) in self.warps().iter().zip((0..).step_by(32)) {
            warp.begin(grid.threads - first);
        }
        for thread in 0..grid.threads {
            self.make_ready(thread);
        }
    }

    pub(super) fn index(&self) -> u32 {
        self.index.get()
    }

    pub(super) fn grid(&self) -> Grid {
        self.grid.get()
    }

    /// How many lanes it can have.
    pub(super) fn room(&self) -> u32 {
        self.lanes.len() as u32
    }

    /// The scheduler's slot that it is in, and the number of its launch.
    #[inline]
    pub(super) fn place(&self) -> (u32, u32) {
        (self.slot, self.launch.get())
    }

    fn entry(&self, lane: &Lane) -> Entry {
        Entry::new(self.slot, lane.thread)
    }

    #[inline]
    pub(super) fn lane(&self, thread: usize) -> &Lane {
        &self.lanes[thread]
    }

    /// The warps that the grid uses.
    pub(super) fn warps(&self) -> &[Warp] {
        &self.warps[..self.grid.get().threads.div_ceil(32) as usize]
    }

    pub(super) fn warp(&self, thread: u32) -> &Warp {
        &self.warps[thread as usize / 32]
    }

    #[inline]
    pub(super) fn make_ready(&self, thread: u32) {
        self.ready.push(Entry::new(self.slot, thread));
    }

    /// The running lane waits for others from now on.
    #[inline]
    pub(super) fn waits(&self) {
        self.waiting.set(self.waiting.get() + 1);
    }

    /// The `count` lanes of `mask`, counted from thread `first`, wait no more.
    #[inline]
    pub(super) fn wake(&self, count: u32, first: u32, mask: u32) {
        self.waiting.set(self.waiting.get() - count);
        for lane in super::warp::lanes(mask) {
            self.make_ready(first + lane as u32);
        }
    }

    /// What the lane does whose coming has ended the waiting of others.
    #[inline]
    pub(super) fn last_to_come(&self, lane: &Lane) -> Next {
        if self.explored.get() {
            self.make_ready(lane.thread);
            return Next::Suspend;
        }
        // It need not wait: it would be resumed sooner or later without having missed anything.
        Next::GoOn
    }

    /// A lane reaches the block barrier, which waits for every thread of the block. A thread that
    /// has exited never comes.
    #[inline(never)]
    pub(super) fn arrive(&self, lane: &Lane, site: Site) -> Next {
        lane.site.set(Some(site));
        if lane.unwinding() {
            return Next::GoOn;
        }
        let (warp, threads) = (lane.warp(), self.grid.get().threads);
        let arrived = self.at_barrier.get() + 1;
        if arrived != threads {
            self.at_barrier.set(arrived);
            let index = lane.index();
            warp.at_barrier.set(warp.at_barrier.get() | 1 << index);
            warp.site[index as usize].set(Some(site));
            self.waits();
            return Next::Suspend;
        }
        self.at_barrier.set(0);
        self.waiting.set(0);
        for warp in self.warps() {
            warp.at_barrier.set(0);
        }
        weak::block_barrier(self.slot, threads);
        for thread in (0..threads).filter(|&thread| thread != lane.thread) {
            self.make_ready(thread);
        }
        self.last_to_come(lane)
    }

    /// A preemption point whose fuel has run out.
    #[cold]
    pub(super) fn preempt(&self, lane: &Lane, writes: bool, site: Site) {
        if !self.explored.get() {
            lane.fuel.set(FUEL);
            self.steps.set(self.steps.get() + u64::from(FUEL));
        } else {
            self.steps.set(self.steps.get() + 1);
            if !self.policy.hands_over(self.entry(lane), writes) {
                return;
            }
        }
        lane.go(self.hand_over(lane, site));
    }

    /// A spin hint.
    #[inline(never)]
    pub(super) fn sleep(&self, lane: &Lane, site: Site) -> Next {
        let sleeps = self.sleeps.get().wrapping_add(1);
        self.sleeps.set(sleeps);
        // What the lane waits for may be the work of another worker on the same processor.
        if self.explored.get() {
            self.policy.sleeps(self.entry(lane));
        } else if sleeps.is_multiple_of(64) {
            thread::yield_now();
        }
        self.hand_over(lane, site)
    }

    /// Lets every other ready lane run first, or whichever the schedule picks.
    fn hand_over(&self, lane: &Lane, site: Site) -> Next {
        lane.site.set(Some(site));
        if lane.unwinding() {
            return Next::GoOn;
        }
        self.make_ready(lane.thread);
        Next::Suspend
    }

    /// Books the exit of a lane.
    pub(super) fn exit(&self, lane: &Lane) {
        let (warp, index) = (lane.warp(), lane.index());
        if self.explored.get() {
            self.policy.ended(self.entry(lane));
        }
        warp.live.set(warp.live.get() & !(1 << index));
        self.live.set(self.live.get() - 1);
        for waiter in super::warp::lanes(warp.parked.get()) {
            let call = warp.call[waiter].get();
            if call.mask >> index & 1 != 0 {
                self.raise(FaultKind::Exited {
                    lane: self.lanes[(lane.thread & !31) as usize + waiter].reference(),
                    operation: call.operation,
                    mask: call.mask,
                    exited: call.mask & !warp.live.get(),
                    site: warp.site[waiter]
                        .get()
                        .expect("a parked lane has left its line"),
                });
                return;
            }
        }
    }

    /// Records a fault; the first one counts.
    #[cold]
    pub(super) fn raise(&self, kind: FaultKind) {
        if !self.faulted.replace(true) {
            self.fault.set(Some(Box::new(kind)));
        }
    }

    #[inline]
    pub(super) fn faulted(&self) -> bool {
        self.faulted.get()
    }

    pub(super) fn take_fault(&self) -> Option<FaultKind> {
        self.fault.take().map(|kind| *kind)
    }

    /// From now on the lanes are only unwound.
    pub(super) fn cancel(&self) {
        self.cancelling.set(true);
    }

    /// Whether a panic that is under way is one of a lane, not one of the host code that launched.
    pub(super) fn unwinding(&self) -> bool {
        self.cancelling.get() || !self.host_panicking.get()
    }
}
