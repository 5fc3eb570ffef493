//! `clear`: the map is as good as new, in the same memory.

use gpumap::{Key, Merge, Numeric};
use gpumap_tests::pairs::nth_key;
use gpumap_tests::{Batch, Oracle, Target, assert_holds, contents, on_every_format};

#[test]
fn a_cleared_map_is_empty_and_can_be_used_again() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(800, 1_000_000);
        let on = &on.with_memory_budget(u64::MAX);
        for submaps in [1, 2, 9] {
            let map = on
                .builder::<K, V>()
                .capacity(n)
                .submaps(submaps)
                .build()
                .unwrap();
            let mut bytes = None;
            for round in 0..4 {
                // Other keys each time, the reserved words always among them.
                let mut batch =
                    Batch::<K, V>::numbered((0..n as u64 - 3).map(|i| i << 3 | round), 1);
                let reserved = Batch::<K, V>::of((0..3).map(|i| (!i, round)));
                batch.keys.extend(&reserved.keys);
                batch.values.extend(&reserved.values);
                assert_eq!(
                    map.insert(&batch.keys, &batch.values).unwrap(),
                    n,
                    "round {round}"
                );
                let held: Oracle = batch.bits().collect();
                assert_holds(&map, &held);

                map.clear().unwrap();
                assert!(map.is_empty() && map.load_factor() == 0.0);
                assert!(contents(&map).is_empty());
                assert!(map.get(&batch.keys).unwrap().iter().all(Option::is_none));
                assert!(
                    map.contains(&batch.keys)
                        .unwrap()
                        .iter()
                        .all(|&there| !there)
                );
                // No memory is taken anew, except for what calls are staged in: that depends on how
                // many threads have a part in them.
                map.trim();
                let now = on.device().allocated_bytes();
                assert_eq!(*bytes.get_or_insert(now), now, "bytes in round {round}");
            }
        }
    }
    on_every_format!(body);
}

#[test]
fn clearing_gives_the_whole_capacity_back() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let map = on.fixed::<K, V>(64);
        let slots = map.slots() as u64;
        for round in 0..3 {
            let batch = Batch::<K, V>::numbered(round * slots..(round + 1) * slots, 1);
            assert_eq!(
                map.insert(&batch.keys, &batch.values).unwrap() as u64,
                slots
            );
            assert!(
                map.insert(&[nth_key::<K>(1 << 20)], &batch.values[..1])
                    .is_err()
            );
            map.clear().unwrap();
        }
    }
    on_every_format!(body);
}

#[test]
fn an_empty_map_may_be_cleared() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let map = on.map::<K, V>(0);
        map.clear().unwrap();
        map.clear().unwrap();
        let batch = Batch::<K, V>::numbered(0..3, 1);
        assert_eq!(
            map.merge(&batch.keys, &batch.values, Merge::Add).unwrap(),
            3
        );
        assert_holds(&map, &batch.bits().collect());
    }
    on_every_format!(body);
}
