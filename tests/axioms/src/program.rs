//! Programs and conditions, as text.
//!
//! ```text
//! slot: E E                                      a place of two cells, and what they hold first
//! == inserter, block 0                           a thread, and where it runs: block, perhaps `gpu`
//! atom.relaxed.gpu.cas.b128 (k v), [slot], (E E), (K 7)
//! @k=E st.relaxed.gpu.b64 [slot.1], v+1          only if the register `k` has this value
//! ```
//!
//! Instructions are PTX's, and so is the order of their operands. A **cell** is a part of memory that no access of the program
//! touches only a part of: here a word of the slot. An access has as many cells as values stand there. Names in upper case are
//! values, each another one; names in lower case are registers, which are assigned once in the whole program; `_` is a value
//! that is not looked at. A line may end at `;`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What a cell or a register holds.
pub type Value = i64;

/// The value that the first name stands for, and how far it is to the next one: more than programs count to.
const NAMED: Value = 1 << 32;

/// The threads that an instruction interacts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Those of the block.
    Cta,
    /// Those of the device.
    Gpu,
    /// All.
    Sys,
}

/// What an instruction says of order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// `.weak`, and no word at all.
    Weak,
    /// `.relaxed`
    Relaxed,
    /// `.acquire`
    Acquire,
    /// `.release`
    Release,
    /// `.acq_rel`
    AcqRel,
    /// `.sc`, of fences.
    Sc,
}

impl Order {
    /// Whether it acquires.
    pub fn acquires(self) -> bool {
        matches!(self, Self::Acquire | Self::AcqRel | Self::Sc)
    }

    /// Whether it releases.
    pub fn releases(self) -> bool {
        matches!(self, Self::Release | Self::AcqRel | Self::Sc)
    }
}

/// Part of a value that is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    /// A constant.
    Is(Value),
    /// A register.
    Of(Register),
}

/// A register, by its number.
pub type Register = usize;

/// What atomics do with what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// `exch`
    Exchange,
    /// `cas`
    Compare,
    /// `add`
    Add,
    /// `or`
    Or,
    /// `and`
    And,
    /// `xor`
    Xor,
    /// `max`
    Max,
}

/// What an instruction does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// `ld`
    Load,
    /// `st`
    Store,
    /// `atom` or `red`
    Atomic(Change),
    /// `fence`
    Fence,
    /// `bar.sync`
    Barrier,
}

/// An instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Runs only if all of these hold.
    pub guard: Vec<Comparison>,
    /// What it does.
    pub action: Action,
    /// Whether it is a `red`, which returns nothing.
    pub is_reduction: bool,
    /// Its order.
    pub order: Order,
    /// Its scope.
    pub scope: Scope,
    /// Whether it accesses 128 bits.
    pub is_128: bool,
    /// The first cell.
    pub cell: usize,
    /// How many cells.
    pub cells: usize,
    /// The registers that get what was there, one per cell; `None` where nothing looks at it.
    pub registers: Vec<Option<Register>>,
    /// What a compare-and-swap expects, per cell.
    pub expected: Vec<Vec<Term>>,
    /// What is written, or the operand, per cell.
    pub values: Vec<Vec<Term>>,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// Its block, and the device.
    pub block: (u32, u32),
    /// What it runs.
    pub instructions: Vec<Instruction>,
}

/// A program.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// What each cell holds first.
    pub first: Vec<Value>,
    /// The threads.
    pub threads: Vec<Thread>,
    /// Where places begin.
    places: BTreeMap<String, (usize, usize)>,
    /// Registers by name.
    registers: BTreeMap<String, Register>,
    /// Values by name.
    names: BTreeMap<String, Value>,
}

/// What a program came to: registers, and what cells hold at the end. A register is `None` if its instruction did not run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Outcome {
    /// By register.
    pub registers: Vec<Option<Value>>,
    /// By cell.
    pub cells: Vec<Value>,
}

/// One side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Constant(Value),
    Register(Register),
    Cell(usize),
}

/// An equality, or an inequality. Neither holds of a register whose instruction did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison {
    left: Side,
    right: Side,
    is_equal: bool,
}

impl Comparison {
    /// Whether it holds of what registers and cells hold.
    fn holds(
        &self,
        register: &impl Fn(Register) -> Option<Value>,
        cell: &impl Fn(usize) -> Option<Value>,
    ) -> bool {
        let value = |side| match side {
            Side::Constant(value) => Some(value),
            Side::Register(r) => register(r),
            Side::Cell(c) => cell(c),
        };
        match (value(self.left), value(self.right)) {
            (Some(left), Some(right)) => (left == right) == self.is_equal,
            _ => false,
        }
    }

    /// Whether it holds of registers: of a guard, which looks at nothing else.
    pub fn holds_of(&self, register: impl Fn(Register) -> Option<Value>) -> bool {
        self.holds(&register, &|_| None)
    }

    /// The registers that it looks at.
    pub fn looks_at(&self) -> impl Iterator<Item = Register> {
        [self.left, self.right]
            .into_iter()
            .filter_map(|side| match side {
                Side::Register(r) => Some(r),
                _ => None,
            })
    }
}

/// Alternatives, each of comparisons that hold together: `k=K v!=7; k=E v=7`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition(Vec<Vec<Comparison>>);

impl Condition {
    /// Whether an outcome meets it.
    pub fn holds(&self, outcome: &Outcome) -> bool {
        self.0.iter().any(|all| {
            all.iter()
                .all(|one| one.holds(&|r| outcome.registers[r], &|c| Some(outcome.cells[c])))
        })
    }
}

/// Why a text is no program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    line: String,
    why: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.line, self.why)
    }
}

type Parsed<T> = Result<T, String>;

impl Program {
    /// Reads a program.
    pub fn parse(text: &str) -> Result<Self, Wrong> {
        let mut program = Self::default();
        for line in text.split(['\n', ';']).map(str::trim) {
            if !line.is_empty() {
                program.line(line).map_err(|why| Wrong {
                    line: line.to_owned(),
                    why,
                })?;
            }
        }
        Ok(program)
    }

    /// Reads a condition on its outcomes.
    pub fn condition(&self, text: &str) -> Result<Condition, Wrong> {
        let alternative = |text: &str| {
            text.split_whitespace()
                .map(|one| self.comparison(one, false))
                .collect::<Parsed<Vec<_>>>()
                .map_err(|why| Wrong {
                    line: text.trim().to_owned(),
                    why,
                })
        };
        Ok(Condition(
            text.split(';').map(alternative).collect::<Result<_, _>>()?,
        ))
    }

    /// How many registers there are.
    pub fn registers(&self) -> usize {
        self.registers.len()
    }

    /// The names of registers, by number.
    pub fn register_names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.registers.iter().collect();
        names.sort_by_key(|&(_, number)| number);
        names.into_iter().map(|(name, _)| &**name).collect()
    }

    /// The places in their order: the first cell, and how many.
    pub fn places(&self) -> Vec<(usize, usize)> {
        let mut places: Vec<_> = self.places.values().copied().collect();
        places.sort_unstable();
        places
    }

    /// The number of a cell, as `place` or `place.1`.
    pub fn cell_number(&self, name: &str) -> Option<usize> {
        self.cell(name).ok().map(|(cell, _)| cell)
    }

    /// The name of a value that has one, and what was added to it.
    pub fn name_of(&self, value: Value) -> Option<(&str, Value)> {
        let named = self
            .names
            .iter()
            .find(|&(_, &of)| of / NAMED == value / NAMED);
        named.map(|(name, of)| (&**name, value - of))
    }

    /// The value of a register of that name, and of a cell as `place` or `place.1`, in an outcome.
    pub fn value(&self, outcome: &Outcome, name: &str) -> Option<Value> {
        match self.side(name, false).ok()? {
            Side::Constant(value) => Some(value),
            Side::Register(r) => outcome.registers[r],
            Side::Cell(c) => Some(outcome.cells[c]),
        }
    }

    /// An outcome, as text.
    pub fn show(&self, outcome: &Outcome) -> String {
        let value = |value: Value| match self.name_of(value) {
            Some((name, 0)) => name.to_owned(),
            Some((name, more)) => format!("{name}+{more}"),
            None => value.to_string(),
        };
        let mut shown = Vec::new();
        for (name, &r) in &self.registers {
            if let Some(held) = outcome.registers[r] {
                shown.push(format!("{name}={}", value(held)));
            }
        }
        for (place, &(first, cells)) in &self.places {
            let held: Vec<_> = outcome.cells[first..first + cells]
                .iter()
                .map(|&v| value(v))
                .collect();
            shown.push(format!("[{place}]={}", held.join(" ")));
        }
        shown.join(" ")
    }

    fn line(&mut self, line: &str) -> Parsed<()> {
        if let Some(header) = line.strip_prefix("==") {
            let number = |word: Option<&str>| {
                word.and_then(|w| w.parse().ok())
                    .ok_or("a thread runs in a block of some number")
            };
            let place = header
                .rsplit_once(", block ")
                .map_or("", |(_, place)| place);
            let mut words = place.split(' ');
            let block = number(words.next())?;
            let mut gpu = 0;
            if words.next() == Some("gpu") {
                gpu = number(words.next())?;
            }
            self.threads.push(Thread {
                block: (gpu, block),
                instructions: Vec::new(),
            });
            return Ok(());
        }
        if self.threads.is_empty() {
            let (place, values) = line.split_once(':').ok_or("a place and what it holds")?;
            let first = self.first.len();
            for value in values.split_whitespace() {
                let value = self.constant(value).ok_or("a place holds values")?;
                self.first.push(value);
            }
            let there = (first, self.first.len() - first);
            if self.places.insert(place.trim().to_owned(), there).is_some() {
                return Err("a place of this name is there".into());
            }
            return Ok(());
        }
        let instruction = self.instruction(line)?;
        let thread = self.threads.last_mut().expect("one is there");
        thread.instructions.push(instruction);
        Ok(())
    }

    /// A number, or the value of a name.
    fn constant(&mut self, word: &str) -> Option<Value> {
        if let Ok(number) = word.parse() {
            return Some(number);
        }
        if !word.starts_with(|c: char| c.is_ascii_uppercase()) {
            return None;
        }
        let next = NAMED * (1 + self.names.len() as Value);
        Some(*self.names.entry(word.to_owned()).or_insert(next))
    }

    fn term(&mut self, word: &str) -> Parsed<Term> {
        if let Some(value) = self.constant(word) {
            return Ok(Term::Is(value));
        }
        let register = self.registers.get(word);
        register
            .map(|&r| Term::Of(r))
            .ok_or_else(|| format!("no register {word} before"))
    }

    fn side(&self, word: &str, is_guard: bool) -> Parsed<Side> {
        if let Ok(number) = word.parse() {
            return Ok(Side::Constant(number));
        }
        if let Some(&value) = self.names.get(word) {
            return Ok(Side::Constant(value));
        }
        if let Some(&r) = self.registers.get(word) {
            return Ok(Side::Register(r));
        }
        if is_guard {
            return Err(format!("no register {word} before"));
        }
        self.cell(word).map(|(cell, _)| Side::Cell(cell))
    }

    fn comparison(&self, text: &str, is_guard: bool) -> Parsed<Comparison> {
        let (left, right) = text.split_once('=').ok_or("a comparison has `=` or `!=`")?;
        let (left, is_equal) = match left.strip_suffix('!') {
            Some(left) => (left, false),
            None => (left, true),
        };
        Ok(Comparison {
            left: self.side(left, is_guard)?,
            right: self.side(right, is_guard)?,
            is_equal,
        })
    }

    /// The cell of `place` or `place.1`, and how many there are from there on.
    fn cell(&self, text: &str) -> Parsed<(usize, usize)> {
        let (place, at) = match text.rsplit_once('.') {
            Some((place, at)) => (place, at.parse().map_err(|_| "a cell has a number")?),
            None => (text, 0),
        };
        let &(first, cells) = self
            .places
            .get(place)
            .ok_or_else(|| format!("no place {place}"))?;
        if at >= cells {
            return Err(format!("{place} has {cells} cells"));
        }
        Ok((first + at, cells - at))
    }

    fn instruction(&mut self, line: &str) -> Parsed<Instruction> {
        let mut guard = Vec::new();
        let mut rest = line;
        if let Some(guarded) = line.strip_prefix('@') {
            let (conditions, after) = guarded.split_once(' ').ok_or("what is guarded?")?;
            for one in conditions.split('&') {
                guard.push(self.comparison(one, true)?);
            }
            rest = after.trim();
        }
        let (mnemonic, operands) = rest.split_once(' ').unwrap_or((rest, ""));
        let mut instruction = Instruction {
            guard,
            action: Action::Load,
            is_reduction: false,
            order: Order::Weak,
            scope: Scope::Sys,
            is_128: false,
            cell: 0,
            cells: 0,
            registers: Vec::new(),
            expected: Vec::new(),
            values: Vec::new(),
        };
        let mut words = mnemonic.split('.');
        instruction.action = match words.next() {
            Some("ld") => Action::Load,
            Some("st") => Action::Store,
            Some("atom") => Action::Atomic(Change::Exchange),
            Some("red") => {
                instruction.is_reduction = true;
                Action::Atomic(Change::Exchange)
            }
            Some("fence") => Action::Fence,
            Some("bar") => Action::Barrier,
            _ => return Err("no such instruction".into()),
        };
        let mut scope = None;
        for word in words {
            match word {
                "weak" => instruction.order = Order::Weak,
                "relaxed" => instruction.order = Order::Relaxed,
                "acquire" => instruction.order = Order::Acquire,
                "release" => instruction.order = Order::Release,
                "acq_rel" => instruction.order = Order::AcqRel,
                "sc" => instruction.order = Order::Sc,
                "cta" => scope = Some(Scope::Cta),
                "gpu" => scope = Some(Scope::Gpu),
                "sys" => scope = Some(Scope::Sys),
                "b128" => instruction.is_128 = true,
                "b32" | "b64" | "sync" => {}
                _ => instruction.action = Action::Atomic(change(word)?),
            }
        }
        let is_strong = instruction.order != Order::Weak;
        if is_strong != scope.is_some() {
            return Err("strong instructions have a scope, weak ones none".into());
        }
        if matches!(instruction.action, Action::Atomic(_) | Action::Fence) && !is_strong {
            return Err("atomics and fences have an order".into());
        }
        if instruction.is_reduction && instruction.order.acquires() {
            return Err("a red acquires nothing".into());
        }
        instruction.scope = scope.unwrap_or(Scope::Sys);
        self.operands(&mut instruction, operands)?;
        Ok(instruction)
    }

    fn operands(&mut self, instruction: &mut Instruction, text: &str) -> Parsed<()> {
        let mut operands = text.split(',').map(str::trim);
        let mut next = || {
            operands
                .next()
                .filter(|o| !o.is_empty())
                .ok_or("an operand is missing")
        };
        if matches!(instruction.action, Action::Fence | Action::Barrier) {
            return match next() {
                Ok(operand) => Err(format!("{operand} is too much")),
                Err(_) => Ok(()),
            };
        }
        let mut registers = None;
        if instruction.action != Action::Store && !instruction.is_reduction {
            registers = Some(list(next()?));
        }
        let place = next()?.strip_prefix('[').and_then(|p| p.strip_suffix(']'));
        let (cell, there) = self.cell(place.ok_or("a place stands in brackets")?)?;
        instruction.cell = cell;
        if instruction.action != Action::Load {
            if instruction.action == Action::Atomic(Change::Compare) {
                instruction.expected = self.values(next()?)?;
            }
            instruction.values = self.values(next()?)?;
        }
        if let Some(operand) = operands.next() {
            return Err(format!("{operand} is too much"));
        }
        instruction.cells = match &registers {
            Some(registers) if instruction.action == Action::Load => registers.len(),
            _ => instruction.values.len(),
        };
        let cells = instruction.cells;
        if cells == 0 || cells > there {
            return Err("there are not as many cells".into());
        }
        if instruction.is_128 && !cells.is_multiple_of(2) {
            return Err("the halves of 128 bits have as many cells".into());
        }
        if !instruction.expected.is_empty() && instruction.expected.len() != cells {
            return Err("as many are expected as are written".into());
        }
        for name in registers.unwrap_or_default() {
            let register = (name != "_").then(|| {
                let number = self.registers.len();
                (self.registers.insert(name.to_owned(), number), number)
            });
            if let Some((Some(_), _)) = register {
                return Err(format!("the register {name} has a value"));
            }
            instruction
                .registers
                .push(register.map(|(_, number)| number));
        }
        if instruction.registers.is_empty() {
            instruction.registers = vec![None; cells];
        }
        if instruction.registers == [None] {
            instruction.registers = vec![None; cells];
        }
        if instruction.registers.len() != cells {
            return Err("there are as many registers as cells".into());
        }
        Ok(())
    }

    fn values(&mut self, text: &str) -> Parsed<Vec<Vec<Term>>> {
        let mut values = Vec::new();
        for word in list(text) {
            let terms = word.split('+').map(|term| self.term(term));
            values.push(terms.collect::<Parsed<Vec<_>>>()?);
        }
        Ok(values)
    }
}

/// The words of `(a b)`, or of `a`.
fn list(text: &str) -> Vec<&str> {
    text.trim_matches(['(', ')']).split_whitespace().collect()
}

fn change(word: &str) -> Parsed<Change> {
    Ok(match word {
        "exch" => Change::Exchange,
        "cas" => Change::Compare,
        "add" => Change::Add,
        "or" => Change::Or,
        "and" => Change::And,
        "xor" => Change::Xor,
        "max" => Change::Max,
        _ => return Err(format!("{word} is no part of an instruction")),
    })
}

/// Names that are used twice for places or registers would hide one of them.
impl Program {
    /// Whether no name stands for two things.
    pub fn has_distinct_names(&self) -> bool {
        let places: BTreeSet<_> = self.places.keys().collect();
        self.registers.keys().all(|name| !places.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_program_is_refused() {
        let place = "x: 0 1\n== a, block 0\n";
        for (line, why) in [
            ("ld.relaxed r, [x]", "strong instructions have a scope"),
            ("ld.gpu r, [x]", "strong instructions have a scope"),
            ("atom.add.b64 _, [x], 1", "atomics and fences have an order"),
            ("red.acquire.gpu.add.b64 [x], 1", "a red acquires nothing"),
            ("ld r, [y]", "no place y"),
            ("ld r, [x.2]", "x has 2 cells"),
            ("ld (r s), [x.1]", "not as many cells"),
            ("st [x], r", "no register r"),
            ("@r=0 st [x], 1", "no register r"),
            ("st [x], 1, 2", "2 is too much"),
            ("st [x]", "an operand is missing"),
            ("st x, 1", "in brackets"),
            ("fence.acq_rel.gpu x", "x is too much"),
            ("mov r, 1", "no such instruction"),
            ("ld.b128 r, [x]", "halves of 128 bits"),
            ("ld.vain r, [x]", "vain is no part"),
            (
                "atom.relaxed.gpu.cas.b128 (r s), [x], 0, (1 2)",
                "as many are expected",
            ),
            ("ld r, [x]; ld r, [x.1]", "the register r has a value"),
        ] {
            let wrong = Program::parse(&format!("{place}{line}")).unwrap_err();
            assert!(wrong.to_string().contains(why), "{line}: {wrong}");
        }
        for (text, why) in [
            ("x: 0; x: 1", "a place of this name"),
            ("x: y", "a place holds values"),
            ("== a", "in a block of some number"),
        ] {
            let wrong = Program::parse(text).unwrap_err();
            assert!(wrong.to_string().contains(why), "{text}: {wrong}");
        }
    }

    #[test]
    fn conditions_look_at_registers_and_cells() {
        let program = Program::parse("x: E 1\n== a, block 0\nld (r s), [x]").unwrap();
        let e = program.first[0];
        let outcome = Outcome {
            registers: vec![Some(e), None],
            cells: vec![e, 1],
        };
        for (text, holds) in [
            ("r=E", true),
            ("r!=E", false),
            ("r=x", true),
            ("x.1=1", true),
            ("x.1!=1; r=E x=E", true),
            ("s=1", false),
            ("s!=1", false),
        ] {
            let condition = program.condition(text).unwrap();
            assert_eq!(condition.holds(&outcome), holds, "{text}");
        }
        assert!(program.condition("t=1").is_err());
        let more = Outcome {
            registers: vec![Some(e + 3), None],
            ..outcome.clone()
        };
        assert_eq!(program.show(&more), "r=E+3 [x]=E 1");
        assert_eq!(program.show(&outcome), "r=E [x]=E 1");
    }
}
