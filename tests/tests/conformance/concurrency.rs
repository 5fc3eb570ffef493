//! Many host threads on one map: nothing lost, nothing doubled, nothing foreign.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;

use gpumap::{Error, Key, Merge, Numeric};
use gpumap_tests::device::noting;
use gpumap_tests::oracle::paired;
use gpumap_tests::pairs::{mask, nth_key, writer_of};
use gpumap_tests::{
    Batch, Oracle, Target, assert_holds, contents, key, key_bits, on_every_format,
    on_formats_with_values, value, value_bits,
};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

const THREADS: u8 = 8;

/// The numbers below `n` in some order, some of them twice.
fn shuffled(n: u64, seed: u64) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..n).chain(0..n / 4).collect();
    numbers.shuffle(&mut SmallRng::seed_from_u64(seed));
    numbers
}

/// Runs one closure per thread, all started together.
fn together(threads: u8, run: impl Fn(u8) + Sync) {
    let start = Barrier::new(threads.into());
    thread::scope(|scope| {
        for t in 0..threads {
            let (start, run) = (&start, &run);
            scope.spawn(move || {
                start.wait();
                run(t);
            });
        }
    });
}

#[test]
fn one_inserter_wins_per_key() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(1_000, 400_000) as u64;
        for (submaps, pieces) in [(1, 1), (1, 7), (9, 3)] {
            noting(
                &format!("{submaps} submaps, batches in {pieces} pieces"),
                || {
                    // Room for what all threads together may reserve, so that they run side by side.
                    let capacity = usize::from(THREADS) * n as usize * 5 / 4;
                    let builder = on.builder::<K, V>().capacity(capacity);
                    let map = builder.submaps(submaps).build().unwrap();
                    let new = AtomicUsize::new(0);
                    together(THREADS, |t| {
                        let mut batch = Batch::<K, V>::numbered(shuffled(n, t.into()), t);
                        // The keys that live apart, too.
                        let reserved = Batch::<K, V>::of((0..3).map(|i| (!i, t.into())));
                        batch.keys.extend(reserved.keys);
                        batch.values.extend(reserved.values);
                        let size = batch.len().div_ceil(pieces);
                        for (keys, values) in batch.keys.chunks(size).zip(batch.values.chunks(size))
                        {
                            let stored = map.insert(keys, values).unwrap();
                            new.fetch_add(stored, Ordering::Relaxed);
                        }
                    });
                    assert_eq!(new.into_inner() as u64, n + 3, "sum of the counts");
                    assert_eq!(map.len() as u64, n + 3);
                    let held = contents(&map);
                    for i in 0..n {
                        let k = nth_key::<K>(i);
                        let v = held.get(&key_bits(k)).expect("no key is lost");
                        assert!(writer_of::<K, V>(k, value(*v)) < THREADS);
                    }
                    assert_eq!(held.len() as u64, n + 3);
                },
            );
        }
    }
    on_every_format!(body);
}

#[test]
fn sums_of_many_adders_are_exact() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let keys = on.n(40, 10_000) as u64;
        let n = on.n(1_500, 500_000);
        // Room for all batches at once, and room that makes each of them wait for the others.
        for capacity in [usize::from(THREADS) * n, keys as usize] {
            let map = on.map::<K, V>(capacity);
            let (new, total) = (AtomicUsize::new(0), AtomicU64::new(0));
            together(THREADS, |t| {
                let mut random = SmallRng::seed_from_u64(t.into());
                let steps: Vec<(u64, u64)> = (0..n)
                    .map(|_| {
                        let k = nth_key::<K>(random.random_range(0..keys));
                        (key_bits(k), random.random::<u64>() & mask(size_of::<V>()))
                    })
                    .collect();
                let sum = steps.iter().fold(0u64, |sum, (_, v)| sum.wrapping_add(*v));
                total.fetch_add(sum, Ordering::Relaxed);
                let batch = Batch::<K, V>::of(steps);
                new.fetch_add(
                    map.merge(&batch.keys, &batch.values, Merge::Add).unwrap(),
                    Ordering::Relaxed,
                );
            });
            let held = contents(&map);
            assert_eq!(held.len(), new.into_inner());
            let sum = held.values().fold(0u64, |sum, v| sum.wrapping_add(*v));
            let ones = mask(size_of::<V>());
            assert_eq!(sum & ones, total.into_inner() & ones, "sum over all keys");
        }
    }
    on_formats_with_values!(body);
}

#[test]
fn adders_count_each_key_exactly() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let keys = on.n(60, 2_000) as u64;
        let rounds = on.n(20, 400) as u64;
        let map = on.map::<K, V>(usize::from(THREADS) * (keys * rounds) as usize);
        together(THREADS, |t| {
            let mut numbers: Vec<u64> = (0..keys * rounds).map(|i| i % keys).collect();
            numbers.shuffle(&mut SmallRng::seed_from_u64(t.into()));
            let ones = Batch::<K, V>::of(numbers.iter().map(|&i| (key_bits(nth_key::<K>(i)), 1)));
            map.merge(&ones.keys, &ones.values, Merge::Add).unwrap();
        });
        let expected = u64::from(THREADS) * rounds;
        let expected: Oracle = (0..keys)
            .map(|i| (key_bits(nth_key::<K>(i)), expected))
            .collect();
        assert_holds(&map, &expected);
    }
    on_formats_with_values!(body);
}

#[test]
fn readers_beside_writers_see_whole_pairs_of_their_own_key() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        const WRITERS: u8 = 3;
        let n = on.n(6_000, 3_000_000) as u64;
        let steps = 30;
        let map = on.map::<K, V>(usize::from(WRITERS) * n as usize);
        // How many keys of the sequence some writer has stored for certain.
        let stored = AtomicU64::new(0);
        let writing = AtomicUsize::new(WRITERS.into());
        let reads = AtomicU64::new(0);
        together(WRITERS + 3, |t| {
            if t < WRITERS {
                for step in 0..steps {
                    let range = n * step / steps..n * (step + 1) / steps;
                    let end = range.end;
                    let batch = Batch::<K, V>::numbered(range, t);
                    map.insert(&batch.keys, &batch.values).unwrap();
                    stored.fetch_max(end, Ordering::AcqRel);
                }
                writing.fetch_sub(1, Ordering::AcqRel);
                return;
            }
            let mut random = SmallRng::seed_from_u64(t.into());
            let mut seen = Oracle::new();
            let mut new = Vec::new();
            loop {
                let last = writing.load(Ordering::Acquire) == 0;
                let certain = stored.load(Ordering::Acquire);
                // Those just being written are the ones to look at; some are never written.
                let around = certain.saturating_sub(n / steps)..certain + 2 * n / steps;
                let numbers: Vec<u64> = (0..600)
                    .map(|i| {
                        random.random_range(if i % 4 == 0 {
                            0..n + 100
                        } else {
                            around.clone()
                        })
                    })
                    .collect();
                let keys: Vec<K> = numbers.iter().map(|&i| nth_key(i)).collect();
                let got = map.get(&keys).unwrap();
                for ((&i, &k), v) in numbers.iter().zip(&keys).zip(got) {
                    let Some(v) = v else {
                        assert!(
                            i >= certain,
                            "key number {i} of {certain} stored is not found"
                        );
                        assert!(
                            !seen.contains_key(&key_bits(k)),
                            "key number {i} is gone again"
                        );
                        continue;
                    };
                    assert!(i < n, "key number {i} was never written");
                    assert!(writer_of(k, v) < WRITERS);
                    let bits = (key_bits(k), value_bits(v));
                    if let Some(&before) = seen.get(&bits.0) {
                        assert_eq!(before, bits.1, "a stored value changed");
                    }
                    // Known from the next call on: inside this one, each lookup has a moment of
                    // its own.
                    new.push(bits);
                }
                seen.extend(new.drain(..));
                reads.fetch_add(1, Ordering::Relaxed);
                if last {
                    break;
                }
            }
        });
        assert!(reads.into_inner() >= 3);
        assert_eq!(contents(&map).len() as u64, n);
    }
    on_every_format!(body);
}

#[test]
fn readers_beside_adders_see_sums_grow() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        const ADDERS: u8 = 3;
        let keys = 50;
        let (rounds, per_round) = (on.n(20, 60) as u64, on.n(4, 50) as u64);
        // Each step is a multiple of an odd number that no half of a value is, while the sums
        // cross the middle of the word: a torn or foreign value is no multiple.
        let unit = if size_of::<V>() == 8 {
            0x1_0000_0001 * 7
        } else {
            0x1_0001 * 7
        };
        let all: Vec<K> = (0..keys).map(nth_key).collect();
        let map = on.map::<K, V>(usize::from(ADDERS) * (keys * per_round) as usize + 100);
        let adding = AtomicUsize::new(ADDERS.into());
        together(ADDERS + 2, |t| {
            if t < ADDERS {
                for _ in 0..rounds {
                    let steps =
                        (0..keys * per_round).map(|i| (key_bits(all[(i % keys) as usize]), unit));
                    let batch = Batch::<K, V>::of(steps);
                    map.merge(&batch.keys, &batch.values, Merge::Add).unwrap();
                }
                adding.fetch_sub(1, Ordering::AcqRel);
                return;
            }
            let mut last = vec![0; all.len()];
            while adding.load(Ordering::Acquire) > 0 {
                for ((k, v), last) in all.iter().zip(map.get(&all).unwrap()).zip(&mut last) {
                    let v = v.map_or(0, value_bits);
                    assert_eq!(v % unit, 0, "key {:#x} has {v:#x}", key_bits(*k));
                    assert!(
                        v >= *last,
                        "key {:#x} fell from {last} to {v}",
                        key_bits(*k)
                    );
                    *last = v;
                }
            }
        });
        let sum = u64::from(ADDERS) * rounds * per_round * unit;
        assert!(sum <= mask(size_of::<V>()), "the test itself wraps");
        let expected: Oracle = all.iter().map(|&k| (key_bits(k), sum)).collect();
        assert_holds(&map, &expected);
    }
    on_formats_with_values!(body);
}

#[test]
fn batches_that_may_not_fit_are_whole_or_absent() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        // Each thread has ten batches; together they reserve several times the slots.
        let map = on.map_of::<K, V>(&[on.n(96, 256)]);
        let size = map.slots() as u64 / 16;
        for round in (0..3).step_by(on.stride(3)) {
            map.clear().unwrap();
            // What all threads together know to be stored.
            let taken = Mutex::new(Oracle::new());
            together(THREADS, |t| {
                for i in 0..10 {
                    let first = (round * 1_000 + u64::from(t) * 10 + i) * size;
                    let batch = Batch::<K, V>::numbered(first..first + size, t);
                    match map.insert(&batch.keys, &batch.values) {
                        Ok(new) => {
                            assert_eq!(new as u64, size);
                            taken.lock().unwrap().extend(batch.bits());
                        }
                        Err(Error::Full {
                            partial: false,
                            batch,
                            ..
                        }) => assert_eq!(batch as u64, size),
                        Err(other) => panic!("{other}"),
                    }
                    // What this thread has seen stored stays, also while others are refused.
                    map.get(&batch.keys).unwrap();
                }
            });
            let taken = taken.into_inner().unwrap();
            assert_eq!(taken.len(), map.slots(), "the map could have taken more");
            assert_holds(&map, &taken);
        }
    }
    on_every_format!(body);
}

#[test]
fn a_refused_batch_takes_nothing_of_the_others() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let map = on.map_of::<K, V>(&[on.n(256, 2_048)]);
        let slots = map.slots() as u64;
        for round in (0..on.n(6, 30) as u64).step_by(on.stride(3)) {
            map.clear().unwrap();
            // Keys of those batches that are in.
            let stored = Mutex::new(HashSet::new());
            let refused = AtomicUsize::new(0);
            together(THREADS, |t| {
                let mut random = SmallRng::seed_from_u64(round << 8 | u64::from(t));
                for _ in 0..3 {
                    // The batches overlap, and two or three of them fill the map.
                    let numbers = (0..slots / 2).map(|_| random.random_range(0..2 * slots));
                    let batch = Batch::<K, V>::numbered(numbers, t);
                    match map.insert(&batch.keys, &batch.values) {
                        Ok(_) => stored.lock().unwrap().extend(batch.bits().map(|(k, _)| k)),
                        Err(Error::Full { partial: false, .. }) => {
                            refused.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(other) => panic!("{other}"),
                    }
                }
            });
            // Whatever the order: the batches, which are the same in each run, have more keys together than there are
            // slots.
            assert!(refused.into_inner() > 0, "the test itself is too small");
            let held = contents(&map);
            let stored = stored.into_inner().unwrap();
            assert!(
                held.keys().all(|k| stored.contains(k)),
                "a refused batch left a pair"
            );
            assert!(
                stored.iter().all(|k| held.contains_key(k)),
                "a refused batch took a pair"
            );
            assert_holds(&map, &held);
        }
    }
    on_every_format!(body);
}

#[test]
fn the_length_is_exact_when_all_have_returned() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(300, 50_000) as u64;
        // Planned so tightly that some calls run beside others and some alone.
        let map = on.map::<K, V>(2 * n as usize);
        for round in 0..4 {
            let new = AtomicUsize::new(0);
            together(THREADS, |t| {
                let numbers = shuffled(n, t.into()).into_iter().map(|i| i + round * n / 4);
                let batch = Batch::<K, V>::numbered(numbers, t);
                let before = map.len();
                let stored = if t % 2 == 0 {
                    map.insert(&batch.keys, &batch.values)
                } else {
                    map.merge(&batch.keys, &batch.values, Merge::Add)
                };
                let stored = stored.unwrap();
                new.fetch_add(stored, Ordering::Relaxed);
                assert!(
                    map.len() >= before + stored,
                    "a call that returned is not counted"
                );
            });
            // Each round shifts the range of keys by a quarter.
            let expected = if round == 0 { n } else { n / 4 };
            assert_eq!(new.into_inner() as u64, expected, "round {round}");
            let (keys, values) = map.retrieve_all().unwrap();
            assert_eq!(paired(&keys, &values).len(), map.len());
        }
    }
    on_every_format!(body);
}

#[test]
fn what_is_taken_out_has_every_addition() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        const ADDERS: u8 = 3;
        // Two of them have cells of their own.
        let keys: Vec<K> = (0..20).map(nth_key).chain([key(!0), key(!1)]).collect();
        let rounds = on.n(60, 2_000);
        let times = on.n(4, 50);
        let adds: Vec<K> = keys
            .iter()
            .copied()
            .cycle()
            .take(times * keys.len())
            .collect();
        let ones = vec![value::<V>(1); adds.len()];
        // Room for the batches of all, so that they run side by side; what is removed takes room.
        let map = on.map::<K, V>(100 * adds.len());
        let adding = AtomicUsize::new(ADDERS.into());
        let taken = Mutex::new(Oracle::new());
        together(ADDERS + 1, |t| {
            if t < ADDERS {
                for _ in 0..rounds {
                    map.merge(&adds, &ones, Merge::Add).unwrap();
                }
                adding.fetch_sub(1, Ordering::AcqRel);
                return;
            }
            let mut taken = taken.lock().unwrap();
            for round in 0.. {
                let last = adding.load(Ordering::Acquire) == 0;
                // Takes nothing out, but moves every pair.
                assert_eq!(map.retain_keys(&keys).unwrap(), 0);
                if round % 4 == 3 {
                    let (keys, values) = map.drain().unwrap();
                    for (&k, &v) in keys.iter().zip(&values) {
                        *taken.entry(key_bits(k)).or_default() += value_bits(v);
                    }
                } else {
                    for (&k, v) in keys.iter().zip(map.take(&keys).unwrap()) {
                        *taken.entry(key_bits(k)).or_default() += v.map_or(0, value_bits);
                    }
                }
                if last {
                    break;
                }
            }
        });
        assert!(map.is_empty() && contents(&map).is_empty());
        let sum = u64::from(ADDERS) * (rounds * times) as u64;
        let expected: Oracle = keys.iter().map(|&k| (key_bits(k), sum)).collect();
        assert_eq!(taken.into_inner().unwrap(), expected);
    }
    on_formats_with_values!(body);
}

#[test]
fn clear_beside_all_other_verbs() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(500, 20_000) as u64;
        let map = on.map::<K, V>(8 * n as usize);
        let clearing = AtomicBool::new(true);
        together(5, |t| {
            if t == 0 {
                for _ in (0..20).step_by(on.stride(4)) {
                    map.clear().unwrap();
                    thread::yield_now();
                }
                clearing.store(false, Ordering::Release);
                return;
            }
            let batch = Batch::<K, V>::numbered(0..n, t);
            while clearing.load(Ordering::Acquire) {
                match t {
                    1 | 2 => drop(map.insert(&batch.keys, &batch.values).unwrap()),
                    3 => {
                        for (&k, v) in batch.keys.iter().zip(map.get(&batch.keys).unwrap()) {
                            assert!(v.is_none_or(|v| writer_of(k, v) <= 2));
                        }
                    }
                    _ => {
                        let (keys, values) = map.retrieve_all().unwrap();
                        paired(&keys, &values);
                        for (&k, &v) in keys.iter().zip(&values) {
                            assert!(writer_of(k, v) <= 2);
                        }
                    }
                }
            }
        });
        let held = contents(&map);
        for (k, v) in held {
            assert!(writer_of::<K, V>(key(k), value(v)) <= 2);
        }
        map.clear().unwrap();
        let all = Batch::<K, V>::numbered(0..8 * n, 9);
        assert_eq!(map.insert(&all.keys, &all.values).unwrap() as u64, 8 * n);
        assert_holds(&map, &all.bits().collect());
    }
    on_every_format!(body);
}

/// Threads that store a few pairs a call reserve more than that. The map does not grow before it is full.
#[test]
fn the_last_room_is_for_every_thread() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        const EACH: usize = 100;
        let pairs = on.n(40_000 / on.stride(20), 50_000);
        let map = on.builder::<K, V>().capacity(pairs).build().unwrap();
        let slots = map.slots();
        let (calls, next) = (map.capacity() / EACH, AtomicUsize::new(0));
        let keys_of = |call: usize| {
            let numbers = (call * EACH) as u64..((call + 1) * EACH) as u64;
            Batch::<K, V>::of(numbers.map(|i| (i, 0)))
        };
        together(THREADS, |_| {
            loop {
                let call = next.fetch_add(1, Ordering::Relaxed);
                if call >= calls {
                    break;
                }
                let batch = keys_of(call);
                let stored = map.insert(&batch.keys, &batch.values).unwrap();
                assert_eq!(stored, EACH);
            }
        });
        assert_eq!(map.len(), calls * EACH);
        let last = keys_of(calls + 1);
        let rest = map.capacity() - map.len();
        let (keys, values) = (&last.keys[..rest], &last.values[..rest]);
        assert_eq!(map.insert(keys, values).unwrap(), rest);
        assert_eq!(map.slots(), slots, "it has grown");
        assert_eq!(map.remove(keys).unwrap(), rest);
        assert_eq!(map.len(), calls * EACH);
    }
    on_every_format!(body);
}
