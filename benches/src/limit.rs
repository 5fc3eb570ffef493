//! Growing to the limit: pairs are inserted until memory ends.

use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use gpumap::{Device, Error, Map, Merge, Stream};
use gpumap_benches::ladder::register_kernels;

use crate::pairs::Pairs;

/// Pairs per batch on a GPU.
const BATCH: usize = 1 << 26;

/// On the CPU memory ends early.
const CPU_BYTES: u64 = 16 << 20;
const CPU_BATCH: usize = 1 << 14;

/// Batches that took longer are named: they made the map grow.
const SLOW: f64 = 0.25;

/// One in so many is named anyway.
const REPORTED: usize = 16;

/// Batches that are looked up in the end.
const CHECKED: usize = 8;

/// Inserts pairs of 8 + 8 bytes into a map that starts small until there is no memory left, then
/// checks that it holds all of them and works on.
pub fn run(device: &Device) -> Result<()> {
    let (device, batch) = if device.is_cuda() {
        (device.clone(), BATCH)
    } else {
        (device.with_memory_budget(CPU_BYTES), CPU_BATCH)
    };
    let total = if device.is_cuda() {
        device.info()?.total_memory.context("no memory size")?
    } else {
        CPU_BYTES
    };
    register_kernels(&device)?;
    let stream = Stream::new(&device)?;
    let map: Map<u64, u64> = Map::builder(&device).max_load_factor(0.9).build()?;
    let mut pairs = Pairs::new(&stream, batch)?;
    let (batches, error) = fill(&map, &mut pairs)?;
    let Error::OutOfMemory { needed, available } = error else {
        bail!("the end is {error}");
    };
    let len = map.len();
    ensure!(len == batches * batch, "the last batch left something");
    let live = (len * 16) as f64 / total as f64;
    println!(
        "{len} pairs in {} slots of {} submaps, load {:.3}: {:.1} % of {total} bytes of memory are live pairs",
        map.slots(),
        map.submaps(),
        map.load_factor(),
        live * 100.0
    );
    println!("then: {error} (needed {needed}, available {available})");
    verify(&map, &mut pairs, batches)
}

/// Inserts batches until one fails; returns how many the map took, and why no more.
fn fill(map: &Map<u64, u64>, pairs: &mut Pairs) -> Result<(usize, Error)> {
    let batch = pairs.keys.len();
    let mut batches = 0;
    let (start, mut inserting) = (Instant::now(), 0.0);
    let error = loop {
        pairs.make(batches * batch)?;
        let begin = Instant::now();
        let outcome = map.insert(&pairs.keys, &pairs.values);
        let took = begin.elapsed().as_secs_f64();
        inserting += took;
        if took > SLOW || batches % REPORTED == 0 {
            let (elapsed, slots) = (start.elapsed().as_secs_f64(), map.slots());
            println!("{elapsed:6.1} s: batch {batches} took {took:.2} s, {slots} slots now");
        }
        match outcome {
            Ok(new) => ensure!(new == batch, "batch {batches}: {new} of {batch} new"),
            Err(error) => break error,
        }
        batches += 1;
        ensure!(map.len() == batches * batch, "{} pairs", map.len());
    };
    let elapsed = start.elapsed().as_secs_f64();
    println!("{batches} batches of {batch} in {elapsed:.1} s, {inserting:.1} s of it inserting");
    Ok((batches, error))
}

/// The map holds the batches that it took, nothing of the one that it refused, and works on.
fn verify(map: &Map<u64, u64>, pairs: &mut Pairs, batches: usize) -> Result<()> {
    let batch = pairs.keys.len();
    let part = batch / 16;
    for check in 0..CHECKED.min(batches) {
        let number = check * (batches - 1) / (CHECKED - 1).max(1);
        pairs.make(number * batch)?;
        let found = map.get(&pairs.keys.slice(..part)?)?;
        let expected = |i: usize| Some((number * batch + i) as u64);
        ensure!(
            found.iter().enumerate().all(|(i, &v)| v == expected(i)),
            "batch {number} has changed"
        );
    }
    pairs.make(batches * batch)?;
    let refused = map.get(&pairs.keys.slice(..part)?)?;
    ensure!(refused.iter().all(Option::is_none), "a refused key");
    pairs.make(0)?;
    let (keys, values) = (pairs.keys.slice(..part)?, pairs.values.slice(..part)?);
    ensure!(map.merge(&keys, &values, Merge::Add)? == 0, "merge stored");
    ensure!(map.remove(&keys)? == part, "remove missed a key");
    let len = map.len();
    ensure!(len == batches * batch - part, "{len} pairs");
    println!("every pair that was looked at is there; merging and removing work");
    Ok(())
}
