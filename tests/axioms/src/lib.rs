//! The map's protocols under the axioms of PTX's memory model: every execution of small programs.
//!
//! `tests/loom` runs the shipped code under the memory model of C11. This crate asks what the model of the **machine's**
//! instructions promises, with its scopes, its weak accesses and its accesses of several sizes: it takes programs of a few
//! instructions, written as PTX has them, and enumerates what each may come to.
//!
//! | module | idea |
//! |---|---|
//! | [`program`] | programs, and conditions on what they come to, as text |
//! | [`candidate`] | which read has its value from which write: all ways |
//! | [`axioms`] | which of these the model allows |
//! | [`protocols`] | the programs of the map: what must not happen, and which ordering prevents it |
//!
//! The axioms are those of the chapter "Memory Consistency Model" of the PTX ISA. The idea of enumerating them is of
//! D. Lustig, S. Sahasrabuddhe and O. Giroux, *A Formal Analysis of the NVIDIA PTX Memory Consistency Model* (ASPLOS 2019).
//! Proxies, clusters, system-scoped access of the host and asynchronous copies are left out.

pub mod axioms;
pub mod candidate;
pub mod program;
pub mod protocols;
mod relation;

use std::collections::BTreeSet;

pub use axioms::Reading;
pub use program::{Condition, Outcome, Program};

/// What a program may come to.
#[derive(Clone, Debug, Default)]
pub struct Outcomes {
    /// Each outcome that an execution has which the axioms allow.
    pub all: BTreeSet<Outcome>,
    /// Whether one of these has a mixed-size data race. Under [`Reading::Strict`] the axioms promise nothing then.
    pub mixed_size_race: bool,
    /// How many executions the axioms allow.
    pub executions: usize,
}

impl Outcomes {
    /// Whether some outcome meets the condition.
    pub fn reach(&self, condition: &Condition) -> bool {
        self.all.iter().any(|outcome| condition.holds(outcome))
    }
}

/// All outcomes of a program.
pub fn outcomes(program: &Program, reading: Reading) -> Outcomes {
    let mut outcomes = Outcomes::default();
    candidate::each(program, reading, |candidate| {
        axioms::executions(candidate, reading, |execution| {
            outcomes.executions += 1;
            outcomes.mixed_size_race |= execution.mixed_size_race;
            outcomes.all.extend(execution.outcomes(program));
        });
    });
    outcomes
}
