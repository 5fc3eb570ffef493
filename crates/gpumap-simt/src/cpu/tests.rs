//! What cannot be seen from outside: that stacks are reused and none is lost.

use super::job::Job;
use super::pool::Pool;
use super::{sync_threads, thread_idx_x};
use crate::kernel::Grid;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

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
    assert_eq!(pool.idle_stacks(), [(1024, 1024)]);
    assert_eq!(places.into_inner().unwrap().len(), 1);
}

#[test]
fn stacks_are_reused_from_launch_to_launch() {
    let pool = Pool::new(1, 64 * 1024);
    for _ in 0..10 {
        // SAFETY: every thread comes here.
        assert!(run(&pool, 5, 96, &|| unsafe { sync_threads() }));
        assert_eq!(pool.idle_stacks(), [(96, 96)]);
    }
}

#[test]
fn a_fault_gives_the_stacks_back() {
    super::panic::install_hook();
    let pool = Pool::new(1, 64 * 1024);
    for _ in 0..10 {
        let ok = run(&pool, 5, 96, &|| {
            assert!(thread_idx_x() != 95, "the last one");
            // SAFETY: every thread comes here, or would.
            unsafe { sync_threads() };
        });
        assert!(!ok);
        assert_eq!(pool.idle_stacks(), [(96, 96)]);
    }
}

#[test]
fn workers_bring_their_own_stacks() {
    let pool = Pool::new(3, 64 * 1024);
    for _ in 0..20 {
        // SAFETY: every thread comes here.
        assert!(run(&pool, 40, 64, &|| unsafe { sync_threads() }));
    }
    let stacks = pool.idle_stacks();
    assert!((1..=3).contains(&stacks.len()));
    assert!(stacks.iter().all(|&(made, free)| made == free));
}
