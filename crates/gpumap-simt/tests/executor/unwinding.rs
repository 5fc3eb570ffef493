//! What a fault leaves behind: every lane unwound, no block started any more, and an executor that
//! works even from a destructor.

use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU32, Ordering};

use gpumap_simt::executor::{Config, Executor, FaultKind};
use gpumap_simt::{shared_array, thread};

use crate::faults::{ballot, faults};
use crate::launch;

/// Counts itself, and calls the executor when dropped, which must not switch lanes then.
struct Guard<'a>(&'a AtomicU32);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: every thread comes here, in a panic or not.
        unsafe { thread::sync_threads() };
        ballot(u32::MAX);
        thread::nanosleep(1);
    }
}

#[test]
fn cancelled_lanes_are_unwound() {
    let alive = AtomicU32::new(0);
    let body = || {
        let _memory = vec![1u8; 1000];
        alive.fetch_add(1, Ordering::Relaxed);
        let _guard = Guard(&alive);
        if thread::thread_idx_x() == 17 {
            panic!("here");
        }
        // SAFETY: every thread comes here, or would.
        unsafe { thread::sync_threads() };
    };
    faults(20, 64, body, |fault| {
        assert!(matches!(fault.kind, FaultKind::Panic { .. }));
        assert_eq!(alive.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn a_fault_cancels_the_blocks_that_have_not_started() {
    let executor = Executor::new(Config {
        workers: 2,
        ..Config::default()
    });
    let started = AtomicU32::new(0);
    let fault = launch(&executor, 1_000_000, 32, || {
        started.fetch_add(1, Ordering::Relaxed);
        let _ = shared_array![u32; 8];
        assert!(thread::block_idx_x() != 3, "the fourth block");
    })
    .unwrap_err();
    assert_eq!(fault.block, 3);
    assert!(started.into_inner() < 32_000_000);
}

#[test]
fn a_launch_from_a_destructor_during_a_panic() {
    struct Launches<'a>(&'a AtomicU32);
    impl Drop for Launches<'_> {
        fn drop(&mut self) {
            let _ = launch(Executor::global(), 4, 64, || {
                // SAFETY: every thread comes here.
                unsafe { thread::sync_threads() };
                self.0.fetch_add(1, Ordering::Relaxed);
            });
        }
    }
    let ran = AtomicU32::new(0);
    // `resume_unwind` prints nothing.
    let result = catch_unwind(|| {
        let _launches = Launches(&ran);
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(result.is_err());
    assert_eq!(ran.into_inner(), 256);
}
