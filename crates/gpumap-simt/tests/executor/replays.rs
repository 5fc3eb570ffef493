//! Scripts: a run is followed to the letter, a part of one as far as it fits, and what a failure
//! shrinks to is what it takes.

use gpumap_simt::executor::{Changes, Config, Executor, Launch, Schedule, Script, Trace};
use gpumap_simt::kernel::Grid;
use gpumap_simt::{atomic, mask::LaneMask, thread, warp};

/// Two launches: each thread adds one to a word by a load and a store, with a vote in the middle.
/// Returns the word.
fn racy(schedule: Schedule, blocks: u32, threads: u32) -> (u32, Trace) {
    let executor = Executor::new(Config {
        schedule,
        record: true,
        ..Config::default()
    });
    let mut counter = 0u32;
    let shared = &raw mut counter as usize;
    let body = || {
        let counter = shared as *mut u32;
        // SAFETY: the counter outlives the launches and is only used by atomics meanwhile; all
        // lanes of a warp vote.
        unsafe {
            let seen = atomic::load(counter, atomic::Relaxed);
            let lanes = LaneMask::first(threads);
            warp::warp_vote_any(lanes, seen == 0);
            atomic::store(counter, seen + 1, atomic::Relaxed);
            thread::sync_threads();
        }
    };
    let launch = |blocks| Launch {
        kernel: "racy",
        grid: Grid::new(blocks, threads),
        body: &body,
    };
    // SAFETY: as said in the body.
    let (outcome, trace) = unsafe { executor.run_together(&[launch(blocks), launch(1)]) };
    outcome.unwrap();
    (counter, trace)
}

#[test]
fn a_recorded_run_is_repeated_to_the_letter() {
    let seeded = (0..10).flat_map(|seed| {
        let (depth, points) = (4, 1000);
        let pct = Schedule::Pct {
            seed,
            depth,
            changes: Changes::Anywhere,
            points,
        };
        [Schedule::Random { seed }, pct]
    });
    for schedule in seeded.chain([Schedule::Lockstep]) {
        for (blocks, threads) in [(1, 1), (2, 32), (13, 20)] {
            let (count, trace) = racy(schedule.clone(), blocks, threads);
            let script = trace.script.clone().unwrap();
            assert_eq!(script.turns().len() as u64, trace.steps);
            let text = script.to_string();
            assert_eq!(text.parse::<Script>().unwrap(), script);
            let again = racy(Schedule::Replay(script), blocks, threads);
            assert_eq!(again, (count, trace), "{schedule:?}");
        }
    }
}

#[test]
fn a_lost_update_shrinks_to_what_it_takes() {
    let lost = |schedule| racy(schedule, 2, 1).0 != 3;
    let seed = (0..100)
        .find(|&seed| lost(Schedule::Random { seed }))
        .unwrap();
    let script = racy(Schedule::Random { seed }, 2, 1).1.script.unwrap();
    let shrunk = script.shrink(200, |script| lost(Schedule::Replay(script.clone())));
    assert!(lost(Schedule::Replay(shrunk.script.clone())));
    // One lane reads, another one reads and writes, or reads as well; the rest follows.
    assert!(shrunk.script.turns().len() <= 2, "{}", shrunk.script);
}

#[test]
fn scripts_that_do_not_fit_end_all_the_same() {
    for text in [
        "",
        "7.0 0.99@3 5/0.0",
        "0.1@100 0.1@100 1/0.0 0.0@4294967295",
        "1.31 1.30 1.29@1 0.0@1 1.31@7",
    ] {
        let script: Script = text.parse().unwrap();
        let (count, trace) = racy(Schedule::Replay(script), 2, 32);
        assert!((1..=96).contains(&count), "{text}: {count}");
        assert!(trace.steps > 96);
    }
}

#[test]
fn nothing_is_written_down_unless_asked_for() {
    let executor = Executor::new(Config::random(3));
    // SAFETY: it does nothing.
    let (_, trace) = unsafe { executor.launch_traced("nothing", Grid::new(2, 2), &|| {}) };
    assert!(trace.script.is_none() && trace.steps == 4);
}
