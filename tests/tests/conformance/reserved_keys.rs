//! The keys whose bits mean a state of a slot, and their neighbours: legal keys like all others,
//! in as many rounds as it takes for their own slots to be used up several times.

use gpumap::{Answer, Key, Map, Merge, Numeric, Operation, Outcome};
use gpumap_tests::pairs::{nth_key, value_by};
use gpumap_tests::{
    Batch, Oracle, Target, assert_holds, key, key_bits, on_every_format, on_every_pair, value_bits,
};

/// The three patterns, what they are stored as, and those next to both.
fn special<K: Key>() -> Vec<K> {
    [!0, !1, !2, !3, !4, 0, 1, 2, 3].map(key).to_vec()
}

/// More than a slab has slots, twice.
const ROUNDS: u8 = 20;

fn assert_pairs<K: Key, V: Numeric>(map: &Map<K, V>, keys: &[K], writer: u8) {
    let expected: Oracle = keys
        .iter()
        .map(|&k| (key_bits(k), value_bits(value_by::<K, V>(k, writer))))
        .collect();
    assert_holds(map, &expected);
}

#[test]
fn stored_and_removed_again_and_again_with_every_verb() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let keys = special::<K>();
        for capacity in [0, 1_000] {
            let map = on.map::<K, V>(capacity);
            for round in 0..ROUNDS {
                let values: Vec<V> = keys.iter().map(|&k| value_by(k, round)).collect();
                let others: Vec<V> = keys.iter().map(|&k| value_by(k, 99)).collect();
                let new = match round % 5 {
                    0 => map.insert(&keys, &values).unwrap(),
                    1 => map.upsert(&keys, &values).unwrap(),
                    2 => map.merge(&keys, &values, Merge::Max).unwrap(),
                    3 => map.get_or_insert(&keys, &values).unwrap().len(),
                    _ => {
                        let outcomes = map.insert_with_outcome(&keys, &values).unwrap();
                        outcomes.iter().filter(|&&o| o == Outcome::Inserted).count()
                    }
                };
                assert_eq!(new, keys.len(), "round {round}");
                assert_pairs(&map, &keys, round);
                // Present now, for every verb.
                assert_eq!(map.insert(&keys, &others).unwrap(), 0);
                let got = map.get_or_insert(&keys, &others).unwrap();
                for (got, value) in got.iter().zip(&values) {
                    assert_eq!(value_bits(*got), value_bits(*value));
                }
                assert_eq!(map.upsert(&keys, &others).unwrap(), 0);
                assert_pairs(&map, &keys, 99);
                assert_eq!(map.upsert(&keys, &values).unwrap(), 0);
                assert_eq!(map.merge(&keys, &values, Merge::And).unwrap(), 0);
                assert_pairs(&map, &keys, round);
                match round % 3 {
                    0 => assert_eq!(map.remove(&keys).unwrap(), keys.len()),
                    1 => assert!(map.remove_with_outcome(&keys).unwrap().iter().all(|&is| is)),
                    _ => {
                        let got = map.take(&keys).unwrap();
                        for (got, value) in got.iter().zip(&values) {
                            assert_eq!(got.map(value_bits), Some(value_bits(*value)));
                        }
                    }
                }
                assert_holds(&map, &Oracle::new());
                assert_eq!(map.remove(&keys).unwrap(), 0);
            }
        }
    }
    on_every_pair!(body);
}

#[test]
fn every_operation_of_mixed_batches() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let special = special::<K>();
        // Alone, and among as many others as are worked on side by side.
        for others in [0, 300] {
            let keys: Vec<K> = special
                .iter()
                .copied()
                .chain((0..others).map(|i| nth_key(1_000 + i)))
                .collect();
            let n = keys.len();
            let map = on.map::<K, V>(8 * n);
            for round in 0..ROUNDS {
                let values: Vec<V> = keys.iter().map(|&k| value_by(k, round)).collect();
                let others: Vec<V> = keys.iter().map(|&k| value_by(k, 99)).collect();
                let apply = |operation, values: &[V]| -> Vec<Answer<u64>> {
                    let answers = map.apply(&vec![operation; n], &keys, values);
                    answers.unwrap().into_iter().map(bits_of).collect()
                };
                let present = |values: &[V]| -> Vec<Answer<u64>> {
                    let bits = values.iter().map(|&v| value_bits(v));
                    bits.map(Answer::Present).collect()
                };
                assert_eq!(apply(Operation::Get, &values), vec![Answer::Absent; n]);
                assert_eq!(apply(Operation::Remove, &values), vec![Answer::Absent; n]);
                let first = match round % 2 {
                    0 => Operation::Insert,
                    _ => Operation::Upsert,
                };
                assert_eq!(apply(first, &values), vec![Answer::Stored; n]);
                assert_eq!(apply(Operation::Insert, &others), present(&values));
                assert_eq!(apply(Operation::Get, &others), present(&values));
                assert_eq!(apply(Operation::Upsert, &others), present(&others));
                assert_pairs(&map, &keys, 99);
                // Every second one, in a batch with lookups of the rest.
                let mix: Vec<_> = (0..n)
                    .map(|i| match i % 2 {
                        0 => Operation::Remove,
                        _ => Operation::Get,
                    })
                    .collect();
                let answers = map.apply(&mix, &keys, &values).unwrap();
                for (i, answer) in answers.into_iter().enumerate() {
                    let right = match i % 2 {
                        0 => Answer::Removed,
                        _ => Answer::Present(value_bits(others[i])),
                    };
                    assert_eq!(bits_of(answer), right);
                }
                let left: Vec<K> = keys.iter().skip(1).step_by(2).copied().collect();
                assert_pairs(&map, &left, 99);
                assert_eq!(map.remove(&keys).unwrap(), left.len());
            }
        }
    }
    on_every_format!(body);
}

/// An answer with the bits of its value.
fn bits_of<V: Numeric>(answer: Answer<V>) -> Answer<u64> {
    match answer {
        Answer::Absent => Answer::Absent,
        Answer::Present(value) => Answer::Present(value_bits(value)),
        Answer::Stored => Answer::Stored,
        Answer::Removed => Answer::Removed,
    }
}

#[test]
fn one_of_them_leaves_the_others_alone() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let keys = special::<K>();
        let values: Vec<V> = keys.iter().map(|&k| value_by(k, 1)).collect();
        let map = on.map::<K, V>(0);
        map.insert(&keys, &values).unwrap();
        for i in 0..keys.len() {
            for _ in 0..ROUNDS {
                assert_eq!(map.remove(&keys[i..=i]).unwrap(), 1);
                assert!(!map.contains(&keys[i..=i]).unwrap()[0]);
                assert_eq!(map.len(), keys.len() - 1);
                assert_eq!(map.insert(&keys[i..=i], &values[i..=i]).unwrap(), 1);
            }
            assert_pairs(&map, &keys, 1);
        }
    }
    on_every_format!(body);
}

#[test]
fn many_lanes_at_once() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let map = on.map::<K, V>(10);
        for round in 0..ROUNDS {
            // All pairs of a key are alike, so that it does not matter which one is stored.
            let repeated: Vec<K> = special().repeat(on.n(60, 5_000));
            let values: Vec<V> = repeated.iter().map(|&k| value_by(k, round)).collect();
            assert_eq!(map.upsert(&repeated, &values).unwrap(), 9);
            assert_pairs(&map, &special::<K>(), round);
            assert_eq!(map.remove(&repeated).unwrap(), 9);
            assert!(map.is_empty());
        }
    }
    on_every_format!(body);
}

#[test]
fn they_live_through_growth_and_compaction() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        for submaps in [1, 3] {
            let builder = on.builder::<K, V>().submaps(submaps).page_slabs(4);
            let map = builder.build().unwrap();
            let keys = special::<K>();
            let values: Vec<V> = keys.iter().map(|&k| value_by(k, 1)).collect();
            // Used-up slots first.
            for _ in 0..ROUNDS {
                map.insert(&keys, &values).unwrap();
                map.remove(&keys).unwrap();
            }
            map.insert(&keys, &values).unwrap();
            let mut held: Oracle = Batch { keys, values }.bits().collect();
            let before = map.slots();
            let many = Batch::<K, V>::numbered(1 << 20..(1 << 20) + on.n(800, 100_000) as u64, 2);
            map.insert(&many.keys, &many.values).unwrap();
            assert!(map.slots() > before);
            held.extend(many.bits());
            assert_holds(&map, &held);
            map.remove(&many.keys).unwrap();
            map.shrink_to_fit().unwrap();
            assert_pairs(&map, &special::<K>(), 1);
            assert_eq!(map.remove(&special::<K>()).unwrap(), 9);
            assert!(map.is_empty());
        }
    }
    on_every_format!(body);
}
