//! What a kernel must not contain, and why.

use std::collections::BTreeMap;

use super::module::{Entry, Instruction, Module};

/// A rule about single instructions.
struct Rule {
    /// The instruction it is about, for messages.
    what: &'static str,
    /// Whether an instruction breaks it.
    applies: fn(&Instruction<'_>) -> bool,
    /// Why that is not allowed.
    reason: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        what: "call",
        applies: |i| starts(i, "call"),
        reason: "everything is inlined, so a call is a panic (bounds check, division by zero, \
                 overflow), a memcpy or vprintf; a panic kills the whole context. Use unchecked \
                 access, and debug assertions for the CPU back end",
    },
    Rule {
        what: "trap",
        applies: |i| starts(i, "trap") || starts(i, "brkpt"),
        reason: "a trap kills the whole context, with every map in it",
    },
    Rule {
        what: "exit",
        applies: |i| starts(i, "exit"),
        reason: "a lane that exits early leaves the others waiting at the next barrier; the \
                 compiler writes it after unreachable code",
    },
    Rule {
        what: "local memory",
        applies: |i| {
            ["ld.local", "st.local", "alloca", "stacksave"]
                .iter()
                .any(|opcode| i.opcode.starts_with(opcode))
        },
        reason: "an array that is indexed at run time, or a loop that was not unrolled, has left \
                 the registers",
    },
    Rule {
        what: "system scope",
        applies: |i| i.opcode.split('.').any(|part| part == "sys") && i.opcode != SYSTEM_ADD,
        reason: "core::sync::atomic makes system-scoped operations; use gpumap-simt's atomics, \
                 which say their scope",
    },
];

/// What gpumap-simt's `system_add` is; the compiler's own atomics are never `red`.
const SYSTEM_ADD: &str = "red.relaxed.sys.global.add.u64";

fn starts(instruction: &Instruction<'_>, operation: &str) -> bool {
    instruction.opcode.split('.').next() == Some(operation)
}

/// One thing that must not be there.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where: a kernel, or the module.
    pub place: String,
    /// What was found, with an example and how often.
    pub what: String,
    /// Why it must not be there.
    pub reason: &'static str,
}

/// Everything in one kernel that must not be there.
pub fn in_entry(module: &Module, entry: &Entry) -> Vec<Finding> {
    let mut found: BTreeMap<usize, (usize, String)> = BTreeMap::new();
    for instruction in module.instructions(entry) {
        for (index, rule) in RULES.iter().enumerate() {
            if (rule.applies)(&instruction) {
                let example = || format!("{} {}", instruction.opcode, one_line(&instruction));
                found.entry(index).or_insert_with(|| (0, example())).0 += 1;
            }
        }
    }
    found
        .into_iter()
        .map(|(index, (count, example))| Finding {
            place: entry.name.clone(),
            what: format!(
                "{} ({count}, as in `{}`)",
                RULES[index].what,
                example.trim()
            ),
            reason: RULES[index].reason,
        })
        .collect()
}

/// Everything outside the kernels that must not be there.
pub fn in_module(module: &Module) -> Vec<Finding> {
    let mut functions = module.functions.clone();
    functions.sort();
    functions.dedup();
    functions
        .into_iter()
        .map(|name| Finding {
            place: "module".to_owned(),
            what: format!("function {name}"),
            reason: "only kernels may be left after inlining; a function here is one that a \
                     kernel calls",
        })
        .collect()
}

fn one_line(instruction: &Instruction<'_>) -> String {
    instruction
        .operands
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<String> {
        let module = Module::parse(text).unwrap();
        in_entry(&module, &module.entries[0])
            .into_iter()
            .map(|finding| finding.what)
            .collect()
    }

    #[test]
    fn panics_and_local_memory_are_found() {
        let module = Module::parse(include_str!("../../samples/panics.ptx")).unwrap();
        let found = in_entry(&module, &module.entries[0]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].what.starts_with("call (2, as in `call.uni _RNv"));
        assert!(
            found[1]
                .what
                .starts_with("local memory (6, as in `st.local.b8")
        );
        assert_eq!(in_module(&module).len(), 3);
    }

    #[test]
    fn clean_kernels_are_clean() {
        let module = Module::parse(include_str!("../../samples/collect.ptx")).unwrap();
        assert!(
            module
                .entries
                .iter()
                .all(|e| in_entry(&module, e).is_empty())
        );
        assert!(in_module(&module).is_empty());
    }

    #[test]
    fn single_instructions() {
        let kernel = |body: &str| format!(".entry k()\n{{\n{body}\n}}\n");
        assert_eq!(findings(&kernel("trap; exit;")).len(), 2);
        assert_eq!(
            findings(&kernel("atom.relaxed.sys.global.add.u32 %r1, [%rd1], 1;")).len(),
            1
        );
        assert!(findings(&kernel("red.relaxed.sys.global.add.u64 [%rd1], %rd2;")).is_empty());
        assert!(
            findings(&kernel(
                "atom.relaxed.gpu.global.add.u32 %r1, [%rd1], 1; ret;"
            ))
            .is_empty()
        );
        // Registers and labels may carry any name.
        assert!(findings(&kernel("callee: mov.u32 trap, exit; ret;")).is_empty());
    }
}
