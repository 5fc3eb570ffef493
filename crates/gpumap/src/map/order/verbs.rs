//! Verbs on streams, and those that wait.

use super::*;
use crate::map::OnStream;
use crate::primitives::{Op, Primitives};
use crate::{Merge, Pending, Result};

type Verb = fn(&OnStream<'_, u64, u64>, &Buffer<u64>, &Buffer<u64>) -> Result<Pending<usize>>;

/// Each leaves the keys, which were there with zeroes, with their values, and says how many keys it counts.
const VERBS: [(&str, usize, Verb); 4] = [
    ("upsert", 0, |on, keys, values| on.upsert(keys, values)),
    ("merge", 0, |on, keys, values| {
        on.merge(keys, values, Merge::Add)
    }),
    ("update", N, |on, keys, values| on.update(keys, values)),
    ("update_with", N, |on, keys, values| {
        on.update_with(keys, values, Merge::Xor)
    }),
];

#[test]
fn inputs_are_waited_for_and_held_back() {
    in_many_orders(|device| {
        let [stream, one, other] = streams(device);
        for (name, count, verb) in VERBS {
            let map = map(device, 4 * N);
            map.insert(&keys(5), &[0; N]).unwrap();
            let mut keys = Arriving::new(&one, &keys(5));
            let mut values = Arriving::new(&other, &values(5));
            let answer = verb(&map.on(&stream), &keys.buffer, &values.buffer).unwrap();
            keys.buffer.fill_bytes(JUNK).unwrap();
            values.buffer.fill_bytes(JUNK).unwrap();
            assert_eq!(answer.wait().unwrap(), count, "{name}");
            holds(&map, 5);
        }
    });
}

#[test]
fn keys_that_come_and_go() {
    in_many_orders(|device| {
        let [stream, one, other] = streams(device);
        let map = map(device, 4 * N);
        let on = map.on(&stream);
        let mut pairs = [
            Arriving::new(&one, &keys(5)),
            Arriving::new(&other, &values(5)),
        ];
        let [keys_in, values_in] = &mut pairs;
        let new = on.insert(&keys_in.buffer, &values_in.buffer).unwrap();
        keys_in.buffer.fill_bytes(JUNK).unwrap();
        values_in.buffer.fill_bytes(JUNK).unwrap();
        assert_eq!(new.wait().unwrap(), N);
        holds(&map, 5);
        let mut gone = Arriving::new(&one, &keys(5));
        let removed = on.remove(&gone.buffer).unwrap();
        gone.buffer.fill_bytes(JUNK).unwrap();
        assert_eq!(removed.wait().unwrap(), N);
        assert!(map.is_empty());
    });
}

#[test]
fn buffers_are_freed_behind_calls() {
    in_many_orders(|device| {
        let [stream, other] = streams(device);
        let map = map(device, 4 * N);
        let [keys_in, values_in] =
            [keys(5), values(5)].map(|elements| Buffer::from_slice(&other, &elements).unwrap());
        let new = map.on(&stream).insert(&keys_in, &values_in).unwrap();
        drop((keys_in, values_in));
        assert_eq!(new.wait().unwrap(), N);
        holds(&map, 5);
        let [keys_in, mut found] =
            [keys(5), keys(5)].map(|elements| Buffer::from_slice(&other, &elements).unwrap());
        let looked_up = map
            .on(&stream)
            .get_or_into(&keys_in, 0, &mut found)
            .unwrap();
        // An output that is freed is written to before that, or the device reports it.
        drop((keys_in, found));
        looked_up.wait().unwrap();
    });
}

#[test]
fn outputs_are_waited_for_and_held_back() {
    in_many_orders(|device| {
        let [stream, one, other] = streams(device);
        let map = map(device, 4 * N);
        map.insert(&keys(5), &values(5)).unwrap();
        let on = map.on(&stream);
        let asked = Arriving::new(&stream, &keys(5));

        let (mut found, mut there) = (output::<u64>(&one, N), output::<u8>(&other, N));
        drop(on.get_into(&asked.buffer, &mut found, &mut there).unwrap());
        // Each in the order of its own stream.
        assert_eq!(there.to_vec().unwrap(), [1; N]);
        assert_eq!(found.to_vec().unwrap(), values(5));

        let mut found = output::<u64>(&one, N);
        drop(on.get_or_into(&asked.buffer, 0, &mut found).unwrap());
        assert_eq!(found.to_vec().unwrap(), values(5));

        let mut there = output::<u8>(&one, N);
        drop(on.contains_into(&asked.buffer, &mut there).unwrap());
        assert_eq!(there.to_vec().unwrap(), [1; N]);

        let mut held = output::<u64>(&one, N);
        let answer = on.get_or_insert_into(&asked.buffer, &asked.buffer, &mut held);
        drop(answer.unwrap());
        assert_eq!(held.to_vec().unwrap(), values(5));
    });
}

#[test]
fn both_outputs_of_a_dump_are_waited_for_and_held_back() {
    in_many_orders(|device| {
        let [stream, one, other] = streams(device);
        let map = map(device, 4 * N);
        map.insert(&keys(5), &values(5)).unwrap();
        let sorted = |buffer: &Buffer<u64>| {
            let mut all = buffer.to_vec().unwrap();
            all.sort_unstable();
            all
        };
        for keys_first in [true, false] {
            let (mut all_keys, mut all_values) = (output(&one, N), output(&other, N));
            let answer = map
                .on(&stream)
                .retrieve_all_into(&mut all_keys, &mut all_values);
            drop(answer.unwrap());
            if keys_first {
                assert_eq!(sorted(&all_keys), keys(5));
            }
            assert_eq!(sorted(&all_values), values(5));
            assert_eq!(sorted(&all_keys), keys(5));
        }
    });
}

#[test]
fn arrays_of_the_host_are_free_when_a_call_returns() {
    in_many_orders(|device| {
        let [stream] = streams(device);
        let map = map(device, 4 * N);
        let (mut keys_in, mut values_in) = (keys(5), values(5));
        let new = map.on(&stream).insert(&keys_in, &values_in).unwrap();
        keys_in.fill(7);
        values_in.fill(7);
        assert_eq!(new.wait().unwrap(), N);
        holds(&map, 5);
    });
}

#[test]
fn a_batch_that_makes_the_map_grow_comes_behind_its_stream() {
    in_many_orders(|device| {
        let [stream, other] = streams(device);
        let map = map(device, 1);
        // Filled by the stream of the call, which is not that of the buffers.
        let mut keys_in = Buffer::<u64>::zeroed(&other, 40 * N).unwrap();
        other.synchronize().unwrap();
        let many: Vec<u64> = (5..5 + 40 * N as u64).collect();
        // SAFETY: as many bytes, which live until the call has waited.
        unsafe {
            let (to, from) = (keys_in.as_mut_ptr().cast(), many.as_ptr().cast());
            stream.upload(to, from, size_of_val(&many[..])).unwrap();
        }
        let new = map.on(&stream).insert(&keys_in, &keys_in).unwrap();
        assert_eq!(new.wait().unwrap(), 40 * N);
        stream.synchronize().unwrap();
    });
}

#[test]
fn verbs_that_wait_come_behind_the_streams_of_their_buffers() {
    in_many_orders(|device| {
        let [one, other] = streams(device);
        let map = map(device, 8 * N);
        // Each call has to wait for itself, also if the one before waited for the same stream.
        for first in [100, 200, 300] {
            map.clear().unwrap();
            let keys_in = Arriving::new(&one, &keys(first));
            let values_in = Arriving::new(&one, &values(first));
            assert_eq!(map.insert(&keys_in.buffer, &values_in.buffer).unwrap(), N);
            holds(&map, first);
        }
        let asked = Arriving::new(&other, &keys(300));
        let (mut found, mut there) = (output::<u64>(&one, N), output::<u8>(&other, N));
        map.get_into(&asked.buffer, &mut found, &mut there).unwrap();
        assert_eq!(found.to_vec().unwrap(), values(300));
        assert_eq!(there.to_vec().unwrap(), [1; N]);
        let (mut all_keys, mut all_values) = (output::<u64>(&one, N), output(&other, N));
        map.retrieve_all_into(&mut all_keys, &mut all_values)
            .unwrap();
        assert_eq!(
            all_keys.to_vec().unwrap().iter().sum::<u64>(),
            keys(300).iter().sum()
        );
        assert_eq!(
            all_values.to_vec().unwrap().iter().sum::<u64>(),
            values(300).iter().sum()
        );
    });
}

#[test]
fn primitives_come_behind_the_streams_of_their_outputs() {
    in_many_orders(|device| {
        let [other] = streams(device);
        let primitives = Primitives::new(device);
        let mut data = Arriving::new(&other, &[1u64; N]);
        primitives
            .inclusive_scan_in_place(&mut data.buffer, Op::Add)
            .unwrap();
        assert_eq!(data.buffer.to_vec().unwrap(), keys(1));
    });
}
