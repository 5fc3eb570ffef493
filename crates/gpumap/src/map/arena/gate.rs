//! A gate that two kinds of calls pass, any number of one kind at a time.
//!
//! A call that takes an id out of its slot by an exchange and one that takes the whole pair away must
//! not meet: each could get the id of the other. All other calls do not pass the gate.

use gpumap_simt::executor::take_turns;

use crate::sync::{Condvar, Mutex};

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
        if let Some(pass) = take_turns(|| self.try_enter(kind)) {
            return pass;
        }
        let own = kind as usize;
        let mut state = self.state.lock();
        if !state.lets_in(kind) {
            state.waiting[own] += 1;
            let turn = state.turns[own];
            // The code that let it in has counted it as inside.
            self.opened
                .wait_while(&mut state, |state| state.turns[own] == turn);
        }
        Pass { gate: self, kind }
    }

    /// Calls of each kind that are inside, and that wait: for tests.
    #[cfg(test)]
    pub fn calls(&self) -> [[usize; 2]; 2] {
        let state = self.state.lock();
        [state.inside, state.waiting]
    }

    /// Goes in, if it need not wait.
    fn try_enter(&self, kind: Kind) -> Option<Pass<'_>> {
        let is_in = self.state.lock().lets_in(kind);
        // Not `then_some`: a pass that is not given out would leave when it is dropped.
        is_in.then(|| Pass { gate: self, kind })
    }
}

impl State {
    /// Counts a call as inside, unless one of the other kind is there or was there first.
    fn lets_in(&mut self, kind: Kind) -> bool {
        let (own, other) = (kind as usize, 1 - kind as usize);
        let may = self.inside[other] == 0 && self.waiting[other] == 0;
        self.inside[own] += usize::from(may);
        may
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
