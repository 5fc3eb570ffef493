//! The OS threads of an executor. They are started when a launch first has work for them, and
//! several launches share them.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use super::blocks;
use super::job::{Job, lock};
use super::per_process::PerProcess;
use super::runner::IdleRunner;

/// A launch that wants helpers, and how many more.
struct Wanted {
    job: Arc<Job>,
    helpers: usize,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Wanted>,
    closed: bool,
}

#[derive(Default)]
struct Inner {
    queue: Mutex<Queue>,
    more: Condvar,
    runners: Mutex<Vec<IdleRunner>>,
    keep: usize,
    stack_bytes: usize,
}

/// Worker threads and idle runners.
pub(super) struct Pool {
    /// Those of this process.
    threads: PerProcess<Threads>,
    workers: usize,
    stack_bytes: usize,
}

/// Threads that end when this is dropped.
struct Threads {
    inner: Arc<Inner>,
    started: Mutex<Vec<JoinHandle<()>>>,
}

impl Pool {
    /// A pool of `workers` workers, the launching thread being one of them.
    pub(super) fn new(workers: usize, stack_bytes: usize) -> Self {
        Self {
            threads: PerProcess::new(),
            workers: workers.max(1),
            stack_bytes,
        }
    }

    fn threads(&self) -> &Threads {
        self.threads.get(|_| Threads {
            inner: Arc::new(Inner {
                keep: self.workers * 2,
                stack_bytes: self.stack_bytes,
                ..Inner::default()
            }),
            started: Mutex::default(),
        })
    }

    /// Runs a job to its end, with the help of idle workers. Nothing of it is run if there is no memory
    /// for the stacks of one block.
    ///
    /// # Safety
    /// The job's body is fit to run on its grid and is alive until this returns.
    pub(super) unsafe fn run(&self, job: &Arc<Job>) {
        let helpers = (self.workers - 1).min((job.grid.blocks - 1) as usize);
        if job.by_block {
            // SAFETY: passed on.
            unsafe { self.run_by_block(job, helpers) };
            return;
        }
        self.with_runner(|runner| {
            if let Err(kind) = runner.reserve(job) {
                return job.fail(0, kind);
            }
            self.call(job, helpers);
            // SAFETY: passed on.
            unsafe { runner.run(job) }
        });
        self.dismiss(job, helpers);
    }

    /// As [`run`](Self::run), of a job whose blocks run natively. A short one stays on this thread.
    ///
    /// # Safety
    /// As for [`run`](Self::run).
    unsafe fn run_by_block(&self, job: &Arc<Job>, helpers: usize) {
        // SAFETY: passed on.
        if unsafe { blocks::run_first(job) } {
            self.call(job, helpers);
            // SAFETY: passed on.
            unsafe { blocks::run(job) };
            self.dismiss(job, helpers);
        }
    }

    /// Calls for so many helpers.
    fn call(&self, job: &Arc<Job>, helpers: usize) {
        if helpers == 0 {
            return;
        }
        let inner = self.start();
        lock(&inner.queue).jobs.push_back(Wanted {
            job: Arc::clone(job),
            helpers,
        });
        for _ in 0..helpers {
            inner.more.notify_one();
        }
    }

    /// Takes a job back for which so many helpers were called, and waits for those that came.
    fn dismiss(&self, job: &Arc<Job>, helpers: usize) {
        if helpers == 0 {
            return;
        }
        lock(&self.threads().inner.queue)
            .jobs
            .retain(|wanted| !Arc::ptr_eq(&wanted.job, job));
        job.wait();
    }

    /// Lends an idle runner to `f`.
    pub(super) fn with_runner<R>(&self, f: impl FnOnce(&mut IdleRunner) -> R) -> R {
        self.threads().inner.with_runner(f)
    }

    /// Starts the workers, once. A system that gives no more threads is slower, not broken.
    fn start(&self) -> &Inner {
        let threads = self.threads();
        let mut started = lock(&threads.started);
        while started.len() < self.workers - 1 {
            let inner = Arc::clone(&threads.inner);
            let name = format!("gpumap-worker-{}", started.len());
            match thread::Builder::new()
                .name(name)
                .spawn(move || inner.work())
            {
                Ok(handle) => started.push(handle),
                Err(_) => break,
            }
        }
        &threads.inner
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        lock(&self.inner.queue).closed = true;
        self.inner.more.notify_all();
        for thread in lock(&self.started).drain(..) {
            // A worker that panicked has nothing more to say.
            let _ = thread.join();
        }
    }
}

impl Inner {
    fn with_runner<R>(&self, f: impl FnOnce(&mut IdleRunner) -> R) -> R {
        let idle = lock(&self.runners).pop();
        let mut runner = idle.unwrap_or_else(|| IdleRunner::new(self.stack_bytes));
        let result = f(&mut runner);
        let mut runners = lock(&self.runners);
        if runners.len() < self.keep {
            runners.push(runner);
        }
        result
    }

    /// The life of a worker.
    fn work(&self) {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(wanted) = queue.jobs.front_mut() {
                let job = Arc::clone(&wanted.job);
                wanted.helpers -= 1;
                if wanted.helpers == 0 {
                    queue.jobs.pop_front();
                }
                // Counted in before the queue is unlocked, so that the launching thread, which takes
                // the job out of the queue before it waits, cannot miss it.
                let helper = job.help();
                drop(queue);
                if job.by_block {
                    // SAFETY: the launching thread promised it, and waits for this helper.
                    unsafe { blocks::run(&job) };
                    drop(helper);
                    queue = lock(&self.queue);
                    continue;
                }
                self.with_runner(|runner| {
                    // Without stacks of its own it leaves the blocks to the others.
                    if runner.reserve(&job).is_ok() {
                        // SAFETY: the launching thread promised it, and waits for this helper.
                        unsafe { runner.run(&job) }
                    }
                });
                drop(helper);
                queue = lock(&self.queue);
            } else if queue.closed {
                return;
            } else {
                queue = self
                    .more
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}
