//! The exploration of interleavings: a few seeds of every case, what it has found before, and that
//! it finds what is there to be found. `cargo xtask explore` runs more seeds.

use std::collections::HashSet;
use std::time::Duration;

use gpumap::executor::{Config, Launch, Trace};
use gpumap::simt::kernel::Grid;
use gpumap::simt::{atomic, thread};
use gpumap_kernels::slot::Split;
use gpumap_tests::explore::{Case, Limits, Plan, Role, Run, Start, Tally, cases, hunt};

const LIMITS: Limits = Limits {
    first: 0,
    seeds: 12,
    time: Duration::MAX,
    jobs: 2,
    shrinking: 1000,
};

#[test]
fn every_case_holds() {
    let cases = cases();
    for (case, tally) in cases.iter().zip(hunt(&cases, LIMITS)) {
        for found in &tally.found {
            eprintln!("{found}\n");
        }
        assert_eq!(tally.failed, 0, "{}", case.name());
        assert_eq!(tally.runs, LIMITS.seeds);
        assert!(tally.distinct > 10, "{}: {}", case.name(), tally.distinct);
    }
}

#[test]
fn a_seed_is_a_run_and_so_are_its_turns() {
    let cases = cases();
    let names: HashSet<String> = cases.iter().map(Case::name).collect();
    assert_eq!(names.len(), cases.len());
    for case in &cases {
        for seed in [0, 1, 2] {
            let run = case.record(seed);
            let digest = case.run(seed).trace.digest;
            assert_eq!(digest, run.trace.digest, "{}, seed {seed}", case.name());
            let script = run.trace.script.unwrap();
            let again = case.replay(seed, script).trace.digest;
            assert_eq!(digest, again, "{}, seed {seed}", case.name());
        }
    }
}

/// Hunts one case that is wrong, and expects failures, which all shrink to so many turns at most.
fn expect_found(case: Case, seeds: u64, most_turns: usize) -> Tally {
    let mut tallies = hunt(&[case], Limits { seeds, ..LIMITS });
    let tally = tallies.pop().unwrap();
    assert!(tally.failed > 0, "nothing found in {} runs", tally.runs);
    for found in &tally.found {
        let script = found.script.clone().expect("it fails again");
        let (left, of) = (script.turns().len(), found.turns);
        assert!(left <= most_turns, "{left} of {of} turns: {script}");
        assert!(case.replay(found.seed, script.clone()).outcome.is_err());
        let text = found.to_string();
        let test = format!(
            "{:?}, {}, {:?}",
            case.name(),
            found.seed,
            script.to_string()
        );
        for part in ["#[test]", &test, &found.why, &format!("its {of} turns")] {
            assert!(text.contains(part), "no {part}: {text}");
        }
        println!("{text}\n");
    }
    tally
}

#[test]
fn a_lost_update_is_found() {
    let case = Case {
        configuration: "a lost update",
        format: "a word",
        run: |_, config| {
            let mut word = 0u32;
            let shared = &raw mut word as usize;
            let body = || {
                let word = shared as *mut u32;
                // SAFETY: the word outlives the launches, and is used by atomics only.
                unsafe {
                    let seen = atomic::load(word, atomic::Relaxed);
                    atomic::store(word, seen + 1, atomic::Relaxed);
                }
            };
            let launch = Launch {
                kernel: "adds",
                grid: Grid::new(1, 1),
                body: &body,
            };
            let executor = gpumap::executor::Executor::new(config);
            // SAFETY: as above.
            let (outcome, trace) = unsafe { executor.run_together(&[launch; 3]) };
            outcome.unwrap();
            let outcome = match word {
                3 => Ok(()),
                other => Err(format!("{other} of 3")),
            };
            Run { trace, outcome }
        },
    };
    let tally = expect_found(case, 20, 2);
    assert!(tally.failed < 20, "not every interleaving loses one");
}

#[test]
fn an_inserter_that_does_not_look_again_is_found() {
    // Keys are stored twice if an inserter takes a slot that is being written for another key's.
    const PLAN: Plan = Plan {
        name: "a hasty inserter",
        slabs: 1,
        keys: |_| vec![1],
        start: Start::Empty,
        roles: &[Role::HastyInsert, Role::HastyInsert],
        operations: 4,
        dumps: false,
    };
    fn run(seed: u64, config: Config) -> Run {
        gpumap_tests::explore::play::<Split<u64, u64>>(&PLAN, seed, config)
    }
    let case = Case {
        configuration: PLAN.name,
        format: "8 + 8 bytes, two steps",
        run,
    };
    let tally = expect_found(case, 300, 3);
    let twice = |why: &str| why.contains("stored twice");
    assert!(
        tally.found.iter().any(|found| twice(&found.why)),
        "{:?}",
        tally.found
    );
}

#[test]
fn panics_and_faults_are_failures() {
    let case = |run| Case {
        configuration: "a failure",
        format: "any",
        run,
    };
    let panics = case(|seed, _| panic!("as planned, {seed}"));
    assert_eq!(panics.run(3).outcome, Err("as planned, 3".to_owned()));
    let spins = case(|_, config| {
        let executor = gpumap::executor::Executor::new(Config {
            step_budget: 100,
            ..config
        });
        // SAFETY: it uses no memory.
        let spin = unsafe {
            executor.launch("spins", Grid::new(1, 1), &|| {
                loop {
                    thread::nanosleep(1);
                }
            })
        };
        Run {
            trace: Trace::default(),
            outcome: spin.map_err(|fault| fault.to_string()),
        }
    });
    let why = spins.run(2).outcome.unwrap_err();
    assert!(why.contains("more than 100 steps"), "{why}");
}
