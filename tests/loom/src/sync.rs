//! Loom's locks and atomics, in the shape of those in `gpumap`'s module of the same name.

pub use loom::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering};
pub use loom::sync::{RwLockReadGuard, RwLockWriteGuard};

use loom::sync::MutexGuard;

/// Nobody panics under a lock and goes on.
const SOUND: &str = "a lock is not poisoned";

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
        self.0.lock().expect(SOUND)
    }

    /// What is in it.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().expect(SOUND)
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
}
