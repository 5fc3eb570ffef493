//! Finds atomics that acquire and whose result no instruction reads. The assembler of CUDA 12.3 and 12.4 makes a
//! reduction of such an atomic on sm_90, and drops the acquire: what the thread reads next may be older than what it
//! was to see.

use std::collections::{BTreeMap, BTreeSet};

use super::module::{self, Entry, Instruction, Module};

/// A register: the block of inline assembly that declares it, 0 outside of all, and its name.
type Register<'a> = (usize, &'a str);

/// An instruction, and what it writes and reads.
struct Step<'a> {
    instruction: Instruction<'a>,
    writes: Vec<Register<'a>>,
    reads: Vec<Register<'a>>,
}

/// The opcodes of all such atomics of a kernel. Not along paths: a register that is read anywhere counts as read.
pub fn acquires<'a>(module: &'a Module, entry: &Entry) -> Vec<&'a str> {
    let acquires = |instruction: &Instruction<'_>| {
        let mut parts = instruction.opcode.split('.');
        parts.next() == Some("atom") && parts.any(|part| matches!(part, "acquire" | "acq_rel"))
    };
    if !module.instructions(entry).any(|it| acquires(&it)) {
        return Vec::new();
    }
    let steps = steps(module, entry);
    let live = live(&steps);
    steps
        .iter()
        .filter(|step| acquires(&step.instruction))
        .filter(|step| !step.writes.iter().any(|register| live.contains(register)))
        .map(|step| step.instruction.opcode)
        .collect()
}

/// Registers whose values something depends on that is not a register.
fn live<'a>(steps: &[Step<'a>]) -> BTreeSet<Register<'a>> {
    let mut writers: BTreeMap<Register<'_>, Vec<usize>> = BTreeMap::new();
    for (number, step) in steps.iter().enumerate() {
        for &register in &step.writes {
            writers.entry(register).or_default().push(number);
        }
    }
    let effects = steps.iter().filter(|step| has_effect(&step.instruction));
    let mut open: Vec<_> = effects.flat_map(|step| &step.reads).copied().collect();
    let mut live = BTreeSet::new();
    while let Some(register) = open.pop() {
        if live.insert(register) {
            let writers = writers.get(&register).into_iter().flatten();
            open.extend(writers.flat_map(|&number| &steps[number].reads));
        }
    }
    live
}

/// Whether an instruction does more than to write its registers: what it reads then matters.
fn has_effect(instruction: &Instruction<'_>) -> bool {
    const PURE: [&str; 44] = [
        "abs", "add", "addc", "and", "bfe", "bfi", "bfind", "bmsk", "brev", "clz", "cnot",
        "copysign", "cvt", "cvta", "div", "ex2", "fma", "fns", "ld", "lg2", "lop3", "mad", "madc",
        "max", "min", "mov", "mul", "mul24", "neg", "not", "or", "popc", "prmt", "rcp", "rem",
        "selp", "set", "setp", "shf", "shl", "shr", "sub", "subc", "xor",
    ];
    let operation = instruction.opcode.split('.').next().unwrap_or_default();
    !PURE.contains(&operation)
}

/// The instructions of a kernel with their registers.
fn steps<'a>(module: &'a Module, entry: &Entry) -> Vec<Step<'a>> {
    let mut steps = Vec::new();
    // The blocks that are open, each with its number and what it declares.
    let mut open: Vec<(usize, BTreeSet<&str>)> = Vec::new();
    let mut blocks = 0;
    for statement in module.statements(entry) {
        let code = statement.trim_start_matches(|c: char| "{}".contains(c) || c.is_whitespace());
        for brace in statement[..statement.len() - code.len()].chars() {
            match brace {
                '{' => {
                    blocks += 1;
                    open.push((blocks, BTreeSet::new()));
                }
                '}' => drop(open.pop()),
                _ => {}
            }
        }
        if let (Some(declared), Some((_, names))) = (code.strip_prefix(".reg"), open.last_mut()) {
            names.extend(words(declared));
        }
        let Some(instruction) = module::instruction(statement) else {
            continue;
        };
        let resolve = |name| {
            let mut blocks = open.iter().rev();
            let block = blocks.find(|(_, names)| names.contains(name));
            (block.map_or(0, |&(number, _)| number), name)
        };
        let (written, read) = split(&instruction);
        steps.push(Step {
            instruction,
            writes: words(written).map(resolve).collect(),
            reads: words(instruction.guard)
                .chain(words(read))
                .map(resolve)
                .collect(),
        });
    }
    steps
}

/// The operands that an instruction writes, and the others.
fn split<'a>(instruction: &Instruction<'a>) -> (&'a str, &'a str) {
    const WRITE_NOTHING: [&str; 12] = [
        "bar", "barrier", "bra", "brx", "call", "cp", "fence", "membar", "prefetch", "red", "ret",
        "st",
    ];
    let operation = instruction.opcode.split('.').next().unwrap_or_default();
    if WRITE_NOTHING.contains(&operation) {
        return ("", instruction.operands);
    }
    let mut depth = 0;
    let end = instruction.operands.find(|c| {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    });
    instruction
        .operands
        .split_at(end.unwrap_or(instruction.operands.len()))
}

/// The names in a list of operands; numbers and types are among them, and do no harm.
fn words(operands: &str) -> impl Iterator<Item = &str> {
    operands
        .split(|c: char| !(c.is_ascii_alphanumeric() || "%_$".contains(c)))
        .filter(|word| !word.is_empty() && *word != "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unread(body: &str) -> Vec<String> {
        let text = format!(".visible .entry k()\n{{\n.reg .b64 %rd<9>;\n{body}\nret;\n}}\n");
        let module = Module::parse(&text).unwrap();
        let found = acquires(&module, &module.entries[0]);
        found.into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn results_that_nothing_reads() {
        for body in [
            "atom.acquire.gpu.global.add.u64 %rd1, [%rd2], 1;",
            "atom.acquire.gpu.global.add.u64 _, [%rd2], 1;",
            "atom.acquire.cta.shared.add.u64 %rd1, [%rd2], 1;",
            // Read by what nothing reads.
            "atom.acquire.gpu.global.add.u64 %rd1, [%rd2], 1; add.s64 %rd3, %rd1, 1;",
            "$L: atom.acquire.gpu.global.add.u64 %rd1, [%rd2], 1; add.s64 %rd1, %rd1, 1;",
            // Names of other blocks.
            "{ .reg .b128 %o; atom.acquire.gpu.global.exch.b128 %o, [%rd2], %n; mov.b128 {%rd3, %rd4}, %o; }
             { .reg .b64 %o; ld.global.b64 %o, [%rd2]; st.global.b64 [%rd2], %o; }",
        ] {
            assert_eq!(unread(body).len(), 1, "{body}");
        }
    }

    #[test]
    fn results_that_are_read() {
        for body in [
            "atom.acq_rel.gpu.global.add.u64 %rd1, [%rd2], 1; st.global.b64 [%rd2], %rd1;",
            "atom.acq_rel.gpu.global.add.u64 %rd1, [%rd2], 1; setp.eq.u64 %p1, %rd1, 0; @%p1 bra $L; $L:",
            "atom.acq_rel.gpu.global.add.u64 %rd1, [%rd2], 1; shfl.sync.idx.b32 %r1, %rd1, 0, 31, -1;",
            "{ .reg .b128 %o; atom.acq_rel.gpu.global.exch.b128 %o, [%rd2], %n; mov.b128 {%rd3, %rd4}, %o; }
             { .reg .b64 %o; ld.global.b64 %o, [%rd2]; st.global.b64 [%rd2], %rd4; }",
            // Those that do not acquire.
            "atom.release.gpu.global.add.u64 %rd1, [%rd2], 1; atom.relaxed.gpu.global.add.u64 %rd1, [%rd2], 1;",
            "red.release.gpu.global.add.u64 [%rd2], 1; fence.acq_rel.gpu;",
        ] {
            assert!(unread(body).is_empty(), "{body}");
        }
    }
}
