//! Large batches that may not fit: they are sorted before their absent keys are counted, and what comes then goes
//! from the same bins.

use gpumap::{Growth, Key, Map, Merge, Numeric};
use gpumap_tests::device::noting;
use gpumap_tests::{
    Batch, Oracle, Target, assert_holds, contents, on_every_format, on_pairs, oracle,
};

const NEVER: usize = usize::MAX;

/// Sorted batches, also those from which pages are made.
const WAYS: [(&str, [usize; 3]); 2] = [
    ("in bins", [NEVER, NEVER, 1]),
    ("page by page", [NEVER, 1, 1]),
];

#[test]
fn every_verb_into_a_map_without_room() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(1_200, 50_000) as u64;
        for (way, from) in WAYS {
            noting(way, || {
                let builder = on.builder::<K, V>().submaps(3).page_slabs(8);
                let map = builder.bulk_from(from).build().unwrap();
                let first = Batch::<K, V>::numbered(0..n, 1);
                map.insert(&first.keys, &first.values).unwrap();
                let mut held: Oracle = first.bits().collect();
                // Pairs without end: what is there is never more than the room that is left.
                while map.capacity() > map.len() {
                    let some = map.len() as u64..map.capacity() as u64;
                    let more = Batch::<K, V>::numbered(some, 1);
                    map.insert(&more.keys, &more.values).unwrap();
                    held.extend(more.bits());
                }
                let slots = map.slots();
                let all = Batch::<K, V>::numbered(0..map.len() as u64, 2);
                let (keys, values) = (&all.keys, &all.values);
                assert_eq!(map.insert(keys, values).unwrap(), 0);
                assert_holds(&map, &held);
                assert_eq!(map.upsert(keys, values).unwrap(), 0);
                held.extend(all.bits());
                assert_holds(&map, &held);
                assert_eq!(map.merge(keys, values, Merge::Xor).unwrap(), 0);
                oracle::merge::<V>(&mut held, all.bits(), Merge::Xor);
                assert_holds(&map, &held);
                assert_eq!(map.slots(), slots, "it grew for keys that were there");

                let third = Batch::<K, V>::numbered(n / 2..2 * n + map.len() as u64, 3);
                let new = map.merge(&third.keys, &third.values, Merge::Xor).unwrap();
                let right = oracle::merge::<V>(&mut held, third.bits(), Merge::Xor);
                assert_eq!(new, right);
                assert!(map.slots() > slots);
                assert_holds(&map, &held);
                let fourth = Batch::<K, V>::numbered(n..2 * map.capacity() as u64, 4);
                let new = map.insert(&fourth.keys, &fourth.values).unwrap();
                assert_eq!(new, oracle::insert(&mut held, fourth.bits()));
                assert_holds(&map, &held);
            });
        }
    }
    on_every_format!(body);
}

/// What sorting takes is given back where the map cannot grow beside it.
#[test]
fn a_sorted_batch_needs_no_more_memory_than_one_as_it_came() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = (on.n(30_000, 200_000) / on.stride(3)) as u64;
        let first = Batch::<K, V>::numbered(0..n, 1);
        let batch = Batch::<K, V>::numbered(n / 2..2 * n, 2);
        let build = |on: &Target, from: usize| -> Map<K, V> {
            let builder = on.builder().hash_seed(1).growth(Growth::By(1.5));
            let map = builder.bulk_from([NEVER, NEVER, from]).build().unwrap();
            map.insert(&first.keys, &first.values).unwrap();
            map.trim();
            map
        };
        let least = |from: usize, budgets: std::ops::Range<u64>| {
            // By halves: the least with which the batch goes in.
            let (mut low, mut high) = (budgets.start, budgets.end);
            while high - low > 4_096 {
                let middle = low + (high - low) / 2;
                let on = on.with_memory_budget(middle);
                let map = build(&on, from);
                match map.insert(&batch.keys, &batch.values) {
                    Ok(_) => {
                        map.trim();
                        assert_eq!(contents(&map).len(), 2 * n as usize);
                        high = middle;
                    }
                    Err(_) => low = middle,
                }
            }
            high
        };
        let free = on.with_memory_budget(u64::MAX);
        drop(build(&free, 1));
        let start = free.device().peak_allocated_bytes();
        let map = build(&free, 1);
        map.insert(&batch.keys, &batch.values).unwrap();
        let budgets = start..free.device().peak_allocated_bytes();
        drop(map);
        let (as_it_came, sorted) = (least(NEVER, budgets.clone()), least(1, budgets.clone()));
        assert!(
            sorted <= as_it_came + 8_192,
            "{sorted} bytes in place of {as_it_came}, of {budgets:?}"
        );
    }
    on_pairs!(body: u64 => u64);
}
