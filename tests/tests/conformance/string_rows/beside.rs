//! Calls of several threads on one row map of strings.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use gpumap::RowMap;
use gpumap_tests::Target;

use super::{Oracle, on_every_device, string, strings};

/// A lookup sees all strings of a batch or none, and a dump as well, while memory for strings is added and replaced.
#[test]
fn lookups_beside_changes() {
    fn body(on: &Target) {
        let (batches, each) = (on.n(24, 100) as u64, on.n(200, 10_000) as u64);
        let map = RowMap::<str>::new(on.device()).unwrap();
        let batch = |i: u64| strings(i * each..(i + 1) * each);
        // Of all but the first batch, which stays, every second one is removed again.
        let (begin, ended) = (Barrier::new(3), AtomicBool::new(false));
        thread::scope(|scope| {
            for reader in 0..2 {
                let (map, begin, ended, batch) = (&map, &begin, &ended, &batch);
                scope.spawn(move || {
                    begin.wait();
                    let mut i = reader;
                    while !ended.load(Ordering::Acquire) {
                        let rows = map.get(&batch(i % batches)).unwrap();
                        match rows[0] {
                            None => assert!(rows.iter().all(Option::is_none), "a part of a batch"),
                            Some(first) => {
                                let expected = (first..).map(Some).take(each as usize);
                                assert!(rows.into_iter().eq(expected));
                            }
                        }
                        let all = map.keys().unwrap();
                        for (place, key) in all.iter().enumerate() {
                            let expected = place as u64 % each;
                            let number = match key {
                                [] => 0,
                                _ => {
                                    let digits =
                                        key.iter().rev().take_while(|b| b.is_ascii_digit());
                                    let digits: Vec<u8> = digits.copied().collect();
                                    digits
                                        .iter()
                                        .rev()
                                        .fold(0, |n, b| 10 * n + u64::from(b - b'0'))
                                }
                            };
                            assert_eq!(number % each, expected);
                            assert_eq!(key, string(number));
                        }
                        i += 1;
                    }
                });
            }
            begin.wait();
            for i in 0..batches {
                map.insert(&batch(i)).unwrap();
                if i % 2 == 1 {
                    assert_eq!(map.remove(&batch(i)).unwrap(), each as usize);
                }
                if i % 6 == 5 {
                    map.compact().unwrap();
                }
            }
            ended.store(true, Ordering::Release);
        });
        assert_eq!(map.len() as u64, batches / 2 * each);
    }
    on_every_device(body);
}

/// Threads that insert the same strings agree on their rows.
#[test]
fn inserts_beside_inserts() {
    fn body(on: &Target) {
        let n = on.n(2_000, 100_000) as u64;
        let map = RowMap::<str>::new(on.device()).unwrap();
        let insert = |offset: u64| {
            let mut got = Vec::new();
            for round in 0..10 {
                let batch = strings((0..n / 10).map(|i| (i * 7 + offset + round * n / 10) % n));
                let rows = map.insert(&batch).unwrap();
                got.extend(batch.into_iter().zip(rows));
            }
            got
        };
        let told = thread::scope(|scope| {
            let threads = [0, n / 3, n / 2].map(|offset| scope.spawn(move || insert(offset)));
            threads.map(|thread| thread.join().unwrap())
        });
        let keys = map.keys().unwrap();
        for (string, row) in told.into_iter().flatten() {
            assert_eq!(keys.get(row as usize), Some(&string[..]));
        }
        let mut oracle = Oracle::default();
        oracle.insert(&keys.to_vecs());
        oracle.assert_same(&map);
    }
    on_every_device(body);
}
