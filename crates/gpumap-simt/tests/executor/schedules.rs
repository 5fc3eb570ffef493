//! The random schedule: reproducible, different from seed to seed, and able to find a race.

use std::collections::HashSet;

use gpumap_simt::executor::{Config, Executor, FaultKind, Trace};
use gpumap_simt::kernel::Grid;
use gpumap_simt::{atomic, thread};

/// Adds one to a counter from every thread by an atomic load and an atomic store: a lost update
/// waits to happen.
fn racy_count(executor: &Executor, grid: Grid) -> (u32, Trace) {
    let mut counter = 0u32;
    let shared = &raw mut counter as usize;
    let body = || {
        let counter = shared as *mut u32;
        // SAFETY: the counter outlives the launch and is only used by atomics meanwhile.
        unsafe {
            let seen = atomic::load(counter, atomic::Relaxed);
            atomic::store(counter, seen + 1, atomic::Relaxed);
        }
    };
    // SAFETY: the same.
    let (outcome, trace) = unsafe { executor.launch_traced("racy", grid, &body) };
    outcome.unwrap();
    (counter, trace)
}

#[test]
fn a_seed_is_an_interleaving() {
    let mut digests = HashSet::new();
    for seed in 0..50 {
        let runs =
            [(); 3].map(|()| racy_count(&Executor::new(Config::random(seed)), Grid::new(20, 40)));
        assert_eq!(runs[0], runs[1]);
        assert_eq!(runs[0], runs[2]);
        assert!(runs[0].1.steps >= 800);
        digests.insert(runs[0].1.digest);
    }
    assert_eq!(digests.len(), 50);
}

#[test]
fn the_same_executor_repeats_itself() {
    let executor = Executor::new(Config::random(5));
    let first = racy_count(&executor, Grid::new(3, 64));
    // A larger launch in between must leave no trace.
    let _ = racy_count(&executor, Grid::new(30, 512));
    assert_eq!(racy_count(&executor, Grid::new(3, 64)), first);
}

#[test]
fn a_hundred_seeds_find_a_lost_update() {
    let lost = (0..100).filter(|&seed| {
        let (count, _) = racy_count(&Executor::new(Config::random(seed)), Grid::new(1, 2));
        count != 2
    });
    let lost = lost.count();
    assert!(
        (1..100).contains(&lost),
        "{lost} of 100 seeds lost an update"
    );
}

#[test]
fn a_hundred_seeds_find_a_race_between_blocks() {
    let lost = (0..100)
        .any(|seed| racy_count(&Executor::new(Config::random(seed)), Grid::new(2, 1)).0 != 2);
    assert!(lost);
}

#[test]
fn one_worker_in_round_robin_loses_nothing_without_a_switch() {
    let executor = Executor::new(Config {
        workers: 1,
        ..Config::default()
    });
    let (count, trace) = racy_count(&executor, Grid::new(10, 100));
    assert_eq!((count, trace), (1000, Trace::default()));
}

#[test]
fn resident_blocks_wait_for_each_other() {
    for seed in 0..20 {
        let executor = Executor::new(Config::random(seed));
        let mut turn = 0u32;
        let shared = &raw mut turn as usize;
        // Each block waits for the one before it, as decoupled look-back does.
        let body = || {
            let turn = shared as *mut u32;
            // SAFETY: the word outlives the launch.
            unsafe {
                if thread::thread_idx_x() == 0 {
                    while atomic::load(turn, atomic::Acquire) != thread::block_idx_x() {
                        thread::nanosleep(10);
                    }
                }
                thread::sync_threads();
                if thread::thread_idx_x() == 0 {
                    atomic::fetch_add(turn, 1, atomic::Release);
                }
            }
        };
        // SAFETY: the same.
        unsafe { executor.launch("turns", Grid::new(30, 33), &body) }.unwrap();
        assert_eq!(turn, 30);
    }
}

#[test]
fn a_stuck_block_is_found_while_another_spins() {
    let executor = Executor::new(Config::random(1));
    let mut never = 0u32;
    let shared = &raw mut never as usize;
    let body = || {
        // SAFETY: the word outlives the launch; the barrier is wrong on purpose.
        unsafe {
            if thread::block_idx_x() == 0 {
                while atomic::load(shared as *const u32, atomic::Relaxed) == 0 {
                    thread::nanosleep(10);
                }
            } else if thread::thread_idx_x() == 0 {
                thread::sync_threads();
            }
        }
    };
    // SAFETY: the same.
    let fault = unsafe { executor.launch("stuck", Grid::new(2, 2), &body) }.unwrap_err();
    assert_eq!(fault.block, 1);
    assert!(matches!(fault.kind, FaultKind::BarrierDivergence { .. }));
}
