//! `update` and `update_with`: present keys get new values, absent keys stay absent, and the map stays as large as
//! it is.

use gpumap::{Buffer, Error, Growth, Key, Merge, Numeric};
use gpumap_tests::device::noting;
use gpumap_tests::pairs::nth_key;
use gpumap_tests::{
    Batch, Oracle, Target, assert_holds, on_formats_with_values, on_pairs, oracle, value,
};

/// The pairs of a batch whose keys are present.
fn present<'a, K: Key, V: Numeric>(
    held: &'a Oracle,
    batch: &'a Batch<K, V>,
) -> impl Iterator<Item = (u64, u64)> + 'a {
    batch.bits().filter(|(k, _)| held.contains_key(k))
}

#[test]
fn merging_into_present_keys_equals_plain_rust() {
    fn body<K: Key, V: Numeric>(on: &Target) {
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
            let merged = map.update_with(&batch.keys, &batch.values, how);
            assert_eq!(merged.unwrap(), there.len(), "{how:?}");
            assert_eq!(oracle::merge::<V>(&mut held, there, how), 0);
            noting(&format!("{how:?}"), || assert_holds(&map, &held));
        }
    }
    on_formats_with_values!(body);
}

#[test]
fn a_map_without_room_takes_new_values() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let builder = on.builder::<K, V>().growth(Growth::Fixed);
        let map = builder.submap_slots(&[64]).build().unwrap();
        let mut n = 0;
        while map.insert(&[nth_key::<K>(n)], &[value::<V>(n)]).is_ok() {
            n += 1;
        }
        // None of which was there.
        let batch = Batch::<K, V>::numbered(n + 1..2 * n, 1);
        assert_eq!(map.update(&batch.keys, &batch.values).unwrap(), 0);
        let batch = Batch::<K, V>::numbered(0..2 * n, 2);
        assert_eq!(map.update(&batch.keys, &batch.values).unwrap() as u64, n);
        let held = batch.bits().take(n as usize).collect();
        assert_holds(&map, &held);
    }
    on_pairs!(body: u32 => u32, u64 => u64);
}

#[test]
fn nothing_and_what_does_not_fit_together() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let map = on.map::<K, V>(10);
        let stream = on.stream();
        let batch = Batch::<K, V>::numbered(0..5, 1);
        map.insert(&batch.keys, &batch.values).unwrap();
        assert_eq!(map.update(&[], &[]).unwrap(), 0);
        let nothing = map.on(&stream).update(&[], &[]).unwrap();
        assert_eq!(nothing.wait().unwrap(), 0);

        let keys = Buffer::from_slice(&stream, &batch.keys).unwrap();
        let values = Buffer::from_slice(&stream, &batch.values[1..]).unwrap();
        let mut graph = map.graph(&stream);
        let refused = [
            map.update(&batch.keys, &batch.values[1..]).map(drop),
            map.update_with(&batch.keys[1..], &batch.values, Merge::Or)
                .map(drop),
            map.on(&stream).update(&keys, &values).map(drop),
            graph.record().update(&keys, &values),
        ];
        for (i, result) in refused.into_iter().enumerate() {
            let mismatch = matches!(result, Err(Error::LengthMismatch { .. }));
            assert!(mismatch, "call {i}: {result:?}");
        }
        assert_holds(&map, &batch.bits().collect());
    }
    on_pairs!(body: u32 => u32, u64 => u64);
}
