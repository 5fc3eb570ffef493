//! `add`: the same sums as one pair after the other would give, whatever the batch.

use gpumap::{Buffer, Key, Merge, Value};
use gpumap_tests::device::noting;
use gpumap_tests::pairs::{self, nth_key};
use gpumap_tests::{
    Batch, Oracle, Target, assert_holds, key, key_bits, on_formats_with_values, on_pairs, oracle,
    value,
};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

#[test]
fn equals_the_sequential_result() {
    fn body<K: Key, V: Value>(on: &Target) {
        let mut random = SmallRng::seed_from_u64(7);
        // Few keys and many duplicates, up to mostly different keys.
        for keys in [1, 2, 7, 100, on.n(3_000, 300_000) as u64] {
            for n in [1, 32, 33, 257, on.n(5_000, 2_000_000)] {
                noting(&format!("{n} pairs of {keys} keys"), || {
                    let map = on.map::<K, V>((2 * n).min(keys as usize));
                    let mut expected = Oracle::new();
                    for _ in 0..2 {
                        let batch = Batch::<K, V>::of((0..n).map(|_| {
                            let k = nth_key::<K>(random.random_range(0..keys));
                            // Large numbers, so that sums wrap around.
                            (key_bits(k), random.random())
                        }));
                        let new = oracle::add(&mut expected, batch.bits(), size_of::<V>());
                        assert_eq!(
                            map.merge(&batch.keys, &batch.values, Merge::Add).unwrap(),
                            new
                        );
                    }
                    assert_holds(&map, &expected);
                });
            }
        }
    }
    on_formats_with_values!(body);
    on_pairs!(body: i32 => i32, i64 => i64, i32 => i64, i64 => i32);
}

#[test]
fn counts_one_key_exactly() {
    fn body<K: Key, V: Value>(on: &Target) {
        let n = on.n(3_000, 5_000_000);
        for bits in [0, 5, !0, !0 - 1, !0 - 2] {
            let map = on.map::<K, V>(4);
            let batch = Batch::<K, V>::of((0..n).map(|_| (bits, 1)));
            assert_eq!(
                map.merge(&batch.keys, &batch.values, Merge::Add).unwrap(),
                1
            );
            assert_eq!(
                map.merge(&batch.keys, &batch.values, Merge::Add).unwrap(),
                0
            );
            let k = bits & pairs::mask(size_of::<K>());
            assert_holds(&map, &[(k, 2 * n as u64)].into());
        }
    }
    on_formats_with_values!(body);
}

#[test]
fn wraps_around_beside_full_neighbours() {
    fn body<K: Key, V: Value>(on: &Target) {
        let ones = pairs::mask(size_of::<V>());
        // A full table, so that each slot has neighbours that a carry would spoil.
        let map = on.map_of::<K, V>(&[32]);
        let n = map.slots() as u64;
        let first = Batch::<K, V>::of((0..n).map(|k| (k, [ones, ones >> 1, 0, 1][k as usize % 4])));
        assert_eq!(map.insert(&first.keys, &first.values).unwrap() as u64, n);
        let mut expected: Oracle = first.bits().collect();
        for step in [1, ones, (ones >> 1) + 1, 0, ones - 5] {
            let batch = Batch::<K, V>::of((0..n).step_by(2).map(|k| (k, step)));
            oracle::add(&mut expected, batch.bits(), size_of::<V>());
            assert_eq!(
                map.merge(&batch.keys, &batch.values, Merge::Add).unwrap(),
                0
            );
            assert_holds(&map, &expected);
        }
    }
    on_formats_with_values!(body);
}

#[test]
fn every_bit_pattern_of_keys_and_steps() {
    fn body<K: Key, V: Value>(on: &Target) {
        let keys = pairs::patterns(size_of::<K>());
        let steps = pairs::patterns(size_of::<V>());
        let map = on.map::<K, V>(keys.len());
        let mut expected = Oracle::new();
        for turn in 0..steps.len() {
            let pair = |i: usize| (keys[i], steps[(i + turn) % steps.len()]);
            let batch = Batch::<K, V>::of((0..keys.len()).map(pair));
            let new = oracle::add(&mut expected, batch.bits(), size_of::<V>());
            assert_eq!(
                map.merge(&batch.keys, &batch.values, Merge::Add).unwrap(),
                new
            );
        }
        assert_holds(&map, &expected);
    }
    on_formats_with_values!(body);
}

#[test]
fn a_key_that_is_added_zero_to_is_there() {
    fn body<K: Key, V: Value>(on: &Target) {
        let map = on.map::<K, V>(10);
        assert_eq!(
            map.merge(&[key(4), key(4)], &[value(0), value(0)], Merge::Add)
                .unwrap(),
            1
        );
        assert_holds(&map, &[(4, 0)].into());
        assert_eq!(map.insert(&[key(4)], &[value(9)]).unwrap(), 0);
        assert_holds(&map, &[(4, 0)].into());
    }
    on_formats_with_values!(body);
}

#[test]
fn works_with_inserted_pairs_and_buffers() {
    fn body<K: Key, V: Value>(on: &Target) {
        let n = on.n(800, 500_000) as u64;
        let map = on.map::<K, V>(2 * n as usize);
        let first = Batch::<K, V>::numbered(0..n, 1);
        map.insert(&first.keys, &first.values).unwrap();
        let mut expected: Oracle = first.bits().collect();
        let steps = Batch::<K, V>::numbered(n / 2..n / 2 + n, 2);
        let stream = on.stream();
        let keys = Buffer::from_slice(&stream, &steps.keys).unwrap();
        let values = Buffer::from_slice(&stream, &steps.values).unwrap();
        for _ in 0..2 {
            let new = oracle::add(&mut expected, steps.bits(), size_of::<V>());
            assert_eq!(map.merge(&keys, &values, Merge::Add).unwrap(), new);
            assert_holds(&map, &expected);
        }
        // Views at an odd offset, one of the host and one of the device.
        let part = 1..n as usize - 1;
        oracle::add(
            &mut expected,
            steps.bits().skip(1).take(part.len()),
            size_of::<V>(),
        );
        let view = keys.slice(part.clone()).unwrap();
        assert_eq!(
            map.merge(&view, &steps.values[part], Merge::Add).unwrap(),
            0
        );
        assert_holds(&map, &expected);
    }
    on_formats_with_values!(body);
}
