//! Growth, and what there is no memory for.

use gpumap::bytemuck::Pod;
use gpumap::{Error, RowMap};
use gpumap_tests::Target;
use gpumap_tests::memory::{BUDGET, until_enough, with_left};

use super::{Checked, Key, Oracle, keys, on_keys};

#[test]
fn maps_grow_as_keys_come() {
    fn body<K: Key + ?Sized>(on: &Target) {
        let mut both = Checked::<K>::new(on);
        let (mut next, mut rooms) = (0, Vec::new());
        for more in [1, 30, 14, 1, 200, 3, 1_000, 2_000, 10] {
            // Half of them are there.
            both.insert(&keys::<K>(next / 2..next + more));
            next += more;
            both.assert_same();
            rooms.push(K::room(&both.map));
        }
        let room = K::room(&both.map);
        rooms.dedup_by_key(|(rows, bytes)| if K::ARE_STRINGS { *bytes } else { *rows });
        assert!(rooms.len() > 3, "several steps: {rooms:?}");
        both.remove(&keys::<K>(0..next - 5));
        both.compact();
        both.assert_same();
        assert_eq!(K::room(&both.map), room, "the room stays");
    }
    on_keys!(body: u32, u64, [u32; 3], u128, [u64; 8], str);
}

#[test]
fn with_room_nothing_is_allocated() {
    fn body<K: Pod>(on: &Target) {
        let on = &on.with_memory_budget(1 << 30);
        let map = RowMap::<K>::with_capacity(on.device(), 2_000).unwrap();
        let capacity = map.capacity();
        assert!((2_000..2_100).contains(&capacity), "{capacity}");
        map.insert(&keys::<K>(0..1_000)).unwrap();
        map.trim();
        let before = on.device().allocated_bytes();
        // Of keys that are there most of the time: more than there is room for in all.
        map.insert(&keys::<K>((0..6_000).map(|i| i % 1_900)))
            .unwrap();
        map.trim();
        let after = on.device().allocated_bytes();
        assert!(
            after - before < 60_000 + 2_000 * size_of::<K>() as u64 / 8,
            "{before} to {after}"
        );
        map.reserve(5_000).unwrap();
        assert!(map.capacity() >= 6_900);
    }
    on_keys!(body: u32, [u32; 3]);
}

#[test]
fn refused_batches_change_nothing() {
    fn body<K: Key + ?Sized>(on: &Target) {
        let held = keys::<K>(0..2_000);
        let batch = keys::<K>((0..9_000).map(|i| 1_000 + i % 6_000));
        let (step, near) = match K::ARE_STRINGS {
            true => ((16 << 10) * on.stride(3) as u64, 32 << 10),
            false => (8 << 10, 16 << 10),
        };
        let enough = until_enough(on, step, |on, left| {
            let map = RowMap::<K>::with_capacity(on.device(), 2_000).unwrap();
            let mut both = Checked::from(map);
            both.insert(&held);
            let room = |map: &RowMap<K>| {
                map.trim();
                (on.device().allocated_bytes(), K::room(map))
            };
            let before = room(&both.map);
            let inserted = with_left(on, left, || both.map.insert(K::batch(&batch)));
            match &inserted {
                Ok(rows) => assert_eq!(*rows, both.oracle.insert(&batch).0),
                Err(_) => assert_eq!(room(&both.map), before),
            }
            both.assert_same();
            inserted.map(drop)
        });
        enough.assert_near(near);
    }
    on_keys!(body: u32, u128, [u64; 8], str);
}

/// Slots have room and keys have not: when that is known, the batch has claimed its slots.
#[test]
fn claims_of_a_refused_batch_are_taken_back() {
    fn body<K: Pod>(on: &Target) {
        let on = &on.with_memory_budget(BUDGET);
        let mut both = Checked::<K>::new(on);
        both.insert(&keys::<K>(0..50));
        let batch = keys::<K>((20..70).rev());
        let refused = with_left(on, 0, || both.map.insert(&batch));
        assert!(
            matches!(refused, Err(Error::OutOfMemory { .. })),
            "{refused:?}"
        );
        both.assert_same();
        // In another order: a claim that was left would name the wrong key.
        both.insert(&keys::<K>(20..70));
        both.assert_same();
    }
    on_keys!(body: u64, [u32; 3], [u64; 8]);
}

/// With more and more memory: of a compaction that has little, the room is what the keys need.
#[test]
fn refused_removals_and_compactions_change_nothing() {
    fn body<K: Pod>(on: &Target) {
        let held = keys::<K>(0..2_000);
        let (mut refused, mut capacities) = ([0; 2], Vec::new());
        let mut left = 0;
        while left < 200 << 10 {
            let on = &on.with_memory_budget(BUDGET);
            let map = RowMap::<K>::with_capacity(on.device(), 20_000).unwrap();
            let mut oracle = Oracle::default();
            assert_eq!(map.insert(&held).unwrap(), oracle.insert(&held).0);
            map.trim();
            match with_left(on, left, || map.remove(&held[..1_500])) {
                Ok(removed) => assert_eq!(removed, oracle.remove(&held[..1_500])),
                Err(Error::OutOfMemory { .. }) => {
                    refused[0] += 1;
                    oracle.assert_same(&map);
                    assert_eq!(map.remove(&held[..1_500]).unwrap(), 1_500);
                    oracle.remove(&held[..1_500]);
                }
                Err(error) => panic!("{error}"),
            }
            oracle.assert_same(&map);
            map.trim();
            let before = (on.device().allocated_bytes(), map.capacity());
            match with_left(on, left, || map.compact()) {
                Ok(old) => {
                    assert_eq!(old, oracle.compact());
                    capacities.push(map.capacity());
                }
                Err(Error::OutOfMemory { .. }) => {
                    refused[1] += 1;
                    map.trim();
                    assert_eq!((on.device().allocated_bytes(), map.capacity()), before);
                }
                Err(error) => panic!("{error}"),
            }
            oracle.assert_same(&map);
            left += 4 << 10;
        }
        assert!(refused[0] > 0 && refused[1] > 0, "{refused:?}");
        assert!(
            capacities.iter().any(|&room| room < 1_000),
            "{capacities:?}"
        );
    }
    on_keys!(body: u32, u128);
}

#[test]
fn compactions_keep_the_room() {
    fn body<K: Pod>(on: &Target) {
        let map = RowMap::<K>::with_capacity(on.device(), 3_000).unwrap();
        let capacity = map.capacity();
        map.insert(&keys::<K>(0..2_500)).unwrap();
        map.remove(&keys::<K>(0..2_400)).unwrap();
        assert_eq!(
            map.capacity(),
            capacity,
            "rows and slots of removed keys are in use"
        );
        map.compact().unwrap();
        assert_eq!(map.capacity(), capacity);
        map.insert(&keys::<K>(0..2_600)).unwrap();
        assert_eq!(map.capacity(), capacity);

        // With more room for keys than slots.
        let map = RowMap::<K>::new(on.device()).unwrap();
        map.insert(&keys::<K>(0..40)).unwrap();
        map.insert(&keys::<K>(40..42)).unwrap();
        let capacity = map.capacity();
        map.remove(&keys::<K>(0..30)).unwrap();
        assert_eq!(map.capacity(), capacity, "tombstones are no room");
    }
    on_keys!(body: u64, [u32; 3]);
}

#[test]
fn memory_is_given_back() {
    fn body<K: Pod>(on: &Target) {
        let on = &on.with_memory_budget(1 << 30);
        let bytes = |map: &RowMap<K>| {
            map.trim();
            on.device().allocated_bytes()
        };
        let map = RowMap::<K>::new(on.device()).unwrap();
        let least = bytes(&map);
        let mut oracle = Oracle::default();
        let all = keys::<K>(0..30_000);
        oracle.insert(&all);
        map.insert(&all).unwrap();
        let full = bytes(&map);

        // Of keys that were removed the slots are given back, and the rows when they are dense.
        assert_eq!(
            map.remove(&all[..29_999]).unwrap(),
            oracle.remove(&all[..29_999])
        );
        map.shrink_to_fit().unwrap();
        oracle.assert_same(&map);
        let thin = bytes(&map);
        assert!(thin < full, "{thin} of {full}");
        assert_eq!(map.compact().unwrap(), oracle.compact());
        map.shrink_to_fit().unwrap();
        oracle.assert_same(&map);
        let one = bytes(&map);
        assert!(one < least + 4_096, "{one} of {full}, {least} at first");
        assert!(map.capacity() < 100);

        // It grows again, and gives all back.
        let more = keys::<K>(29_000..31_000);
        assert_eq!(map.insert(&more).unwrap(), oracle.insert(&more).0);
        oracle.assert_same(&map);
        map.clear().unwrap();
        map.shrink_to_fit().unwrap();
        assert!(bytes(&map) <= one);
        assert_eq!(map.insert(&more[..5]).unwrap(), [0, 1, 2, 3, 4]);
    }
    on_keys!(body: u32, [u32; 3], [u64; 8]);
}

#[test]
fn more_rows_than_there_can_be() {
    fn body<K: Pod>(on: &Target) {
        let refused = RowMap::<K>::with_capacity(on.device(), (1 << 31) + 1);
        assert!(matches!(refused, Err(Error::CapacityOverflow { .. })));
        let map = RowMap::<K>::new(on.device()).unwrap();
        map.insert(&keys::<K>(0..3)).unwrap();
        assert!(matches!(
            map.reserve(1 << 31),
            Err(Error::CapacityOverflow { .. })
        ));
        assert_eq!(map.len(), 3);
    }
    on_keys!(body: u32);
}
