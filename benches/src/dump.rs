//! `retrieve_all` at every load factor and number of submaps, beside a copy of the bytes that it must move:
//! all slots are read, and all pairs written.

use anyhow::{Result, ensure};
use gpumap::{Buffer, Map, Stream};
use gpumap_benches::plots::Axis;

use crate::ceilings::Ceilings;
use crate::data::{BenchKey, BenchValue, slot_bytes};
use crate::measure::time;
use crate::report::{Report, Row};

/// Pairs per slot.
const LOADS: [f64; 6] = [0.1, 0.3, 0.5, 0.8, 0.9, 0.95];

/// Submaps.
const SUBMAPS: [u32; 3] = [1, 9, 64];

/// What part of the copy's rate it should have at least.
const TARGET: f64 = 0.95;

/// And in the order of the table: 15 % more time.
const ORDERED_TARGET: f64 = TARGET / 1.15;

/// Measures and verifies dumps of maps of `2 n` slots.
pub fn run<K: BenchKey, V: BenchValue>(
    stream: &Stream,
    n: usize,
    runs: usize,
    ceilings: &Ceilings,
    report: &mut Report,
) -> Result<()> {
    let slots = 2 * n;
    for submaps in SUBMAPS {
        for load in LOADS {
            dump::<K, V>(stream, slots, submaps, load, runs, ceilings, report)?;
        }
    }
    Ok(())
}

fn dump<K: BenchKey, V: BenchValue>(
    stream: &Stream,
    slots: usize,
    submaps: u32,
    load: f64,
    runs: usize,
    ceilings: &Ceilings,
    report: &mut Report,
) -> Result<()> {
    let n = (slots as f64 * load) as usize;
    let count = n as u64;
    let map: Map<K, V> = Map::builder(stream.device())
        .capacity((slots as f64 * 0.95) as usize)
        .max_load_factor(0.95)
        .submaps(submaps)
        .hash_seed(1)
        .build()?;
    let keys: Vec<K> = (0..count).map(K::sparse).collect();
    let values: Vec<V> = (0..count).map(V::dense).collect();
    let stored = map.insert(
        &Buffer::from_slice(stream, &keys)?,
        &Buffer::from_slice(stream, &values)?,
    )?;
    ensure!(stored == n, "insert stored {stored} of {n}");
    drop((keys, values));

    let mut out_keys = Buffer::<K>::zeroed(stream, n)?;
    let mut out = Buffer::<V>::zeroed(stream, n)?;
    let mut pairs = 0;
    let any = time(
        runs,
        || Ok(()),
        || {
            pairs = map.retrieve_all_into(&mut out_keys, &mut out)?;
            Ok(())
        },
    )?;
    ensure!(pairs == n, "retrieve_all told of {pairs} of {n}");
    verify::<K, V>(&out_keys.to_vec()?, &out.to_vec()?)?;
    let ordered = time(
        runs,
        || Ok(()),
        || {
            pairs = map.retrieve_all_ordered_into(&mut out_keys, &mut out)?;
            Ok(())
        },
    )?;
    ensure!(pairs == n, "in order it told of {pairs} of {n}");
    verify::<K, V>(&out_keys.to_vec()?, &out.to_vec()?)?;

    let pair_bytes = size_of::<K>() + size_of::<V>();
    let moved = (map.slots() * slot_bytes::<K, V>() + n * pair_bytes) as f64;
    let ceiling = moved / ceilings.copy * 1e3;
    let plural = if submaps == 1 { "" } else { "s" };
    let sizes = format!("{}+{}", size_of::<K>(), size_of::<V>());
    let ways = [("", any, TARGET), (", ordered", ordered, ORDERED_TARGET)];
    for (order, took, target) in ways {
        let series = format!("{submaps} submap{plural}{order}");
        let name = format!("{sizes} retrieve_all, load {load}, {series}");
        let chart = format!("{sizes} retrieve_all, by load");
        report.add(
            Row::op(name, took, map.slots(), ceiling)
                .moving(moved)
                .aiming_at(target)
                .at(&chart, &series, Axis::Load, load),
        );
    }
    Ok(())
}

/// Every pair is there once, and whole.
fn verify<K: BenchKey, V: BenchValue>(keys: &[K], values: &[V]) -> Result<()> {
    let mut seen = vec![false; keys.len()];
    for (key, value) in keys.iter().zip(values) {
        let i = value.number();
        let once = seen
            .get_mut(i as usize)
            .map(|seen| std::mem::replace(seen, true));
        ensure!(
            once == Some(false) && K::sparse(i) == *key,
            "retrieve_all mixed pairs up, or repeated one"
        );
    }
    Ok(())
}
