//! `merge`: the same values as plain Rust computes, whatever the type, the batch and the order.

use gpumap::{Key, Merge, Number, Numeric};
use gpumap_tests::device::noting;
use gpumap_tests::oracle::{is_nan, merged};
use gpumap_tests::pairs::{Cents, Height, mask, nth_key, patterns};
use gpumap_tests::{
    Batch, Oracle, Target, assert_holds, contents, key, key_bits, on_pairs, oracle, value,
    value_bits,
};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

const ALL: [Merge; 6] = [
    Merge::Add,
    Merge::Min,
    Merge::Max,
    Merge::And,
    Merge::Or,
    Merge::Xor,
];

/// Runs a body for every kind of value, with keys of both sizes.
macro_rules! on_every_number {
    ($body:ident) => {
        on_pairs!($body: u32 => u32, u32 => i32, u32 => f32, u32 => u64, u32 => i64, u32 => f64);
        on_pairs!($body: u64 => u32, u64 => i32, u64 => f32, u64 => u64, u64 => i64, u64 => f64);
        on_pairs!($body: i64 => Height, i32 => Cents);
    };
}

/// The bits of a whole number between -1,000 and 1,000: sums of a few thousand of them are exact in
/// every type, whatever the order.
fn small<V: Numeric>(random: &mut SmallRng) -> u64 {
    let number = random.random_range(-1_000i32..=1_000);
    match (V::NUMBER, size_of::<V>()) {
        (Number::Float, 4) => (number as f32).to_bits().into(),
        (Number::Float, _) => f64::from(number).to_bits(),
        _ => i64::from(number) as u64 & mask(size_of::<V>()),
    }
}

#[test]
fn equals_plain_rust_with_duplicates() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let mut random = SmallRng::seed_from_u64(3);
        let special = patterns(size_of::<V>());
        let n = on.n(1_000, 500_000);
        for how in ALL {
            for keys in [1, 37, n as u64 / 2] {
                // Sums of floats depend on the order, unless they are exact.
                let whole = how == Merge::Add && V::NUMBER == Number::Float;
                // A float of 4 bytes takes whole numbers up to 2^24.
                let n = if whole {
                    n.min(8_000 * keys as usize)
                } else {
                    n
                };
                let case = format!("{n} pairs of {keys} keys, {how:?}");
                noting(&case, || {
                    let map = on.map::<K, V>(keys as usize);
                    let mut expected = Oracle::new();
                    for _ in 0..2 {
                        let batch = Batch::<K, V>::of((0..n).map(|_| {
                            let k = nth_key::<K>(random.random_range(0..keys));
                            let v = match random.random_range(0..3) {
                                _ if whole => small::<V>(&mut random),
                                0 => *special.choose(&mut random).unwrap(),
                                1 => small::<V>(&mut random),
                                _ => random.random::<u64>() & mask(size_of::<V>()),
                            };
                            (key_bits(k), v)
                        }));
                        let new = oracle::merge::<V>(&mut expected, batch.bits(), how);
                        assert_eq!(map.merge(&batch.keys, &batch.values, how).unwrap(), new);
                    }
                    assert_holds(&map, &expected);
                });
            }
        }
    }
    on_every_number!(body);
}

#[test]
fn every_pair_of_special_values() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let all = patterns(size_of::<V>());
        let n = all.len() as u64;
        let old = |i: u64| all[(i / n) as usize];
        let new = |i: u64| all[(i % n) as usize];
        let first = Batch::<K, V>::of((0..n * n).map(|i| (key_bits(nth_key::<K>(i)), old(i))));
        let second = Batch::<K, V>::of((0..n * n).map(|i| (key_bits(nth_key::<K>(i)), new(i))));
        let map = on.map::<K, V>(first.len());
        for how in ALL {
            map.upsert(&first.keys, &first.values).unwrap();
            assert_eq!(map.merge(&second.keys, &second.values, how).unwrap(), 0);
            let got = map.get(&first.keys).unwrap();
            for (i, got) in (0..n * n).zip(got) {
                let got = value_bits(got.unwrap());
                let expected = merged::<V>(how, old(i), new(i));
                // Which of all NaNs a sum is differs from device to device.
                let both_nan = how == Merge::Add && is_nan::<V>(expected) && is_nan::<V>(got);
                assert!(
                    got == expected || both_nan,
                    "{how:?} of {:#x} and {:#x}: {got:#x}, not {expected:#x}",
                    old(i),
                    new(i)
                );
            }
        }
    }
    on_every_number!(body);
}

#[test]
fn the_least_and_the_greatest_float_are_those_of_total_cmp() {
    fn body<K: Key>(on: &Target) {
        let all = [
            -f64::NAN,
            f64::NEG_INFINITY,
            f64::MIN,
            -1.0,
            -f64::MIN_POSITIVE,
            -5e-324,
            -0.0,
            0.0,
            5e-324,
            1.0,
            f64::MAX,
            f64::INFINITY,
            f64::NAN,
        ];
        let map = on.map::<K, f64>(all.len() * all.len());
        // Key `i * 16 + j` gets the values `i..=j`, in both directions.
        for how in [Merge::Min, Merge::Max] {
            let spans = |i: usize| (i..all.len()).map(move |j| (i, j));
            let mut batch = Batch::<K, f64> {
                keys: vec![],
                values: vec![],
            };
            for (i, j) in (0..all.len()).flat_map(spans) {
                let forth = i..=j;
                for at in forth.clone().chain(forth.rev()) {
                    batch.keys.push(key((i * 16 + j) as u64));
                    batch.values.push(all[at]);
                }
            }
            map.merge(&batch.keys, &batch.values, how).unwrap();
            for (k, v) in contents(&map) {
                let (i, j) = (k as usize / 16, k as usize % 16);
                let expected = all[if how == Merge::Min { i } else { j }];
                assert_eq!(v, expected.to_bits(), "{how:?} of {i} to {j}");
            }
            map.clear().unwrap();
        }
    }
    for on in gpumap_tests::device::targets() {
        body::<u32>(on);
        body::<u64>(on);
    }
}

#[test]
fn newtypes_are_merged_as_they_say() {
    fn body<K: Key>(on: &Target) {
        let k = key::<K>(5);
        let heights = on.map::<K, Height>(10);
        let all = [Height(-2.5), Height(1.25), Height(-7.0)];
        heights.merge(&[k; 3], &all, Merge::Min).unwrap();
        assert_eq!(heights.get(&[k]).unwrap(), [Some(Height(-7.0))]);
        heights.merge(&[k; 3], &all, Merge::Add).unwrap();
        assert_eq!(heights.get(&[k]).unwrap(), [Some(Height(-15.25))]);
        let cents = on.map::<K, Cents>(10);
        cents
            .merge(&[k; 2], &[Cents(-3), Cents(8)], Merge::Max)
            .unwrap();
        assert_eq!(cents.get(&[k]).unwrap(), [Some(Cents(8))]);
        cents.merge(&[k], &[Cents(-30)], Merge::Min).unwrap();
        assert_eq!(cents.get(&[k]).unwrap(), [Some(Cents(-30))]);
    }
    for on in gpumap_tests::device::targets() {
        body::<u32>(on);
        body::<u64>(on);
    }
}

#[test]
fn a_merged_value_spoils_none_of_its_neighbours() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let ones = mask(size_of::<V>());
        // A full table: each slot has neighbours.
        let map = on.map_of::<K, V>(&[32]);
        let n = map.slots() as u64;
        let first = Batch::<K, V>::of((0..n).map(|k| (k, ((ones / 3) << (k % 2)) & ones)));
        assert_eq!(map.insert(&first.keys, &first.values).unwrap() as u64, n);
        let mut expected: Oracle = first.bits().collect();
        for how in ALL {
            let batch = Batch::<K, V>::of((0..n).step_by(2).map(|k| (k, ones - k)));
            let new = oracle::merge::<V>(&mut expected, batch.bits(), how);
            assert_eq!(map.merge(&batch.keys, &batch.values, how).unwrap(), new);
            if how == Merge::Add && V::NUMBER == Number::Float {
                // A NaN by now: which one is the device's choice.
                map.upsert(&batch.keys, &batch.values).unwrap();
                expected.extend(batch.bits());
            }
            assert_holds(&map, &expected);
        }
        assert_eq!(map.get(&[key(n + 1)]).unwrap().len(), 1);
        let again = vec![value::<V>(0); n as usize];
        assert_eq!(map.merge(&first.keys, &again, Merge::And).unwrap(), 0);
        assert!(contents(&map).values().all(|&v| v == 0));
    }
    on_every_number!(body);
}

#[test]
fn counts_one_key_exactly() {
    fn body<K: Key, V: Numeric>(on: &Target) {
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
            let k = bits & mask(size_of::<K>());
            assert_holds(&map, &[(k, 2 * n as u64)].into());
        }
    }
    gpumap_tests::on_formats_with_values!(body);
}
