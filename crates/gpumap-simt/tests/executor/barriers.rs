//! The block barrier and shared memory.

use std::sync::atomic::{AtomicU32, Ordering};

use gpumap_simt::kernel::Grid;
use gpumap_simt::{shared, shared_array, thread};

use crate::{executors, launch};

#[test]
fn barriers_of_every_size_of_block() {
    for executor in executors() {
        for threads in (1..=1024)
            .step_by(31)
            .chain([2, 31, 32, 33, 63, 64, 65, 1024])
        {
            let counters = [const { AtomicU32::new(0) }; 6];
            launch(&executor, 2, threads, || {
                for round in 0..3 {
                    let counter = &counters[(thread::block_idx_x() * 3 + round) as usize];
                    counter.fetch_add(1, Ordering::Relaxed);
                    // SAFETY: every thread comes here in every round.
                    unsafe { thread::sync_threads() };
                    assert_eq!(counter.load(Ordering::Relaxed), threads);
                }
            })
            .unwrap();
        }
    }
}

#[test]
fn arrays_are_one_per_block_and_line() {
    for executor in executors() {
        launch(&executor, 40, 70, || {
            let t = thread::thread_idx_x();
            let first = shared_array![u32; 70];
            let second = shared_array![u32; 70];
            assert_ne!(first, second);
            // SAFETY: each thread has its own word before the barrier, all are only read after it.
            unsafe {
                assert_eq!(
                    first.add(t as usize).read(),
                    0xa5a5_a5a5,
                    "poisoned at the block's start"
                );
                first.add(t as usize).write(t);
                second.add(t as usize).write(thread::block_idx_x());
                thread::sync_threads();
                assert!((0..70).all(|i| first.add(i).read() == i as u32));
                assert!((0..70).all(|i| second.add(i).read() == thread::block_idx_x()));
                thread::sync_threads();
            }
        })
        .unwrap();
    }
}

#[test]
fn dynamic_shared_memory() {
    for executor in executors() {
        let grid = Grid {
            blocks: 9,
            threads: 33,
            shared_bytes: 33 * 8,
        };
        let body = || {
            let memory: *mut u64 = shared::dynamic_shared_mem();
            assert_eq!(memory as usize % 16, 0);
            let t = thread::thread_idx_x() as usize;
            // SAFETY: 33 words, one for each thread, read by others after the barrier only.
            unsafe {
                assert_eq!(memory.add(t).read(), 0xa5a5_a5a5_a5a5_a5a5);
                memory.add(t).write(thread::index());
                thread::sync_threads();
                assert_eq!(
                    memory.add(32 - t).read(),
                    thread::index() + 32 - 2 * t as u64
                );
            }
        };
        // SAFETY: as the body says.
        unsafe { executor.launch("dynamic", grid, &body) }.unwrap();
    }
}
