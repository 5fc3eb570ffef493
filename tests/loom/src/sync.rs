//! Loom's locks and atomics, in the shape of those in `gpumap`'s module of the same name.

pub use loom::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering};
pub use loom::sync::{RwLockReadGuard, RwLockWriteGuard};
pub use loom::thread_local;

use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// No thread panics under a lock and goes on.
const SOUND: &str = "a lock is not poisoned";

/// At once, so that models are small.
pub const SHARED_READS: usize = 0;

/// Little, so that models reach all of it.
pub const CREDIT: usize = 2;

/// As in the library.
pub const LINE: usize = 128;

/// One: what lanes are for costs no time in a model, and one shows what goes wrong between a reader and a writer.
pub fn lanes() -> usize {
    1
}

/// That one.
pub fn lane() -> usize {
    0
}

/// A mutex.
#[derive(Debug, Default)]
pub struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// With this in it.
    pub fn new(data: T) -> Self {
        Self(loom::sync::Mutex::new(data))
    }

    /// Waits for it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().expect(SOUND)))
    }

    /// What is in it.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().expect(SOUND)
    }
}

/// A mutex that is locked.
#[derive(Debug)]
pub struct MutexGuard<'m, T>(Option<loom::sync::MutexGuard<'m, T>>);

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("only gone while it waits")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("only gone while it waits")
    }
}

/// Where threads wait for a change.
#[derive(Debug, Default)]
pub struct Condvar(loom::sync::Condvar);

impl Condvar {
    /// Waits as long as this holds.
    pub fn wait_while<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut holds: impl FnMut(&mut T) -> bool,
    ) {
        while holds(guard) {
            let inner = guard.0.take().expect("it is locked");
            guard.0 = Some(self.0.wait(inner).expect(SOUND));
        }
    }

    /// Wakes all that wait.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A lock that readers share.
#[derive(Debug)]
pub struct RwLock<T>(loom::sync::RwLock<T>);

impl<T> RwLock<T> {
    /// With this in it.
    pub fn new(data: T) -> Self {
        Self(loom::sync::RwLock::new(data))
    }

    /// Waits for the writer.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().expect(SOUND)
    }

    /// Waits for all others.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().expect(SOUND)
    }

    /// Shares it, unless there is a writer.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.0.try_read().ok()
    }

    /// Has it alone, unless there are others.
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        self.0.try_write().ok()
    }

    /// The same: loom's readers do not wait for a writer that waits.
    pub fn try_read_recursive(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.try_read()
    }

    /// Shares it, however long that takes: time does not pass in a model.
    pub fn try_read_for(&self, _: Duration) -> Option<RwLockReadGuard<'_, T>> {
        Some(self.read())
    }
}

/// Lets others share a lock that was held alone; unlike the real one, after others may have had it.
pub fn downgrade<'l, T>(
    lock: &'l RwLock<T>,
    guard: RwLockWriteGuard<'l, T>,
) -> RwLockReadGuard<'l, T> {
    drop(guard);
    lock.read()
}
