//! Growth and the calls in flight: it waits for them, and they are counted once.

use gpumap_loom::explore;
use loom::thread;

use super::{Map, replace};

/// Growth waits for the kernels in flight, and knows what they have stored.
#[test]
fn growth_waits_for_flights() {
    explore(2, || {
        let map = Map::new(2);
        let grower = {
            let map = map.clone();
            thread::spawn(move || map.grow())
        };
        let op = map.store(1).expect("there is room");
        map.state.retire(&op).unwrap();
        assert_eq!(op.take().unwrap(), [1]);
        grower.join().unwrap();
        assert_eq!(
            (map.state.occupancy.len(), map.state.occupancy.used()),
            (1, 1)
        );
    });
}

/// Growth in the middle of two calls: nothing is counted twice or not at all.
#[test]
fn growth_between_two_calls() {
    explore(1, || {
        let map = Map::new(2);
        let other = {
            let map = map.clone();
            thread::spawn(move || drop(map.store(1).expect("there is room")))
        };
        drop(map.store(0).expect("there is room"));
        map.grow();
        other.join().unwrap();
        map.state.retire_all().unwrap();
        assert_eq!(
            (map.state.occupancy.len(), map.state.occupancy.used()),
            (1, 1)
        );
    });
}

/// A wait for a call and a call of `len` count it once together; and its completion is not used
/// again before both are done with it.
#[test]
fn a_flight_lands_once() {
    explore(2, || {
        let map = Map::new(2);
        let first = map.store(1).expect("there is room");
        let waiter = {
            let (map, first) = (map.clone(), first.clone());
            thread::spawn(move || map.state.retire(&first).unwrap())
        };
        map.state.retire(&first).unwrap();
        assert_eq!(first.take().unwrap(), [1]);
        let second = map.store(0).expect("there is room");
        waiter.join().unwrap();
        map.state.retire(&second).unwrap();
        assert_eq!(second.take().unwrap(), [0]);
        assert_eq!(
            (map.state.occupancy.len(), map.state.occupancy.used()),
            (1, 1)
        );
    });
}

/// Bugs that loom has to find.
mod planted {
    use super::*;

    #[test]
    #[should_panic(expected = "Causality violation")]
    fn growth_does_not_wait() {
        explore(2, || {
            let map = Map::new(2);
            let grower = {
                let map = map.clone();
                thread::spawn(move || replace(&map.table.write().unwrap()))
            };
            let op = map.store(1).expect("there is room");
            map.state.retire(&op).unwrap();
            grower.join().unwrap();
        });
    }

    #[test]
    #[should_panic(expected = "Causality violation")]
    fn a_call_departs_after_its_lock() {
        explore(2, || {
            let map = Map::new(2);
            let grower = {
                let map = map.clone();
                thread::spawn(move || map.grow())
            };
            let table = map.table.read().clone();
            let reservation = map.state.occupancy.reserve_pairs(1).expect("there is room");
            let op = map.submit(&table, reservation, 1);
            map.state.retire(&op).unwrap();
            grower.join().unwrap();
        });
    }

    #[test]
    #[should_panic(expected = "left: (0, 0)")]
    fn growth_counts_before_it_waits() {
        explore(2, || {
            let map = Map::new(2);
            let grower = {
                let map = map.clone();
                thread::spawn(move || {
                    let table = map.table.write().unwrap();
                    let len = map.state.occupancy.len();
                    map.state.retire_all().unwrap();
                    replace(&table);
                    map.state.occupancy.rebuilt(len, 4);
                })
            };
            let op = map.store(1).expect("there is room");
            map.state.retire(&op).unwrap();
            grower.join().unwrap();
            assert_eq!(
                (map.state.occupancy.len(), map.state.occupancy.used()),
                (1, 1)
            );
        });
    }
}
