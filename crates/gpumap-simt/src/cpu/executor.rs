//! The executor: runs kernels on the CPU, one coroutine per lane.

use std::sync::{Arc, OnceLock};
use std::thread;

use crate::kernel::Grid;

use super::fault::{Fault, FaultKind};
use super::job::Job;
use super::lane::try_current;
use super::panic::install_hook;
use super::pool::Pool;
use super::runner::Trace;
use super::schedule::Schedule;

/// The most threads a block can have.
const MAX_THREADS: u32 = 1024;

/// How an [`Executor`] runs kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// OS threads that run blocks under [`Schedule::RoundRobin`], the launching thread included.
    /// Default: what [`std::thread::available_parallelism`] says. 0 counts as 1.
    pub workers: usize,
    /// The order in which lanes run.
    pub schedule: Schedule,
    /// How many steps one block may take, a step being a resume of a lane or, roughly, an atomic
    /// operation. A block that takes more is taken to spin for ever
    /// ([`FaultKind::StepBudget`]). Default 2^32.
    pub step_budget: u64,
    /// Stack of one lane, in bytes; at least 16 KiB. Default 64 KiB. A body that needs more dies of
    /// a segmentation fault on the guard page.
    pub stack_bytes: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            workers: thread::available_parallelism().map_or(1, Into::into),
            schedule: Schedule::RoundRobin,
            step_budget: 1 << 32,
            stack_bytes: 64 * 1024,
        }
    }
}

impl Config {
    /// The default with a random schedule.
    #[must_use]
    pub fn random(seed: u64) -> Self {
        Self {
            schedule: Schedule::Random { seed },
            ..Self::default()
        }
    }
}

/// Runs kernels on the CPU, with every collective checked.
///
/// It may be shared: launches from several threads run at the same time and share the workers.
/// A launch returns when all its blocks have ended.
///
/// The first executor of a process puts a panic hook in front of the installed one. It keeps quiet
/// about panics inside kernels, which come back as [`FaultKind::Panic`], and passes on all others.
pub struct Executor {
    config: Config,
    pool: Pool,
}

impl Executor {
    /// An executor of its own.
    #[must_use]
    pub fn new(config: Config) -> Self {
        install_hook();
        Self {
            config,
            pool: Pool::new(config.workers, config.stack_bytes),
        }
    }

    /// The executor that everybody shares, with the default configuration.
    pub fn global() -> &'static Self {
        static GLOBAL: OnceLock<Executor> = OnceLock::new();
        GLOBAL.get_or_init(|| Self::new(Config::default()))
    }

    /// How this executor runs kernels.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Runs `body` once for every thread of `grid`. A grid of 0 blocks does nothing.
    ///
    /// # Safety
    /// `body` is a kernel: whatever pointers it uses are valid for what it does with them on this
    /// grid, and what its lanes do to the same memory is atomic or ordered by barriers.
    ///
    /// # Errors
    /// The first [`Fault`] of the launch. The executor can be used again at once.
    pub unsafe fn launch(
        &self,
        kernel: &'static str,
        grid: Grid,
        body: &(dyn Fn() + Sync),
    ) -> Result<(), Fault> {
        // SAFETY: passed on.
        unsafe { self.launch_traced(kernel, grid, body) }.0
    }

    /// Runs a kernel like [`launch`](Self::launch) and tells, in the [`Trace`], which interleaving
    /// it took. Under [`Schedule::Random`] every launch starts from the seed again.
    ///
    /// # Safety
    /// As for [`launch`](Self::launch).
    pub unsafe fn launch_traced(
        &self,
        kernel: &'static str,
        grid: Grid,
        body: &(dyn Fn() + Sync),
    ) -> (Result<(), Fault>, Trace) {
        let fail = |kind| {
            (
                Err(Fault {
                    kernel,
                    block: 0,
                    kind,
                }),
                Trace::default(),
            )
        };
        if try_current().is_some() {
            return fail(FaultKind::NestedLaunch);
        }
        if !(1..=MAX_THREADS).contains(&grid.threads) {
            return fail(FaultKind::InvalidGrid {
                threads: grid.threads,
            });
        }
        if grid.blocks == 0 {
            return (Ok(()), Trace::default());
        }
        let job = Arc::new(Job::new(kernel, grid, self.config.step_budget, body));
        let mut trace = Trace::default();
        match self.config.schedule {
            // SAFETY: the caller vouches for the body, which is borrowed until this returns.
            Schedule::RoundRobin => unsafe { self.pool.run(&job) },
            Schedule::Random { seed } => {
                // SAFETY: the same.
                trace = self
                    .pool
                    .with_runner(|runner| unsafe { runner.run_random(&job, seed) });
            }
        }
        (job.outcome(), trace)
    }
}

impl core::fmt::Debug for Executor {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Executor")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
