//! Large batches: maps built from one, batches sorted into bins for a map in use, each beside the
//! same batch stored as it comes.

use anyhow::{Result, ensure};
use gpumap::{Buffer, Growth, Map, Stream};

use crate::ceilings::Ceilings;
use crate::data::{BenchKey, BenchValue, slot_bytes};
use crate::measure::time;
use crate::report::{Report, Row};

/// One size of pair in maps of `n` pairs at one load.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Pairs in the full map.
    pub n: usize,
    /// Pairs per slot.
    pub load: f64,
    /// Submaps.
    pub submaps: u32,
    /// Runs of each measurement.
    pub runs: usize,
}

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

impl Case {
    fn map<K: BenchKey, V: BenchValue>(&self, stream: &Stream, way: Way) -> Result<Map<K, V>> {
        let builder = Map::builder(stream.device())
            .capacity(self.n)
            .max_load_factor(self.load)
            .growth(Growth::Fixed)
            .submaps(self.submaps)
            .hash_seed(1);
        Ok(match way {
            Way::Own if stream.device().is_cuda() => builder,
            // The executor sorts nothing by itself.
            Way::Own => builder.bulk_from([1; 3]),
            Way::Bins => builder.bulk_from([1, usize::MAX, 1]),
            Way::AsItComes => builder.bulk_from([usize::MAX; 3]),
        }
        .build()?)
    }
}

/// Measures and verifies one size of pair at each load.
pub fn run<K: BenchKey, V: BenchValue>(
    stream: &Stream,
    case: Case,
    loads: &[f64],
    ceilings: &Ceilings,
    report: &mut Report,
) -> Result<()> {
    let n = case.n;
    let values: Vec<V> = (0..n as u64).map(V::dense).collect();
    let values = Buffer::from_slice(stream, &values)?;
    for (what, distinct) in [
        ("unique keys", n),
        ("10 copies of each key", n / 10),
        ("1000 keys", 1000),
    ] {
        let distinct = distinct.min(n);
        let keys: Vec<K> = (0..n).map(|i| K::sparse((i % distinct) as u64)).collect();
        let keys = Buffer::from_slice(stream, &keys)?;
        for &load in loads {
            let case = Case { load, ..case };
            for way in [Way::Own, Way::AsItComes] {
                let map = case.map::<K, V>(stream, way)?;
                let mut new = 0;
                let took = time(
                    case.runs,
                    || Ok(map.clear()?),
                    || {
                        new = map.insert(&keys, &values)?;
                        Ok(())
                    },
                )?;
                ensure!(new == distinct && map.len() == distinct, "{new} new keys");
                verify(stream, &map, &keys, distinct)?;
                let bytes = build_bytes::<K, V>(&map, n);
                let name = name::<K, V>(&case, &format!("{what} into an empty map"), way);
                report.add(Row::op(name, took, n, bytes / ceilings.copy * 1e3).moving(bytes));
            }
            if distinct == n {
                for way in [Way::Own, Way::Bins, Way::AsItComes] {
                    let map = case.map::<K, V>(stream, way)?;
                    in_use(stream, case, way, &map, (&keys, &values), ceilings, report)?;
                }
            }
        }
    }
    Ok(())
}

/// Half of the pairs into a map that has the other half, and all of them out again.
fn in_use<K: BenchKey, V: BenchValue>(
    stream: &Stream,
    case: Case,
    way: Way,
    map: &Map<K, V>,
    (keys, values): (&Buffer<K>, &Buffer<V>),
    ceilings: &Ceilings,
    report: &mut Report,
) -> Result<()> {
    let n = case.n;
    let half = n / 2;
    let (old_keys, old_values) = (keys.slice(..half)?, values.slice(..half)?);
    let (new_keys, new_values) = (keys.slice(half..)?, values.slice(half..)?);
    let mut new = 0;
    let took = time(
        case.runs,
        || {
            map.clear()?;
            map.insert(&old_keys, &old_values)?;
            Ok(())
        },
        || {
            new = map.insert(&new_keys, &new_values)?;
            Ok(())
        },
    )?;
    ensure!(new == n - half && map.len() == n, "{new} new keys");
    if !matches!(way, Way::AsItComes) {
        verify(stream, map, keys, n)?;
    }
    let pair = size_of::<K>() + size_of::<V>();
    let table = 2 * map.slots() * slot_bytes::<K, V>();
    let bytes = (3 * (n - half) * pair + table) as f64;
    let ceiling = bytes / ceilings.copy * 1e3;
    let what = format!("{} into {half}", n - half);
    let row = Row::op(name::<K, V>(&case, &what, way), took, n - half, ceiling);
    report.add(row.moving(bytes));

    if matches!(way, Way::Bins) {
        return Ok(()); // as in the map's own way
    }
    let mut removed = 0;
    let took = time(
        case.runs,
        || {
            map.clear()?;
            map.insert(keys, values)?;
            Ok(())
        },
        || {
            removed = map.remove(keys)?;
            Ok(())
        },
    )?;
    ensure!(removed == n && map.is_empty(), "{removed} removed");
    let bytes = (3 * n * size_of::<K>() + table) as f64;
    let ceiling = bytes / ceilings.copy * 1e3;
    report.add(Row::op(name::<K, V>(&case, "remove", way), took, n, ceiling).moving(bytes));
    Ok(())
}

/// What a build reads and writes: the pairs twice on their way to the pages and once in them, and
/// the table.
fn build_bytes<K: BenchKey, V: BenchValue>(map: &Map<K, V>, n: usize) -> f64 {
    let pairs = 5 * n * (size_of::<K>() + size_of::<V>());
    (pairs + map.slots() * slot_bytes::<K, V>()) as f64
}

fn name<K, V>(case: &Case, what: &str, way: Way) -> String {
    let pair = format!("{}+{}", size_of::<K>(), size_of::<V>());
    let way = match way {
        Way::Own => "",
        Way::Bins => ", in bins",
        Way::AsItComes => ", as it comes",
    };
    format!("{pair} load {}, {what}{way}", case.load)
}

/// Every key has the number of one of its pairs as its value.
fn verify<K: BenchKey, V: BenchValue>(
    stream: &Stream,
    map: &Map<K, V>,
    keys: &Buffer<K>,
    distinct: usize,
) -> Result<()> {
    let mut held = Buffer::<V>::zeroed(stream, distinct)?;
    let absent = V::dense(u64::MAX);
    map.get_or_into(&keys.slice(..distinct)?, absent, &mut held)?;
    for (i, held) in held.to_vec()?.iter().enumerate() {
        let number = held.number() as usize;
        ensure!(
            number < keys.len() && number % distinct == i,
            "key {i} has the value {number}"
        );
    }
    Ok(())
}
