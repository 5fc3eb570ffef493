//! A gate that two kinds of calls pass, any number of one kind at a time.
//!
//! A call that takes an id out of its slot by an exchange and one that takes the whole pair away must
//! not meet: each could get the id of the other. All other calls do not come to the gate.

use parking_lot::{Condvar, Mutex};

/// The kinds of calls that do not run beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Puts ids in the place of others.
    Replaces,
    /// Takes pairs away.
    Removes,
}

#[derive(Debug, Default)]
struct State {
    /// Calls of each kind that are inside. At most one of the two is not zero.
    inside: [usize; 2],
    /// Calls of each kind that wait.
    waiting: [usize; 2],
    /// How often those of a kind that waited were let in.
    turns: [u64; 2],
}

/// Neither kind waits for ever: when one waits, no more of the other are let in, and those inside
/// leave sooner or later; then all that wait go in at once.
#[derive(Debug, Default)]
pub(super) struct Gate {
    state: Mutex<State>,
    opened: Condvar,
}

/// A call inside; leaves on drop.
#[derive(Debug)]
pub(super) struct Pass<'g> {
    gate: &'g Gate,
    kind: Kind,
}

impl Gate {
    /// Goes in, when no call of the other kind is there or was there first. To be called before any
    /// lock of the map is taken.
    pub fn enter(&self, kind: Kind) -> Pass<'_> {
        let (own, other) = (kind as usize, 1 - kind as usize);
        let mut state = self.state.lock();
        if state.inside[other] == 0 && state.waiting[other] == 0 {
            state.inside[own] += 1;
        } else {
            state.waiting[own] += 1;
            let turn = state.turns[own];
            // Whoever let it in has counted it as inside.
            self.opened
                .wait_while(&mut state, |state| state.turns[own] == turn);
        }
        Pass { gate: self, kind }
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        let (own, other) = (self.kind as usize, 1 - self.kind as usize);
        let mut state = self.gate.state.lock();
        state.inside[own] -= 1;
        if state.inside[own] != 0 {
            return;
        }
        // Those of the other kind first: that is what makes both of them get their turn.
        for kind in [other, own] {
            if state.waiting[kind] != 0 {
                state.inside[kind] = std::mem::take(&mut state.waiting[kind]);
                state.turns[kind] += 1;
                self.gate.opened.notify_all();
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let state = gate.state.into_inner();
        assert_eq!((state.inside, state.waiting), ([0; 2], [0; 2]));
    }

    #[test]
    fn one_kind_shares_the_gate() {
        let gate = Gate::default();
        let _one = gate.enter(Kind::Replaces);
        let _two = gate.enter(Kind::Replaces);
        assert_eq!(gate.state.lock().inside, [2, 0]);
    }

    #[test]
    fn who_waits_holds_newcomers_of_the_other_kind_back() {
        let gate = Gate::default();
        let order = Mutex::new(Vec::new());
        let first = gate.enter(Kind::Replaces);
        let wait_until = |waiting: [usize; 2]| {
            while gate.state.lock().waiting != waiting {
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
}
