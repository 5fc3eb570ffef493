//! Batches of every shape: on the devices, skewed, empty, all on one rank, for one rank.

use gpumap::sharded::{Rank, Ranks, Shard};
use gpumap::{Buffer, Error, Key, Merge, Numeric, Result, ShardedMap, Stream};
use gpumap_tests::device::targets;
use gpumap_tests::group::{Group, PATIENCE};
use gpumap_tests::oracle::Oracle;
use gpumap_tests::{key, key_bits, value, value_bits};

use super::{assert_holds, map, on_groups};
use crate::sanitizer::sorted_batches;

/// Keys that belong to a rank alone.
fn keys_of_rank<K: Key, V: Numeric>(shard: &Shard<K, V>, owner: usize, n: usize) -> Vec<K> {
    let keys = (0..).map(|i: u64| key(i.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    keys.filter(|&k| shard.owner(k) == owner).take(n).collect()
}

/// Stores a batch from the device and finds it again, by all verbs.
fn through<K: Key, V: Numeric>(
    rank: &mut Rank,
    shard: &mut Shard<K, V>,
    keys: &[K],
    total: usize,
) -> Result<()> {
    let stream = Stream::new(rank.device())?;
    let values: Vec<V> = keys.iter().map(|&k| value(key_bits(k) ^ 0x55)).collect();
    let at = Buffer::from_slice(&stream, keys)?;
    let stored = Buffer::from_slice(&stream, &values)?;
    assert_eq!(shard.insert(rank, &at, &stored)?, total);
    assert_eq!(shard.len(rank)?, total);

    let n = keys.len();
    // One element more, which must stay.
    let mut out = Buffer::from_slice(&stream, &vec![value::<V>(!5); n + 1])?;
    let mut found = Buffer::from_slice(&stream, &vec![9u8; n + 1])?;
    shard.get_into(rank, &at, &mut out, &mut found)?;
    let (out, seen) = (out.to_vec()?, found.to_vec()?);
    assert!(
        out[..n]
            .iter()
            .zip(&values)
            .all(|(&a, &b)| value_bits(a) == value_bits(b))
    );
    assert_eq!(
        value_bits(out[n]),
        value_bits(value::<V>(!5)),
        "written beyond the end"
    );
    assert!(seen[..n].iter().all(|&seen| seen == 1) && seen[n] == 9);

    found.fill_bytes(7)?;
    shard.contains_into(rank, &at, &mut found)?;
    assert!(found.to_vec()?[..n].iter().all(|&seen| seen == 1));
    assert_eq!(shard.merge(rank, &at, &stored, Merge::Or)?, 0);
    assert_eq!(shard.upsert(rank, &at, &stored)?, 0);
    let other: Vec<V> = keys.iter().map(|&k| value(key_bits(k) ^ 0xaa)).collect();
    let assigned = Buffer::from_slice(&stream, &other)?;
    assert_eq!(shard.update(rank, &at, &assigned)?, total);
    let held = shard.get(rank, &at)?.into_iter().zip(&other);
    assert!(
        held.into_iter()
            .all(|(held, &right)| held.map(value_bits) == Some(value_bits(right)))
    );
    assert_eq!(shard.remove(rank, &at)?, total);
    assert_eq!(shard.update(rank, &at, &stored)?, 0);
    shard.get_into(
        rank,
        &at,
        &mut Buffer::from_slice(&stream, &values)?,
        &mut found,
    )?;
    assert!(found.to_vec()?[..n].iter().all(|&seen| seen == 0));
    assert!(shard.is_empty(rank)?);
    Ok(())
}

#[test]
fn batches_on_the_devices() {
    fn body<K: Key, V: Numeric>(on: &Group) {
        let (n, ranks) = (on.n(500, 300_000), on.len());
        let work = |rank: &mut Rank, shard: &mut Shard<K, V>| {
            // Batches of different lengths, several times, so that buffers are used again and grow.
            for round in 1..=3u64 {
                let len = |rank: usize| n * round as usize / 3 + 17 * rank;
                let total = (0..ranks).map(len).sum();
                let first = (rank.index() as u64) << 24 | round;
                let keys: Vec<K> = (0..len(rank.index()) as u64)
                    .map(|i| key((first + (i << 3)).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
                    .collect();
                through(rank, shard, &keys, total)?;
            }
            Ok(())
        };
        map::<K, V>(on).run(work).unwrap();
    }
    on_groups!(body: u64 => u64, u32 => u32, u64 => u32);
}

/// Every verb with batches that are sent straight to their owners, small enough for the sanitizers.
#[test]
fn sanitizer_large_batches_are_sent() {
    for on in targets() {
        let ranks = Ranks::on_one(on.device(), 2, PATIENCE).unwrap();
        let map = sorted_batches(ShardedMap::<u64, u64>::builder(&ranks));
        let work = |rank: &mut Rank, shard: &mut Shard<u64, u64>| {
            let first = (rank.index() as u64) << 24;
            let keys: Vec<u64> = (first..first + 700)
                .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
                .collect();
            through(rank, shard, &keys, 1_400)
        };
        let map = map.capacity(4_000).owner_seed(5).build().unwrap();
        map.run(work).unwrap();
    }
}

#[test]
fn one_rank_has_all_the_keys() {
    fn body<K: Key, V: Numeric>(on: &Group) {
        let n = on.n(600, 300_000);
        for bringer in 0..on.len() {
            let work = |rank: &mut Rank, shard: &mut Shard<K, V>| {
                let all: Vec<K> = (0..n as u64)
                    .map(|i| key(i.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
                    .collect();
                let mine = if rank.index() == bringer {
                    &all[..]
                } else {
                    &[]
                };
                through(rank, shard, mine, n)
            };
            map::<K, V>(on).run(work).unwrap();
        }
    }
    on_groups!(body: u64 => u64);
}

#[test]
fn one_rank_owns_all_the_keys() {
    fn body<K: Key, V: Numeric>(on: &Group) {
        let (n, ranks) = (on.n(100, 20_000), on.len());
        for owner in 0..ranks {
            let work = |rank: &mut Rank, shard: &mut Shard<K, V>| {
                let all = keys_of_rank(shard, owner, n * ranks);
                let mine = &all[n * rank.index()..][..n];
                through(rank, shard, mine, n * ranks)?;
                shard.insert(rank, mine, &vec![value::<V>(3); n])?;
                let here = shard.local().len();
                assert_eq!(here, if rank.index() == owner { n * ranks } else { 0 });
                Ok(())
            };
            map::<K, V>(on).run(work).unwrap();
        }
    }
    on_groups!(body: u64 => u32, u32 => u32);
}

#[test]
fn nobody_brings_anything() {
    fn body<K: Key, V: Numeric>(on: &Group) {
        let sharded = map::<K, V>(on);
        assert_eq!(sharded.insert(&[], &[]).unwrap(), 0);
        assert_eq!(sharded.remove(&[]).unwrap(), 0);
        assert!(sharded.get(&[]).unwrap().is_empty());
        assert!(sharded.contains(&[]).unwrap().is_empty());
        // Fewer keys than ranks.
        assert_eq!(
            sharded.insert(&[key::<K>(7)], &[value::<V>(70)]).unwrap(),
            1
        );
        assert_eq!(sharded.contains(&[key::<K>(7)]).unwrap(), [true]);
        assert_holds(&sharded, &Oracle::from([(7, 70)]));
        sharded.clear().unwrap();
        sharded
            .run(|rank, shard| through(rank, shard, &[], 0))
            .unwrap();
    }
    on_groups!(body: u64 => u64);
}

#[test]
fn lengths_that_differ_are_an_error_everywhere() {
    fn body<K: Key, V: Numeric>(on: &Group) {
        let sharded = map::<K, V>(on);
        let error = sharded.insert(&[key::<K>(1)], &[]).unwrap_err();
        assert!(matches!(
            error,
            Error::LengthMismatch { keys: 1, values: 0 }
        ));
        // One rank alone brings nonsense; the others have nothing to do with it.
        let last = on.len() - 1;
        let results = on.ranks().run_each(|rank| {
            let mut shard = Shard::<K, V>::new(rank)?;
            let values: &[V] = if rank.index() == last {
                &[]
            } else {
                &[V::zeroed()]
            };
            shard.insert(rank, &[key::<K>(1)], values)
        });
        for (rank, result) in results.into_iter().enumerate() {
            let error = result.unwrap_err();
            if rank == last {
                assert!(
                    matches!(error, Error::LengthMismatch { keys: 1, values: 0 }),
                    "{error}"
                );
            } else {
                super::failures::assert_failed(&error, last);
            }
        }
        // Nothing is broken.
        assert_eq!(sharded.insert(&[key::<K>(1)], &[V::zeroed()]).unwrap(), 1);
    }
    on_groups!(body: u64 => u64);
}
