//! A map that grows while many host threads use it.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use gpumap::{Key, Map, Merge, Numeric};
use gpumap_tests::device::noting;
use gpumap_tests::pairs::{nth_key, value_by, writer_of};
use gpumap_tests::{
    Batch, Oracle, Target, assert_holds, contents, key, key_bits, on_every_format,
    on_formats_with_values, value, value_bits,
};

/// Counts one thread less when it ends, also by a panic: others wait for that.
struct Working<'a>(&'a AtomicU64);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Runs one closure per thread, all started together.
fn together(threads: u64, run: impl Fn(u64) + Sync) {
    let start = Barrier::new(threads as usize);
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

fn maps<K: Key, V: Numeric>(on: &Target) -> [(&'static str, Map<K, V>); 2] {
    let submaps = on.builder().submaps(5).page_slabs(2).build().unwrap();
    [("one submap", on.map(0)), ("five submaps", submaps)]
}

#[test]
fn inserters_and_readers() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        const WRITERS: u64 = 4;
        let n = on.n(3_000, 1_000_000) as u64;
        let steps = 25;
        for (shape, map) in maps::<K, V>(on) {
            noting(shape, || {
                let slots = map.slots();
                let new = AtomicUsize::new(0);
                let writing = AtomicU64::new(WRITERS);
                // Numbers below it are stored for certain.
                let certain = AtomicU64::new(0);
                together(WRITERS + 2, |t| {
                    if t < WRITERS {
                        let _working = Working(&writing);
                        for step in 0..steps {
                            // All write the same keys, in batches that end elsewhere.
                            let (from, to) = (n * step / steps, n * (step + 1) / steps);
                            let batch =
                                Batch::<K, V>::numbered(from.saturating_sub(9 * t)..to, t as u8);
                            let stored = map.insert(&batch.keys, &batch.values).unwrap();
                            new.fetch_add(stored, Ordering::Relaxed);
                            certain.fetch_max(to, Ordering::AcqRel);
                        }
                        return;
                    }
                    while writing.load(Ordering::Acquire) > 0 {
                        let there = certain.load(Ordering::Acquire);
                        let from = there.saturating_sub(200);
                        let asked: Vec<K> = (from..there + 200).map(nth_key).collect();
                        for (i, v) in (from..).zip(map.get(&asked).unwrap()) {
                            match v {
                                Some(v) => {
                                    assert!(u64::from(writer_of(nth_key::<K>(i), v)) < WRITERS);
                                }
                                None => assert!(i >= there, "key number {i} of {there} is lost"),
                            }
                        }
                    }
                });
                assert!(map.slots() > slots);
                assert_eq!(new.into_inner() as u64, n, "sum of the counts");
                let held = contents(&map);
                assert_eq!(held.len() as u64, n);
                for (k, v) in held {
                    writer_of::<K, V>(key(k), value(v));
                }
            });
        }
    }
    on_every_format!(body);
}

#[test]
fn counts_are_exact() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        const THREADS: u64 = 6;
        // In twelve parts of the same length.
        let keys = on.n(1_500, 240_000) as u64;
        for (shape, map) in maps::<K, V>(on) {
            noting(shape, || {
                together(THREADS, |t| {
                    for part in 0..12 {
                        let from = (part + t) % 12 * keys / 12;
                        let numbers = (from..from + keys / 6).map(|i| i % keys);
                        let ones = numbers.map(|i| (key_bits(nth_key::<K>(i)), 1));
                        let ones = Batch::<K, V>::of(ones);
                        map.merge(&ones.keys, &ones.values, Merge::Add).unwrap();
                    }
                });
                let expected: Oracle = (0..keys)
                    .map(|i| (key_bits(nth_key::<K>(i)), 2 * THREADS))
                    .collect();
                assert_holds(&map, &expected);
            });
        }
    }
    on_formats_with_values!(body);
}

#[test]
fn each_thread_has_its_own_keys_come_and_go() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        const THREADS: u64 = 5;
        let n = on.n(150, 30_000) as u64;
        for (shape, map) in maps::<K, V>(on) {
            noting(shape, || {
                together(THREADS, |t| {
                    for round in 0..12u8 {
                        let first = (t << 24) | (u64::from(round % 3) * n / 2);
                        let batch = Batch::<K, V>::numbered(first..first + n, round);
                        let new = map.upsert(&batch.keys, &batch.values).unwrap();
                        let shared = if round == 0 { 0 } else { n - n / 2 };
                        assert!(new as u64 >= n - shared - 1 && new as u64 <= n);
                        for (&k, v) in batch.keys.iter().zip(map.get(&batch.keys).unwrap()) {
                            let v = v.expect("this thread alone removes it");
                            assert_eq!(value_bits(v), value_bits(value_by::<K, V>(k, round)));
                        }
                        if round % 3 == 2 {
                            let all: Vec<K> =
                                ((t << 24)..(t << 24) + 2 * n + 1).map(nth_key).collect();
                            map.remove(&all).unwrap();
                            assert!(map.get(&all).unwrap().iter().all(Option::is_none));
                        } else {
                            let told = map.remove_with_outcome(&batch.keys[..n as usize / 2]);
                            assert!(told.unwrap().iter().all(|&removed| removed));
                        }
                    }
                });
                assert_holds(&map, &Oracle::new());
            });
        }
    }
    on_every_format!(body);
}

#[test]
fn shrinking_and_reserving_beside_all_others() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(400, 50_000) as u64;
        for (shape, map) in maps::<K, V>(on) {
            noting(shape, || {
                let stay = Batch::<K, V>::numbered(0..n, 1);
                map.insert(&stay.keys, &stay.values).unwrap();
                let shaping = AtomicU64::new(1);
                together(4, |t| {
                    if t == 0 {
                        let _working = Working(&shaping);
                        for i in 0..20 {
                            match i % 3 {
                                0 => map.reserve(4 * n as usize).unwrap(),
                                1 => map.shrink_to_fit().unwrap(),
                                _ => drop(map.stats().unwrap()),
                            }
                        }
                        return;
                    }
                    while shaping.load(Ordering::Acquire) == 1 {
                        match t {
                            1 => {
                                let own = Batch::<K, V>::numbered(n..2 * n, 2);
                                map.insert(&own.keys, &own.values).unwrap();
                                assert_eq!(map.remove(&own.keys).unwrap() as u64, n);
                            }
                            2 => assert!(map.contains(&stay.keys).unwrap().iter().all(|&is| is)),
                            _ => {
                                let (keys, _) = map.retrieve_all().unwrap();
                                assert!(keys.len() as u64 >= n);
                            }
                        }
                    }
                });
                assert_holds(&map, &stay.bits().collect());
            });
        }
    }
    on_every_format!(body);
}
