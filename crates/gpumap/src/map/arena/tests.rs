//! The gate, with real threads. `tests/loom` has it in every order of events.

use super::gate::{Gate, Kind};
use crate::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

#[test]
fn kinds_never_meet_and_both_get_their_turn() {
    const ROUNDS: usize = 300;
    let gate = Gate::default();
    let inside = [AtomicUsize::new(0), AtomicUsize::new(0)];
    let met = AtomicUsize::new(0);
    thread::scope(|scope| {
        for kind in [Kind::Replaces, Kind::Removes, Kind::Replaces, Kind::Removes] {
            let (gate, inside, met) = (&gate, &inside, &met);
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    let _pass = gate.enter(kind);
                    inside[kind as usize].fetch_add(1, Ordering::SeqCst);
                    thread::yield_now();
                    met.fetch_add(
                        inside[1 - kind as usize].load(Ordering::SeqCst),
                        Ordering::SeqCst,
                    );
                    inside[kind as usize].fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!(met.into_inner(), 0);
    assert_eq!(gate.calls(), [[0; 2]; 2]);
}

#[test]
fn one_kind_shares_the_gate() {
    let gate = Gate::default();
    let _one = gate.enter(Kind::Replaces);
    let _two = gate.enter(Kind::Replaces);
    assert_eq!(gate.calls(), [[2, 0], [0; 2]]);
}

#[test]
fn who_waits_holds_newcomers_of_the_other_kind_back() {
    let gate = Gate::default();
    let order = Mutex::new(Vec::new());
    let first = gate.enter(Kind::Replaces);
    let wait_until = |waiting: [usize; 2]| {
        while gate.calls()[1] != waiting {
            thread::sleep(Duration::from_millis(1));
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            let _pass = gate.enter(Kind::Removes);
            order.lock().push(Kind::Removes);
        });
        wait_until([0, 1]);
        scope.spawn(|| {
            let _pass = gate.enter(Kind::Replaces);
            order.lock().push(Kind::Replaces);
        });
        wait_until([1, 1]);
        drop(first);
    });
    assert_eq!(*order.lock(), [Kind::Removes, Kind::Replaces]);
}
