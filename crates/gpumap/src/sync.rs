//! The locks and atomics of what calls share on the host.
//!
//! The modules that name them by this one are compiled a second time in `tests/loom`, where a module
//! with the same items has loom's: so loom runs the very source that is shipped.

pub(crate) use parking_lot::{Condvar, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::sync::LazyLock;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering};
use std::thread;
pub(crate) use std::thread_local;

/// Readers by a lock before they are counted by thread.
pub(crate) const SHARED_READS: usize = 64;

/// Pairs that a thread reserves beyond its call: room for the pairs of some calls with few keys.
pub(crate) const CREDIT: usize = 4096;

/// Bytes that threads keep apart.
pub(crate) const LINE: usize = 128;

/// How many lanes there are: a power of two.
pub(crate) fn lanes() -> usize {
    const MOST: usize = 64;
    static LANES: LazyLock<usize> = LazyLock::new(|| {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        processors.next_power_of_two().min(MOST)
    });
    *LANES
}

/// The number of this thread, of which lanes are the lowest bits.
#[inline]
pub(crate) fn lane() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    std::thread_local! {
        // Relaxed: only the number matters.
        static LANE: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    // A thread that ends has none any more.
    LANE.try_with(|lane| *lane).unwrap_or(0)
}

/// Lets others share a lock that was held alone.
pub(crate) fn downgrade<'l, T>(
    _: &'l RwLock<T>,
    guard: RwLockWriteGuard<'l, T>,
) -> RwLockReadGuard<'l, T> {
    RwLockWriteGuard::downgrade(guard)
}
