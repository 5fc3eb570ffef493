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
        let flight = map.store(1).expect("there is room");
        map.books.land(&flight).unwrap();
        assert_eq!(flight.take().unwrap(), [1]);
        grower.join().unwrap();
        assert_eq!((map.books.room.len(), map.books.room.used()), (1, 1));
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
        map.books.land_all().unwrap();
        assert_eq!((map.books.room.len(), map.books.room.used()), (1, 1));
    });
}

/// Whoever waits for a call, and whoever asks how many pairs there are, count it once together; and
/// its ticket is not used again before both are done with it.
#[test]
fn a_flight_lands_once() {
    explore(2, || {
        let map = Map::new(2);
        let first = map.store(1).expect("there is room");
        let waiter = {
            let (map, first) = (map.clone(), first.clone());
            thread::spawn(move || map.books.land(&first).unwrap())
        };
        map.books.land(&first).unwrap();
        assert_eq!(first.take().unwrap(), [1]);
        let second = map.store(0).expect("there is room");
        waiter.join().unwrap();
        map.books.land(&second).unwrap();
        assert_eq!(second.take().unwrap(), [0]);
        assert_eq!((map.books.room.len(), map.books.room.used()), (1, 1));
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
                thread::spawn(move || replace(&map.table.write()))
            };
            let flight = map.store(1).expect("there is room");
            map.books.land(&flight).unwrap();
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
            let promise = map.books.room.promise(1).expect("there is room");
            let flight = map.depart(&table, promise, 1);
            map.books.land(&flight).unwrap();
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
                    let table = map.table.write();
                    let len = map.books.room.len();
                    map.books.land_all().unwrap();
                    replace(&table);
                    map.books.room.rebuilt(len, 4);
                })
            };
            let flight = map.store(1).expect("there is room");
            map.books.land(&flight).unwrap();
            grower.join().unwrap();
            assert_eq!((map.books.room.len(), map.books.room.used()), (1, 1));
        });
    }
}
