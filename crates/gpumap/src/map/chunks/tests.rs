//! Every pair exactly once, whatever happens to the map meanwhile.

use std::collections::HashMap;
use std::thread;

use super::*;
use crate::device::Device;
use crate::map::Growth;
use crate::testing::{on_each_back_end, on_every_device};
use crate::{Buffer, Error, Stream};

/// A map of several submaps and chunks, with keys whose bits mean a state of a slot among others.
fn sample(device: &Device, pairs: u64) -> Map<u64, u64> {
    let map = Map::builder(device)
        .capacity(pairs as usize)
        .submaps(3)
        .build()
        .unwrap();
    let keys = keys(pairs);
    assert_eq!(map.insert(&keys, &keys).unwrap(), keys.len());
    map
}

fn keys(pairs: u64) -> Vec<u64> {
    (0..pairs - 3).chain([!0, !0 - 1, !0 - 2]).collect()
}

/// How often each key was reported; every value must be its key.
fn count<'a>(chunks: impl Iterator<Item = &'a Chunk<u64, u64>>) -> HashMap<u64, usize> {
    let mut seen = HashMap::new();
    for chunk in chunks {
        assert!(!chunk.is_empty());
        for (key, value) in chunk.iter() {
            assert_eq!(key, value);
            *seen.entry(key).or_default() += 1;
        }
    }
    seen
}

#[track_caller]
fn each_once(seen: &HashMap<u64, usize>, keys: &[u64]) {
    for key in keys {
        assert_eq!(seen.get(key), Some(&1), "key {key:#x}");
    }
}

#[test]
fn every_pair_once_in_parts_of_any_size() {
    on_every_device(|device| {
        let map = sample(device, 20_000);
        for pairs in [0, 1, 2_048, 5_000, 10_000, usize::MAX] {
            let chunks: Vec<_> = map.chunks(pairs).map(Result::unwrap).collect();
            assert!(chunks.iter().all(|chunk| chunk.len() <= pairs.max(2_048)));
            let seen = count(chunks.iter());
            assert_eq!(seen.len(), 20_000);
            each_once(&seen, &keys(20_000));
        }
        let mut none = map.chunks(1);
        map.clear().unwrap();
        assert!(none.next().is_none() && none.next().is_none());
    });
}

#[test]
fn pairs_of_eight_bytes() {
    on_every_device(|device| {
        let pairs = (0..30_000u32).map(|i| (!i, i as f32));
        let map: Map<u32, f32> = Map::from_pairs(device, pairs).unwrap();
        let mut all = Vec::new();
        for chunk in map.chunks(6_000) {
            let chunk = chunk.unwrap();
            assert!(chunk.len() <= 6_000);
            assert_eq!(chunk.keys().len(), chunk.values().len());
            all.extend(chunk.iter().map(|(key, value)| (!key, value)));
        }
        all.sort_by_key(|&(key, _)| key);
        assert!(
            all.iter()
                .enumerate()
                .all(|(i, &(key, value))| { key as usize == i && value == i as f32 })
        );
        assert_eq!(all.len(), 30_000);
    });
}

/// Takes one part, does something to the map on the same thread, takes the rest.
fn interrupted(map: &Map<u64, u64>, act: impl FnOnce()) -> HashMap<u64, usize> {
    let mut chunks = map.chunks(2_048);
    let mut taken = vec![chunks.next().unwrap().unwrap()];
    act();
    taken.extend(chunks.map(Result::unwrap));
    count(taken.iter())
}

#[test]
fn a_map_that_is_rebuilt_meanwhile() {
    on_each_back_end(|device| {
        let kept = keys(20_000);
        let more: Vec<u64> = (1 << 32..(1 << 32) + 60_000).collect();
        for submaps in [1, 3] {
            let map: Map<u64, u64> = Map::builder(device).submaps(submaps).build().unwrap();
            map.insert(&kept, &kept).unwrap();
            let slots = map.slots();
            let seen = interrupted(&map, || {
                map.insert(&more, &more).unwrap();
                assert!(map.slots() > slots, "it has grown");
                map.remove(&more).unwrap();
                map.shrink_to_fit().unwrap();
            });
            each_once(&seen, &kept);
            assert_eq!(
                seen.len(),
                kept.len(),
                "what came after it grew is not reported"
            );
            // Nothing of the old table is left.
            let seen = count(
                map.chunks(4_096)
                    .map(Result::unwrap)
                    .collect::<Vec<_>>()
                    .iter(),
            );
            each_once(&seen, &kept);
        }
    });
}

#[test]
fn the_old_table_is_freed_with_the_iterator() {
    let device = Device::cpu().with_memory_budget(u64::MAX);
    let map = sample(&device, 20_000);
    let mut chunks = map.chunks(2_048);
    drop(chunks.next());
    map.reserve(100_000).unwrap();
    let with_both = device.allocated_bytes();
    drop(chunks);
    map.trim();
    let table = map.stats().unwrap().table_bytes;
    map.trim();
    assert!(with_both > table + 20_000 * 16);
    assert!(device.allocated_bytes() < table + 10_000);
}

#[test]
fn a_map_that_loses_pairs_meanwhile() {
    on_every_device(|device| {
        let all = keys(20_000);
        let (kept, gone) = all.split_at(10_000);

        let map = sample(device, 20_000);
        let seen = interrupted(&map, || assert_eq!(map.remove(gone).unwrap(), 10_000));
        each_once(&seen, kept);
        assert!(gone.iter().any(|key| !seen.contains_key(key)));

        // Pairs that stay lie elsewhere afterwards.
        let map = sample(device, 20_000);
        let seen = interrupted(&map, || assert_eq!(map.retain_keys(kept).unwrap(), 10_000));
        each_once(&seen, kept);
        assert_eq!(map.len(), kept.len());
        assert!(map.contains(kept).unwrap().iter().all(|&there| there));

        let map = sample(device, 20_000);
        let seen = interrupted(&map, || map.clear().unwrap());
        assert!(seen.len() < 20_000 && seen.values().all(|&times| times == 1));
    });
}

#[test]
fn beside_writers() {
    on_every_device(|device| {
        let kept = keys(12_000);
        let map: Map<u64, u64> = Map::new(device).unwrap();
        map.insert(&kept, &kept).unwrap();
        thread::scope(|scope| {
            let map = &map;
            let writer = scope.spawn(move || {
                for part in 1..12u64 {
                    let more: Vec<u64> = (part << 40..(part << 40) + 3_000).collect();
                    map.insert(&more, &more).unwrap();
                    map.remove(&more[..1_500]).unwrap();
                }
            });
            while !writer.is_finished() {
                let taken: Vec<_> = map.chunks(2_048).map(Result::unwrap).collect();
                each_once(&count(taken.iter()), &kept);
            }
        });
    });
}

#[test]
fn a_map_that_has_no_memory_to_grow_meanwhile() {
    let kept = keys(20_000);
    let mut outcomes = [0, 0];
    for spare in (0..3 << 20).step_by(1 << 18) {
        let device = Device::cpu().with_memory_budget((1 << 20) + spare);
        let map = sample(&device, 20_000);
        let seen = interrupted(&map, || match map.reserve(100_000) {
            Ok(()) => outcomes[0] += 1,
            Err(Error::OutOfMemory { .. }) => outcomes[1] += 1,
            Err(error) => panic!("{error}"),
        });
        each_once(&seen, &kept);
        assert!(map.contains(&kept).unwrap().iter().all(|&there| there));
        let all = count(map.chunks(1).map(Result::unwrap).collect::<Vec<_>>().iter());
        each_once(&all, &kept);
        assert_eq!(all.len(), kept.len());
    }
    assert!(outcomes.iter().all(|&times| times > 0), "{outcomes:?}");
}

/// Pairs could be put back into the same table, in which the dump has yet to see them.
#[test]
fn a_map_that_has_no_memory_for_a_second_table_meanwhile() {
    let all = keys(20_000);
    let kept = &all[10_000..];
    let device = Device::cpu().with_memory_budget(8 << 20);
    let map = sample(&device, 20_000);
    // For scratch, not for a second table.
    let left = map.stats().unwrap().table_bytes / 3 * 2;
    let stream = Stream::new(&device).unwrap();
    let mut taken = None;
    let seen = interrupted(&map, || {
        let rest = (8 << 20) - device.allocated_bytes() - left;
        taken = Some(Buffer::<u8>::unwritten(&stream, rest as usize).unwrap());
        let refused = map.retain_keys(kept);
        assert!(
            matches!(refused, Err(Error::OutOfMemory { .. })),
            "{refused:?}"
        );
    });
    each_once(&seen, &all);
    assert_eq!(map.len(), all.len());
    // When no dump is in progress any more.
    assert_eq!(map.retain_keys(kept).unwrap(), 10_000);
    drop(taken);
    assert!(map.contains(kept).unwrap().iter().all(|&there| there));
}

#[test]
fn too_little_memory_is_an_error_and_the_end() {
    let device = Device::cpu().with_memory_budget(1 << 20);
    let map: Map<u64, u64> = Map::builder(&device)
        .capacity(20_000)
        .growth(Growth::Fixed)
        .build()
        .unwrap();
    map.insert(&[1], &[1]).unwrap();
    let mut chunks = map.chunks(usize::MAX);
    assert!(matches!(
        chunks.next(),
        Some(Err(Error::OutOfMemory { .. }))
    ));
    assert!(chunks.next().is_none());
    assert_eq!(map.chunks(1).next().unwrap().unwrap().keys(), [1]);
}
