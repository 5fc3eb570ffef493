//! Large batches: maps built from one, batches sorted into bins for a map in use, each beside the
//! same batch stored as it comes.

use anyhow::{Result, ensure};
use gpumap::{Buffer, Growth, Map};

use crate::bench::Bench;
use crate::data::{BenchKey, BenchValue, pair_bytes, sizes, slot_bytes};

/// Whether large batches are sorted.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// In the way that the map chooses.
    Own,
    /// In bins if the map is in use.
    Bins,
    /// Not sorted.
    AsItComes,
}

/// One map.
#[derive(Clone, Copy, Debug)]
struct Case {
    /// Pairs per slot if all of the batch are different.
    load: f64,
    submaps: u32,
    way: Way,
}

impl Case {
    fn map<K: BenchKey, V: BenchValue>(&self, bench: &Bench) -> Result<Map<K, V>> {
        let builder = bench
            .map(bench.n, self.load)
            .growth(Growth::Fixed)
            .submaps(self.submaps);
        Ok(match self.way {
            Way::Own if bench.device().is_cuda() => builder,
            // The executor sorts nothing by itself.
            Way::Own => builder.bulk_from([1; 3]),
            Way::Bins => builder.bulk_from([1, usize::MAX, 1]),
            Way::AsItComes => builder.bulk_from([usize::MAX; 3]),
        }
        .build()?)
    }

    fn name<K, V>(&self, what: &str) -> String {
        let way = match self.way {
            Way::Own => "",
            Way::Bins => ", in bins",
            Way::AsItComes => ", as it comes",
        };
        format!("{} load {}, {what}{way}", sizes::<K, V>(), self.load)
    }
}

/// A batch, in which the first `distinct` keys come again and again.
struct Batch<'a, K, V> {
    keys: Buffer<K>,
    values: &'a Buffer<V>,
    distinct: usize,
}

/// Measures and verifies one size of pair at each load.
pub fn run<K: BenchKey, V: BenchValue>(
    bench: &mut Bench,
    loads: &[f64],
    submaps: u32,
) -> Result<()> {
    let n = bench.n;
    let values = &bench.buffer((0..n as u64).map(V::dense))?;
    for (what, distinct) in [
        ("unique keys", n),
        ("10 copies of each key", n / 10),
        ("1000 keys", 1000),
    ] {
        let distinct = distinct.min(n);
        let batch = Batch {
            keys: bench.buffer((0..n).map(|i| K::sparse((i % distinct) as u64)))?,
            values,
            distinct,
        };
        for &load in loads {
            let case = |way| Case { load, submaps, way };
            for way in [Way::Own, Way::AsItComes] {
                into_empty(bench, case(way), &batch, what)?;
            }
            if distinct < n {
                continue;
            }
            for way in [Way::Own, Way::Bins, Way::AsItComes] {
                let map = case(way).map(bench)?;
                into_half(bench, case(way), &map, &batch)?;
                // In bins, as in the map's own way.
                if !matches!(way, Way::Bins) {
                    out_again(bench, case(way), &map, &batch)?;
                }
            }
        }
    }
    Ok(())
}

/// The batch into an empty map.
fn into_empty<K: BenchKey, V: BenchValue>(
    bench: &mut Bench,
    case: Case,
    batch: &Batch<'_, K, V>,
    what: &str,
) -> Result<()> {
    let (n, distinct) = (bench.n, batch.distinct);
    let map = case.map(bench)?;
    let insert = || map.insert(&batch.keys, batch.values);
    let (took, new) = bench.time_after(|| map.clear(), insert)?;
    ensure!(new == distinct && map.len() == distinct, "{new} new keys");
    verify_held(bench, &map, batch)?;
    // The pairs twice on their way to the pages and once in them, and the table.
    let bytes = 5 * n * pair_bytes::<K, V>() + table_bytes(&map);
    let name = case.name::<K, V>(&format!("{what} into an empty map"));
    bench.report.add(bench.beside_copy(name, took, n, bytes));
    Ok(())
}

/// Half of the pairs into a map that has the other half.
fn into_half<K: BenchKey, V: BenchValue>(
    bench: &mut Bench,
    case: Case,
    map: &Map<K, V>,
    batch: &Batch<'_, K, V>,
) -> Result<()> {
    let (n, half) = (bench.n, bench.n / 2);
    let old = (batch.keys.slice(..half)?, batch.values.slice(..half)?);
    let come = (batch.keys.slice(half..)?, batch.values.slice(half..)?);
    let fill = || {
        map.clear()?;
        map.insert(&old.0, &old.1).map(drop)
    };
    let (took, new) = bench.time_after(fill, || map.insert(&come.0, &come.1))?;
    ensure!(new == n - half && map.len() == n, "{new} new keys");
    if !matches!(case.way, Way::AsItComes) {
        verify_held(bench, map, batch)?;
    }
    let bytes = 3 * new * pair_bytes::<K, V>() + 2 * table_bytes(map);
    let name = case.name::<K, V>(&format!("{new} into {half}"));
    bench.report.add(bench.beside_copy(name, took, new, bytes));
    Ok(())
}

/// All pairs out again.
fn out_again<K: BenchKey, V: BenchValue>(
    bench: &mut Bench,
    case: Case,
    map: &Map<K, V>,
    batch: &Batch<'_, K, V>,
) -> Result<()> {
    let n = bench.n;
    let fill = || {
        map.clear()?;
        map.insert(&batch.keys, batch.values).map(drop)
    };
    let (took, removed) = bench.time_after(fill, || map.remove(&batch.keys))?;
    ensure!(removed == n && map.is_empty(), "{removed} removed");
    let bytes = 3 * n * size_of::<K>() + 2 * table_bytes(map);
    let name = case.name::<K, V>("remove");
    bench.report.add(bench.beside_copy(name, took, n, bytes));
    Ok(())
}

fn table_bytes<K: BenchKey, V: BenchValue>(map: &Map<K, V>) -> usize {
    map.slots() * slot_bytes::<K, V>()
}

/// Every key has the number of one of its pairs as its value.
fn verify_held<K: BenchKey, V: BenchValue>(
    bench: &Bench,
    map: &Map<K, V>,
    batch: &Batch<'_, K, V>,
) -> Result<()> {
    let (n, distinct) = (batch.keys.len(), batch.distinct);
    let mut held = bench.zeroed::<V>(distinct)?;
    let absent = V::dense(u64::MAX);
    map.get_or_into(&batch.keys.slice(..distinct)?, absent, &mut held)?;
    for (i, held) in held.to_vec()?.iter().enumerate() {
        let number = held.number() as usize;
        ensure!(
            number < n && number % distinct == i,
            "key {i} has the value {number}"
        );
    }
    Ok(())
}
