//! Threads that unpack parts of an input, beside the one that reads it.

use std::io;
use std::num::NonZero;
use std::thread::Builder;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, select, unbounded};

use crate::threads;

/// How long a thread goes on with jobs before others have a turn: many jobs are shorter than it takes to wait for one.
const SPELL: Duration = Duration::from_millis(2);

type Job<S> = Box<dyn FnOnce(&mut S) + Send>;

/// Threads, each with an `S` to work with. They end when this is dropped.
pub struct Workers<S> {
    urgent: Sender<Job<S>>,
    jobs: Sender<Job<S>>,
    threads: usize,
}

/// What a thread is making.
pub struct Pending<T>(Receiver<T>);

impl<T> Pending<T> {
    /// Waits for it, without a turn meanwhile.
    pub fn wait(self) -> io::Result<T> {
        let made = match self.0.try_recv() {
            Ok(made) => return Ok(made),
            Err(_) => threads::wait(|| self.0.recv()),
        };
        // A thread that is gone has not made it, but nothing else has what it was to be made of.
        made.map_err(|_| io::Error::other("a thread has ended"))
    }

    /// Whether it is there.
    pub fn is_ready(&self) -> bool {
        !self.0.is_empty()
    }
}

impl<S: Default + 'static> Workers<S> {
    /// As many threads as the system starts, up to `most`.
    pub fn start(most: NonZero<usize>) -> Self {
        let (urgent, urgent_work) = unbounded::<Job<S>>();
        let (jobs, work) = unbounded::<Job<S>>();
        let start = |_: &usize| {
            let (urgent, work) = (urgent_work.clone(), work.clone());
            let run = move || {
                let mut state = S::default();
                loop {
                    let next = || urgent.try_recv().or_else(|_| work.try_recv());
                    let job = next().or_else(|_| {
                        select! {
                            recv(urgent) -> job => job,
                            recv(work) -> job => job,
                        }
                    });
                    let Ok(job) = job else {
                        return;
                    };
                    let _turn = threads::turn();
                    let start = Instant::now();
                    job(&mut state);
                    while start.elapsed() < SPELL
                        && let Ok(job) = next()
                    {
                        job(&mut state);
                    }
                }
            };
            Builder::new().name("inflate".to_owned()).spawn(run).is_ok()
        };
        let threads = (0..most.get()).take_while(start).count();
        Self {
            urgent,
            jobs,
            threads,
        }
    }

    /// How many threads there are: none, if the system has none.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Has a job done, after those that were given before.
    pub fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut S) -> T + Send + 'static,
    ) -> Pending<T> {
        Self::send(&self.jobs, job)
    }

    /// Has a job done that the reader waits for next, before all others.
    pub fn run_first<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut S) -> T + Send + 'static,
    ) -> Pending<T> {
        Self::send(&self.urgent, job)
    }

    fn send<T: Send + 'static>(
        to: &Sender<Job<S>>,
        job: impl FnOnce(&mut S) -> T + Send + 'static,
    ) -> Pending<T> {
        let (done, made) = bounded(1);
        let job = move |state: &mut S| {
            // The reader may be gone.
            let _ = done.send(job(state));
        };
        // Threads end after this.
        let _ = to.send(Box::new(job));
        Pending(made)
    }
}
