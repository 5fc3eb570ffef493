//! [`Watch`]: gives a communicator up whose work is not over in time.
//!
//! The rank itself cannot always do that: while its exchange is under way, it may be in a call of the driver that
//! waits for the whole device, and so for the peer that is lost.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use gpumap_simt::executor::forks;

/// What is to be over by when.
#[derive(Default)]
struct Watched {
    deadline: Option<Instant>,
    gone: bool,
}

/// A thread that acts when a deadline has passed.
pub(super) struct Watch {
    state: Arc<(Mutex<Watched>, Condvar)>,
    thread: Option<JoinHandle<()>>,
    /// The process that has the thread.
    forks: u32,
}

/// No thread panics while it has it.
fn lock(state: &Mutex<Watched>) -> MutexGuard<'_, Watched> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watch {
    /// Calls `late` after each deadline that passes.
    pub(super) fn new(mut late: impl FnMut() + Send + 'static) -> std::io::Result<Self> {
        let state = Arc::<(Mutex<Watched>, Condvar)>::default();
        let shared = Arc::clone(&state);
        let named = thread::Builder::new().name("gpumap-watch".to_owned());
        let thread = named.spawn(move || {
            let (state, changed) = &*shared;
            let mut watched = lock(state);
            while !watched.gone {
                watched = match watched.deadline {
                    None => changed
                        .wait(watched)
                        .unwrap_or_else(PoisonError::into_inner),
                    Some(deadline) if Instant::now() >= deadline => {
                        watched.deadline = None;
                        drop(watched);
                        late();
                        lock(state)
                    }
                    Some(deadline) => {
                        let left = deadline.saturating_duration_since(Instant::now());
                        let waited = changed.wait_timeout(watched, left);
                        waited.unwrap_or_else(PoisonError::into_inner).0
                    }
                };
            }
        })?;
        Ok(Self {
            state,
            thread: Some(thread),
            forks: forks(),
        })
    }

    /// From now on there is another deadline, or none.
    pub(super) fn set(&self, deadline: Option<Instant>) {
        self.change(|watched| watched.deadline = deadline);
    }

    fn change(&self, change: impl FnOnce(&mut Watched)) {
        let (state, changed) = &*self.state;
        change(&mut lock(state));
        changed.notify_all();
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.forks != forks() {
            // The thread is not here, and its handle must not be let go either.
            std::mem::forget(self.thread.take());
            return;
        }
        self.change(|watched| watched.gone = true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_late_is_acted_upon_once_and_what_is_over_is_not() {
        let long = Duration::from_secs(60);
        let (send, late) = mpsc::channel();
        let watch = Watch::new(move || send.send(Instant::now()).unwrap_or(())).unwrap();
        let soon = || Instant::now() + Duration::from_millis(30);

        let deadline = soon();
        watch.set(Some(deadline));
        assert!(late.recv_timeout(long).unwrap() >= deadline);
        // A later deadline takes the place of an earlier one; none takes that of both.
        watch.set(Some(soon()));
        watch.set(Some(Instant::now() + long));
        assert!(late.recv_timeout(Duration::from_millis(100)).is_err());
        watch.set(None);
        assert!(late.recv_timeout(Duration::from_millis(100)).is_err());
        // It ends with the watch, whatever is left to come.
        watch.set(Some(Instant::now() + long));
        drop(watch);
        assert!(matches!(
            late.try_recv(),
            Err(mpsc::TryRecvError::Disconnected)
        ));
    }
}
