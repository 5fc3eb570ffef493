//! The executor: runs kernels on the CPU, one coroutine per lane.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::thread;

use crate::kernel::Grid;

use super::blocks;
use super::callers;
use super::explore::{Explored, Trace};
use super::fault::{Fault, FaultKind};
use super::job::Job;
use super::lane::try_current;
use super::panic::install_hook;
use super::pool::Pool;
use super::schedule::Schedule;
use super::weak::Memory;
use crate::native;

/// The most threads a block can have.
pub(super) const MAX_THREADS: u32 = 1024;

/// How an [`Executor`] runs kernels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// OS threads that run blocks under [`Schedule::RoundRobin`], the launching thread included.
    /// Default: what [`std::thread::available_parallelism`] says. 0 counts as 1.
    pub workers: usize,
    /// The order in which lanes run.
    pub schedule: Schedule,
    /// What plain loads may see. Default: what was written last.
    pub memory: Memory,
    /// Whether traces have a [`Trace::script`]. Under round robin they have none. Default: no.
    pub record: bool,
    /// How many steps one block may take, a step being a resume of a lane or, roughly, an atomic
    /// operation. A block that takes more is taken to spin for ever
    /// ([`FaultKind::StepBudget`]). Default 2^32.
    pub step_budget: u64,
    /// Stack of one lane, in bytes; at least 16 KiB. Default 256 KiB, of which only what is used becomes memory: code
    /// that is not optimised needs several times what optimised code does. A body that needs more dies of a
    /// segmentation fault on the guard page.
    pub stack_bytes: usize,
    /// Whether kernels that are declared `by block` or `by thread` run [natively](crate::native), on as many
    /// threads as there are `workers`. Only under [`Schedule::RoundRobin`], and where the processor has
    /// atomics of 128 bits. Default: no.
    #[doc(hidden)]
    pub native: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            workers: thread::available_parallelism().map_or(1, Into::into),
            schedule: Schedule::RoundRobin,
            memory: Memory::Strong,
            record: false,
            step_budget: 1 << 32,
            stack_bytes: 256 * 1024,
            native: false,
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

/// One of several launches that run at the same time, as if each was on a stream of its own.
#[derive(Clone, Copy)]
pub struct Launch<'a> {
    /// The kernel's name, for faults.
    pub kernel: &'static str,
    /// Its grid. Without blocks it does nothing.
    pub grid: Grid,
    /// What each thread of the grid does.
    pub body: &'a (dyn Fn() + Sync),
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
        let pool = Pool::new(config.workers, config.stack_bytes);
        Self { config, pool }
    }

    /// The executor that all callers share, with the default configuration.
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

    /// Runs a kernel like [`launch`](Self::launch) and returns, in the [`Trace`], which
    /// interleaving it took. Every launch starts from the schedule's seed again. In a
    /// [caller](Self::run_callers), the trace is that of all callers, and this one is empty.
    ///
    /// # Safety
    /// As for [`launch`](Self::launch).
    pub unsafe fn launch_traced(
        &self,
        kernel: &'static str,
        grid: Grid,
        body: &(dyn Fn() + Sync),
    ) -> (Result<(), Fault>, Trace) {
        let launch = Launch { kernel, grid, body };
        if let Err(fault) = check(&launch) {
            return (Err(fault), Trace::default());
        }
        if grid.blocks == 0 {
            return (Ok(()), Trace::default());
        }
        let job = Arc::new(self.job(&launch, false));
        if self.config.schedule == Schedule::RoundRobin {
            // SAFETY: the caller vouches for the body, which is borrowed until this returns.
            unsafe { self.pool.run(&job) };
            return (job.outcome(), Trace::default());
        }
        if callers::launch(self, &job) {
            return (job.outcome(), Trace::default());
        }
        // SAFETY: as above.
        let trace = unsafe { self.explore(&mut |ended| first(ended, &[Arc::clone(&job)])) };
        (job.outcome(), trace)
    }

    /// Whether kernels that are declared `by block` or `by thread` run natively here.
    pub(crate) fn is_native(&self) -> bool {
        self.config.native
            && self.config.schedule == Schedule::RoundRobin
            && portable_atomic::AtomicU128::is_lock_free()
    }

    /// Runs `body` once for every block of `grid`.
    ///
    /// # Safety
    /// As for [`launch`](Self::launch), with blocks in the place of threads.
    ///
    /// # Errors
    /// As for [`launch`](Self::launch).
    pub(crate) unsafe fn launch_by_block(
        &self,
        kernel: &'static str,
        grid: Grid,
        body: &(dyn Fn() + Sync),
    ) -> Result<(), Fault> {
        let launch = Launch { kernel, grid, body };
        check(&launch)?;
        if grid.blocks == 0 {
            return Ok(());
        }
        if grid.blocks == 1 {
            // Nothing to share.
            let outcome = blocks::run_alone(grid, 0, &AtomicBool::new(false), body);
            return outcome.map_err(|kind| Fault {
                kernel,
                block: 0,
                kind,
            });
        }
        let job = Arc::new(self.job(&launch, true));
        // SAFETY: the caller vouches for the body, which is borrowed until this returns.
        unsafe { self.pool.run(&job) };
        job.outcome()
    }

    /// The same for a kernel that has no code for lanes, whatever the schedule.
    ///
    /// # Safety
    /// As for [`launch_by_block`](Self::launch_by_block).
    ///
    /// # Errors
    /// As for [`launch`](Self::launch), and that the processor cannot.
    pub(crate) unsafe fn launch_only_by_block(
        &self,
        kernel: &'static str,
        grid: Grid,
        body: &(dyn Fn() + Sync),
    ) -> Result<(), Fault> {
        if !portable_atomic::AtomicU128::is_lock_free() {
            return Err(Fault {
                kernel,
                block: 0,
                kind: FaultKind::NoWideAtomics,
            });
        }
        // SAFETY: passed on.
        unsafe { self.launch_by_block(kernel, grid, body) }
    }

    /// Runs several kernels at the same time, as streams do, and returns when all have ended. Under
    /// every schedule but round robin the interleaving of all their lanes is one that can be run
    /// again.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    /// use gpumap_simt::executor::{Config, Executor, Launch, Schedule};
    /// use gpumap_simt::{kernel::Grid, thread};
    ///
    /// let flag = AtomicU32::new(0);
    /// let (waits, sets) = (
    ///     || while flag.load(Relaxed) == 0 { thread::nanosleep(1) },
    ///     || flag.store(1, Relaxed),
    /// );
    /// let grid = Grid::new(1, 1);
    /// let launches = [
    ///     Launch { kernel: "waits", grid, body: &waits },
    ///     Launch { kernel: "sets", grid, body: &sets },
    /// ];
    /// let executor = Executor::new(Config { schedule: Schedule::Lockstep, ..Config::default() });
    /// // SAFETY: they share an atomic only.
    /// let (outcome, trace) = unsafe { executor.run_together(&launches) };
    /// outcome?;
    /// assert!(trace.steps > 2);
    /// # Ok::<(), gpumap_simt::executor::Fault>(())
    /// ```
    ///
    /// # Safety
    /// As for [`launch`](Self::launch), for each of them, beside the others.
    ///
    /// # Errors
    /// The [`Fault`] of the first that has one. The others have been run to their ends.
    pub unsafe fn run_together(&self, launches: &[Launch<'_>]) -> (Result<(), Fault>, Trace) {
        if let Some(fault) = launches.iter().find_map(|launch| check(launch).err()) {
            return (Err(fault), Trace::default());
        }
        let started = launches.iter().filter(|launch| launch.grid.blocks > 0);
        let jobs: Vec<Arc<Job>> = started
            .map(|launch| Arc::new(self.job(launch, false)))
            .collect();
        let trace = if self.config.schedule == Schedule::RoundRobin {
            thread::scope(|scope| {
                for job in &jobs {
                    // SAFETY: the caller vouches for the bodies, which are borrowed until this
                    // returns.
                    scope.spawn(|| unsafe { self.pool.run(job) });
                }
            });
            Trace::default()
        } else {
            // SAFETY: as above.
            unsafe { self.explore(&mut |ended| first(ended, &jobs)) }
        };
        let outcomes: Vec<_> = jobs.iter().map(|job| job.outcome()).collect();
        (outcomes.into_iter().collect(), trace)
    }

    fn job(&self, launch: &Launch<'_>, by_block: bool) -> Job {
        let budget = self.config.step_budget;
        let Launch { kernel, grid, body } = *launch;
        Job::new(kernel, grid, budget, by_block, body)
    }

    /// Runs launches on this thread, one interleaving of all.
    ///
    /// # Safety
    /// The bodies of the jobs are fit to run, and alive until this returns or they have ended.
    pub(super) unsafe fn explore(
        &self,
        next: &mut dyn FnMut(Option<u32>) -> Vec<Arc<Job>>,
    ) -> Trace {
        let run = Explored {
            schedule: &self.config.schedule,
            memory: self.config.memory,
            record: self.config.record,
            next,
        };
        // SAFETY: passed on.
        self.pool
            .with_runner(|runner| unsafe { runner.explore(run) })
    }
}

/// These launches at first, and none later.
fn first(ended: Option<u32>, jobs: &[Arc<Job>]) -> Vec<Arc<Job>> {
    match ended {
        None => jobs.to_vec(),
        Some(_) => Vec::new(),
    }
}

/// Whether it can be launched here at all.
fn check(launch: &Launch<'_>) -> Result<(), Fault> {
    let threads = launch.grid.threads;
    let kind = if try_current().is_some() || native::is_here() {
        FaultKind::NestedLaunch
    } else if !(1..=MAX_THREADS).contains(&threads) {
        FaultKind::InvalidGrid { threads }
    } else {
        return Ok(());
    };
    Err(Fault {
        kernel: launch.kernel,
        block: 0,
        kind,
    })
}

impl core::fmt::Debug for Executor {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Executor")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl core::fmt::Debug for Launch<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Launch")
            .field("kernel", &self.kernel)
            .field("grid", &self.grid)
            .finish_non_exhaustive()
    }
}
