//! Answers and dumps into memory of the caller: of the host, of the devices, or of both.

use std::thread;

use gpumap::sharded::{Rank, Shard};
use gpumap::{Buffer, Error, Key, Numeric, Output, Result, Stream};
use gpumap_tests::group::Group;
use gpumap_tests::oracle::{Oracle, assert_same, paired};
use gpumap_tests::{key, key_bits, value, value_bits};

use super::{map, on_groups};

/// Distinct keys, spread over all ranks.
fn keys_of<K: Key>(range: std::ops::Range<u64>) -> Vec<K> {
    range
        .map(|i| key(i.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        .collect()
}

fn value_of<K: Key, V: Numeric>(k: &K) -> V {
    value(key_bits(*k) ^ 0x55)
}

fn bits<V: Numeric>(values: &[V]) -> Vec<u64> {
    values.iter().map(|&v| value_bits(v)).collect()
}

/// What is in places that nothing should write to.
const UNTOUCHED: u8 = 9;

fn untouched<V: Numeric>(len: usize) -> Vec<V> {
    vec![value::<V>(!5); len]
}

#[test]
fn answers_into_vectors_are_those_of_get() {
    fn body<K: Key, V: Numeric>(on: &Group) {
        let n = on.n(700, 300_000);
        let sharded = map::<K, V>(on);
        let keys: Vec<K> = keys_of(0..n as u64);
        let held = &keys[..n / 2];
        let values: Vec<V> = held.iter().map(value_of).collect();
        sharded.insert(held, &values).unwrap();

        // Longer than the batch.
        let (mut out, mut found) = (untouched::<V>(n + 3), vec![UNTOUCHED; n + 3]);
        sharded.get_into(&keys, &mut out, &mut found).unwrap();
        let mut right = bits(&values);
        right.resize(n, 0);
        right.resize(n + 3, value_bits(value::<V>(!5)));
        assert!(bits(&out) == right);
        let mut there = vec![1; n / 2];
        there.resize(n, 0);
        there.resize(n + 3, UNTOUCHED);
        assert!(found == there);

        found.fill(UNTOUCHED);
        sharded.contains_into(&keys, &mut found).unwrap();
        assert!(found == there);

        // Fewer keys than ranks, and none.
        sharded.get_into(&keys[..1], &mut out, &mut found).unwrap();
        assert_eq!((value_bits(out[0]), found[0]), (right[0], 1));
        sharded.get_into(&[], &mut [], &mut []).unwrap();
        sharded.contains_into(&[], &mut []).unwrap();
    }
    on_groups!(body: u64 => u64, u32 => u32, u64 => u32, u32 => ());
}

#[test]
fn dumps_into_vectors_are_those_of_retrieve_all() {
    fn body<K: Key, V: Numeric>(on: &Group) {
        let n = on.n(700, 300_000);
        let sharded = map::<K, V>(on);
        let mut nothing: (Vec<K>, Vec<V>) = (Vec::new(), Vec::new());
        let pairs = sharded.retrieve_all_into(&mut nothing.0, &mut nothing.1);
        assert_eq!(pairs.unwrap(), 0);

        let keys: Vec<K> = keys_of(0..n as u64);
        let values: Vec<V> = keys.iter().map(value_of).collect();
        sharded.insert(&keys, &values).unwrap();
        let right: Oracle = keys
            .iter()
            .map(|&k| key_bits(k))
            .zip(bits(&values))
            .collect();

        let (mut out_keys, mut out) = (vec![K::zeroed(); n + 2], untouched::<V>(n + 2));
        let pairs = sharded.retrieve_all_into(&mut out_keys, &mut out);
        assert_eq!(pairs.unwrap(), n);
        assert_same(
            &paired(&out_keys[..n], &out[..n]),
            &right,
            "retrieve_all_into",
        );
        assert!(
            bits(&out[n..]) == bits(&untouched::<V>(2)),
            "written beyond the end"
        );

        let mut short = untouched::<V>(n - 1);
        let error = sharded.retrieve_all_into(&mut out_keys, &mut short);
        assert!(
            matches!(error, Err(Error::OutputTooSmall { needed, given }) if (needed, given) == (n, n - 1)),
            "{error:?}"
        );
        assert!(
            bits(&short) == bits(&untouched::<V>(n - 1)),
            "written all the same"
        );
    }
    on_groups!(body: u64 => u64, u32 => u32, u32 => u64);
}

/// A dump is of a moment between two calls: the pairs of whole batches.
#[test]
fn dumps_beside_stores_have_whole_batches() {
    fn body<K: Key, V: Numeric>(on: &Group) {
        let (each, batches) = (on.n(60, 20_000), 12);
        let sharded = map::<K, V>(on);
        let store = || {
            for batch in 0..batches {
                let keys: Vec<K> = keys_of((batch * each) as u64..((batch + 1) * each) as u64);
                let values: Vec<V> = keys.iter().map(value_of).collect();
                assert_eq!(sharded.insert(&keys, &values).unwrap(), each);
            }
        };
        thread::scope(|scope| {
            let storing = scope.spawn(store);
            loop {
                let ended = storing.is_finished();
                let (keys, values) = sharded.retrieve_all().unwrap();
                assert_eq!((keys.len(), keys.len() % each), (values.len(), 0));
                let belongs = |(k, v): (&K, &V)| value_bits(value_of::<K, V>(k)) == value_bits(*v);
                assert!(keys.iter().zip(&values).all(belongs));
                if ended {
                    assert_eq!(keys.len(), each * batches);
                    return;
                }
            }
        });
    }
    on_groups!(body: u64 => u64);
}

/// Looks a batch up into outputs of any kind.
fn ask<K: Key, V: Numeric>(
    rank: &mut Rank,
    shard: &mut Shard<K, V>,
    keys: &[K],
    values: &mut (impl Output<V> + ?Sized),
    found: &mut (impl Output<u8> + ?Sized),
) -> Result<()> {
    shard.get_into(rank, keys, values, found)?;
    shard.contains_into(rank, keys, found)
}

#[test]
fn every_rank_has_outputs_of_its_own_kind() {
    fn body<K: Key, V: Numeric>(on: &Group) {
        let n = on.n(300, 100_000);
        let sharded = map::<K, V>(on);
        let all: Vec<K> = keys_of(0..n as u64);
        let values: Vec<V> = all.iter().map(value_of).collect();
        sharded.insert(&all, &values).unwrap();
        let work = |rank: &mut Rank, shard: &mut Shard<K, V>| {
            let stream = Stream::new(rank.device())?;
            let (mut host, mut found) = (untouched::<V>(n), vec![UNTOUCHED; n]);
            let mut device = Buffer::from_slice(&stream, &host)?;
            let mut found_there = Buffer::from_slice(&stream, &found)?;
            match rank.index() % 4 {
                0 => ask(rank, shard, &all, &mut host, &mut found)?,
                1 => ask(rank, shard, &all, &mut device, &mut found_there)?,
                2 => ask(rank, shard, &all, &mut host, &mut found_there)?,
                _ => ask(rank, shard, &all, &mut device, &mut found)?,
            }
            if rank.index() % 2 == 1 {
                host = device.to_vec()?;
            }
            if matches!(rank.index() % 4, 1 | 2) {
                found = found_there.to_vec()?;
            }
            assert!(bits(&host) == bits(&values) && found.iter().all(|&found| found == 1));
            Ok(())
        };
        sharded.run(work).unwrap();
    }
    on_groups!(body: u64 => u64, u32 => u32, u64 => u32);
}

#[test]
fn outputs_that_are_too_short_are_an_error_everywhere() {
    fn body<K: Key, V: Numeric>(on: &Group) {
        let sharded = map::<K, V>(on);
        let error = sharded.run(|rank, shard| {
            let stream = Stream::new(rank.device())?;
            let short = usize::from(rank.index() == 0);
            let mut values = Buffer::<V>::zeroed(&stream, 5)?;
            let mut found = Buffer::<u8>::zeroed(&stream, 5 - short)?;
            let keys = [key::<K>(1); 5];
            shard.get_into(rank, &keys, &mut values, &mut found)
        });
        let error = error.unwrap_err();
        assert!(
            matches!(
                error,
                Error::OutputTooSmall {
                    needed: 5,
                    given: 4
                }
            ),
            "{error}"
        );
        assert!(sharded.is_empty());
    }
    on_groups!(body: u64 => u64);
}
