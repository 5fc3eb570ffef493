//! The CPU back end: every lane of a kernel is a coroutine, every collective is checked.
//!
//! For the facade (`thread`, `warp`, `shared`, `atomic`), which calls the functions below from
//! inside a kernel body, and for host code, which launches through [`Executor`].
//!
//! | file | idea |
//! |---|---|
//! | `executor` | configuration and launching |
//! | `pool`, `job` | OS threads; one launch and its blocks |
//! | `per_process` | what a forked process makes again |
//! | `blocks` | the loop over blocks that run [natively](crate::native) |
//! | `runner`, `resident` | the loop that resumes lanes; a block with its coroutines |
//! | `explore` | the same for several launches at once, in one interleaving |
//! | `schedule` | which lane is next: the policies, their scripts, and how those shrink |
//! | `callers` | host threads that take turns |
//! | `block`, `warp`, `lane` | state, from the block down to what a lane's code can reach |
//! | `collective`, `shuffle` | what lanes exchange |
//! | `shared`, `stack` | memory |
//! | `weak` | plain loads that see old values |
//! | `model` | atomics outside of a launch, under a model checker |
//! | `fault`, `place`, `diagnose`, `panic` | what went wrong and where |
//!
//! Invariant: a block stays on one OS thread from its first lane's start to its last lane's end;
//! its lanes and its scheduler take turns there. Lanes are resumed only by the runner, never by each
//! other.
//!
//! Atomics are sequentially consistent here, whatever ordering they have: those of the hardware are
//! for the hardware. Plain loads may be made to see old values ([`Memory::Weak`]), so that a missing
//! fence shows.

mod block;
mod blocks;
mod callers;
mod collective;
mod diagnose;
pub(crate) mod executor;
mod explore;
mod fault;
mod job;
mod lane;
pub(crate) mod model;
mod panic;
mod per_process;
mod place;
mod pool;
mod resident;
mod runner;
mod schedule;
mod shared;
mod shuffle;
mod stack;
#[cfg(test)]
mod tests;
mod warp;
pub(crate) mod weak;

use core::panic::Location;

pub use callers::{Caller, take_turns};
pub use executor::{Config, Executor, Launch};
pub use explore::Trace;
pub use fault::{Fault, FaultKind, LaneRef, Operation, PanicSite, Site, Waiting, WarpLanes};
pub use model::{Model, with_model};
pub use per_process::{PerProcess, forks};
pub use schedule::{Changes, ParseScriptError, Schedule, Script, Shrunk, Turn};
pub use weak::Memory;

use crate::atomic::Order;
use crate::native;

use collective::meet;
use lane::{current, try_current};
use shuffle::{Mode, shuffle};

/// The thread's index in its block.
#[inline]
#[track_caller]
pub(crate) fn thread_idx_x() -> u32 {
    if native::is_here() {
        return native::thread();
    }
    current().thread
}

/// The block's index in the grid.
#[inline]
#[track_caller]
pub(crate) fn block_idx_x() -> u32 {
    native::block().map_or_else(|| current().block_index.get(), |block| block.index)
}

/// Threads per block.
#[inline]
#[track_caller]
pub(crate) fn block_dim_x() -> u32 {
    native::block().map_or_else(|| current().block_dim.get(), |block| block.threads)
}

/// Blocks in the grid.
#[inline]
#[track_caller]
pub(crate) fn grid_dim_x() -> u32 {
    if let Some(block) = native::block() {
        return block.blocks;
    }
    try_current().map_or_else(model::blocks, |lane| lane.grid_dim.get())
}

/// The lane's index in its warp.
#[inline]
#[track_caller]
pub(crate) fn lane_id() -> u32 {
    current().index()
}

/// The block barrier.
///
/// # Safety
/// Every thread of the block calls it (checked here: the contract is the hardware's).
#[inline(always)]
#[track_caller]
pub(crate) unsafe fn sync_threads() {
    let lane = current();
    lane.go(lane.block().arrive(lane, Location::caller()));
}

macro_rules! collectives {
    ($($(#[$doc:meta])* $name:ident($operation:ident, $value:ident: $in:ty) -> $out:ty = $result:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// Every lane of `mask` calls it with that mask (checked here).
        #[inline(always)]
        #[track_caller]
        pub(crate) unsafe fn $name(mask: u32, $value: $in) -> $out {
            let lane = current();
            let met = meet(lane, Operation::$operation, mask, $value.into(), lane.index(), Location::caller());
            $result(met)
        }
    )*};
}

collectives! {
    /// The lanes of `mask` whose predicate holds.
    vote_ballot(Ballot, predicate: bool) -> u32 = |bits| bits as u32;
    /// Whether the predicate holds in any lane of `mask`.
    vote_any(Any, predicate: bool) -> bool = |bits| bits != 0;
    /// Whether the predicate holds in all lanes of `mask`.
    vote_all(All, predicate: bool) -> bool = |bits| bits != 0;
    /// The lanes of `mask` that brought the caller's value.
    match_any_32(MatchAny32, value: u32) -> u32 = |bits| bits as u32;
    /// The lanes of `mask` that brought the caller's value.
    match_any_64(MatchAny64, value: u64) -> u32 = |bits| bits as u32;
}

macro_rules! shuffles {
    ($($(#[$doc:meta])* $name:ident($operation:ident, $mode:ident, $by:ident) -> $value:ty;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// Every lane of `mask` calls it with that mask, and the lane it reads is in the mask
        /// (both checked here).
        #[inline(always)]
        #[track_caller]
        pub(crate) unsafe fn $name(mask: u32, value: $value, $by: u32, width: u32) -> $value {
            let operation = (Operation::$operation, Mode::$mode);
            shuffle(current(), operation, mask, value.into(), $by, width, Location::caller()) as $value
        }
    )*};
}

shuffles! {
    /// The value of lane `source % width` of the caller's segment.
    shfl_idx_32(ShuffleIdx32, Idx, source) -> u32;
    /// The value of the lane `delta` below, or the own one at the start of a segment.
    shfl_up_32(ShuffleUp32, Up, delta) -> u32;
    /// The value of the lane `delta` above, or the own one at the end of a segment.
    shfl_down_32(ShuffleDown32, Down, delta) -> u32;
    /// The value of lane `lane ^ bits`, or the own one where that is in a later segment.
    shfl_xor_32(ShuffleXor32, Xor, bits) -> u32;
    /// As `shfl_idx_32`.
    shfl_idx_64(ShuffleIdx64, Idx, source) -> u64;
    /// As `shfl_up_32`.
    shfl_up_64(ShuffleUp64, Up, delta) -> u64;
    /// As `shfl_down_32`.
    shfl_down_64(ShuffleDown64, Down, delta) -> u64;
    /// As `shfl_xor_32`.
    shfl_xor_64(ShuffleXor64, Xor, bits) -> u64;
}

/// The warp barrier.
///
/// # Safety
/// Every lane of `mask` calls it with that mask (checked here).
#[inline(always)]
#[track_caller]
pub(crate) unsafe fn sync_warp(mask: u32) {
    let lane = current();
    meet(
        lane,
        Operation::SyncWarp,
        mask,
        0,
        lane.index(),
        Location::caller(),
    );
}

/// The lanes of the warp that have not exited.
#[inline]
#[track_caller]
pub(crate) fn active_mask() -> u32 {
    current().warp().live.get()
}

/// The lanes that run this instruction together with the caller: itself, for lanes take turns here.
#[inline]
#[track_caller]
pub(crate) fn converged_mask() -> u32 {
    1 << current().index()
}

/// Before an atomic that reads: the lane may be preempted here. Returns whether there is one, or a
/// [native] block; if not, the atomic is the [`model`]'s.
#[inline]
#[track_caller]
#[must_use]
pub(crate) fn before_load(order: Order) -> bool {
    let Some(lane) = try_current() else {
        return native::is_here();
    };
    preempt(lane, false);
    weak::synchronise(false, matches!(order, Order::Acquire | Order::AcqRel));
    true
}

/// Before an atomic that may write `p`: the lane may be preempted here. Returns whether there is one, or a
/// [native] block; if not, the atomic is the [`model`]'s.
///
/// # Safety
/// `p` may be read, and what other threads do there meanwhile is atomic.
#[inline]
#[track_caller]
#[must_use]
pub(crate) unsafe fn before_write<T>(p: *const T, order: Order) -> bool {
    let Some(lane) = try_current() else {
        return native::is_here();
    };
    preempt(lane, true);
    weak::synchronise(
        matches!(order, Order::Release | Order::AcqRel),
        matches!(order, Order::Acquire | Order::AcqRel),
    );
    // SAFETY: where notes are taken, all lanes take turns on one OS thread.
    unsafe { weak::will_write(p.cast(), size_of::<T>(), true) };
    true
}

/// Before a fence: the lane may be preempted here. Returns whether there is one, or a [native] block; if
/// not, the fence is the [`model`]'s.
#[inline]
#[track_caller]
#[must_use]
pub(crate) fn before_fence() -> bool {
    let Some(lane) = try_current() else {
        return native::is_here();
    };
    preempt(lane, true);
    weak::synchronise(true, true);
    true
}

/// A point at which the lane may be preempted: before every atomic and fence.
#[inline]
#[track_caller]
fn preempt(lane: &lane::Lane, writes: bool) {
    match lane.fuel.get() {
        0 => lane.block().preempt(lane, writes, Location::caller()),
        fuel => lane.fuel.set(fuel - 1),
    }
}

/// A spin hint: every other lane that can run gets a turn first.
#[inline(always)]
#[track_caller]
pub(crate) fn nanosleep(_ns: u32) {
    let lane = current();
    lane.go(lane.block().sleep(lane, Location::caller()));
}

/// The shared array of the block that belongs to `site`, `bytes` and `align`.
#[inline]
#[track_caller]
pub(crate) fn shared_array(site: *const u8, bytes: usize, align: usize) -> *mut u8 {
    let layout = shared::array_layout(bytes, align);
    current()
        .block()
        .shared
        .borrow_mut()
        .array(site as usize, layout)
}

/// The shared memory whose size the grid gives.
#[inline]
#[track_caller]
pub(crate) fn dynamic_shared() -> *mut u8 {
    let block = current().block();
    let layout = shared::array_layout(block.grid().shared_bytes as usize, 16);
    block.shared.borrow_mut().array(shared::DYNAMIC, layout)
}
