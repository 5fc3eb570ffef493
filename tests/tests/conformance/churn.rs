//! Pairs that come and go at a constant number: the map stays as large and as fast as it was.

use gpumap::{Key, Map, Numeric};
use gpumap_tests::device::noting;
use gpumap_tests::{Batch, Oracle, Target, assert_holds, on_every_format};

/// Replaces a hundredth of `n` pairs by new ones, again and again.
fn churn<K: Key, V: Numeric>(
    map: &Map<K, V>,
    n: u64,
    rounds: u64,
    most_slots: usize,
    most_slabs: f64,
) {
    let first = Batch::<K, V>::numbered(0..n, 1);
    map.insert(&first.keys, &first.values).unwrap();
    let step = n / 100;
    for round in 0..rounds {
        let first = round * step;
        let old = Batch::<K, V>::numbered(first..first + step, 1);
        assert_eq!(map.remove(&old.keys).unwrap() as u64, step);
        let new = Batch::<K, V>::numbered(first + n..first + n + step, 1);
        assert_eq!(map.insert(&new.keys, &new.values).unwrap() as u64, step);
        assert!(map.slots() <= most_slots, "{} slots", map.slots());
        if round % 50 == 0 {
            let stats = map.stats().unwrap();
            let length = stats.mean_probe_length();
            assert!(length < most_slabs, "{length} slabs in round {round}");
            assert_eq!(stats.len as u64, n);
        }
    }
    let held: Oracle = Batch::<K, V>::numbered(rounds * step..rounds * step + n, 1)
        .bits()
        .collect();
    assert_holds(map, &held);
}

#[test]
fn replacing_one_percent_a_thousand_times() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(1_000, 500_000);
        // With a tenth to spare it is compacted now and then. Without, it grows, once.
        for (spare, times) in [(n / 9, 1.0), (0, 2.2)] {
            noting(&format!("{spare} to spare"), || {
                let map = on.map::<K, V>(n + spare);
                let n = map.capacity() * n / (n + spare) / 100 * 100;
                let most = (map.slots() as f64 * times) as usize;
                churn(&map, n as u64, 1_000, most, 2.0);
            });
        }
    }
    on_every_format!(body);
}

#[test]
fn a_fixed_map_at_its_capacity_is_never_full() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(1_000, 100_000);
        for submaps in [1, 3] {
            let map = on
                .builder::<K, V>()
                .capacity(n)
                .submaps(submaps)
                .growth(gpumap::Growth::Fixed)
                .build()
                .unwrap();
            // It uses every slot before it is compacted.
            churn(&map, n as u64, 100, map.slots(), 8.0);
        }
    }
    on_every_format!(body);
}

#[test]
fn one_key_that_comes_and_goes() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let map = on.map::<K, V>(0);
        let slots = map.slots();
        for round in 0..500 {
            let one = Batch::<K, V>::numbered([round % 3], 1);
            assert_eq!(map.upsert(&one.keys, &one.values).unwrap(), 1);
            assert_eq!(map.remove(&one.keys).unwrap(), 1);
        }
        assert!(map.slots() <= 2 * slots, "{} slots", map.slots());
        assert_holds(&map, &Oracle::new());
    }
    on_every_format!(body);
}
