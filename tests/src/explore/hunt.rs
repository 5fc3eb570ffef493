//! Many runs of every case, shared out among threads; what is wrong is shrunk to a test.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use gpumap::executor::Script;

use super::Case;

/// Failures of one case that are shrunk; more of them would show nothing new.
const ENOUGH: usize = 3;

/// When a hunt ends.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The first seed of each case.
    pub first: u64,
    /// How many seeds each case gets at most.
    pub seeds: u64,
    /// How long it takes at most, except for runs under way and for shrinking.
    pub time: Duration,
    /// Threads; 0 counts as 1.
    pub jobs: usize,
    /// Runs to shrink a failure in.
    pub shrinking: u32,
}

impl Limits {
    /// How many runs the time was too short for, of as many cases as there are tallies.
    pub fn left_out(&self, tallies: &[Tally]) -> u64 {
        let short = |tally: &Tally| self.seeds.saturating_sub(tally.runs);
        tallies.iter().map(short).sum()
    }
}

/// The results of the runs of a case.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Schedules that were run.
    pub runs: u64,
    /// Different interleavings among them.
    pub distinct: u64,
    /// Preemption points of all runs.
    pub points: u64,
    /// Runs that failed.
    pub failed: u64,
    /// Some of them.
    pub found: Vec<Found>,
}

/// A run that failed.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its case.
    pub case: Case,
    /// Its seed.
    pub seed: u64,
    /// What was wrong.
    pub why: String,
    /// How many turns it had.
    pub turns: usize,
    /// The turns that it takes, if following its turns makes it fail again.
    pub script: Option<Script>,
}

/// Runs cases with one seed after the other, each case with the first before any has the second.
pub fn hunt(cases: &[Case], limits: Limits) -> Vec<Tally> {
    let start = Instant::now();
    let next = AtomicU64::new(0);
    let tallies: Vec<_> = cases.iter().map(|_| Mutex::default()).collect();
    let work = || {
        while start.elapsed() < limits.time {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let (seed, which) = (number / cases.len() as u64, number % cases.len() as u64);
            if seed >= limits.seeds {
                return;
            }
            let which = which as usize;
            run(&cases[which], limits.first + seed, limits, &tallies[which]);
        }
    };
    if !cases.is_empty() {
        thread::scope(|scope| {
            for _ in 0..limits.jobs.max(1) {
                scope.spawn(work);
            }
        });
    }
    let finished = |(tally, digests): (Tally, HashSet<u64>)| Tally {
        distinct: digests.len() as u64,
        ..tally
    };
    let inner = |mutex: Mutex<_>| mutex.into_inner().unwrap_or_else(PoisonError::into_inner);
    tallies.into_iter().map(inner).map(finished).collect()
}

fn run(case: &Case, seed: u64, limits: Limits, tally: &Mutex<(Tally, HashSet<u64>)>) {
    let run = case.run(seed);
    let lock = || tally.lock().unwrap_or_else(PoisonError::into_inner);
    let shrinks = {
        let (tally, digests) = &mut *lock();
        tally.runs += 1;
        tally.points += run.trace.points;
        digests.insert(run.trace.digest);
        tally.failed += u64::from(run.outcome.is_err());
        run.outcome.is_err() && tally.failed <= ENOUGH as u64
    };
    if let (Err(why), true) = (run.outcome, shrinks) {
        let found = Found::shrunk(case, seed, why, limits.shrinking);
        lock().0.found.push(found);
    }
}

impl Found {
    /// Shrinks a failure to the turns that it takes.
    fn shrunk(case: &Case, seed: u64, why: String, runs: u32) -> Self {
        // A check that panics takes the turns with it: then there are none.
        let whole = case.record(seed).trace.script.unwrap_or_default();
        let fails = |script: &Script| case.replay(seed, script.clone()).outcome.is_err();
        let again = !whole.turns().is_empty() && fails(&whole);
        let script = again.then(|| whole.shrink(runs, fails).script);
        Self {
            case: *case,
            seed,
            why,
            turns: whole.turns().len(),
            script,
        }
    }
}

impl fmt::Display for Found {
    /// What was wrong, and a test of it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            case,
            seed,
            why,
            turns,
            script,
        } = self;
        let name = case.name();
        writeln!(f, "{name}, seed {seed}: {why}")?;
        let Some(script) = script else {
            return write!(f, "following its {turns} turns does not make it fail again");
        };
        let left = script.turns().len();
        writeln!(f, "its {turns} turns were shrunk to {left}; a test:\n")?;
        let is_word = |c: char| c.is_ascii_alphanumeric();
        let words: Vec<&str> = name
            .split(|c| !is_word(c))
            .filter(|w| !w.is_empty())
            .collect();
        let function = words.join("_").to_ascii_lowercase();
        writeln!(f, "#[test]\nfn {function}_seed_{seed}() {{")?;
        writeln!(
            f,
            "    gpumap_tests::explore::replays({name:?}, {seed}, {:?});",
            script.to_string()
        )?;
        write!(f, "}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::cases;

    // Audit finding 15: a machine that is too slow for most of the runs passed.
    #[test]
    fn runs_that_time_was_too_short_for_are_counted() {
        let cases = &cases()[..2];
        let mut limits = Limits {
            first: 0,
            seeds: 2,
            time: Duration::ZERO,
            jobs: 1,
            shrinking: 0,
        };
        assert_eq!(limits.left_out(&hunt(cases, limits)), 4);
        limits.time = Duration::MAX;
        assert_eq!(limits.left_out(&hunt(cases, limits)), 0);
    }
}
