//! A configuration on a table in host memory: launches side by side, then everything is checked.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;

use gpumap::executor::{Config, Executor, Launch, Trace};
use gpumap::simt::kernel::Grid;
use gpumap::simt::{U64x2, thread};
use gpumap_kernels::count::Counters;
use gpumap_kernels::primitives::CONTROL_THREADS;
use gpumap_kernels::primitives::look_back::HEADER_BYTES;
use gpumap_kernels::retrieve_all::{MAX_WORKERS, RetrieveAllArgs, dump, shared_bytes};
use gpumap_kernels::slot::{Bits, Format, Packed, Split, Wide};

use super::part::Part;
use super::plan::PLANS;
use super::{Case, Plan, Role, Run, Start};
use crate::history::{Clock, Deed, Event, History};
use crate::interleave::{LANES, Out, start_of};
use crate::table::HostTable;

/// Numbers of keys that are only there to be removed.
const FILLERS: u64 = 1000;

/// Every plan in every format.
pub fn cases() -> Vec<Case> {
    /// A plan that is known to the compiler, so that the case is a plain function.
    fn case<F: Format, const PLAN: usize>(format: &'static str) -> Case {
        Case {
            configuration: PLANS[PLAN].name,
            format,
            run: |seed, config| play::<F>(&PLANS[PLAN], seed, config),
        }
    }
    macro_rules! cases {
        ($($plan:literal)*) => {
            [$(
                case::<Packed, $plan>("4 + 4 bytes"),
                case::<Wide<u64, u64>, $plan>("8 + 8 bytes, one step"),
                case::<Split<u64, u64>, $plan>("8 + 8 bytes, two steps"),
                case::<Split<u32, u64>, $plan>("4 + 8 bytes, two steps"),
            )*]
        };
    }
    let cases = cases!(0 1 2 3 4 5 6);
    assert_eq!(cases.len(), PLANS.len() * 4, "every plan");
    cases.into()
}

/// Runs a plan once, on an executor of this kind.
pub fn play<F: Format>(plan: &Plan, seed: u64, config: Config) -> Run {
    let executor = Executor::new(config);
    let mut trace = Trace::default();
    let outcome = checked::<F>(plan, seed, &executor, &mut trace);
    Run { trace, outcome }
}

/// How many spin hints a launch begins with: a random draw keeps launches so closely in step that
/// none reads what another is half-way through writing. Priorities need no such help.
fn delay(seed: u64, number: u64) -> u64 {
    let draws = seed != 0 && seed.is_multiple_of(2);
    if draws { start_of(seed, number) } else { 0 }
}

/// A body that begins late.
fn late<'a>(body: Box<dyn Fn() + Sync + 'a>, delay: u64) -> Box<dyn Fn() + Sync + 'a> {
    Box::new(move || {
        for _ in 0..delay {
            thread::nanosleep(1);
        }
        body();
    })
}

/// What a dump reports.
struct Dump<F: Format> {
    keys: Vec<F::Key>,
    values: Vec<F::Value>,
    counters: [AtomicU64; 2],
    /// For the order of the table: what [`RetrieveAllArgs::tiles`] leads to.
    tiles: Vec<U64x2>,
}

fn checked<F: Format>(
    plan: &Plan,
    seed: u64,
    executor: &Executor,
    trace: &mut Trace,
) -> Result<(), String> {
    let mut table = HostTable::<F>::new(&[1], plan.slabs.ilog2(), seed);
    let clock = Clock::default();
    clock.now();
    let keys = (plan.keys)(seed);
    let mut parts = prepare::<F>(plan.start, &keys, &mut table, &clock)?;
    let first = parts.len();
    parts.extend((0..).zip(plan.roles).map(|(number, &role)| {
        // Each launch goes through the keys in an order of its own.
        let of = |i: u64| keys[((i + i / 5 + number) % keys.len() as u64) as usize];
        Part::new(role, 16 + number, (0..plan.operations.into()).map(of))
    }));

    let view = table.view();
    let mut dumped = Dump::<F>::new(table.slots() + 16);
    {
        let bodies: Vec<_> = parts[first..]
            .iter_mut()
            .map(|part| part.body(view, &clock))
            .zip(0..)
            .map(|(body, number)| late(body, delay(seed, number)))
            .collect();
        let dump = dumped.body(&table);
        let grid = dump_grid(&table);
        let launch = |(body, grid)| Launch {
            kernel: plan.name,
            grid,
            body,
        };
        let warp = Grid::new(1, LANES);
        let mut launches: Vec<_> = bodies
            .iter()
            .map(|body| (&**body, warp))
            .map(launch)
            .collect();
        if plan.dumps {
            launches.push(launch((&*dump, grid)));
        }
        // SAFETY: the bodies are those of kernels that may run side by side; the table and all that
        // they use outlive the launches.
        let (outcome, taken) = unsafe { executor.run_together(&launches) };
        *trace = taken;
        outcome.map_err(|fault| fault.to_string())?;
    }

    let mut history = History::default();
    for part in &parts {
        part.note(&mut history)?;
    }
    let pairs = table.pairs();
    let held: HashMap<u64, u64> = pairs.iter().copied().collect();
    if held.len() != pairs.len() {
        return Err(format!("a key is stored twice: {pairs:x?}"));
    }
    let balance = parts
        .iter()
        .fold(0, |sum: u64, part| sum.wrapping_add(part.balance()));
    if balance != held.len() as u64 {
        return Err(format!("{balance} counted, {} there", held.len()));
    }
    if plan.dumps {
        beside(&dumped.pairs(), &history, &keys)?;
    }
    // When all is quiet, a dump is what is there, slot by slot.
    let mut quiet = Dump::<F>::new(table.slots() + 16);
    quiet.in_order(&table);
    run_alone(dump_grid(&table), &*quiet.body(&table))?;
    let reported = quiet.pairs();
    if reported != pairs {
        return Err(format!(
            "retrieve_all in order says {reported:x?}, there is {pairs:x?}"
        ));
    }
    let mask = F::Value::from_u64(!0).to_u64();
    history.check(&held, mask)
}

/// Brings the table to its start; returns the launches that did.
fn prepare<F: Format>(
    start: Start,
    keys: &[u64],
    table: &mut HostTable<F>,
    clock: &Clock,
) -> Result<Vec<Part<F>>, String> {
    let mut parts = match start {
        Start::Empty => vec![],
        Start::Half => vec![Part::new(Role::Insert, 1, keys.iter().copied().step_by(2))],
        Start::Tombstones => {
            let fillers = FILLERS..FILLERS + table.slots() as u64 - 3;
            let part = |role| Part::new(role, 1, fillers.clone());
            vec![part(Role::Insert), part(Role::Remove)]
        }
    };
    let view = table.view();
    for part in &mut parts {
        run_alone(Grid::new(1, LANES), &*part.body(view, clock))?;
    }
    Ok(parts)
}

fn run_alone(grid: Grid, body: &(dyn Fn() + Sync)) -> Result<(), String> {
    // SAFETY: a kernel's body, and what it uses is there.
    unsafe { Executor::global().launch("alone", grid, body) }.map_err(|fault| fault.to_string())
}

/// A block for each chunk.
fn dump_grid<F: Format>(table: &HostTable<F>) -> Grid {
    let (_, chunks) = table.chunks();
    Grid {
        shared_bytes: shared_bytes(MAX_WORKERS),
        ..Grid::new(chunks, MAX_WORKERS + CONTROL_THREADS)
    }
}

impl<F: Format> Dump<F> {
    fn new(room: usize) -> Self {
        Self {
            keys: vec![F::Key::default(); room],
            values: vec![F::Value::default(); room],
            counters: Default::default(),
            tiles: Vec::new(),
        }
    }

    /// Makes it one in the order of the table.
    fn in_order(&mut self, table: &HostTable<F>) {
        let (_, chunks) = table.chunks();
        let bytes = HEADER_BYTES + chunks as usize * size_of::<u64>();
        self.tiles = vec![U64x2::new(0, 0); bytes.div_ceil(size_of::<U64x2>())];
    }

    /// What each thread of a [`dump_grid`] does.
    fn body<'a>(&'a mut self, table: &HostTable<F>) -> Box<dyn Fn() + Sync + 'a> {
        let (chunks, count) = table.chunks();
        let room = self.keys.len() as u64;
        let (keys, values) = (Out::of(&mut self.keys), Out::of(&mut self.values));
        let counters = &self.counters;
        let tiles = if self.tiles.is_empty() {
            Out::none()
        } else {
            Out::of(&mut self.tiles)
        };
        // SAFETY: the caller has a grid as said, and keeps the table.
        Box::new(move || unsafe {
            dump::<F>(&RetrieveAllArgs {
                chunks,
                count,
                parts_log2: 0,
                keys: keys.ptr(),
                values: values.ptr(),
                room,
                pairs: Counters::of(counters.as_ptr().cast_mut().cast()),
                tiles: tiles.ptr().cast(),
            });
        })
    }

    fn pairs(&mut self) -> Vec<(u64, u64)> {
        let len = *self.counters[0].get_mut() as usize;
        let pairs = self.keys.iter().zip(&self.values).take(len);
        pairs
            .map(|(key, value)| (key.to_u64(), value.to_u64()))
            .collect()
    }
}

/// What a dump beside writers reports: what was there throughout once, nothing more often than it
/// can have been stored, no value that was never stored.
fn beside(pairs: &[(u64, u64)], history: &History, keys: &[u64]) -> Result<(), String> {
    for &(key, value) in pairs {
        let stored = |event: &Event| match event.deed {
            Deed::Insert(v, true) | Deed::Upsert(v, _) | Deed::GetOrInsert(v, true, _) => {
                v == value
            }
            _ => false,
        };
        if history.count(key, stored) == 0 {
            return Err(format!("retrieve_all reports {key:#x} with {value:#x}"));
        }
    }
    for (i, &key) in keys.iter().enumerate() {
        let times = pairs
            .iter()
            .filter(|(reported, _)| *reported == key)
            .count();
        let removed = history.count(key, |event| event.deed == Deed::Remove(true));
        let least = usize::from(removed == 0 && i.is_multiple_of(2));
        if !(least..=removed + 1).contains(&times) {
            return Err(format!("retrieve_all reports {key:#x} {times} times"));
        }
    }
    Ok(())
}
