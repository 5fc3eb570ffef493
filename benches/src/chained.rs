//! The verbs of chained maps, each beside its ceiling: sparse keys, in maps whose chains have one slab as
//! a rule, and two.

use anyhow::{Result, ensure};
use gpumap::{Buffer, ChainedMap, Stream, Value};

use crate::ceilings::Ceilings;
use crate::data::{BenchKey, BenchValue, strided};
use crate::measure::time;
use crate::report::{Report, Row};

/// Bytes per slab.
const SLAB_BYTES: usize = 128;

/// Pairs per slot of the base slabs. With 0.7 few chains have a second slab; with 1.4 most have two,
/// about as full.
pub const LOADS: [f64; 2] = [0.7, 1.4];

/// Measures and verifies the verbs on a map with so many pairs per slot of its base slabs.
pub fn run<K: BenchKey, V: BenchValue + Value<Bits = K::Bits>>(
    stream: &Stream,
    n: usize,
    load: f64,
    runs: usize,
    ceilings: &Ceilings,
    report: &mut Report,
) -> Result<()> {
    let count = n as u64;
    let pair_bytes = size_of::<K>() + size_of::<V>();
    let pair = format!("{}+{}", size_of::<K>(), size_of::<V>());
    let name = |verb: &str| format!("chained {pair} load {load} {verb}");

    let keys: Vec<K> = (0..count).map(K::sparse).collect();
    let values: Vec<V> = (0..count).map(V::dense).collect();
    let asked = (0..count).map(|i| keys[strided(i, count) as usize]);
    let asked = Buffer::from_slice(stream, &asked.collect::<Vec<K>>())?;
    let absent: Vec<K> = (count..2 * count).map(K::sparse).collect();
    let absent = Buffer::from_slice(stream, &absent)?;
    let keys = Buffer::from_slice(stream, &keys)?;
    let stored = Buffer::from_slice(stream, &values)?;
    drop(values);

    let slots = SLAB_BYTES / pair_bytes - 1;
    let map: ChainedMap<K, V> = ChainedMap::builder(stream.device())
        .capacity(n)
        .buckets((count as f64 / (slots as f64 * load)).ceil() as usize)
        .hash_seed(1)
        .build()?;

    let cas = if pair_bytes == 8 {
        ceilings.cas_64
    } else {
        ceilings.cas_128.unwrap_or(ceilings.cas_64)
    };
    let mut new = 0;
    let insert = time(
        runs,
        || Ok(map.clear()?),
        || {
            new = map.insert(&keys, &stored)?;
            Ok(())
        },
    )?;
    ensure!(new == n && map.len() == n, "insert stored {new} of {n}");
    report.add(Row::op(name("insert"), insert, n, cas));

    let append = time(
        runs,
        || Ok(map.clear()?),
        || Ok(map.append(&keys, &stored)?),
    )?;
    ensure!(map.len() == n, "append stored {} of {n}", map.len());
    report.add(Row::op(name("append"), append, n, cas));

    let mut out = Buffer::<V>::zeroed(stream, n)?;
    let mut found = Buffer::<u8>::zeroed(stream, n)?;
    let hit = time(
        runs,
        || Ok(()),
        || Ok(map.get_into(&asked, &mut out, &mut found)?),
    )?;
    ensure!(found.to_vec()?.iter().all(|&f| f == 1), "get missed a key");
    let right = |(i, &value): (usize, &V)| value == V::dense(strided(i as u64, count));
    ensure!(out.to_vec()?.iter().enumerate().all(right), "a wrong value");
    report.add(Row::op(name("get, hit"), hit, n, ceilings.gather));

    let miss = time(
        runs,
        || Ok(()),
        || Ok(map.get_into(&absent, &mut out, &mut found)?),
    )?;
    ensure!(
        found.to_vec()?.iter().all(|&f| f == 0),
        "get found an absent key"
    );
    report.add(Row::op(name("get, miss"), miss, n, ceilings.gather));

    let stats = map.stats()?;
    let mut out_keys = Buffer::<K>::zeroed(stream, n)?;
    let mut pairs = 0;
    let dump = time(
        runs,
        || Ok(()),
        || {
            pairs = map.retrieve_all_into(&mut out_keys, &mut out)?;
            Ok(())
        },
    )?;
    ensure!(pairs == n, "retrieve_all reported {pairs} of {n}");
    verify_dump(&out_keys.to_vec()?, &out.to_vec()?)?;
    let slabs = stats.buckets + stats.linked_slabs;
    let moved = (slabs * SLAB_BYTES + n * pair_bytes) as f64;
    let ceiling = moved / ceilings.copy * 1e3;
    report.add(Row::op(name("retrieve_all"), dump, stats.slots, ceiling).moving(moved));

    let mut removed = 0;
    let remove = time(
        runs,
        || {
            map.clear()?;
            Ok(map.append(&keys, &stored)?)
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
    report.add(Row::op(name("remove"), remove, n, ceilings.cas_64));
    println!(
        "{} buckets, {} slabs linked, longest chain {}, {:.2} pairs per slot, {} bytes",
        stats.buckets,
        stats.linked_slabs,
        stats.longest_chain,
        stats.load_factor(),
        stats.bytes
    );
    Ok(())
}

/// Every value names its key, once.
fn verify_dump<K: BenchKey, V: BenchValue>(keys: &[K], values: &[V]) -> Result<()> {
    let mut seen = vec![false; keys.len()];
    for (key, value) in keys.iter().zip(values) {
        // A value is the index of its pair.
        let i = value.number();
        ensure!(
            i < keys.len() as u64 && K::sparse(i) == *key,
            "retrieve_all mixed pairs up"
        );
        ensure!(
            !std::mem::replace(&mut seen[i as usize], true),
            "retrieve_all repeated a pair"
        );
    }
    Ok(())
}
