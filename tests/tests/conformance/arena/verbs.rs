//! Each verb, for every size of value.

use std::collections::HashMap;

use gpumap::{Buffer, Error, Growth, Key, Map, Outcome, Value};
use gpumap_tests::blob::{assert_cells_add_up, blob, blobs, cells, run, store, tag, tags};
use gpumap_tests::pairs::{nth_key, patterns};
use gpumap_tests::{Shape, Target, key, key_bits, on_blobs_by_row, on_every_blob};

/// The keys of these numbers.
fn keys<K: Key>(numbers: impl IntoIterator<Item = u64>) -> Vec<K> {
    numbers.into_iter().map(nth_key).collect()
}

/// What a map holds that has these keys, by number, with these tags.
fn held<K: Key>(pairs: impl IntoIterator<Item = (u64, u64)>) -> HashMap<u64, u64> {
    let pair = |(i, tag)| (key_bits(nth_key::<K>(i)), tag);
    pairs.into_iter().map(pair).collect()
}

#[test]
fn insert_upsert_get_and_remove() {
    fn body<K: Key, V: Value + PartialEq + std::fmt::Debug>(on: &Target) {
        let n = on.n(1_000, 200_000) as u64;
        // With room from the start, and growing all the way.
        for capacity in [3 * n as usize, 0] {
            let map: Map<K, V> = on.map(capacity);
            let (first, second) = (keys::<K>(0..n), keys::<K>(n / 2..n + n / 2));
            assert_eq!(map.insert(&first, &blobs(0..n)).unwrap(), n as usize);
            let again = blobs::<V>(5 * n..6 * n);
            assert_eq!(map.insert(&second, &again).unwrap(), n as usize / 2);
            assert_eq!(map.len(), (n + n / 2) as usize);
            let tag_of = |i| if i < n { i } else { 5 * n + i - n / 2 };
            assert_eq!(
                tags(&map),
                held::<K>((0..n + n / 2).map(|i| (i, tag_of(i))))
            );
            assert_cells_add_up(&map);

            assert_eq!(map.upsert(&second, &again).unwrap(), 0);
            let asked = keys::<K>(0..2 * n);
            let expected = |i| match i {
                i if i < n / 2 => Some(blob(i)),
                i if i < n + n / 2 => Some(blob(5 * n + i - n / 2)),
                _ => None,
            };
            let found = map.get(&asked).unwrap();
            assert_eq!(found, (0..2 * n).map(expected).collect::<Vec<_>>());
            let there = map.contains(&asked).unwrap();
            assert!(
                there
                    .iter()
                    .zip(&found)
                    .all(|(&there, v)| there == v.is_some())
            );
            assert_cells_add_up(&map);

            assert_eq!(
                map.remove(&first[..n as usize / 4]).unwrap(),
                n as usize / 4
            );
            assert_eq!(map.remove(&first[..n as usize / 4]).unwrap(), 0);
            let taken = map.take(&first[..n as usize / 2]).unwrap();
            let expected = |i| (i >= n / 4).then(|| blob(i));
            assert_eq!(taken, (0..n / 2).map(expected).collect::<Vec<_>>());
            assert_eq!(map.len(), n as usize);
            assert_cells_add_up(&map);
        }
    }
    on_every_blob!(body);
    on_blobs_by_row!(body);
}

#[test]
fn arrays_of_any_length_are_values() {
    fn body<const N: usize>(on: &Target) {
        let map: Map<u32, [u8; N]> = on.map(0);
        let n = 200;
        let (keys, values) = (keys::<u32>(0..n), blobs::<[u8; N]>(0..n));
        assert_eq!(map.insert(&keys, &values).unwrap(), n as usize);
        let found = map.get(&keys).unwrap();
        assert!(found.into_iter().eq(values.into_iter().map(Some)));
        assert_cells_add_up(&map);
    }
    // Lengths that are no powers of two, odd ones and the longest.
    run::<u32, [u8; 33]>(body::<33>);
    run::<u32, [u8; 100]>(body::<100>);
    run::<u32, [u8; 255]>(body::<255>);
    run::<u32, [u8; 256]>(body::<256>);
}

#[test]
fn values_below_nine_bytes_work_as_well() {
    fn body<V: Value>(on: &Target) {
        let map: Map<u64, V> = on.map(0);
        let n = 700;
        assert_eq!(
            map.upsert(&keys::<u64>(0..n), &blobs(0..n)).unwrap(),
            n as usize
        );
        let bits = 8 * size_of::<V>().min(8);
        let cut = |tag: u64| tag & (u64::MAX >> (64 - bits));
        assert_eq!(tags(&map), held::<u64>((0..n).map(|i| (i, cut(i)))));
        assert_cells_add_up(&map);
    }
    run::<u64, u8>(body::<u8>);
    run::<u64, [u8; 2]>(body::<[u8; 2]>);
    run::<u64, [u8; 5]>(body::<[u8; 5]>);
    run::<u64, [u32; 2]>(body::<[u32; 2]>);
}

#[test]
fn a_batch_with_one_key_many_times() {
    fn body<K: Key, V: Value>(on: &Target) {
        let n = on.n(600, 100_000) as u64;
        let map: Map<K, V> = on.map(0);
        let batch = keys::<K>((0..n).map(|i| i % 3));
        let outcomes = map.insert_with_outcome(&batch, &blobs(0..n)).unwrap();
        let stored = outcomes.iter().filter(|&&o| o == Outcome::Inserted);
        assert_eq!((stored.count(), map.len()), (3, 3));
        let before = tags(&map);
        for (i, outcome) in outcomes.iter().enumerate() {
            if *outcome == Outcome::Inserted {
                assert_eq!(before[&key_bits(batch[i])], i as u64);
            }
        }
        assert_cells_add_up(&map);

        let values = map.get_or_insert(&batch, &blobs(n..2 * n)).unwrap();
        for (k, v) in batch.iter().zip(&values) {
            assert_eq!(tag(v), before[&key_bits(*k)]);
        }
        assert_cells_add_up(&map);

        assert_eq!(map.upsert(&batch, &blobs(2 * n..3 * n)).unwrap(), 0);
        for (k, tag) in tags(&map) {
            let i = tag.checked_sub(2 * n).expect("a new value") as usize;
            assert_eq!(key_bits(batch[i]), k, "the value of another key");
        }
        assert_cells_add_up(&map);

        // Half of them are of absent keys.
        let batch = keys::<K>((0..n).map(|i| i % 6));
        let assigned = map.update(&batch, &blobs(3 * n..4 * n)).unwrap();
        assert_eq!(assigned, (0..n).filter(|i| i % 6 < 3).count());
        assert_eq!(map.len(), 3);
        for (k, tag) in tags(&map) {
            let i = tag.checked_sub(3 * n).expect("a new value") as usize;
            assert_eq!(key_bits(batch[i]), k, "the value of another key");
        }
        assert_cells_add_up(&map);
        assert_eq!(map.update(&[] as &[K], &[] as &[V]).unwrap(), 0);
        assert_cells_add_up(&map);

        let batch = keys::<K>((0..n).map(|i| i % 3));
        let taken = map.take(&batch).unwrap();
        assert_eq!(taken.iter().flatten().count(), 3);
        assert!(map.is_empty());
        assert_cells_add_up(&map);
        // All at once into a map without them.
        assert_eq!(map.upsert(&batch, &blobs(0..n)).unwrap(), 3);
        assert_eq!(tags(&map).len(), 3);
        assert_cells_add_up(&map);
    }
    on_every_blob!(body);
    on_blobs_by_row!(body);
}

#[test]
fn get_or_insert_tells_what_the_map_holds() {
    fn body<K: Key, V: Value>(on: &Target) {
        let n = on.n(500, 100_000) as u64;
        let map: Map<K, V> = on.map(0);
        map.insert(&keys::<K>(0..n), &blobs(0..n)).unwrap();
        let values = map
            .get_or_insert(&keys::<K>(n / 2..2 * n), &blobs(10 * n..10 * n + n + n / 2))
            .unwrap();
        let expected = |i| if i < n { i } else { 10 * n + i - n / 2 };
        for (i, v) in (n / 2..2 * n).zip(&values) {
            assert_eq!(tag(v), expected(i));
        }
        assert_eq!(tags(&map), held::<K>((0..2 * n).map(|i| (i, expected(i)))));
        assert_cells_add_up(&map);
    }
    on_every_blob!(body);
    on_blobs_by_row!(body);
}

#[test]
fn keys_of_every_pattern() {
    fn body<K: Key, V: Value>(on: &Target) {
        let all: Vec<K> = patterns(size_of::<K>()).into_iter().map(key).collect();
        let n = all.len() as u64;
        let map: Map<K, V> = on.map(0);
        // Often enough that the slots of the reserved keys are used up, and used again.
        for round in 0..12 {
            let values = blobs::<V>(round * n..(round + 1) * n);
            assert_eq!(map.upsert(&all, &values).unwrap(), n as usize);
            assert_eq!(map.upsert(&all, &values).unwrap(), 0);
            for (i, v) in map.get(&all).unwrap().iter().enumerate() {
                assert_eq!(v.as_ref().map(tag), Some(round * n + i as u64));
            }
            assert_eq!(map.remove(&all).unwrap(), n as usize);
            assert_cells_add_up(&map);
        }
    }
    on_every_blob!(body);
    on_blobs_by_row!(body);
}

#[test]
fn inputs_and_outputs_on_the_device() {
    fn body<K: Key, V: Value>(on: &Target) {
        let n = on.n(900, 100_000) as u64;
        let stream = on.stream();
        let map: Map<K, V> = on.map(0);
        let batch = Buffer::from_slice(&stream, &keys::<K>(0..n)).unwrap();
        let values = Buffer::from_slice(&stream, &blobs::<V>(0..n)).unwrap();
        map.upsert(&batch, &values).unwrap();
        // From the middle of a buffer, where a value need not be aligned to more than its words.
        let odd = values.slice(1..3).unwrap();
        map.upsert(&keys::<K>([n, n + 1]), &odd).unwrap();
        let mut found = Buffer::<u8>::zeroed(&stream, n as usize).unwrap();
        let mut out = Buffer::<V>::zeroed(&stream, n as usize).unwrap();
        let asked = keys::<K>((0..n).map(|i| 2 * i));
        map.get_into(&asked, &mut out, &mut found).unwrap();
        let (mut on_host, mut found_on_host) = (blobs::<V>(0..n), vec![7; n as usize]);
        map.get_into(&asked, &mut on_host, &mut found_on_host)
            .unwrap();
        let on_device = (out.to_vec().unwrap(), found.to_vec().unwrap());
        for (out, found) in [on_device, (on_host, found_on_host)] {
            for (i, (v, found)) in out.iter().zip(found).enumerate() {
                let i = 2 * i as u64;
                let expected = match i {
                    i if i < n => (i, 1),
                    i if i < n + 2 => (i - n + 1, 1),
                    _ => (0, 0),
                };
                assert_eq!((tag(v), found), expected);
            }
        }
        let mut out_keys = Buffer::<K>::zeroed(&stream, map.len()).unwrap();
        let mut out = Buffer::<V>::zeroed(&stream, map.len()).unwrap();
        assert_eq!(
            map.retrieve_all_into(&mut out_keys, &mut out).unwrap(),
            map.len()
        );
        let (out_keys, out) = (out_keys.to_vec().unwrap(), out.to_vec().unwrap());
        let mut on_host = (keys::<K>(0..n + 2), blobs::<V>(0..n + 3));
        let pairs = map.retrieve_all_into(&mut on_host.0, &mut on_host.1);
        assert_eq!(pairs.unwrap(), map.len());
        for (keys, values) in [(out_keys, out), on_host] {
            let pairs = keys.iter().zip(&values);
            let dumped: HashMap<u64, u64> = pairs.map(|(&k, v)| (key_bits(k), tag(v))).collect();
            assert_eq!(dumped, tags(&map));
        }
        let mut short = Buffer::<V>::zeroed(&stream, map.len() - 1).unwrap();
        let mut out_keys = Buffer::<K>::zeroed(&stream, map.len()).unwrap();
        assert!(matches!(
            map.retrieve_all_into(&mut out_keys, &mut short),
            Err(Error::OutputTooSmall { .. })
        ));
    }
    on_every_blob!(body);
    on_blobs_by_row!(body);
}

#[test]
fn empty_batches_and_lengths_that_differ() {
    fn body<K: Key, V: Value>(on: &Target) {
        let map: Map<K, V> = on.map(0);
        let (none, no_values) = (Vec::<K>::new(), Vec::<V>::new());
        assert_eq!(map.insert(&none, &no_values).unwrap(), 0);
        assert_eq!(map.upsert(&none, &no_values).unwrap(), 0);
        assert!(map.get_or_insert(&none, &no_values).unwrap().is_empty());
        assert!(map.get(&none).unwrap().is_empty());
        assert_eq!(map.remove(&none).unwrap(), 0);
        assert!(map.take(&none).unwrap().is_empty());
        assert!(matches!(
            map.upsert(&keys::<K>(0..2), &blobs::<V>(0..3)),
            Err(Error::LengthMismatch { keys: 2, values: 3 })
        ));
        assert!(map.retrieve_all().unwrap().0.is_empty());
        assert_cells_add_up(&map);
    }
    on_every_blob!(body);
    on_blobs_by_row!(body);
}

#[test]
fn clear_drain_and_retain_keys() {
    fn body<K: Key, V: Value>(on: &Target) {
        let n = on.n(800, 100_000) as u64;
        let map: Map<K, V> = on.map(0);
        let all = keys::<K>(0..n);
        map.upsert(&all, &blobs(0..n)).unwrap();
        map.upsert(&all, &blobs(n..2 * n)).unwrap();
        let kept = keys::<K>((0..2 * n).filter(|i| i % 3 == 0));
        let removed = map.retain_keys(&kept).unwrap();
        assert_eq!(removed as u64, n - n.div_ceil(3));
        let thirds = (0..n).filter(|i| i % 3 == 0).map(|i| (i, n + i));
        assert_eq!(tags(&map), held::<K>(thirds.clone()));
        assert_cells_add_up(&map);
        // What was given up is used again.
        let before = cells(&map).cells;
        map.insert(&all, &blobs(2 * n..3 * n)).unwrap();
        assert_eq!(cells(&map).cells, before);
        let (drained, values) = map.drain().unwrap();
        assert_eq!((drained.len(), values.len()), (n as usize, n as usize));
        let pairs = drained.iter().zip(&values);
        let drained: HashMap<u64, u64> = pairs.map(|(&k, v)| (key_bits(k), tag(v))).collect();
        let third = |i: u64| {
            if i.is_multiple_of(3) {
                n + i
            } else {
                2 * n + i
            }
        };
        assert_eq!(drained, held::<K>((0..n).map(|i| (i, third(i)))));
        assert!(map.is_empty());
        assert_cells_add_up(&map);
        map.upsert(&all, &blobs(0..n)).unwrap();
        map.clear().unwrap();
        assert_eq!((map.len(), cells(&map).live), (0, 0));
        assert_eq!(map.get(&all).unwrap().iter().flatten().count(), 0);
        assert_cells_add_up(&map);
    }
    on_every_blob!(body);
}

#[test]
fn a_map_that_does_not_grow_refuses_pairs_and_updates_what_it_has() {
    fn body<K: Key, V: Value>(on: &Target) {
        let n = on.n(500, 50_000) as u64;
        let builder = on.builder::<K, V>().capacity(n as usize);
        let map = builder.growth(Growth::Fixed).build().unwrap();
        let all = keys::<K>(0..n);
        map.insert(&all, &blobs(0..n)).unwrap();
        // As many slots as there are; more keys than these.
        let more = 2 * map.slots() as u64 + 100;
        let too_many = keys::<K>(0..n + more);
        for upserts in [false, true] {
            let refused = store(&map, upserts, &too_many, &blobs(n..2 * n + more));
            assert!(matches!(refused, Err(Error::Full { partial: false, .. })));
            assert_eq!(tags(&map), held::<K>((0..n).map(|i| (i, i))));
            assert_cells_add_up(&map);
        }
        assert_eq!(map.upsert(&all, &blobs(n..2 * n)).unwrap(), 0);
        assert_eq!(tags(&map), held::<K>((0..n).map(|i| (i, n + i))));
        assert_cells_add_up(&map);
    }
    on_every_blob!(body);
    on_blobs_by_row!(body);
}

#[test]
fn a_batch_of_which_a_part_is_stored_keeps_its_cells_apart() {
    fn body<K: Key, V: Value>(on: &Target) {
        for upserts in [false, true] {
            // More capacity than its submaps have slots, as in `full.rs`.
            let shape = Shape::new::<K, u32>(&[8, 64, 8], 1, 3);
            let builder = shape.builder::<K, V>(on).capacity(1_000);
            let map: Map<K, V> = builder.build().unwrap();
            let batch = keys::<K>((0..400).map(|i| i % 300));
            let values = blobs::<V>(0..400);
            let refused = store(&map, upserts, &batch, &values);
            assert!(matches!(refused, Err(Error::Full { partial: true, .. })));
            assert_eq!(map.len(), map.slots());
            for (k, tag) in tags(&map) {
                assert_eq!(key_bits(batch[tag as usize]), k, "the value of another key");
            }
            assert_cells_add_up(&map);
        }
    }
    on_every_blob!(body);
}

#[test]
fn reserve_and_shrink() {
    fn body<K: Key, V: Value>(on: &Target) {
        let n = on.n(6_000, 100_000) as u64;
        let map: Map<K, V> = on.map(0);
        map.insert(&keys::<K>(0..10), &blobs(0..10)).unwrap();
        let small = cells(&map);
        map.reserve(n as usize).unwrap();
        let large = cells(&map);
        assert!(map.capacity() >= n as usize + 10 && large.free >= n as usize);
        assert!(large.arena_bytes > small.arena_bytes);
        // The reserved segment has nothing in it, and goes.
        map.shrink_to_fit().unwrap();
        let shrunk = cells(&map);
        assert_eq!(shrunk.cells, small.cells);
        assert_eq!(tags(&map), held::<K>((0..10).map(|i| (i, i))));
        assert_cells_add_up(&map);
        // Its ids are used again.
        map.insert(&keys::<K>(0..n), &blobs(0..n)).unwrap();
        assert_eq!(tags(&map), held::<K>((0..n).map(|i| (i, i))));
        assert_cells_add_up(&map);
        // A segment in the middle goes; the gap that it leaves is filled.
        let first = cells(&map).cells;
        map.insert(&keys::<K>(n..3 * n), &blobs(n..3 * n)).unwrap();
        map.insert(&keys::<K>(3 * n..9 * n), &blobs(3 * n..9 * n))
            .unwrap();
        let all = cells(&map).cells;
        map.remove(&keys::<K>(n..3 * n)).unwrap();
        map.shrink_to_fit().unwrap();
        let less = cells(&map).cells;
        assert!(first < less && less < all, "{first} {less} {all} cells");
        assert_cells_add_up(&map);
        map.insert(&keys::<K>(n..3 * n), &blobs(n..3 * n)).unwrap();
        assert_eq!(tags(&map), held::<K>((0..9 * n).map(|i| (i, i))));
        assert_cells_add_up(&map);
        map.clear().unwrap();
        map.shrink_to_fit().unwrap();
        assert_eq!(cells(&map).cells, 0);
        map.upsert(&keys::<K>(0..n), &blobs(0..n)).unwrap();
        assert_eq!(tags(&map), held::<K>((0..n).map(|i| (i, i))));
    }
    run::<u64, [u64; 3]>(body::<u64, [u64; 3]>);
    run::<u32, gpumap_tests::blob::Bytes<31>>(body::<u32, gpumap_tests::blob::Bytes<31>>);
}
