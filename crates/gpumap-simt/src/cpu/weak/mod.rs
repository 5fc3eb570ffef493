//! Plain loads that see old values: what caches and the compiler may do to a kernel that lacks a
//! fence, within the bounds of PTX's memory model.
//!
//! Plain accesses are those of [`mem`](crate::mem). A write that overwrites something is noted with
//! what was there before. A plain load may return that, until the write has reached the lane that
//! loads: the writer releases it, and then the loader acquires; or both pass a barrier of their
//! block or their warp. What a lane has learned it hands on. Atomic writes are released at once, for
//! they are made in the L2; but a plain load may still find the line of the L1 that was there before.
//!
//! | | by |
//! |---|---|
//! | releases | `Release` and `AcqRel` atomics, `fence`, the end of the launch |
//! | acquires | `Acquire` and `AcqRel` atomics, `fence`, the begin of the launch |
//! | both, among the threads that take part | `sync_threads`, `sync_warp` |
//!
//! Two things are simpler than in the model, and both hide errors rather than invent some: any
//! acquire after a release takes part in it, whatever word each of them was on; and only the last
//! thousand writes are remembered. Atomic loads see the last value always.

mod notes;

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::lane::try_current;
use super::warp::lanes;
use notes::{Level, Notes, UNIT, Who};

/// What a plain load may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Memory {
    /// What was written last.
    #[default]
    Strong,
    /// Any value that the place had since the lane last synchronised, as the seed has it. Under
    /// [`Schedule::RoundRobin`](super::Schedule::RoundRobin) the same as [`Strong`](Self::Strong).
    Weak {
        /// Picks the values.
        seed: u64,
    },
}

/// Runs with weak memory that are under way, on all threads: without any, a load costs no more than
/// looking here.
static RUNS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The weak memory of the run on this OS thread.
    static HERE: RefCell<Option<Notes>> = const { RefCell::new(None) };
}

/// Runs `f` with such a memory on this OS thread.
pub(super) fn with<R>(memory: Memory, f: impl FnOnce() -> R) -> R {
    let Memory::Weak { seed } = memory else {
        return f();
    };
    struct Run;
    impl Drop for Run {
        fn drop(&mut self) {
            RUNS.fetch_sub(1, Ordering::Relaxed);
            HERE.take();
        }
    }
    RUNS.fetch_add(1, Ordering::Relaxed);
    HERE.set(Some(Notes::new(seed)));
    let _run = Run;
    f()
}

/// Whether there may be notes on this thread.
#[inline]
pub(crate) fn is_in_use() -> bool {
    RUNS.load(Ordering::Relaxed) != 0
}

/// Reads the notes of this thread, if there are any.
#[inline]
fn ask<R>(f: impl FnOnce(&mut Notes) -> R) -> Option<R> {
    if !is_in_use() {
        return None;
    }
    HERE.with_borrow_mut(|notes| notes.as_mut().map(f))
}

/// A launch has begun.
pub(super) fn launch_begins() {
    ask(Notes::launch_begins);
}

/// A launch has ended.
pub(super) fn launch_ends(launch: u32) {
    ask(|notes| notes.release(|note| note.launch == launch));
}

/// A block of a launch takes a slot.
pub(super) fn block_begins(slot: u32, launch: u32, threads: u32) {
    ask(|notes| notes.block_begins(slot, launch, threads));
}

/// All threads of a block have reached its barrier.
pub(super) fn block_barrier(slot: u32, threads: u32) {
    ask(|notes| notes.barrier(slot, 0..threads, Level::Block));
}

/// The lanes of a mask have reached their barrier; `first` is lane 0.
pub(super) fn warp_barrier(slot: u32, first: u32, mask: u32) {
    let of_mask = lanes(mask).map(|lane| first + lane as u32);
    ask(|notes| notes.barrier(slot, of_mask, Level::Warp));
}

/// The running lane releases, acquires, or both.
#[inline]
pub(super) fn synchronise(releases: bool, acquires: bool) {
    ask(|notes| {
        let Some(who) = who() else { return };
        if releases {
            notes.release_known(who);
        }
        if acquires {
            notes.acquire(who);
        }
    });
}

/// The running lane is about to write `len` bytes, at most [`UNIT`], aligned to their number.
///
/// # Safety
/// They may be read, and no other thread writes them.
#[inline]
pub(crate) unsafe fn will_write(p: *const u8, len: usize, atomically: bool) {
    ask(|notes| {
        let Some(who) = who() else { return };
        let mut before = [0; UNIT];
        // SAFETY: the caller's promise, and no more than fits.
        unsafe { p.copy_to_nonoverlapping(before.as_mut_ptr(), len.min(UNIT)) };
        notes.write(who, p as usize, len, before, atomically);
    });
}

/// What a plain load of the running lane sees of `bytes`, which are at `p`.
#[inline]
pub(crate) fn seen(p: *const u8, bytes: &mut [u8]) {
    ask(|notes| {
        let Some(who) = who() else { return };
        notes.see(who, p as usize, bytes);
    });
}

fn who() -> Option<Who> {
    let lane = try_current()?;
    let (slot, launch) = lane.block().place();
    Some(Who {
        launch,
        block: lane.block().index(),
        slot,
        thread: lane.thread,
    })
}
