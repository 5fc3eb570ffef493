//! Small batches: what a call costs beside an empty kernel launch.

mod several;

use std::cell::RefCell;
use std::ops::Range;

use anyhow::{Error, Result, ensure};
use gpumap::simt::kernel::Grid;
use gpumap::{Buffer, Map};
use gpumap_bench_kernels::ceilings::{COPY_16, CeilingArgs};
use gpumap_benches::plots::Axis;

use crate::bench::Bench;
use crate::data::{Word, strided};
use crate::measure::Time;
use crate::report::Row;

/// Keys per call.
const SIZES: [usize; 5] = [1, 1_000, 10_000, 100_000, 1_000_000];

/// Calls per measurement.
const CALLS: usize = 50;

/// Calls that are queued before the first wait.
const QUEUED: usize = 50;

const CHART: &str = "8+8, calls of few keys";

/// What launching an empty kernel costs, in milliseconds.
#[derive(Clone, Copy)]
struct Empty {
    waited_for: f64,
    queued: f64,
}

/// Measures calls on a map of `n` pairs of 8 + 8 bytes in `2 n` slots, from device memory to device
/// memory. Figures are of one call.
pub fn run(bench: &mut Bench) -> Result<()> {
    let n = bench.n as u64;
    let map: Map<u64, u64> = bench.map(2 * bench.n, 0.95).build()?;
    let keys: Vec<u64> = (0..n).map(u64::sparse).collect();
    let values: Vec<u64> = (0..n).collect();
    map.insert(&keys, &values)?;
    drop((keys, values));
    let asked = bench.buffer((0..n).map(|i| u64::sparse(strided(i, n))))?;
    let values = bench.buffer(0..n)?;
    let found = bench.zeroed(bench.n)?;
    let empty = launches(bench)?;
    let mut calls = Calls {
        bench,
        map: &map,
        asked,
        values,
        found,
        empty,
    };
    for size in SIZES.into_iter().filter(|&size| size <= n as usize) {
        calls.get(size)?;
        calls.queued(size)?;
        if size == several::KEYS {
            several::run(calls.bench, &map, empty)?;
        }
        calls.insert(size)?;
        calls.renew(size)?;
    }
    Ok(())
}

/// Launches of an empty kernel, which are the ceilings, and the first calls of maps.
fn launches(bench: &mut Bench) -> Result<Empty> {
    let mut word = bench.zeroed::<[u64; 2]>(2)?;
    let args = CeilingArgs {
        table: word.as_mut_ptr().cast(),
        units: 0,
        other: word.as_mut_ptr().cast(),
        n: 0,
    };
    let stream = bench.stream;
    // SAFETY: of nothing, nothing is copied.
    let launch = || unsafe { COPY_16.launch(stream, Grid::new(1, 32), args) };
    let waited_for = per_call(bench, |_| {
        launch()?;
        stream.synchronize()
    })?;
    let row = Row::ceiling("an empty kernel, launched and waited for", waited_for, 1);
    bench.report.add(row);
    first_calls(bench, waited_for.median)?;
    let queued = queued(bench, launch)?;
    let row = Row::ceiling("an empty kernel, queued", queued, 1);
    bench.report.add(row);
    Ok(Empty {
        waited_for: waited_for.median,
        queued: queued.median,
    })
}

/// What the first call of a map costs, and the second: it keeps what the first one had to get.
fn first_calls(bench: &mut Bench, empty: f64) -> Result<()> {
    let one = bench.buffer([1u64])?;
    let map = RefCell::new(Map::<u64, u64>::new(bench.device())?);
    let fresh = || {
        map.replace(Map::with_capacity(bench.device(), 10)?);
        anyhow::Ok(())
    };
    let used = || {
        fresh()?;
        let map = map.borrow();
        map.insert(&one, &one)?;
        map.on(bench.stream).insert(&one, &one)?.wait()?;
        anyhow::Ok(())
    };
    let insert = || map.borrow().insert(&one, &one);
    let insert_on = || map.borrow().on(bench.stream).insert(&one, &one)?.wait();
    let (first, _) = bench.time_after(fresh, insert)?;
    let (second, _) = bench.time_after(used, insert)?;
    let (first_on, _) = bench.time_after(fresh, insert_on)?;
    let (second_on, _) = bench.time_after(used, insert_on)?;
    for (name, took) in [
        ("first insert of a map", first),
        ("second insert", second),
        ("first insert on a stream", first_on),
        ("second insert on a stream", second_on),
    ] {
        let row = Row::op(format!("8+8 {name}"), took, 1, empty);
        bench.report.add(row);
    }
    Ok(())
}

/// A map, and what calls on it are about.
struct Calls<'a, 'b> {
    bench: &'a mut Bench<'b>,
    map: &'a Map<u64, u64>,
    /// The keys of the map, in an order in which they are looked up.
    asked: Buffer<u64>,
    /// Values that are never stored.
    values: Buffer<u64>,
    found: Buffer<u64>,
    empty: Empty,
}

impl Calls<'_, '_> {
    /// Calls that are waited for one by one.
    fn row(&self, verb: &str, took: Time, size: usize) -> Row {
        Row::op(name(verb, size), took, size, self.empty.waited_for)
    }

    fn get(&mut self, size: usize) -> Result<()> {
        let n = self.bench.n;
        let took = per_call(self.bench, |call| {
            let keys = self.asked.slice(part(n, size, call))?;
            self.map.get_or_into(&keys, u64::MAX, &mut self.found)
        })?;
        let row = self.row("get_or", took, size);
        let row = row.at(CHART, "get_or", Axis::Batch, size as f64);
        self.bench.report.add(row);
        Ok(())
    }

    /// Verbs on a stream, of which many are queued before the first wait.
    fn queued(&mut self, size: usize) -> Result<()> {
        let on = self.map.on(self.bench.stream);
        let part = part(self.bench.n, size, 1);
        let (keys, values) = (self.asked.slice(part.clone())?, self.values.slice(part)?);
        let get = || on.get_or_into(&keys, u64::MAX, &mut self.found).map(drop);
        let get = queued(self.bench, get)?;
        let insert = queued(self.bench, || on.insert(&keys, &values).map(drop))?;
        for (verb, took) in [("get_or", get), ("insert, all present,", insert)] {
            let line = format!("{verb} on a stream, queued,");
            let row = Row::op(name(&line, size), took, size, self.empty.queued);
            let row = row.at(CHART, &line, Axis::Batch, size as f64);
            self.bench.report.add(row);
        }
        Ok(())
    }

    fn insert(&mut self, size: usize) -> Result<()> {
        let n = self.bench.n;
        let took = per_call(self.bench, |call| {
            let part = part(n, size, call);
            let (keys, values) = (self.asked.slice(part.clone())?, self.values.slice(part)?);
            let new = self.map.insert(&keys, &values)?;
            ensure!(new == 0, "insert of present keys stored {new}");
            Ok(())
        })?;
        let row = self.row("insert, all present,", took, size);
        self.bench.report.add(row);
        Ok(())
    }

    /// Removes keys and stores them again, from the other end: those lie after their tombstones.
    fn renew(&mut self, size: usize) -> Result<()> {
        let n = self.bench.n;
        let took = per_call(self.bench, |call| {
            let part = part(n, size, call);
            let part = n - part.end..n - part.start;
            let (keys, values) = (self.asked.slice(part.clone())?, self.values.slice(part)?);
            let removed = self.map.remove(&keys)?;
            let stored = self.map.insert(&keys, &values)?;
            ensure!(
                (removed, stored) == (size, size),
                "{removed} removed, {stored} stored"
            );
            Ok(())
        })?;
        let row = self.row("remove, then insert,", took, size);
        self.bench.report.add(row);
        Ok(())
    }
}

/// Which of `n` keys a call is about.
fn part(n: usize, size: usize, call: usize) -> Range<usize> {
    let at = call * size % (n - size + 1);
    at..at + size
}

fn name(verb: &str, size: usize) -> String {
    format!("8+8 {verb} of {size}")
}

/// The time of one call.
fn per_call<E: Into<Error>>(
    bench: &Bench,
    mut call: impl FnMut(usize) -> Result<(), E>,
) -> Result<Time> {
    let (all, ()) = bench.time(|| (0..CALLS).try_for_each(&mut call))?;
    Ok(all.per_call(CALLS))
}

/// The time of one of many calls that are queued, and waited for together.
fn queued<E: Into<Error>>(bench: &Bench, mut call: impl FnMut() -> Result<(), E>) -> Result<Time> {
    let wait = || bench.stream.synchronize();
    let (all, ()) = bench.time_after(wait, || {
        (0..QUEUED).try_for_each(|_| call()).map_err(Into::into)?;
        Ok::<_, Error>(wait()?)
    })?;
    Ok(all.per_call(QUEUED))
}
