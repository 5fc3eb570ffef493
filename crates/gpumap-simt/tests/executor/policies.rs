//! Every schedule repeats itself, ends, and finds what it is for.

use std::collections::HashSet;
use std::sync::Mutex;

use gpumap_simt::executor::{Changes, Config, Executor, Schedule, Trace};
use gpumap_simt::kernel::Grid;
use gpumap_simt::{atomic, mask::LaneMask, thread, warp};

fn executor(schedule: Schedule) -> Executor {
    Executor::new(Config {
        schedule,
        step_budget: 1 << 20,
        ..Config::default()
    })
}

fn pct(seed: u64, depth: u32, points: u64) -> Schedule {
    Schedule::Pct {
        seed,
        depth,
        changes: Changes::Anywhere,
        points,
    }
}

/// Runs a body that may use one word by atomics.
fn run(schedule: Schedule, grid: Grid, body: impl Fn(*mut u32) + Sync) -> (u32, Trace) {
    let mut word = 0u32;
    let shared = &raw mut word as usize;
    let body = || body(shared as *mut u32);
    // SAFETY: the word outlives the launch and is only used by atomics meanwhile.
    let (outcome, trace) = unsafe { executor(schedule).launch_traced("policies", grid, &body) };
    outcome.unwrap();
    (word, trace)
}

/// Adds ten to the word from every thread, one after the other, with a barrier in the middle.
fn tens(word: *mut u32) {
    for i in 0..10 {
        // SAFETY: see `run`; every thread reaches the barrier.
        unsafe {
            atomic::fetch_add(word, 1, atomic::Relaxed);
            if i == 5 {
                thread::sync_threads();
            }
        }
    }
}

#[test]
fn each_schedule_repeats_itself() {
    let grid = Grid::new(11, 40);
    let mut digests = HashSet::new();
    let seeds = (0..10).flat_map(|seed| [Schedule::Random { seed }, pct(seed, 3, 4400)]);
    let schedules: Vec<_> = seeds.chain([Schedule::Lockstep]).collect();
    for schedule in &schedules {
        let first = run(schedule.clone(), grid, tens);
        assert_eq!(first, run(schedule.clone(), grid, tens));
        assert_eq!((first.0, first.1.points), (4400, 4400), "{schedule:?}");
        digests.insert(first.1.digest);
    }
    assert_eq!(digests.len(), schedules.len());
}

#[test]
fn lockstep_lets_each_lane_pass_one_point() {
    let order = Mutex::new(Vec::new());
    let _ = run(Schedule::Lockstep, Grid::new(2, 3), |word| {
        for step in 0..4 {
            // SAFETY: see `run`.
            unsafe { atomic::fetch_add(word, 1, atomic::Relaxed) };
            order.lock().unwrap().push((step, thread::index()));
        }
    });
    let in_step: Vec<_> = (0..4)
        .flat_map(|s| (0..6).map(move |lane| (s, lane)))
        .collect();
    assert_eq!(order.into_inner().unwrap(), in_step);
}

/// Whether thread 0 reads the word twice in a row with all that thread 1 does in between: it counts
/// to 100.
fn delayed(schedule: Schedule) -> bool {
    let seen = Mutex::new((0, 0));
    let _ = run(schedule, Grid::new(1, 2), |word| {
        // SAFETY: see `run`.
        unsafe {
            if thread::thread_idx_x() == 0 {
                let first = atomic::load(word, atomic::Relaxed);
                *seen.lock().unwrap() = (first, atomic::load(word, atomic::Relaxed));
            } else {
                for _ in 0..100 {
                    atomic::fetch_add(word, 1, atomic::Relaxed);
                }
            }
        }
    });
    seen.into_inner().unwrap() == (0, 100)
}

#[test]
fn priorities_find_what_takes_a_long_delay() {
    // One change at one of 102 points, and the right one of two lanes: once in 204.
    let found = (0..2000).filter(|&seed| delayed(pct(seed, 2, 102))).count();
    assert!((2..40).contains(&found), "{found} of 2000");
    // A reader that is late is not before a write.
    let writes = |seed| Schedule::Pct {
        seed,
        depth: 2,
        changes: Changes::BeforeWrites,
        points: 100,
    };
    assert!(!(0..2000).any(|seed| delayed(writes(seed))));
    let found = (0..2000)
        .filter(|&seed| delayed(Schedule::Random { seed }))
        .count();
    assert_eq!(found, 0, "a fair draw is not that unfair");
}

#[test]
fn lanes_that_spin_do_not_keep_others_from_running() {
    let hint = |hint: bool| {
        move |word: *mut u32| {
            // SAFETY: see `run`.
            unsafe {
                if thread::thread_idx_x() == 7 {
                    atomic::store(word, 1, atomic::Relaxed);
                }
                while atomic::load(word, atomic::Relaxed) == 0 {
                    if hint {
                        thread::nanosleep(10);
                    }
                }
            }
        }
    };
    for seed in 0..20 {
        for schedule in [
            pct(seed, 3, 100),
            Schedule::Random { seed },
            Schedule::Lockstep,
            Schedule::Replay("0.0@9 0.1@5000 0.7".parse().unwrap()),
        ] {
            assert_eq!(run(schedule.clone(), Grid::new(3, 8), hint(true)).0, 1);
            assert_eq!(run(schedule, Grid::new(3, 8), hint(false)).0, 1);
        }
    }
}

#[test]
fn warps_that_spin_together_do_not_either() {
    for seed in 0..20 {
        for schedule in [
            pct(seed, 5, 40),
            Schedule::Random { seed },
            Schedule::Lockstep,
        ] {
            let (word, _) = run(schedule, Grid::new(3, 32), |word| {
                // SAFETY: see `run`; all lanes of a warp vote.
                unsafe {
                    if thread::index() == 70 {
                        atomic::load(word, atomic::Relaxed);
                        atomic::store(word, 1, atomic::Relaxed);
                    }
                    while !warp::warp_vote_all(LaneMask::FULL, {
                        atomic::load(word, atomic::Relaxed) == 1
                    }) {}
                }
            });
            assert_eq!(word, 1);
        }
    }
}
