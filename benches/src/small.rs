//! Small batches: what a call costs beside an empty kernel launch.

use std::cell::RefCell;

use anyhow::{Result, ensure};
use gpumap::simt::kernel::Grid;
use gpumap::{Buffer, Map, Stream};
use gpumap_benches::plots::Axis;
use gpumap_kernels::ceilings::{COPY_16, CeilingArgs};

use crate::data::{Word, strided};
use crate::measure::time;
use crate::report::{Report, Row};

/// Keys per call.
const SIZES: [usize; 5] = [1, 1_000, 10_000, 100_000, 1_000_000];

/// Keys of each of several verbs.
const FEW: usize = 1_000;

/// Calls per measurement.
const CALLS: usize = 50;

/// Calls that are queued before the first wait.
const QUEUED: usize = 50;

const CHART: &str = "8+8, calls of few keys";

/// Measures calls on a map of `n` pairs of 8 + 8 bytes in `2 n` slots, from device memory to device
/// memory. Figures are of one call.
pub fn run(stream: &Stream, n: usize, runs: usize, report: &mut Report) -> Result<()> {
    let count = n as u64;
    let keys: Vec<u64> = (0..count).map(u64::sparse).collect();
    let values: Vec<u64> = (0..count).collect();
    let asked: Vec<u64> = (0..count)
        .map(|i| keys[strided(i, count) as usize])
        .collect();
    let map: Map<u64, u64> = Map::builder(stream.device())
        .capacity(2 * n)
        .max_load_factor(0.95)
        .hash_seed(1)
        .build()?;
    map.insert(&keys, &values)?;
    let asked = Buffer::from_slice(stream, &asked)?;
    let values = Buffer::from_slice(stream, &values)?;
    let mut found = Buffer::<u64>::zeroed(stream, n)?;

    let mut word = Buffer::<[u64; 2]>::zeroed(stream, 2)?;
    let args = CeilingArgs {
        table: word.as_mut_ptr().cast(),
        units: 0,
        other: word.as_mut_ptr().cast(),
        n: 0,
    };
    let empty = per_call(runs, |_| {
        // SAFETY: of nothing, nothing is copied.
        unsafe { COPY_16.launch(stream, Grid::new(1, 32), args) }?;
        Ok(stream.synchronize()?)
    })?;
    report.add(Row::ceiling(
        "an empty kernel, launched and waited for",
        empty,
        1,
    ));
    first_calls(stream, runs, empty.median, report)?;
    let empty_queued = queued(stream, runs, || {
        // SAFETY: of nothing, nothing is copied.
        unsafe { COPY_16.launch(stream, Grid::new(1, 32), args) }?;
        Ok(())
    })?;
    report.add(Row::ceiling("an empty kernel, queued", empty_queued, 1));
    let on = map.on(stream);
    for size in SIZES {
        if size > n {
            continue;
        }
        let part = |call: usize| {
            let at = call * size % (n - size + 1);
            at..at + size
        };
        let name = |verb: &str| format!("8+8 {verb} of {size}");
        let get = per_call(runs, |call| {
            Ok(map.get_or_into(&asked.slice(part(call))?, u64::MAX, &mut found)?)
        })?;
        let row = Row::op(name("get_or"), get, size, empty.median);
        report.add(row.at(CHART, "get_or", Axis::Batch, size as f64));
        let ahead = (asked.slice(part(1))?, values.slice(part(1))?);
        let get_on = queued(stream, runs, || {
            drop(on.get_or_into(&ahead.0, u64::MAX, &mut found)?);
            Ok(())
        })?;
        let insert_on = queued(stream, runs, || {
            drop(on.insert(&ahead.0, &ahead.1)?);
            Ok(())
        })?;
        for (verb, took) in [("get_or", get_on), ("insert, all present,", insert_on)] {
            let line = format!("{verb} on a stream, queued,");
            let row = Row::op(name(&line), took, size, empty_queued.median);
            report.add(row.at(CHART, &line, Axis::Batch, size as f64));
        }
        if size == FEW {
            several_verbs(
                stream,
                runs,
                &map,
                [empty.median, empty_queued.median],
                report,
            )?;
        }
        let insert = per_call(runs, |call| {
            let part = part(call);
            let new = map.insert(&asked.slice(part.clone())?, &values.slice(part)?)?;
            ensure!(new == 0, "insert of present keys stored {new}");
            Ok(())
        })?;
        report.add(Row::op(
            name("insert, all present,"),
            insert,
            size,
            empty.median,
        ));
        // From the other end: keys that were removed and stored again lie behind their tombstones.
        let from_behind = |call: usize| {
            let part = part(call);
            n - part.end..n - part.start
        };
        let renew = per_call(runs, |call| {
            let keys = asked.slice(from_behind(call))?;
            let removed = map.remove(&keys)?;
            let stored = map.insert(&keys, &values.slice(from_behind(call))?)?;
            ensure!(
                (removed, stored) == (size, size),
                "{removed} removed, {stored} stored"
            );
            Ok(())
        })?;
        report.add(Row::op(
            name("remove, then insert,"),
            renew,
            size,
            empty.median,
        ));
    }
    Ok(())
}

/// Three verbs one after the other, none of which changes the map: by a call each, and as a graph. Next to
/// an empty kernel, waited for and queued, and to three.
fn several_verbs(
    stream: &Stream,
    runs: usize,
    map: &Map<u64, u64>,
    [empty, empty_queued]: [f64; 2],
    report: &mut Report,
) -> Result<()> {
    let present: Vec<u64> = (0..FEW as u64).map(u64::sparse).collect();
    let keys = Buffer::from_slice(stream, &present)?;
    // The map has fewer pairs than that.
    let absent: Vec<u64> = (1 << 40..(1 << 40) + FEW as u64).map(u64::sparse).collect();
    let absent = Buffer::from_slice(stream, &absent)?;
    let mut values = Buffer::<u64>::zeroed(stream, FEW)?;
    let mut found = Buffer::<u8>::zeroed(stream, FEW)?;
    let on = map.on(stream);
    let mut graph = map.graph(stream);

    let mut call_each = || {
        drop(on.get_into(&keys, &mut values, &mut found)?);
        let new = on.insert(&keys, &keys)?;
        Ok::<_, anyhow::Error>((new, on.remove(&absent)?))
    };
    let each = per_call(runs, |_| {
        let (new, removed) = call_each()?;
        let counts = (new.wait()?, removed.wait()?);
        ensure!(counts == (0, 0), "{counts:?} new and removed");
        Ok(())
    })?;
    let each_queued = queued(stream, runs, || call_each().map(drop))?;
    let mut launch = || {
        let mut verbs = graph.record();
        verbs.get_into(&keys, &mut values, &mut found)?;
        verbs.insert(&keys, &keys)?;
        verbs.remove(&absent)?;
        Ok::<_, anyhow::Error>(verbs.launch()?)
    };
    let together = per_call(runs, |_| {
        let counts = launch()?.wait()?;
        ensure!(counts == [0; 3], "{counts:?} new and removed");
        Ok(())
    })?;
    let together_queued = queued(stream, runs, || launch().map(drop))?;
    let found = found.to_vec()?;
    ensure!(found.iter().all(|&found| found == 1), "keys are missing");

    let mut add = |how: &str, took, of: &str, ceiling| {
        let name = format!("8+8 3 verbs of {FEW} {how}, to {of}");
        report.add(Row::op(name, took, 3 * FEW, ceiling));
    };
    add("by a call each, waited for", each, "an empty kernel", empty);
    add("as a graph, waited for", together, "an empty kernel", empty);
    let three = 3.0 * empty_queued;
    add(
        "by a call each, queued",
        each_queued,
        "three empty kernels",
        three,
    );
    add(
        "as a graph, queued",
        together_queued,
        "three empty kernels",
        three,
    );
    add(
        "as a graph, queued",
        together_queued,
        "an empty kernel",
        empty_queued,
    );
    Ok(())
}

/// The time of one of many calls that are queued, and waited for together.
fn queued(
    stream: &Stream,
    runs: usize,
    mut call: impl FnMut() -> Result<()>,
) -> Result<crate::measure::Time> {
    let all = time(
        runs,
        || Ok(stream.synchronize()?),
        || {
            (0..QUEUED).try_for_each(|_| call())?;
            Ok(stream.synchronize()?)
        },
    )?;
    let of_one = |ms: f64| ms / QUEUED as f64;
    Ok(crate::measure::Time {
        median: of_one(all.median),
        least: of_one(all.least),
        most: of_one(all.most),
    })
}

/// What the first call of a map costs, and the second: it keeps what the first one had to get.
fn first_calls(stream: &Stream, runs: usize, empty: f64, report: &mut Report) -> Result<()> {
    let one = Buffer::from_slice(stream, &[1u64])?;
    let map = RefCell::new(Map::<u64, u64>::new(stream.device())?);
    let fresh = || {
        map.replace(Map::with_capacity(stream.device(), 10)?);
        Ok(())
    };
    let second = || {
        fresh()?;
        let map = map.borrow();
        map.insert(&one, &one)?;
        map.on(stream).insert(&one, &one)?.wait()?;
        Ok(())
    };
    let insert = || map.borrow().insert(&one, &one).map(drop);
    let insert_on = || map.borrow().on(stream).insert(&one, &one)?.wait().map(drop);
    let mut add = |name: &str, took| report.add(Row::op(name.to_owned(), took, 1, empty));
    add(
        "8+8 first insert of a map",
        time(runs, fresh, || Ok(insert()?))?,
    );
    add("8+8 second insert", time(runs, second, || Ok(insert()?))?);
    add(
        "8+8 first insert on a stream",
        time(runs, fresh, || Ok(insert_on()?))?,
    );
    add(
        "8+8 second insert on a stream",
        time(runs, second, || Ok(insert_on()?))?,
    );
    Ok(())
}

/// The time of one call.
fn per_call(
    runs: usize,
    mut call: impl FnMut(usize) -> Result<()>,
) -> Result<crate::measure::Time> {
    let all = time(runs, || Ok(()), || (0..CALLS).try_for_each(&mut call))?;
    let of_one = |ms: f64| ms / CALLS as f64;
    Ok(crate::measure::Time {
        median: of_one(all.median),
        least: of_one(all.least),
        most: of_one(all.most),
    })
}
