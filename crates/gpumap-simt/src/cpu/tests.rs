//! What cannot be seen from outside: that stacks are reused and none is lost. Each test has stacks of a size of its
//! own, so that no other test takes them.

use super::job::Job;
use super::pool::Pool;
use super::stack::{KEPT, idle_stacks};
use super::{sync_threads, thread_idx_x};
use crate::kernel::Grid;

use std::collections::HashSet;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

fn run(pool: &Pool, blocks: u32, threads: u32, body: &(dyn Fn() + Sync)) -> bool {
    let grid = Grid {
        blocks,
        threads,
        shared_bytes: 0,
    };
    let job = Arc::new(Job::new("test", grid, 1 << 20, false, body));
    // SAFETY: the bodies of these tests touch no memory, and they outlive the call.
    unsafe { pool.run(&job) };
    job.outcome().is_ok()
}

#[test]
fn lanes_that_never_wait_share_a_stack() {
    let pool = Pool::new(1, 64 * 1024);
    let places = Mutex::new(HashSet::new());
    assert!(run(&pool, 100, 1024, &|| {
        let on_the_stack = thread_idx_x();
        places
            .lock()
            .unwrap()
            .insert((&raw const on_the_stack).addr());
    }));
    // All are there before the launch, and the memory of one is used.
    assert_eq!(idle_stacks(64 * 1024), 1024);
    assert_eq!(places.into_inner().unwrap().len(), 1);
}

#[test]
fn stacks_are_reused_from_launch_to_launch() {
    let pool = Pool::new(1, 68 * 1024);
    for _ in 0..10 {
        // SAFETY: every thread comes here.
        assert!(run(&pool, 5, 96, &|| unsafe { sync_threads() }));
        assert_eq!(idle_stacks(68 * 1024), 96);
    }
}

#[test]
fn a_fault_gives_the_stacks_back() {
    super::panic::install_hook();
    let pool = Pool::new(1, 72 * 1024);
    for _ in 0..10 {
        let ok = run(&pool, 5, 96, &|| {
            assert!(thread_idx_x() != 95, "the last one");
            // SAFETY: every thread comes here, or would.
            unsafe { sync_threads() };
        });
        assert!(!ok);
        assert_eq!(idle_stacks(72 * 1024), 96);
    }
}

#[test]
fn workers_bring_their_own_stacks() {
    let pool = Pool::new(3, 76 * 1024);
    for _ in 0..20 {
        // SAFETY: every thread comes here.
        assert!(run(&pool, 40, 64, &|| unsafe { sync_threads() }));
    }
    // The helpers give theirs back before the launch ends, and the next one takes them.
    let stacks = idle_stacks(76 * 1024);
    assert!([64, 128, 192].contains(&stacks), "{stacks}");
}

#[test]
fn executors_share_their_stacks() {
    let bytes = 80 * 1024;
    for _ in 0..20 {
        let pools: Vec<_> = (0..4).map(|_| Pool::new(1, bytes)).collect();
        for pool in &pools {
            // SAFETY: every thread comes here.
            assert!(run(pool, 2, 512, &|| unsafe { sync_threads() }));
            assert_eq!(idle_stacks(bytes), 512);
        }
    }
}

#[test]
fn the_process_keeps_a_bounded_number_of_stacks() {
    let bytes = 84 * 1024;
    let runners = KEPT / 1024 + 1;
    let all_run = Barrier::new(runners);
    thread::scope(|scope| {
        for _ in 0..runners {
            scope.spawn(|| {
                let pool = Pool::new(1, bytes);
                assert!(run(&pool, 1, 1024, &|| {
                    if thread_idx_x() == 0 {
                        all_run.wait();
                    }
                }));
            });
        }
    });
    assert_eq!(idle_stacks(bytes), KEPT);
}
