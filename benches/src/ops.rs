//! The verbs, each beside its ceiling.

use anyhow::{Result, ensure};
use clap::ValueEnum;
use gpumap::{Buffer, Map, Merge, Stream};
use gpumap_benches::plots::Axis;

use crate::ceilings::Ceilings;
use crate::data::{BenchKey, BenchValue, strided};
use crate::measure::{Time, time};
use crate::report::{Report, Row};

/// Which keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Keys {
    /// Spread at random over all bit patterns.
    Sparse,
    /// `0..n`.
    Dense,
}

/// One map and what is done with it.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Pairs.
    pub n: usize,
    /// Pairs per slot.
    pub load: f64,
    /// Which keys.
    pub keys: Keys,
    /// Submaps.
    pub submaps: u32,
    /// Runs of each measurement.
    pub runs: usize,
}

impl Case {
    /// The `i`-th key.
    pub fn key<K: BenchKey>(&self, i: u64) -> K {
        match self.keys {
            Keys::Sparse => K::sparse(i),
            Keys::Dense => K::dense(i),
        }
    }
}

/// Measures and verifies every verb in one case.
pub fn run<K: BenchKey, V: BenchValue>(
    stream: &Stream,
    case: Case,
    ceilings: &Ceilings,
    report: &mut Report,
) -> Result<()> {
    let n = case.n;
    let count = n as u64;
    let pair = format!("{}+{}", size_of::<K>(), size_of::<V>());
    let kind = format!("{:?}", case.keys).to_lowercase();
    let chart = format!("{pair}, {kind} keys, by load");
    let op = |verb: &str, took: Time, n: usize, ceiling: f64| {
        let name = format!("{pair} {kind} load {} {verb}", case.load);
        Row::op(name, took, n, ceiling).at(&chart, verb, Axis::Load, case.load)
    };

    let keys: Vec<K> = (0..count).map(|i| case.key(i)).collect();
    let values: Vec<V> = (0..count).map(V::dense).collect();
    let asked: Vec<K> = (0..count)
        .map(|i| keys[strided(i, count) as usize])
        .collect();
    let absent: Vec<K> = (count..2 * count).map(|i| case.key(i)).collect();
    let keys = Buffer::from_slice(stream, &keys)?;
    let asked = Buffer::from_slice(stream, &asked)?;
    let absent = Buffer::from_slice(stream, &absent)?;
    let stored = Buffer::from_slice(stream, &values)?;
    drop(values);

    let map: Map<K, V> = Map::builder(stream.device())
        .capacity(n)
        .max_load_factor(case.load)
        .submaps(case.submaps)
        .hash_seed(1)
        .build()?;

    let cas = if size_of::<K>() + size_of::<V>() == 8 {
        ceilings.cas_64
    } else {
        ceilings.cas_128.unwrap_or(ceilings.cas_64)
    };
    let mut new = 0;
    let insert = time(
        case.runs,
        || Ok(map.clear()?),
        || {
            new = map.insert(&keys, &stored)?;
            Ok(())
        },
    )?;
    ensure!(new == n && map.len() == n, "insert stored {new} of {n}");
    report.add(op("insert", insert, n, cas));

    // Other values, which must not get in.
    let ones: Vec<V> = (0..count).map(|_| V::dense(1)).collect();
    let ones = Buffer::from_slice(stream, &ones)?;
    let again = time(
        case.runs,
        || Ok(()),
        || {
            new = map.insert(&asked, &ones)?;
            Ok(())
        },
    )?;
    ensure!(new == 0, "insert of present keys stored {new}");
    report.add(op("insert, all present", again, n, ceilings.gather));

    let mut out = Buffer::<V>::zeroed(stream, n)?;
    let mut found = Buffer::<u8>::zeroed(stream, n)?;
    let hit = time(
        case.runs,
        || Ok(()),
        || Ok(map.get_into(&asked, &mut out, &mut found)?),
    )?;
    verify_values(&out.to_vec()?, count, 0)?;
    ensure!(found.to_vec()?.iter().all(|&f| f == 1), "get missed a key");
    report.add(op("get, hit", hit, n, ceilings.gather));

    out.fill_bytes(0xee)?;
    let bare = time(
        case.runs,
        || Ok(()),
        || Ok(map.get_or_into(&asked, V::dense(0), &mut out)?),
    )?;
    verify_values(&out.to_vec()?, count, 0)?;
    report.add(op("get_or, hit", bare, n, ceilings.gather));

    let miss = time(
        case.runs,
        || Ok(()),
        || Ok(map.get_into(&absent, &mut out, &mut found)?),
    )?;
    ensure!(
        found.to_vec()?.iter().all(|&f| f == 0),
        "get found an absent key"
    );
    report.add(op("get, miss", miss, n, ceilings.gather));

    let mut out_keys = Buffer::<K>::zeroed(stream, n)?;
    let mut pairs = 0;
    let dump = time(
        case.runs,
        || Ok(()),
        || {
            pairs = map.retrieve_all_into(&mut out_keys, &mut out)?;
            Ok(())
        },
    )?;
    ensure!(pairs == n, "retrieve_all reported {pairs} of {n}");
    verify_dump(&case, &out_keys.to_vec()?, &out.to_vec()?)?;
    let slot = if size_of::<K>() + size_of::<V>() == 8 {
        8
    } else {
        16
    };
    let moved = (map.slots() * slot + n * (size_of::<K>() + size_of::<V>())) as f64;
    let ceiling = moved / ceilings.copy * 1e3;
    let dumped = format!("{pair} {kind} load {} retrieve_all", case.load);
    report.add(Row::op(dumped, dump, map.slots(), ceiling).moving(moved));

    let mut added = 0;
    let add = time(
        case.runs,
        || Ok(()),
        || {
            new = map.merge(&asked, &ones, Merge::Add)?;
            added += 1;
            Ok(())
        },
    )?;
    ensure!(new == 0, "add stored {new}");
    map.get_or_into(&asked, V::dense(0), &mut out)?;
    verify_values(&out.to_vec()?, count, added)?;
    report.add(op("merge, all present", add, n, ceilings.add_64));

    let upsert = time(
        case.runs,
        || Ok(map.clear()?),
        || {
            new = map.upsert(&keys, &stored)?;
            Ok(())
        },
    )?;
    ensure!(new == n && map.len() == n, "upsert stored {new} of {n}");
    map.get_or_into(&asked, V::dense(0), &mut out)?;
    verify_values(&out.to_vec()?, count, 0)?;
    report.add(op("upsert", upsert, n, cas));

    let mut removed = 0;
    let remove = time(
        case.runs,
        || {
            map.clear()?;
            map.insert(&keys, &stored)?;
            Ok(())
        },
        || {
            removed = map.remove(&asked)?;
            Ok(())
        },
    )?;
    ensure!(
        removed == n && map.is_empty(),
        "remove took {removed} of {n}"
    );
    report.add(op("remove", remove, n, ceilings.cas_64));
    Ok(())
}

/// The value of the `i`-th key asked for is its index plus what was added.
fn verify_values<V: BenchValue>(values: &[V], count: u64, added: u64) -> Result<()> {
    let expected = |i: u64| V::dense(strided(i, count) + added);
    let right = (0..count).all(|i| values[i as usize] == expected(i));
    ensure!(right, "a wrong value");
    Ok(())
}

/// Every value names its key, once.
fn verify_dump<K: BenchKey, V: BenchValue>(case: &Case, keys: &[K], values: &[V]) -> Result<()> {
    let mut seen = vec![false; case.n];
    for (key, value) in keys.iter().zip(values) {
        // A value is the index of its pair.
        let i = value.number();
        ensure!(
            i < case.n as u64 && case.key::<K>(i) == *key,
            "retrieve_all mixed pairs up"
        );
        ensure!(
            !std::mem::replace(&mut seen[i as usize], true),
            "retrieve_all repeated a pair"
        );
    }
    Ok(())
}
