//! Maps of large values: no cell is lost either, see their [`Subject`](gpumap_tests::faults::Subject).

use gpumap::{Growth, Key, Map, Result};
use gpumap_tests::Target;
use gpumap_tests::blob::{Bytes, blobs, run, tag};
use gpumap_tests::faults::{
    Exception, sorted, try_every_call, try_every_call_but, try_every_call_of_making,
};
use gpumap_tests::pairs::nth_key;

use super::{HELD, builder};

/// Values of a size that no slot has room for.
type Value = Bytes<9>;

/// A map with room and cells for `capacity` pairs that holds [`HELD`], of which some were replaced.
fn filled<K: Key>(on: &Target, capacity: usize) -> Result<Map<K, Value>> {
    let empty = builder::<K, Value>(on).page_slabs(4);
    let map = empty.capacity(capacity).build()?;
    let keys: Vec<K> = (0..HELD).map(nth_key).collect();
    map.insert(&keys, &blobs::<Value>(0..HELD))?;
    map.upsert(&keys[..9], &blobs::<Value>(100..109))?;
    Ok(map)
}

fn roomy<K: Key>(on: &Target) -> Result<Map<K, Value>> {
    filled(on, 400)
}

fn full<K: Key>(on: &Target) -> Result<Map<K, Value>> {
    filled(on, 0)
}

/// As [`full`], and must not grow: cells that were replaced are used again.
fn fixed<K: Key>(on: &Target) -> Result<Map<K, Value>> {
    let empty = builder::<K, Value>(on).growth(Growth::Fixed);
    let map = empty.capacity(2 * HELD as usize).build()?;
    let keys: Vec<K> = (0..HELD).map(nth_key).collect();
    for round in 0..5 {
        map.upsert(&keys, &blobs::<Value>(round * HELD..(round + 1) * HELD))?;
    }
    Ok(map)
}

type Build<K> = fn(&Target) -> Result<Map<K, Value>>;

#[test]
fn storing() {
    fn body<K: Key>(on: &Target) {
        for (room, build, new) in [
            ("with room", roomy as Build<K>, 30),
            ("growing", full, 100),
            ("fixed", fixed, 20),
        ] {
            let keys: Vec<K> = (HELD - 10..HELD + new).map(nth_key).collect();
            let values = blobs::<Value>(200..200 + keys.len() as u64);
            let name = |verb: &str| format!("arena: {verb}, {room}");
            try_every_call(on, &name("insert"), build, |map| map.insert(&keys, &values));
            try_every_call(on, &name("upsert"), build, |map| map.upsert(&keys, &values));
            try_every_call(on, &name("update"), build, |map| map.update(&keys, &values));
            try_every_call(on, &name("get_or_insert"), build, |map| {
                map.get_or_insert(&keys, &values)
            });
            try_every_call(on, &name("insert_with_outcome"), build, |map| {
                map.insert_with_outcome(&keys, &values)
            });
        }
    }
    run::<u32, Value>(body::<u32>);
    run::<u64, Value>(body::<u64>);
}

#[test]
fn taking_away() {
    fn body<K: Key>(on: &Target) {
        let some: Vec<K> = (5..HELD + 5).map(nth_key).collect();
        let build = full::<K>;
        try_every_call(on, "arena: remove", build, |map| map.remove(&some));
        try_every_call(on, "arena: take", build, |map| map.take(&some));
        let idle = Exception::LeavesCellsIdle;
        try_every_call_but(on, "arena: retain_keys", idle, build, |map| {
            map.retain_keys(&some)
        });
        try_every_call_but(on, "arena: retain", idle, build, |map| {
            map.retain(|_, value| tag(value) % 3 != 0)
        });
        try_every_call_but(on, "arena: clear", Exception::Heals, build, Map::clear);
        try_every_call(on, "arena: drain", build, |map| map.drain().map(sorted));
    }
    run::<u32, Value>(body::<u32>);
    run::<u64, Value>(body::<u64>);
}

#[test]
fn reading_and_changing_the_size() {
    fn body<K: Key>(on: &Target) {
        let some: Vec<K> = (5..HELD + 5).map(nth_key).collect();
        let build = full::<K>;
        try_every_call(on, "arena: get", build, |map| map.get(&some));
        try_every_call(on, "arena: contains", build, |map| map.contains(&some));
        try_every_call(on, "arena: retrieve_all", build, |map| {
            map.retrieve_all().map(sorted)
        });
        try_every_call(on, "arena: save", build, |map| {
            let mut bytes = Vec::new();
            map.save_to(&mut bytes).map(|pairs| (pairs, bytes.len()))
        });
        try_every_call(on, "arena: stats", build, |map| {
            map.stats().map(|s| s.cells)
        });
        try_every_call(on, "arena: reserve", build, |map| map.reserve(500));
        try_every_call(
            on,
            "arena: shrink_to_fit",
            |on| {
                let map = full::<K>(on)?;
                map.reserve(500)?;
                Ok(map)
            },
            Map::shrink_to_fit,
        );
    }
    run::<u32, Value>(body::<u32>);
    run::<u64, Value>(body::<u64>);
}

#[test]
fn building() {
    fn body<K: Key>(on: &Target) {
        try_every_call_of_making(on, "arena: build", |on| {
            let empty = builder::<K, Value>(on);
            empty.capacity(100).build()
        });
    }
    run::<u32, Value>(body::<u32>);
    run::<u64, Value>(body::<u64>);
}

#[test]
fn launching_graphs() {
    fn body<K: Key>(on: &Target) {
        let keys: Vec<K> = (HELD - 10..HELD + 100).map(nth_key).collect();
        let values = blobs::<Value>(200..200 + keys.len() as u64);
        for build in [roomy as Build<K>, full] {
            super::streams::graphs(on, build, &keys, &values);
        }
    }
    run::<u32, Value>(body::<u32>);
    run::<u64, Value>(body::<u64>);
}
