//! Graphs: several verbs that are launched together do what they do one by one.

pub mod kinds;

use std::collections::HashMap;
use std::thread;

use gpumap::{Buffer, Error, Growth, Key, Map, Merge, Numeric, Result, Stream};
use gpumap_tests::pairs::{nth_key, value_by};
use gpumap_tests::scheduled::{on_limited_steps, overcommitted_map};
use gpumap_tests::{
    Batch, Oracle, Shape, Target, assert_holds, contents, key_bits, on_every_format,
    on_every_target, on_formats_with_values, on_pairs, value, value_bits,
};

/// Buffers that are filled anew for every launch.
struct Buffers<K, V> {
    keys: Buffer<K>,
    values: Buffer<V>,
    gone: Buffer<K>,
    held: Buffer<V>,
    read: Buffer<V>,
    there: Buffer<u8>,
}

impl<K: Key, V: Numeric> Buffers<K, V> {
    fn new(streams: [&Stream; 2], batch: usize, gone: usize) -> Result<Self> {
        let [one, other] = streams;
        Ok(Self {
            keys: Buffer::zeroed(one, batch)?,
            values: Buffer::zeroed(other, batch)?,
            gone: Buffer::zeroed(other, gone)?,
            held: Buffer::zeroed(one, batch)?,
            read: Buffer::zeroed(other, batch)?,
            there: Buffer::zeroed(one, gone)?,
        })
    }
}

/// Stores pairs whose key is absent; the keys are different.
fn insert(oracle: &mut Oracle, pairs: impl Iterator<Item = (u64, u64)>) -> usize {
    let before = oracle.len();
    pairs.for_each(|(k, v)| {
        oracle.entry(k).or_insert(v);
    });
    oracle.len() - before
}

#[test]
fn many_launches_against_a_hash_map() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let (batch, gone) = (on.n(40, 400), on.n(25, 250));
        let rounds = 30u64;
        // Half of each batch is of the one before, so that all maps hold about so many in the end.
        let distinct = batch * (rounds as usize / 2 + 1);
        let maps: [(&str, Map<K, V>); 3] = on.maps(batch, distinct);
        for (how, map) in &maps {
            let stream = on.stream();
            let elsewhere = on.stream();
            // With streams of their own in half of the maps.
            let streams = match *how {
                "growing" => [&stream, &elsewhere],
                _ => [&stream, &stream],
            };
            let mut of = Buffers::<K, V>::new(streams, batch, gone).unwrap();
            let mut graph = map.graph(&stream);
            let mut oracle = HashMap::new();
            for round in 0..rounds {
                let first = round * batch as u64 / 2;
                let pairs = Batch::<K, V>::numbered(first..first + batch as u64, round as u8);
                let old: Vec<K> = (first..first + gone as u64).map(nth_key).collect();
                of.keys.copy_from_slice(&pairs.keys).unwrap();
                of.values.copy_from_slice(&pairs.values).unwrap();
                of.gone.copy_from_slice(&old).unwrap();

                let mut verbs = graph.record();
                verbs.contains_into(&of.gone, &mut of.there).unwrap();
                verbs.insert(&of.keys, &of.values).unwrap();
                verbs
                    .get_or_insert_into(&of.keys, &of.values, &mut of.held)
                    .unwrap();
                verbs.remove(&of.gone).unwrap();
                verbs.get_or_into(&of.keys, value(7), &mut of.read).unwrap();
                verbs.upsert(&of.keys, &of.values).unwrap();
                let counts = verbs.launch().unwrap().wait().unwrap();

                let there: Vec<u8> = old
                    .iter()
                    .map(|&k| u8::from(oracle.contains_key(&key_bits(k))))
                    .collect();
                let new = insert(&mut oracle, pairs.bits());
                let bits = |k: &K| key_bits(*k);
                let held: Vec<u64> = pairs.keys.iter().map(|k| oracle[&bits(k)]).collect();
                let taken = old.iter().filter(|k| oracle.remove(&bits(k)).is_some());
                let taken = taken.count();
                let mut read: Vec<u64> = Vec::new();
                let default = value_bits(value::<V>(7));
                for k in &pairs.keys {
                    read.push(oracle.get(&bits(k)).copied().unwrap_or(default));
                }
                let before = oracle.len();
                oracle.extend(pairs.bits());
                let again = oracle.len() - before;

                let bits_of = |buffer: &Buffer<V>| -> Vec<u64> {
                    let values = buffer.to_vec().unwrap();
                    values.into_iter().map(value_bits).collect()
                };
                assert_eq!(counts, [0, new, 0, taken, 0, again], "{how}, round {round}");
                assert_eq!(of.there.to_vec().unwrap(), there, "{how}, round {round}");
                assert_eq!(bits_of(&of.held), held, "{how}, round {round}");
                assert_eq!(bits_of(&of.read), read, "{how}, round {round}");
                assert_eq!(map.len(), oracle.len());
            }
            assert_holds(map, &oracle);
            assert!(graph.captures() > 0, "{how}: launched one by one");
        }
    }
    on_every_format!(body);
}

#[test]
fn merging_and_dumping() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(100, 1_000);
        let map = on.map::<K, V>(4 * n);
        let stream = on.stream();
        let keys: Vec<K> = (0..n as u64).map(nth_key).collect();
        let keys = Buffer::from_slice(&stream, &keys).unwrap();
        let threes = Buffer::from_slice(&stream, &vec![value::<V>(3); n]).unwrap();
        let mut out_keys = Buffer::<K>::zeroed(&stream, n).unwrap();
        let mut out_values = Buffer::<V>::zeroed(&stream, n).unwrap();
        let mut graph = map.graph(&stream);
        for round in 1..=5u64 {
            let mut verbs = graph.record();
            verbs.merge(&keys, &threes, Merge::Add).unwrap();
            verbs.merge(&keys, &threes, Merge::Max).unwrap();
            verbs
                .retrieve_all_into(&mut out_keys, &mut out_values)
                .unwrap();
            let counts = verbs.launch().unwrap().wait().unwrap();
            assert_eq!(counts, [if round == 1 { n } else { 0 }, 0, n]);
            let values = out_values.to_vec().unwrap();
            assert!(values.iter().all(|&v| value_bits(v) == 3 * round));
        }
        let dumped: Oracle = {
            let keys = out_keys.to_vec().unwrap().into_iter().map(key_bits);
            keys.zip(out_values.to_vec().unwrap().into_iter().map(value_bits))
                .collect()
        };
        assert_holds(&map, &dumped);
    }
    on_formats_with_values!(body);
}

#[test]
fn graphs_beside_each_other_beside_calls_and_growth() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let (batch, rounds) = (on.n(50, 500) as u64, 20u64);
        let map = on.map::<K, V>(16);
        thread::scope(|scope| {
            for t in 0..4u64 {
                let map = &map;
                scope.spawn(move || {
                    let stream = on.stream();
                    let mut graph = map.graph(&stream);
                    let mut answers = Vec::new();
                    let mut calls = Vec::new();
                    for round in 0..rounds {
                        // Half of the keys are removed again by the next launch.
                        let first = (t * rounds + round) * batch;
                        let pairs = Batch::<K, V>::numbered(first..first + batch, t as u8);
                        let keys = Buffer::from_slice(&stream, &pairs.keys).unwrap();
                        let values = Buffer::from_slice(&stream, &pairs.values).unwrap();
                        let half = keys.slice(..batch as usize / 2).unwrap();
                        if t == 3 {
                            let on = map.on(&stream);
                            calls.push(on.insert(&keys, &values).unwrap());
                            calls.push(on.remove(&half).unwrap());
                            continue;
                        }
                        let mut verbs = graph.record();
                        verbs.insert(&keys, &values).unwrap();
                        verbs.remove(half).unwrap();
                        let answer = verbs.launch().unwrap();
                        // Some are dropped.
                        if round % 3 != t {
                            answers.push(answer);
                        }
                    }
                    for answer in answers {
                        let counts = answer.wait().unwrap();
                        assert_eq!(counts, [batch as usize, batch as usize / 2]);
                    }
                    for (i, answer) in calls.into_iter().enumerate() {
                        let expected = [batch, batch / 2][i % 2] as usize;
                        assert_eq!(answer.wait().unwrap(), expected);
                    }
                    stream.synchronize().unwrap();
                });
            }
        });
        let held: Oracle = (0..4 * rounds)
            .flat_map(|part| part * batch + batch / 2..(part + 1) * batch)
            .map(|i| {
                let k = nth_key::<K>(i);
                let writer = (i / batch / rounds) as u8;
                (key_bits(k), value_bits(value_by::<K, V>(k, writer)))
            })
            .collect();
        assert_holds(&map, &held);
    }
    on_every_format!(body);
}

#[test]
fn what_runs_alone_waits_for_launches() {
    on_every_target(|on: &Target| {
        let n = on.n(200, 5_000);
        let stream = on.stream();
        let keys: Vec<u64> = (0..n as u64).collect();
        let keys = Buffer::from_slice(&stream, &keys).unwrap();
        for round in 0..12 {
            let map = on.map::<u64, u64>(2 * n);
            let mut graph = map.graph(&stream);
            let mut verbs = graph.record();
            verbs.insert(&keys, &keys).unwrap();
            verbs.merge(&keys, &keys, Merge::Add).unwrap();
            let answer = verbs.launch().unwrap();
            match round % 4 {
                0 => assert_eq!(map.take(&[3]).unwrap(), [Some(6)]),
                1 => map.reserve(10 * n).unwrap(),
                2 => map.clear().unwrap(),
                _ => map.shrink_to_fit().unwrap(),
            }
            assert_eq!(answer.wait().unwrap(), [n, 0]);
            assert_eq!(map.len(), [n - 1, n, 0, n][round % 4], "round {round}");
            let mut verbs = graph.record();
            verbs.remove(&keys).unwrap();
            // The answer goes, then the graph, and then the map, while the launch may be in flight.
            drop(verbs.launch().unwrap());
        }
    });
}

#[test]
fn a_refused_batch_leaves_what_came_before_it() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let stream = on.stream();
        let builder = on.builder::<K, V>().growth(Growth::Fixed);
        let map = builder.submap_slots(&[100]).build().unwrap();
        let few = Batch::<K, V>::numbered(0..10, 1);
        let many = Batch::<K, V>::numbered(100..1_000, 1);
        let on_device = |batch: &Batch<K, V>| {
            let keys = Buffer::from_slice(&stream, &batch.keys).unwrap();
            (keys, Buffer::from_slice(&stream, &batch.values).unwrap())
        };
        let (few_there, many_there) = (on_device(&few), on_device(&many));
        let mut graph = map.graph(&stream);
        for _ in 0..2 {
            let mut verbs = graph.record();
            verbs.insert(&few_there.0, &few_there.1).unwrap();
            verbs.insert(&many_there.0, &many_there.1).unwrap();
            verbs.remove(&few_there.0).unwrap();
            match verbs.launch() {
                Err(Error::Full {
                    partial: false,
                    batch: 900,
                    ..
                }) => {}
                other => panic!("not refused: {other:?}"),
            }
            assert_holds(&map, &few.bits().collect());
        }
    }
    on_every_format!(body);
}

#[test]
fn a_map_that_promised_too_much_says_so() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let shape = Shape::new::<K, V>(&[8, 64, 8], 1, 3);
        let map = shape.builder::<K, V>(on).capacity(1_000).build().unwrap();
        let stream = on.stream();
        let batch = Batch::<K, V>::numbered(0..300, 1);
        let keys = Buffer::from_slice(&stream, &batch.keys).unwrap();
        let values = Buffer::from_slice(&stream, &batch.values).unwrap();
        let mut graph = map.graph(&stream);
        for _ in 0..2 {
            let mut verbs = graph.record();
            verbs.insert(&keys, &values).unwrap();
            verbs.remove(&keys).unwrap();
            let answer = verbs.launch().unwrap().wait();
            let Err(Error::Full { partial: true, .. }) = answer else {
                panic!("not refused in part: {answer:?}");
            };
            // What found room was removed, and all of that is in the books.
            assert_eq!((map.len(), contents(&map).len()), (0, 0));
            map.clear().unwrap();
        }
    }
    on_every_format!(body);
}

#[test]
fn a_launch_that_fails_half_way_poisons_the_map() {
    on_limited_steps(|on| {
        let map = overcommitted_map(on);
        let stream = on.stream();
        let few = Batch::<u64, u64>::numbered(0..5, 1);
        let many = Batch::<u64, u64>::numbered(0..3_000, 2);
        let keys = Buffer::from_slice(&stream, &many.keys).unwrap();
        let few_keys = Buffer::from_slice(&stream, &few.keys).unwrap();
        let few_values = Buffer::from_slice(&stream, &few.values).unwrap();
        let mut found = Buffer::zeroed(&stream, 5).unwrap();
        let mut graph = map.graph(&stream);
        for _ in 0..3 {
            let mut verbs = graph.record();
            verbs.contains_into(&few_keys, &mut found).unwrap();
            verbs.insert(&keys, &keys).unwrap();
            let failed = verbs.launch().and_then(|answer| answer.wait());
            assert!(matches!(failed, Err(Error::Kernel(_))), "{failed:?}");
            let mut verbs = graph.record();
            verbs.contains_into(&few_keys, &mut found).unwrap();
            let refused = verbs.launch();
            assert!(matches!(refused, Err(Error::Poisoned)), "{refused:?}");
            map.clear().unwrap();
            let mut verbs = graph.record();
            verbs.insert(&few_keys, &few_values).unwrap();
            assert_eq!(verbs.launch().unwrap().wait().unwrap(), [5]);
            assert_holds(&map, &few.bits().collect());
        }
    });
}

#[test]
fn sets_have_graphs() {
    fn body<K: Key>(on: &Target) {
        let stream = on.stream();
        let set = on.map::<K, ()>(1_000);
        let keys: Vec<K> = (0..100).map(nth_key).collect();
        let keys = Buffer::from_slice(&stream, &keys).unwrap();
        let mut there = Buffer::<u8>::zeroed(&stream, 100).unwrap();
        let mut graph = set.graph(&stream);
        for _ in 0..3 {
            let mut verbs = graph.record();
            verbs.insert_keys(&keys).unwrap();
            verbs.remove(keys.slice(..50).unwrap()).unwrap();
            verbs.contains_into(&keys, &mut there).unwrap();
            let counts = verbs.launch().unwrap().wait().unwrap();
            assert_eq!(counts[1..], [50, 0]);
            let there = there.to_vec().unwrap();
            assert!(there.iter().enumerate().all(|(i, &t)| (i < 50) == (t == 0)));
        }
        assert_eq!((set.len(), graph.captures()), (50, 1));
    }
    gpumap_tests::device::run_pair::<u32, ()>(body::<u32>);
    gpumap_tests::device::run_pair::<u64, ()>(body::<u64>);
}

#[test]
fn graphs_and_recordings_go_to_other_threads() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let stream = on.stream();
        let map = on.map::<K, V>(100);
        let batch = Batch::<K, V>::numbered(0..50, 1);
        let keys = Buffer::from_slice(&stream, &batch.keys).unwrap();
        let values = Buffer::from_slice(&stream, &batch.values).unwrap();
        let mut graph = map.graph(&stream);
        for round in 0..3 {
            let mut verbs = graph.record();
            verbs.insert(&keys, &values).unwrap();
            let new = thread::scope(|scope| {
                let launch = move || verbs.launch().unwrap().wait().unwrap();
                scope.spawn(launch).join().unwrap()
            });
            assert_eq!(new, [if round == 0 { 50 } else { 0 }]);
        }
    }
    on_pairs!(body: u64 => u64);
}
