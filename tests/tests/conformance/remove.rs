//! `remove`: what is removed is gone, what is not stays, and both can be stored again once.

use gpumap::{Buffer, Key, Map, Merge, Value};
use gpumap_tests::device::noting;
use gpumap_tests::pairs::{nth_key, patterns};
use gpumap_tests::{
    Batch, Oracle, Shape, Target, assert_holds, key, on_every_format, on_every_pair, value_bits,
};

fn keys<K: Key>(numbers: impl IntoIterator<Item = u64>) -> Vec<K> {
    numbers.into_iter().map(nth_key).collect()
}

/// Panics unless the map has none of the keys with these numbers.
fn assert_gone<K: Key, V: Value>(map: &Map<K, V>, numbers: impl IntoIterator<Item = u64>) {
    let gone = keys::<K>(numbers);
    assert!(map.get(&gone).unwrap().iter().all(Option::is_none));
    assert!(map.contains(&gone).unwrap().iter().all(|&there| !there));
    assert_eq!(map.remove(&gone).unwrap(), 0, "removed twice");
}

#[test]
fn present_and_absent_keys() {
    fn body<K: Key, V: Value>(on: &Target) {
        let n = on.n(600, 500_000) as u64;
        for submaps in [1, 9] {
            let builder = on.builder::<K, V>().capacity(n as usize);
            let map = builder.submaps(submaps).build().unwrap();
            assert_eq!(map.remove(&keys::<K>(0..10)).unwrap(), 0, "of an empty map");
            let batch = Batch::<K, V>::numbered(0..n, 1);
            map.insert(&batch.keys, &batch.values).unwrap();
            let mut held: Oracle = batch.bits().collect();
            // Every third one, and as many absent ones.
            let some = (0..n).step_by(3).chain(n..n + n / 3);
            let removed = map.remove(&keys::<K>(some.clone())).unwrap();
            assert_eq!(removed as u64, n.div_ceil(3));
            for (k, _) in batch.bits().step_by(3) {
                held.remove(&k);
            }
            assert_holds(&map, &held);
            assert_gone(&map, some);
            assert_holds(&map, &held);
        }
    }
    on_every_format!(body);
}

#[test]
fn a_key_that_comes_several_times_counts_once() {
    fn body<K: Key, V: Value>(on: &Target) {
        let n = on.n(1_000, 400_000) as u64;
        for distinct in [1, 3, n / 4] {
            let map = on.map::<K, V>(n as usize);
            let batch = Batch::<K, V>::numbered(0..2 * distinct, 1);
            map.insert(&batch.keys, &batch.values).unwrap();
            let many = keys::<K>((0..n).map(|i| i % distinct));
            let many = Buffer::from_slice(&on.stream(), &many).unwrap();
            assert_eq!(map.remove(&many).unwrap() as u64, distinct);
            assert_holds(&map, &batch.bits().skip(distinct as usize).collect());
            assert_eq!(map.remove(&many).unwrap(), 0);
        }
    }
    on_every_format!(body);
}

#[test]
fn every_bit_pattern() {
    fn body<K: Key, V: Value>(on: &Target) {
        let all = patterns(size_of::<K>());
        let map = on.map::<K, V>(all.len());
        let batch = Batch::<K, V>::of(all.iter().map(|&k| (k, k)));
        map.insert(&batch.keys, &batch.values).unwrap();
        let mut held: Oracle = batch.bits().collect();
        for &k in &all {
            assert_eq!(map.remove(&[key::<K>(k)]).unwrap(), 1, "{k:#x}");
            held.remove(&k);
            assert_holds(&map, &held);
            assert_eq!(map.remove(&[key::<K>(k)]).unwrap(), 0, "{k:#x} again");
        }
        assert!(map.is_empty());
    }
    on_every_pair!(body);
}

#[test]
fn all_removed_and_stored_again() {
    fn body<K: Key, V: Value>(on: &Target) {
        let n = on.n(500, 300_000) as u64;
        for (how, map) in on.maps::<K, V>(n as usize, n as usize) {
            noting(how, || {
                for round in 0..5 {
                    // The same keys and some others.
                    let batch = Batch::<K, V>::numbered((0..n).map(|i| i + round * n / 4), 1);
                    let new = map.insert(&batch.keys, &batch.values).unwrap();
                    assert_eq!(new as u64, n, "round {round}");
                    assert_holds(&map, &batch.bits().collect());
                    assert_eq!(map.remove(&batch.keys).unwrap() as u64, n);
                    assert_holds(&map, &Oracle::new());
                }
            });
        }
    }
    on_every_format!(body);
}

#[test]
fn a_key_behind_tombstones_stays_the_only_one() {
    fn body<K: Key, V: Value>(on: &Target) {
        // Walks are long, and half of what is on them are tombstones.
        let shape = Shape::new::<K, V>(&[on.n(256, 2_048)], 4, 1);
        let map = shape.builder::<K, V>(on).build().unwrap();
        let n = map.slots() as u64 * 3 / 4;
        let first = Batch::<K, V>::numbered(0..n, 1);
        map.insert(&first.keys, &first.values).unwrap();
        let even = keys::<K>((0..n).step_by(2));
        assert_eq!(map.remove(&even).unwrap() as u64, n.div_ceil(2));
        let mut held: Oracle = first.bits().skip(1).step_by(2).collect();
        // All of them again: odd ones lie behind tombstones now and must be met all the same.
        let again = Batch::<K, V>::numbered((0..n / 2).chain(0..n / 2), 2);
        let missing = n / 4 + u64::from(n / 2 % 2 == 1);
        let new = map.insert(&again.keys, &again.values).unwrap();
        assert_eq!(new as u64, missing);
        for (k, v) in again.bits() {
            held.entry(k).or_insert(v);
        }
        assert_holds(&map, &held);
        let upserted = Batch::<K, V>::numbered(0..n / 2, 3);
        assert_eq!(map.upsert(&upserted.keys, &upserted.values).unwrap(), 0);
        held.extend(upserted.bits());
        assert_holds(&map, &held);
        let (keys, steps) = (&upserted.keys, &upserted.values);
        assert_eq!(map.merge(keys, steps, Merge::Xor).unwrap(), 0);
        for k in upserted.bits().map(|(k, _)| k) {
            held.insert(k, 0);
        }
        assert_holds(&map, &held);
    }
    on_every_format!(body);
}

#[test]
fn lookups_in_a_table_of_tombstones_end() {
    fn body<K: Key, V: Value>(on: &Target) {
        for slots in [vec![1], vec![64], vec![40; 3]] {
            let shape = Shape::new::<K, V>(&slots, 2, 7);
            let builder = shape.builder::<K, V>(on);
            let map = builder.capacity(shape.slots() / 4).build().unwrap();
            let numbers = shape.filling::<K>(0);
            let batch = Batch::<K, V>::numbered(numbers.iter().copied(), 1);
            assert_eq!(map.insert(&batch.keys, &batch.values).unwrap(), map.slots());
            assert_eq!(map.remove(&batch.keys).unwrap(), map.slots());
            assert_eq!(map.stats().unwrap().tombstones, map.slots());
            assert_gone(&map, numbers);
            assert_gone(&map, 1 << 30..(1 << 30) + 70);
            assert_holds(&map, &Oracle::new());
            // And what is stored next is found.
            let one = Batch::<K, V>::numbered([5], 2);
            assert_eq!(map.upsert(&one.keys, &one.values).unwrap(), 1);
            assert_holds(&map, &one.bits().collect());
        }
    }
    on_every_format!(body);
}

#[test]
fn each_removed_key_is_told_once() {
    fn body<K: Key, V: Value>(on: &Target) {
        let n = on.n(800, 300_000) as u64;
        let map = on.map::<K, V>(n as usize);
        let batch = Batch::<K, V>::numbered(0..n / 2, 1);
        let insert = || map.insert(&batch.keys, &batch.values).unwrap();
        // Present and absent keys, most of them three times, one of them a thousand times.
        let asked: Vec<u64> = (0..n)
            .chain(0..n)
            .chain(n / 3..n)
            .chain([3; 1_000])
            .collect();
        let asked_keys = keys::<K>(asked.iter().copied());
        for turn in 0..2 {
            insert();
            let told: Vec<Option<Option<V>>> = if turn == 0 {
                let told = map.remove_with_outcome(&asked_keys).unwrap();
                told.into_iter()
                    .map(|removed| removed.then_some(None))
                    .collect()
            } else {
                let told = map.remove_with_values(&asked_keys).unwrap();
                told.into_iter().map(|value| value.map(Some)).collect()
            };
            assert_eq!(told.len(), asked.len());
            let mut times = vec![0; n as usize];
            for (&i, told) in asked.iter().zip(told) {
                let Some(value) = told else { continue };
                times[i as usize] += 1;
                if let Some(value) = value {
                    let stored = batch.values[i as usize];
                    assert_eq!(value_bits(value), value_bits(stored), "key number {i}");
                }
            }
            let (present, absent) = times.split_at(n as usize / 2);
            assert!(present.iter().all(|&times| times == 1), "not once");
            assert!(absent.iter().all(|&times| times == 0), "absent keys");
            assert_holds(&map, &Oracle::new());
        }
    }
    on_every_format!(body);
}

#[test]
fn values_of_every_kind_come_back() {
    fn body<K: Key, V: Value>(on: &Target) {
        let all = patterns(size_of::<V>());
        let map = on.map::<K, V>(all.len());
        let batch = Batch::<K, V>::of(all.iter().enumerate().map(|(i, &v)| (!(i as u64), v)));
        map.insert(&batch.keys, &batch.values).unwrap();
        let got = map.remove_with_values(&batch.keys).unwrap();
        let got: Vec<u64> = got.into_iter().map(|v| value_bits(v.unwrap())).collect();
        assert_eq!(got, all);
        assert!(
            map.remove_with_values(&batch.keys)
                .unwrap()
                .iter()
                .all(Option::is_none)
        );
        assert!(map.remove_with_values(&[]).unwrap().is_empty());
        assert!(map.remove_with_outcome(&[]).unwrap().is_empty());
        assert!(map.is_empty());
    }
    on_every_pair!(body);
}
