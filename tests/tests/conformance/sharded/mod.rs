//! Maps and histograms over several ranks, against one map and plain Rust.

mod batches;
mod defaults;
mod failures;
mod histogram;
mod many_groups;
mod nested;
mod one_device;
mod outputs;
mod pages;
mod places;
mod processes;
mod reserved_keys;
mod retain;
mod rows;
mod stateful;
mod steps;
mod stored_rows;
mod transport;
mod verbs;
mod wide;

use gpumap::sharded::{Rank, Shard};
use gpumap::{Key, Numeric, Result, ShardedMap};
use gpumap_tests::group::Group;
use gpumap_tests::oracle::{Oracle, assert_same, paired};
use gpumap_tests::{key, key_bits, value_bits};

/// A map over a group, with fixed seeds.
pub(super) fn map<K: Key, V: Numeric>(on: &Group) -> ShardedMap<K, V> {
    let builder = on.set_up(ShardedMap::builder(on.ranks()), &|pairs| pairs);
    builder.owner_seed(5).build().unwrap()
}

/// Panics unless the map holds exactly these pairs, each on the rank that owns its key, as seen by
/// `retrieve_all`, `len`, `get` and `contains`.
fn assert_holds<K: Key, V: Numeric>(map: &ShardedMap<K, V>, expected: &Oracle) {
    let (keys, values) = map.retrieve_all().unwrap();
    assert_same(&paired(&keys, &values), expected, "retrieve_all");
    assert_eq!(map.len(), expected.len());
    assert_eq!(map.is_empty(), expected.is_empty());
    assert_eq!(map.lens().iter().sum::<usize>(), expected.len());
    let asked: Vec<K> = expected.keys().map(|&bits| key(bits)).collect();
    let got = map.get(&asked).unwrap();
    assert_eq!(got.len(), asked.len());
    for (&k, v) in asked.iter().zip(got) {
        let bits = key_bits(k);
        assert_eq!(v.map(value_bits), Some(expected[&bits]), "get({bits:#x})");
    }
    assert!(map.contains(&asked).unwrap().iter().all(|&there| there));
    let own = |rank: &mut Rank, shard: &mut Shard<K, V>| -> Result<()> {
        let (keys, _) = shard.local().retrieve_all()?;
        assert!(keys.iter().all(|&k| shard.owner(k) == rank.index()));
        Ok(())
    };
    map.run(own).unwrap();
}

/// Runs `body::<K, V>(&Group)` for these pairs of types, on every group.
macro_rules! on_groups {
    ($body:ident: $($k:ty => $v:ty),*) => {{
        $(gpumap_tests::group::on_every_group($body::<$k, $v>);)*
    }};
}
use on_groups;
