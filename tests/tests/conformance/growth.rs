//! Growing, shrinking and compacting: no pair is lost, doubled or misplaced, and the map gets as
//! large as the settings say.

use gpumap::{Error, Growth, Key, Map, Merge, Numeric, Setting};
use gpumap_tests::device::noting;
use gpumap_tests::pairs::nth_key;
use gpumap_tests::{
    Batch, Oracle, Target, assert_holds, contents, on_every_format, on_every_pair, on_every_target,
    oracle,
};

/// Growing maps of several shapes: as a whole, and submap by submap in pages that stay.
fn shapes<K: Key, V: Numeric>(on: &Target) -> [(&'static str, Map<K, V>); 4] {
    let of = |submaps, page| {
        on.builder()
            .submaps(submaps)
            .page_slabs(page)
            .build()
            .unwrap()
    };
    [
        ("by default", Map::new(on.device()).unwrap()),
        ("one submap of small pages", of(1, 1)),
        ("three submaps", of(3, 2)),
        ("16 submaps", of(16, 4)),
    ]
}

#[test]
fn from_one_slot_by_batches_of_every_size() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let large = on.n(20_000, 3_000_000);
        let steps = [(1, 200), (7, 100), (100, 30), (1_500, 6), (large, 2)];
        for (size, batches) in steps {
            let map = on.map::<K, V>(0);
            let mut held = Oracle::new();
            for i in 0..batches {
                let first = (i * size) as u64;
                let batch = Batch::<K, V>::numbered(first..first + size as u64, i as u8);
                assert_eq!(map.insert(&batch.keys, &batch.values).unwrap(), size);
                held.extend(batch.bits());
                assert!(map.capacity() >= map.len());
                // Twice what is needed, and what is rounded up to whole pages.
                let most = 2 * map.len() + 4_096;
                assert!(
                    map.capacity() <= most,
                    "{} for {}",
                    map.capacity(),
                    map.len()
                );
            }
            noting(&format!("{batches} batches of {size}"), || {
                assert_holds(&map, &held);
            });
        }
    }
    on_every_format!(body);
}

#[test]
fn every_storing_verb_grows() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(400, 200_000) as u64;
        for (shape, map) in shapes::<K, V>(on) {
            noting(shape, || {
                let submaps = map.submaps();
                let mut held = Oracle::new();
                for round in 0..5u8 {
                    let first = u64::from(round) * n;
                    // New keys, each twice, beside those there are.
                    let all = (first / 2..first + n).chain(first..first + n);
                    let batch = Batch::<K, V>::numbered(all, round);
                    let (keys, values) = (&batch.keys, &batch.values);
                    let before = map.slots();
                    match round {
                        0 => drop(map.insert(keys, values).unwrap()),
                        1 => drop(map.upsert(keys, values).unwrap()),
                        2 => drop(map.merge(keys, values, Merge::Xor).unwrap()),
                        3 => drop(map.get_or_insert(keys, values).unwrap()),
                        _ => drop(map.upsert_with_outcome(keys, values).unwrap()),
                    }
                    match round {
                        1 | 4 => held.extend(batch.bits()),
                        2 => drop(oracle::merge::<V>(&mut held, batch.bits(), Merge::Xor)),
                        _ => drop(oracle::insert(&mut held, batch.bits())),
                    }
                    assert!(round > 1 || map.slots() > before);
                    assert_holds(&map, &held);
                }
                assert_eq!(map.submaps(), submaps);
            });
        }
    }
    on_every_format!(body);
}

#[test]
fn pairs_are_met_wherever_they_went() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(300, 100_000) as u64;
        for (shape, map) in shapes::<K, V>(on) {
            noting(shape, || {
                let batch = Batch::<K, V>::numbered(0..n, 1);
                // In small batches, so that it grows several times.
                for part in 0..10 {
                    let range = n as usize * part / 10..n as usize * (part + 1) / 10;
                    let (keys, values) = (&batch.keys[range.clone()], &batch.values[range]);
                    map.insert(keys, values).unwrap();
                }
                let mut held: Oracle = batch.bits().collect();
                assert_holds(&map, &held);
                let other = Batch::<K, V>::numbered(0..n, 2);
                assert_eq!(map.insert(&other.keys, &other.values).unwrap(), 0);
                assert_holds(&map, &held);
                assert_eq!(map.upsert(&other.keys, &other.values).unwrap(), 0);
                held.extend(other.bits());
                assert_holds(&map, &held);
                let new = map.merge(&batch.keys, &batch.values, Merge::Or).unwrap();
                assert_eq!(new, oracle::merge::<V>(&mut held, batch.bits(), Merge::Or));
                assert_holds(&map, &held);
                assert_eq!(map.remove(&batch.keys).unwrap() as u64, n);
                assert_holds(&map, &Oracle::new());
            });
        }
    }
    on_every_pair!(body);
}

#[test]
fn present_keys_do_not_make_it_grow() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        for (shape, map) in shapes::<K, V>(on) {
            noting(shape, || {
                let n = on.n(200, 100_000);
                map.reserve(n).unwrap();
                let full = map.capacity() as u64;
                let batch = Batch::<K, V>::numbered(0..full, 1);
                map.insert(&batch.keys, &batch.values).unwrap();
                let slots = map.slots();
                assert_eq!(map.len(), map.capacity());
                // Ten times as many as there is room for, all present.
                let many = Batch::<K, V>::numbered((0..10 * full).map(|i| i % full), 1);
                let (keys, values) = (&many.keys, &many.values);
                assert_eq!(map.insert(keys, values).unwrap(), 0);
                assert_eq!(map.upsert(keys, values).unwrap(), 0);
                assert_eq!(map.merge(keys, values, Merge::Min).unwrap(), 0);
                assert_eq!(map.get_or_insert(keys, values).unwrap().len(), many.len());
                assert_eq!((map.slots(), map.len() as u64), (slots, full));
                assert_holds(&map, &batch.bits().collect());
            });
        }
    }
    on_every_format!(body);
}

#[test]
fn copies_of_one_new_key_make_it_grow_little() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let map = on.map::<K, V>(1_000);
        let full = map.capacity();
        let batch = Batch::<K, V>::numbered(0..full as u64, 1);
        map.insert(&batch.keys, &batch.values).unwrap();
        let n = on.n(50_000, 5_000_000);
        let copies = Batch::<K, V>::numbered((0..n).map(|_| full as u64), 1);
        assert_eq!(map.insert(&copies.keys, &copies.values).unwrap(), 1);
        let most = (2 * full).max(full + n / 32) + 4_096;
        assert!(map.capacity() <= most, "{} of {full}", map.capacity());
        assert_eq!(contents(&map).len(), full + 1);
    }
    on_every_format!(body);
}

#[test]
fn the_factor_is_as_set() {
    on_every_target(|on| {
        for wrong in [1.04, 1.0, 0.0, -2.0, 64.5, f64::INFINITY, f64::NAN] {
            match on.builder::<u64, u64>().growth(Growth::By(wrong)).build() {
                Err(Error::Setting {
                    setting: Setting::GrowthFactor,
                    value,
                    least,
                    most,
                }) => {
                    assert!(value == wrong || value.is_nan() && wrong.is_nan());
                    assert!(!(least <= wrong && wrong <= most));
                }
                other => panic!("{wrong}: {other:?}"),
            }
        }
        for factor in [1.05, 1.5, 2.0, 8.0, 64.0] {
            let builder = on.builder::<u64, u64>().capacity(10_000).page_slabs(8);
            let map = builder.growth(Growth::By(factor)).build().unwrap();
            let before = map.capacity();
            let batch = Batch::<u64, u64>::numbered(0..before as u64 + 1, 1);
            map.insert(&batch.keys[..before], &batch.values[..before])
                .unwrap();
            assert_eq!(map.capacity(), before);
            map.insert(&batch.keys[before..], &batch.values[before..])
                .unwrap();
            let grown = map.capacity() as f64 / before as f64;
            let around = factor * 0.999..factor * 1.01 + 0.01;
            assert!(around.contains(&grown), "{grown} times, not {factor}");
            assert_holds(&map, &batch.bits().collect());
        }
        assert_eq!(Growth::default(), Growth::By(2.0));
    });
}

#[test]
fn reserved_room_is_there() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(700, 300_000);
        let fixed = ("fixed", on.fixed::<K, V>(10));
        for (shape, map) in shapes::<K, V>(on).into_iter().chain([fixed]) {
            noting(shape, || {
                let batch = Batch::<K, V>::numbered(0..n as u64 + 10, 1);
                map.insert(&batch.keys[..10], &batch.values[..10]).unwrap();
                map.reserve(n).unwrap();
                assert!(map.capacity() >= n + 10);
                let slots = map.slots();
                map.reserve(0).unwrap();
                map.reserve(n).unwrap();
                assert_eq!(
                    map.insert(&batch.keys[10..], &batch.values[10..]).unwrap(),
                    n
                );
                assert_eq!(map.slots(), slots, "it was reserved");
                let held = batch.bits().collect();
                assert_holds(&map, &held);
                // Beyond all memory.
                for more in [usize::MAX, usize::MAX / 32, 1 << 50] {
                    let refused = map.reserve(more);
                    let known = |error: &Error| {
                        matches!(
                            error,
                            Error::OutOfMemory { .. } | Error::CapacityOverflow { .. }
                        )
                    };
                    assert!(refused.is_err_and(|error| known(&error)), "{more} more");
                }
                assert_eq!(map.slots(), slots);
                assert_holds(&map, &held);
            });
        }
    }
    on_every_format!(body);
}

#[test]
fn shrinking_gives_back_what_is_not_needed() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let on = &on.with_memory_budget(u64::MAX);
        let n = on.n(2_000, 500_000);
        for (shape, map) in shapes::<K, V>(on) {
            noting(shape, || {
                let batch = Batch::<K, V>::numbered(0..n as u64, 1);
                map.insert(&batch.keys, &batch.values).unwrap();
                let large = map.slots();
                map.remove(&batch.keys[n / 10..]).unwrap();
                let held: Oracle = batch.bits().take(n / 10).collect();
                map.trim();
                let before = on.device().allocated_bytes();
                map.shrink_to_fit().unwrap();
                map.trim();
                assert!(on.device().allocated_bytes() < before);
                assert!(map.slots() < large / 3, "{} of {large}", map.slots());
                assert!(map.capacity() >= map.len());
                assert_eq!(map.stats().unwrap().tombstones, 0);
                assert_holds(&map, &held);
                let slots = map.slots();
                map.shrink_to_fit().unwrap();
                assert_eq!(map.slots(), slots);
                // It grows again.
                assert_eq!(map.insert(&batch.keys, &batch.values).unwrap(), n - n / 10);
                assert_holds(&map, &batch.bits().collect());
                map.remove(&batch.keys).unwrap();
                map.shrink_to_fit().unwrap();
                assert!(map.slots() <= 16 * 80, "{} slots for nothing", map.slots());
                assert_holds(&map, &Oracle::new());
                map.insert(&batch.keys[..1], &[nth_value(1)]).unwrap();
                assert!(map.contains(&[nth_key::<K>(0)]).unwrap()[0]);
            });
        }
    }
    on_every_format!(body);
}

fn nth_value<V: Numeric>(bits: u64) -> V {
    gpumap_tests::value(bits)
}
