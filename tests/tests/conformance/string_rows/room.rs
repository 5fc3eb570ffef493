//! Growth, and what there is no memory for.

use gpumap::{Error, Fault, Faults, RowMap};
use gpumap_tests::Target;
use gpumap_tests::memory::{BUDGET, until_enough, with_left};

use super::{Oracle, on_every_device, strings};

#[test]
fn maps_grow_as_strings_come() {
    fn body(on: &Target) {
        let map = RowMap::<str>::new(on.device()).unwrap();
        let mut oracle = Oracle::default();
        let (mut next, mut rooms) = (0, Vec::new());
        for more in [1, 30, 14, 1, 200, 3, 1_000, 2_000, 10] {
            // Half of them are there.
            let batch = strings(next / 2..next + more);
            next += more;
            assert_eq!(map.insert(&batch).unwrap(), oracle.insert(&batch).0);
            oracle.assert_same(&map);
            rooms.push(map.byte_capacity());
        }
        rooms.dedup();
        assert!(rooms.len() > 3, "several chunks: {rooms:?}");
        let gone = strings(0..next - 5);
        assert_eq!(map.remove(&gone).unwrap(), oracle.remove(&gone));
        assert_eq!(map.compact().unwrap(), oracle.compact());
        oracle.assert_same(&map);
        assert_eq!(Some(&map.byte_capacity()), rooms.last(), "the room stays");
    }
    on_every_device(body);
}

#[test]
fn with_room_nothing_is_allocated() {
    fn body(on: &Target) {
        let on = &on.with_memory_budget(1 << 30);
        let all = strings(0..1_900);
        let bytes: usize = all
            .iter()
            .map(|string| string.len().next_multiple_of(8))
            .sum();
        let builder = RowMap::<str>::builder(on.device()).capacity(2_000);
        let map = builder.bytes(bytes).build().unwrap();
        let room = (map.capacity(), map.byte_capacity());
        map.insert(&all[..1_000]).unwrap();
        map.trim();
        let before = on.device().allocated_bytes();
        map.insert(&all).unwrap();
        assert_eq!((map.capacity(), map.byte_capacity()), room);
        map.trim();
        assert_eq!(on.device().allocated_bytes(), before);
        map.reserve_bytes(5_000, 1 << 20).unwrap();
        assert!(map.capacity() >= 6_900 && map.byte_capacity() >= bytes + (1 << 20));
    }
    on_every_device(body);
}

/// The memory that is taken, and the room of a map.
fn room(on: &Target, map: &RowMap<str>) -> (u64, usize, usize) {
    let taken = on.device().allocated_bytes();
    (taken, map.capacity(), map.byte_capacity())
}

#[test]
fn refused_batches_change_nothing() {
    fn body(on: &Target) {
        let held = strings(0..2_000);
        let batch = strings((0..6_000).map(|i| 1_000 + i % 4_000));
        let step = (16 << 10) * on.stride(3) as u64;
        let enough = until_enough(on, step, |on, left| {
            let map = RowMap::<str>::with_capacity(on.device(), 2_000).unwrap();
            let mut oracle = Oracle::default();
            oracle.insert(&held);
            map.insert(&held).unwrap();
            map.trim();
            let before = room(on, &map);
            let inserted = with_left(on, left, || map.insert(&batch));
            match &inserted {
                Ok(rows) => assert_eq!(*rows, oracle.insert(&batch).0),
                Err(_) => {
                    map.trim();
                    assert_eq!(room(on, &map), before);
                }
            }
            oracle.assert_same(&map);
            inserted.map(drop)
        });
        enough.assert_near(32 << 10);
    }
    on_every_device(body);
}

/// Slots and rows have room, and their strings have not: when that is known, the batch has claimed its slots.
#[test]
fn claims_of_a_refused_batch_are_taken_back() {
    fn body(on: &Target) {
        let on = &on.with_memory_budget(BUDGET);
        let map = RowMap::<str>::with_capacity(on.device(), 200).unwrap();
        let mut oracle = Oracle::default();
        let held = strings(0..50);
        // Of 10,000 bytes more: no chunk has room for them.
        let long = |i: u64| [vec![b'l'; 200], i.to_string().into_bytes()].concat();
        let batch: Vec<Vec<u8>> = (0..50).map(long).collect();
        assert_eq!(map.insert(&held).unwrap(), oracle.insert(&held).0);
        // So that there is scratch memory for the batch.
        map.get(&batch).unwrap();
        let refused = with_left(on, 0, || map.insert(&batch));
        assert!(
            matches!(refused, Err(Error::OutOfMemory { .. })),
            "{refused:?}"
        );
        oracle.assert_same(&map);
        // In another order: a claim that was left would name the wrong string.
        let batch: Vec<Vec<u8>> = batch.into_iter().rev().collect();
        assert_eq!(map.insert(&batch).unwrap(), oracle.insert(&batch).0);
        oracle.assert_same(&map);
    }
    on_every_device(body);
}

/// After each call of the device in turn, so also after strings have been given room.
#[test]
fn room_of_a_batch_that_failed_is_used_again() {
    fn body(on: &Target) {
        let batch = strings(0..300);
        let bytes = |string: &Vec<u8>| string.len().next_multiple_of(8);
        let bytes: usize = batch.iter().map(bytes).sum();
        let mut failures = 0;
        for at in 0.. {
            let faults = Faults::default();
            let on = &on.with_faults(&faults);
            let builder = RowMap::<str>::builder(on.device()).capacity(300);
            let map = builder.bytes(bytes).build().unwrap();
            let room = map.byte_capacity();
            assert!(room < 2 * bytes, "{room} bytes for {bytes}");
            faults.plan(at, Fault::Once);
            let inserted = map.insert(&batch);
            let failed = faults.failed();
            faults.heal();
            failures += usize::from(inserted.is_err());
            if let Err(Error::Poisoned) = map.insert(&batch) {
                map.clear().unwrap();
                map.insert(&batch).unwrap();
            }
            assert_eq!((map.len(), map.byte_capacity()), (300, room), "{failed:?}");
            if failed.is_none() {
                break;
            }
        }
        assert!(failures > 10, "{failures} calls failed");
    }
    on_every_device(body);
}

#[test]
fn memory_is_given_back() {
    fn body(on: &Target) {
        let on = &on.with_memory_budget(1 << 30);
        let map = RowMap::<str>::new(on.device()).unwrap();
        let least = room(on, &map);
        let mut oracle = Oracle::default();
        let long: Vec<Vec<u8>> = (0..300).map(|i| format!("{i:1000}").into_bytes()).collect();
        for part in long.chunks(50) {
            assert_eq!(map.insert(part).unwrap(), oracle.insert(part).0);
        }
        map.trim();
        let full = room(on, &map);

        // What chunks have behind their strings is given back, and that of removed strings when rows are dense.
        map.shrink_to_fit().unwrap();
        oracle.assert_same(&map);
        map.trim();
        let tight = room(on, &map);
        assert_eq!(tight.2, 300 * 1_000);
        assert!(tight.0 < full.0, "{tight:?} of {full:?}");
        assert_eq!(map.remove(&long[1..]).unwrap(), oracle.remove(&long[1..]));
        map.shrink_to_fit().unwrap();
        assert_eq!(map.byte_capacity(), 300 * 1_000);
        assert_eq!(map.compact().unwrap(), oracle.compact());
        map.shrink_to_fit().unwrap();
        oracle.assert_same(&map);
        map.trim();
        let one = room(on, &map);
        assert_eq!(one.2, 1_000);
        assert!(one.0 < least.0 + 8_192, "{one:?} of {full:?}");

        // It grows again, and gives all back.
        assert_eq!(map.insert(&long).unwrap(), oracle.insert(&long).0);
        oracle.assert_same(&map);
        map.clear().unwrap();
        map.shrink_to_fit().unwrap();
        assert_eq!(map.byte_capacity(), 0);
        assert_eq!(map.insert(&["", "again"]).unwrap(), [0, 1]);
    }
    on_every_device(body);
}

/// With more and more memory: of a compaction that has little, the room is what the strings need.
#[test]
fn refused_compactions_change_nothing() {
    fn body(on: &Target) {
        let held = strings(0..2_000);
        let (mut refused, mut rooms) = (0, Vec::new());
        let mut left = 0;
        while left < 400 << 10 {
            let on = &on.with_memory_budget(BUDGET);
            let builder = RowMap::<str>::builder(on.device()).capacity(4_000);
            let map = builder.bytes(200 << 10).build().unwrap();
            let mut oracle = Oracle::default();
            assert_eq!(map.insert(&held).unwrap(), oracle.insert(&held).0);
            assert_eq!(
                map.remove(&held[..1_500]).unwrap(),
                oracle.remove(&held[..1_500])
            );
            map.trim();
            let before = room(on, &map);
            match with_left(on, left, || map.compact()) {
                Ok(old) => {
                    assert_eq!(old, oracle.compact());
                    rooms.push(map.byte_capacity());
                }
                Err(Error::OutOfMemory { .. }) => {
                    refused += 1;
                    map.trim();
                    assert_eq!(room(on, &map), before);
                }
                Err(error) => panic!("{error}"),
            }
            oracle.assert_same(&map);
            left += (8 << 10) * on.stride(3) as u64;
        }
        assert!(refused > 0);
        assert!(rooms.iter().any(|&room| room < 50 << 10), "{rooms:?}");
        assert!(rooms.contains(&(200 << 10)), "{rooms:?}");
    }
    on_every_device(body);
}
