//! `insert_with_outcome` and `upsert_with_outcome` say which pair of a batch was stored, and
//! `get_or_insert` what is there, however the batch goes in.

use std::collections::HashMap;

use gpumap::{Key, Map, Outcome, Value};
use gpumap_tests::device::noting;
use gpumap_tests::pairs::{nth_key, value_by};
use gpumap_tests::{
    Batch, Oracle, Target, assert_holds, key, key_bits, on_every_format, on_every_pair, oracle,
    value_bits,
};

/// `n` pairs over `distinct` keys from number `first` on, the reserved ones among them; pairs of
/// one key have different values.
fn batch<K: Key, V: Value>(n: u64, first: u64, distinct: u64) -> Batch<K, V> {
    let (keys, values) = (0..n)
        .map(|i| {
            let number = first + i % distinct;
            let k = match number % 50 {
                7..10 => key::<K>(!(number % 50 - 7)),
                _ => nth_key(number),
            };
            (k, value_by::<K, V>(k, (i / distinct) as u8))
        })
        .unzip();
    Batch { keys, values }
}

/// Checks outcomes against what was there before: of each new key one pair was stored. Returns
/// how many that are.
fn check<K: Key, V: Value>(
    held: &Oracle,
    batch: &Batch<K, V>,
    outcomes: &[Outcome],
) -> HashMap<u64, u64> {
    assert_eq!(outcomes.len(), batch.len());
    let mut stored = HashMap::new();
    for ((k, v), outcome) in batch.bits().zip(outcomes) {
        if *outcome == Outcome::Inserted {
            assert!(!held.contains_key(&k), "present key {k:#x} was inserted");
            let twice = stored.insert(k, v);
            assert!(twice.is_none(), "key {k:#x} was inserted twice");
        }
    }
    for (k, _) in batch.bits() {
        let known = held.contains_key(&k) || stored.contains_key(&k);
        assert!(known, "new key {k:#x} was not inserted");
    }
    stored
}

/// Three overlapping batches with many duplicates.
fn batches<K: Key, V: Value>(on: &Target) -> (usize, usize, [Batch<K, V>; 3]) {
    let n = on.n(900, 300_000) as u64;
    let parts = [
        batch(n, 0, n / 3),
        batch(n, n / 6, n / 3),
        batch(n, 0, n / 2),
    ];
    (n as usize, n as usize / 2 + 1, parts)
}

#[test]
fn inserted_pairs_are_told_from_present_ones() {
    fn body<K: Key, V: Value>(on: &Target) {
        let (n, distinct, batches) = batches::<K, V>(on);
        for (how, map) in on.maps::<K, V>(n, distinct) {
            noting(how, || {
                let mut held = Oracle::new();
                for batch in &batches {
                    let before = map.len();
                    let outcomes = map.insert_with_outcome(&batch.keys, &batch.values).unwrap();
                    let stored = check(&held, batch, &outcomes);
                    assert_eq!(map.len() - before, stored.len());
                    // The pair that says so is the one that is there.
                    held.extend(stored);
                    assert_holds(&map, &held);
                }
            });
        }
    }
    on_every_format!(body);
}

#[test]
fn upserted_pairs_with_new_keys_are_told_from_others() {
    fn body<K: Key, V: Value>(on: &Target) {
        let (n, distinct, batches) = batches::<K, V>(on);
        for (how, map) in on.maps::<K, V>(n, distinct) {
            noting(how, || {
                let mut held = Oracle::new();
                for batch in &batches {
                    let before = map.len();
                    let outcomes = map.upsert_with_outcome(&batch.keys, &batch.values).unwrap();
                    let stored = check(&held, batch, &outcomes);
                    assert_eq!(map.len() - before, stored.len());
                    let new = oracle::adopt_upserted(&mut held, &map, batch.bits());
                    assert_eq!(new, stored.len());
                    assert_holds(&map, &held);
                }
            });
        }
    }
    on_every_format!(body);
}

/// Inserts a batch by `get_or_insert` and checks what it returns.
fn get_or_insert<K: Key, V: Value>(map: &Map<K, V>, held: &mut Oracle, batch: &Batch<K, V>) {
    let got = map.get_or_insert(&batch.keys, &batch.values).unwrap();
    assert_eq!(got.len(), batch.len());
    // New keys have one of the values offered; all pairs of a key are told the same, and that is
    // what is there.
    oracle::adopt(held, map, batch.bits());
    for ((k, _), got) in batch.bits().zip(got) {
        assert_eq!(value_bits(got), held[&k], "key {k:#x}");
    }
    assert_holds(map, held);
}

#[test]
fn get_or_insert_returns_what_is_there() {
    fn body<K: Key, V: Value>(on: &Target) {
        let (n, distinct, batches) = batches::<K, V>(on);
        for (how, map) in on.maps::<K, V>(n, distinct) {
            noting(how, || {
                let mut held = Oracle::new();
                for batch in &batches {
                    get_or_insert(&map, &mut held, batch);
                }
                // All are present now, and nothing changes.
                let before = held.clone();
                get_or_insert(&map, &mut held, &batches[2]);
                assert_eq!(held, before);
            });
        }
    }
    on_every_pair!(body);
}

#[test]
fn get_or_insert_reserved_keys() {
    fn body<K: Key, V: Value>(on: &Target) {
        let map = on.map::<K, V>(10);
        for bits in [!0, !1, !2, !3, 0] {
            let k = key::<K>(bits);
            let all = [value_by::<K, V>(k, 1), value_by(k, 2)];
            let got = map.get_or_insert(&[k; 2], &all).unwrap();
            assert_eq!(value_bits(got[0]), value_bits(got[1]));
            let again = map.get_or_insert(&[k], &[value_by(k, 3)]).unwrap();
            assert_eq!(value_bits(again[0]), value_bits(got[0]));
            assert_eq!(map.remove(&[k]).unwrap(), 1);
            let anew = map.get_or_insert(&[k], &[value_by(k, 4)]).unwrap();
            assert_eq!(value_bits(anew[0]), value_bits(value_by::<K, V>(k, 4)));
            assert!(map.contains(&[k]).unwrap()[0] && key_bits(k) != 1);
        }
        assert_eq!(map.len(), 5);
    }
    on_every_format!(body);
}
