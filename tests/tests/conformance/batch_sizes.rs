//! Every verb with batches that end at, before and behind the end of a warp, a block and a grid.

use gpumap::{Key, Merge, Outcome, Value};
use gpumap_tests::device::noting;
use gpumap_tests::pairs::nth_key;
use gpumap_tests::{Batch, Oracle, Target, assert_holds, on_every_format, oracle, value_bits};

#[test]
fn every_verb_with_every_size() {
    fn body<K: Key, V: Value>(on: &Target) {
        let sizes = [0, 1, 31, 32, 33, 255, 256, 257, 1_023, 1_025];
        for n in sizes.into_iter().chain([on.n(4_000, 3_000_001) as u64]) {
            noting(&format!("batches of {n}"), || verbs::<K, V>(on, n));
        }
    }
    on_every_format!(body);
}

fn verbs<K: Key, V: Value>(on: &Target, n: u64) {
    let len = n as usize;
    let map = on.map::<K, V>(0);
    let first = Batch::<K, V>::numbered(0..n, 1);
    let second = Batch::<K, V>::numbered(n / 2..n / 2 + n, 2);
    let fresh = n - (n - n / 2); // numbers of the second beyond the first

    assert_eq!(map.insert(&first.keys, &first.values).unwrap(), len);
    let mut held: Oracle = first.bits().collect();
    let outcomes = map
        .insert_with_outcome(&second.keys, &second.values)
        .unwrap();
    assert_eq!(outcomes.len(), len);
    let inserted = |o: &Outcome| *o == Outcome::Inserted;
    assert_eq!(
        outcomes.iter().filter(|o| inserted(o)).count() as u64,
        fresh
    );
    assert!(outcomes[len - fresh as usize..].iter().all(inserted));
    oracle::insert(&mut held, second.bits());
    assert_holds(&map, &held);

    assert_eq!(map.upsert(&second.keys, &second.values).unwrap(), 0);
    held.extend(second.bits());
    let new = oracle::merge::<V>(&mut held, first.bits(), Merge::Xor);
    let merged = map.merge(&first.keys, &first.values, Merge::Xor).unwrap();
    assert_eq!(merged, new);
    assert_holds(&map, &held);

    assert_eq!(map.assign(&second.keys, &second.values).unwrap(), len);
    held.extend(second.bits());
    assert_holds(&map, &held);

    let third = Batch::<K, V>::numbered(n..2 * n, 3);
    let got = map.get_or_insert(&third.keys, &third.values).unwrap();
    oracle::insert(&mut held, third.bits());
    assert_eq!(got.len(), len);
    for ((k, _), got) in third.bits().zip(got) {
        assert_eq!(value_bits(got), held[&k]);
    }
    let all: Vec<K> = (0..2 * n).map(nth_key).collect();
    assert_eq!(map.contains(&all).unwrap(), vec![true; 2 * len]);
    assert_holds(&map, &held);

    let told = map.remove_with_values(&first.keys).unwrap();
    assert_eq!(told.len(), len);
    for ((k, _), told) in first.bits().zip(told) {
        assert_eq!(told.map(value_bits), held.remove(&k));
    }
    assert_eq!(map.remove(&second.keys).unwrap() as u64, fresh);
    for (k, _) in second.bits() {
        held.remove(&k);
    }
    let told = map.remove_with_outcome(&third.keys).unwrap();
    for ((k, _), told) in third.bits().zip(told) {
        assert_eq!(told, held.remove(&k).is_some());
    }
    assert_holds(&map, &held);
    map.insert(&first.keys, &first.values).unwrap();
    assert_eq!(map.retain_keys(&second.keys).unwrap() as u64, n / 2);
    let both = first.bits().skip(len / 2);
    assert_holds(&map, &both.collect());
}
