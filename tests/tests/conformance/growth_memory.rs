//! Growing with little memory: a batch goes in whole or not at all, whatever there is, and no more
//! is used than the larger map and one submap.

use gpumap::{Error, Key, Map, Merge, Numeric, Result};
use gpumap_tests::device::noting;
use gpumap_tests::{Batch, Oracle, Target, assert_holds, contents, on_every_format, oracle};

/// The verbs that store, by number: how many pairs they say were new.
fn store<K: Key, V: Numeric>(map: &Map<K, V>, verb: usize, batch: &Batch<K, V>) -> Result<usize> {
    let (keys, values) = (&batch.keys, &batch.values);
    match verb {
        0 => map.insert(keys, values),
        1 => map.upsert(keys, values),
        2 => map.merge(keys, values, Merge::Xor),
        3 => map.get_or_insert(keys, values).map(|_| usize::MAX),
        4 => map.insert_with_outcome(keys, values).map(|_| usize::MAX),
        _ => map.upsert_with_outcome(keys, values).map(|_| usize::MAX),
    }
}

const VERBS: usize = 6;

/// What that does to an oracle, for a batch whose keys all differ.
fn model<K: Key, V: Numeric>(held: &mut Oracle, verb: usize, batch: &Batch<K, V>) {
    match verb {
        1 | 5 => held.extend(batch.bits()),
        2 => drop(oracle::merge::<V>(held, batch.bits(), Merge::Xor)),
        _ => drop(oracle::insert(held, batch.bits())),
    }
}

/// Panics unless memory was short, and the map is as it was.
fn assert_refused<K: Key, V: Numeric>(stored: Result<usize>, map: &Map<K, V>, held: &Oracle) {
    match stored {
        Err(Error::OutOfMemory { needed, available }) => {
            assert!(needed > available, "{needed} of {available}");
        }
        other => panic!("neither stored nor refused for want of memory: {other:?}"),
    }
    assert_eq!(map.len(), held.len());
    assert_eq!(seen(map), *held);
}

/// The map's pairs, in the room that the call before left behind.
fn seen<K: Key, V: Numeric>(map: &Map<K, V>) -> Oracle {
    map.trim();
    contents(map)
}

#[test]
fn whole_or_absent_whatever_memory_there_is() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(500, 100_000) as u64;
        let small = Batch::<K, V>::numbered(0..12, 1);
        // Mostly new keys, some of those there are, each once.
        let batch = Batch::<K, V>::numbered(6..n, 2);
        for submaps in [1, 4] {
            let build = |on: &Target| {
                let map = on.builder().submaps(submaps).page_slabs(4).build().unwrap();
                map.insert(&small.keys, &small.values).unwrap();
                contents(&map);
                map
            };
            let free = on.with_memory_budget(u64::MAX);
            let map = build(&free);
            let least = free.device().peak_allocated_bytes() as f64;
            map.insert(&batch.keys, &batch.values).unwrap();
            contents(&map);
            let most = free.device().peak_allocated_bytes() as f64;
            let mut taken = [0; 2];
            for step in (0..24).step_by(on.stride(3)) {
                // From the least that the small map needs to more than the large one does.
                let share = step as f64 / 20.0;
                let budget = (least + 1_024.0 + (most * 1.3 - least) * share) as u64;
                for verb in 0..VERBS {
                    noting(
                        &format!("{submaps} submaps, {budget} bytes, verb {verb}"),
                        || {
                            let on = on.with_memory_budget(budget);
                            let map = build(&on);
                            let mut held: Oracle = small.bits().collect();
                            let stored = store(&map, verb, &batch);
                            taken[usize::from(stored.is_ok())] += 1;
                            if stored.is_ok() {
                                model(&mut held, verb, &batch);
                                assert_eq!(seen(&map), held);
                            } else {
                                assert_refused(stored, &map, &held);
                            }
                            // The map is as good as before.
                            let one = Batch::<K, V>::numbered([3], 7);
                            assert_eq!(map.upsert(&one.keys, &one.values).unwrap(), 0);
                            held.extend(one.bits());
                            assert_eq!(seen(&map), held);
                        },
                    );
                }
            }
            assert!(
                taken[0] > 0 && taken[1] > 0,
                "refused and stored: {taken:?}"
            );
        }
    }
    on_every_format!(body);
}

#[test]
fn a_full_map_without_memory_still_updates_what_it_has() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        for submaps in [1, 4] {
            let n = on.n(600, 100_000);
            // Enough for what calls leave behind, not for another table.
            let build = |on: &Target| {
                let builder = on.builder::<K, V>().submaps(submaps);
                let map = builder.capacity(n).build().unwrap();
                let full = Batch::<K, V>::numbered(0..map.capacity() as u64, 1);
                map.insert(&full.keys, &full.values).unwrap();
                for verb in 0..VERBS {
                    store(&map, verb, &full).unwrap();
                }
                contents(&map);
                map
            };
            let free = on.with_memory_budget(u64::MAX);
            let map = build(&free);
            let budget = free.device().peak_allocated_bytes() + 256;
            let table = map.stats().unwrap().table_bytes;
            drop(map);
            let on = &on.with_memory_budget(budget);
            let map = build(on);
            let slots = map.slots();
            let all = Batch::<K, V>::numbered(0..map.capacity() as u64, 2);
            let mut held = contents(&map);
            // More pairs than there is memory for.
            let more = 4 * table as usize;
            let more = more / (size_of::<K>() + size_of::<V>());
            let new = Batch::<K, V>::numbered(0..(map.len() + more) as u64, 3);
            for verb in 0..VERBS {
                noting(&format!("{submaps} submaps, verb {verb}"), || {
                    assert_refused(store(&map, verb, &new), &map, &held);
                    store(&map, verb, &all).unwrap();
                    model(&mut held, verb, &all);
                    assert_eq!(contents(&map), held);
                });
            }
            assert_eq!(map.slots(), slots);
            // Removing makes room for as many others.
            let n = map.capacity();
            assert_eq!(map.remove(&all.keys[..n / 2]).unwrap(), n / 2);
            for (removed, _) in all.bits().take(n / 2) {
                held.remove(&removed);
            }
            assert_eq!(contents(&map), held);
        }
    }
    on_every_format!(body);
}

#[test]
fn growing_submap_by_submap_takes_one_submap_more() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        const SUBMAPS: u64 = 8;
        let on = &on.with_memory_budget(u64::MAX);
        let builder = on
            .builder::<K, V>()
            .capacity(on.n(150_000, 4_000_000) / on.stride(2));
        let map = builder
            .submaps(SUBMAPS as u32)
            .page_slabs(4)
            // Sorting the first batch would take more.
            .bulk_from([usize::MAX; 3])
            .build()
            .unwrap();
        let full = Batch::<K, V>::numbered(0..map.capacity() as u64, 1);
        map.insert(&full.keys, &full.values).unwrap();
        let old = map.stats().unwrap().table_bytes;
        let one = Batch::<K, V>::numbered([1 << 30], 1);
        map.trim();
        map.insert(&one.keys, &one.values).unwrap();
        let new = map.stats().unwrap().table_bytes;
        assert!(new >= 2 * old * 9 / 10, "from {old} to {new} bytes");
        let peak = on.device().peak_allocated_bytes();
        // What calls keep, the batch staged on a GPU, and a list of pairs that have to overflow.
        let beside = on.device().allocated_bytes() - new;
        let staged = full.len() * (size_of::<K>() + size_of::<V>());
        let staged = if on.device().is_cuda() {
            2 * staged as u64
        } else {
            0
        };
        let most = (new + old / SUBMAPS + beside + (300 << 10)).max(old + staged + 65_536);
        assert!(
            peak <= most,
            "{peak} bytes to get to {new} from {old}, {beside} beside"
        );
        let held: Oracle = full.bits().chain(one.bits()).collect();
        assert_holds(&map, &held);
    }
    on_every_format!(body);
}
