//! Multimaps.

use gpumap::multi::{MultiMapBuilder, Operation};
use gpumap::primitives::{Element, Predicate};
use gpumap::{MultiMap, Numeric, Result, Stream, Word, WordKey};
use gpumap_tests::faults::{
    Exception, sorted, try_every_call, try_every_call_but, try_every_call_of_making,
};
use gpumap_tests::pairs::{nth_key, value_by};
use gpumap_tests::{Batch, Target, key, on_every_multi_format, value_bits};

use super::{HELD, batch};

/// Settings with which the same keys are in the same chains on every run.
fn settings<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) -> MultiMapBuilder<K, V> {
    on.multi().hash_seed(1).buckets(4)
}

/// A map that holds [`HELD`] pairs, of which some came and went.
fn filled<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(
    builder: MultiMapBuilder<K, V>,
) -> Result<MultiMap<K, V>> {
    let map = builder.build()?;
    let pairs = Batch::<K, V>::numbered(0..HELD + 5, 1);
    map.insert(&pairs.keys, &pairs.values)?;
    map.remove(&pairs.keys[HELD as usize..])?;
    Ok(map)
}

fn roomy<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) -> Result<MultiMap<K, V>> {
    filled(settings(on).capacity(2_000))
}

/// So few slabs that batches do not fit for sure.
fn fixed<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) -> Result<MultiMap<K, V>> {
    filled(settings(on).pool_slabs(20))
}

/// Without any slabs to take, and without pairs, which would have got it some.
fn empty<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) -> Result<MultiMap<K, V>> {
    settings(on).build()
}

type Build<K, V> = fn(&Target) -> Result<MultiMap<K, V>>;

#[test]
fn storing() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        for (room, build) in [
            ("with room", roomy as Build<K, V>),
            ("fixed", fixed),
            ("growing", empty),
        ] {
            let more = batch::<K, V>(30);
            let name = |verb: &str| format!("multi: {verb}, {room}");
            try_every_call(on, &name("insert"), build, |map| {
                map.insert(&more.keys, &more.values)
            });
            try_every_call(on, &name("append"), build, |map| {
                map.append(&more.keys, &more.values)
            });
        }
    }
    on_every_multi_format!(body);
}

#[test]
fn mixed_batches() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let all = [
            Operation::Get,
            Operation::Insert,
            Operation::Append,
            Operation::Remove,
            Operation::Count,
        ];
        for (room, build) in [
            ("with room", roomy as Build<K, V>),
            ("fixed", fixed),
            ("growing", empty),
        ] {
            let keys: Vec<K> = (HELD - 20..HELD + 20).map(nth_key).collect();
            let values: Vec<V> = keys.iter().map(|&k| value_by(k, 2)).collect();
            let operations: Vec<Operation> = all.into_iter().cycle().take(keys.len()).collect();
            try_every_call(on, &format!("multi: apply, {room}"), build, |map| {
                let answers = map.apply(&operations, &keys, &values)?;
                // What does not hang on the bits of floats that are no numbers.
                Ok(answers
                    .iter()
                    .map(std::mem::discriminant)
                    .collect::<Vec<_>>())
            });
        }
    }
    on_every_multi_format!(body);
}

#[test]
fn all_else() {
    fn body<K: WordKey + Element, V: Numeric + Word<Bits = K::Bits> + Element>(on: &Target) {
        let some: Vec<K> = (5..HELD + 5).map(nth_key).collect();
        let build = fixed::<K, V>;
        try_every_call(on, "multi: remove", build, |map| map.remove(&some));
        try_every_call_but(on, "multi: clear", Exception::Heals, build, MultiMap::clear);
        let even = Predicate::Bits {
            mask: key::<K>(1),
            value: key(0),
        };
        try_every_call(on, "multi: retain", build, |map| {
            map.retain_where(even, Predicate::Always)
        });
        try_every_call(on, "multi: save", build, |map| {
            let mut bytes = Vec::new();
            map.save_to(&mut bytes).map(|pairs| (pairs, bytes.len()))
        });
        try_every_call(on, "multi: compact", build, MultiMap::compact);
        try_every_call(on, "multi: reserve", empty::<K, V>, |map| map.reserve(500));
        try_every_call(on, "multi: get", build, |map| {
            let values = map.get(&some)?;
            Ok(values
                .into_iter()
                .map(|v| v.map(value_bits))
                .collect::<Vec<_>>())
        });
        try_every_call(on, "multi: contains", build, |map| map.contains(&some));
        try_every_call(on, "multi: count", build, |map| map.count(&some));
        try_every_call(on, "multi: get_all", build, |map| {
            let all = map.get_all(&some)?;
            let values = all.values().iter().map(|&v| value_bits(v));
            Ok((all.offsets().to_vec(), values.collect::<Vec<_>>()))
        });
        try_every_call(on, "multi: retrieve_all", build, |map| {
            map.retrieve_all().map(sorted)
        });
        try_every_call(on, "multi: stats", build, |map| {
            map.stats().map(|stats| stats.len)
        });
        try_every_call(on, "multi: launch_with", build, |map| {
            let stream = Stream::new(map.device())?;
            map.launch_with(&stream, 10, |_| Ok(()))
                .map(|tally| tally.inserted)
        });
        try_every_call_of_making(on, "multi: build", |on| {
            on.multi::<K, V>().hash_seed(1).capacity(1_000).build()
        });
    }
    on_every_multi_format!(body);
}

#[test]
fn launching_graphs() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let more = batch::<K, V>(100);
        for build in [roomy as fn(&Target) -> Result<MultiMap<K, V>>, empty] {
            super::streams::graphs(on, build, &more.keys, &more.values);
        }
    }
    on_every_multi_format!(body);
}
