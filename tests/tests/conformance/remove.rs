//! `remove`: what is removed is gone, what is not stays, and both can be stored again once.

use gpumap::{Key, Map, Merge, Numeric};
use gpumap_tests::pairs::{nth_key, patterns};
use gpumap_tests::{
    Batch, Oracle, Shape, Target, assert_holds, key, on_every_format, on_every_pair, value_bits,
};

fn keys<K: Key>(numbers: impl IntoIterator<Item = u64>) -> Vec<K> {
    numbers.into_iter().map(nth_key).collect()
}

/// Panics unless the map has none of the keys with these numbers.
fn assert_gone<K: Key, V: Numeric>(map: &Map<K, V>, numbers: impl IntoIterator<Item = u64>) {
    let gone = keys::<K>(numbers);
    assert!(map.get(&gone).unwrap().iter().all(Option::is_none));
    assert!(map.contains(&gone).unwrap().iter().all(|&there| !there));
    assert_eq!(map.remove(&gone).unwrap(), 0, "removed twice");
}

#[test]
fn every_bit_pattern() {
    fn body<K: Key, V: Numeric>(on: &Target) {
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
fn a_key_behind_tombstones_stays_the_only_one() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        // Walks are long, and half of what is on them are tombstones.
        let shape = Shape::new::<K, V>(&[on.n(256, 2_048)], 4, 1);
        let map = shape.builder::<K, V>(on).build().unwrap();
        let n = map.slots() as u64 * 3 / 4;
        let first = Batch::<K, V>::numbered(0..n, 1);
        map.insert(&first.keys, &first.values).unwrap();
        let even = keys::<K>((0..n).step_by(2));
        assert_eq!(map.remove(&even).unwrap() as u64, n.div_ceil(2));
        let mut held: Oracle = first.bits().skip(1).step_by(2).collect();
        // All of them again: odd ones lie after tombstones now and must be met all the same.
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
    fn body<K: Key, V: Numeric>(on: &Target) {
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
fn values_of_every_kind_come_back() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let all = patterns(size_of::<V>());
        let map = on.map::<K, V>(all.len());
        let batch = Batch::<K, V>::of(all.iter().enumerate().map(|(i, &v)| (!(i as u64), v)));
        map.insert(&batch.keys, &batch.values).unwrap();
        let got = map.take(&batch.keys).unwrap();
        let got: Vec<u64> = got.into_iter().map(|v| value_bits(v.unwrap())).collect();
        assert_eq!(got, all);
        assert!(map.take(&batch.keys).unwrap().iter().all(Option::is_none));
        assert!(map.take(&[]).unwrap().is_empty());
        assert!(map.remove_with_outcome(&[]).unwrap().is_empty());
        assert!(map.is_empty());
    }
    on_every_pair!(body);
}
