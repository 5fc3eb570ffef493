//! The keys whose bits mean a state of a slot, and their neighbours, through every verb of a group: in small
//! batches, and among others in large ones.

use gpumap::sharded::{Rank, Shard};
use gpumap::{Key, Merge, Numeric};
use gpumap_tests::group::Group;
use gpumap_tests::oracle::{Oracle, assert_same, paired};
use gpumap_tests::pairs::{mask, value_by};
use gpumap_tests::{Batch, key, key_bits, value, value_bits};

use super::{assert_holds, map, on_groups};

/// The patterns, what they are stored as, and those next to both; and so many others.
fn keys_of<K: Key>(others: usize) -> Vec<K> {
    let scattered = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let special = [!0, !1, !2, !3, !4, 0, 1, 2, 3];
    let others = (1_000..).map(scattered).take(others);
    special.into_iter().chain(others).map(key).collect()
}

/// What these keys hold when `writer` has stored them.
fn held<K: Key, V: Numeric>(keys: &[K], writer: u8) -> Batch<K, V> {
    Batch {
        keys: keys.to_vec(),
        values: keys.iter().map(|&k| value_by(k, writer)).collect(),
    }
}

#[test]
fn every_verb_stores_finds_and_removes_them() {
    fn body<K: Key, V: Numeric>(on: &Group) {
        for others in [0, on.n(200, 100_000)] {
            let sharded = map::<K, V>(on);
            let keys = keys_of::<K>(others);
            for round in 0..3 {
                let (first, second) = (held::<K, V>(&keys, round), held::<K, V>(&keys, 99));
                let new = match round % 3 {
                    0 => sharded.insert(&keys, &first.values),
                    1 => sharded.upsert(&keys, &first.values),
                    _ => sharded.merge(&keys, &first.values, Merge::Or),
                };
                assert_eq!(new.unwrap(), keys.len(), "round {round}");
                assert_holds(&sharded, &first.bits().collect());
                assert_eq!(sharded.insert(&keys, &second.values).unwrap(), 0);
                assert_holds(&sharded, &first.bits().collect());
                assert_eq!(sharded.upsert(&keys, &second.values).unwrap(), 0);
                assert_holds(&sharded, &second.bits().collect());
                let zeros = vec![V::zeroed(); keys.len()];
                let merged = sharded.merge(&keys, &zeros, Merge::Add).unwrap();
                assert_eq!(merged, 0);
                outputs(&sharded, &second);
                assert_eq!(sharded.remove(&keys).unwrap(), keys.len());
                assert_eq!(sharded.remove(&keys).unwrap(), 0);
                let there = sharded.contains(&keys).unwrap();
                assert!(there.iter().all(|&there| !there));
                assert_holds(&sharded, &Oracle::new());
            }
        }
    }
    on_groups!(body: u64 => u64, u32 => u32);
}

/// Lookups and dumps into memory of the caller.
fn outputs<K: Key, V: Numeric>(sharded: &gpumap::ShardedMap<K, V>, right: &Batch<K, V>) {
    let n = right.len();
    let (mut values, mut found) = (vec![value::<V>(!7); n], vec![9; n]);
    sharded
        .get_into(&right.keys, &mut values, &mut found)
        .unwrap();
    let bits = |values: &[V]| -> Vec<u64> { values.iter().map(|&v| value_bits(v)).collect() };
    assert_eq!(bits(&values), bits(&right.values));
    assert_eq!(found, vec![1; n]);
    found.fill(9);
    sharded.contains_into(&right.keys, &mut found).unwrap();
    assert_eq!(found, vec![1; n]);
    let mut keys = vec![K::zeroed(); n];
    let pairs = sharded.retrieve_all_into(&mut keys, &mut values).unwrap();
    assert_eq!(pairs, n);
    assert_same(&paired(&keys, &values), &right.bits().collect(), "dump");
}

#[test]
fn one_of_them_leaves_the_others_alone() {
    fn body<K: Key, V: Numeric>(on: &Group) {
        let sharded = map::<K, V>(on);
        let all = held::<K, V>(&keys_of(0), 1);
        sharded.insert(&all.keys, &all.values).unwrap();
        for i in 0..all.len() {
            let one = &all.keys[i..=i];
            assert_eq!(sharded.remove(one).unwrap(), 1);
            let mut left: Oracle = all.bits().collect();
            left.remove(&key_bits(one[0]));
            assert_holds(&sharded, &left);
            assert_eq!(sharded.get(one).unwrap().len(), 1);
            assert!(!sharded.contains(one).unwrap()[0]);
            assert_eq!(sharded.insert(one, &all.values[i..=i]).unwrap(), 1);
        }
        assert_holds(&sharded, &all.bits().collect());
    }
    on_groups!(body: u32 => u32, u64 => ());
}

/// All ranks bring them at once, each in a batch of its own.
#[test]
fn every_rank_brings_them() {
    fn body<K: Key, V: Numeric>(on: &Group) {
        let keys = keys_of::<K>(on.n(300, 20_000));
        let ranks = on.len() as u64;
        let work = |rank: &mut Rank, shard: &mut Shard<K, V>| {
            let ones = vec![value::<V>(1); keys.len()];
            assert_eq!(shard.merge(rank, &keys, &ones, Merge::Add)?, keys.len());
            let got = shard.get(rank, &keys)?;
            let right = Some(ranks & mask(size_of::<V>()));
            assert!(got.into_iter().all(|v| v.map(value_bits) == right));
            assert!(shard.contains(rank, &keys)?.into_iter().all(|there| there));
            assert_eq!(shard.remove(rank, &keys)?, keys.len());
            assert!(shard.is_empty(rank)?);
            Ok(())
        };
        map::<K, V>(on).run(work).unwrap();
    }
    on_groups!(body: u64 => u64, u32 => u32, u64 => u32);
}
