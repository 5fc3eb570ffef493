//! Batches on the CPU that are large enough for several threads to share the blocks of a launch: the conformance suite has
//! small ones, which stay on the thread that calls.

use std::collections::HashMap;

use gpumap::primitives::{Op, Order, Predicate, Primitives};
use gpumap::{Device, Map, Merge, MultiMap};

const N: u64 = 400_000;

/// More threads than there may be cores.
fn device() -> Device {
    Device::cpu_with_threads(4)
}

/// Keys all over the range, those whose bits mean a state among them.
fn keys() -> Vec<u64> {
    let spread = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..3).map(|i| !i).chain((3..N).map(spread)).collect()
}

#[test]
fn verbs_of_one_batch() {
    let map = Map::<u64, u64>::with_capacity(&device(), N as usize).unwrap();
    let keys = keys();
    let twice = [&keys[..], &keys[..]].concat();
    assert_eq!(map.insert(&twice, &twice).unwrap(), keys.len());
    // Each key from two blocks that are far apart.
    map.merge(&twice, 1u64, Merge::Add).unwrap();
    let expected: HashMap<u64, u64> = keys.iter().map(|&k| (k, k.wrapping_add(2))).collect();
    let got = map.get(&keys).unwrap();
    assert!(keys.iter().zip(got).all(|(k, v)| v == Some(expected[k])));

    let (dumped, values) = map.retrieve_all().unwrap();
    assert_eq!(dumped.len(), keys.len());
    let dumped: HashMap<u64, u64> = dumped.into_iter().zip(values).collect();
    assert_eq!(dumped, expected);
    let ordered = map.retrieve_all_stable().unwrap();
    assert_eq!(map.retrieve_all_stable().unwrap(), ordered);
    assert_eq!(
        ordered
            .0
            .into_iter()
            .zip(ordered.1)
            .collect::<HashMap<_, _>>(),
        expected
    );

    // Growing leaves marks, by which lookups of absent keys end.
    map.reserve(2 * N as usize).unwrap();
    let absent: Vec<u64> = keys.iter().map(|k| k ^ 1 << 63 ^ 5).collect();
    let there = |keys: &[u64]| map.contains(keys).unwrap();
    assert!(there(&keys).into_iter().all(|there| there));
    let meant = absent.iter().map(|k| expected.contains_key(k));
    assert!(there(&absent).into_iter().eq(meant));

    assert_eq!(map.remove(&twice).unwrap(), keys.len());
    assert!(map.is_empty());
    assert!(map.retrieve_all().unwrap().0.is_empty());
}

#[test]
fn chains_of_one_batch() {
    let map = MultiMap::<u64, u64>::with_capacity(&device(), 2 * N as usize).unwrap();
    let keys = keys();
    let twice = [&keys[..], &keys[..]].concat();
    assert_eq!(map.insert(&twice, &twice).unwrap(), keys.len());
    let got = map.get(&keys).unwrap();
    assert!(keys.iter().zip(got).all(|(&k, v)| v == Some(k)));
    let (mut dumped, values) = map.retrieve_all().unwrap();
    assert_eq!(dumped, values);
    dumped.sort_unstable();
    let mut sorted = keys.clone();
    sorted.sort_unstable();
    assert_eq!(dumped, sorted);
    assert_eq!(map.remove(&twice).unwrap(), keys.len());
    assert!(map.is_empty());
}

#[test]
fn primitives_of_one_array() {
    let primitives = Primitives::new(&device());
    let x = keys();
    let sums: Vec<u64> = x
        .iter()
        .scan(0u64, |sum, &x| {
            *sum = sum.wrapping_add(x);
            Some(*sum)
        })
        .collect();
    assert_eq!(primitives.inclusive_scan(&x, Op::Add).unwrap(), sums);
    assert_eq!(
        primitives.reduce(&x, Op::Add, 0).unwrap(),
        sums[sums.len() - 1]
    );
    let even = Predicate::Bits {
        mask: 1u64,
        value: 0,
    };
    let kept: Vec<u64> = x.iter().copied().filter(|x| x % 2 == 0).collect();
    assert_eq!(primitives.filter(&x, even, Order::Stable).unwrap(), kept);
    let mut any = primitives.filter(&x, even, Order::Any).unwrap();
    let mut kept = kept;
    any.sort_unstable();
    kept.sort_unstable();
    assert_eq!(any, kept);
    let histogram = primitives.histogram_even(&x, 0..u64::MAX, 7).unwrap();
    let all: u64 = histogram.counts.iter().sum();
    assert_eq!(all + histogram.below + histogram.above, N);
}
