//! The lock of what a map's calls share.
//!
//! It is an ordinary one, except for
//! - **[callbacks](ReadGuard::callback)**, code of the caller that a call runs while it holds the lock. The thread that runs one
//!   may look the map up: it gets what it holds already. A call that would change the map from there would wait for itself, and
//!   is [`Error::Nested`]. Lookups of other threads do not wait behind a call that waits for the callback to end.
//! - **[callers](gpumap_simt::executor::Executor::run_callers)**, host threads of a test that take turns: one that waited
//!   here for another's launch would wait for ever, so it lets the others have their turns.
//! - **[readers](Readers)** of a lock that nothing has asked for alone in a while: they are counted by the lane of their thread, and
//!   write to nothing that other threads use.

use std::cell::{RefCell, UnsafeCell};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::time::Duration;

use gpumap_simt::executor::take_turns;

use crate::error::{Error, Result};
use crate::readers::{Counted, Readers};
use crate::sync::{
    AtomicUsize, Ordering, RwLock, RwLockReadGuard, RwLockWriteGuard, downgrade, thread_local,
};

/// Calls that run side by side share it; what runs alone has it alone.
#[derive(Debug)]
pub(crate) struct Lock<T> {
    gate: RwLock<()>,
    /// Those that have not come through the gate.
    readers: Readers,
    /// Callbacks that run while the gate is shared.
    callbacks: AtomicUsize,
    /// Shared by those behind the gate and the readers, or one thread's that has locked the gate alone while there are no readers.
    data: UnsafeCell<T>,
}

// SAFETY: a lock as `RwLock` is.
unsafe impl<T: Send + Sync> Sync for Lock<T> {}

thread_local! {
    /// The locks under which this thread runs callbacks, and what they guard.
    #[allow(clippy::missing_const_for_thread_local, reason = "loom's has no such form")]
    static CALLBACKS: RefCell<Vec<Held>> = RefCell::new(Vec::new());
}

/// A lock under which a thread runs a callback.
#[derive(Clone, Copy)]
struct Held {
    lock: *const (),
    /// Whether other threads wait meanwhile.
    is_alone: bool,
}

/// How long a reader waits for its turn, before it looks again whether a callback has begun. Doubled each time, so that it
/// waits for no callback longer than it has waited before, and yet gets its turn however long others take.
const PATIENCE: Duration = Duration::from_millis(1);

impl<T> Lock<T> {
    pub fn new(data: T) -> Self {
        Self {
            gate: RwLock::new(()),
            readers: Readers::new(),
            callbacks: AtomicUsize::new(0),
            data: UnsafeCell::new(data),
        }
    }

    /// Waits for what runs alone; and for what waits to run alone, unless that waits for a callback. For calls that run no
    /// callbacks.
    #[inline]
    pub fn read(&self) -> ReadGuard<'_, T> {
        match self.readers.enter() {
            Some(counted) => ReadGuard::of(self, Share::Counted(counted)),
            None => self.read_by_gate(),
        }
    }

    fn read_by_gate(&self) -> ReadGuard<'_, T> {
        let shared = take_turns(|| self.try_read()).or_else(|| self.try_read());
        let guard = shared.unwrap_or_else(|| self.wait());
        if matches!(guard.share, Share::Gate(_)) {
            self.readers.note_shared();
        }
        guard
    }

    /// As [`read`](Self::read), for calls that run callbacks: they wait for all that came before, so that callbacks which overlap
    /// hold nothing up for ever.
    pub fn read_in_turn(&self) -> ReadGuard<'_, T> {
        let shared = take_turns(|| self.try_read()).or_else(|| self.held());
        shared.unwrap_or_else(|| ReadGuard::of(self, Share::Gate(self.gate.read())))
    }

    /// Does not wait: none if it is locked by another thread.
    fn try_read(&self) -> Option<ReadGuard<'_, T>> {
        match self.gate.try_read() {
            Some(guard) => Some(ReadGuard::of(self, Share::Gate(guard))),
            None => self.held(),
        }
    }

    #[cold]
    fn wait(&self) -> ReadGuard<'_, T> {
        let mut patience = PATIENCE;
        loop {
            let mut guard = None;
            if self.callbacks.load(Ordering::Acquire) != 0 {
                guard = self.gate.try_read_recursive();
            }
            if let Some(guard) = guard.or_else(|| self.gate.try_read_for(patience)) {
                return ReadGuard::of(self, Share::Gate(guard));
            }
            patience = patience.saturating_mul(2);
        }
    }

    /// What this thread runs a callback under already.
    fn held(&self) -> Option<ReadGuard<'_, T>> {
        self.callback_where(|_| true)?;
        Some(ReadGuard::of(self, Share::Callback))
    }

    /// One of the callbacks that this thread runs under it, of which this holds.
    fn callback_where(&self, holds: impl Fn(&Held) -> bool) -> Option<Held> {
        let at = ptr::from_ref(self).cast();
        let is_it = |held: &&Held| held.lock == at && holds(held);
        CALLBACKS.with(|callbacks| callbacks.borrow().iter().find(is_it).copied())
    }

    /// Does not wait: none if it is locked.
    pub fn try_write(&self) -> Option<WriteGuard<'_, T>> {
        let gate = self.gate.try_write()?;
        let is_alone = self.readers.try_stop();
        is_alone.then_some(WriteGuard { lock: self, gate })
    }

    /// Waits for all others.
    ///
    /// # Errors
    /// [`Error::Nested`] in a callback that this thread runs under it.
    pub fn write(&self) -> Result<WriteGuard<'_, T>> {
        self.expect_no_callback()?;
        Ok(take_turns(|| self.try_write()).unwrap_or_else(|| {
            let gate = self.gate.write();
            self.readers.stop();
            WriteGuard { lock: self, gate }
        }))
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
    share: Share<'l>,
}

/// What keeps a lock shared.
enum Share<'l> {
    Gate(#[expect(dead_code, reason = "held for its drop")] RwLockReadGuard<'l, ()>),
    Counted(#[expect(dead_code, reason = "held for its drop")] Counted<'l>),
    /// The guard under which this thread runs a callback.
    Callback,
}

// SAFETY: it gives out shared references alone. What keeps it valid stays with the thread that has it.
unsafe impl<T: Sync> Sync for ReadGuard<'_, T> {}

impl<'l, T> ReadGuard<'l, T> {
    #[inline]
    fn of(lock: &'l Lock<T>, share: Share<'l>) -> Self {
        Self { lock, share }
    }

    /// This thread runs code of the caller, until what this returns is dropped: before the guard, which is one of
    /// [`Lock::read_in_turn`].
    pub fn callback(&self) -> Callback<'l> {
        // Whatever waits for a callback must wait at the gate: it would hold up lookups of other threads behind it.
        assert!(
            !matches!(self.share, Share::Counted(_)),
            "callbacks run under guards that came through the gate"
        );
        self.lock.callbacks.fetch_add(1, Ordering::AcqRel);
        Callback::enter(self.lock, Some(&self.lock.callbacks))
    }
}

impl<T> Deref for ReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: it is shared; or by a callback of this thread, which runs while its caller lends out what it has locked, and
        // which this does not outlive: no call of the library keeps it when it returns.
        unsafe { &*self.lock.data.get() }
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
    gate: RwLockWriteGuard<'l, ()>,
}

impl<'l, T> WriteGuard<'l, T> {
    /// This thread runs code of the caller, until what this returns is dropped. Other threads wait. What the callback looks up by
    /// streams may be in flight then.
    pub fn callback(&self) -> Callback<'_> {
        Callback::enter(self.lock, None)
    }

    /// Lets others share it.
    pub fn downgrade(self) -> ReadGuard<'l, T> {
        let gate = downgrade(&self.lock.gate, self.gate);
        ReadGuard::of(self.lock, Share::Gate(gate))
    }
}

impl<T> Deref for WriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: locked alone.
        unsafe { &*self.lock.data.get() }
    }
}

impl<T> DerefMut for WriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: locked alone; and what a callback borrows, it borrows of this guard.
        unsafe { &mut *self.lock.data.get() }
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
    fn enter<T>(lock: &Lock<T>, counted: Option<&'l AtomicUsize>) -> Self {
        let held = Held {
            lock: ptr::from_ref(lock).cast(),
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
