//! `retain` and `drain` over a group, as of one map.

use std::thread;

use gpumap::primitives::{Element, Predicate};
use gpumap::{Key, Value};
use gpumap_tests::group::Group;
use gpumap_tests::oracle::{Oracle, assert_same, paired};
use gpumap_tests::pairs::nth_key;
use gpumap_tests::{Batch, key};

use super::{map, on_groups};

#[test]
fn all_ranks_keep_what_one_map_would() {
    fn body<K: Key + Element, V: Value + Element>(on: &Group) {
        let n = on.n(900, 200_000) as u64;
        let batch = Batch::<K, V>::numbered(0..n, 1);
        let sharded = map::<K, V>(on);
        sharded.insert(&batch.keys, &batch.values).unwrap();
        let predicates = [
            (Predicate::Always, Predicate::Always),
            (Predicate::Greater(key(1 << 20)), Predicate::Always),
            (
                Predicate::Always,
                Predicate::Less(batch.values[n as usize / 2]),
            ),
            (Predicate::Equal(nth_key(n)), Predicate::Always),
        ];
        let mut held: Oracle = batch.bits().collect();
        for (i, (of_keys, of_values)) in predicates.into_iter().enumerate() {
            let pairs = batch.keys.iter().zip(&batch.values).zip(batch.bits());
            let gone = pairs.filter(|((k, v), _)| !(of_keys.holds(**k) && of_values.holds(**v)));
            let gone = gone.filter(|(_, (k, _))| held.remove(k).is_some()).count();
            assert_eq!(sharded.retain(of_keys, of_values).unwrap(), gone, "{i}");
            let (keys, values) = sharded.retrieve_all().unwrap();
            assert_same(&paired(&keys, &values), &held, "retained");
        }
        assert!(sharded.is_empty(), "no key was kept in the end");
    }
    on_groups!(body: u64 => u64, u32 => u32, u64 => u32);
}

#[test]
fn every_pair_is_drained_once() {
    fn body<K: Key, V: Value>(on: &Group) {
        let n = on.n(600, 100_000) as u64;
        let batch = Batch::<K, V>::numbered(0..n, 1);
        let sharded = map::<K, V>(on);
        let mut drained = Vec::new();
        thread::scope(|threads| {
            let store = threads.spawn(|| {
                for from in (0..n as usize).step_by(n as usize / 10) {
                    let part = from..(from + n as usize / 10).min(n as usize);
                    sharded
                        .insert(&batch.keys[part.clone()], &batch.values[part])
                        .unwrap();
                }
            });
            while !store.is_finished() {
                drained.push(sharded.drain().unwrap());
            }
        });
        drained.push(sharded.drain().unwrap());
        assert!(sharded.is_empty());
        let keys: Vec<K> = drained.iter().flat_map(|(keys, _)| keys).copied().collect();
        let values: Vec<V> = drained.iter().flat_map(|(_, v)| v).copied().collect();
        assert_same(&paired(&keys, &values), &batch.bits().collect(), "drained");
    }
    on_groups!(body: u64 => u64, u32 => u32);
}
