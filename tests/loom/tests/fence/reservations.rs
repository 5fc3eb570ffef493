//! Reservations of room.

use std::sync::Arc;

use gpumap_loom::explore;
use loom::thread;

use super::occupancy::Occupancy;
use super::sync::{AtomicUsize, Ordering};

/// Two calls and room for one pair: they do not reserve the same room, and the room that one did
/// not need the other gets.
#[test]
fn room_is_reserved_once() {
    explore(3, || {
        let occupancy = Arc::new(Occupancy::new(1));
        let used = Arc::new(AtomicUsize::new(0));
        let call = |occupancy: &Occupancy, used: &AtomicUsize| {
            let reservation = occupancy.reserve_pairs(1)?;
            assert_eq!(used.fetch_add(1, Ordering::AcqRel), 0, "two have one room");
            used.fetch_sub(1, Ordering::AcqRel);
            reservation.commit(0);
            Some(())
        };
        let other = {
            let (occupancy, used) = (occupancy.clone(), used.clone());
            thread::spawn(move || call(&occupancy, &used))
        };
        let mine = call(&occupancy, &used);
        let theirs = other.join().unwrap();
        assert!(
            mine.is_some() || theirs.is_some(),
            "neither call has the room"
        );
        assert_eq!((occupancy.len(), occupancy.used()), (0, 0));
    });
}

/// What one thread keeps for its next calls, another one gets that needs it; and no more than that.
#[test]
fn credit_is_room() {
    explore(3, || {
        let occupancy = Arc::new(Occupancy::new(6));
        let other = {
            let occupancy = occupancy.clone();
            thread::spawn(move || {
                for _ in 0..2 {
                    // With credit.
                    let reservation = occupancy.reserve_pairs(1).expect("there is room");
                    reservation.commit(1);
                }
            })
        };
        let mut stored = 2;
        if let Some(reservation) = occupancy.reserve_pairs(4) {
            reservation.commit(4);
            stored += 4;
        }
        other.join().unwrap();
        assert_eq!((occupancy.len(), occupancy.used()), (stored, stored));
        // All that is left, and nothing beyond.
        assert!(occupancy.reserve_pairs(occupancy.left() + 1).is_none());
        let rest = occupancy.reserve_pairs(occupancy.left());
        rest.expect("there is room").commit(0);
        assert_eq!(occupancy.used(), stored);
    });
}

/// Bugs that loom has to find.
mod planted {
    use super::*;

    #[test]
    #[should_panic(expected = "two have one room")]
    fn room_is_looked_at_and_then_taken() {
        explore(3, || {
            let reserved = Arc::new(AtomicUsize::new(0));
            let used = Arc::new(AtomicUsize::new(0));
            let call = |reserved: &AtomicUsize, used: &AtomicUsize| {
                if reserved.load(Ordering::Acquire) < 1 {
                    reserved.fetch_add(1, Ordering::AcqRel);
                    assert_eq!(used.fetch_add(1, Ordering::AcqRel), 0, "two have one room");
                    used.fetch_sub(1, Ordering::AcqRel);
                    reserved.fetch_sub(1, Ordering::AcqRel);
                }
            };
            let other = {
                let (reserved, used) = (reserved.clone(), used.clone());
                thread::spawn(move || call(&reserved, &used))
            };
            call(&reserved, &used);
            other.join().unwrap();
        });
    }
}
