//! Which read has its value from which write: all ways to run a program.
//!
//! Values follow from these choices, for the axiom *No Thin Air* forbids that a value depends on itself: each instruction is
//! worked out when what it depends on has been, by its registers, its guard or the write that it reads. The write may come later
//! in program order, which the model allows.

use crate::axioms::Reading;
use crate::program::{Action, Change, Order, Program, Scope, Term, Value};

/// What one instruction did to memory, or a half of it.
#[derive(Clone, Debug)]
pub struct Event {
    /// The thread.
    pub thread: usize,
    /// The place in the thread. Halves of one access share it, and have no order.
    pub position: usize,
    /// The device and the block.
    pub block: (u32, u32),
    /// The order.
    pub order: Order,
    /// The scope.
    pub scope: Scope,
    /// Whether it is a fence, a barrier, an atomic, a `red`.
    pub kind: Kind,
    /// The first cell.
    pub cell: usize,
    /// How many cells; none of fences and barriers.
    pub cells: usize,
    /// Which event each cell's value is of, if it reads; `None` is what was there first.
    pub sources: Vec<Option<usize>>,
    /// What it writes, if it does.
    pub written: Vec<Value>,
}

/// What sort of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A load or a store.
    Access,
    /// An atomic, whose result may be looked at.
    Atomic,
    /// An atomic without result.
    Reduction,
    /// A fence.
    Fence,
    /// A barrier of the block.
    Barrier,
}

impl Event {
    /// Whether it reads memory.
    pub fn reads(&self) -> bool {
        !self.sources.is_empty()
    }

    /// Whether it writes memory.
    pub fn writes(&self) -> bool {
        !self.written.is_empty()
    }

    /// Whether it is no weak access.
    pub fn is_strong(&self) -> bool {
        self.order != Order::Weak
    }

    /// Whether it accesses this cell.
    pub fn has(&self, cell: usize) -> bool {
        (self.cell..self.cell + self.cells).contains(&cell)
    }

    /// Where the value of this cell is from, if it reads it.
    pub fn source(&self, cell: usize) -> Option<Option<usize>> {
        self.sources.get(cell.wrapping_sub(self.cell)).copied()
    }
}

/// A way to run a program, that the axioms have yet to judge.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// What happened.
    pub events: Vec<Event>,
    /// What registers got.
    pub registers: Vec<Option<Value>>,
}

/// Calls `f` with every way to run a program.
pub fn each(program: &Program, reading: Reading, mut f: impl FnMut(&Candidate)) {
    let plan = Plan::of(program);
    let mut choices = Choices::default();
    loop {
        let mut run = Run {
            plan: &plan,
            choices: &mut choices,
            states: vec![State::Unseen; plan.all.len()],
            registers: vec![None; program.registers()],
        };
        if (0..plan.all.len()).all(|i| run.work_out(i).is_some()) {
            f(&run.candidate(reading));
        }
        if !choices.go_on() {
            return;
        }
    }
}

/// What is chosen in one run, and among how many.
#[derive(Default)]
struct Choices {
    made: Vec<(usize, usize)>,
    next: usize,
}

impl Choices {
    fn choose(&mut self, among: usize) -> usize {
        if self.next == self.made.len() {
            self.made.push((0, among));
        }
        self.next += 1;
        self.made[self.next - 1].0
    }

    /// Goes on to what has not been tried; says whether there is anything.
    fn go_on(&mut self) -> bool {
        // What came after a refusal was never looked at.
        self.made.truncate(self.next);
        self.next = 0;
        while let Some((chosen, among)) = self.made.last_mut() {
            *chosen += 1;
            if chosen < among {
                return true;
            }
            self.made.pop();
        }
        false
    }
}

/// A program, prepared.
struct Plan<'a> {
    program: &'a Program,
    /// The thread and the place of each instruction.
    all: Vec<(usize, usize)>,
    /// Which instruction assigns a register.
    assigns: Vec<usize>,
    /// Which instructions may write a cell.
    writers: Vec<Vec<usize>>,
}

impl<'a> Plan<'a> {
    fn of(program: &'a Program) -> Self {
        let mut plan = Self {
            program,
            all: Vec::new(),
            assigns: vec![0; program.registers()],
            writers: vec![Vec::new(); program.first.len()],
        };
        for (t, thread) in program.threads.iter().enumerate() {
            for (p, instruction) in thread.instructions.iter().enumerate() {
                let i = plan.all.len();
                plan.all.push((t, p));
                for &register in instruction.registers.iter().flatten() {
                    plan.assigns[register] = i;
                }
                if matches!(instruction.action, Action::Store | Action::Atomic(_)) {
                    for cell in instruction.cell..instruction.cell + instruction.cells {
                        plan.writers[cell].push(i);
                    }
                }
            }
        }
        plan
    }
}

/// What is known of an instruction.
#[derive(Clone, Debug)]
enum State {
    Unseen,
    /// Something that it depends on is being worked out.
    UnderWay,
    /// Its guard does not hold.
    LeftOut,
    /// Where each cell is from, if it reads, and what it writes.
    Ran(Vec<Option<usize>>, Vec<Value>),
}

struct Run<'a, 'p> {
    plan: &'a Plan<'p>,
    choices: &'a mut Choices,
    states: Vec<State>,
    registers: Vec<Option<Value>>,
}

impl Run<'_, '_> {
    /// Works an instruction out. `None` if it cannot be so.
    fn work_out(&mut self, i: usize) -> Option<()> {
        match self.states[i] {
            State::Unseen => {}
            State::UnderWay => return None,
            State::LeftOut | State::Ran(..) => return Some(()),
        }
        self.states[i] = State::UnderWay;
        let (thread, position) = self.plan.all[i];
        let instruction = &self.plan.program.threads[thread].instructions[position];
        for one in &instruction.guard {
            for register in one.looks_at() {
                self.work_out(self.plan.assigns[register])?;
            }
        }
        let mut guard = instruction.guard.iter();
        if !guard.all(|one| one.holds_of(|r| self.registers[r])) {
            self.states[i] = State::LeftOut;
            return Some(());
        }
        let expected = self.values(&instruction.expected)?;
        let operands = self.values(&instruction.values)?;
        let (mut sources, mut there) = (Vec::new(), Vec::new());
        if matches!(instruction.action, Action::Load | Action::Atomic(_)) {
            for cell in instruction.cell..instruction.cell + instruction.cells {
                let (source, value) = self.read(i, cell)?;
                sources.push(source);
                there.push(value);
            }
        }
        let written = match instruction.action {
            Action::Store => operands,
            Action::Atomic(Change::Compare) if there != expected => Vec::new(),
            Action::Atomic(change) => {
                let pairs = there.iter().zip(operands);
                pairs
                    .map(|(&there, operand)| apply(change, there, operand))
                    .collect()
            }
            Action::Load | Action::Fence | Action::Barrier => Vec::new(),
        };
        for (register, value) in instruction.registers.iter().zip(there) {
            if let Some(register) = *register {
                self.registers[register] = Some(value);
            }
        }
        self.states[i] = State::Ran(sources, written);
        Some(())
    }

    fn values(&mut self, all: &[Vec<Term>]) -> Option<Vec<Value>> {
        let mut values = Vec::new();
        for terms in all {
            let mut sum = 0;
            for &term in terms {
                sum += match term {
                    Term::Is(value) => value,
                    Term::Of(register) => {
                        self.work_out(self.plan.assigns[register])?;
                        self.registers[register].expect("what uses a register has its guard")
                    }
                };
            }
            values.push(sum);
        }
        Some(values)
    }

    /// Chooses where instruction `i` has the value of a cell from.
    fn read(&mut self, i: usize, cell: usize) -> Option<(Option<usize>, Value)> {
        let writers = &self.plan.writers[cell];
        let chosen = self.choices.choose(writers.len() + 1);
        if chosen == writers.len() {
            return Some((None, self.plan.program.first[cell]));
        }
        let source = writers[chosen];
        if source == i {
            return None;
        }
        self.work_out(source)?;
        let State::Ran(_, written) = &self.states[source] else {
            return None;
        };
        let (thread, position) = self.plan.all[source];
        let first = self.plan.program.threads[thread].instructions[position].cell;
        // None if it is an exchange that failed.
        Some((Some(source), *written.get(cell - first)?))
    }

    /// The events of what ran.
    fn candidate(&self, reading: Reading) -> Candidate {
        // The first event of each instruction, and of how many cells its events are.
        let mut places = vec![(0, 0); self.states.len()];
        let mut events = Vec::new();
        for (i, state) in self.states.iter().enumerate() {
            let State::Ran(sources, written) = state else {
                continue;
            };
            let (thread, position) = self.plan.all[i];
            let from = &self.plan.program.threads[thread];
            let instruction = &from.instructions[position];
            let kind = match instruction.action {
                Action::Load | Action::Store => Kind::Access,
                Action::Atomic(_) if instruction.is_reduction => Kind::Reduction,
                Action::Atomic(_) => Kind::Atomic,
                Action::Fence => Kind::Fence,
                Action::Barrier => Kind::Barrier,
            };
            let is_halved =
                reading == Reading::Halves && instruction.is_128 && kind == Kind::Access;
            let cells = instruction.cells / if is_halved { 2 } else { 1 };
            places[i] = (events.len(), cells);
            for half in 0..=usize::from(is_halved) {
                let part = |len: usize| match len {
                    0 => 0..0,
                    _ => half * cells..(half + 1) * cells,
                };
                events.push(Event {
                    thread,
                    position,
                    block: from.block,
                    order: instruction.order,
                    scope: instruction.scope,
                    kind,
                    cell: instruction.cell + half * cells,
                    cells,
                    sources: sources[part(sources.len())].to_vec(),
                    written: written[part(written.len())].to_vec(),
                });
            }
        }
        // From instructions to events.
        for event in &mut events {
            for (cell, source) in (event.cell..).zip(&mut event.sources) {
                if let Some(i) = *source {
                    let (thread, position) = self.plan.all[i];
                    let begin = self.plan.program.threads[thread].instructions[position].cell;
                    let (first, cells) = places[i];
                    *source = Some(first + (cell - begin) / cells);
                }
            }
        }
        Candidate {
            events,
            registers: self.registers.clone(),
        }
    }
}

fn apply(change: Change, there: Value, operand: Value) -> Value {
    match change {
        Change::Exchange | Change::Compare => operand,
        Change::Add => there + operand,
        Change::Or => there | operand,
        Change::And => there & operand,
        Change::Xor => there ^ operand,
        Change::Max => there.max(operand),
    }
}
