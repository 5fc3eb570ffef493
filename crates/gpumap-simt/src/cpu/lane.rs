//! The lane context: what the code of a kernel can reach of the lane it runs in, through one
//! thread-local pointer.
//!
//! Invariant: while a lane's code runs on an OS thread, that thread's `CURRENT` points at the lane's
//! context; at all other times it is null. The block that owns the context outlives the lane, and a
//! block never changes its OS thread, so the `Cell`s are never shared between threads.

use std::cell::Cell;
use std::ptr;
use std::thread;

use corosensei::Yielder;

use super::block::Block;
use super::fault::{LaneRef, PanicSite, Site};
use super::warp::Warp;
use crate::native;

/// Preemption points that a lane may pass under round robin before it lets others run, so that a
/// loop that spins on an atomic without a spin hint ends, or runs into the step budget.
pub(super) const FUEL: u32 = 1024;

thread_local! {
    static CURRENT: Cell<*const Lane> = const { Cell::new(ptr::null()) };
}

/// What a panic in a kernel body left behind.
pub(super) struct PanicRecord {
    pub(super) message: String,
    pub(super) site: Option<PanicSite>,
}

/// What a lane does after it has left its part of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Next {
    /// It runs on.
    GoOn,
    /// It gives the OS thread away: to wait, to let others run, or to be unwound after a fault.
    Suspend,
}

/// One lane's context.
pub(super) struct Lane {
    pub(super) thread: u32,
    pub(super) block_index: Cell<u32>,
    pub(super) block_dim: Cell<u32>,
    pub(super) grid_dim: Cell<u32>,
    /// Preemption points left; always 0 but under round robin: elsewhere each one counts.
    pub(super) fuel: Cell<u32>,
    pub(super) site: Cell<Option<Site>>,
    pub(super) panic: Cell<Option<Box<PanicRecord>>>,
    block: Cell<*const Block>,
    warp: Cell<*const Warp>,
    yielder: Cell<*const Yielder<(), ()>>,
}

impl Lane {
    pub(super) fn new(thread: u32) -> Self {
        Self {
            thread,
            block_index: Cell::new(0),
            block_dim: Cell::new(0),
            grid_dim: Cell::new(0),
            fuel: Cell::new(0),
            site: Cell::new(None),
            panic: Cell::new(None),
            block: Cell::new(ptr::null()),
            warp: Cell::new(ptr::null()),
            yielder: Cell::new(ptr::null()),
        }
    }

    /// Readies the context for a new block.
    pub(super) fn begin(&self, block: &Block) {
        let grid = block.grid();
        self.block_index.set(block.index());
        self.block_dim.set(grid.threads);
        self.grid_dim.set(grid.blocks);
        self.fuel.set(if block.explored.get() { 0 } else { FUEL });
        self.site.set(None);
        self.panic.set(None);
        self.block.set(block);
        self.warp.set(block.warp(self.thread));
        self.yielder.set(ptr::null());
    }

    /// Called once on the lane's own stack, before anything else.
    pub(super) fn set_yielder(&self, yielder: &Yielder<(), ()>) {
        self.yielder.set(yielder);
    }

    #[inline]
    pub(super) fn index(&self) -> u32 {
        self.thread % 32
    }

    #[inline]
    pub(super) fn reference(&self) -> LaneRef {
        LaneRef {
            thread: self.thread,
        }
    }

    #[inline]
    pub(super) fn block(&self) -> &Block {
        // SAFETY: set by `begin`, and the block owns this lane, so it is alive and in place.
        unsafe { &*self.block.get() }
    }

    #[inline]
    pub(super) fn warp(&self) -> &Warp {
        // SAFETY: set by `begin`, to a warp of the block that owns this lane.
        unsafe { &*self.warp.get() }
    }

    /// Suspends the lane if it has to wait.
    ///
    /// Inlined into the kernel, with all of its callers, for the sake of the processor's return
    /// predictor: a function that is entered before a switch of stacks and left after it costs a
    /// wrong prediction both ways, which is several times the switch itself.
    #[inline(always)]
    pub(super) fn go(&self, next: Next) {
        if let Next::Suspend = next {
            self.suspend();
        }
    }

    /// Gives the OS thread back to the scheduler until the lane is resumed.
    #[inline(always)]
    pub(super) fn suspend(&self) {
        // SAFETY: the yielder lives at the root of the lane's stack as long as the lane runs, and
        // only the lane itself, running, gets here (`current` is the only way to a `Lane`).
        unsafe { (*self.yielder.get()).suspend(()) }
    }

    /// Whether the lane's stack is being unwound, by its own panic or by the cancelling of the
    /// launch. Destructors of a kernel that call the executor then get an answer at once: to switch
    /// stacks in the middle of a panic would take the process down.
    #[inline]
    pub(super) fn unwinding(&self) -> bool {
        thread::panicking() && self.block().unwinding()
    }
}

/// The lane that runs on this OS thread.
#[inline]
#[track_caller]
pub(super) fn current<'a>() -> &'a Lane {
    let lane = CURRENT.get();
    if lane.is_null() {
        outside();
    }
    // SAFETY: `CURRENT` is null or points at the lane whose code is running, by the invariant of
    // this module; the reference does not leave the executor call that the lane is in.
    unsafe { &*lane }
}

/// The same, or `None` outside a launch.
#[inline]
pub(super) fn try_current<'a>() -> Option<&'a Lane> {
    // SAFETY: as in `current`.
    unsafe { CURRENT.get().as_ref() }
}

#[cold]
#[track_caller]
pub(super) fn outside() -> ! {
    if native::is_here() {
        panic!(
            "a kernel that is declared `by thread` or `by block` came to a barrier, a collective, shared memory or something \
             else that needs lanes: declare it without"
        );
    }
    panic!("a device function was called outside a kernel launch");
}

/// Runs `f`, which resumes `lane`, with `lane` as the current one.
#[inline]
pub(super) fn enter<R>(lane: &Lane, f: impl FnOnce() -> R) -> R {
    CURRENT.set(lane);
    let result = f();
    CURRENT.set(ptr::null());
    result
}
