//! The locks and atomics of what calls share on the host.
//!
//! The modules that name them by this one are compiled a second time in `tests/loom`, where a module
//! with the same items has loom's: so loom runs the very source that is shipped.

pub(crate) use parking_lot::{Condvar, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
pub(crate) use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering};
pub(crate) use std::thread_local;

/// Lets others share a lock that was held alone.
pub(crate) fn downgrade<'l, T>(
    _: &'l RwLock<T>,
    guard: RwLockWriteGuard<'l, T>,
) -> RwLockReadGuard<'l, T> {
    RwLockWriteGuard::downgrade(guard)
}
