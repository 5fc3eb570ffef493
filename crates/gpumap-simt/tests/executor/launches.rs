//! Launches of many shapes, from many threads, on one executor.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use gpumap_simt::executor::{Config, Executor, FaultKind};
use gpumap_simt::thread as gpu;

use crate::{Slots, executors, launch};

#[test]
fn every_thread_runs_once_and_knows_where_it_is() {
    for executor in executors() {
        for (blocks, threads) in [(1, 1), (5, 33), (64, 256), (3, 1024), (1000, 7), (0, 32)] {
            let slots = Slots::new((blocks * threads) as usize);
            let runs = AtomicU32::new(0);
            launch(&executor, blocks, threads, || {
                runs.fetch_add(1, Ordering::Relaxed);
                assert_eq!((gpu::grid_dim_x(), gpu::block_dim_x()), (blocks, threads));
                slots.set(gpu::block_idx_x() * threads + gpu::thread_idx_x());
            })
            .unwrap();
            assert_eq!(runs.into_inner(), blocks * threads);
            assert!((0..blocks * threads).all(|t| slots.get(t as usize) == u64::from(t)));
        }
    }
}

#[test]
fn many_threads_at_once() {
    for executor in executors() {
        std::thread::scope(|scope| {
            for host in 0..8u32 {
                let executor = &executor;
                scope.spawn(move || {
                    for round in 0..30 {
                        let (blocks, threads) =
                            (1 + (host * 7 + round) % 9, 1 + (round * 37) % 200);
                        let sum = AtomicU64::new(0);
                        let faulty = (host + round) % 5 == 0;
                        let result = launch(executor, blocks, threads, || {
                            assert!(!faulty || gpu::index() != 0, "as planned");
                            // SAFETY: every thread comes here.
                            unsafe { gpu::sync_threads() };
                            sum.fetch_add(gpu::index(), Ordering::Relaxed);
                        });
                        let n = u64::from(blocks * threads);
                        if faulty {
                            assert!(matches!(result.unwrap_err().kind, FaultKind::Panic { .. }));
                        } else {
                            result.unwrap();
                            assert_eq!(sum.into_inner(), n * (n - 1) / 2);
                        }
                    }
                });
            }
        });
    }
}

#[test]
fn executors_come_and_go() {
    for _ in 0..50 {
        let executor = Executor::new(Config {
            workers: 4,
            ..Config::default()
        });
        launch(&executor, 16, 32, || {}).unwrap();
    }
    // No workers counts as one.
    let executor = Executor::new(Config {
        workers: 0,
        ..Config::default()
    });
    launch(&executor, 16, 32, || {}).unwrap();
}

#[test]
fn workers_share_a_launch() {
    // Two blocks that wait for each other need two workers at once.
    let executor = Executor::new(Config {
        workers: 2,
        ..Config::default()
    });
    let arrived = AtomicU32::new(0);
    launch(&executor, 2, 1, || {
        arrived.fetch_add(1, Ordering::Relaxed);
        while arrived.load(Ordering::Relaxed) != 2 {
            gpu::nanosleep(100);
        }
    })
    .unwrap();
}

#[test]
fn frames_of_an_unoptimised_kernel_fit() {
    let executor = Executor::new(Config::default());
    launch(&executor, 2, 64, || {
        let mut frame = [0u8; 40 * 1024];
        std::hint::black_box(&mut frame);
        // SAFETY: every thread comes here.
        unsafe { gpu::sync_threads() };
        std::hint::black_box(&frame);
    })
    .unwrap();
}
