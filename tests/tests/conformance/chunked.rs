//! Large batches of the host, which go to the device in chunks: the same results as for batches that do
//! not. Chunks are made small, so that small batches have many.

use gpumap::{Buffer, Error, Growth, Key, Map, Merge, Numeric, PinnedBuffer};
use gpumap_tests::device::noting;
use gpumap_tests::faults::try_every_call;
use gpumap_tests::pairs::nth_key;
use gpumap_tests::{
    Batch, Oracle, Shape, Target, assert_holds, on_every_format, on_pairs, oracle, value,
    value_bits,
};

/// Bytes of a chunk at most: of 32 to 256 pairs; on a GPU, where batches are larger, of up to 16,384.
fn small(on: &Target) -> usize {
    on.n(256, 16 << 10)
}

/// A map that takes batches in such chunks, and has room for `n` pairs.
fn map<K: Key, V: Numeric>(on: &Target, n: usize) -> Map<K, V> {
    on.builder()
        .capacity(n)
        .chunking(1, small(on), true)
        .build()
        .unwrap()
}

/// Elements in page-locked memory.
fn in_locked<T: bytemuck::Pod>(on: &Target, elements: &[T]) -> PinnedBuffer<T> {
    let mut buffer = PinnedBuffer::zeroed(on.device(), elements.len()).unwrap();
    buffer.copy_from_slice(elements);
    buffer
}

/// Looks keys up in every way that returns to the host, and compares with what should be there.
fn ask<K: Key, V: Numeric>(on: &Target, map: &Map<K, V>, keys: &[K], held: &Oracle) {
    let n = keys.len();
    let expected: Vec<Option<u64>> = keys
        .iter()
        .map(|&key| held.get(&gpumap_tests::key_bits(key)).copied())
        .collect();
    let bits = |values: &[V]| values.iter().map(|&v| value_bits(v)).collect::<Vec<_>>();

    let got = map.get(keys).unwrap();
    let got: Vec<Option<u64>> = got.into_iter().map(|v| v.map(value_bits)).collect();
    assert_eq!(got, expected, "get of {n}");
    let there: Vec<bool> = expected.iter().map(Option::is_some).collect();
    assert_eq!(map.contains(keys).unwrap(), there, "contains of {n}");

    // Outputs that are longer than the keys: what is after stays as it was.
    let canary: V = value(0x7b7b_7b7b_7b7b_7b7b);
    let mut values = vec![canary; n + 40];
    let mut found = vec![7u8; n + 40];
    map.get_into(keys, &mut values, &mut found).unwrap();
    let or_zero: Vec<u64> = expected.iter().map(|v| v.unwrap_or(0)).collect();
    assert_eq!(bits(&values[..n]), or_zero, "get_into {n}");
    let ones: Vec<u8> = there.iter().map(|&there| there.into()).collect();
    assert_eq!(found[..n], ones, "get_into {n}");
    assert_eq!(bits(&values[n..]), bits(&[canary; 40]), "behind {n}");
    assert_eq!(found[n..], [7; 40], "behind {n}");

    let default: V = value(5);
    let or_default = expected
        .iter()
        .map(|v| v.unwrap_or(value_bits(default)))
        .collect::<Vec<_>>();
    let mut pinned = PinnedBuffer::<V>::zeroed(on.device(), n).unwrap();
    map.get_or_into(keys, default, &mut pinned).unwrap();
    assert_eq!(bits(&pinned), or_default, "get_or_into {n}");
    let new = map.get_or(keys, default).unwrap();
    assert_eq!(bits(&new), or_default, "get_or {n}");

    // All of it page-locked: nothing is copied on the way.
    let locked_keys = in_locked(on, keys);
    let mut locked_found = in_locked(on, &vec![7u8; n]);
    map.get_into(&locked_keys, &mut pinned, &mut locked_found)
        .unwrap();
    assert_eq!(bits(&pinned), or_zero, "get_into, locked {n}");
    assert_eq!(*locked_found, ones, "get_into, locked {n}");
    // Some of it.
    map.get_into(&locked_keys, &mut values, &mut locked_found)
        .unwrap();
    assert_eq!(bits(&values[..n]), or_zero, "get_into, partly locked {n}");
    assert_eq!(*locked_found, ones, "get_into, partly locked {n}");

    found.fill(7);
    map.contains_into(keys, &mut found[..n]).unwrap();
    assert_eq!(found[..n], ones, "contains_into {n}");
    assert_eq!(found[n..], [7; 40], "behind {n}");

    // The device's memory, and some of each.
    let stream = on.stream();
    let mut buffer = Buffer::<V>::zeroed(&stream, n + 2).unwrap();
    let mut part = buffer.slice_mut(1..n + 1).unwrap();
    map.get_into(keys, &mut part, &mut found).unwrap();
    assert_eq!(bits(&buffer.to_vec().unwrap()[1..=n]), or_zero, "both {n}");
    assert_eq!(found[..n], ones, "both {n}");
}

#[test]
fn lookups_tell_the_host() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(2_000, 300_000) as u64;
        let batch = Batch::<K, V>::numbered((0..n).step_by(2), 1);
        let held: Oracle = batch.bits().collect();
        let in_chunks = map::<K, V>(on, n as usize);
        let as_ever = on.map::<K, V>(n as usize);
        for map in [&in_chunks, &as_ever] {
            map.insert(&batch.keys, &batch.values).unwrap();
            for asked in [0, 1, 31, 32, 33, 257, n] {
                let keys: Vec<K> = (0..asked).map(nth_key).collect();
                ask(on, map, &keys, &held);
            }
        }
    }
    on_every_format!(body);
}

#[test]
fn outputs_that_are_too_short_are_refused() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let map = map::<K, V>(on, 100);
        let keys: Vec<K> = (0..100).map(nth_key).collect();
        let (mut values, mut found) = (vec![value::<V>(0); 100], vec![7u8; 99]);
        let short = |outcome: gpumap::Result<()>| {
            let error = outcome.unwrap_err();
            assert!(
                matches!(
                    error,
                    Error::OutputTooSmall {
                        needed: 100,
                        given: 99
                    }
                ),
                "{error:?}"
            );
        };
        short(map.get_into(&keys, &mut values, &mut found));
        short(map.contains_into(&keys, &mut found));
        short(map.get_or_into(&keys, value(1), &mut values[..99]));
        assert_eq!(found, [7; 99]);
    }
    on_pairs!(body: u64 => u64);
}

#[test]
fn the_host_gets_all_pairs_into_its_own_memory() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(3_000, 2_000_000);
        let map = map::<K, V>(on, n);
        let batch = Batch::<K, V>::numbered(0..n as u64, 1);
        map.insert(&batch.keys, &batch.values).unwrap();
        let mut keys = vec![nth_key::<K>(0); n + 5];
        let mut values = vec![value::<V>(0); n + 3];
        let pairs = map.retrieve_all_into(&mut keys, &mut values[..]).unwrap();
        assert_eq!(pairs, n);
        let found = oracle::paired(&keys[..n], &values[..n]);
        oracle::assert_same(&found, &batch.bits().collect(), "retrieve_all_into");
        let error = map.retrieve_all_into(&mut keys[..n - 1], &mut values);
        assert!(
            matches!(error, Err(Error::OutputTooSmall { .. })),
            "{error:?}"
        );
    }
    on_every_format!(body);
}

#[test]
fn keys_without_room_are_placed_after_the_last_chunk() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        // It promises more room than it has.
        let shape = Shape::new::<K, V>(&[8, 64, 8], 1, 3);
        let builder = shape.builder::<K, V>(on).capacity(1_000);
        let map = builder
            .growth(Growth::By(2.0))
            .chunking(1, small(on), true)
            .build()
            .unwrap();
        let batch = Batch::<K, V>::numbered((0..700).chain(0..300), 1);
        let slots = map.slots();
        let new = map.merge(&batch.keys, &batch.values, Merge::Add).unwrap();
        assert_eq!(new, 700);
        assert!(map.slots() > slots, "all of them had room");
        let mut held = Oracle::new();
        oracle::merge::<V>(&mut held, batch.bits(), Merge::Add);
        assert_holds(&map, &held);
    }
    on_pairs!(body: u32 => u32, u64 => u64);
}

#[test]
fn a_batch_without_room_grows_the_map_or_is_refused_as_a_whole() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(2_000, 2_000_000);
        let batch = Batch::<K, V>::numbered(0..n as u64, 1);
        let growing = on.builder().chunking(1, small(on), true).build().unwrap();
        assert_eq!(growing.insert(&batch.keys, &batch.values).unwrap(), n);
        assert_holds(&growing, &batch.bits().collect());

        let fixed: Map<K, V> = on
            .builder()
            .submap_slots(&[n / 4])
            .growth(Growth::Fixed)
            .chunking(1, small(on), true)
            .build()
            .unwrap();
        let (few, many) = (Batch::<K, V>::numbered(0..10, 1), &batch);
        fixed.insert(&few.keys, &few.values).unwrap();
        let error = fixed.insert(&many.keys, &many.values).unwrap_err();
        assert!(matches!(error, Error::Full { partial: false, .. }));
        assert_holds(&fixed, &few.bits().collect());
    }
    on_pairs!(body: u32 => u32, u64 => u64, u64 => ());
}

/// A map with pairs, which takes all batches in chunks that the caller copies: so the same calls fail.
fn one_thread<K: Key, V: Numeric>(on: &Target) -> gpumap::Result<Map<K, V>> {
    let builder = on.builder().hash_seed(1).capacity(1_000);
    let map = builder.chunking(1, 256, false).build()?;
    let pairs = Batch::<K, V>::numbered(0..100, 1);
    map.insert(&pairs.keys, &pairs.values)?;
    Ok(map)
}

#[test]
fn calls_fail_between_chunks() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let more = Batch::<K, V>::numbered(50..250, 2);
        let (keys, values) = (&more.keys, &more.values);
        let build = one_thread::<K, V>;
        try_every_call(on, "insert in chunks", build, |map| {
            map.insert(keys, values)
        });
        try_every_call(on, "merge in chunks", build, |map| {
            map.merge(keys, values, Merge::Add)
        });
        try_every_call(on, "update in chunks", build, |map| {
            map.update(keys, values)
        });
        try_every_call(on, "remove in chunks", build, |map| map.remove(keys));
        try_every_call(on, "get in chunks", build, |map| {
            let values = map.get(keys)?.into_iter();
            Ok(values.map(|v| v.map(value_bits)).collect::<Vec<_>>())
        });
        try_every_call(on, "contains in chunks", build, |map| map.contains(keys));
        try_every_call(on, "get_into in chunks", build, |map| {
            let (mut out, mut found) = (vec![value::<V>(0); 200], vec![0u8; 200]);
            map.get_into(keys, &mut out, &mut found)?;
            Ok((out.into_iter().map(value_bits).collect::<Vec<_>>(), found))
        });
    }
    on_pairs!(body: u32 => u32, u64 => u64, u64 => ());
}

#[test]
fn threads_share_the_lanes() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(600, 50_000) as u64;
        let map = &map::<K, V>(on, 8 * n as usize);
        std::thread::scope(|scope| {
            for caller in 0..4u64 {
                scope.spawn(move || {
                    let batch = Batch::<K, V>::numbered(caller * n..(caller + 1) * n, 1);
                    let held: Oracle = batch.bits().collect();
                    for round in 0..3 {
                        noting(&format!("caller {caller}, round {round}"), || {
                            let new = map.insert(&batch.keys, &batch.values).unwrap();
                            assert_eq!(new, batch.len());
                            for (got, key) in map.get(&batch.keys).unwrap().iter().zip(&batch.keys)
                            {
                                let bits = got.map(value_bits);
                                let key = gpumap_tests::key_bits(*key);
                                assert_eq!(bits, held.get(&key).copied());
                            }
                            assert_eq!(map.remove(&batch.keys).unwrap(), batch.len());
                        });
                    }
                });
            }
        });
        assert!(map.is_empty());
        map.trim();
    }
    on_pairs!(body: u32 => u32, u64 => u64);
}
