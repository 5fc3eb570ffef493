//! `insert`: what it stores, what it leaves alone, and what it returns.

use gpumap::{Buffer, Key, Merge, Numeric};
use gpumap_tests::device::noting;
use gpumap_tests::pairs::{self, nth_key, value_by};
use gpumap_tests::{
    Batch, Oracle, Target, assert_holds, contents, key, key_bits, on_every_format, on_every_pair,
    oracle, value, value_bits,
};

#[test]
fn every_bit_pattern_of_keys_and_values() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let keys = pairs::patterns(size_of::<K>());
        let values = pairs::patterns(size_of::<V>());
        let map = on.map::<K, V>(keys.len());
        let asked: Vec<K> = keys.iter().map(|&bits| key(bits)).collect();
        // Each pattern of a key is with each of a value once.
        for turn in 0..values.len() {
            let pair = |i: usize| (keys[i], values[(i + turn) % values.len()]);
            let mut expected = Oracle::new();
            map.clear().unwrap();
            for i in 0..keys.len() {
                // The patterns come one by one; those still to come must not be there.
                if turn < 2 {
                    let there = map.contains(&asked).unwrap();
                    assert_eq!(
                        there.iter().filter(|&&t| t).count(),
                        i,
                        "before {:#x}",
                        keys[i]
                    );
                    assert!(there[..i].iter().all(|&t| t), "before {:#x}", keys[i]);
                }
                let (k, v) = pair(i);
                expected.insert(k, v);
                if turn < 2 {
                    assert_eq!(map.insert(&[key(k)], &[value(v)]).unwrap(), 1);
                    assert_eq!(map.insert(&[key(k)], &[value(!v)]).unwrap(), 0);
                }
            }
            let batch = Batch::<K, V>::of((0..keys.len()).map(pair));
            let new = if turn < 2 { 0 } else { keys.len() };
            assert_eq!(map.insert(&batch.keys, &batch.values).unwrap(), new);
            assert_holds(&map, &expected);
        }
    }
    on_every_pair!(body);
}

/// What it is, how many distinct keys, and the key bits of pair `i`.
type Case<'a> = (&'static str, u64, Box<dyn Fn(u64) -> u64 + 'a>);

#[test]
fn duplicates_in_one_batch_are_stored_once() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(1_200, 1_000_000) as u64;
        let ones = pairs::mask(size_of::<K>());
        let number = |i: u64| key_bits(nth_key::<K>(i));
        let cases: [Case; 7] = [
            (
                "every key twice, side by side",
                n / 2,
                Box::new(|i| number(i / 2)),
            ),
            (
                "every key twice, far apart",
                n / 2,
                Box::new(|i| number(i % (n / 2))),
            ),
            ("one key", 1, Box::new(|_| number(5))),
            ("one key of all ones", 1, Box::new(|_| ones)),
            ("the reserved words", 3, Box::new(|i| ones - i % 3)),
            ("two keys in turns", 2, Box::new(|i| number(i % 2))),
            (
                "a warp of each key",
                n.div_ceil(32),
                Box::new(|i| number(i / 32)),
            ),
        ];
        for (name, distinct, key_of) in cases {
            noting(name, || {
                let map = on.map::<K, V>(n as usize);
                let batch = Batch::<K, V>::of((0..n).map(|i| {
                    let bits = key_of(i);
                    (bits, value_bits(value_by::<K, V>(key(bits), i as u8)))
                }));
                let new = map.insert(&batch.keys, &batch.values).unwrap();
                assert_eq!(new as u64, distinct);
                let mut expected = Oracle::new();
                oracle::adopt(&mut expected, &map, batch.bits());
                assert_holds(&map, &expected);
                assert_eq!(map.insert(&batch.keys, &batch.values).unwrap(), 0);
                assert_holds(&map, &expected);
            });
        }
    }
    on_every_format!(body);
}

#[test]
fn tiny_capacities_are_real_ones() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        for capacity in 0..20 {
            let map = on.map::<K, V>(capacity);
            assert!(map.capacity() >= capacity && map.slots() >= map.capacity().max(1));
            assert!(map.is_empty() && map.submaps() == 1);
            // All that was looked up, one by one, and the reserved words among them.
            let mut expected = Oracle::new();
            for i in 0..capacity as u64 {
                let bits = if i < 3 { !i } else { i };
                let batch = Batch::<K, V>::of([(bits, i)]);
                assert_eq!(map.insert(&batch.keys, &batch.values).unwrap(), 1);
                expected.extend(batch.bits());
            }
            assert_holds(&map, &expected);
            let load = map.len() as f64 / map.slots() as f64;
            assert_eq!(map.load_factor(), load);
        }
        // A map of capacity 0 works all the same.
        let map = on.map::<K, V>(0);
        let one = Batch::<K, V>::of([(9, 90)]);
        assert_eq!(map.insert(&one.keys, &one.values).unwrap(), 1);
        assert_holds(&map, &one.bits().collect());
    }
    on_every_format!(body);
}

#[test]
fn every_shape_of_table() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(500, 100_000);
        let batch = Batch::<K, V>::numbered(0..n as u64, 1);
        let expected: Oracle = batch.bits().collect();
        for submaps in [1, 2, 9, 64] {
            for page_slabs in [1, 2, 8, 32, 64, 512] {
                // Small pages fill up unevenly, so that keys go on to the next and walks become
                // long: only the usual size is made for tables that are nearly full.
                let high = if page_slabs < 512 { 0.8 } else { 0.95 };
                for load in [0.3, high] {
                    let map = on
                        .builder::<K, V>()
                        .capacity(n)
                        .submaps(submaps)
                        .page_slabs(page_slabs)
                        .max_load_factor(load)
                        .build()
                        .unwrap();
                    let shape = format!("{submaps} submaps, pages of {page_slabs}, load {load}");
                    noting(&shape, || {
                        assert_eq!(map.submaps(), submaps as usize);
                        assert!(map.capacity() >= n);
                        assert!(map.slots() as f64 * load >= n as f64);
                        assert_eq!(map.insert(&batch.keys, &batch.values).unwrap(), n);
                        assert_holds(&map, &expected);
                    });
                }
            }
        }
    }
    on_every_format!(body);
}

#[test]
fn a_fixed_seed_gives_the_same_map_again() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let batch = Batch::<K, V>::numbered(0..100, 1);
        for seed in [0, 1, u64::MAX] {
            let map = on
                .builder::<K, V>()
                .capacity(200)
                .hash_seed(seed)
                .build()
                .unwrap();
            assert_eq!(map.insert(&batch.keys, &batch.values).unwrap(), 100);
            assert_holds(&map, &batch.bits().collect());
        }
    }
    on_every_format!(body);
}

#[test]
fn an_empty_batch_does_nothing() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let map = on.map::<K, V>(10);
        let stream = on.stream();
        let keys = Buffer::<K>::from_slice(&stream, &[]).unwrap();
        let values = Buffer::<V>::from_slice(&stream, &[]).unwrap();
        for _ in 0..2 {
            assert_eq!(map.insert(&[], &[]).unwrap(), 0);
            assert_eq!(map.insert(&keys, &values).unwrap(), 0);
            assert_eq!(map.merge(&[], &[], Merge::Add).unwrap(), 0);
            assert_eq!(map.get(&[]).unwrap().len(), 0);
            assert_eq!(map.contains(&keys).unwrap().len(), 0);
            let one = Batch::<K, V>::of([(1, 1)]);
            map.insert(&one.keys, &one.values).unwrap();
            assert!(contents(&map) == one.bits().collect());
        }
    }
    on_every_format!(body);
}
