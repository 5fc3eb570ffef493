//! `retrieve_all` at every load factor and number of submaps, beside a copy of the bytes that it must move:
//! all slots are read, and all pairs written.

use anyhow::{Result, ensure};
use gpumap::Map;
use gpumap_benches::plots::Axis;

use crate::bench::Bench;
use crate::data::{BenchKey, BenchValue, pair_bytes, sizes, slot_bytes};
use crate::verify;

/// Pairs per slot.
const LOADS: [f64; 6] = [0.1, 0.3, 0.5, 0.8, 0.9, 0.95];

/// Submaps.
const SUBMAPS: [u32; 3] = [1, 9, 64];

/// What part of the copy's rate it should have at least.
const TARGET: f64 = 0.95;

/// And in the order of the table: 15 % more time.
const ORDERED_TARGET: f64 = TARGET / 1.15;

/// Measures and verifies dumps of maps of `2 n` slots.
pub fn run<K: BenchKey, V: BenchValue>(bench: &mut Bench) -> Result<()> {
    for submaps in SUBMAPS {
        for load in LOADS {
            dump::<K, V>(bench, submaps, load)?;
        }
    }
    Ok(())
}

fn dump<K: BenchKey, V: BenchValue>(bench: &mut Bench, submaps: u32, load: f64) -> Result<()> {
    let slots = (2 * bench.n) as f64;
    let n = (slots * load) as usize;
    let map: Map<K, V> = bench
        .map((slots * 0.95) as usize, 0.95)
        .submaps(submaps)
        .build()?;
    let keys = bench.buffer((0..n as u64).map(K::sparse))?;
    let values = bench.buffer((0..n as u64).map(V::dense))?;
    let stored = map.insert(&keys, &values)?;
    ensure!(stored == n, "insert stored {stored} of {n}");
    drop((keys, values));

    let mut out_keys = bench.zeroed::<K>(n)?;
    let mut out = bench.zeroed::<V>(n)?;
    let (any, pairs) = bench.time(|| map.retrieve_all_into(&mut out_keys, &mut out))?;
    ensure!(pairs == n, "retrieve_all told of {pairs} of {n}");
    verify::dump(&out_keys.to_vec()?, &out.to_vec()?, K::sparse)?;
    let (ordered, pairs) = bench.time(|| map.retrieve_all_stable_into(&mut out_keys, &mut out))?;
    ensure!(pairs == n, "in order it told of {pairs} of {n}");
    verify::dump(&out_keys.to_vec()?, &out.to_vec()?, K::sparse)?;

    let bytes = map.slots() * slot_bytes::<K, V>() + n * pair_bytes::<K, V>();
    let plural = if submaps == 1 { "" } else { "s" };
    let sizes = sizes::<K, V>();
    let chart = format!("{sizes} retrieve_all, by load");
    let ways = [("", any, TARGET), (", ordered", ordered, ORDERED_TARGET)];
    for (order, took, target) in ways {
        let series = format!("{submaps} submap{plural}{order}");
        let name = format!("{sizes} retrieve_all, load {load}, {series}");
        let row = bench.beside_copy(name, took, map.slots(), bytes);
        let row = row.aiming_at(target).at(&chart, &series, Axis::Load, load);
        bench.report.add(row);
    }
    Ok(())
}
