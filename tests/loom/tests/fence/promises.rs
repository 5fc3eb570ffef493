//! Promises of room.

use std::sync::Arc;

use gpumap_loom::explore;
use loom::thread;

use super::room::Room;
use super::sync::{AtomicUsize, Ordering};

/// Two calls and room for one pair: they are not promised the same room, and the room that one did
/// not need the other gets.
#[test]
fn room_is_promised_once() {
    explore(3, || {
        let room = Arc::new(Room::new(1));
        let used = Arc::new(AtomicUsize::new(0));
        let call = |room: &Room, used: &AtomicUsize| {
            let promise = room.promise(1)?;
            assert_eq!(used.fetch_add(1, Ordering::AcqRel), 0, "two have one room");
            used.fetch_sub(1, Ordering::AcqRel);
            promise.keep(0);
            Some(())
        };
        let other = {
            let (room, used) = (room.clone(), used.clone());
            thread::spawn(move || call(&room, &used))
        };
        let mine = call(&room, &used);
        let theirs = other.join().unwrap();
        assert!(mine.is_some() || theirs.is_some(), "nobody has the room");
        assert_eq!((room.len(), room.used()), (0, 0));
    });
}

/// Bugs that loom has to find.
mod planted {
    use super::*;

    #[test]
    #[should_panic(expected = "two have one room")]
    fn room_is_looked_at_and_then_taken() {
        explore(3, || {
            let spoken_for = Arc::new(AtomicUsize::new(0));
            let used = Arc::new(AtomicUsize::new(0));
            let call = |spoken_for: &AtomicUsize, used: &AtomicUsize| {
                if spoken_for.load(Ordering::Acquire) < 1 {
                    spoken_for.fetch_add(1, Ordering::AcqRel);
                    assert_eq!(used.fetch_add(1, Ordering::AcqRel), 0, "two have one room");
                    used.fetch_sub(1, Ordering::AcqRel);
                    spoken_for.fetch_sub(1, Ordering::AcqRel);
                }
            };
            let other = {
                let (spoken_for, used) = (spoken_for.clone(), used.clone());
                thread::spawn(move || call(&spoken_for, &used))
            };
            call(&spoken_for, &used);
            other.join().unwrap();
        });
    }
}
