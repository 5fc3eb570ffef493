//! Batches in which keys repeat: each as often as the others, or few of them very often.

use anyhow::{Result, ensure};
use gpumap::{Map, Merge};
use gpumap_benches::plots::Axis;

use crate::bench::Bench;
use crate::data::{BenchKey, BenchValue, sizes, slot_bytes, strided};
use crate::measure::Time;
use crate::report::Row;

/// How often each key comes.
const MULTIPLICITIES: [u64; 5] = [1, 2, 4, 8, 16];

/// Measures and verifies batches of `n` pairs on maps that have room for as many.
pub fn run<K: BenchKey, V: BenchValue>(bench: &mut Bench, load: f64) -> Result<()> {
    let count = bench.n as u64;
    let case = format!("{} load {load}", sizes::<K, V>());
    let chart = format!(
        "{}, load {load}, by how often each key comes",
        sizes::<K, V>()
    );
    for times in MULTIPLICITIES {
        let distinct = count.div_ceil(times);
        // Far apart in the batch.
        let numbers = (0..count).map(|i| strided(i, count) % distinct);
        let batch = Batch::new(numbers);
        for (verb, took, ceiling) in batch.measure::<K, V>(bench, load)? {
            let name = format!("{case} every key {times} times: {verb}");
            let row = Row::op(name, took, bench.n, ceiling);
            let row = row.at(&chart, verb, Axis::Multiplicity, times as f64);
            bench.report.add(row);
        }
    }
    let batch = Batch::new((0..count).map(|i| zipf(i, count)));
    let distinct = batch.distinct;
    for (verb, took, ceiling) in batch.measure::<K, V>(bench, load)? {
        bench.add(
            format!("{case} Zipf, {distinct} keys: {verb}"),
            took,
            ceiling,
        );
    }
    Ok(())
}

/// The `i`-th of numbers below `n` by Zipf's law with exponent 1: the logarithm is uniform.
pub fn zipf(i: u64, n: u64) -> u64 {
    // The upper bits of a mixed word, as a fraction.
    let uniform = (gpumap_bench_kernels::pairs::key(i) >> 11) as f64 / (1u64 << 53) as f64;
    ((n as f64).powf(uniform) as u64 - 1).min(n - 1)
}

/// The numbers of the keys of a batch.
struct Batch {
    numbers: Vec<u64>,
    distinct: usize,
}

impl Batch {
    fn new(numbers: impl Iterator<Item = u64>) -> Self {
        let numbers: Vec<u64> = numbers.collect();
        let mut seen = vec![false; numbers.len()];
        for &number in &numbers {
            seen[number as usize] = true;
        }
        let distinct = seen.iter().filter(|&&seen| seen).count();
        Self { numbers, distinct }
    }

    /// What each operation took, and its ceiling.
    fn measure<K: BenchKey, V: BenchValue>(
        &self,
        bench: &Bench,
        load: f64,
    ) -> Result<[(&'static str, Time, f64); 4]> {
        let (n, distinct) = (self.numbers.len(), self.distinct);
        let map: Map<K, V> = bench.map(n, load).build()?;
        let numbers = || self.numbers.iter().copied();
        let keys = bench.buffer(numbers().map(K::sparse))?;
        let stored = bench.buffer(numbers().map(V::dense))?;
        let ones = bench.buffer(numbers().map(|_| V::dense(1)))?;
        let mut out = bench.zeroed::<V>(n)?;
        let empty = || map.clear();
        let all = |new: usize| {
            ensure!(new == distinct, "{new} of {distinct} keys were new");
            Ok(())
        };
        let (insert, ()) = bench.time_after(empty, || all(map.insert(&keys, &stored)?))?;
        let (upsert, ()) = bench.time_after(empty, || all(map.upsert(&keys, &stored)?))?;
        let (get, ()) = bench.time(|| map.get_or_into(&keys, V::dense(0), &mut out))?;
        let right = numbers().map(V::dense).eq(out.to_vec()?);
        ensure!(right, "a wrong value");
        let merge = || all(map.merge(&keys, &ones, Merge::Add)?);
        let (merge, ()) = bench.time_after(empty, merge)?;
        let (_, counts) = map.retrieve_all()?;
        let sum: u64 = counts.iter().map(|count| count.number()).sum();
        ensure!(sum == n as u64, "{sum} of {n} were merged");

        let ceilings = &bench.ceilings;
        let claims = ceilings.cas(slot_bytes::<K, V>());
        Ok([
            ("insert", insert, claims),
            ("upsert", upsert, claims),
            ("get", get, ceilings.gather),
            ("merge", merge, ceilings.add_64),
        ])
    }
}
