//! Maps from the size of a cache to the device's memory: pairs of 8 + 8 bytes, made on the device.

use anyhow::{Result, ensure};
use gpumap::{Buffer, Map};
use gpumap_benches::ladder::register_kernels;
use gpumap_benches::plots::Axis;

use crate::bench::Bench;
use crate::data::slot_bytes;
use crate::measure::Time;
use crate::pairs::Pairs;
use crate::report::Row;

/// Pairs per slot.
const LOADS: [f64; 2] = [0.5, 0.8];

/// Batches have so many pairs at most: more would leave no memory for the map.
const MOST_AT_ONCE: usize = 100_000_000;

/// Figures are of calls that take about as long as one of so many keys.
const KEYS_PER_RUN: usize = 20_000_000;

/// Measures maps of 10^5 pairs, or a hundredth of `n` if that is less, up to what memory allows.
pub fn run(bench: &mut Bench) -> Result<()> {
    let device = bench.device().clone();
    register_kernels(&device)?;
    let most = if device.is_cuda() {
        usize::MAX
    } else {
        bench.n
    };
    for load in LOADS {
        let mut pairs = 100_000.min(bench.n / 100).max(1);
        // About three to a decade.
        for step in (0..3).cycle() {
            let slots = (pairs as f64 / load) as u64;
            let batch = pairs.min(MOST_AT_ONCE) as u64;
            let needed = 17 * slots + 3 * 17 * batch + (1 << 30);
            let fits = !device.is_cuda() || needed < device.available_bytes()?;
            if pairs > most || !fits {
                break;
            }
            of_size(bench, pairs, load)?;
            pairs = if step == 1 { pairs / 2 * 5 } else { 2 * pairs };
        }
    }
    Ok(())
}

/// One map.
fn of_size(bench: &mut Bench, pairs: usize, load: f64) -> Result<()> {
    let len = pairs.min(MOST_AT_ONCE);
    let mut verbs = Verbs {
        map: bench.map(pairs, load).build()?,
        batch: Pairs::new(bench.stream, len)?,
        found: bench.zeroed(len)?,
        pairs,
        load,
        bench,
    };
    verbs.fill()?;
    // Pairs that came late lie farther from home, so keys of all batches are looked up.
    verbs.batch.make_every(pairs / len, 0)?;
    let hit = verbs.get()?;
    let found = verbs.found.to_vec()?;
    ensure!(found == verbs.batch.values.to_vec()?, "a wrong value");
    verbs.batch.make(pairs)?;
    let miss = verbs.get()?;
    let found = verbs.found.to_vec()?;
    ensure!(found.iter().all(|&v| v == u64::MAX), "an absent key");
    let gather = verbs.bench.ceilings.gather;
    verbs.add("get, hit", hit, gather);
    verbs.add("get, miss", miss, gather);
    Ok(())
}

/// A map, and the batches that go in and are looked up.
struct Verbs<'a, 'b> {
    bench: &'a mut Bench<'b>,
    /// Pairs in the full map.
    pairs: usize,
    load: f64,
    map: Map<u64, u64>,
    batch: Pairs,
    found: Buffer<u64>,
}

impl Verbs<'_, '_> {
    /// A row of an operation, beside its share of a ceiling.
    fn add(&mut self, verb: &str, took: Time, ceiling: f64) {
        let Self { pairs, load, .. } = *self;
        let keys = self.batch.keys.len();
        let chart = format!("8+8, load {load}, by size");
        let name = format!("8+8 load {load} {pairs} pairs {verb}");
        let ceiling = ceiling / self.bench.n as f64 * keys as f64;
        let row = Row::op(name, took, keys, ceiling);
        let row = row.at(&chart, verb, Axis::Pairs, pairs as f64);
        self.bench.report.add(row);
    }

    /// Inserts all pairs; a single batch is measured.
    fn fill(&mut self) -> Result<()> {
        let len = self.batch.keys.len();
        let mut before = 0;
        while before + 2 * len <= self.pairs {
            self.batch.make(before)?;
            self.map.insert(&self.batch.keys, &self.batch.values)?;
            before += len;
        }
        self.batch.make(before)?;
        let insert = || self.map.insert(&self.batch.keys, &self.batch.values);
        if before > 0 {
            insert()?;
            return Ok(());
        }
        let (took, new) = self.bench.time_after(|| self.map.clear(), insert)?;
        ensure!(new == len, "insert stored {new} of {len}");
        let claims = self.bench.ceilings.cas(slot_bytes::<u64, u64>());
        self.add("insert", took, claims);
        Ok(())
    }

    /// The time of one call of many that look the batch up.
    fn get(&mut self) -> Result<Time> {
        let keys = &self.batch.keys;
        let calls = (KEYS_PER_RUN / keys.len()).clamp(1, 200);
        let mut get = || self.map.get_or_into(keys, u64::MAX, &mut self.found);
        let (took, ()) = self.bench.time(|| (0..calls).try_for_each(|_| get()))?;
        Ok(took.per_call(calls))
    }
}
