//! `retain`, `retain_keys` and `drain` over a group, as of one map, and what gives memory back.

use std::thread;

use gpumap::primitives::{Element, Predicate};
use gpumap::sharded::GroupError;
use gpumap::{Buffer, Error, Key, Numeric, Stream};
use gpumap_tests::group::Group;
use gpumap_tests::oracle::{Oracle, assert_same, paired};
use gpumap_tests::pairs::nth_key;
use gpumap_tests::{Batch, key};

use super::{map, on_groups};

#[test]
fn all_ranks_keep_what_one_map_would() {
    fn body<K: Key + Element, V: Numeric + Element>(on: &Group) {
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
            assert_eq!(
                sharded.retain_where(of_keys, of_values).unwrap(),
                gone,
                "{i}"
            );
            let (keys, values) = sharded.retrieve_all().unwrap();
            assert_same(&paired(&keys, &values), &held, "retained");
        }
        assert!(sharded.is_empty(), "no key was kept in the end");
    }
    on_groups!(body: u64 => u64, u32 => u32, u64 => u32);
}

#[test]
fn a_closure_that_panics_on_one_rank_removes_nothing_on_any() {
    fn body<K: Key, V: Numeric>(on: &Group) {
        let batch = Batch::<K, V>::numbered(0..900, 1);
        let sharded = map::<K, V>(on);
        sharded.insert(&batch.keys, &batch.values).unwrap();
        for panics in [0, on.len() - 1] {
            let errors = sharded.run(|rank, shard| {
                let is_here = rank.index() == panics;
                let kept = shard.retain(rank, |_, _| {
                    assert!(!is_here, "as planned");
                    false
                });
                Ok(kept.unwrap_err())
            });
            for (rank, error) in errors.unwrap().into_iter().enumerate() {
                let is_told = match error {
                    Error::Group(GroupError::Predicate { rank: at }) => at == rank,
                    Error::Group(_) => rank != panics,
                    _ => false,
                };
                assert!(is_told, "rank {rank}: {error}");
            }
            let (keys, values) = sharded.retrieve_all().unwrap();
            assert_same(&paired(&keys, &values), &batch.bits().collect(), "all");
        }
        assert_eq!(sharded.retain(|_, _| false).unwrap(), 900);
    }
    on_groups!(body: u64 => u64, u32 => u32);
}

#[test]
fn every_pair_is_drained_once() {
    fn body<K: Key, V: Numeric>(on: &Group) {
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

#[test]
fn all_ranks_keep_the_keys_that_any_names() {
    fn body<K: Key, V: Numeric>(on: &Group) {
        let n = on.n(900, 200_000) as u64;
        let batch = Batch::<K, V>::numbered(0..n, 1);
        let sharded = map::<K, V>(on);
        sharded.insert(&batch.keys, &batch.values).unwrap();
        // Of overlapping ranges, which begin elsewhere on each rank and are half of all together; the last rank has none.
        let ranks = on.len();
        let named = |rank: usize| match rank + 1 == ranks && ranks > 1 {
            true => 0..0,
            false => {
                let from = rank * n as usize / (4 * ranks);
                from..from + n as usize / 4
            }
        };
        let kept: Vec<usize> = (0..ranks).flat_map(named).collect();
        let bits: Vec<(u64, u64)> = batch.bits().collect();
        let right: Oracle = kept.into_iter().map(|i| bits[i]).collect();
        let removed = sharded.run(|rank, shard| {
            let keys = &batch.keys[named(rank.index())];
            match rank.index() % 2 {
                0 => shard.retain_keys(rank, keys),
                _ => {
                    let stream = Stream::new(rank.device())?;
                    shard.retain_keys(rank, &Buffer::from_slice(&stream, keys)?)
                }
            }
        });
        assert_eq!(removed.unwrap(), vec![n as usize - right.len(); ranks]);
        super::assert_holds(&sharded, &right);
        // With keys that are absent, and all of them twice.
        let twice = batch.keys.repeat(2);
        assert_eq!(sharded.retain_keys(&twice).unwrap(), 0);
        super::assert_holds(&sharded, &right);
        assert_eq!(sharded.retain_keys(&[]).unwrap(), right.len());
        super::assert_holds(&sharded, &Oracle::new());
    }
    on_groups!(body: u64 => u64, u32 => u32, u64 => u32, u32 => ());
}

#[test]
fn maps_of_a_group_give_memory_back() {
    fn body<K: Key, V: Numeric>(on: &Group) {
        let n = on.n(900, 200_000) as u64;
        let batch = Batch::<K, V>::numbered(0..n, 1);
        let sharded = map::<K, V>(on);
        sharded.reserve(20 * n as usize).unwrap();
        let before = sharded.capacity();
        for _ in 0..2 {
            sharded.insert(&batch.keys, &batch.values).unwrap();
            sharded.shrink_to_fit().unwrap();
            assert!((n as usize..before / 2).contains(&sharded.capacity()));
            // Beside calls of the group, of which this thread may be one.
            let looked_up = sharded.run(|rank, shard| {
                if rank.index() == 0 {
                    thread::yield_now();
                    sharded.trim();
                }
                shard.contains(rank, &batch.keys)
            });
            assert!(looked_up.unwrap().concat().into_iter().all(|is| is));
            sharded.trim();
            super::assert_holds(&sharded, &batch.bits().collect());
        }
    }
    on_groups!(body: u64 => u64, u32 => u32);
}
