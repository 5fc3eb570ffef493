//! Maps with wide keys, beside a `HashMap` of the keys' bytes.

use std::collections::HashMap;
use std::sync::Barrier;
use std::thread;

use gpumap::bytemuck::bytes_of;
use gpumap::op::{self, Execute};
use gpumap::{Error, Key, Map, Merge, Numeric, Outcome};
use gpumap_tests::memory::{until_enough, with_left};
use gpumap_tests::{Target, value, value_bits};

use super::rows::{key, keys, on_every_device};

/// Runs `body::<K, V>(&Target)` for these pairs, on every target.
macro_rules! on_wide {
    ($body:ident: $($k:ty => $v:ty),*) => {
        $(on_every_device::<($k, $v)>($body::<$k, $v>);)*
    };
}

/// Runs `body::<K, V>(&Target)` for a key of every alignment and values of every kind, on every target.
macro_rules! on_every_wide {
    ($body:ident) => {
        on_wide!($body:
            [u16; 2] => u64, [u32; 2] => u32, [u32; 3] => u32, [u32; 3] => u64, u128 => u64, [u8; 16] => i32, [u64; 3] => f32,
            [u32; 7] => f64, [u64; 8] => i64)
    };
}

/// Pairs by the bytes of their keys, and values by their bits.
#[derive(Default)]
struct Oracle {
    pairs: HashMap<Vec<u8>, u64>,
    /// Keys that were inserted, in this order, though some were removed.
    order: Vec<Vec<u8>>,
}

impl Oracle {
    fn get<K: Key>(&self, key: &K) -> Option<u64> {
        self.pairs.get(bytes_of(key)).copied()
    }

    /// Sets a value, or removes the key.
    fn set<K: Key>(&mut self, key: &K, value: Option<u64>) {
        let bytes = bytes_of(key);
        match value {
            Some(value) => {
                if self.pairs.insert(bytes.to_vec(), value).is_none() {
                    self.order.push(bytes.to_vec());
                }
            }
            None => {
                self.order.retain(|other| other != bytes);
                self.pairs.remove(bytes);
            }
        }
    }

    /// Panics unless a map holds this, in the order of first insertion.
    fn assert_same<K: Key, V: Numeric>(&self, map: &Map<K, V>) {
        assert_eq!(
            (map.len(), map.is_empty()),
            (self.pairs.len(), self.pairs.is_empty())
        );
        assert!(map.capacity() >= map.len());
        let (keys, values) = map.retrieve_all().expect("retrieve_all");
        assert!(
            keys.iter()
                .map(bytes_of)
                .eq(self.order.iter().map(|key| &key[..])),
            "keys in the order in which they came"
        );
        let told = values.into_iter().map(value_bits);
        assert!(
            told.eq(self.order.iter().map(|key| self.pairs[key])),
            "values"
        );
    }
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

    /// Numbers of different keys.
    fn different(&mut self, of: u64, n: u64) -> Vec<u64> {
        let (first, step) = (self.next() % of, 2 * (self.next() % 50) + 1);
        (0..n.min(of)).map(|i| (first + i * step) % of).collect()
    }
}

/// Whole numbers, which all types of values have exactly.
fn number<V: Numeric>(n: u64) -> V {
    match (V::NUMBER, size_of::<V>()) {
        (gpumap::Number::Float, 4) => value(u64::from((n as f32).to_bits())),
        (gpumap::Number::Float, _) => value((n as f64).to_bits()),
        _ => value(n),
    }
}

/// Their sum.
fn plus<V: Numeric>(a: u64, b: u64) -> u64 {
    let bits = match (V::NUMBER, size_of::<V>()) {
        (gpumap::Number::Float, 4) => {
            u64::from((f32::from_bits(a as u32) + f32::from_bits(b as u32)).to_bits())
        }
        (gpumap::Number::Float, _) => (f64::from_bits(a) + f64::from_bits(b)).to_bits(),
        _ => a.wrapping_add(b),
    };
    value_bits(value::<V>(bits))
}

#[test]
fn random_operations() {
    fn body<K: Key + Send + Sync, V: Numeric + PartialEq + std::fmt::Debug>(on: &Target) {
        let map = Map::<K, V>::new(on.device()).unwrap();
        let (mut oracle, mut random) = (Oracle::default(), Random(size_of::<K>() as u64));
        // An odd number, to which every odd step is prime or of which it is a multiple only at 3, 5 and so on.
        let (of, most) = (1_021, on.n(60, 400) as u64);
        for step in 0..on.n(120, 300) {
            let n = 1 + random.next() % most;
            let batch = keys::<K>(random.different(of, n));
            let values: Vec<V> = batch
                .iter()
                .map(|_| number(random.next() % 1_000))
                .collect();
            let bits: Vec<u64> = values.iter().copied().map(value_bits).collect();
            let before: Vec<Option<u64>> = batch.iter().map(|key| oracle.get(key)).collect();
            let present = before.iter().flatten().count();
            let options = |told: Vec<Option<V>>| -> Vec<Option<u64>> {
                told.into_iter()
                    .map(|value| value.map(value_bits))
                    .collect()
            };
            let pairs = batch.iter().zip(&bits).zip(&before);
            match random.next() % 14 {
                0 | 1 => {
                    assert_eq!(map.insert(&batch, &values).unwrap(), batch.len() - present);
                    pairs.for_each(|((key, &new), old)| oracle.set(key, old.or(Some(new))));
                }
                2 => {
                    let told = map.insert_with_outcome(&batch, &values).unwrap();
                    let is_new = told.into_iter().map(|told| told == Outcome::Inserted);
                    assert!(is_new.eq(before.iter().map(Option::is_none)));
                    pairs.for_each(|((key, &new), old)| oracle.set(key, old.or(Some(new))));
                }
                3 => {
                    assert_eq!(map.upsert(&batch, &values).unwrap(), batch.len() - present);
                    pairs.for_each(|((key, &new), _)| oracle.set(key, Some(new)));
                }
                4 => {
                    // Each key twice.
                    let twice = [&batch[..], &batch].concat();
                    let values = [&values[..], &values].concat();
                    let merged = map.merge(&twice, &values, Merge::Add).unwrap();
                    assert_eq!(merged, batch.len() - present);
                    pairs.for_each(|((key, &new), old)| {
                        let both = plus::<V>(new, new);
                        oracle.set(key, Some(old.map_or(both, |old| plus::<V>(old, both))));
                    });
                }
                5 => {
                    let held = map.get_or_insert(&batch, &values).unwrap();
                    pairs.for_each(|((key, &new), old)| oracle.set(key, old.or(Some(new))));
                    let held = held.into_iter().map(|value| Some(value_bits(value)));
                    assert!(held.eq(batch.iter().map(|key| oracle.get(key))));
                }
                6 => {
                    assert_eq!(map.update(&batch, &values).unwrap(), present);
                    pairs.for_each(|((key, &new), old)| oracle.set(key, old.map(|_| new)));
                }
                7 => {
                    let one = number::<V>(1);
                    assert_eq!(map.update_with(&batch, one, Merge::Add).unwrap(), present);
                    let one = value_bits(one);
                    pairs.for_each(|((key, _), old)| {
                        oracle.set(key, old.map(|old| plus::<V>(old, one)));
                    });
                }
                8 => {
                    let told = map.execute(op::get_and_touch(&batch, &values, Merge::Add));
                    assert_eq!(options(told.unwrap()), before);
                    pairs.for_each(|((key, &new), old)| {
                        oracle.set(key, old.map(|old| plus::<V>(old, new)));
                    });
                }
                9 => {
                    // Each key twice: it is removed once.
                    let twice = [&batch[..], &batch].concat();
                    assert_eq!(map.remove(&twice).unwrap(), present);
                    batch.iter().for_each(|key| oracle.set(key, None));
                }
                10 => {
                    assert_eq!(options(map.take(&batch).unwrap()), before);
                    batch.iter().for_each(|key| oracle.set(key, None));
                }
                11 => {
                    let limit = random.next() % 1_500;
                    let limit = value_bits(number::<V>(limit));
                    let removed = map.retain(|_, value| value_bits(*value) <= limit).unwrap();
                    let gone = |key: &Vec<u8>| oracle.pairs[key] > limit;
                    let gone: Vec<Vec<u8>> = oracle
                        .order
                        .iter()
                        .filter(|key| gone(key))
                        .cloned()
                        .collect();
                    assert_eq!(removed, gone.len());
                    oracle.order.retain(|key| !gone.contains(key));
                    oracle.pairs.retain(|_, &mut value| value <= limit);
                }
                12 if step % 3 == 0 => {
                    let removed = map.retain_keys(&batch).unwrap();
                    assert_eq!(removed, oracle.pairs.len() - present);
                    let kept: Vec<&[u8]> = batch.iter().map(bytes_of).collect();
                    oracle.order.retain(|key| kept.contains(&&key[..]));
                    oracle.pairs.retain(|key, _| kept.contains(&&key[..]));
                }
                12 => {
                    let mut bytes = Vec::new();
                    assert_eq!(map.save_to(&mut bytes).unwrap(), oracle.pairs.len() as u64);
                    let builder = Map::<K, V>::builder(on.device());
                    oracle.assert_same(&builder.load_from(&bytes[..]).unwrap());
                }
                _ if step % 9 == 0 => {
                    let (drained, values) = map.drain().unwrap();
                    assert_eq!(
                        (drained.len(), values.len()),
                        (oracle.order.len(), drained.len())
                    );
                    oracle = Oracle::default();
                }
                _ => {
                    let default = number::<V>(77);
                    let mut told = vec![number::<V>(5); batch.len() + 1];
                    map.get_or_into(&batch, default, &mut told).unwrap();
                    assert_eq!(told.pop(), Some(number(5)), "behind the batch");
                    let default = value_bits(default);
                    let told = told.into_iter().map(value_bits);
                    assert!(told.eq(before.iter().map(|value| value.unwrap_or(default))));
                }
            }
            oracle.assert_same(&map);
            if step % 4 != 0 {
                continue;
            }
            let probes = keys::<K>(0..of + 40);
            let expected: Vec<Option<u64>> = probes.iter().map(|key| oracle.get(key)).collect();
            assert_eq!(options(map.get(&probes).unwrap()), expected, "step {step}");
            let there = map.contains(&probes).unwrap();
            assert!(there.into_iter().eq(expected.iter().map(Option::is_some)));
        }
    }
    on_every_wide!(body);
}

#[test]
fn equal_keys_of_a_batch() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let (n, times) = (on.n(100, 5_000) as u64, 20);
        let map = Map::<K, V>::new(on.device()).unwrap();
        let batch = keys::<K>((0..n * times).map(|i| i % n));
        let values: Vec<V> = (0..n * times).map(number).collect();
        let all = keys::<K>(0..n);
        let held = |map: &Map<K, V>| -> Vec<u64> {
            let told = map.get(&all).unwrap();
            told.into_iter()
                .map(|value| value_bits(value.unwrap()))
                .collect()
        };
        let numbers: Vec<u64> = values.iter().copied().map(value_bits).collect();
        // Of pairs with one key, the first is stored.
        let is_new = map.execute(op::insert(&batch, &values).each()).unwrap();
        assert!(is_new.into_iter().eq((0..n * times).map(|i| i < n)));
        assert_eq!(held(&map), numbers[..n as usize]);
        // The value of one of them replaces it.
        assert_eq!(map.upsert(&batch, &values).unwrap(), 0);
        for (i, held) in held(&map).into_iter().enumerate() {
            let of_key = numbers.iter().skip(i).step_by(n as usize);
            assert!(of_key.into_iter().any(|&number| number == held));
        }
        // Each is counted, and is told another value.
        map.upsert(&all, &vec![number::<V>(0); n as usize]).unwrap();
        let one = number::<V>(1);
        let told = map
            .execute(op::get_and_touch(&batch, one, Merge::Add))
            .unwrap();
        let mut of_keys = vec![Vec::new(); n as usize];
        for (i, told) in (0..).zip(told) {
            of_keys[i % n as usize].push(value_bits(told.unwrap()));
        }
        let expected: Vec<u64> = (0..times).map(|i| value_bits(number::<V>(i))).collect();
        for mut told in of_keys {
            told.sort_unstable();
            assert_eq!(told, expected);
        }
        assert_eq!(
            map.update_with(&batch, one, Merge::Add).unwrap(),
            batch.len()
        );
        let twice = value_bits(number::<V>(2 * times));
        assert_eq!(held(&map), vec![twice; n as usize]);
        // One of them removes it, whether they are in one warp or not.
        let side_by_side = keys::<K>((0..n * times).map(|i| i / times));
        let one_of = |times: usize, told: Vec<Option<V>>| {
            assert!(
                told.chunks(times)
                    .all(|told| told.iter().flatten().count() == 1)
            );
            let told: Vec<u64> = told.into_iter().flatten().map(value_bits).collect();
            assert_eq!((told, map.len()), (vec![twice; n as usize], 0));
        };
        let told = map.take(&batch).unwrap();
        let of_key = |i: u64| told.iter().skip(i as usize).step_by(n as usize).copied();
        one_of(times as usize, (0..n).flat_map(of_key).collect());
        map.insert(&all, &vec![number::<V>(2 * times); n as usize])
            .unwrap();
        let told = map.take(&side_by_side).unwrap();
        one_of(times as usize, told);
    }
    on_wide!(body: u128 => u32, [u32; 3] => f64);
}

#[test]
fn sets_of_wide_keys() {
    fn body<K: Key>(on: &Target) {
        let set = Map::<K, ()>::new(on.device()).unwrap();
        let (some, more) = (keys::<K>(0..500), keys::<K>(300..900));
        assert_eq!(set.execute(op::insert_keys(&some)).unwrap(), 500);
        assert_eq!(set.execute(op::insert_keys(&more)).unwrap(), 400);
        let there = set.contains(&keys::<K>(890..910)).unwrap();
        assert!(there.into_iter().eq((890..910).map(|i| i < 900)));
        assert_eq!(set.remove(&some).unwrap(), 500);
        assert_eq!(
            set.retain(|key, ()| bytes_of(&key) != bytes_of(&more[599]))
                .unwrap(),
            1
        );
        let (left, units) = set.retrieve_all().unwrap();
        assert!(
            left.iter()
                .map(bytes_of)
                .eq(more[200..599].iter().map(bytes_of))
        );
        assert_eq!(units.len(), 399);
    }
    on_every_device::<u128>(body::<u128>);
    on_every_device::<[u32; 3]>(body::<[u32; 3]>);
}

/// Pairs come and go for ever in memory that is in proportion to those that there are.
#[test]
fn rows_of_removed_keys_are_used_again() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(300, 50_000) as u64;
        let on = &on.with_memory_budget(1 << 30);
        let map = Map::<K, V>::new(on.device()).unwrap();
        let batch = |round: u64| {
            let numbers = round * n..(round + 1) * n;
            let values: Vec<V> = numbers.clone().map(number).collect();
            (keys::<K>(numbers), values)
        };
        let mut bytes = Vec::new();
        for round in 0..30 {
            let (keys, values) = batch(round);
            assert_eq!(map.insert(&keys, &values).unwrap(), n as usize);
            if round > 0 {
                assert_eq!(map.remove(&batch(round - 1).0).unwrap(), n as usize);
            }
            assert_eq!(map.len(), n as usize);
            let (there, held) = map.retrieve_all().unwrap();
            assert!(there.iter().map(bytes_of).eq(keys.iter().map(bytes_of)));
            assert!(
                held.into_iter()
                    .map(value_bits)
                    .eq(values.into_iter().map(value_bits))
            );
            map.trim();
            bytes.push(on.device().allocated_bytes());
        }
        let most = bytes[..10].iter().max();
        assert!(bytes[10..].iter().max() <= most, "{bytes:?}");
    }
    on_wide!(body: u128 => u32, [u32; 3] => u64);
}

#[test]
fn refused_batches_change_nothing() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let (held, batch) = (keys::<K>(0..2_000), keys::<K>(1_000..7_000));
        let values: Vec<V> = (0..6_000).map(number).collect();
        let enough = until_enough(on, 16 << 10, |on, left| {
            let map = Map::<K, V>::with_capacity(on.device(), 2_000).unwrap();
            map.insert(&held, &values[..2_000]).unwrap();
            map.trim();
            let pairs = || {
                let (keys, values) = map.retrieve_all().unwrap();
                let keys: Vec<Vec<u8>> = keys.iter().map(|key| bytes_of(key).to_vec()).collect();
                (
                    keys,
                    values.into_iter().map(value_bits).collect::<Vec<u64>>(),
                )
            };
            let before = (pairs(), map.capacity());
            map.trim();
            let merged = with_left(on, left, || map.merge(&batch, &values, Merge::Add));
            match &merged {
                Ok(new) => assert_eq!((*new, map.len()), (5_000, 7_000)),
                Err(_) => assert!((pairs(), map.capacity()) == before),
            }
            merged.map(drop)
        });
        assert!(enough.refused > 5, "{enough:?}");
    }
    on_wide!(body: u128 => u64, [u32; 3] => u32);
}

/// A lookup sees all of a batch or nothing, and no value of a pair that it does not belong to.
#[test]
fn lookups_beside_updates() {
    fn body<K: Key + Send + Sync, V: Numeric>(on: &Target) {
        let (batches, n) = (on.n(30, 200) as u64, on.n(300, 20_000) as u64);
        let map = Map::<K, V>::new(on.device()).unwrap();
        let batch = keys::<K>(0..n);
        let begin = Barrier::new(3);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    begin.wait();
                    for _ in 0..batches {
                        let told = map.get(&batch).unwrap();
                        let first = told[0].map(value_bits);
                        assert!(
                            told.into_iter().all(|value| value.map(value_bits) == first),
                            "a part of a batch"
                        );
                    }
                });
            }
            begin.wait();
            for i in 0..batches {
                match i % 3 {
                    0 => {
                        let values = vec![number::<V>(i); n as usize];
                        assert_eq!(map.upsert(&batch, &values).unwrap(), n as usize);
                    }
                    1 => {
                        let merged = map.merge(&batch, number::<V>(i), Merge::Add);
                        assert_eq!(merged.unwrap(), 0);
                    }
                    _ => assert_eq!(map.remove(&batch).unwrap(), n as usize),
                }
            }
        });
    }
    on_wide!(body: u128 => u64, [u32; 3] => u32);
}

#[test]
fn more_pairs_than_there_can_be() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let refused = Map::<K, V>::with_capacity(on.device(), (1 << 31) + 1);
        assert!(matches!(refused, Err(Error::CapacityOverflow { .. })));
        let map = Map::<K, V>::new(on.device()).unwrap();
        map.insert(&[key::<K>(1)], &[number(1)]).unwrap();
        let refused = map.reserve(1 << 31);
        assert!(matches!(
            refused,
            Err(Error::CapacityOverflow { .. } | Error::OutOfMemory { .. })
        ));
        assert_eq!(map.len(), 1);
        map.reserve(5_000).unwrap();
        assert!(map.capacity() >= 5_001);
    }
    on_wide!(body: [u16; 2] => u32);
}
