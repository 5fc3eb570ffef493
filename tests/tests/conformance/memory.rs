//! Device memory: too little of it is an error with figures, and nothing leaks.

use gpumap::{Error, Key, Merge, Numeric};
use gpumap_tests::device::noting;
use gpumap_tests::{Batch, Oracle, Target, key, on_every_format, value, value_bits};

#[test]
fn capacities_beyond_all_memory() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let on = &on.with_memory_budget(u64::MAX);
        for capacity in [usize::MAX, usize::MAX / 16, 1 << 58] {
            for submaps in [1, 64] {
                match on
                    .builder::<K, V>()
                    .capacity(capacity)
                    .submaps(submaps)
                    .build()
                {
                    Err(Error::CapacityOverflow { elements, .. }) => assert_eq!(elements, capacity),
                    other => panic!("{capacity}: {other:?}"),
                }
            }
        }
        // No machine has this, and not every slot size can address it.
        match on.builder::<K, V>().capacity(1 << 44).build() {
            Err(Error::OutOfMemory { needed, available }) => assert!(needed > available),
            Err(Error::CapacityOverflow { elements, .. }) => assert_eq!(elements, 1 << 44),
            other => panic!("2^44 pairs: {other:?}"),
        }
        assert_eq!(on.device().allocated_bytes(), 0);
        let map = on.map::<K, V>(10);
        assert_eq!(map.insert(&[key(1)], &[value(2)]).unwrap(), 1);
    }
    on_every_format!(body);
}

#[test]
fn a_map_that_does_not_fit_its_budget() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let budget = 100_000;
        let on = &on.with_memory_budget(budget);
        // As a whole, and in submaps each of which would fit.
        for (capacity, submaps) in [(100_000, 1), (20_000, 9)] {
            match on
                .builder::<K, V>()
                .capacity(capacity)
                .submaps(submaps)
                .build()
            {
                Err(Error::OutOfMemory { needed, available }) => {
                    assert!(needed > budget && available == budget);
                }
                other => panic!("{capacity} pairs in {submaps} submaps: {other:?}"),
            }
            assert_eq!(on.device().allocated_bytes(), 0, "something leaked");
        }
        let map = on.map::<K, V>(1_000);
        assert!(on.device().allocated_bytes() >= map.slots() as u64 * 8);
        drop(map);
        assert_eq!(on.device().allocated_bytes(), 0, "something leaked");
    }
    on_every_format!(body);
}

#[test]
fn a_batch_that_does_not_fit_the_memory() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        // As much as a map of this size needs, and a little.
        let capacity = 1_000;
        let measure = on.with_memory_budget(u64::MAX);
        let map = measure.map::<K, V>(capacity);
        map.insert(&[key(1)], &[value(1)]).unwrap();
        map.get(&[key(1)]).unwrap();
        let on = &on.with_memory_budget(measure.device().allocated_bytes() + 4_096);
        let map = on.map::<K, V>(capacity);
        let first = Batch::<K, V>::numbered(0..10, 1);
        map.insert(&first.keys, &first.values).unwrap();
        let held: Oracle = first.bits().collect();
        // So many that even their bookkeeping is too much. (On the CPU inputs are not copied.)
        let huge = Batch::<K, V>::numbered(0..200_000, 2);
        let mut before = None;
        for round in 0..3 {
            noting(&format!("round {round}"), || {
                for result in [
                    map.insert(&huge.keys, &huge.values),
                    map.merge(&huge.keys, &huge.values, Merge::Add),
                ] {
                    match result {
                        Err(Error::OutOfMemory { needed, available }) => {
                            assert!(needed > available);
                        }
                        other => panic!("{other:?}"),
                    }
                }
                if on.device().is_cuda() {
                    let result = map.get(&huge.keys).map(drop);
                    assert!(
                        matches!(result, Err(Error::OutOfMemory { .. })),
                        "{result:?}"
                    );
                }
                assert_eq!(map.len(), held.len());
                let got = map.get(&first.keys).unwrap();
                assert!(
                    got.iter()
                        .zip(&first.values)
                        .all(|(got, &v)| got.map(value_bits) == Some(value_bits(v)))
                );
                assert!(map.retrieve_all().unwrap().0.len() == held.len());
                // What the calls keep for the next time does not grow.
                let now = on.device().allocated_bytes();
                assert_eq!(*before.get_or_insert(now), now, "something leaked");
            });
        }
        // The map is as good as before.
        let fits = Batch::<K, V>::numbered(10..100, 1);
        assert_eq!(map.insert(&fits.keys, &fits.values).unwrap(), 90);
        assert_eq!(map.len(), 100);
        drop(map);
        assert_eq!(on.device().allocated_bytes(), 0, "something leaked");
    }
    on_every_format!(body);
}

#[test]
fn maps_free_what_they_took() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let on = &on.with_memory_budget(u64::MAX);
        for submaps in [1, 9] {
            let map = on
                .builder::<K, V>()
                .capacity(2_000)
                .submaps(submaps)
                .build()
                .unwrap();
            let batch = Batch::<K, V>::numbered(0..3_000, 1);
            map.insert(&batch.keys[..900], &batch.values[..900])
                .unwrap();
            map.merge(&batch.keys[..900], &batch.values[..900], Merge::Add)
                .unwrap();
            // Beyond the capacity, whether it fits or not.
            let _ = map.insert(&batch.keys, &batch.values);
            map.get(&batch.keys).unwrap();
            map.contains(&batch.keys).unwrap();
            map.retrieve_all().unwrap();
            map.clear().unwrap();
            assert!(on.device().allocated_bytes() > 0);
            drop(map);
            assert_eq!(on.device().allocated_bytes(), 0, "something leaked");
        }
    }
    on_every_format!(body);
}

#[test]
fn trimming_frees_what_calls_leave_behind() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let on = &on.with_memory_budget(u64::MAX);
        let map = on.fixed::<K, V>(1_000);
        let table = on.device().allocated_bytes();
        let batch = Batch::<K, V>::numbered(0..map.slots() as u64 + 1, 1);
        for _ in 0..2 {
            map.insert(&batch.keys[..1_000], &batch.values[..1_000])
                .unwrap();
            // Too many: marks are needed, on the CPU too.
            assert!(map.insert(&batch.keys, &batch.values).is_err());
            map.get(&batch.keys).unwrap();
            assert!(on.device().allocated_bytes() > table);
            map.trim();
            assert_eq!(on.device().allocated_bytes(), table);
        }
        assert_eq!(map.retrieve_all().unwrap().0.len(), 1_000);
    }
    on_every_format!(body);
}
