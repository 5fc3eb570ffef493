//! How many threads work at once: `--threads`.
//!
//! Threads of the program that wait for each other are more than those that work: one reads, some unpack, some parse, one calls the
//! map, whose threads help it, and a pool writes. With a limit, who works has a [turn], and there are as many turns as threads are
//! allowed. Without one, there is no such thing: each part has as many threads as pay there.

use std::cell::Cell;
use std::num::NonZero;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::available_parallelism;

use rayon::ThreadPoolBuilder;

use crate::error::{Error, Result};

/// As many turns as threads are allowed. None is set where there is no limit.
static TURNS: OnceLock<Turns> = OnceLock::new();

/// Starts what the whole run uses: with `limit` threads at most, if there is one.
pub fn start(limit: Option<NonZero<usize>>) -> Result<()> {
    let limit = limit.map(startable);
    if let Some(limit) = limit {
        let limit = limit.get();
        // It is set once, as there is one command line.
        let _ = TURNS.set(Turns::new(limit));
        // For the copies of the library to and from a GPU.
        // SAFETY: this thread is the only one yet.
        unsafe { std::env::set_var("GPUMAP_THREADS", limit.to_string()) };
    }
    let pool = ThreadPoolBuilder::new();
    let pool = match limit {
        Some(limit) => pool.num_threads(limit.get()),
        None => pool,
    };
    pool.build_global().map_err(|error| Error::Thread {
        source: std::io::Error::other(error),
    })
}

/// As many threads as are started if a limit allows so many: more than that do no more work at once, and take a machine long to start.
fn startable(limit: NonZero<usize>) -> NonZero<usize> {
    /// Threads that any machine starts soon.
    const FEW: NonZero<usize> = NonZero::new(64).expect("not zero");
    let processors = available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    limit.min(processors.max(FEW))
}

/// Threads of the CPU where it stands for a device, if there is a limit: one is left to those that read and parse.
pub fn of_device() -> Option<u32> {
    let turns = TURNS.get()?.all;
    u32::try_from(turns.saturating_sub(1).max(1)).ok()
}

/// Threads that parse, up to `most`.
pub fn of_parsing(most: usize) -> NonZero<usize> {
    NonZero::new(all().min(most)).unwrap_or(NonZero::<usize>::MIN)
}

/// Threads that unpack one of `readers` inputs.
pub fn of_unpacking(readers: usize) -> NonZero<usize> {
    NonZero::new(all() / readers.max(1)).unwrap_or(NonZero::<usize>::MIN)
}

/// Threads that are allowed, or that the machine has processors for.
fn all() -> usize {
    match TURNS.get() {
        Some(turns) => turns.all,
        None => available_parallelism().map_or(1, NonZero::get),
    }
}

/// The right to work, until it is dropped. Who waits for another thread has none meanwhile.
#[derive(Debug)]
pub struct Turn {
    turns: Option<(&'static Turns, usize)>,
}

/// Waits for a turn of one thread.
pub fn turn() -> Turn {
    turn_of(1)
}

/// Waits for the turn of a call of a map, in which its threads work.
pub fn turn_of_map() -> Turn {
    turn_of(of_device().map_or(1, |threads| threads as usize))
}

/// Waits for another thread, without the turn that this thread may have.
pub fn wait<T>(wait: impl FnOnce() -> T) -> T {
    let held = HELD.replace(0);
    let turns = TURNS.get().filter(|_| held > 0);
    if let Some(turns) = turns {
        turns.give_back(held);
    }
    let outcome = wait();
    if let Some(turns) = turns {
        turns.take(held);
    }
    HELD.set(held);
    outcome
}

thread_local! {
    /// Turns that this thread has: they do for calls within.
    static HELD: Cell<usize> = const { Cell::new(0) };
}

fn turn_of(threads: usize) -> Turn {
    let turns = TURNS.get().filter(|_| HELD.get() == 0);
    let turns = turns.map(|turns| (turns, threads));
    if let Some((turns, threads)) = turns {
        turns.take(threads);
        HELD.set(threads);
    }
    Turn { turns }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some((turns, threads)) = self.turns {
            turns.give_back(threads);
            HELD.set(0);
        }
    }
}

/// So many turns, which are given in the order in which threads asked: who needs many is not passed over for ever.
#[derive(Debug)]
struct Turns {
    all: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    free: usize,
    /// How many have asked, and for how many of them it was decided.
    asked: u64,
    served: u64,
}

impl Turns {
    fn new(all: usize) -> Self {
        Self {
            all,
            state: Mutex::new(State {
                free: all,
                asked: 0,
                served: 0,
            }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for so many turns, of which there are as many.
    fn take(&self, turns: usize) {
        let mut state = self.lock();
        let number = state.asked;
        state.asked += 1;
        while state.served != number || state.free < turns {
            let changed = self.changed.wait(state);
            state = changed.unwrap_or_else(PoisonError::into_inner);
        }
        state.free -= turns;
        state.served += 1;
        drop(state);
        self.changed.notify_all();
    }

    fn give_back(&self, turns: usize) {
        self.lock().free += turns;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn no_more_have_turns_than_there_are_and_all_get_theirs() {
        let turns = Turns::new(3);
        let at_work = AtomicUsize::new(0);
        thread::scope(|scope| {
            for thread in 0..6 {
                let (turns, at_work) = (&turns, &at_work);
                scope.spawn(move || {
                    for round in 0..200 {
                        let wanted = 1 + (thread + round) % 3;
                        turns.take(wanted);
                        let others = at_work.fetch_add(wanted, Ordering::SeqCst);
                        assert!(others + wanted <= 3);
                        thread::yield_now();
                        at_work.fetch_sub(wanted, Ordering::SeqCst);
                        turns.give_back(wanted);
                    }
                });
            }
        });
        assert_eq!(turns.lock().free, 3);
    }
}
