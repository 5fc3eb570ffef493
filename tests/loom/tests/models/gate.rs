//! The gate of maps with large values: `gate.rs` of `gpumap` as it is, compiled against loom's locks.

#[allow(dead_code, reason = "what it has for other tests is not used here")]
#[path = "../../../../crates/gpumap/src/map/arena/gate.rs"]
mod shipped;

use std::rc::Rc;

use crate::sync::{AtomicUsize, Ordering};
use gpumap_loom::explore;
use loom::thread;
use shipped::{Gate, Kind};

/// A call of this kind, while which no one of the other kind may be there.
fn pass(gate: &Gate, inside: &[AtomicUsize; 2], kind: Kind) {
    let pass = gate.enter(kind);
    inside[kind as usize].fetch_add(1, Ordering::Relaxed);
    let others = inside[1 - kind as usize].load(Ordering::Relaxed);
    assert_eq!(others, 0, "both kinds are inside");
    inside[kind as usize].fetch_sub(1, Ordering::Relaxed);
    drop(pass);
}

/// Calls of both kinds: they do not meet, and none waits for ever, which loom would report.
fn calls(kinds: &'static [Kind]) {
    explore(3, move || {
        let gate = Rc::new(Gate::default());
        let inside = Rc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let threads: Vec<_> = kinds
            .iter()
            .map(|&kind| {
                let (gate, inside) = (gate.clone(), inside.clone());
                thread::spawn(move || pass(&gate, &inside, kind))
            })
            .collect();
        pass(&gate, &inside, Kind::Replaces);
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

#[test]
fn kinds_do_not_meet() {
    calls(&[Kind::Removes]);
}

#[test]
fn who_waits_is_let_in() {
    calls(&[Kind::Removes, Kind::Removes]);
    calls(&[Kind::Removes, Kind::Replaces]);
}

#[test]
#[should_panic(expected = "both kinds are inside")]
fn calls_without_a_gate_are_found() {
    explore(3, || {
        let inside = Rc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let other = {
            let inside = inside.clone();
            // A gate of its own is none.
            thread::spawn(move || pass(&Gate::default(), &inside, Kind::Removes))
        };
        pass(&Gate::default(), &inside, Kind::Replaces);
        other.join().unwrap();
    });
}
