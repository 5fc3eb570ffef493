//! Three operations one after the other, none of which changes the map: by a call each, and as a graph. Next to
//! an empty kernel, waited for and queued, and to three.

use anyhow::{Result, ensure};
use gpumap::Map;

use super::{Empty, per_call, queued};
use crate::bench::Bench;
use crate::data::Word;
use crate::measure::Time;
use crate::report::Row;
use crate::verify;

/// Keys of each operation.
pub const KEYS: usize = 1_000;

/// Measures and verifies three operations on a map of fewer than 2^40 pairs, with so many first keys at least.
pub fn run(bench: &mut Bench, map: &Map<u64, u64>, empty: Empty) -> Result<()> {
    let keys = bench.buffer((0..KEYS as u64).map(u64::sparse))?;
    let absent = bench.buffer((1 << 40..(1 << 40) + KEYS as u64).map(u64::sparse))?;
    let mut values = bench.zeroed::<u64>(KEYS)?;
    let mut found = bench.zeroed::<u8>(KEYS)?;
    let on = map.on(bench.stream);
    let mut graph = map.graph(bench.stream);

    let mut call_each = || {
        drop(on.get_into(&keys, &mut values, &mut found)?);
        let new = on.insert(&keys, &keys)?;
        anyhow::Ok((new, on.remove(&absent)?))
    };
    let each = per_call(bench, |_| {
        let (new, removed) = call_each()?;
        let counts = (new.wait()?, removed.wait()?);
        ensure!(counts == (0, 0), "{counts:?} new and removed");
        Ok(())
    })?;
    let each_queued = queued(bench, || call_each().map(drop))?;
    let mut launch = || {
        let mut verbs = graph.record();
        verbs.get_into(&keys, &mut values, &mut found)?;
        verbs.insert(&keys, &keys)?;
        verbs.remove(&absent)?;
        verbs.launch()
    };
    let together = per_call(bench, |_| {
        let counts = launch()?.wait()?;
        ensure!(counts == [0; 3], "{counts:?} new and removed");
        Ok(())
    })?;
    let together_queued = queued(bench, || launch().map(drop))?;
    verify::found(&found.to_vec()?, true)?;

    let mut add = |how: &str, took: Time, of: &str, ceiling: f64| {
        let name = format!("8+8 3 verbs of {KEYS} {how}, to {of}");
        bench.report.add(Row::op(name, took, 3 * KEYS, ceiling));
    };
    let (one, three) = ("an empty kernel", "three empty kernels");
    add("by a call each, waited for", each, one, empty.waited_for);
    add("as a graph, waited for", together, one, empty.waited_for);
    let of_three = 3.0 * empty.queued;
    add("by a call each, queued", each_queued, three, of_three);
    add("as a graph, queued", together_queued, three, of_three);
    add("as a graph, queued", together_queued, one, empty.queued);
    Ok(())
}
