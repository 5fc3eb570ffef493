//! Growing maps: batches with growth inside the timer, and churn at constant size.

use std::cell::RefCell;

use anyhow::{Result, ensure};
use gpumap::{Buffer, Map, Stream};

use crate::ceilings::Ceilings;
use crate::data::{Word, strided};
use crate::measure::time;
use crate::report::{Report, Row};

/// Batches per case: of a hundredth of the pairs each.
const BATCHES: usize = 100;

/// Rounds of churn, each of which replaces a hundredth of the pairs.
const ROUNDS: usize = 1000;

/// Measures and verifies maps of `n` pairs of 8 + 8 bytes that begin at half of that.
pub fn run(
    stream: &Stream,
    n: usize,
    runs: usize,
    ceilings: &Ceilings,
    report: &mut Report,
) -> Result<()> {
    let cas = ceilings.cas_128.unwrap_or(ceilings.cas_64);
    let count = n as u64;
    let keys: Vec<u64> = (0..2 * count).map(u64::sparse).collect();
    let values: Vec<u64> = (0..2 * count).collect();
    let asked: Vec<u64> = (0..count)
        .map(|i| keys[strided(i, count) as usize])
        .collect();
    let keys = Buffer::from_slice(stream, &keys)?;
    let values = Buffer::from_slice(stream, &values)?;
    let asked = Buffer::from_slice(stream, &asked)?;
    let mut out = Buffer::<u64>::zeroed(stream, n)?;
    let batch = n.div_ceil(BATCHES);
    let build = |capacity: usize| -> Result<Map<u64, u64>> {
        Ok(Map::builder(stream.device())
            .capacity(capacity)
            .hash_seed(1)
            .build()?)
    };

    // One map at a time: it is made before the timer starts.
    let map = RefCell::new(build(1)?);
    let prepare = |capacity: usize| {
        map.replace(build(1)?);
        map.replace(build(capacity)?);
        Ok(())
    };
    let batches = || {
        (0..n)
            .step_by(batch)
            .map(|start| start..(start + batch).min(n))
    };
    let queue = || {
        let map = map.borrow();
        let on = map.on(stream);
        let mut new = Vec::with_capacity(BATCHES);
        for part in batches() {
            new.push(on.insert(&keys.slice(part.clone())?, &values.slice(part)?)?);
        }
        for new in new {
            ensure!(new.wait()? <= batch, "too many new keys");
        }
        Ok(())
    };
    for (name, capacity) in [("full size", n), ("full size and a quarter", n + n / 4)] {
        let took = time(runs, || prepare(capacity), queue)?;
        let name = format!("8+8 insert by {batch} into a map made at {name}, on a stream");
        report.add(Row::op(name, took, n, cas));
    }
    let queued = time(runs, || prepare(n / 2), queue)?;
    ensure!(
        map.borrow().len() == n,
        "{} of {n} pairs",
        map.borrow().len()
    );
    report.add(Row::op(
        format!("8+8 grow from {} by {batch}, on a stream", n / 2),
        queued,
        n,
        cas,
    ));
    let grow = time(
        runs,
        || prepare(n / 2),
        || {
            let map = map.borrow();
            for part in batches() {
                map.insert(&keys.slice(part.clone())?, &values.slice(part)?)?;
            }
            Ok(())
        },
    )?;
    let map = map.into_inner();
    ensure!(map.len() == n, "{} of {n} pairs", map.len());
    report.add(Row::op(
        format!(
            "8+8 grow from {} by {batch}, {} submaps",
            n / 2,
            map.submaps()
        ),
        grow,
        n,
        cas,
    ));

    let mut find = |map: &Map<u64, u64>, name: &str| -> Result<()> {
        let took = time(
            runs,
            || Ok(()),
            || Ok(map.get_or_into(&asked, u64::MAX, &mut out)?),
        )?;
        let found = out.to_vec()?;
        let right = (0..count).all(|i| found[i as usize] == strided(i, count));
        ensure!(right, "a wrong value");
        let load = map.load_factor();
        let name = format!(
            "8+8 get of {name}, load {load:.2}, {} submaps",
            map.submaps()
        );
        report.add(Row::op(name, took, n, ceilings.gather));
        Ok(())
    };
    find(&map, "the grown map")?;
    let slots = map.slots();
    drop(map);

    // As many slots, made at once.
    let full = build((slots as f64 * gpumap::DEFAULT_MAX_LOAD_FACTOR) as usize)?;
    full.insert(&keys.slice(0..n)?, &values.slice(0..n)?)?;
    find(&full, "a map made at full size")?;

    drop(full);
    let map = RefCell::new(build(1)?);
    for pairs in [n / 2, n] {
        let doubling = time(
            runs,
            || {
                map.replace(build(1)?);
                map.replace(build(pairs)?);
                let (keys, values) = (keys.slice(0..pairs)?, values.slice(0..pairs)?);
                map.borrow().insert(&keys, &values)?;
                Ok(())
            },
            || Ok(map.borrow().reserve(pairs)?),
        )?;
        report.add(Row::op(
            format!("8+8 one doubling of {pairs}"),
            doubling,
            pairs,
            cas,
        ));
    }
    drop(map);
    churn(stream, &keys, &values, n, cas, report)
}

/// Rounds that replace a hundredth of the pairs, at 85 % of the slots.
fn churn(
    stream: &Stream,
    keys: &Buffer<u64>,
    values: &Buffer<u64>,
    n: usize,
    cas: f64,
    report: &mut Report,
) -> Result<()> {
    let slots = (n as f64 / 0.85) as usize;
    let map: Map<u64, u64> = Map::builder(stream.device())
        .max_load_factor(0.93)
        .capacity((slots as f64 * 0.93) as usize)
        .hash_seed(1)
        .build()?;
    map.insert(&keys.slice(0..n)?, &values.slice(0..n)?)?;
    let batch = n.div_ceil(100);
    let mut times = Vec::with_capacity(ROUNDS);
    // The keys lie in a ring of 2 n: the oldest hundredth goes, the next one comes.
    let ring = keys.len() / batch;
    for round in 0..ROUNDS {
        let old = round % ring * batch;
        let new = (round + n / batch) % ring * batch;
        let part = |at: usize| at..(at + batch).min(keys.len());
        let start = std::time::Instant::now();
        let removed = map.remove(&keys.slice(part(old))?)?;
        let stored = map.insert(&keys.slice(part(new))?, &values.slice(part(new))?)?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
        ensure!(
            removed == part(old).len() && stored == part(new).len(),
            "round {round}: {removed} removed, {stored} stored"
        );
    }
    let median = |times: &[f64]| {
        let mut sorted = times.to_vec();
        sorted.sort_by(f64::total_cmp);
        (
            sorted[sorted.len() / 2],
            sorted.iter().sum::<f64>() / times.len() as f64,
        )
    };
    for (name, part) in [
        ("first", &times[..ROUNDS / 10]),
        ("last", &times[ROUNDS - ROUNDS / 10..]),
    ] {
        let (median, mean) = median(part);
        println!(
            "churn at load 0.85, {name} hundred rounds: median {median:.3} ms, mean {mean:.3} ms, {} slots",
            map.slots()
        );
        let time = crate::measure::Time {
            median: mean,
            least: part.iter().copied().fold(f64::INFINITY, f64::min),
            most: part.iter().copied().fold(0.0, f64::max),
        };
        let name = format!("8+8 churn round, mean of the {name} {}", part.len());
        report.add(Row::op(name, time, 2 * batch, cas));
    }
    Ok(())
}
