//! [`PerProcess`]: what has threads, and so is not there in a forked process.
//!
//! A forked process has a copy of all memory and one thread. A pool whose threads stayed behind would be waited for for ever, and a
//! lock that one of them held is never opened. So what has threads is made again where the process is another one than that
//! which made it, and what was there before is neither used nor freed.

use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// How many forks lie between this process and the first in which this was called.
pub fn forks() -> u32 {
    static FORKS: AtomicU32 = AtomicU32::new(0);
    #[cfg(unix)]
    {
        static NOTED: std::sync::Once = std::sync::Once::new();
        extern "C" fn count() {
            FORKS.fetch_add(1, Ordering::Relaxed);
        }
        NOTED.call_once(|| {
            // SAFETY: the function does what may be done in a forked process: it changes an atomic.
            // Without memory for the note, forks are not seen.
            unsafe { libc::pthread_atfork(None, None, Some(count)) };
        });
    }
    FORKS.load(Ordering::Relaxed)
}

/// Something that each process makes for itself.
pub struct PerProcess<T> {
    made: AtomicPtr<Made<T>>,
}

struct Made<T> {
    forks: u32,
    value: T,
}

// SAFETY: it owns its value and gives out shared references, as a `OnceLock` does.
unsafe impl<T: Send> Send for PerProcess<T> {}
// SAFETY: as above; a thread may make the value that another one drops.
unsafe impl<T: Send + Sync> Sync for PerProcess<T> {}

impl<T> PerProcess<T> {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self {
            made: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// What this process has. The first call makes it, and is told what the process had from which this one was forked: that
    /// must not be waited for. Threads that come at the same time may make one each, of which one stays.
    pub fn get(&self, make: impl FnOnce(Option<&T>) -> T) -> &T {
        let forks = forks();
        let at = self.made.load(Ordering::Acquire);
        // SAFETY: what was made stays until `self` is dropped.
        let before = unsafe { at.as_ref() };
        if let Some(made) = before
            && made.forks == forks
        {
            return &made.value;
        }
        let value = make(before.map(|made| &made.value));
        let new = Box::into_raw(Box::new(Made { forks, value }));
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        match self.made.compare_exchange(at, new, success, failure) {
            // SAFETY: made just now, and stays.
            Ok(_) => unsafe { &(*new).value },
            Err(other) => {
                // SAFETY: nothing else knows of it; and the other was made by this process, and stays.
                unsafe {
                    drop(Box::from_raw(new));
                    &(*other).value
                }
            }
        }
    }

    /// What this process has, if it has.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        // SAFETY: what was made is there, and nothing else uses it.
        let made = unsafe { self.made.get_mut().as_mut() };
        made.filter(|made| made.forks == forks())
            .map(|made| &mut made.value)
    }
}

impl<T> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        if self.get_mut().is_some() {
            // SAFETY: made by `get`, and nothing uses it any more.
            drop(unsafe { Box::from_raw(*self.made.get_mut()) });
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for PerProcess<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: what was made stays until `self` is dropped.
        let made = unsafe { self.made.load(Ordering::Acquire).as_ref() };
        let here = made.filter(|made| made.forks == forks());
        f.debug_tuple("PerProcess")
            .field(&here.map(|made| &made.value))
            .finish()
    }
}
