//! Verbs that change a map.

use gpumap::primitives::{Element, Predicate};
use gpumap::{Fault, Faults, Growth, Key, Map, Merge, Numeric, Result};
use gpumap_tests::device::noting;
use gpumap_tests::faults::{Exception, sorted, try_every_call, try_every_call_but};
use gpumap_tests::pairs::nth_key;
use gpumap_tests::{Batch, Shape, Target, assert_holds, on_pairs, value_bits};

use super::{HELD, batch, fixed, full, roomy, small};

/// How a map is made that has as much room as a test wants.
type Build<K, V> = fn(&Target) -> Result<Map<K, V>>;

/// A verb, and what it answers in numbers.
type Act<'a, K, V> = dyn Fn(&Map<K, V>) -> Result<Vec<u64>> + 'a;

/// Tries the verbs that store, with this many new pairs.
fn storing<K: Key, V: Numeric>(on: &Target, room: &str, build: Build<K, V>, new: u64) {
    let more = &batch::<K, V>(new);
    let (keys, values) = (&more.keys, &more.values);
    let try_verb = |verb: &str, act: &Act<'_, K, V>| {
        try_every_call(on, &format!("{verb}, {room}"), build, act);
    };
    let count = |stored: Result<usize>| stored.map(|stored| vec![stored as u64]);
    try_verb("insert", &|map| count(map.insert(keys, values)));
    try_verb("upsert", &|map| count(map.upsert(keys, values)));
    try_verb("merge", &|map| {
        // So that its effect differs when it is done once more.
        count(map.merge(keys, values, Merge::Add))
    });
    try_verb("get_or_insert", &|map| {
        let held = map.get_or_insert(keys, values)?;
        Ok(held.into_iter().map(value_bits).collect())
    });
    try_verb("insert_with_outcome", &|map| {
        let outcomes = map.insert_with_outcome(keys, values)?;
        Ok(outcomes.into_iter().map(|outcome| outcome as u64).collect())
    });
    try_verb("upsert_with_outcome", &|map| {
        let outcomes = map.upsert_with_outcome(keys, values)?;
        Ok(outcomes.into_iter().map(|outcome| outcome as u64).collect())
    });
}

#[test]
fn storing_beside_others() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        storing::<K, V>(on, "with room", roomy, 30);
    }
    on_pairs!(body: u32 => u32, u64 => u64, u64 => ());
}

#[test]
fn storing_and_growing_submap_by_submap() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        storing::<K, V>(on, "growing by submaps", full, 100);
    }
    on_pairs!(body: u32 => u32, u64 => u64, u64 => ());
}

#[test]
fn storing_and_growing_as_a_whole() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        storing::<K, V>(on, "growing as a whole", small, 200);
    }
    on_pairs!(body: u32 => u32, u64 => u64);
}

#[test]
fn storing_down_to_the_last_slot() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        storing::<K, V>(on, "fixed", fixed, 40);
    }
    on_pairs!(body: u32 => u32, u64 => u64);
}

#[test]
fn assigning() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        // Some are not there.
        let some = Batch::<K, V>::numbered(5..HELD + 5, 3);
        try_every_call(on, "update", roomy::<K, V>, |map| {
            map.update(&some.keys, &some.values)
        });
        try_every_call(on, "update_with", full::<K, V>, |map| {
            map.update_with(&some.keys, &some.values, Merge::Xor)
        });
    }
    on_pairs!(body: u32 => u32, u64 => u64);
}

#[test]
fn taking_away() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        // Some are not there, and one comes twice.
        let some: Vec<K> = (5..HELD + 5).chain([6]).map(nth_key).collect();
        for (room, build) in [("with room", roomy as Build<K, V>), ("full", full)] {
            let name = |verb: &str| format!("{verb}, {room}");
            try_every_call(on, &name("remove"), build, |map| map.remove(&some));
            try_every_call(on, &name("remove_with_outcome"), build, |map| {
                // Which of the two gets that answer is not known.
                let removed = map.remove_with_outcome(&some)?;
                Ok(removed.into_iter().filter(|&removed| removed).count())
            });
            try_every_call(on, &name("take"), build, |map| {
                let values = map.take(&some)?;
                let mut values: Vec<_> = values.into_iter().flatten().map(value_bits).collect();
                values.sort_unstable();
                Ok(values)
            });
            try_every_call(on, &name("retain_keys"), build, |map| {
                map.retain_keys(&some)
            });
            try_every_call_but(on, &name("clear"), Exception::Heals, build, Map::clear);
            try_every_call(on, &name("drain"), build, |map| map.drain().map(sorted));
        }
    }
    on_pairs!(body: u32 => u32, u64 => u64, u64 => ());
}

#[test]
fn retaining_by_predicate() {
    fn body<K: Key + Element, V: Numeric + Element>(on: &Target) {
        try_every_call(on, "retain", roomy::<K, V>, |map| {
            map.retain_where(Predicate::Less(nth_key(7)), Predicate::Always)
        });
    }
    on_pairs!(body: u32 => u32, u64 => u64);
}

#[test]
fn changing_the_size() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        for (room, build) in [("one submap", small as Build<K, V>), ("three", full)] {
            try_every_call(on, &format!("reserve, {room}"), build, |map| {
                map.reserve(500)
            });
        }
        try_every_call(on, "shrink_to_fit", roomy::<K, V>, Map::shrink_to_fit);
        try_every_call(
            on,
            "shrink_to_fit, three submaps",
            |on| {
                let map = full(on)?;
                map.reserve(2_000)?;
                Ok::<Map<K, V>, _>(map)
            },
            Map::shrink_to_fit,
        );
    }
    on_pairs!(body: u32 => u32, u64 => u64, u64 => ());
}

#[test]
fn marks_of_a_launch_that_failed_are_not_taken_for_those_of_the_next() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        // It promises more room than it has, so that pairs without room are marked, and tried again.
        let shape = Shape::new::<K, V>(&[8, 64, 8], 1, 3);
        let (first, second) = (
            Batch::<K, V>::numbered(0..300, 1),
            Batch::<K, V>::numbered(1_000..1_300, 2),
        );
        for call in 0.. {
            let faults = Faults::default();
            let builder = shape.builder::<K, V>(&on.with_faults(&faults));
            let builder = builder.capacity(1_000).growth(Growth::By(2.0));
            let map = builder.build().unwrap();
            faults.plan(call, Fault::Once);
            let merged = map.merge(&first.keys, &first.values, Merge::Add);
            if faults.failed().is_none() {
                assert!(call > 3, "it makes only {call} calls");
                break;
            }
            faults.heal();
            noting(&format!("call {call}: {merged:?}"), || {
                map.clear().unwrap();
                let new = map.merge(&second.keys, &second.values, Merge::Add);
                assert_eq!(new.unwrap(), second.len());
                assert_holds(&map, &second.bits().collect());
            });
        }
    }
    on_pairs!(body: u32 => u32, u64 => u64);
}
