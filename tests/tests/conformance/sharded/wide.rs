//! Maps with wide keys over several ranks, beside one such map on one device.

use std::fmt::Debug;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use gpumap::bytemuck::bytes_of;
use gpumap::op::{self, Execute};
use gpumap::sharded::{GroupError, Rank, Ranks, Shard};
use gpumap::{
    Buffer, Error, Fault, Faults, Growth, Map, Merge, Numeric, Result, ShardedMap, Stream,
};
use gpumap_tests::device::noting;
use gpumap_tests::group::{Group, PATIENCE, cpu_devices, fresh_groups, on_every_group};
use gpumap_tests::value;

use super::failures::{assert_failed, assert_out_of_step};
use super::one_device::{Fails, Kind, Verb, every_call_fails};
use crate::rows::{key, keys};

/// What keys and values have in these tests.
trait Key: gpumap::Key + PartialEq + Debug {}
impl<K: gpumap::Key + PartialEq + Debug> Key for K {}
trait Held: Numeric + PartialEq + Debug {}
impl<V: Numeric + PartialEq + Debug> Held for V {}

/// Runs `body::<K, V>(&Group)` for these pairs, on every group.
macro_rules! on_groups {
    ($body:ident: $($k:ty => $v:ty),*) => {{
        $(on_every_group(|on| noting(stringify!($k), || $body::<$k, $v>(on)));)*
    }};
}

/// A map over a group, with a fixed seed of the owners.
fn map<K: Key, V: Held>(on: &Group) -> ShardedMap<K, V> {
    let builder = ShardedMap::builder(on.ranks()).owner_seed(5);
    builder.hash_seed(6).build().unwrap()
}

/// What one map has.
fn one<K: Key, V: Held>(on: &Group) -> Map<K, V> {
    Map::new(&on.ranks().devices()[0]).unwrap()
}

/// Panics unless each rank has its keys of `one`, in the same order, and the map all of them.
fn assert_same<K: Key, V: Held>(map: &ShardedMap<K, V>, one: &Map<K, V>) {
    let (keys, values) = one.retrieve_all().unwrap();
    let mut pairs: Vec<(K, V)> = keys.iter().copied().zip(values.iter().copied()).collect();
    pairs.sort_by_key(|&(key, _)| map.owner(key));
    let (held, of_held) = map.retrieve_all().unwrap();
    assert!(held.into_iter().zip(of_held).eq(pairs.iter().copied()));
    let mut chunks = Vec::new();
    let collected = map.for_each_chunk(7, |chunk| {
        assert!(chunk.len() <= 7);
        chunks.extend(chunk.iter());
        Ok(())
    });
    collected.unwrap();
    assert!(chunks == pairs);
    let owned = |rank: usize| {
        pairs
            .iter()
            .filter(|(key, _)| map.owner(*key) == rank)
            .count()
    };
    let lens: Vec<usize> = (0..map.ranks().len()).map(owned).collect();
    assert_eq!((map.lens(), map.len()), (lens, pairs.len()));
    assert_eq!(map.is_empty(), pairs.is_empty());
    assert!(map.capacity() >= map.len());
    assert!(
        map.get(&keys)
            .unwrap()
            .into_iter()
            .eq(values.into_iter().map(Some))
    );
    assert!(map.contains(&keys).unwrap().into_iter().all(|is| is));
}

/// What is drawn: the same on every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        self.0 >> 33
    }
}

/// Whether a pair is kept: of those that there are, most.
fn is_kept<K: Key, V: Held>(key: &K, value: &V, draw: u64) -> bool {
    let bytes = bytes_of(key).iter().chain(bytes_of(value));
    bytes.map(|&byte| u64::from(byte)).sum::<u64>() % 4 != draw
}

#[test]
fn random_operations_do_what_one_map_does() {
    fn body<K: Key, V: Held>(on: &Group) {
        let (map, one) = (map::<K, V>(on), one::<K, V>(on));
        let mut random = Random(size_of::<K>() as u64);
        let most = on.n(90, 20_000) as u64;
        for step in 0..on.n(40, 200) {
            let n = random.next() % most;
            // The step of a draw of different keys is prime to how many there are.
            let (first, by) = (random.next() % 1_021, 1 + random.next() % 50);
            let different = keys::<K>((0..n.min(1_021)).map(|i| (first + i * by) % 1_021));
            // Whole numbers, whose sums all types of values have exactly.
            let values: Vec<V> = different
                .iter()
                .map(|_| value(random.next() % 1_000))
                .collect();
            // Each key two or three times: the first of them counts where one does.
            let repeated = [
                &different[..],
                &different,
                &different[..different.len() / 2],
            ]
            .concat();
            let times: Vec<V> = (0..repeated.len() as u64).map(value).collect();
            match random.next() % 15 {
                0 | 1 => assert_eq!(
                    map.insert(&repeated, &times).unwrap(),
                    one.insert(&repeated, &times).unwrap()
                ),
                2 => assert_eq!(
                    map.execute(op::insert(&repeated, &times).each()).unwrap(),
                    one.execute(op::insert(&repeated, &times).each()).unwrap()
                ),
                3 => assert_eq!(
                    map.upsert(&different, &values).unwrap(),
                    one.upsert(&different, &values).unwrap()
                ),
                4 => assert_eq!(
                    map.merge(&repeated, &times, Merge::Max).unwrap(),
                    one.merge(&repeated, &times, Merge::Max).unwrap()
                ),
                5 => assert_eq!(
                    map.merge(&repeated, value::<V>(3), Merge::Min).unwrap(),
                    one.merge(&repeated, value::<V>(3), Merge::Min).unwrap()
                ),
                6 => assert_eq!(
                    map.get_or_insert(&repeated, &times).unwrap(),
                    one.get_or_insert(&repeated, &times).unwrap()
                ),
                7 => assert_eq!(
                    map.update(&different, &values).unwrap(),
                    one.update(&different, &values).unwrap()
                ),
                8 => assert_eq!(
                    map.update_with(&repeated, &times, Merge::Max).unwrap(),
                    one.update_with(&repeated, &times, Merge::Max).unwrap()
                ),
                9 => assert_eq!(
                    map.remove(&repeated).unwrap(),
                    one.remove(&repeated).unwrap()
                ),
                10 => assert_eq!(map.take(&different).unwrap(), one.take(&different).unwrap()),
                11 => {
                    let draw = random.next() % 4;
                    let keep = |key, value: &V| is_kept(&key, value, draw);
                    assert_eq!(map.retain(keep).unwrap(), one.retain(keep).unwrap());
                }
                12 => assert_eq!(
                    map.retain_keys(&repeated).unwrap(),
                    one.retain_keys(&repeated).unwrap()
                ),
                13 => {
                    let (keys, values) = map.retrieve_all().unwrap();
                    // With a place to spare, or too few.
                    let n = keys.len();
                    let (mut to, mut of_keys) =
                        (vec![key::<K>(5); n + 1], vec![value::<V>(9); n + 1]);
                    assert_eq!(map.retrieve_all_into(&mut to, &mut of_keys).unwrap(), n);
                    assert_eq!((to.pop(), of_keys.pop()), (Some(key(5)), Some(value(9))));
                    assert!((to, of_keys) == (keys, values));
                    if n != 0 {
                        let mut short = vec![value::<V>(9); n - 1];
                        let refused = map.retrieve_all_into(&mut vec![key(5); n], &mut short);
                        assert!(matches!(refused, Err(Error::OutputTooSmall { .. })));
                        assert!(short == vec![value(9); n - 1]);
                    }
                }
                _ => {
                    let (mut told, mut found) = (
                        vec![value::<V>(9); repeated.len() + 1],
                        vec![9; repeated.len() + 2],
                    );
                    map.get_into(&repeated, &mut told, &mut found).unwrap();
                    assert_eq!(
                        (told.pop(), found.split_off(repeated.len())),
                        (Some(value(9)), vec![9; 2])
                    );
                    let flags: Vec<u8> = one
                        .contains(&repeated)
                        .unwrap()
                        .into_iter()
                        .map(u8::from)
                        .collect();
                    assert!(found == flags);
                    assert!(told == one.get_or(&repeated, value(0)).unwrap());
                    let mut there = vec![9; repeated.len()];
                    map.contains_into(&repeated, &mut there).unwrap();
                    assert!(there == found);
                    let default = value::<V>(77);
                    let right = one.get_or(&repeated, default).unwrap();
                    assert!(map.get_or(&repeated, default).unwrap() == right);
                    map.get_or_into(&repeated, default, &mut told).unwrap();
                    assert!(told == right);
                }
            }
            if step % 5 == 0 {
                assert_same(&map, &one);
                map.trim();
            }
        }
        assert_same(&map, &one);
        let (keys, values) = map.retrieve_all().unwrap();
        assert!(map.drain().unwrap() == (keys, values));
        assert_same(&map, &self::one::<K, V>(on));
        map.clear().unwrap();
        one.clear().unwrap();
        map.reserve(1_000).unwrap();
        assert!(map.capacity() >= 1_000);
        assert_same(&map, &one);
    }
    on_groups!(body: [u32; 3] => u64, u128 => u32, [u8; 16] => f64, [u64; 4] => u64, [u64; 8] => f32);
}

/// A set: no values travel, and none come back.
#[test]
fn sets_of_wide_keys() {
    fn body<K: Key, V: Held>(on: &Group) {
        let (map, one) = (map::<K, V>(on), one::<K, V>(on));
        let batch = keys::<K>((0..200).chain(100..300).chain(5..9));
        let values = vec![value::<V>(0); batch.len()];
        assert_eq!(map.insert(&batch, &values).unwrap(), 300);
        one.insert(&batch, &values).unwrap();
        assert_same(&map, &one);
        assert_eq!(
            map.get(&[key::<K>(7), key(300)]).unwrap(),
            [Some(value(0)), None]
        );
        assert_eq!(map.remove(&batch[..10]).unwrap(), 10);
        one.remove(&batch[..10]).unwrap();
        assert_same(&map, &one);
    }
    on_groups!(body: [u32; 3] => (), u128 => ());
}

/// Each rank has a batch of its own, in memory of one kind or the other.
#[test]
fn batches_come_from_any_rank() {
    fn body<K: Key, V: Held>(on: &Group) {
        let n = on.n(120, 10_000) as u64;
        let (map, one, ranks) = (map::<K, V>(on), one::<K, V>(on), on.len() as u64);
        for round in 0..3 {
            // Of overlapping ranges; every third rank has none, in the last round only the last has some.
            let batch_of =
                |rank: u64| match (rank + round) % 3 == 2 || round == 2 && rank + 1 < ranks {
                    true => Vec::new(),
                    false => keys::<K>((0..n).map(|i| (rank * n / 2 + i * 7 % n) + round * n / 3)),
                };
            let all: Vec<K> = (0..ranks).flat_map(batch_of).collect();
            let values: Vec<V> = (0..all.len() as u64)
                .map(|i| value(i + 1_000 * round))
                .collect();
            let first = |rank: u64| (0..rank).map(|rank| batch_of(rank).len()).sum::<usize>();
            let count = one.insert(&all, &values).unwrap();
            let held = one.get(&all).unwrap();
            let work = |rank: &mut Rank, shard: &mut Shard<K, V>| {
                let index = rank.index() as u64;
                let batch = batch_of(index);
                let range = first(index)..first(index + 1);
                let values = &values[range.clone()];
                let stream = Stream::new(rank.device())?;
                let there = Buffer::from_slice(&stream, &batch)?;
                let values_there = Buffer::from_slice(&stream, values)?;
                let stored = match rank.index() % 3 {
                    0 => shard.insert(rank, &there, values)?,
                    1 => shard.insert(rank, &batch, &values_there)?,
                    _ => shard.insert(rank, &there, &values_there)?,
                };
                assert_eq!(stored, count);
                // Keys of others are found from here.
                assert!(shard.get(rank, &all)? == held);
                let mut told = Buffer::from_slice(&stream, &vec![value::<V>(9); batch.len()])?;
                let mut found = vec![9; batch.len()];
                shard.get_into(rank, &there, &mut told, &mut found)?;
                assert!(
                    told.to_vec()?
                        .into_iter()
                        .map(Some)
                        .eq(held[range].iter().copied())
                );
                assert_eq!(found, vec![1; batch.len()]);
                assert_eq!(shard.len(rank)?, one.len());
                Ok(())
            };
            map.run(work).unwrap();
            assert_same(&map, &one);
        }
        // All ranks merge into the same keys: the same value, values of their own, or one and the other.
        let same = keys::<K>(n / 3..n / 2);
        let present = same.len();
        for round in 0..3 {
            let of_rank = |rank: u64| value::<V>(if round == 0 { 5 } else { 1 + rank });
            let merged = map.run(|rank, shard| {
                let of_rank = of_rank(rank.index() as u64);
                match rank.index() == 0 && round == 2 {
                    true => shard.update_with(rank, &same, &vec![of_rank; same.len()], Merge::Max),
                    false => shard.update_with(rank, &same, of_rank, Merge::Max),
                }
            });
            assert_eq!(merged.unwrap(), vec![present * on.len(); on.len()]);
            for rank in 0..ranks {
                one.update_with(&same, of_rank(rank), Merge::Max).unwrap();
            }
            assert_same(&map, &one);
        }
        // Each counts once.
        let removed = map.run(|rank, shard| shard.remove(rank, &same)).unwrap();
        assert_eq!(removed, vec![one.remove(&same).unwrap(); on.len()]);
        assert_same(&map, &one);
    }
    on_groups!(body: [u32; 3] => u32, u128 => u64, [u64; 4] => f64);
}

/// What a rank keeps concerns the pairs of all, or its own.
#[test]
fn ranks_keep_and_drain_what_one_map_would() {
    fn body<K: Key, V: Held>(on: &Group) {
        let n = on.n(120, 10_000) as u64;
        let (map, one, ranks) = (map::<K, V>(on), one::<K, V>(on), on.len() as u64);
        let all = keys::<K>(0..n);
        let values: Vec<V> = (0..n).map(value).collect();
        map.insert(&all, &values).unwrap();
        one.insert(&all, &values).unwrap();
        // Of overlapping ranges, on the host or on the device; the last rank has none if there are several.
        let batch_of = |rank: u64| match rank + 1 == ranks && ranks > 1 {
            true => Vec::new(),
            false => keys::<K>((0..n / 2).map(|i| i + rank * 5)),
        };
        let named: Vec<K> = (0..ranks).flat_map(batch_of).collect();
        let removed = one.retain_keys(&named).unwrap();
        let retained = map.run(|rank, shard| {
            let batch = batch_of(rank.index() as u64);
            match rank.index() % 2 {
                0 => shard.retain_keys(rank, &batch),
                _ => {
                    let stream = Stream::new(rank.device())?;
                    shard.retain_keys(rank, &Buffer::from_slice(&stream, &batch)?)
                }
            }
        });
        assert!(removed > 0);
        assert_eq!(retained.unwrap(), vec![removed; on.len()]);
        assert_same(&map, &one);

        // Each rank by itself, and the first keeps all.
        let kept = |rank: usize, key: &K, value: &V| rank == 0 || is_kept(key, value, 1);
        let removed = one.retain(|key, value| kept(map.owner(key), &key, value));
        let retained = map.run(|rank, shard| {
            let index = rank.index();
            shard.retain(rank, |key, value| kept(index, &key, value))
        });
        assert_eq!(retained.unwrap(), vec![removed.unwrap(); on.len()]);
        assert_same(&map, &one);

        let held = map.retrieve_all().unwrap();
        let drained = map.run(|rank, shard| {
            let (keys, values) = shard.drain(rank)?;
            assert!(keys.iter().all(|&key| shard.owner(key) == rank.index()));
            Ok((keys, values))
        });
        let (keys, of_keys): (Vec<Vec<K>>, Vec<Vec<V>>) = drained.unwrap().into_iter().unzip();
        assert!((keys.concat(), of_keys.concat()) == held);
        assert!(map.is_empty());
        // None is kept where no rank names any.
        map.insert(&all, &values).unwrap();
        assert_eq!(map.retain_keys(&[]).unwrap(), all.len());
        assert!(map.is_empty());
    }
    on_groups!(body: [u32; 3] => u64, u128 => u32, [u64; 4] => ());
}

/// A rank that cannot change its part, since a write failed there half-way.
#[test]
fn what_one_rank_cannot_remove_no_rank_does() {
    let faults = Faults::default();
    let mut devices = cpu_devices(2);
    devices[1] = devices[1].with_faults(&faults);
    let ranks = Ranks::with_timeout(&devices, PATIENCE).unwrap();
    let map = ShardedMap::<u128, u32>::new(&ranks).unwrap();
    let batch = keys::<u128>(0..200);
    map.insert(&batch, &[5; 200]).unwrap();
    let of_rank = |rank: usize| map.local(rank).unwrap().retrieve_all();
    for calls in 0.. {
        assert!(calls < 1_000, "no failure leaves a write half done");
        faults.plan(calls, Fault::Once);
        let upserted = map.upsert(&batch, &[6; 200]);
        faults.heal();
        if matches!(of_rank(1), Err(Error::Poisoned)) {
            upserted.unwrap_err();
            break;
        }
    }
    let before = of_rank(0).unwrap();
    let refused = [
        map.retain(|_, _| false),
        map.retain_keys(&batch[..3]),
        map.remove(&batch),
        map.drain().map(|(keys, _)| keys.len()),
    ];
    for refused in refused {
        assert!(matches!(refused, Err(Error::Poisoned)), "{refused:?}");
    }
    assert_eq!(of_rank(0).unwrap(), before);
    map.clear().unwrap();
    assert_eq!(map.insert(&batch, &[5; 200]).unwrap(), 200);
}

/// One rank has no room for its new keys: no rank changes anything then.
#[test]
fn what_one_rank_refuses_all_do() {
    fn body<K: Key, V: Held>(on: &Group) {
        let last = on.len() - 1;
        let held = keys::<K>(0..60);
        let values: Vec<V> = (0..60).map(value).collect();
        let results = on.ranks().run_each(|rank| {
            let is_last = rank.index() == last;
            // The owners are known from another one.
            let probe = Shard::<K, V>::with(rank, Some(5), |builder, _| builder)?;
            let own = held.iter().filter(|&&key| probe.owner(key) == last).count();
            let mut shard = Shard::<K, V>::with(rank, Some(5), |builder, _| match is_last {
                true => builder.capacity(own + 2).growth(Growth::Fixed),
                false => builder,
            })?;
            shard.insert(rank, &held, &values)?;
            let before = shard.local().retrieve_all()?;
            // From different ranks, and with keys that are there.
            let batches = [
                keys::<K>(30..2_000),
                keys::<K>(500 * rank.index() as u64..4_500),
            ];
            for batch in batches {
                let new = vec![value::<V>(1_000); batch.len()];
                let mut told = vec![value::<V>(9); batch.len()];
                let refused = [
                    shard.insert(rank, &batch, &new),
                    shard.upsert(rank, &batch, &new),
                    shard.merge(rank, &batch, value::<V>(2_000), Merge::Max),
                    shard.execute(
                        rank,
                        op::get_or_insert(&batch, &new).into(&mut told).count(),
                    ),
                ];
                for refused in refused {
                    match (refused, is_last) {
                        (Err(Error::Full { partial: false, .. }), true) => {}
                        (Err(error), false) => assert_failed(&error, last),
                        (other, _) => panic!("{other:?}"),
                    }
                    assert!(shard.local().retrieve_all()? == before);
                }
                assert!(told.iter().all(|&told| told == value(9)));
            }
            // Two keys of the last rank fit; and many, if keys were removed.
            let mut of_last = keys::<K>(100..2_000);
            of_last.retain(|&key| shard.owner(key) == last);
            assert_eq!(shard.insert(rank, &of_last[..2], &values[..2])?, 2);
            assert_eq!(shard.remove(rank, &held)?, 60);
            assert_eq!(
                shard.upsert(rank, &of_last[..own + 2], &vec![value(7); own + 2])?,
                own
            );
            assert_eq!(shard.len(rank)?, own + 2);
            Ok(())
        });
        results.into_iter().for_each(|result| result.unwrap());
    }
    on_groups!(body: [u32; 3] => u64, u128 => u32, [u64; 4] => u64);
}

/// Every call of the device of one rank fails in turn.
#[test]
fn failures_of_one_device() {
    type Map = ShardedMap<u128, u64>;
    fn batch() -> Vec<u128> {
        keys::<u128>(20..200)
    }
    fn values(value: u64) -> Vec<u64> {
        vec![value; 180]
    }
    let kind = Kind {
        make: |ranks| {
            let first = keys::<u128>(0..40);
            let builder = Map::builder(ranks).owner_seed(5).hash_seed(1);
            let map = builder.build().unwrap();
            map.insert(&first, &(0..40).collect::<Vec<u64>>()).unwrap();
            map.remove(&first[..10]).unwrap();
            map
        },
        held: |map: &Map| [0, 1].map(|rank| map.local(rank)?.retrieve_all()),
        refill: |map| {
            map.clear().unwrap();
            assert_eq!(map.insert(&batch(), &values(1)).unwrap(), batch().len());
            assert_eq!(map.len(), batch().len());
        },
    };
    let verbs: [Verb<Map>; 4] = [
        ("insert", |map| map.insert(&batch(), &values(8)).map(drop)),
        ("merge", |map| map.merge(&batch(), 5, Merge::Add).map(drop)),
        ("get", |map| map.get(&batch()).map(drop)),
        ("retrieve_all", |map| map.retrieve_all().map(drop)),
    ];
    for verb in verbs {
        every_call_fails(&kind, verb, Fails::AsAWhole);
    }
    // Their launches come after the ranks have agreed.
    let verbs: [Verb<Map>; 6] = [
        ("update_with", |map| {
            let merged = map.update_with(&batch(), &values(9), Merge::Add);
            merged.map(drop)
        }),
        ("remove", |map| map.remove(&batch()).map(drop)),
        ("take", |map| map.take(&batch()).map(drop)),
        ("retain", |map| {
            map.retain(|_, value| value % 3 == 0).map(drop)
        }),
        ("retain_keys", |map| map.retain_keys(&batch()).map(drop)),
        ("drain", |map| map.drain().map(drop)),
    ];
    for verb in verbs {
        every_call_fails(&kind, verb, Fails::ByRank);
    }
}

#[test]
fn calls_of_different_kinds_are_an_error_everywhere() {
    for group in fresh_groups(PATIENCE) {
        if group.len() == 1 {
            continue;
        }
        noting(&group.to_string(), || {
            let results = group.ranks().run_each(|rank| {
                let mut shard = Shard::<u128, u64>::new(rank)?;
                let mut other = Shard::<u128, u64>::new(rank)?;
                let is_first = rank.index() == 0;
                let outcomes = [
                    match is_first {
                        true => shard.insert(rank, &[1, 2], &[3, 4]).map(drop),
                        false => shard.get(rank, &[1, 2]).map(drop),
                    },
                    match is_first {
                        true => shard.merge(rank, &[1], 1, Merge::Add).map(drop),
                        false => shard.merge(rank, &[1], 1, Merge::Max).map(drop),
                    },
                    match is_first {
                        true => shard.insert(rank, &[1], &[2]).map(drop),
                        false => other.insert(rank, &[1], &[2]).map(drop),
                    },
                    match is_first {
                        true => shard.retain_keys(rank, &[1]).map(drop),
                        false => shard.remove(rank, &[1]).map(drop),
                    },
                    match is_first {
                        true => shard.retain(rank, |_, _| true).map(drop),
                        false => shard.drain(rank).map(drop),
                    },
                    // As a shard of another kind of map, which is not made.
                    match is_first {
                        true => Shard::<u128, u32>::new(rank).map(drop),
                        false => Shard::<u64, u64>::new(rank).map(drop),
                    },
                ];
                outcomes.into_iter().for_each(assert_out_of_step);
                assert_eq!((shard.len(rank)?, other.is_empty(rank)?), (0, true));
                // What one rank got wrong, the others are told.
                let wrong = match is_first {
                    true => shard.insert(rank, &[1, 2], &[3]),
                    false => shard.insert(rank, &[1, 2], &[3, 4]),
                };
                match wrong.unwrap_err() {
                    Error::LengthMismatch { .. } if is_first => {}
                    error => assert_failed(&error, 0),
                }
                shard.insert(rank, &[1, 2], &[3, 4])?;
                shard.len(rank)
            });
            assert!(results.into_iter().all(|len| matches!(len, Ok(2))));
        });
    }
}

#[test]
fn verbs_in_work_of_the_group_are_nested() {
    on_every_group(|on| {
        let map = map::<u128, u32>(on);
        let is_nested = |nested: Result<Vec<()>>| {
            let is_nested = matches!(nested, Err(Error::Group(GroupError::Nested)));
            assert!(is_nested, "{nested:?}");
        };
        is_nested(map.run(|_, _| map.insert(&[1], &[2]).map(drop)));
        is_nested(map.run(|_, _| map.for_each_chunk(5, |_| Ok(()))));
        is_nested(map.run(|_, _| map.retain(|_, _| true).map(drop)));
        is_nested(map.run(|_, _| map.drain().map(drop)));
        is_nested(map.run(|_, _| map.retrieve_all().map(drop)));
        let missing = map.local(on.len()).unwrap_err();
        assert!(matches!(
            missing,
            Error::Group(GroupError::NoSuchRank { .. })
        ));
        assert!(map.is_empty());
    });
}

#[test]
fn files_are_those_of_maps_on_one_device() {
    fn body<K: Key, V: Held>(on: &Group) {
        let (map, one) = (map::<K, V>(on), one::<K, V>(on));
        let batch = keys::<K>(0..on.n(500, 100_000) as u64);
        let values: Vec<V> = (0..batch.len() as u64).map(value).collect();
        map.insert(&batch, &values).unwrap();
        one.insert(&batch, &values).unwrap();
        let mut bytes = Vec::new();
        assert_eq!(map.save_to(&mut bytes).unwrap(), batch.len() as u64);
        let back = ShardedMap::<K, V>::builder(on.ranks())
            .load_from(&bytes[..])
            .unwrap();
        let at = Map::<K, V>::builder(one.device())
            .load_from(&bytes[..])
            .unwrap();
        assert!(at.get(&batch).unwrap() == one.get(&batch).unwrap());
        assert!(back.get(&batch).unwrap() == one.get(&batch).unwrap());
        assert_eq!((back.len(), at.len()), (batch.len(), batch.len()));
        // And the other way.
        let mut bytes = Vec::new();
        one.save_to(&mut bytes).unwrap();
        let back = ShardedMap::<K, V>::builder(on.ranks())
            .load_from(&bytes[..])
            .unwrap();
        assert!(back.get(&batch).unwrap() == one.get(&batch).unwrap());
    }
    on_groups!(body: [u32; 3] => f32, u128 => u64);
}

/// Chunks hold the locks of ranks, which calls must not wait for while the other ranks wait for them.
#[test]
fn threads_change_and_dump_side_by_side() {
    fn body<K: Key, V: Held>(on: &Group) {
        let (map, n) = (map::<K, V>(on), on.n(100, 20_000) as u64);
        let (begin, is_over) = (Barrier::new(4), AtomicBool::new(false));
        thread::scope(|scope| {
            let insert = |thread: u64| {
                let batch = keys::<K>(thread * n..thread * n + n);
                begin.wait();
                for round in 0..4 {
                    let values = vec![value::<V>(round); batch.len()];
                    map.upsert(&batch, &values).unwrap();
                    let got = map.get(&batch).unwrap();
                    assert!(got.into_iter().eq(values.into_iter().map(Some)));
                }
            };
            let threads: Vec<_> = (0..3)
                .map(|thread| scope.spawn(move || insert(thread)))
                .collect();
            scope.spawn(|| {
                begin.wait();
                while !is_over.load(Ordering::Acquire) {
                    // All of a batch or nothing.
                    let mut seen = 0;
                    map.for_each_chunk(n as usize / 3, |chunk| {
                        seen += chunk.len() as u64;
                        Ok(())
                    })
                    .unwrap();
                    assert_eq!(seen % n, 0);
                }
            });
            for thread in threads {
                let joined = thread.join();
                if joined.is_err() {
                    is_over.store(true, Ordering::Release);
                }
                joined.unwrap();
            }
            is_over.store(true, Ordering::Release);
        });
        assert_eq!(map.len() as u64, 3 * n);
    }
    on_groups!(body: u128 => u64);
}
