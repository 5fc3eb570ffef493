//! The exploration of interleavings: small configurations in which all threads meet, run under many
//! schedules, and checked against one order of events per key.
//!
//! A [`Case`] with a seed is one run, always the same: the seed chooses the schedule, the memory and
//! how keys hash. [`hunt`] runs many, and makes of each failure a test that can be pasted into
//! `tests/tests/conformance/explored.rs`: the turns of the run, shrunk to those that it takes.
//!
//! | file | idea |
//! |---|---|
//! | `plan` | the configurations |
//! | `table`, `part` | one of them on a table in host memory: launches side by side, one verb each |
//! | `whole` | the kinds of slots of whole maps |
//! | `maps` | a whole map under the calls of several threads: it grows, or takes large batches |
//! | `chains`, `arenas` | a whole multimap, and one with large values, under such calls |
//! | `calls` | several threads, and the results of their calls |
//! | `hunt` | many seeds, and their results |
//!
//! All of it runs on the CPU executor, whatever the target.

mod arenas;
mod calls;
mod chains;
mod hunt;
mod maps;
mod part;
mod plan;
mod table;
mod whole;

pub use hunt::{Found, Limits, Tally, hunt};
pub use plan::{Plan, Role, Start};
pub use table::play;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use gpumap::executor::{Changes, Config, Memory, Schedule, Script, Trace};

/// A configuration and a kind of slots, ready to run.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// What meets.
    pub configuration: &'static str,
    /// In which slots.
    pub format: &'static str,
    /// Runs it once, with keys and verbs as the seed has them, on an executor of this kind.
    pub run: fn(seed: u64, config: Config) -> Run,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its interleaving.
    pub trace: Trace,
    /// Nothing, or what was wrong.
    pub outcome: Result<(), String>,
}

/// Every case.
pub fn cases() -> Vec<Case> {
    let mut cases = table::cases();
    cases.extend(whole::cases::<maps::Maps<false>>());
    cases.extend(whole::cases::<maps::Maps<true>>());
    cases.extend(whole::cases::<chains::Chains>());
    cases.extend(whole::cases::<arenas::Arenas>());
    cases
}

impl Case {
    /// Its name: configuration and format.
    pub fn name(&self) -> String {
        format!("{}, {}", self.configuration, self.format)
    }

    /// The case of this name.
    pub fn named(name: &str) -> Option<Self> {
        cases().into_iter().find(|case| case.name() == name)
    }

    /// Runs it as this seed has it.
    pub fn run(&self, seed: u64) -> Run {
        self.run_with(seed, self.schedule(seed), false)
    }

    /// Runs it as this seed has it, and writes its turns down.
    pub fn record(&self, seed: u64) -> Run {
        self.run_with(seed, self.schedule(seed), true)
    }

    /// Runs what this seed has, with the turns of a script.
    pub fn replay(&self, seed: u64, script: Script) -> Run {
        self.run_with(seed, Schedule::Replay(script), false)
    }

    /// The schedule of a seed: each kind in its turn, and seed 0 in step.
    fn schedule(&self, seed: u64) -> Schedule {
        let pct = |depth, changes| {
            let (anywhere, before_writes) = self.points();
            let points = match changes {
                Changes::Anywhere => anywhere,
                Changes::BeforeWrites => before_writes,
            };
            Schedule::Pct {
                seed,
                depth,
                changes,
                points,
            }
        };
        match seed % 4 {
            _ if seed == 0 => Schedule::Lockstep,
            1 => pct(3, Changes::Anywhere),
            3 => pct(2 + (seed / 4 % 5) as u32, Changes::BeforeWrites),
            _ => Schedule::Random { seed },
        }
    }

    /// How many points a run of it has, or about so many, and how many of them before writes: those
    /// of seed 0, which needs no estimate.
    fn points(&self) -> (u64, u64) {
        static POINTS: Mutex<Option<HashMap<String, (u64, u64)>>> = Mutex::new(None);
        let lock = || POINTS.lock().unwrap_or_else(PoisonError::into_inner);
        let known = |name: &str| lock().as_ref().and_then(|points| points.get(name).copied());
        let name = self.name();
        if let Some(points) = known(&name) {
            return points;
        }
        let trace = self.run_with(0, Schedule::Lockstep, false).trace;
        let points = (trace.points, trace.writes);
        lock().get_or_insert_default().insert(name, points);
        points
    }

    fn run_with(&self, seed: u64, schedule: Schedule, record: bool) -> Run {
        let config = Config {
            workers: 1,
            schedule,
            memory: match seed % 3 {
                2 => Memory::Weak { seed },
                _ => Memory::Strong,
            },
            record,
            step_budget: 1 << 22,
            ..Config::default()
        };
        // What is not said by an error is said by a panic.
        catch_unwind(AssertUnwindSafe(|| (self.run)(seed, config))).unwrap_or_else(|panic| {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or(panic.downcast_ref::<&str>().copied());
            Run {
                trace: Trace::default(),
                outcome: Err(said.unwrap_or("a panic").to_owned()),
            }
        })
    }
}

/// Runs a case with the turns of a script: a test that was made of a failure.
///
/// # Panics
/// If there is no such case or script, or if it fails again.
pub fn replays(case: &str, seed: u64, script: &str) {
    let script: Script = script.parse().expect("a script");
    let found = Case::named(case).expect("a case");
    if let Err(why) = found.replay(seed, script).outcome {
        panic!("{case}, seed {seed}: {why}");
    }
}
