//! Calls of several threads at once.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use gpumap::{Numeric, Word, WordKey};
use gpumap_tests::multi::{Model, assert_model};
use gpumap_tests::pairs::{value_by, writer_of};
use gpumap_tests::{Batch, Target, key_bits, on_every_multi_format};

const THREADS: u8 = 4;

#[test]
fn every_key_is_inserted_once_by_whoever_is_first() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let n = on.n(400, 100_000) as u64;
        // With room for all batches at once, and with none: they run beside each other, and alone.
        for capacity in [THREADS as usize * (n as usize + 10_000), 0] {
            let map = on.multi::<K, V>().capacity(capacity).build().unwrap();
            let (inserted, start) = (AtomicUsize::new(0), Barrier::new(THREADS.into()));
            thread::scope(|scope| {
                for writer in 0..THREADS {
                    let (map, inserted, start) = (&map, &inserted, &start);
                    scope.spawn(move || {
                        let batch = Batch::<K, V>::numbered(0..n, writer);
                        start.wait();
                        let new = map.insert(&batch.keys, &batch.values).unwrap();
                        inserted.fetch_add(new, Ordering::Relaxed);
                        // All are there now, each with a value that some thread wrote for it.
                        for (&k, found) in batch.keys.iter().zip(map.get(&batch.keys).unwrap()) {
                            assert!(writer_of(k, found.expect("a key is missing")) < THREADS);
                        }
                    });
                }
            });
            assert_eq!(inserted.into_inner() as u64, n);
            let keys = Batch::<K, V>::numbered(0..n, 0).keys;
            let mut model = Model::default();
            for (&k, found) in keys.iter().zip(map.get(&keys).unwrap()) {
                let value = value_by::<K, V>(k, writer_of(k, found.unwrap()));
                model.append((key_bits(k), gpumap_tests::value_bits(value)));
            }
            assert_model(&map, &model);
        }
    }
    on_every_multi_format!(body);
}

#[test]
fn every_appended_pair_is_there_and_removed_once() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let (n, rounds) = (on.n(100, 20_000) as u64, 6);
        let map = on.multi::<K, V>().capacity(0).build().unwrap();
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let batch = Batch::<K, V>::numbered(0..n, 1);
                    for _ in 0..rounds {
                        map.append(&batch.keys, &batch.values).unwrap();
                    }
                });
            }
        });
        let pairs = rounds * usize::from(THREADS);
        let batch = Batch::<K, V>::numbered(0..n, 1);
        assert_eq!(map.count(&batch.keys).unwrap(), vec![pairs; n as usize]);
        let removed = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..rounds + 1 {
                        let taken = map.remove(&batch.keys).unwrap();
                        removed.fetch_add(taken, Ordering::Relaxed);
                    }
                    map.compact().unwrap();
                });
            }
        });
        assert_eq!(removed.into_inner(), pairs * n as usize);
        assert_model(&map, &Model::default());
    }
    on_every_multi_format!(body);
}

#[test]
fn retrieve_all_beside_writers_has_every_pair_that_stays_once() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let (n, dumps) = (on.n(300, 50_000) as u64, on.n(6, 30));
        let map = on.multi::<K, V>().buckets(on.n(20, 2_000)).build().unwrap();
        let stays = Batch::<K, V>::numbered(0..n, 9);
        map.insert(&stays.keys, &stays.values).unwrap();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for writer in 1..3u8 {
                let (map, done) = (&map, &done);
                scope.spawn(move || {
                    let from = u64::from(writer) * 1_000_000;
                    let batch = Batch::<K, V>::numbered(from..from + n / 3, writer);
                    while !done.load(Ordering::Relaxed) {
                        map.append(&batch.keys, &batch.values).unwrap();
                        map.remove(&batch.keys).unwrap();
                    }
                });
            }
            for _ in 0..dumps {
                let (keys, values) = map.retrieve_all().unwrap();
                let mut stayed = Vec::new();
                for (&k, &v) in keys.iter().zip(&values) {
                    match writer_of(k, v) {
                        9 => stayed.push(key_bits(k)),
                        writer => assert!(writer < 3, "writer {writer}"),
                    }
                }
                let mut expected: Vec<u64> = stays.keys.iter().map(|&k| key_bits(k)).collect();
                stayed.sort_unstable();
                expected.sort_unstable();
                assert_eq!(stayed, expected);
            }
            done.store(true, Ordering::Relaxed);
        });
        map.compact().unwrap();
        let mut model = Model::default();
        model.extend(stays.bits());
        assert_model(&map, &model);
    }
    on_every_multi_format!(body);
}
