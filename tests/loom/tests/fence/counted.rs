//! Readers who are counted by thread, and writers.

use std::sync::Arc;

use gpumap_loom::explore;
use loom::cell::UnsafeCell;
use loom::thread;

use super::lock::Lock;

/// What a lock guards. Loom finds a read beside a write.
struct Word(UnsafeCell<u32>);

// SAFETY: the lock's, which loom checks.
unsafe impl Send for Word {}
// SAFETY: as above.
unsafe impl Sync for Word {}

/// A lock whose readers are counted.
fn counting() -> Arc<Lock<Word>> {
    let lock = Lock::new(Word(UnsafeCell::new(0)));
    drop(lock.read());
    Arc::new(lock)
}

fn read(lock: &Lock<Word>) -> u32 {
    let word = lock.read();
    // SAFETY: shared.
    word.0.with(|word| unsafe { *word })
}

fn add_one(word: &Word) {
    // SAFETY: alone.
    word.0.with_mut(|word| unsafe { *word += 1 });
}

/// A writer waits for the readers who are counted; those who come later see what it wrote, also when they are counted again.
#[test]
fn a_writer_is_alone() {
    explore(3, || {
        let lock = counting();
        let reader = {
            let lock = lock.clone();
            thread::spawn(move || {
                let first = read(&lock);
                assert!(read(&lock) >= first);
            })
        };
        add_one(&lock.write().unwrap());
        assert_eq!(read(&lock), 1);
        reader.join().unwrap();
        assert_eq!(read(&lock), 1);
    });
}

/// Two writers, the second of which may meet no counting.
#[test]
fn writers_take_turns() {
    explore(2, || {
        let lock = counting();
        let others = [0, 1].map(|_| {
            let lock = lock.clone();
            thread::spawn(move || {
                add_one(&lock.write().unwrap());
            })
        });
        assert!(read(&lock) <= 2);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(read(&lock), 2);
    });
}

/// A writer that does not wait leaves the readers counted, and the next writer waits for them.
#[test]
fn a_writer_that_does_not_wait_is_alone_or_not_at_all() {
    explore(3, || {
        let lock = counting();
        let reader = {
            let lock = lock.clone();
            thread::spawn(move || read(&lock))
        };
        let mut written = 0;
        if let Some(word) = lock.try_write() {
            add_one(&word);
            written += 1;
        }
        add_one(&lock.write().unwrap());
        written += 1;
        reader.join().unwrap();
        assert_eq!(read(&lock), written);
    });
}
