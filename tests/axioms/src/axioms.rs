//! The axioms, and the relations that they are about, by the names that the PTX ISA has for them.
//!
//! Whether events are *morally strong* depends on what is said of accesses that overlap in part; so the axioms are there in
//! three readings.

use crate::candidate::{Candidate, Event, Kind};
use crate::program::{Outcome, Program, Scope};
use crate::relation::Relation;

/// What an access of 128 bits is, and what accesses of different sizes to one place are to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reading {
    /// An access is one operation, of whatever size, and operations that overlap in part are morally strong like those that
    /// overlap completely: what the L2 slice that owns the sector does. The model does not promise it; the map relies on it.
    Whole,
    /// A load or a store of 128 bits is two operations of 64, in no order, as the section on vector data types has it: the model
    /// knows scalars of at most 64 bits. An atomic of 128 bits stays one, for atomics that overlap exclude each other (section
    /// on mixed-size data races); to loads and stores it is two.
    Halves,
    /// An access of 128 bits is one operation, and operations that overlap in part are **not** morally strong: they are in a
    /// mixed-size data race if nothing else orders them, and then the axioms promise nothing.
    Strict,
}

/// A way to run a program that the axioms allow.
pub struct Execution<'a> {
    candidate: &'a Candidate,
    coherence: &'a Relation,
    /// Whether operations of different sizes overlap that nothing orders, in [`Reading::Strict`].
    pub mixed_size_race: bool,
}

impl Execution<'_> {
    /// What it comes to: more than one outcome, if the last writes of a cell are in a data race.
    pub fn outcomes(&self, program: &Program) -> Vec<Outcome> {
        let events = &self.candidate.events;
        let mut outcomes = vec![Outcome {
            registers: self.candidate.registers.clone(),
            cells: Vec::new(),
        }];
        for (cell, &first) in program.first.iter().enumerate() {
            let writers =
                || (0..events.len()).filter(|&w| events[w].writes() && events[w].has(cell));
            let mut last: Vec<_> = writers()
                .filter(|&w| !writers().any(|other| self.coherence.has(w, other)))
                .map(|w| events[w].written[cell - events[w].cell])
                .collect();
            if last.is_empty() {
                last.push(first);
            }
            let with = |outcome: &Outcome| {
                let mut outcome = outcome.clone();
                last.clone().into_iter().map(move |value| {
                    outcome.cells.truncate(cell);
                    outcome.cells.push(value);
                    outcome.clone()
                })
            };
            outcomes = outcomes.iter().flat_map(with).collect();
        }
        outcomes
    }
}

/// Calls `f` with each execution of a candidate that the axioms allow: with each *Fence-SC* order and each *coherence order*.
pub fn executions(candidate: &Candidate, reading: Reading, mut f: impl FnMut(&Execution)) {
    let model = Model::of(candidate, reading);
    let fences: Vec<_> =
        model.pairs(|a, b| a.order == crate::program::Order::Sc && b.order == a.order);
    model.orient(&fences, Relation::EMPTY, &mut |fence_sc| {
        let Some(cause) = model.causality(fence_sc) else {
            return;
        };
        let Some(forced) = model.forced_coherence(&cause) else {
            return;
        };
        let writes: Vec<_> = model.pairs(|a, b| a.writes() && b.writes());
        model.orient(&writes, forced, &mut |coherence| {
            if model.allows(&cause, coherence) {
                f(&Execution {
                    candidate,
                    coherence,
                    mixed_size_race: model.has_mixed_size_race(&cause),
                });
            }
        });
    });
}

fn overlap(a: &Event, b: &Event) -> bool {
    a.cell < b.cell + b.cells && b.cell < a.cell + a.cells
}

fn overlap_completely(a: &Event, b: &Event) -> bool {
    (a.cell, a.cells) == (b.cell, b.cells)
}

/// Whether the scope of `a` has the thread of `b`.
fn includes(a: &Event, b: &Event) -> bool {
    match a.scope {
        Scope::Cta => a.block == b.block,
        Scope::Gpu => a.block.0 == b.block.0,
        Scope::Sys => true,
    }
}

/// What of a candidate depends on no further choice.
struct Model<'a> {
    events: &'a [Event],
    reading: Reading,
    morally_strong: Relation,
    program_order: Relation,
    observation: Relation,
    /// Synchronizes, by patterns and by barriers.
    synchronizes: Relation,
}

impl<'a> Model<'a> {
    fn of(candidate: &'a Candidate, reading: Reading) -> Self {
        let mut model = Self {
            events: &candidate.events,
            reading,
            morally_strong: Relation::EMPTY,
            program_order: Relation::EMPTY,
            observation: Relation::EMPTY,
            synchronizes: Relation::EMPTY,
        };
        assert!(
            model.events.len() <= crate::relation::MOST,
            "too many events"
        );
        model.morally_strong = model.all(|a, b| model.are_morally_strong(a, b));
        model.program_order = model.all(|a, b| a.thread == b.thread && a.position < b.position);
        for (r, event) in model.events.iter().enumerate() {
            for &source in event.sources.iter().flatten() {
                if model.morally_strong.has(source, r) {
                    model.observation.add(source, r);
                }
            }
        }
        // Whatever reads and writes is atomic.
        model.observation = model.observation.closure();
        model.synchronizes = model.synchronizing();
        model
    }

    /// The pairs of events of which this is true.
    fn all(&self, is: impl Fn(&Event, &Event) -> bool) -> Relation {
        let mut relation = Relation::EMPTY;
        for (i, a) in self.events.iter().enumerate() {
            for (j, b) in self.events.iter().enumerate() {
                if i != j && is(a, b) {
                    relation.add(i, j);
                }
            }
        }
        relation
    }

    /// The morally strong pairs of which this is true, each once.
    fn pairs(&self, is: impl Fn(&Event, &Event) -> bool) -> Vec<(usize, usize)> {
        let mut pairs = Vec::new();
        for (j, b) in self.events.iter().enumerate() {
            for (i, a) in self.events[..j].iter().enumerate() {
                if self.morally_strong.has(i, j) && is(a, b) {
                    pairs.push((i, j));
                }
            }
        }
        pairs
    }

    fn are_morally_strong(&self, a: &Event, b: &Event) -> bool {
        let interact = a.thread == b.thread
            || a.is_strong() && b.is_strong() && includes(a, b) && includes(b, a);
        let both_access = a.cells != 0 && b.cells != 0;
        interact
            && match self.reading {
                _ if !both_access => true,
                Reading::Strict => overlap_completely(a, b),
                Reading::Whole | Reading::Halves => overlap(a, b),
            }
    }

    /// *Memory synchronization*, except for that of `fence.sc`. That writes and reads of patterns are strong is not asked: else
    /// they are not in *observation order*.
    fn synchronizing(&self) -> Relation {
        let mut synchronizes = self.all(|a, b| {
            let both = a.kind == Kind::Barrier && b.kind == Kind::Barrier;
            both && a.block == b.block
                && a.thread != b.thread
                && self.nth_barrier(a) == self.nth_barrier(b)
        });
        // The first event of each release pattern, and its write; the read of each acquire pattern, and its last event. A `red`
        // reads for no pattern.
        let (mut releases, mut acquires) = (Vec::new(), Vec::new());
        for (i, a) in self.events.iter().enumerate() {
            let is_fence = a.kind == Kind::Fence;

            if a.order.acquires() && a.reads() {
                acquires.push((i, i));
            }
            if a.order.releases() && a.writes() {
                releases.push((i, i));
            }
            for (j, b) in self.events.iter().enumerate() {
                let at_one_place = || overlap(a, b) && self.morally_strong.has(i, j);
                let releasing = a.order.releases() && (is_fence || a.writes() && at_one_place());
                if self.program_order.has(i, j) && b.writes() && releasing {
                    releases.push((i, j));
                }
                let acquiring = a.order.acquires() && (is_fence || a.reads() && at_one_place());
                let reads = b.reads() && b.kind != Kind::Reduction;
                if self.program_order.has(j, i) && reads && acquiring {
                    acquires.push((j, i));
                }
            }
        }
        for &(first, write) in &releases {
            for &(read, last) in &acquires {
                if self.observation.has(write, read) && self.morally_strong_ends(first, last) {
                    synchronizes.add(first, last);
                }
            }
        }
        synchronizes
    }

    /// Whether the first event of a release and the last of an acquire are morally strong.
    fn morally_strong_ends(&self, first: usize, last: usize) -> bool {
        first != last && self.morally_strong.has(first, last)
    }

    fn nth_barrier(&self, event: &Event) -> usize {
        let before = |e: &&Event| {
            e.kind == Kind::Barrier && e.thread == event.thread && e.position < event.position
        };
        self.events.iter().filter(before).count()
    }

    /// Gives each of the pairs that has none a direction, in all ways without a cycle.
    fn orient(&self, pairs: &[(usize, usize)], order: Relation, f: &mut dyn FnMut(&Relation)) {
        let Some((&(a, b), rest)) = pairs.split_first() else {
            return f(&order);
        };
        if order.has(a, b) || order.has(b, a) {
            return self.orient(rest, order, f);
        }
        for (a, b) in [(a, b), (b, a)] {
            let mut order = order;
            order.add(a, b);
            let order = order.closure();
            if order.is_irreflexive() {
                self.orient(rest, order, f);
            }
        }
    }

    /// *Causality order* with this *Fence-SC* order; `None` if it contradicts that (axiom *Fence-SC*).
    fn causality(&self, fence_sc: &Relation) -> Option<Relation> {
        let mut base = self.program_order;
        base.add_all(&self.synchronizes);
        base.add_all(fence_sc);
        let base = base.closure();
        let fences = 0..self.events.len();
        for (a, b) in fences
            .clone()
            .flat_map(|a| fences.clone().map(move |b| (a, b)))
        {
            if fence_sc.has(a, b) && base.has(b, a) {
                return None;
            }
        }
        let mut at_one_place = Relation::EMPTY;
        for (a, first) in self.events.iter().enumerate() {
            for (b, second) in self.events.iter().enumerate() {
                if base.has(a, b) && overlap(first, second) {
                    at_one_place.add(a, b);
                }
            }
        }
        let mut cause = self.observation.then(&at_one_place);
        cause.add_all(&at_one_place);
        Some(cause)
    }

    /// The part of the *coherence order* that follows from *causality order* (axiom *Coherence*), and from what morally strong
    /// atomics read (else they would come before what they read). `None` if there is a cycle.
    fn forced_coherence(&self, cause: &Relation) -> Option<Relation> {
        let mut order = Relation::EMPTY;
        for (a, first) in self.events.iter().enumerate().filter(|(_, e)| e.writes()) {
            for (b, second) in self.events.iter().enumerate().filter(|(_, e)| e.writes()) {
                if a == b || !overlap(first, second) {
                    continue;
                }
                let is_read = second.sources.contains(&Some(a)) && self.morally_strong.has(a, b);
                if cause.has(a, b) || is_read {
                    order.add(a, b);
                }
            }
        }
        let order = order.closure();
        order.is_irreflexive().then_some(order)
    }

    /// The axioms that are about *communication order*.
    fn allows(&self, cause: &Relation, coherence: &Relation) -> bool {
        let mut per_location = Relation::EMPTY;
        for (r, read) in self.events.iter().enumerate() {
            for (w, write) in self.events.iter().enumerate() {
                if !overlap(read, write) {
                    continue;
                }
                let is_strong = self.morally_strong.has(r, w);
                if self.program_order.has(r, w) {
                    per_location.add(r, w);
                }
                if r == w || !write.writes() {
                    continue;
                }
                if is_strong && coherence.has(r, w) {
                    per_location.add(r, w);
                }
                if !read.reads() {
                    continue;
                }
                // Whether it reads something from this write, and something from before it.
                let (mut from, mut from_before) = (false, false);
                for cell in write.cell..write.cell + write.cells {
                    match read.source(cell) {
                        None => {}
                        Some(Some(source)) if source == w => from = true,
                        Some(None) => from_before = true,
                        Some(Some(source)) => from_before |= coherence.has(source, w),
                    }
                }
                // Causality.
                if from && cause.has(r, w) || from_before && cause.has(w, r) {
                    return false;
                }
                if is_strong {
                    if from {
                        per_location.add(w, r);
                    }
                    if from_before {
                        per_location.add(r, w);
                    }
                }
            }
        }
        // Sequential consistency per location, and with it both parts of Atomicity: what reads from a write and from before it,
        // or from before a write that comes before it, is one event, so that this is a cycle.
        per_location.is_acyclic()
    }

    fn has_mixed_size_race(&self, cause: &Relation) -> bool {
        let is_race = |i: usize, j: usize| {
            let (a, b) = (&self.events[i], &self.events[j]);
            overlap(a, b)
                && !overlap_completely(a, b)
                && (a.writes() || b.writes())
                && a.thread != b.thread
                && !(cause.has(i, j) || cause.has(j, i))
        };
        let events = 0..self.events.len();
        self.reading == Reading::Strict
            && events
                .clone()
                .any(|i| events.clone().any(|j| is_race(i, j)))
    }
}
