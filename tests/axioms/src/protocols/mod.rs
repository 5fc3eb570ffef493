//! The protocols of the map, as programs: what must not happen, and what prevents it.
//!
//! Each names the code that it models by quoting it, and a test looks the quotes up: a change of that code is a change of the model.
//! Each has **weakened** programs, in which one instruction has less order, less scope or less size; nearly all of them reach
//! what must not happen. Where one does not, what was taken away is not needed by this protocol.

mod chains;
mod counts;
mod rows;
mod slots;

use std::fmt::Write;

use crate::{Condition, Program};

/// Code that a protocol models: a file from the root of the repository, a function, and what stands there.
pub type Source = (&'static str, &'static str, &'static str);

/// A protocol.
#[derive(Clone, Copy, Debug)]
pub struct Protocol {
    /// What it is called.
    pub name: &'static str,
    /// The code that it models.
    pub source: &'static [Source],
    /// What the map promises of it.
    pub promise: &'static str,
    /// The program, as [`program`](crate::program) has it.
    pub program: &'static str,
    /// The outcomes that would break the promise.
    pub forbidden: &'static str,
    /// Whether the promise holds if loads and stores of 128 bits are two of 64 ([`Reading::Halves`](crate::Reading::Halves)).
    pub holds_in_halves: bool,
    /// Whether accesses of different sizes meet that nothing orders, so that the model by its letter promises nothing
    /// ([`Reading::Strict`](crate::Reading::Strict)).
    pub has_mixed_sizes: bool,
    /// The same with less.
    pub weakened: &'static [Weakened],
}

/// A change that takes something away.
#[derive(Clone, Copy, Debug)]
pub struct Weakened {
    /// What is taken away.
    pub what: &'static str,
    /// What stands in the program, and what stands there then. Each is there, and all of its occurrences change.
    pub changes: &'static [(&'static str, &'static str)],
    /// Whether something forbidden is reached: what was taken away is needed.
    pub is_needed: bool,
}

/// What is needed.
const fn needed(what: &'static str, changes: &'static [(&'static str, &'static str)]) -> Weakened {
    Weakened {
        what,
        changes,
        is_needed: true,
    }
}

/// What could be taken away, as far as this protocol goes.
const fn not_needed(
    what: &'static str,
    changes: &'static [(&'static str, &'static str)],
) -> Weakened {
    Weakened {
        what,
        changes,
        is_needed: false,
    }
}

impl Protocol {
    /// The program, and its forbidden outcomes.
    ///
    /// # Panics
    /// If they cannot be read.
    pub fn parsed(&self) -> (Program, Condition) {
        self.parse(self.program)
    }

    /// A weakened program, and its forbidden outcomes.
    ///
    /// # Panics
    /// If they cannot be read, or something that changes does not stand there.
    pub fn weakened(&self, weakened: &Weakened) -> (Program, Condition) {
        let mut text = self.program.to_owned();
        for (old, new) in weakened.changes {
            assert!(text.contains(old), "{}: no `{old}` in {text}", self.name);
            text = text.replace(old, new);
        }
        self.parse(&text)
    }

    fn parse(&self, text: &str) -> (Program, Condition) {
        let wrong = |wrong| -> ! { panic!("{}: {wrong}", self.name) };
        let program = Program::parse(text).unwrap_or_else(|e| wrong(e));
        assert!(
            program.has_distinct_names(),
            "{}: a place and a register have one name",
            self.name
        );
        let condition = program
            .condition(self.forbidden)
            .unwrap_or_else(|e| wrong(e));
        (program, condition)
    }
}

/// All protocols.
pub fn all() -> impl Iterator<Item = &'static Protocol> {
    [slots::ALL, counts::ALL, chains::ALL, rows::ALL]
        .into_iter()
        .flatten()
}

/// The protocol of that name.
///
/// # Panics
/// If there is none.
pub fn named(name: &str) -> &'static Protocol {
    all()
        .find(|protocol| protocol.name == name)
        .unwrap_or_else(|| panic!("no protocol {name}"))
}

/// The table of `docs/decisions/memory-axioms.md`.
pub fn table() -> String {
    let mut table = String::from(
        "| protocol | promise | each needed | as halves | sizes |\n|---|---|---|---|---|\n",
    );
    for protocol in all() {
        let needed: Vec<_> = protocol
            .weakened
            .iter()
            .filter(|w| w.is_needed)
            .map(|w| w.what)
            .collect();
        writeln!(
            table,
            "| {} | {} | {} | {} | {} |",
            protocol.name,
            protocol.promise,
            needed.join("; "),
            if protocol.holds_in_halves {
                "holds"
            } else {
                "**fails**"
            },
            if protocol.has_mixed_sizes {
                "mixed"
            } else {
                "one"
            },
        )
        .expect("a string grows");
    }
    table
}

/// The list of what is not needed, of the same page.
pub fn not_needed_list() -> String {
    let mut list = String::new();
    for protocol in all() {
        for weakened in protocol.weakened.iter().filter(|w| !w.is_needed) {
            writeln!(list, "- {}: {}", protocol.name, weakened.what).expect("a string grows");
        }
    }
    list
}
