//! Cells are used again, too little memory is an error, nothing leaks.

use gpumap::{Error, Key, Map, Value};
use gpumap_tests::blob::{assert_cells_add_up, blobs, cells, run, store, tags};
use gpumap_tests::device::noting;
use gpumap_tests::pairs::nth_key;
use gpumap_tests::{Target, on_blobs_by_row, on_every_blob};

fn keys<K: Key>(numbers: std::ops::Range<u64>) -> Vec<K> {
    numbers.map(nth_key).collect()
}

#[test]
fn upserting_over_and_over_takes_no_more_memory() {
    fn body<K: Key, V: Value>(on: &Target) {
        let on = &on.with_memory_budget(u64::MAX);
        let n = on.n(200, 50_000) as u64;
        let map: Map<K, V> = on.map(2 * n as usize);
        let all = keys::<K>(0..n);
        map.upsert(&all, &blobs::<V>(0..n)).unwrap();
        map.upsert(&all, &blobs::<V>(0..n)).unwrap();
        let before = cells(&map).cells;
        // What calls keep for the next ones is there by now.
        let bytes = on.device().allocated_bytes();
        for round in 0..200 {
            assert_eq!(
                map.upsert(&all, &blobs::<V>(round * n..(round + 1) * n))
                    .unwrap(),
                0
            );
        }
        assert_eq!(cells(&map).cells, before);
        assert_eq!(on.device().allocated_bytes(), bytes);
        assert_eq!(tags(&map).len(), n as usize);
        assert_cells_add_up(&map);
        // The same of pairs that come and go, and of values that are never stored.
        for _ in 0..50 {
            assert_eq!(map.insert(&all, &blobs::<V>(0..n)).unwrap(), 0);
            map.remove(&all[..20]).unwrap();
            assert_eq!(map.insert(&all[..20], &blobs::<V>(0..20)).unwrap(), 20);
        }
        assert_eq!(cells(&map).cells, before);
        assert_cells_add_up(&map);
    }
    on_every_blob!(body);
}

#[test]
fn too_little_memory_leaves_the_map_as_it_was() {
    fn body<K: Key, V: Value>(on: &Target) {
        let n = on.n(400, 50_000) as u64;
        let more = 9 * n;
        // What is needed to store all, found out with as much as there is.
        let free = on.with_memory_budget(u64::MAX);
        let build = |on: &Target| -> Map<K, V> {
            let map = on.map(n as usize);
            map.insert(&keys::<K>(0..n), &blobs::<V>(0..n)).unwrap();
            map
        };
        let map = build(&free);
        let least = free.device().peak_allocated_bytes();
        map.upsert(&keys::<K>(0..more), &blobs::<V>(n..n + more))
            .unwrap();
        let most = free.device().peak_allocated_bytes();
        drop(map);
        let mut taken = [0, 0];
        for step in (0..16).step_by(on.stride(3)) {
            let budget = least + (most * 11 / 10 - least) * step / 15;
            for upserts in [false, true] {
                let case = format!("{budget} of {least} to {most} bytes, upserts: {upserts}");
                noting(&case, || {
                    let on = on.with_memory_budget(budget);
                    let map = build(&on);
                    let held = tags_if_memory(&map);
                    map.trim();
                    let batch = keys::<K>(0..more);
                    let stored = store(&map, upserts, &batch, &blobs(n..n + more));
                    taken[usize::from(stored.is_ok())] += 1;
                    map.trim();
                    match stored {
                        Ok(_) => assert_eq!(map.len(), more as usize),
                        Err(Error::OutOfMemory { .. } | Error::Full { partial: false, .. }) => {
                            assert_eq!(map.len(), n as usize);
                            if let (Some(held), Some(now)) = (held, tags_if_memory(&map)) {
                                assert_eq!(held, now);
                            }
                        }
                        Err(other) => panic!("{other}"),
                    }
                    map.trim();
                    assert_cells_add_up_if_memory(&map);
                });
            }
        }
        assert!(
            taken.iter().all(|&times| times > 0),
            "refused and stored: {taken:?}"
        );
    }
    on_every_blob!(body);
    on_blobs_by_row!(body);
}

/// The contents, unless there is not even the memory to dump them.
fn tags_if_memory<K: Key, V: Value>(
    map: &Map<K, V>,
) -> Option<std::collections::HashMap<u64, u64>> {
    match map.retrieve_all() {
        Err(Error::OutOfMemory { .. }) => None,
        _ => Some(tags(map)),
    }
}

fn assert_cells_add_up_if_memory<K: Key, V: Value>(map: &Map<K, V>) {
    match map.audit() {
        Err(Error::OutOfMemory { .. }) => {}
        _ => assert_cells_add_up(map),
    }
}

#[test]
fn capacities_beyond_all_memory() {
    fn body<K: Key, V: Value>(on: &Target) {
        let on = &on.with_memory_budget(u64::MAX);
        for capacity in [usize::MAX, usize::MAX / 16, 1 << 58, 1 << 40] {
            let refused = on.builder::<K, V>().capacity(capacity).build();
            assert!(matches!(
                refused,
                Err(Error::OutOfMemory { .. } | Error::CapacityOverflow { .. })
            ));
        }
        let map: Map<K, V> = on.map(10);
        assert!(map.reserve(usize::MAX / 32).is_err());
        map.insert(&keys::<K>(0..9), &blobs::<V>(0..9)).unwrap();
        assert_eq!(tags(&map).len(), 9);
        assert_cells_add_up(&map);
    }
    on_every_blob!(body);
    on_blobs_by_row!(body);
}

#[test]
fn dropping_a_map_gives_all_memory_back() {
    fn body<K: Key, V: Value>(on: &Target) {
        let on = &on.with_memory_budget(u64::MAX);
        let before = on.device().allocated_bytes();
        let n = on.n(3_000, 100_000) as u64;
        for capacity in [0, n as usize] {
            let map: Map<K, V> = on.map(capacity);
            map.upsert(&keys::<K>(0..n), &blobs::<V>(0..n)).unwrap();
            map.upsert(&keys::<K>(0..2 * n), &blobs::<V>(0..2 * n))
                .unwrap();
            map.remove(&keys::<K>(0..n)).unwrap();
            map.shrink_to_fit().unwrap();
            let stats = cells(&map);
            assert!(on.device().allocated_bytes() >= before + stats.arena_bytes);
            assert!(stats.arena_bytes >= (stats.cells * stats.cell_bytes) as u64);
            drop(map);
            assert_eq!(on.device().allocated_bytes(), before);
        }
    }
    run::<u64, [u64; 32]>(body::<u64, [u64; 32]>);
    run::<u32, gpumap_tests::blob::Bytes<9>>(body::<u32, gpumap_tests::blob::Bytes<9>>);
}
