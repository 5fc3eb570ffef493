//! Blocks that run [natively](crate::native): the loop of a thread over the blocks of a launch.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::fault::{FaultKind, LaneRef};
use super::job::Job;
use super::lane::PanicRecord;
use super::panic::message;
use super::resident::Body;
use crate::kernel::Grid;
use crate::native::{self, Block};

/// How long a launch keeps to the thread that launched it: to wake another one takes as long as some
/// thousand keys do.
const ALONE: Duration = Duration::from_micros(30);

thread_local! {
    /// What a panic in a native block left behind.
    static PANIC: Cell<Option<Box<PanicRecord>>> = const { Cell::new(None) };
}

/// Keeps what a panic of the native block of this thread left behind.
pub(super) fn note_panic(record: PanicRecord) {
    PANIC.set(Some(Box::new(record)));
}

/// Runs blocks of a launch for a little while. Returns whether there may be more of them.
///
/// # Safety
/// The job's body is alive and fit to run on the job's grid.
pub(super) unsafe fn run_first(job: &Job) -> bool {
    let start = Instant::now();
    while let Some(index) = job.next_block() {
        // SAFETY: passed on.
        unsafe { run_block(job, index) };
        if start.elapsed() >= ALONE {
            return true;
        }
    }
    false
}

/// Runs blocks of a launch until none is left to start.
///
/// # Safety
/// As for [`run_first`].
pub(super) unsafe fn run(job: &Job) {
    while let Some(index) = job.next_block() {
        // SAFETY: passed on.
        unsafe { run_block(job, index) };
    }
}

/// # Safety
/// As for [`run_first`].
unsafe fn run_block(job: &Job, index: u32) {
    // SAFETY: passed on.
    let body = unsafe { job.body() };
    if let Err(kind) = run_alone(job.grid, index, job.cancellation(), body) {
        job.fail(index, kind);
    }
}

/// Runs a block of a launch. Its fault is a panic.
pub(super) fn run_alone(
    grid: Grid,
    index: u32,
    cancelled: &AtomicBool,
    body: Body<'_>,
) -> Result<(), FaultKind> {
    let block = Block {
        index,
        threads: grid.threads,
        blocks: grid.blocks,
    };
    let run = || native::enter(block, cancelled, body);
    catch_unwind(AssertUnwindSafe(run)).map_err(panicked)
}

#[cold]
fn panicked(payload: Box<dyn Any + Send>) -> FaultKind {
    let record = PANIC.take();
    let message = record
        .as_ref()
        .map_or_else(|| message(&*payload), |record| record.message.clone());
    // A payload may panic when dropped.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
    FaultKind::Panic {
        // Where the block has ended.
        lane: LaneRef {
            thread: native::thread(),
        },
        message,
        site: record.and_then(|record| record.site),
    }
}
