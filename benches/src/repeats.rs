//! Batches in which keys repeat: each as often as the others, or few of them very often.

use anyhow::{Result, ensure};
use gpumap::{Buffer, Map, Merge, Stream};
use gpumap_benches::plots::Axis;

use crate::ceilings::Ceilings;
use crate::data::{BenchKey, BenchValue, strided};
use crate::measure::{Time, time};
use crate::report::{Report, Row};

/// How often each key comes.
const MULTIPLICITIES: [u64; 5] = [1, 2, 4, 8, 16];

/// Measures and verifies batches of `n` pairs on maps that have room for as many.
pub fn run<K: BenchKey, V: BenchValue>(
    stream: &Stream,
    n: usize,
    load: f64,
    runs: usize,
    ceilings: &Ceilings,
    report: &mut Report,
) -> Result<()> {
    let count = n as u64;
    let pair = format!("{}+{}", size_of::<K>(), size_of::<V>());
    for times in MULTIPLICITIES {
        let distinct = count.div_ceil(times);
        // Far apart in the batch.
        let numbers = (0..count).map(|i| strided(i, count) % distinct);
        let chart = format!("{pair}, load {load}, by how often each key comes");
        let mut add = |verb: &str, took: Time, ceiling: f64| {
            let name = format!("{pair} load {load} every key {times} times: {verb}");
            let row = Row::op(name, took, n, ceiling);
            report.add(row.at(&chart, verb, Axis::Multiplicity, times as f64));
        };
        let numbers: Vec<u64> = numbers.collect();
        batch::<K, V>(
            stream,
            &numbers,
            distinct as usize,
            load,
            runs,
            ceilings,
            &mut add,
        )?;
    }
    let numbers: Vec<u64> = (0..count).map(|i| zipf(i, count)).collect();
    let mut seen = vec![false; n];
    numbers
        .iter()
        .for_each(|&number| seen[number as usize] = true);
    let distinct = seen.iter().filter(|&&seen| seen).count();
    let mut add = |verb: &str, took: Time, ceiling: f64| {
        let name = format!("{pair} load {load} Zipf, {distinct} keys: {verb}");
        report.add(Row::op(name, took, n, ceiling));
    };
    batch::<K, V>(stream, &numbers, distinct, load, runs, ceilings, &mut add)
}

/// The `i`-th of numbers below `n` by Zipf's law with exponent 1: the logarithm is uniform.
fn zipf(i: u64, n: u64) -> u64 {
    // The upper bits of a mixed word, as a fraction.
    let uniform = (gpumap_bench_kernels::pairs::key(i) >> 11) as f64 / (1u64 << 53) as f64;
    ((n as f64).powf(uniform) as u64 - 1).min(n - 1)
}

/// The verbs, on the keys with these numbers, of which so many are distinct.
fn batch<K: BenchKey, V: BenchValue>(
    stream: &Stream,
    numbers: &[u64],
    distinct: usize,
    load: f64,
    runs: usize,
    ceilings: &Ceilings,
    add: &mut dyn FnMut(&str, Time, f64),
) -> Result<()> {
    let n = numbers.len();
    let map: Map<K, V> = Map::builder(stream.device())
        .capacity(n)
        .max_load_factor(load)
        .hash_seed(1)
        .build()?;
    let keys: Vec<K> = numbers.iter().map(|&number| K::sparse(number)).collect();
    let values: Vec<V> = numbers.iter().map(|&number| V::dense(number)).collect();
    let keys = Buffer::from_slice(stream, &keys)?;
    let stored = Buffer::from_slice(stream, &values)?;
    let ones = Buffer::from_slice(stream, &vec![V::dense(1); n])?;
    let mut out = Buffer::<V>::zeroed(stream, n)?;
    let cas = if size_of::<K>() + size_of::<V>() == 8 {
        ceilings.cas_64
    } else {
        ceilings.cas_128.unwrap_or(ceilings.cas_64)
    };
    let empty = || Ok(map.clear()?);
    let all = |new: usize| {
        ensure!(new == distinct, "{new} of {distinct} keys were new");
        Ok(())
    };
    let insert = time(runs, empty, || all(map.insert(&keys, &stored)?))?;
    add("insert", insert, cas);
    let upsert = time(runs, empty, || all(map.upsert(&keys, &stored)?))?;
    add("upsert", upsert, cas);
    let get = time(
        runs,
        || Ok(()),
        || Ok(map.get_or_into(&keys, V::dense(0), &mut out)?),
    )?;
    ensure!(out.to_vec()? == values, "a wrong value");
    add("get", get, ceilings.gather);
    let merge = time(runs, empty, || all(map.merge(&keys, &ones, Merge::Add)?))?;
    let (_, counts) = map.retrieve_all()?;
    let sum: u64 = counts.iter().map(|count| count.number()).sum();
    ensure!(sum == n as u64, "{sum} of {n} were merged");
    add("merge", merge, ceilings.add_64);
    Ok(())
}
