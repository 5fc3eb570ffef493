//! What is known of the work on a stream: `work.rs` of `gpumap` as it is, compiled against loom's atomics.

#[allow(dead_code, reason = "what it has for other tests is not used here")]
#[path = "../../../../crates/gpumap/src/stream/work.rs"]
mod shipped;

use std::rc::Rc;

use crate::sync::{AtomicUsize, Ordering};
use gpumap_loom::explore;
use loom::thread;
use shipped::Work;

/// A stream as the driver has it, and what is known of it.
#[derive(Default)]
struct Stream {
    /// What the driver was given, and what has ended.
    given: AtomicUsize,
    ended: AtomicUsize,
    work: Work,
}

impl Stream {
    /// Gives the driver something; returns its number.
    fn give(&self) -> usize {
        self.given.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Waits, as the driver does, for what it has been given.
    fn wait(&self) {
        let given = self.given.load(Ordering::Relaxed);
        self.ended.fetch_max(given, Ordering::Relaxed);
    }

    /// Checks whether something has ended that this thread has queued.
    fn check(&self, number: usize) {
        if self.work.has_ended() {
            let ended = self.ended.load(Ordering::Relaxed);
            assert!(ended >= number, "number {number} has not ended");
        }
    }

    fn queue(&self) {
        let number = self.give();
        self.work.queued();
        self.check(number);
    }

    fn synchronize(&self) {
        let so_far = self.work.so_far();
        self.wait();
        self.work.ended(so_far);
    }
}

/// One thread queues twice, one once, and one waits.
fn model(queue: fn(&Stream), synchronize: fn(&Stream)) {
    explore(3, move || {
        let stream = Rc::new(Stream::default());
        let threads = [queue, synchronize].map(|call| {
            let stream = stream.clone();
            thread::spawn(move || call(&stream))
        });
        queue(&stream);
        queue(&stream);
        for thread in threads {
            thread.join().unwrap();
        }
        synchronize(&stream);
        assert!(stream.work.has_ended(), "all has ended");
        stream.check(3);
        stream.work.share();
        assert!(!stream.work.has_ended(), "others may have queued something");
    });
}

#[test]
fn nothing_is_believed_to_have_ended_that_has_not() {
    model(Stream::queue, Stream::synchronize);
}

#[test]
#[should_panic(expected = "has not ended")]
fn counting_before_queueing_is_found() {
    fn queue(stream: &Stream) {
        stream.work.queued();
        let number = stream.give();
        stream.check(number);
    }
    model(queue, Stream::synchronize);
}

#[test]
#[should_panic(expected = "has not ended")]
fn counting_after_waiting_is_found() {
    fn synchronize(stream: &Stream) {
        stream.wait();
        let so_far = stream.work.so_far();
        stream.work.ended(so_far);
    }
    model(Stream::queue, synchronize);
}
