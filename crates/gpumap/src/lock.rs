//! The lock of what a map's calls share.
//!
//! It is an ordinary one, except for
//! - **[callbacks](ReadGuard::callback)**, code of the caller that a call runs while it holds the lock. The thread that runs one
//!   may look the map up: it gets what it holds already. A call that would change the map from there would wait for itself, and
//!   is [`Error::Nested`]. Lookups of other threads do not wait behind a call that waits for the callback to end.
//! - **[callers](gpumap_simt::executor::Executor::run_callers)**, host threads of a test that take turns: one that waited
//!   here for another's launch would wait for ever, so it lets the others have their turns.

use std::cell::RefCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::time::Duration;

use gpumap_simt::executor::take_turns;

use crate::error::{Error, Result};
use crate::sync::{
    AtomicUsize, Ordering, RwLock, RwLockReadGuard, RwLockWriteGuard, downgrade, thread_local,
};

/// Calls that run side by side share it; what runs alone has it alone.
#[derive(Debug)]
pub(crate) struct Lock<T> {
    data: RwLock<T>,
    /// Callbacks that run while it is shared.
    callbacks: AtomicUsize,
}

thread_local! {
    /// The locks under which this thread runs callbacks, and what they guard.
    #[allow(clippy::missing_const_for_thread_local, reason = "loom's has no such form")]
    static CALLBACKS: RefCell<Vec<Held>> = RefCell::new(Vec::new());
}

/// A lock under which a thread runs a callback.
#[derive(Clone, Copy)]
struct Held {
    lock: *const (),
    data: *const (),
    /// Whether other threads wait meanwhile.
    is_alone: bool,
}

/// How long a reader waits for its turn, before it looks again whether a callback has begun. Doubled each time, so that it
/// waits for no callback longer than it has waited before, and yet gets its turn however long others take.
const PATIENCE: Duration = Duration::from_millis(1);

impl<T> Lock<T> {
    pub fn new(data: T) -> Self {
        Self {
            data: RwLock::new(data),
            callbacks: AtomicUsize::new(0),
        }
    }

    /// Waits for what runs alone; and for what waits to run alone, unless that waits for a callback.
    pub fn read(&self) -> ReadGuard<'_, T> {
        let shared = take_turns(|| self.try_read()).or_else(|| self.try_read());
        shared.unwrap_or_else(|| self.wait())
    }

    /// As [`read`](Self::read), for calls that run callbacks: they wait for all that came before, so that callbacks which overlap
    /// hold nothing up for ever.
    pub fn read_in_turn(&self) -> ReadGuard<'_, T> {
        let shared = take_turns(|| self.try_read()).or_else(|| self.held());
        shared.unwrap_or_else(|| ReadGuard::of(self, self.data.read()))
    }

    /// Does not wait: none if it is locked by another thread.
    fn try_read(&self) -> Option<ReadGuard<'_, T>> {
        match self.data.try_read() {
            Some(guard) => Some(ReadGuard::of(self, guard)),
            None => self.held(),
        }
    }

    #[cold]
    fn wait(&self) -> ReadGuard<'_, T> {
        let mut patience = PATIENCE;
        loop {
            let mut guard = None;
            if self.callbacks.load(Ordering::Acquire) != 0 {
                guard = self.data.try_read_recursive();
            }
            if let Some(guard) = guard.or_else(|| self.data.try_read_for(patience)) {
                return ReadGuard::of(self, guard);
            }
            patience = patience.saturating_mul(2);
        }
    }

    /// What this thread runs a callback under already.
    fn held(&self) -> Option<ReadGuard<'_, T>> {
        let held = self.callback_where(|_| true)?;
        Some(ReadGuard {
            lock: self,
            data: held.data.cast(),
            _guard: None,
        })
    }

    /// One of the callbacks that this thread runs under it, of which this holds.
    fn callback_where(&self, holds: impl Fn(&Held) -> bool) -> Option<Held> {
        let at = ptr::from_ref(self).cast();
        let is_it = |held: &&Held| held.lock == at && holds(held);
        CALLBACKS.with(|callbacks| callbacks.borrow().iter().find(is_it).copied())
    }

    /// Does not wait: none if it is locked.
    pub fn try_write(&self) -> Option<WriteGuard<'_, T>> {
        self.data
            .try_write()
            .map(|guard| WriteGuard { lock: self, guard })
    }

    /// Waits for all others.
    ///
    /// # Errors
    /// [`Error::Nested`] in a callback that this thread runs under it.
    pub fn write(&self) -> Result<WriteGuard<'_, T>> {
        self.expect_no_callback()?;
        let guard = take_turns(|| self.data.try_write()).unwrap_or_else(|| self.data.write());
        Ok(WriteGuard { lock: self, guard })
    }

    /// To be asked first by calls that change what it guards.
    ///
    /// # Errors
    /// [`Error::Nested`] in a callback that this thread runs under the lock.
    pub fn expect_no_callback(&self) -> Result<()> {
        match self.callback_where(|_| true) {
            None => Ok(()),
            Some(_) => Err(Error::Nested),
        }
    }

    /// To be asked by calls that have other threads read it.
    ///
    /// # Errors
    /// [`Error::Nested`] in a callback that this thread runs while it has the lock alone.
    pub fn expect_others(&self) -> Result<()> {
        match self.callback_where(|held| held.is_alone) {
            None => Ok(()),
            Some(_) => Err(Error::Nested),
        }
    }
}

/// A lock that is shared.
pub(crate) struct ReadGuard<'l, T> {
    lock: &'l Lock<T>,
    data: *const T,
    /// None in a callback of this thread, during which it is held anyway.
    _guard: Option<RwLockReadGuard<'l, T>>,
}

// SAFETY: it gives out shared references alone. What keeps it valid stays with the thread that has it.
unsafe impl<T: Sync> Sync for ReadGuard<'_, T> {}

impl<'l, T> ReadGuard<'l, T> {
    fn of(lock: &'l Lock<T>, guard: RwLockReadGuard<'l, T>) -> Self {
        Self {
            lock,
            data: ptr::from_ref(&*guard),
            _guard: Some(guard),
        }
    }

    /// This thread runs code of the caller, until what this returns is dropped: before the guard.
    pub fn callback(&self) -> Callback<'l> {
        self.lock.callbacks.fetch_add(1, Ordering::AcqRel);
        Callback::enter(self.lock, self, Some(&self.lock.callbacks))
    }
}

impl<T> Deref for ReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard is held; or a callback of this thread, which runs while its caller lends out what it has locked, and
        // which this does not outlive: no call of the library keeps it when it returns.
        unsafe { &*self.data }
    }
}

impl<T: fmt::Debug> fmt::Debug for ReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A lock that one call has alone.
#[derive(Debug)]
pub(crate) struct WriteGuard<'l, T> {
    lock: &'l Lock<T>,
    guard: RwLockWriteGuard<'l, T>,
}

impl<'l, T> WriteGuard<'l, T> {
    /// This thread runs code of the caller, until what this returns is dropped. Other threads wait. What the callback looks up by
    /// streams may be in flight then.
    pub fn callback(&self) -> Callback<'_> {
        Callback::enter(self.lock, self, None)
    }

    /// Lets others share it.
    pub fn downgrade(self) -> ReadGuard<'l, T> {
        ReadGuard::of(self.lock, downgrade(&self.lock.data, self.guard))
    }
}

impl<T> Deref for WriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for WriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// A callback that this thread runs under a lock.
#[must_use = "it ends when this is dropped"]
#[derive(Debug)]
pub(crate) struct Callback<'l> {
    lock: *const (),
    counted: Option<&'l AtomicUsize>,
}

impl<'l> Callback<'l> {
    fn enter<T>(lock: &Lock<T>, data: &T, counted: Option<&'l AtomicUsize>) -> Self {
        let held = Held {
            lock: ptr::from_ref(lock).cast(),
            data: ptr::from_ref(data).cast(),
            is_alone: counted.is_none(),
        };
        CALLBACKS.with(|callbacks| callbacks.borrow_mut().push(held));
        Self {
            lock: held.lock,
            counted,
        }
    }
}

impl Drop for Callback<'_> {
    fn drop(&mut self) {
        CALLBACKS.with(|callbacks| {
            let mut callbacks = callbacks.borrow_mut();
            if let Some(last) = callbacks.iter().rposition(|held| held.lock == self.lock) {
                callbacks.remove(last);
            }
        });
        if let Some(callbacks) = self.counted {
            callbacks.fetch_sub(1, Ordering::AcqRel);
        }
    }
}
