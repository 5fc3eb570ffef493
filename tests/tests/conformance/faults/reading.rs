//! Verbs that only look.

use gpumap::{Buffer, Key, Map, Numeric, Result};
use gpumap_tests::faults::{Tally, sorted, try_every_call};
use gpumap_tests::pairs::nth_key;
use gpumap_tests::{Target, on_pairs, value, value_bits};

use super::{HELD, full};

/// As [`try_every_call`], for a verb that changes nothing, whatever happens.
fn look<K: Key, V: Numeric, A: std::fmt::Debug + PartialEq>(
    on: &Target,
    name: &str,
    act: impl Fn(&Map<K, V>) -> Result<A>,
) {
    let Tally {
        after, poisoned, ..
    } = try_every_call(on, name, full::<K, V>, act);
    assert_eq!((after, poisoned), (0, 0), "{name} has changed the map");
}

#[test]
fn lookups() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let some: Vec<K> = (HELD - 10..HELD + 10).map(nth_key).collect();
        let n = some.len();
        look::<K, V, _>(on, "get", |map| {
            let values = map.get(&some)?;
            Ok(values
                .into_iter()
                .map(|v| v.map(value_bits))
                .collect::<Vec<_>>())
        });
        look::<K, V, _>(on, "get_or", |map| {
            let values = map.get_or(&some, value(3))?;
            Ok(values.into_iter().map(value_bits).collect::<Vec<_>>())
        });
        look::<K, V, _>(on, "contains", |map| map.contains(&some));
        look::<K, V, _>(on, "get_into", |map| {
            let stream = gpumap::Stream::new(map.device())?;
            let keys = Buffer::from_slice(&stream, &some)?;
            let mut values = Buffer::<V>::zeroed(&stream, n)?;
            let mut found = Buffer::zeroed(&stream, n)?;
            map.get_into(&keys, &mut values, &mut found)?;
            found.to_vec()
        });
        look::<K, V, _>(on, "get_or_into", |map| {
            let stream = gpumap::Stream::new(map.device())?;
            let mut values = Buffer::<V>::zeroed(&stream, n)?;
            map.get_or_into(&some, value(3), &mut values)?;
            let values = values.to_vec()?;
            Ok(values.into_iter().map(value_bits).collect::<Vec<_>>())
        });
        look::<K, V, _>(on, "contains_into", |map| {
            let stream = gpumap::Stream::new(map.device())?;
            let mut found = Buffer::zeroed(&stream, n)?;
            map.contains_into(&some, &mut found)?;
            found.to_vec()
        });
    }
    on_pairs!(body: u32 => u32, u64 => u64, u64 => ());
}

#[test]
fn dumps() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        look::<K, V, _>(on, "retrieve_all", |map| map.retrieve_all().map(sorted));
        look::<K, V, _>(on, "retrieve_all_into", |map| {
            let stream = gpumap::Stream::new(map.device())?;
            let mut keys = Buffer::<K>::zeroed(&stream, map.len())?;
            let mut values = Buffer::<V>::zeroed(&stream, map.len())?;
            map.retrieve_all_into(&mut keys, &mut values)?;
            Ok(sorted((keys.to_vec()?, values.to_vec()?)))
        });
        look::<K, V, _>(on, "retrieve_all_stable", |map| {
            map.retrieve_all_stable().map(sorted)
        });
        look::<K, V, _>(on, "chunks", |map| {
            let (mut keys, mut values) = (Vec::new(), Vec::new());
            for chunk in map.chunks(16) {
                let chunk = chunk?;
                keys.extend_from_slice(chunk.keys());
                values.extend_from_slice(chunk.values());
            }
            Ok(sorted((keys, values)))
        });
        look::<K, V, _>(on, "stats", |map| {
            map.stats().map(|stats| stats.probe_lengths)
        });
    }
    on_pairs!(body: u32 => u32, u64 => u64, u64 => ());
}
