//! Partitions, and counts by key, against plain Rust.

use std::collections::HashMap;

use gpumap::primitives::{Digit, Direction, MAX_PARTS, Primitives};
use gpumap::{Buffer, Device, Error, Key, Numeric, executor};
use gpumap_kernels::hash::mix64;
use gpumap_tests::device::noting;
use gpumap_tests::{
    Target, key, key_bits, on_every_target, on_formats_with_values, value, value_bits,
};

/// Keys by their number.
type KeyOf<'a> = &'a dyn Fn(u64) -> u64;

/// Partitions pairs in both forms, keys alone in both, and compares with a stable sort.
fn check<K: Key, V: Numeric>(on: &Target, n: usize, digit: Digit, of: KeyOf, skip: usize) {
    let p = Primitives::new(on.device());
    let stream = on.stream();
    let keys: Vec<K> = (0..n as u64).map(|i| key(of(i))).collect();
    let values: Vec<V> = (0..n as u64).map(|i| value(i + 1)).collect();
    let keys_at = Buffer::from_slice(&stream, &keys).unwrap();
    let values_at = Buffer::from_slice(&stream, &values).unwrap();
    let (keys, values) = (&keys[skip.min(n)..], &values[..n - skip.min(n)]);
    let keys_at = keys_at.slice(skip.min(n)..).unwrap();
    let values_at = values_at.slice(..n - skip.min(n)).unwrap();
    let n = keys.len();

    let part_of = |bits: u64| digit.part(key::<K>(bits));
    let mut right: Vec<(u64, u64)> = keys
        .iter()
        .zip(values)
        .map(|(&k, &v)| (key_bits(k), value_bits(v)))
        .collect();
    right.sort_by_key(|&(k, _)| part_of(k));
    let mut offsets = vec![0; digit.parts() + 1];
    for &k in keys {
        offsets[digit.part(k) + 1] += 1;
    }
    for i in 1..offsets.len() {
        offsets[i] += offsets[i - 1];
    }

    // One element more than needed, which must stay.
    let mut out_keys = Buffer::from_slice(&stream, &vec![key::<K>(!5); n + 1]).unwrap();
    let mut out_values = Buffer::from_slice(&stream, &vec![value::<V>(!5); n + 1]).unwrap();
    let read = |out_keys: &Buffer<K>, out_values: &Buffer<V>| {
        let (keys, values) = (out_keys.to_vec().unwrap(), out_values.to_vec().unwrap());
        assert_eq!(
            key_bits(keys[n]),
            key_bits(key::<K>(!5)),
            "written beyond the end"
        );
        assert_eq!(
            value_bits(values[n]),
            value_bits(value::<V>(!5)),
            "written beyond the end"
        );
        keys[..n]
            .iter()
            .zip(&values[..n])
            .map(|(&k, &v)| (key_bits(k), value_bits(v)))
            .collect::<Vec<_>>()
    };
    let found = p
        .stable_partition_into(&keys_at, &values_at, digit, &mut out_keys, &mut out_values)
        .unwrap();
    assert_eq!(found, offsets);
    assert!(read(&out_keys, &out_values) == right, "stable");

    let found = p
        .partition_into(&keys_at, values, digit, &mut out_keys, &mut out_values)
        .unwrap();
    assert_eq!(found, offsets);
    let mut pairs = read(&out_keys, &out_values);
    assert!(
        pairs
            .iter()
            .zip(&right)
            .all(|(a, b)| part_of(a.0) == part_of(b.0)),
        "parts"
    );
    pairs.sort_by_key(|&(k, v)| (part_of(k), v));
    right.sort_by_key(|&(k, v)| (part_of(k), v));
    assert!(pairs == right, "pairs");

    let found = p
        .stable_partition_keys_into(keys, digit, &mut out_keys)
        .unwrap();
    assert_eq!(found, offsets);
    let mut in_order = keys.to_vec();
    in_order.sort_by_key(|&k| digit.part(k));
    let bits = |keys: &[K]| keys.iter().map(|&k| key_bits(k)).collect::<Vec<_>>();
    assert!(
        bits(&out_keys.to_vec().unwrap()[..n]) == bits(&in_order),
        "stable keys"
    );
    let found = p
        .partition_keys_into(&keys_at, digit, &mut out_keys)
        .unwrap();
    assert_eq!(found, offsets);
    let mut alone = bits(&out_keys.to_vec().unwrap()[..n]);
    let mut in_order = bits(&in_order);
    assert!(
        alone
            .iter()
            .zip(&in_order)
            .all(|(&a, &b)| part_of(a) == part_of(b)),
        "parts of keys"
    );
    alone.sort_unstable();
    in_order.sort_unstable();
    assert!(alone == in_order, "keys");
}

#[test]
fn any_digit_of_any_pair() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(3_000, 700_000);
        let bits = 8 * size_of::<K>() as u32;
        let digits = [
            Digit::of_bits(0..1),
            Digit::of_bits(3..8),
            Digit::of_bits(bits - 8..bits),
            Digit::of_bits(0..9),
            Digit::of_hash(56..64, 7),
            Digit::of_hash(0..4, 7),
        ];
        for digit in digits {
            noting(&format!("{digit:?}"), || {
                check::<K, V>(on, n, digit, &mix64, 0);
            });
        }
    }
    on_formats_with_values!(body);
}

#[test]
fn any_length_and_alignment() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let digit = Digit::of_bits(0..4);
        for n in [
            0, 1, 2, 31, 32, 33, 511, 512, 513, 1_025, 6_143, 6_145, 12_289,
        ] {
            for skip in [0, 1, 2, 3] {
                noting(&format!("{n} keys from {skip}"), || {
                    check::<K, V>(on, n, digit, &mix64, skip);
                });
            }
        }
    }
    on_formats_with_values!(body);
}

#[test]
fn skewed_keys() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(3_000, 300_000);
        let digit = Digit::of_bits(0..8);
        check::<K, V>(on, n, digit, &|_| 77, 0);
        check::<K, V>(on, n, digit, &|i| i & 1, 0);
        check::<K, V>(on, n, digit, &|i| i / 100, 0);
        check::<K, V>(
            on,
            n,
            digit,
            &|i| if i % 10 == 0 { mix64(i) } else { 255 },
            0,
        );
    }
    on_formats_with_values!(body);
}

#[test]
fn fixed_capacity_counts_what_it_drops() {
    on_every_target(|on| {
        let p = Primitives::new(on.device());
        let stream = on.stream();
        let n = on.n(4_000, 400_000);
        let keys: Vec<u32> = (0..n as u64).map(|i| mix64(i) as u32).collect();
        let values: Vec<u32> = (0..n as u32).collect();
        let digit = Digit::of_bits(0..2);
        for capacity in [n, n / 4 + n / 20, n / 8, 0] {
            let mut out_keys = Buffer::from_slice(&stream, &vec![5u32; 4 * capacity]).unwrap();
            let mut out_values =
                Buffer::from_slice(&stream, &vec![u32::MAX; 4 * capacity]).unwrap();
            let counts = p
                .partition_into_capacity(
                    &keys,
                    &values,
                    digit,
                    capacity,
                    &mut out_keys,
                    &mut out_values,
                )
                .unwrap();
            assert_eq!(counts.iter().sum::<u64>(), n as u64);
            let (out_keys, out_values) = (out_keys.to_vec().unwrap(), out_values.to_vec().unwrap());
            for (i, (&k, &v)) in out_keys.iter().zip(&out_values).enumerate() {
                let part = i / capacity;
                if v != u32::MAX {
                    assert_eq!((keys[v as usize], digit.part(k)), (k, part));
                } else {
                    // A hole: beyond the count, or where a run did not fit.
                    assert!(
                        i % capacity
                            >= (counts[part] as usize).min(capacity.saturating_sub(12_288))
                    );
                }
            }
        }
    });
}

#[test]
fn what_cannot_be_partitioned_is_an_error() {
    on_every_target(|on| {
        let p = Primitives::new(on.device());
        let stream = on.stream();
        let mut out = Buffer::from_slice(&stream, &[9u32; 3]).unwrap();
        let mut values = Buffer::<u32>::zeroed(&stream, 3).unwrap();
        let keys = [1u32, 2, 3];
        let mut wide = Buffer::from_slice(&stream, &[[9u64; 2]; 3]).unwrap();
        for error in [
            p.partition_into(
                &keys,
                &[[1u64, 2]; 3],
                Digit::of_bits(0..1),
                &mut out,
                &mut wide,
            ),
            p.partition_keys_into(&[[1u64, 2]; 3], Digit::of_bits(0..1), &mut wide),
        ] {
            let error = error.unwrap_err();
            assert!(matches!(error, Error::PairSize { .. }), "{error}");
        }
        assert_eq!(wide.to_vec().unwrap(), [[9; 2]; 3]);
        // Of such sizes, and aligned to less.
        let error = p.sort_pairs(&keys, &[[1u8; 8]; 3], Direction::Ascending);
        assert!(matches!(error, Err(Error::PairSize { key: 4, value: 8 })));
        for digit in [
            Digit::of_bits(3..3),
            #[expect(clippy::reversed_empty_ranges, reason = "what is tested")]
            Digit::of_bits(5..3),
            Digit::of_bits(0..10),
            Digit::of_bits(30..33),
            Digit::of_bits(0..u32::MAX),
            Digit::of_hash(60..65, 1),
        ] {
            let error = p.partition_keys_into(&keys, digit, &mut out);
            assert!(
                matches!(error, Err(Error::Setting { .. })),
                "{digit:?}: {error:?}"
            );
        }
        let digit = Digit::of_bits(0..1);
        assert_eq!(Digit::of_bits(0..9).parts(), MAX_PARTS);
        let error = p.partition_keys_into(&[1u32; 4], digit, &mut out);
        assert!(matches!(
            error,
            Err(Error::OutputTooSmall {
                needed: 4,
                given: 3
            })
        ));
        let error = p.partition_into(&keys, &[1u32; 2], digit, &mut out, &mut values);
        assert!(matches!(
            error,
            Err(Error::LengthMismatch { keys: 3, values: 2 })
        ));
        assert_eq!(out.to_vec().unwrap(), [9; 3]);
    });
}

#[test]
fn keys_are_counted() {
    on_every_target(|on| {
        let p = Primitives::new(on.device());
        let n = on.n(5_000, 20_000_000) as u64;
        let keys: Vec<u64> = (0..n)
            .map(|i| mix64(mix64(i) % (n / 7)) | 1 << 63)
            .collect();
        let mut right = HashMap::<u64, u64>::new();
        for &k in &keys {
            *right.entry(k).or_default() += 1;
        }
        let at = Buffer::from_slice(&on.stream(), &keys).unwrap();
        assert_eq!(p.unique_count(&at).unwrap(), right.len());
        assert_eq!(p.unique_count(&keys).unwrap(), right.len());
        let (found, counts) = p.count_by_key(&at).unwrap();
        assert_eq!(found.len(), right.len());
        assert!(found.iter().zip(counts).all(|(k, c)| right[k] == c));
        assert_eq!(p.unique_count(&[0i32; 0]).unwrap(), 0);
        assert_eq!(p.count_by_key(&[-1i32, -1, 4]).unwrap().0.len(), 2);
    });
}

/// Blocks and lanes in random order.
#[test]
fn in_any_schedule() {
    for seed in 0..4 {
        let schedule = executor::Schedule::Random { seed };
        let config = executor::Config {
            schedule,
            ..executor::Config::default()
        };
        let on = Target::new(Device::cpu_with(config), None);
        check::<u32, u64>(&on, 1_700, Digit::of_bits(0..3), &mix64, 1);
        let p = Primitives::new(on.device());
        let values: Vec<u64> = (0..1_000).map(mix64).collect();
        let histogram = p.histogram_even(&values, 0..u64::MAX, 5).unwrap();
        assert_eq!(histogram.counts.iter().sum::<u64>(), 1_000);
    }
}

#[test]
fn sanitizer_partition() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        check::<K, V>(on, 7_001, Digit::of_bits(0..8), &mix64, 0);
        check::<K, V>(on, 3_001, Digit::of_hash(50..53, 1), &mix64, 1);
    }
    on_formats_with_values!(body);
}
