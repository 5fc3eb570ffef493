//! `retain`, `retain_keys` and `drain`: what they leave, and what they say they took.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use gpumap::primitives::{Element, Predicate};
use gpumap::{Key, Map, Merge, Numeric};
use gpumap_tests::device::noting;
use gpumap_tests::oracle::{assert_same, paired};
use gpumap_tests::pairs::{Celsius, Cents, UserId, nth_key, patterns};
use gpumap_tests::{
    Batch, Oracle, Target, assert_holds, key, key_bits, on_every_format, on_formats_with_values,
    on_pairs, value,
};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

/// Special bit patterns as keys and as values, and many others.
fn mixed<K: Key, V: Numeric>(on: &Target, random: &mut SmallRng) -> Batch<K, V> {
    let (keys, values) = (patterns(size_of::<K>()), patterns(size_of::<V>()));
    let n = on.n(500, 200_000) as u64;
    let others = (0..n).map(|i| key_bits(nth_key::<K>(i)));
    let all: Oracle = keys
        .into_iter()
        .chain(others)
        .map(|k| {
            let v = if random.random() {
                *values.choose(random).unwrap()
            } else {
                random.random()
            };
            (k, v)
        })
        .collect();
    Batch::of(all)
}

/// Each kind of predicate, with bounds from the list.
fn predicates<T: Element>(bounds: &[T], random: &mut SmallRng) -> Vec<Predicate<T>> {
    let mut bound = || *bounds.choose(random).unwrap();
    vec![
        Predicate::Always,
        Predicate::Less(bound()),
        Predicate::LessOrEqual(bound()),
        Predicate::Greater(bound()),
        Predicate::GreaterOrEqual(bound()),
        Predicate::Equal(bound()),
        Predicate::NotEqual(bound()),
        Predicate::Between {
            low: bound(),
            high: bound(),
        },
        Predicate::Outside {
            low: bound(),
            high: bound(),
        },
        Predicate::Bits {
            mask: bound(),
            value: bound(),
        },
        Predicate::NotBits {
            mask: bound(),
            value: bound(),
        },
    ]
}

#[test]
fn by_every_kind_of_predicate() {
    fn body<K: Key + Element, V: Numeric + Element>(on: &Target) {
        let mut random = SmallRng::seed_from_u64(11);
        let batch = mixed::<K, V>(on, &mut random);
        for submaps in [1, 9] {
            let builder = on.builder::<K, V>().capacity(batch.len());
            let map = builder.submaps(submaps).build().unwrap();
            let of_keys = predicates(&batch.keys, &mut random);
            let of_values = predicates(&batch.values, &mut random);
            for i in 0..of_keys.len() {
                // Each with itself, alone, and with another one.
                let other = random.random_range(0..of_values.len());
                for (keys, values) in [
                    (of_keys[i], Predicate::Always),
                    (Predicate::Always, of_values[i]),
                    (of_keys[i], of_values[other]),
                ] {
                    map.clear().unwrap();
                    map.insert(&batch.keys, &batch.values).unwrap();
                    let pairs = batch.keys.iter().zip(&batch.values);
                    let stay = pairs.filter(|&(&k, &v)| keys.holds(k) && values.holds(v));
                    let expected = Batch {
                        keys: stay.clone().map(|(&k, _)| k).collect(),
                        values: stay.map(|(_, &v)| v).collect(),
                    };
                    let removed = map.retain_where(keys, values).unwrap();
                    assert_eq!(removed, batch.len() - expected.len());
                    assert_holds(&map, &expected.bits().collect());
                    assert_eq!(map.retain_where(keys, values).unwrap(), 0, "a second time");
                }
            }
        }
    }
    on_pairs!(body: u32 => u32, u32 => u64, u64 => u32, u64 => u64);
    on_pairs!(body: i32 => f32, i64 => f64, u64 => i32, u32 => i64);
    on_pairs!(body: UserId => Cents, u32 => Celsius);
}

#[test]
fn newtypes_compare_as_their_numbers() {
    let body = |on: &Target| {
        let map = on.map::<UserId, Cents>(1_000);
        let keys: Vec<UserId> = (0..100).chain([!0, 1 << 63]).map(UserId).collect();
        let values: Vec<Cents> = (-50..52).map(Cents).collect();
        map.insert(&keys, &values).unwrap();
        let above = Predicate::GreaterOrEqual(UserId(10));
        assert_eq!(
            map.retain_where(above, Predicate::Less(Cents(5))).unwrap(),
            57
        );
        let mut left = map.retrieve_all().unwrap().1;
        left.sort_unstable_by_key(|cents| cents.0);
        assert_eq!(left, (-40..5).map(Cents).collect::<Vec<_>>());

        let set: Map<UserId, ()> = on.map(1_000);
        set.insert_keys(&keys).unwrap();
        assert_eq!(
            set.retain_where(Predicate::Less(UserId(1 << 63))).unwrap(),
            2
        );
        assert_eq!(set.retain_where(above).unwrap(), 10);
        assert_eq!(set.len(), 90);
    };
    gpumap_tests::on_every_target(body);
}

#[test]
fn by_plain_ranges() {
    let body = |on: &Target| {
        let map = on.map::<i32, f64>(1_000);
        let keys: Vec<i32> = (-300..300)
            .chain([i32::MIN, i32::MAX, -1, -2, -3])
            .collect();
        let values: Vec<f64> = keys.iter().map(|&k| f64::from(k) / 2.0).collect();
        map.insert(&keys, &values).unwrap();
        let (low, high) = (-100, 250);
        map.retain_where(Predicate::Between { low, high }, Predicate::Always)
            .unwrap();
        map.retain_where(Predicate::NotEqual(7), Predicate::Less(60.0))
            .unwrap();
        let (mut left, _) = map.retrieve_all().unwrap();
        left.sort_unstable();
        let expected: Vec<i32> = (-100..120).filter(|&k| k != 7).collect();
        assert_eq!(left, expected);
        // And what was removed may come back.
        assert_eq!(map.insert(&keys, &values).unwrap(), 602 - expected.len());
    };
    gpumap_tests::on_every_target(body);
}

/// A map with keys of these numbers and the reserved ones, and what it holds.
fn filled<K: Key, V: Numeric>(map: &Map<K, V>, n: u64) -> Oracle {
    let mut batch = Batch::<K, V>::numbered(0..n, 1);
    let reserved = Batch::<K, V>::of((0..3).map(|i| (!i, i)));
    batch.keys.extend(reserved.keys);
    batch.values.extend(reserved.values);
    map.insert(&batch.keys, &batch.values).unwrap();
    batch.bits().collect()
}

#[test]
fn only_these_keys() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(600, 300_000) as u64;
        for (how, map) in on.maps::<K, V>(n as usize + 3, n as usize + 3) {
            noting(how, || {
                let mut held = filled(&map, n);
                // Some of them several times, absent ones, and one of the reserved ones.
                let mut kept: Vec<K> = (0..n / 2).chain(0..n / 3).map(nth_key).collect();
                kept.extend((2 * n..3 * n).map(nth_key::<K>));
                kept.extend([key::<K>(!1); 2]);
                let bits: Vec<u64> = kept.iter().map(|&k| key_bits(k)).collect();
                let before = held.len();
                let there: std::collections::HashSet<_> = bits.iter().copied().collect();
                held.retain(|k, _| there.contains(k));
                assert_eq!(held.len() as u64, n / 2 + 1);
                assert_eq!(map.retain_keys(&kept).unwrap(), before - held.len());
                assert_holds(&map, &held);
                assert_eq!(map.stats().unwrap().tombstones, 0, "it rebuilds the table");
                assert_eq!(map.retain_keys(&kept).unwrap(), 0);
                assert_holds(&map, &held);
                // Absent ones alone, and none at all.
                let absent: Vec<K> = (4 * n..4 * n + 5).map(nth_key).collect();
                assert_eq!(map.retain_keys(&absent).unwrap(), held.len());
                assert_holds(&map, &Oracle::new());
                let all = filled(&map, n);
                assert_eq!(map.retain_keys(&[]).unwrap(), all.len());
                assert_holds(&map, &Oracle::new());
            });
        }
    }
    on_every_format!(body);
}

#[test]
fn drained_pairs_are_all_there_were() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(700, 300_000) as u64;
        for (how, map) in on.maps::<K, V>(n as usize + 3, n as usize + 3) {
            noting(how, || {
                let (keys, values) = map.drain().unwrap();
                assert!(keys.is_empty() && values.is_empty());
                for _ in 0..2 {
                    let mut held = filled(&map, n);
                    let gone: Vec<K> = (0..n / 4).map(nth_key).collect();
                    map.remove(&gone).unwrap();
                    for &k in &gone {
                        held.remove(&key_bits(k));
                    }
                    let slots = map.slots();
                    let (keys, values) = map.drain().unwrap();
                    assert_same(&paired(&keys, &values), &held, "drain");
                    assert_holds(&map, &Oracle::new());
                    let stats = map.stats().unwrap();
                    assert_eq!((stats.len, stats.tombstones), (0, 0));
                    assert_eq!(map.slots(), slots);
                }
                assert_eq!(map.insert(&[key(1)], &[value(1)]).unwrap(), 1);
            });
        }
    }
    on_every_format!(body);
}

#[test]
fn beside_updates_no_pair_that_satisfies_it_is_removed() {
    fn body<K: Key + Element, V: Numeric + Element>(on: &Target) {
        let n = on.n(100, 5_000) as u64;
        let rounds = on.n(60, 100) as u64;
        let map = on.map::<K, V>(3 * (n * rounds) as usize);
        let writing = AtomicBool::new(true);
        thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..rounds {
                    let of = |v| {
                        let numbers = round * n..(round + 1) * n;
                        Batch::<K, V>::of(numbers.map(|i| (key_bits(nth_key::<K>(i)), v)))
                    };
                    let (zeros, ones) = (of(0), of(1));
                    map.merge(&zeros.keys, &zeros.values, Merge::Add).unwrap();
                    map.merge(&ones.keys, &ones.values, Merge::Add).unwrap();
                }
                writing.store(false, Ordering::Release);
            });
            while writing.load(Ordering::Acquire) {
                map.retain_where(Predicate::Always, Predicate::Greater(value(0)))
                    .unwrap();
            }
        });
        let expected: Oracle = (0..n * rounds)
            .map(|i| (key_bits(nth_key::<K>(i)), 1))
            .collect();
        assert_holds(&map, &expected);
    }
    on_formats_with_values!(body);
}
