//! What is known of the work on a stream without asking the driver, which takes longer than all else that a small call
//! does before its kernel is queued.

use crate::sync::{AtomicBool, AtomicUsize, Ordering};

/// How much was queued on a stream, and how much of it is known to have ended.
///
/// | caller | calls |
/// |---|---|
/// | queues something | [`queued`](Self::queued), once the driver has it |
/// | waits, or queries the driver | [`so_far`](Self::so_far) before, and [`ended`](Self::ended) if all has |
///
/// Invariant: what the first `ended` of those that were queued have left with the driver has ended. For it was there
/// when a caller read the count, and that caller waited.
#[derive(Debug, Default)]
pub(super) struct Work {
    queued: AtomicUsize,
    ended: AtomicUsize,
    /// Whether others may queue something without counting it.
    is_shared: AtomicBool,
}

impl Work {
    /// The work on a stream that others have as well.
    pub fn shared() -> Self {
        let work = Self::default();
        work.share();
        work
    }

    /// Others may queue something from now on.
    pub fn share(&self) {
        self.is_shared.store(true, Ordering::Release);
    }

    /// Whether others may queue something.
    pub fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::Acquire)
    }

    /// Something has been queued.
    pub fn queued(&self) {
        self.queued.fetch_add(1, Ordering::Release);
    }

    /// How much was queued so far.
    pub fn so_far(&self) -> usize {
        self.queued.load(Ordering::Acquire)
    }

    /// So much has ended.
    pub fn ended(&self, so_far: usize) {
        self.ended.fetch_max(so_far, Ordering::Release);
    }

    /// Whether all has ended that was queued before by this thread, or by others that it has synchronised with: if
    /// so, that is certain.
    pub fn has_ended(&self) -> bool {
        !self.is_shared() && self.ended.load(Ordering::Acquire) == self.so_far()
    }
}
