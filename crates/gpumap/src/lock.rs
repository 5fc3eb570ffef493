//! The lock of what a map's calls share.
//!
//! It is an ordinary one, except for [callers](gpumap_simt::executor::Executor::run_callers),
//! host threads of a test that take turns: one that waited here for another's launch would
//! wait for ever, so it lets the others have their turns.

use crate::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use gpumap_simt::executor::take_turns;

/// Calls that run side by side share it; what runs alone has it alone.
#[derive(Debug)]
pub(crate) struct Lock<T>(RwLock<T>);

impl<T> Lock<T> {
    pub fn new(data: T) -> Self {
        Self(RwLock::new(data))
    }

    /// Waits for what runs alone.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        take_turns(|| self.0.try_read()).unwrap_or_else(|| self.0.read())
    }

    /// Does not wait: none if it is locked.
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        self.0.try_write()
    }

    /// Waits for all others.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        take_turns(|| self.0.try_write()).unwrap_or_else(|| self.0.write())
    }
}
