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
