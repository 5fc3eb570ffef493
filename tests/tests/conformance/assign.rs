//! `assign` and `merge_present`: present keys get new values, absent keys stay absent, and the map stays as large as
//! it is.

use gpumap::{Buffer, Error, Growth, Key, Merge, Value};
use gpumap_tests::device::noting;
use gpumap_tests::pairs::nth_key;
use gpumap_tests::{
    Batch, Oracle, Target, assert_holds, key_bits, on_every_format, on_every_pair,
    on_formats_with_values, on_pairs, oracle, value,
};

/// The pairs of a batch whose keys are present.
fn present<'a, K: Key, V: Value>(
    held: &'a Oracle,
    batch: &'a Batch<K, V>,
) -> impl Iterator<Item = (u64, u64)> + 'a {
    batch.bits().filter(|(k, _)| held.contains_key(k))
}

#[test]
fn present_keys_change_and_absent_ones_stay_absent() {
    fn body<K: Key, V: Value>(on: &Target) {
        let n = on.n(600, 500_000) as u64;
        for (how, map) in on.maps::<K, V>(n as usize, n as usize) {
            noting(how, || {
                let first = Batch::<K, V>::numbered(0..n, 1);
                assert_eq!(map.assign(&first.keys, &first.values).unwrap(), 0);
                assert_holds(&map, &Oracle::new());

                map.insert(&first.keys, &first.values).unwrap();
                let mut held: Oracle = first.bits().collect();
                let (slots, capacity) = (map.slots(), map.capacity());
                // Half of them, and as many that are not there.
                let second = Batch::<K, V>::numbered(n / 2..n + n / 2, 2);
                let assigned = map.assign(&second.keys, &second.values).unwrap();
                assert_eq!(assigned as u64, n - n / 2);
                held.extend(present(&held, &second).collect::<Vec<_>>());
                assert_holds(&map, &held);
                assert_eq!((map.slots(), map.capacity()), (slots, capacity));

                // What is gone is absent, also behind its tombstone.
                let gone: Vec<K> = (0..n).step_by(3).map(nth_key).collect();
                map.remove(&gone).unwrap();
                for k in &gone {
                    held.remove(&key_bits(*k));
                }
                let third = Batch::<K, V>::numbered(0..n, 3);
                let assigned = map.assign(&third.keys, &third.values).unwrap();
                assert_eq!(assigned, held.len());
                held.extend(present(&held, &third).collect::<Vec<_>>());
                assert_holds(&map, &held);
            });
        }
    }
    on_every_format!(body);
}

#[test]
fn of_several_values_for_one_key_one_is_there() {
    fn body<K: Key, V: Value>(on: &Target) {
        let n = on.n(1_500, 500_000) as u64;
        for distinct in [1, 2, 40, n / 3] {
            noting(&format!("{distinct} keys"), || {
                let map = on.map::<K, V>(distinct as usize);
                let first = Batch::<K, V>::numbered(0..distinct, 1);
                map.insert(&first.keys, &first.values).unwrap();
                let mut held: Oracle = first.bits().collect();
                let all = (0..n).map(|i| i % (distinct + 7));
                let batch = Batch::<K, V>::of(
                    all.zip(2..)
                        .map(|(k, v)| (key_bits(nth_key::<K>(k)), v * 0x1_0000_0001)),
                );
                let there: Vec<_> = present(&held, &batch).collect();
                let assigned = map.assign(&batch.keys, &batch.values).unwrap();
                assert_eq!(assigned, there.len(), "each time that a key comes");
                assert_eq!(oracle::adopt_upserted(&mut held, &map, there), 0);
                assert_holds(&map, &held);
            });
        }
    }
    on_pairs!(body: u32 => u32, u32 => u64, u64 => u32, u64 => u64);
}

#[test]
fn merging_into_present_keys_equals_plain_rust() {
    fn body<K: Key, V: Value>(on: &Target) {
        let n = on.n(900, 200_000) as u64;
        let map = on.map::<K, V>(n as usize);
        let first = Batch::<K, V>::numbered(0..n, 1);
        map.insert(&first.keys, &first.values).unwrap();
        let mut held: Oracle = first.bits().collect();
        // Keys that come three times, of which every other is absent.
        let numbers = (0..3 * n).map(|i| i % n * 2);
        let batch = Batch::<K, V>::numbered(numbers, 2);
        for how in [Merge::Add, Merge::Min, Merge::Max, Merge::And, Merge::Xor] {
            let there: Vec<_> = present(&held, &batch).collect();
            let merged = map.merge_present(&batch.keys, &batch.values, how);
            assert_eq!(merged.unwrap(), there.len(), "{how:?}");
            assert_eq!(oracle::merge::<V>(&mut held, there, how), 0);
            noting(&format!("{how:?}"), || assert_holds(&map, &held));
        }
    }
    on_formats_with_values!(body);
}

#[test]
fn a_map_without_room_takes_new_values() {
    fn body<K: Key, V: Value>(on: &Target) {
        let builder = on.builder::<K, V>().growth(Growth::Fixed);
        let map = builder.submap_slots(&[64]).build().unwrap();
        let mut n = 0;
        while map.insert(&[nth_key::<K>(n)], &[value::<V>(n)]).is_ok() {
            n += 1;
        }
        // None of which was there.
        let batch = Batch::<K, V>::numbered(n + 1..2 * n, 1);
        assert_eq!(map.assign(&batch.keys, &batch.values).unwrap(), 0);
        let batch = Batch::<K, V>::numbered(0..2 * n, 2);
        assert_eq!(map.assign(&batch.keys, &batch.values).unwrap() as u64, n);
        let held = batch.bits().take(n as usize).collect();
        assert_holds(&map, &held);
    }
    on_pairs!(body: u32 => u32, u64 => u64);
}

#[test]
fn on_a_stream_and_in_a_graph() {
    fn body<K: Key, V: Value>(on: &Target) {
        let n = on.n(300, 100_000) as u64;
        let map = on.map::<K, V>(n as usize);
        let stream = on.stream();
        let first = Batch::<K, V>::numbered(0..n, 1);
        map.insert(&first.keys, &first.values).unwrap();
        let mut held: Oracle = first.bits().collect();
        let mut assign = |batch: &Batch<K, V>, what: &str, assigned: usize| {
            let there: Vec<_> = present(&held, batch).collect();
            assert_eq!(assigned, there.len(), "{what}");
            held.extend(there);
            noting(what, || assert_holds(&map, &held));
        };

        let second = Batch::<K, V>::numbered(n / 2..2 * n, 2);
        let pending = map.on(&stream).assign(&second.keys, &second.values);
        assign(&second, "from the host", pending.unwrap().wait().unwrap());

        let third = Batch::<K, V>::numbered(n / 3..2 * n, 3);
        let keys = Buffer::from_slice(&stream, &third.keys).unwrap();
        let mut values = Buffer::from_slice(&stream, &third.values).unwrap();
        let pending = map.on(&stream).assign(&keys, &values);
        assign(&third, "from buffers", pending.unwrap().wait().unwrap());

        let mut graph = map.graph(&stream);
        for writer in 4..7 {
            let batch = Batch::<K, V>::numbered(n / 3..2 * n, writer);
            values.copy_from_slice(&batch.values).unwrap();
            let mut verbs = graph.record();
            verbs.merge_present(&keys, &values, Merge::Or).unwrap();
            verbs.assign(&keys, &values).unwrap();
            let counts = verbs.launch().unwrap().wait().unwrap();
            assert_eq!(counts[0], counts[1]);
            assign(&batch, "in a graph", counts[1]);
        }
        assert_eq!(graph.captures(), 1, "the same verbs on the same buffers");
        let other = Batch::<K, V>::numbered(n / 3..2 * n, 8);
        let other_values = Buffer::from_slice(&stream, &other.values).unwrap();
        let mut verbs = graph.record();
        verbs.merge_present(&keys, &values, Merge::Or).unwrap();
        verbs.assign(&keys, &other_values).unwrap();
        let counts = verbs.launch().unwrap().wait().unwrap();
        assign(&other, "other values", counts[1]);

        let ones = Batch::<K, V>::numbered(0..2 * n, 7);
        let pending = map
            .on(&stream)
            .merge_present(&ones.keys, &ones.values, Merge::Max);
        let there: Vec<_> = present(&held, &ones).collect();
        assert_eq!(pending.unwrap().wait().unwrap(), there.len());
        oracle::merge::<V>(&mut held, there, Merge::Max);
        assert_holds(&map, &held);
    }
    on_every_pair!(body);
}

#[test]
fn nothing_and_what_does_not_fit_together() {
    fn body<K: Key, V: Value>(on: &Target) {
        let map = on.map::<K, V>(10);
        let stream = on.stream();
        let batch = Batch::<K, V>::numbered(0..5, 1);
        map.insert(&batch.keys, &batch.values).unwrap();
        assert_eq!(map.assign(&[], &[]).unwrap(), 0);
        let nothing = map.on(&stream).assign(&[], &[]).unwrap();
        assert_eq!(nothing.wait().unwrap(), 0);

        let keys = Buffer::from_slice(&stream, &batch.keys).unwrap();
        let values = Buffer::from_slice(&stream, &batch.values[1..]).unwrap();
        let mut graph = map.graph(&stream);
        let refused = [
            map.assign(&batch.keys, &batch.values[1..]).map(drop),
            map.merge_present(&batch.keys[1..], &batch.values, Merge::Or)
                .map(drop),
            map.on(&stream).assign(&keys, &values).map(drop),
            graph.record().assign(&keys, &values),
        ];
        for (i, result) in refused.into_iter().enumerate() {
            let mismatch = matches!(result, Err(Error::LengthMismatch { .. }));
            assert!(mismatch, "call {i}: {result:?}");
        }
        assert_holds(&map, &batch.bits().collect());
    }
    on_pairs!(body: u32 => u32, u64 => u64);
}
