//! Batches in which each key says what is done with it, on tables larger than the L2.
//!
//! A map holds `n` pairs at a load factor. Each batch stores keys that are not there, removes others that
//! are, and looks up some that are and some that are not, all at random places of the batch: the shares
//! are the mixes of Ashkiani, Farach-Colton and Owens' slab hash (2018).

use anyhow::{Result, ensure};
use gpumap::{Answer, Map, MultiMap, Operation, Word, WordKey, multi};

use crate::bench::Bench;
use crate::ceilings::Ceilings;
use crate::data::{BenchKey, BenchValue, sizes, slot_bytes, strided};

/// Tenths of a batch that insert, remove, find, and find nothing.
const MIXES: [[u64; 4]; 4] = [[5, 5, 0, 0], [2, 2, 3, 3], [1, 1, 4, 4], [0, 0, 5, 5]];

/// Load factors of the open map before the batch.
const LOADS: [f64; 3] = [0.5, 0.7, 0.8];

/// A batch, and its expected result.
struct Batch<K, V> {
    operations: Vec<Operation>,
    keys: Vec<K>,
    values: Vec<V>,
    /// Pairs that come.
    moved: usize,
    mix: [u64; 4],
}

impl<K: BenchKey, V: BenchValue> Batch<K, V> {
    /// A batch of `n` operations on a map with the first `n` keys.
    fn new(n: u64, mix: [u64; 4]) -> Self {
        let (mut operations, mut keys, mut values) = (Vec::new(), Vec::new(), Vec::new());
        let mut moved = 0;
        for i in 0..n {
            let place = strided(i, n);
            let tenth = place % 10;
            let [inserts, removes, hits, _] = mix;
            // Numbers below `n` are there. Those to be removed are not looked up.
            let (operation, number) = if tenth < inserts {
                moved += 1;
                (Operation::Insert, n + place)
            } else if tenth < inserts + removes {
                (Operation::Remove, place)
            } else if tenth < inserts + removes + hits {
                (Operation::Get, place)
            } else {
                (Operation::Get, 2 * n + place)
            };
            operations.push(operation);
            keys.push(K::sparse(number));
            values.push(V::dense(number));
        }
        Self {
            operations,
            keys,
            values,
            moved,
            mix,
        }
    }

    fn name(&self, kind: &str, load: f64) -> String {
        let [inserts, removes, hits, misses] = self.mix;
        let sizes = sizes::<K, V>();
        format!("{kind}{sizes} load {load} mix .{inserts}/.{removes}/.{hits}/.{misses}")
    }

    /// Milliseconds that the device takes for so many exchanges and gathers at random, at best.
    fn ceiling(&self, ceilings: &Ceilings) -> f64 {
        let [inserts, removes, hits, misses] = self.mix.map(|tenths| tenths as f64 / 10.0);
        let cas = ceilings.cas(slot_bytes::<K, V>());
        inserts * cas + removes * ceilings.cas_64 + (hits + misses) * ceilings.gather
    }

    /// Whether every answer is the one that it should be.
    fn check(&self, answers: impl Iterator<Item = (Operation, Told<V>)>) -> Result<()> {
        let n = self.keys.len() as u64;
        let mut seen = 0;
        for (i, (operation, told)) in answers.enumerate() {
            let place = strided(i as u64, n);
            let [inserts, removes, hits, _] = self.mix;
            let there = place % 10 < inserts + removes + hits;
            let right = match operation {
                Operation::Insert => Told::Stored,
                Operation::Remove => Told::Removed,
                _ if there => Told::Present(V::dense(place)),
                _ => Told::Absent,
            };
            ensure!(told == right, "operation {i}: {told:?}, not {right:?}");
            seen += 1;
        }
        ensure!(seen == n, "{seen} answers of {n}");
        Ok(())
    }
}

/// What either kind of map returns.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Told<V> {
    Absent,
    Present(V),
    Stored,
    Removed,
}

/// Measures and verifies all mixes of `n` operations.
pub fn run<K: BenchKey, V: BenchValue>(bench: &mut Bench) -> Result<()> {
    for mix in MIXES {
        let batch = Batch::<K, V>::new(bench.n as u64, mix);
        for load in LOADS {
            open(bench, &batch, load)?;
        }
    }
    Ok(())
}

/// The map.
fn open<K: BenchKey, V: BenchValue>(
    bench: &mut Bench,
    batch: &Batch<K, V>,
    load: f64,
) -> Result<()> {
    let n = bench.n;
    let held = bench.buffer((0..n as u64).map(K::sparse))?;
    let held_values = bench.buffer((0..n as u64).map(V::dense))?;
    // As many slots as the load says, and room for all that may come.
    let map: Map<K, V> = bench.map((n as f64 / load * 0.95) as usize, 0.95).build()?;
    let codes = bench.buffer(batch.operations.iter().map(|op| op.code()))?;
    let keys = bench.buffer(batch.keys.iter().copied())?;
    let values = bench.buffer(batch.values.iter().copied())?;
    let mut told = bench.zeroed::<V>(n)?;
    let mut outcomes = bench.zeroed::<u8>(n)?;
    let fill = || {
        map.clear()?;
        map.insert(&held, &held_values).map(drop)
    };
    let (took, ()) = bench.time_after(fill, || {
        let applied = map.apply_into(&codes, &keys, &values, &mut told, &mut outcomes)?;
        ensure!(applied.stored == batch.moved, "{applied:?}");
        Ok(())
    })?;
    let answers = outcomes.to_vec()?.into_iter().zip(told.to_vec()?);
    let answers = answers.map(|(code, value)| match Answer::from_code(code, value) {
        Answer::Absent => Told::Absent,
        Answer::Present(value) => Told::Present(value),
        Answer::Stored => Told::Stored,
        Answer::Removed => Told::Removed,
    });
    batch.check(batch.operations.iter().copied().zip(answers))?;
    let ceiling = batch.ceiling(&bench.ceilings);
    bench.add(batch.name("", load), took, ceiling);
    Ok(())
}

/// The multimap, at one load, from the host: its answers are vectors.
pub fn run_multi<K: BenchKey + WordKey, V: BenchValue + Word<Bits = K::Bits>>(
    bench: &mut Bench,
) -> Result<()> {
    let n = bench.n;
    let batch = Batch::<K, V>::new(n as u64, [1, 1, 4, 4]);
    let held: Vec<K> = (0..n as u64).map(K::sparse).collect();
    let held_values: Vec<V> = (0..n as u64).map(V::dense).collect();
    let map: MultiMap<K, V> = MultiMap::builder(bench.device())
        .capacity(2 * n)
        .hash_seed(1)
        .build()?;
    let operation = |op: &Operation| match op {
        Operation::Insert => multi::Operation::Insert,
        Operation::Remove => multi::Operation::Remove,
        Operation::Get | Operation::Upsert => multi::Operation::Get,
    };
    let operations: Vec<_> = batch.operations.iter().map(operation).collect();
    let fill = || {
        map.clear()?;
        map.insert(&held, &held_values).map(drop)
    };
    let apply = || map.apply(&operations, &batch.keys, &batch.values);
    let (took, answers) = bench.time_after(fill, apply)?;
    let told = answers.into_iter().map(|answer| match answer {
        multi::Answer::Present(value) => Told::Present(value),
        multi::Answer::Stored => Told::Stored,
        multi::Answer::Removed(_) => Told::Removed,
        multi::Answer::Absent | multi::Answer::Count(_) => Told::Absent,
    });
    batch.check(batch.operations.iter().copied().zip(told))?;
    let name = batch.name("chained, from the host, ", 0.5);
    let ceiling = batch.ceiling(&bench.ceilings);
    bench.add(name, took, ceiling);
    Ok(())
}
