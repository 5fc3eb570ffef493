//! Tests of [`Lock`]; apart from it, as loom compiles that file too.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::lock::Lock;

const SOON: Duration = Duration::from_millis(20);

/// The reader waits behind the writer when the callback begins.
#[test]
fn a_callback_that_begins_late_holds_no_reader_up() {
    let lock = Lock::new(7);
    let (has_read, has_written) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let guard = lock.read_in_turn();
        scope.spawn(|| {
            *lock.write().unwrap() += 1;
            has_written.store(true, Ordering::Release);
        });
        thread::sleep(SOON);
        scope.spawn(|| {
            assert_eq!(*lock.read(), 7);
            has_read.store(true, Ordering::Release);
        });
        thread::sleep(SOON);
        assert!(!has_read.load(Ordering::Acquire), "it waits for its turn");
        let callback = guard.callback();
        let start = Instant::now();
        while !has_read.load(Ordering::Acquire) {
            assert!(start.elapsed() < Duration::from_secs(10), "never");
            thread::yield_now();
        }
        assert!(!has_written.load(Ordering::Acquire));
        drop(callback);
        drop(guard);
    });
    assert_eq!(*lock.read(), 8);
}

#[test]
fn a_thread_reads_what_it_has_alone_in_a_callback_only() {
    let lock = Lock::new(7);
    let alone = lock.write().unwrap();
    {
        let _callback = alone.callback();
        assert_eq!((*lock.read(), *lock.read_in_turn()), (7, 7));
        assert!(lock.write().is_err() && lock.expect_others().is_err());
        // Of this thread alone.
        thread::scope(|scope| {
            scope
                .spawn(|| lock.expect_no_callback().unwrap())
                .join()
                .unwrap();
        });
    }
    lock.expect_no_callback().unwrap();
    drop(alone);
    let shared = lock.read();
    let callback = shared.callback();
    let nested = lock.read();
    drop(nested.callback());
    assert!(lock.write().is_err());
    lock.expect_others().unwrap();
    drop(callback);
    drop((nested, shared));
    *lock.write().unwrap() += 1;
}

/// Readers who are counted, and writers who stop that: no reader sees half of a change, and every writer gets its turn.
#[test]
fn writers_pass_readers_that_never_stop() {
    const WRITES: u64 = 200;
    let lock = Lock::new([0u64; 2]);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let both = lock.read();
                    assert_eq!(both[0], both[1]);
                }
            });
        }
        for i in 0..WRITES {
            // Now and then so many readers later that they are counted again.
            if i % 8 == 0 {
                (0..200).for_each(|_| drop(lock.read()));
            }
            let mut both = match i % 2 {
                0 => lock.write().unwrap(),
                _ => lock.try_write().unwrap_or_else(|| lock.write().unwrap()),
            };
            both[0] += 1;
            thread::yield_now();
            both[1] += 1;
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(*lock.read(), [WRITES; 2]);
}

/// A thread that waits for a callback holds up no reader, counted or not.
#[test]
fn readers_go_on_beside_a_callback_and_a_writer_that_waits() {
    let lock = Lock::new(7);
    (0..1_000).for_each(|_| drop(lock.read()));
    thread::scope(|scope| {
        let guard = lock.read_in_turn();
        let callback = guard.callback();
        scope.spawn(|| *lock.write().unwrap() += 1);
        thread::sleep(SOON);
        let reader = scope.spawn(|| (0..1_000).all(|_| *lock.read() == 7));
        assert!(reader.join().unwrap());
        drop(callback);
        drop(guard);
    });
    assert_eq!(*lock.read(), 8);
}
