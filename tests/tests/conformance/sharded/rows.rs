//! Row maps over several ranks, beside a row map for each rank in plain Rust.

use std::fmt::Debug;
use std::sync::Barrier;
use std::thread;

use gpumap::bytemuck::Pod;
use gpumap::sharded::{GroupError, Rank, Ranks, RowShard, ShardRow};
use gpumap::{Buffer, Error, Growth, Result, RowMap, ShardedRowMap, Stream};
use gpumap_tests::device::noting;
use gpumap_tests::group::{Group, PATIENCE, cpu_devices, fresh_groups, on_every_group};

use super::failures::{assert_failed, assert_out_of_step};
use super::one_device::{Fails, Kind, Verb, every_call_fails};
use crate::rows::{Oracle, key, keys, patterns};

/// What keys have in these tests.
pub(super) trait Key: Pod + Send + Sync + PartialEq + Debug {}
impl<K: Pod + Send + Sync + PartialEq + Debug> Key for K {}

/// Runs `body::<K>(&Group)` for a key of every alignment, on every group.
macro_rules! on_every_key {
    ($body:ident) => {
        $crate::sharded::rows::on_keys!($body: u32, u64, [u32; 3], u128, [u8; 16], [u32; 7], [u64; 8])
    };
}
macro_rules! on_keys {
    ($body:ident: $($k:ty),*) => {{
        $(gpumap_tests::group::on_every_group(|on| {
            gpumap_tests::device::noting(stringify!($k), || $body::<$k>(on))
        });)*
    }};
}
pub(super) use on_keys;

/// A map over a group, with a fixed seed of the owners.
pub(super) fn map<K: Key>(on: &Group) -> ShardedRowMap<K> {
    ShardedRowMap::with(on.ranks(), Some(5), |builder, _| builder.hash_seed(6)).unwrap()
}

/// What each rank should have.
struct Oracles(Vec<Oracle>);

impl Oracles {
    fn new(ranks: usize) -> Self {
        Self((0..ranks).map(|_| Oracle::default()).collect())
    }

    fn insert<K: Key>(&mut self, map: &ShardedRowMap<K>, batch: &[K]) -> (Vec<ShardRow>, Vec<u8>) {
        let insert = |key: &K| {
            let rank = map.owner(*key);
            let (rows, new) = self.0[rank].insert(&[*key]);
            (ShardRow::new(rank as u32, rows[0]), new[0])
        };
        batch.iter().map(insert).unzip()
    }

    fn get<K: Key>(&self, map: &ShardedRowMap<K>, batch: &[K]) -> Vec<Option<ShardRow>> {
        let get = |key: &K| {
            let rank = map.owner(*key);
            let row = self.0[rank].get(&[*key])[0];
            row.map(|row| ShardRow::new(rank as u32, row))
        };
        batch.iter().map(get).collect()
    }

    fn remove<K: Key>(&mut self, map: &ShardedRowMap<K>, batch: &[K]) -> usize {
        let removed = batch
            .iter()
            .map(|key| self.0[map.owner(*key)].remove(&[*key]));
        removed.sum()
    }

    /// Panics unless each rank has what it should, and the map all of that.
    fn assert_same<K: Key>(&self, map: &ShardedRowMap<K>) {
        let mut all = (Vec::new(), Vec::new());
        for (rank, oracle) in self.0.iter().enumerate() {
            let local = map.local(rank).unwrap();
            oracle.assert_same(local);
            let (keys, rows) = local.retrieve_all().unwrap();
            assert!(keys.iter().all(|&key| map.owner(key) == rank));
            let place = |row| ShardRow::new(rank as u32, row);
            all.0.extend(keys);
            all.1.extend(rows.into_iter().map(place));
        }
        assert!(map.retrieve_all().unwrap() == all);
        let of_ranks = |of: fn(&RowMap<K>) -> usize| -> Vec<usize> {
            let local = |rank| of(map.local(rank).unwrap());
            (0..self.0.len()).map(local).collect()
        };
        assert_eq!(map.lens(), of_ranks(RowMap::len));
        assert_eq!(map.row_bounds(), of_ranks(RowMap::row_bound));
        assert_eq!((map.len(), map.is_empty()), (all.0.len(), all.0.is_empty()));
        let got = map.get(&all.0).unwrap();
        assert!(got.into_iter().eq(all.1.into_iter().map(Some)));
    }
}

#[test]
fn places_are_those_of_row_maps() {
    fn body<K: Key>(on: &Group) {
        let n = (on.n(400, 20_000) / on.stride(4)) as u64;
        for (name, numbers) in patterns(n) {
            noting(name, || {
                let map = map::<K>(on);
                let mut oracles = Oracles::new(on.len());
                // The second batch has keys of the first.
                for batch in [&numbers[..numbers.len() / 2], &numbers[numbers.len() / 3..]] {
                    let batch = keys::<K>(batch.iter().copied());
                    let (places, new) = oracles.insert(&map, &batch);
                    let untouched = ShardRow::new(9, 9);
                    let (mut told, mut told_new) =
                        (vec![untouched; batch.len() + 2], vec![9; batch.len() + 1]);
                    let count = map.insert_with_outcome_into(&batch, &mut told, &mut told_new);
                    let expected = new.iter().filter(|&&new| new == 1).count();
                    assert_eq!(count.unwrap(), expected);
                    assert_eq!(told[..batch.len()], places);
                    assert_eq!(told[batch.len()..], [untouched; 2]);
                    assert_eq!(
                        (&told_new[..batch.len()], told_new[batch.len()]),
                        (&new[..], 9)
                    );
                    oracles.assert_same(&map);
                    // Again, though nothing is new.
                    assert_eq!(map.insert(&batch).unwrap(), places);
                }
                let asked = keys::<K>((0..2 * n).rev());
                assert_eq!(map.get(&asked).unwrap(), oracles.get(&map, &asked));
                let mut told = vec![ShardRow::new(9, 9); asked.len()];
                map.get_into(&asked, &mut told).unwrap();
                let expected = oracles.get(&map, &asked);
                assert!(
                    told.into_iter().eq(expected
                        .into_iter()
                        .map(|place| place.unwrap_or(ShardRow::NONE)))
                );
                oracles.assert_same(&map);
            });
        }
    }
    on_every_key!(body);
}

#[test]
fn removed_keys_leave_their_rows_until_these_are_dense() {
    fn body<K: Key>(on: &Group) {
        let n = on.n(300, 20_000) as u64;
        let map = map::<K>(on);
        let mut oracles = Oracles::new(on.len());
        let insert = |numbers: std::ops::Range<u64>, oracles: &mut Oracles| {
            let batch = keys::<K>(numbers);
            assert_eq!(map.insert(&batch).unwrap(), oracles.insert(&map, &batch).0);
        };
        insert(0..n, &mut oracles);
        for round in 0..4 {
            // Repeated, and some that are not there.
            let gone = (n / 4..n / 2 + round).chain(n / 4..n / 3);
            let gone = keys::<K>(gone.chain(9 * n..9 * n + 7));
            assert_eq!(map.remove(&gone).unwrap(), oracles.remove(&map, &gone));
            oracles.assert_same(&map);
            if round % 2 == 1 {
                let old: Vec<Vec<u32>> = oracles.0.iter_mut().map(Oracle::compact).collect();
                assert_eq!(map.compact().unwrap(), old);
                oracles.assert_same(&map);
                // Dense already.
                let same: Vec<Vec<u32>> = oracles.0.iter_mut().map(Oracle::compact).collect();
                assert_eq!(map.compact().unwrap(), same);
                let before = map.capacity();
                map.shrink_to_fit().unwrap();
                assert!(map.capacity() <= before);
                assert_eq!(map.compact().unwrap(), same);
            }
            insert(n / 3..n + 50 * round, &mut oracles);
            oracles.assert_same(&map);
        }
        map.clear().unwrap();
        oracles = Oracles::new(on.len());
        oracles.assert_same(&map);
        assert_eq!(map.compact().unwrap(), vec![Vec::<u32>::new(); on.len()]);
        insert(5..9, &mut oracles);
        oracles.assert_same(&map);
        map.reserve(n as usize).unwrap();
        assert!(map.capacity() >= n as usize + 4);
        map.trim();
        oracles.assert_same(&map);
    }
    on_every_key!(body);
}

/// Each rank has a batch of its own, in memory of one kind or the other; rows follow the order of ranks.
#[test]
fn batches_come_from_any_rank() {
    fn body<K: Key>(on: &Group) {
        let n = on.n(120, 10_000) as u64;
        let (map, ranks) = (map::<K>(on), on.len() as u64);
        let mut oracles = Oracles::new(on.len());
        for round in 0..3 {
            // Of overlapping ranges; every third rank has none, in the last round only the last has some.
            let batch_of =
                |rank: u64| match (rank + round) % 3 == 2 || round == 2 && rank + 1 < ranks {
                    true => Vec::new(),
                    false => keys::<K>((0..n).map(|i| (rank * n / 2 + i * 7 % n) + round * n / 3)),
                };
            let all: Vec<K> = (0..ranks).flat_map(batch_of).collect();
            let (places, new) = oracles.insert(&map, &all);
            let first = |rank: u64| (0..rank).map(|rank| batch_of(rank).len()).sum::<usize>();
            let work = |rank: &mut Rank, shard: &RowShard<K>| {
                let index = rank.index() as u64;
                let batch = batch_of(index);
                let range = first(index)..first(index + 1);
                let stream = Stream::new(rank.device())?;
                let in_device = Buffer::from_slice(&stream, &batch)?;
                let mut told = vec![ShardRow::new(9, 9); batch.len()];
                let mut told_new = vec![9u8; batch.len()];
                let mut told_there = Buffer::from_slice(&stream, &told)?;
                let mut new_there = Buffer::from_slice(&stream, &told_new)?;
                let count = match rank.index() % 3 {
                    0 => shard.insert_with_outcome_into(
                        rank,
                        &in_device,
                        &mut told_there,
                        &mut told_new,
                    )?,
                    1 => shard.insert_with_outcome_into(
                        rank,
                        &batch,
                        &mut told_there,
                        &mut new_there,
                    )?,
                    _ => shard.insert_with_outcome_into(
                        rank,
                        &in_device,
                        &mut told,
                        &mut told_new,
                    )?,
                };
                assert_eq!(count, new.iter().filter(|&&new| new == 1).count());
                if rank.index() % 3 != 2 {
                    told = told_there.to_vec()?;
                }
                if rank.index() % 3 == 1 {
                    told_new = new_there.to_vec()?;
                }
                assert!(told == places[range.clone()]);
                assert!(told_new == new[range.clone()]);
                // Keys of others are found from here, and their own from there.
                let got = shard.get(rank, &all)?;
                assert!(got.into_iter().eq(places.iter().copied().map(Some)));
                told_there.fill_bytes(7)?;
                shard.get_into(rank, &in_device, &mut told_there)?;
                assert!(told_there.to_vec()? == places[range]);
                assert_eq!(
                    shard.len(rank)?,
                    oracles.0.iter().map(Oracle::len).sum::<usize>()
                );
                Ok(())
            };
            map.run(work).unwrap();
            oracles.assert_same(&map);
        }
        // All ranks remove the same keys: each counts once.
        let gone = keys::<K>(n / 3..n / 2);
        let removed = map.run(|rank, shard| shard.remove(rank, &gone)).unwrap();
        assert_eq!(removed, vec![oracles.remove(&map, &gone); on.len()]);
        oracles.assert_same(&map);
        let old: Vec<Vec<u32>> = oracles.0.iter_mut().map(Oracle::compact).collect();
        let compact = |rank: &mut Rank, shard: &RowShard<K>| {
            let stream = Stream::new(rank.device())?;
            let len = shard.local().len();
            let mut told = Buffer::<u32>::zeroed(&stream, len + 1)?;
            assert_eq!(shard.compact_into(rank, &mut told)?, len);
            told.slice(..len)?.to_vec()
        };
        assert_eq!(map.run(compact).unwrap(), old);
        oracles.assert_same(&map);
    }
    on_keys!(body: u32, [u32; 3], [u8; 16], [u64; 8]);
}

#[test]
fn outputs_that_are_too_short_are_an_error_everywhere() {
    fn body<K: Key>(on: &Group) {
        let map = map::<K>(on);
        let batch = keys::<K>(0..50);
        let mut short = vec![ShardRow::new(9, 9); 49];
        let too_small = |outcome: Result<()>| {
            let Err(Error::OutputTooSmall { needed, given }) = outcome else {
                panic!("{outcome:?}")
            };
            (needed, given)
        };
        let whole = |outcome| assert_eq!(too_small(outcome), (50, 49));
        whole(map.insert_into(&batch, &mut short).map(drop));
        whole(map.get_into(&batch, &mut short));
        let mut places = vec![ShardRow::new(9, 9); 50];
        whole(
            map.insert_with_outcome_into(&batch, &mut places, &mut [9; 49])
                .map(drop),
        );
        assert_eq!(
            (&short[..], &places[..]),
            (
                &[ShardRow::new(9, 9); 49][..],
                &[ShardRow::new(9, 9); 50][..]
            )
        );
        let last = on.len() - 1;
        // Of one rank: the others are told so.
        let results = on.ranks().run_each(|rank| {
            let shard = RowShard::<K>::new(rank)?;
            let mut places = vec![ShardRow::NONE; 50 - usize::from(rank.index() == last)];
            let refused = shard.insert_into(rank, &batch, &mut places);
            let len = shard.len(rank)?;
            assert_eq!((len, shard.insert(rank, &batch)?.len()), (0, 50));
            let mut old = vec![0; shard.local().len()];
            if rank.index() == last {
                old.pop();
            }
            let compacted = shard.compact_into(rank, &mut old);
            Ok((refused.map(drop), compacted.map(drop)))
        });
        for (rank, result) in results.into_iter().enumerate() {
            let (refused, compacted) = result.unwrap();
            for error in [refused, compacted] {
                if rank == last {
                    let (needed, given) = too_small(error);
                    assert_eq!(needed - given, 1);
                } else {
                    assert_failed(&error.unwrap_err(), last);
                }
            }
        }
        assert!(map.is_empty());
    }
    on_keys!(body: u32, u128);
}

/// One rank has no room for its new keys: no rank has new ones then.
#[test]
fn what_one_rank_refuses_all_do() {
    fn body<K: Key>(on: &Group) {
        let last = on.len() - 1;
        let held = keys::<K>(0..60);
        let results = on.ranks().run_each(|rank| {
            let is_last = rank.index() == last;
            // The owners are known from another one.
            let probe = RowShard::<K>::with(rank, Some(5), |builder, _| builder)?;
            let own = held.iter().filter(|&&key| probe.owner(key) == last).count();
            let shard = RowShard::<K>::with(rank, Some(5), |builder, _| match is_last {
                true => builder.capacity(own + 2).growth(Growth::Fixed),
                false => builder,
            })?;
            let places = shard.insert(rank, &held)?;
            let before = shard.local().retrieve_all()?;
            // From different ranks, of which only one has keys of the last rank; and with keys that are there.
            let batches = [
                keys::<K>(30..4_000),
                keys::<K>(2_000 * rank.index() as u64..5_000),
            ];
            for batch in batches {
                match (shard.insert(rank, &batch), is_last) {
                    (Err(Error::Full { partial: false, .. }), true) => {}
                    (Err(error), false) => assert_failed(&error, last),
                    (other, _) => panic!("{other:?}"),
                }
                assert_eq!(shard.local().retrieve_all()?, before);
                assert_eq!(
                    shard.get(rank, &batch[..batch.len().min(7)])?.len(),
                    batch.len().min(7)
                );
            }
            assert_eq!(shard.insert(rank, &held)?, places);
            // Two keys of the last rank fit.
            let mut of_last = keys::<K>(100..900);
            of_last.retain(|&key| shard.owner(key) == last);
            let rows = shard.insert(rank, &of_last[..2])?;
            assert!(rows.iter().all(|place| place.rank as usize == last));
            assert_eq!(shard.len(rank)?, 62);
            Ok(())
        });
        results.into_iter().for_each(|result| result.unwrap());
    }
    on_keys!(body: u32, [u32; 3], u128);
}

#[test]
fn memory_of_one_rank_is_too_small() {
    const BUDGET: u64 = 8 << 20;
    let mut devices = cpu_devices(3);
    devices[1] = devices[1].with_memory_budget(BUDGET);
    let ranks = Ranks::with_timeout(&devices, PATIENCE).unwrap();
    let map = ShardedRowMap::<[u64; 4]>::with(&ranks, Some(5), |builder, _| builder).unwrap();
    let mut oracles = Oracles::new(3);
    let held = keys::<[u64; 4]>(0..6_000);
    assert!(map.insert(&held).unwrap() == oracles.insert(&map, &held).0);
    map.remove(&held[..1_000]).unwrap();
    oracles.remove(&map, &held[..1_000]);
    let batch = keys::<[u64; 4]>(0..12_000);
    let (mut refused, mut compacted) = (0, 0);
    // With more and more memory, until it is enough for all.
    for left in (0..).map(|step| step * (64 << 10)) {
        assert!(left < BUDGET, "there is never enough");
        map.trim();
        let stream = Stream::new(&devices[1]).unwrap();
        let taken = BUDGET.saturating_sub(devices[1].allocated_bytes() + left);
        let taken = Buffer::<u8>::zeroed(&stream, taken as usize).unwrap();
        let old = map.compact();
        let inserted = old.as_ref().ok().map(|_| map.insert(&batch));
        drop(taken);
        match old {
            Ok(old) => {
                let expected: Vec<Vec<u32>> = oracles.0.iter_mut().map(Oracle::compact).collect();
                assert!(old == expected);
            }
            Err(Error::OutOfMemory { .. }) => compacted += 1,
            Err(error) => panic!("{error}"),
        }
        oracles.assert_same_unless_inserted(&map, inserted.as_ref());
        match inserted {
            Some(Ok(places)) => {
                assert!(places == oracles.insert(&map, &batch).0);
                oracles.assert_same(&map);
                break;
            }
            Some(Err(Error::OutOfMemory { .. })) => refused += 1,
            Some(Err(error)) => panic!("{error}"),
            None => {}
        }
    }
    assert!(refused > 1 && compacted > 1, "{refused} and {compacted}");
}

impl Oracles {
    fn assert_same_unless_inserted<K: Key>(
        &self,
        map: &ShardedRowMap<K>,
        inserted: Option<&Result<Vec<ShardRow>>>,
    ) {
        if !matches!(inserted, Some(Ok(_))) {
            self.assert_same(map);
        }
    }
}

/// Every call of the device of one rank fails in turn.
#[test]
fn failures_of_one_device() {
    type Map = ShardedRowMap<u128>;
    fn batch() -> Vec<u128> {
        keys::<u128>(20..200)
    }
    let kind = Kind {
        make: |ranks| {
            let first = keys::<u128>(0..40);
            let map = Map::with(ranks, Some(5), |builder, _| builder.hash_seed(1)).unwrap();
            map.insert(&first).unwrap();
            map.remove(&first[..10]).unwrap();
            map
        },
        held: |map: &Map| [0, 1].map(|rank| map.local(rank)?.retrieve_all()),
        refill: |map| {
            map.clear().unwrap();
            assert_eq!(map.insert(&batch()).unwrap().len(), batch().len());
            assert_eq!(map.len(), batch().len());
        },
    };
    let verbs: [Verb<Map>; 3] = [
        ("insert", |map| map.insert(&batch()).map(drop)),
        ("get", |map| map.get(&batch()).map(drop)),
        ("compact", |map| map.compact().map(drop)),
    ];
    for verb in verbs {
        every_call_fails(&kind, verb, Fails::AsAWhole);
    }
    // Its launch comes after the ranks have agreed.
    let remove: Verb<Map> = ("remove", |map| map.remove(&batch()).map(drop));
    every_call_fails(&kind, remove, Fails::ByRank);
}

#[test]
fn calls_of_different_kinds_are_an_error_everywhere() {
    for group in fresh_groups(PATIENCE) {
        if group.len() == 1 {
            continue;
        }
        noting(&group.to_string(), || {
            let results = group.ranks().run_each(|rank| {
                let shard = RowShard::<u64>::new(rank)?;
                let other = RowShard::<u64>::new(rank)?;
                let is_first = rank.index() == 0;
                let outcomes = [
                    match is_first {
                        true => shard.insert(rank, &[1, 2]).map(drop),
                        false => shard.get(rank, &[1, 2]).map(drop),
                    },
                    match is_first {
                        true => shard.compact(rank).map(drop),
                        false => shard.remove(rank, &[1, 2]).map(drop),
                    },
                    match is_first {
                        true => shard.insert(rank, &[1]).map(drop),
                        false => other.insert(rank, &[1]).map(drop),
                    },
                    // With flags of new keys, or without.
                    match is_first {
                        true => shard
                            .insert_with_outcome_into(rank, &[1], &mut [ShardRow::NONE], &mut [0])
                            .map(drop),
                        false => shard.insert(rank, &[1]).map(drop),
                    },
                ];
                outcomes.into_iter().for_each(assert_out_of_step);
                assert_eq!((shard.len(rank)?, other.len(rank)?), (0, 0));
                shard.insert(rank, &[1, 2])?;
                shard.len(rank)
            });
            assert!(results.into_iter().all(|len| matches!(len, Ok(2))));
            // A shard of another group.
            let alone = Ranks::with_timeout(&group.ranks().devices()[..1], PATIENCE).unwrap();
            let shard = alone.run(RowShard::<u64>::new).unwrap().remove(0);
            assert_out_of_step(group.ranks().run(|rank| match rank.index() {
                0 => shard.insert(rank, &[1]).map(drop),
                _ => rank.barrier(),
            }));
        });
    }
}

#[test]
fn verbs_in_work_of_the_group_are_nested() {
    on_every_group(|on| {
        let map = map::<u64>(on);
        let nested = map.run(|_, _| map.insert(&[1]));
        let is_nested = matches!(nested, Err(Error::Group(GroupError::Nested)));
        assert!(is_nested, "{nested:?}");
        let missing = map.local(on.len()).unwrap_err();
        assert!(matches!(
            missing,
            Error::Group(GroupError::NoSuchRank { .. })
        ));
        assert!(map.is_empty());
    });
}

#[test]
fn work_of_the_group_may_free_memory_that_others_use() {
    on_every_group(|on| {
        let map = map::<u64>(on);
        let stored = map.run(|rank, shard| {
            if rank.index() == 0 {
                // The others may be in their insert, which waits for this rank.
                thread::yield_now();
                map.trim();
            }
            shard.insert_into(rank, &keys::<u64>(0..100), &mut [ShardRow::NONE; 100])
        });
        assert!(stored.unwrap().iter().all(|&new| new == 100));
        map.trim();
        assert_eq!(map.len(), 100);
    });
}

#[test]
fn threads_insert_side_by_side() {
    fn body<K: Key>(on: &Group) {
        let (map, n) = (map::<K>(on), on.n(100, 20_000) as u64);
        let begin = Barrier::new(4);
        let places: Vec<Vec<ShardRow>> = thread::scope(|scope| {
            let insert = |thread: u64| {
                let batch = keys::<K>(thread * n / 2..thread * n / 2 + n);
                begin.wait();
                let places = map.insert(&batch).unwrap();
                for _ in 0..3 {
                    assert_eq!(map.insert(&batch).unwrap(), places);
                    let got = map.get(&batch).unwrap();
                    assert!(got.into_iter().eq(places.iter().copied().map(Some)));
                }
                places
            };
            let threads: Vec<_> = (0..4)
                .map(|thread| scope.spawn(move || insert(thread)))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        let all = keys::<K>(0..5 * n / 2);
        assert_eq!(map.len(), all.len());
        assert_eq!(map.row_bounds(), map.lens(), "rows are dense");
        for (thread, places) in (0..).zip(places) {
            let batch = keys::<K>(thread * n / 2..thread * n / 2 + n);
            let got = map.get(&batch).unwrap();
            assert!(got.into_iter().eq(places.into_iter().map(Some)));
        }
        let absent = [key::<K>(9 * n)];
        assert_eq!(map.get(&absent).unwrap(), [None]);
    }
    on_keys!(body: u64, [u32; 3]);
}
