//! Memory for strings, and what there is none for.

use gpumap::{Error, Fault, Faults, RowMap};
use gpumap_tests::Target;
use gpumap_tests::memory::{BUDGET, with_left};

use super::{Checked, Text, on_every_device, strings};

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

/// Slots and rows have room, and their strings have not: when that is known, the batch has claimed its slots.
#[test]
fn claims_of_a_refused_batch_are_taken_back() {
    fn body(on: &Target) {
        let on = &on.with_memory_budget(BUDGET);
        let map = RowMap::<str>::with_capacity(on.device(), 200).unwrap();
        let mut both = Checked::from(map);
        // Of 10,000 bytes more: no chunk has room for them.
        let long = |i: u64| Text([vec![b'l'; 200], i.to_string().into_bytes()].concat());
        let mut batch: Vec<Text> = (0..50).map(long).collect();
        both.insert(&strings(0..50));
        // So that there is scratch memory for the batch.
        both.get(&batch);
        let refused = with_left(on, 0, || both.map.insert(&batch));
        assert!(
            matches!(refused, Err(Error::OutOfMemory { .. })),
            "{refused:?}"
        );
        both.assert_same();
        // In another order: a claim that was left would name the wrong string.
        batch.reverse();
        both.insert(&batch);
        both.assert_same();
    }
    on_every_device(body);
}

/// After each call of the device in turn, so also after strings have been given room.
#[test]
fn room_of_a_batch_that_failed_is_used_again() {
    fn body(on: &Target) {
        let batch = strings(0..300);
        let bytes = |string: &Text| string.len().next_multiple_of(8);
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
        let mut both = Checked::new(on);
        let least = room(on, &both.map);
        let long = (0..300).map(|i| Text(format!("{i:1000}").into()));
        let long: Vec<Text> = long.collect();
        for part in long.chunks(50) {
            both.insert(part);
        }
        both.map.trim();
        let full = room(on, &both.map);

        // What chunks have behind their strings is given back, and that of removed strings when rows are dense.
        both.map.shrink_to_fit().unwrap();
        both.assert_same();
        both.map.trim();
        let tight = room(on, &both.map);
        assert_eq!(tight.2, 300 * 1_000);
        assert!(tight.0 < full.0, "{tight:?} of {full:?}");
        both.remove(&long[1..]);
        both.map.shrink_to_fit().unwrap();
        assert_eq!(both.map.byte_capacity(), 300 * 1_000);
        both.compact();
        both.map.shrink_to_fit().unwrap();
        both.assert_same();
        both.map.trim();
        let one = room(on, &both.map);
        assert_eq!(one.2, 1_000);
        assert!(one.0 < least.0 + 8_192, "{one:?} of {full:?}");

        // It grows again, and gives all back.
        both.insert(&long);
        both.assert_same();
        both.map.clear().unwrap();
        both.map.shrink_to_fit().unwrap();
        assert_eq!(both.map.byte_capacity(), 0);
        assert_eq!(both.map.insert(&["", "again"]).unwrap(), [0, 1]);
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
            let mut both = Checked::from(builder.bytes(200 << 10).build().unwrap());
            both.insert(&held);
            both.remove(&held[..1_500]);
            both.map.trim();
            let before = room(on, &both.map);
            match with_left(on, left, || both.map.compact()) {
                Ok(old) => {
                    assert_eq!(old, both.oracle.compact());
                    rooms.push(both.map.byte_capacity());
                }
                Err(Error::OutOfMemory { .. }) => {
                    refused += 1;
                    both.map.trim();
                    assert_eq!(room(on, &both.map), before);
                }
                Err(error) => panic!("{error}"),
            }
            both.assert_same();
            left += (8 << 10) * on.stride(3) as u64;
        }
        assert!(refused > 0);
        assert!(rooms.iter().any(|&room| room < 50 << 10), "{rooms:?}");
        assert!(rooms.contains(&(200 << 10)), "{rooms:?}");
    }
    on_every_device(body);
}
