//! What waits for calls in flight: calls that run alone, drops, and chunks that go through pinned memory.

use super::*;
use crate::{Chunk, Fault, Faults, PinnedBuffer, Result};

#[test]
fn what_runs_alone_waits_for_calls_in_flight() {
    in_many_orders(|device| {
        let [stream] = streams(device);
        let (keys_in, values_in) = (
            Buffer::from_slice(&stream, &keys(5)).unwrap(),
            Buffer::from_slice(&stream, &values(5)).unwrap(),
        );
        for deed in 0..4 {
            let map = map(device, 2 * N);
            let new = map.on(&stream).insert(&keys_in, &values_in).unwrap();
            match deed {
                0 => map.reserve(20 * N).unwrap(),
                1 => map.clear().unwrap(),
                2 => map.shrink_to_fit().unwrap(),
                _ => assert_eq!(map.drain().unwrap().0.len(), N),
            }
            stream.synchronize().unwrap();
            match deed {
                0 | 2 => holds(&map, 5),
                _ => assert_eq!(map.retrieve_all().unwrap().0, []),
            }
            assert_eq!(new.wait().unwrap(), N);
        }
    });
}

#[test]
fn a_map_is_freed_when_no_call_uses_it() {
    in_many_orders(|device| {
        let [stream] = streams(device);
        let (keys_in, values_in) = (
            Buffer::from_slice(&stream, &keys(5)).unwrap(),
            Buffer::from_slice(&stream, &values(5)).unwrap(),
        );
        let map = map(device, 2 * N);
        drop(map.on(&stream).insert(&keys_in, &values_in).unwrap());
        drop(map.on(&stream).remove(&keys_in).unwrap());
        drop(map);
        // Kernels that use what was freed are reported when the device is dropped, unless they
        // crash.
        device.synchronize().unwrap();
    });
}

#[test]
fn answers_are_counted_from_zero() {
    in_many_orders(|device| {
        let [stream] = streams(device);
        let map = map(device, 2 * N);
        let keys_in = Buffer::from_slice(&stream, &keys(5)).unwrap();
        let new = map.on(&stream).insert(&keys_in, &keys_in).unwrap();
        assert_eq!(new.wait().unwrap(), N);
    });
}

#[test]
fn a_map_is_empty_when_it_has_been_cleared() {
    in_many_orders(|device| {
        let map = map(device, 2 * N);
        for first in [100, 200] {
            map.insert(&keys(first), &values(first)).unwrap();
            holds(&map, first);
            map.clear().unwrap();
        }
        assert_eq!(map.retrieve_all().unwrap().0, []);
    });
}

#[test]
fn a_map_that_grows_keeps_its_pairs() {
    in_many_orders(|device| {
        let map = Map::builder(device)
            .capacity(2 * N)
            .submaps(3)
            // All sizes have pages of one size: so one submap is replaced after the other.
            .page_slabs(2)
            .hash_seed(1)
            .build()
            .unwrap();
        map.insert(&keys(5), &values(5)).unwrap();
        map.reserve(100 * N).unwrap();
        holds(&map, 5);
        map.shrink_to_fit().unwrap();
        holds(&map, 5);
    });
}

#[test]
fn chunks_arrive_before_they_are_handed_out_and_go_when_they_are_not() {
    in_many_orders(|device| {
        let map = map(device, 3_000);
        let all: Vec<u64> = (0..3_000).collect();
        map.insert(&all, &all).unwrap();
        let chunks: Vec<_> = map.chunks(1).map(Result::unwrap).collect();
        let pairs = chunks.iter().flat_map(Chunk::iter);
        let mut keys: Vec<_> = pairs
            .inspect(|(key, value)| assert_eq!(key, value))
            .map(|(key, _)| key)
            .collect();
        keys.sort_unstable();
        assert_eq!(keys, all);
        // One is on its way when the iterator goes.
        let mut chunks = map.chunks(1);
        drop(chunks.next().unwrap().unwrap());
        drop(chunks);
        device.synchronize().unwrap();
    });
}

#[test]
fn a_call_that_fails_half_way_has_done_with_its_inputs() {
    in_many_orders(|device| {
        let faults = Faults::default();
        let device = device.with_faults(&faults);
        let map = map(&device, 4 * N);
        map.insert(&keys(100), &values(100)).unwrap();
        for call in 0..12 {
            let [keys_in, values_in] = [keys(5), values(5)].map(|elements| {
                let mut pinned = PinnedBuffer::<u64>::zeroed(&device, N).unwrap();
                pinned.copy_from_slice(&elements);
                pinned
            });
            faults.plan(call, Fault::Once);
            let outcome = map.insert(&keys_in[..], &values_in[..]);
            faults.heal();
            // Reported if a copy from there is to come.
            drop((keys_in, values_in));
            if outcome.is_err() {
                map.clear().unwrap();
            }
        }
    });
}

/// Several chunks of the fewest keys that one has.
const CHUNKS: u64 = 100;

/// A map whose batches of the host go through pinned memory in chunks.
fn map_by_chunks(device: &Device) -> Map<u64, u64> {
    Map::builder(device)
        .capacity(8 * N)
        .hash_seed(1)
        .chunking(1, 256, false)
        .build()
        .unwrap()
}

#[test]
fn pieces_wait_for_their_lanes() {
    in_many_orders(|device| {
        let map = map_by_chunks(device);
        let all: Vec<u64> = (0..CHUNKS).collect();
        let (mut keys_in, mut values_in) = (all.clone(), all.clone());
        assert_eq!(map.insert(&keys_in, &values_in).unwrap(), all.len());
        keys_in.fill(7);
        values_in.fill(7);
        let (mut found, mut there) = (vec![7; all.len()], vec![7; all.len()]);
        map.get_into(&all, &mut found, &mut there).unwrap();
        assert!(found == all && there == vec![1; all.len()]);
        let found = map.get(&all).unwrap();
        assert!(found.into_iter().flatten().eq(0..CHUNKS));
        assert_eq!(map.contains(&all).unwrap(), vec![true; all.len()]);
        let (mut all_keys, all_values) = map.retrieve_all().unwrap();
        assert_eq!(all_keys, all_values);
        all_keys.sort_unstable();
        assert_eq!(all_keys, all);
        assert_eq!(map.remove(&all).unwrap(), all.len());
        assert!(map.is_empty());
    });
}

#[test]
fn pieces_that_fail_have_done_with_their_lanes() {
    in_many_orders(|device| {
        let faults = Faults::default();
        let device = device.with_faults(&faults);
        let all: Vec<u64> = (0..CHUNKS).collect();
        for call in (10..60).step_by(7) {
            let map = map_by_chunks(&device);
            faults.plan(call, Fault::Once);
            let stored = map.insert(&all, &all).and_then(|new| {
                assert_eq!(new, all.len());
                map.get(&all)
            });
            faults.heal();
            if let Ok(found) = stored {
                assert!(found.into_iter().flatten().eq(0..CHUNKS));
            }
            // Reported if a copy from or to pinned memory of a stage is to come.
            drop(map);
        }
    });
}
