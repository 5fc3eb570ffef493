//! One launch: what to run, which blocks are still to start, and how it went.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::kernel::Grid;

use super::fault::{Fault, FaultKind};
use super::resident::Body;

/// A launch under way.
///
/// Invariant: `body` is only run by the thread that launched and by workers that are counted in
/// `helpers`; the launching thread does not return before `helpers` is back at 0 and the job is out
/// of the queue, so the body, which it borrows, outlives every use.
pub(super) struct Job {
    pub(super) kernel: &'static str,
    pub(super) grid: Grid,
    pub(super) step_budget: u64,
    /// Whether the body does the work of a whole block.
    pub(super) by_block: bool,
    body: *const (dyn Fn() + Sync),
    next: AtomicU64,
    cancelled: AtomicBool,
    fault: Mutex<Option<Fault>>,
    helpers: Mutex<u32>,
    left: Condvar,
}

// SAFETY: `body` points at a `Sync` closure; everything else is `Send` and `Sync` by itself.
unsafe impl Send for Job {}
// SAFETY: the same.
unsafe impl Sync for Job {}

impl Job {
    pub(super) fn new(
        kernel: &'static str,
        grid: Grid,
        step_budget: u64,
        by_block: bool,
        body: Body<'_>,
    ) -> Self {
        let body: *const (dyn Fn() + Sync + '_) = body;
        Self {
            kernel,
            grid,
            step_budget,
            by_block,
            // SAFETY: only the lifetime changes, and by the invariant above no use outlives it.
            body: unsafe {
                core::mem::transmute::<*const (dyn Fn() + Sync + '_), *const (dyn Fn() + Sync)>(
                    body,
                )
            },
            next: AtomicU64::new(0),
            cancelled: AtomicBool::new(false),
            fault: Mutex::new(None),
            helpers: Mutex::new(0),
            left: Condvar::new(),
        }
    }

    /// The kernel body.
    ///
    /// # Safety
    /// To be called only by the launching thread or by a counted helper.
    #[inline]
    pub(super) unsafe fn body(&self) -> Body<'_> {
        // SAFETY: the caller is one of those that the invariant of the type names.
        unsafe { &*self.body }
    }

    /// The next block that was not started yet, in order.
    pub(super) fn next_block(&self) -> Option<u32> {
        if self.cancelled() {
            return None;
        }
        // Relaxed: only the number matters. What the blocks write is published to the launching
        // thread by the mutex of `helpers`.
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        u32::try_from(index)
            .ok()
            .filter(|&index| index < self.grid.blocks)
    }

    #[inline]
    pub(super) fn cancelled(&self) -> bool {
        self.cancellation().load(Ordering::Relaxed)
    }

    /// What becomes true when the launch has failed.
    #[inline]
    pub(super) fn cancellation(&self) -> &AtomicBool {
        &self.cancelled
    }

    /// Records a fault and cancels the launch.
    pub(super) fn fail(&self, block: u32, kind: FaultKind) {
        lock(&self.fault).get_or_insert(Fault {
            kernel: self.kernel,
            block,
            kind,
        });
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// How the launch went, once it is over.
    pub(super) fn outcome(&self) -> Result<(), Fault> {
        lock(&self.fault).take().map_or(Ok(()), Err)
    }

    /// Counts a helper in, until what it returns is dropped. Only while the job is in the queue.
    pub(super) fn help(&self) -> Helper<'_> {
        *lock(&self.helpers) += 1;
        Helper(self)
    }

    /// Waits for the helpers. The job must be out of the queue.
    pub(super) fn wait(&self) {
        let mut helpers = lock(&self.helpers);
        while *helpers != 0 {
            helpers = self
                .left
                .wait(helpers)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A worker's part in a job.
pub(super) struct Helper<'a>(&'a Job);

impl Drop for Helper<'_> {
    fn drop(&mut self) {
        let mut helpers = lock(&self.0.helpers);
        *helpers -= 1;
        if *helpers == 0 {
            self.0.left.notify_all();
        }
    }
}

/// Locks a mutex whose data is right even after a panic of its holder.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
