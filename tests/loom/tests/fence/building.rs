//! A call that builds the table with a batch: it has the table alone or does not build, and does
//! not wait.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use gpumap_loom::explore;
use loom::thread;

use super::lock::WriteGuard;
use super::{Map, Table, replace};

/// A call that builds the table alone meets no call in flight, whether that comes while it builds
/// or its kernel still runs when the build begins; and the counts of that call are not forgotten.
#[test]
fn building_meets_no_flight() {
    static BUILT: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
    explore(3, || {
        let map = Map::new(4);
        let builder = {
            let map = map.clone();
            thread::spawn(move || map.build())
        };
        let op = map.store(1).expect("there is room");
        map.state.retire(&op).unwrap();
        assert_eq!(op.take().unwrap(), [1]);
        let built = builder.join().unwrap();
        BUILT[usize::from(built)].fetch_add(1, Relaxed);
        let len = if built { 3 } else { 1 };
        assert_eq!(
            (map.state.occupancy.len(), map.state.occupancy.used()),
            (len, len)
        );
    });
    let [beside, alone] = BUILT.each_ref().map(|orders| orders.load(Relaxed));
    assert!(beside > 0 && alone > 0, "{beside} orders, {alone} orders");
}

/// Whichever thread retires the last call, the builder sees what its kernel did.
#[test]
fn building_after_a_flight_that_another_thread_lands() {
    explore(2, || {
        let map = Map::new(4);
        let op = map.store(0).expect("there is room");
        let builder = {
            let map = map.clone();
            thread::spawn(move || map.build())
        };
        map.state.retire(&op).unwrap();
        let built = builder.join().unwrap();
        assert_eq!(map.state.occupancy.len(), if built { 2 } else { 0 });
        // No other call is left.
        assert!(built || map.build());
    });
}

/// Bugs that loom has to find.
mod planted {
    use super::*;

    /// A call beside one that builds in a wrong way.
    fn build_beside_a_call(alone: fn(&Map) -> Option<WriteGuard<'_, Table>>) {
        explore(2, move || {
            let map = Map::new(4);
            let builder = {
                let map = map.clone();
                thread::spawn(move || {
                    if let Some(table) = alone(&map) {
                        replace(&table);
                    }
                })
            };
            let op = map.store(1).expect("there is room");
            map.state.retire(&op).unwrap();
            builder.join().unwrap();
        });
    }

    #[test]
    #[should_panic(expected = "Causality violation")]
    fn building_does_not_ask_for_flights() {
        build_beside_a_call(|map| map.table.try_write());
    }

    #[test]
    #[should_panic(expected = "Causality violation")]
    fn building_asks_for_flights_before_it_is_alone() {
        build_beside_a_call(|map| {
            let retired = map.state.all_retired();
            retired.then(|| map.table.try_write()).flatten()
        });
    }
}
