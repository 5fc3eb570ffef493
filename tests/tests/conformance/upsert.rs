//! `upsert`: present keys get the new value, of several pairs with one key one is there in the end.

use gpumap::{Buffer, Key, Value};
use gpumap_tests::device::noting;
use gpumap_tests::pairs::{nth_key, patterns, value_by, writer_of};
use gpumap_tests::{
    Batch, Oracle, Target, assert_holds, contents, key, key_bits, on_every_format, on_every_pair,
    on_formats_with_values, oracle, value,
};

#[test]
fn present_keys_get_the_new_value() {
    fn body<K: Key, V: Value>(on: &Target) {
        let n = on.n(600, 500_000) as u64;
        for (how, map) in on.maps::<K, V>(n as usize, 2 * n as usize) {
            noting(how, || {
                let first = Batch::<K, V>::numbered(0..n, 1);
                assert_eq!(map.upsert(&first.keys, &first.values).unwrap() as u64, n);
                let mut held: Oracle = first.bits().collect();
                assert_holds(&map, &held);
                // Half of them again, and as many new ones.
                let second = Batch::<K, V>::numbered(n / 2..n + n / 2, 2);
                let new = map.upsert(&second.keys, &second.values).unwrap();
                assert_eq!(new as u64, n / 2);
                held.extend(second.bits());
                assert_holds(&map, &held);
                assert_eq!(map.upsert(&second.keys, &second.values).unwrap(), 0);
                assert_holds(&map, &held);
            });
        }
    }
    on_every_format!(body);
}

#[test]
fn of_several_pairs_with_one_key_one_is_there() {
    fn body<K: Key, V: Value>(on: &Target) {
        let n = on.n(1_500, 500_000);
        for distinct in [1, 2, 40, n as u64 / 3] {
            for (how, map) in on.maps::<K, V>(n, distinct as usize) {
                noting(&format!("{distinct} keys, {how}"), || {
                    let mut held = Oracle::new();
                    for round in 0..3u8 {
                        // Every pair of a key has another value.
                        let pairs = (0..n as u64).map(|i| {
                            let k = nth_key::<K>(i % distinct);
                            let writer = round * 80 + (i / distinct % 80) as u8;
                            (
                                key_bits(k),
                                gpumap_tests::value_bits(value_by::<K, V>(k, writer)),
                            )
                        });
                        let batch = Batch::<K, V>::of(pairs);
                        let new = map.upsert(&batch.keys, &batch.values).unwrap();
                        assert_eq!(new as u64, if round == 0 { distinct } else { 0 });
                        oracle::adopt_upserted(&mut held, &map, batch.bits());
                        assert_holds(&map, &held);
                        for (&k, &v) in &held {
                            assert_eq!(writer_of::<K, V>(key(k), value(v)) / 80, round);
                        }
                    }
                });
            }
        }
    }
    on_formats_with_values!(body);
}

#[test]
fn every_bit_pattern() {
    fn body<K: Key, V: Value>(on: &Target) {
        let keys = patterns(size_of::<K>());
        let values = patterns(size_of::<V>());
        let map = on.map::<K, V>(keys.len());
        for turn in 0..values.len() {
            let pair = |i: usize| (keys[i], values[(i + turn) % values.len()]);
            let batch = Batch::<K, V>::of((0..keys.len()).map(pair));
            let new = map.upsert(&batch.keys, &batch.values).unwrap();
            assert_eq!(new, if turn == 0 { keys.len() } else { 0 });
            assert_eq!(contents(&map), batch.bits().collect());
        }
    }
    on_every_pair!(body);
}

#[test]
fn from_the_device() {
    fn body<K: Key, V: Value>(on: &Target) {
        let n = on.n(300, 100_000) as u64;
        let map = on.map::<K, V>(0);
        let mut held = Oracle::new();
        for writer in 0..3 {
            let first = u64::from(writer) * n / 2;
            let batch = Batch::<K, V>::numbered(first..first + n, writer);
            let keys = Buffer::from_slice(&on.stream(), &batch.keys).unwrap();
            let values = Buffer::from_slice(&on.stream(), &batch.values).unwrap();
            map.upsert(&keys, &values).unwrap();
            held.extend(batch.bits());
            assert_holds(&map, &held);
        }
    }
    on_every_format!(body);
}
