//! Calls of several threads on one row map.

use std::borrow::Borrow;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use gpumap::RowMap;
use gpumap_tests::Target;

use super::{Key, One, keys, on_keys};

fn bytes(keys: &[impl One]) -> Vec<&[u8]> {
    keys.iter().map(One::bytes).collect()
}

/// A lookup sees all keys of a batch or none, and a row never changes.
#[test]
fn lookups_beside_inserts() {
    fn body<K: Key<One: Send + Sync> + ?Sized>(on: &Target) {
        let (batches, each) = (on.n(40, 200) as u64, on.n(400, 20_000) as u64);
        let map = RowMap::<K>::new(on.device()).unwrap();
        let batch = |i: u64| keys::<K>(i * each..(i + 1) * each);
        let (begin, ended) = (Barrier::new(3), AtomicBool::new(false));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    begin.wait();
                    let (mut seen, mut i) = (0, 0);
                    while !ended.load(Ordering::Acquire) || i < batches {
                        let at = seen.min(batches - 1);
                        let rows = map.get(K::batch(&batch(at))).unwrap();
                        let first = (at * each) as u32;
                        match rows[0] {
                            None => assert!(rows.iter().all(Option::is_none), "a part of a batch"),
                            Some(_) => {
                                assert!(
                                    rows.into_iter().eq((first..).map(Some).take(each as usize))
                                );
                                seen += 1;
                            }
                        }
                        let len = map.len();
                        let all = map.keys().unwrap();
                        let all = K::bytes(all.borrow());
                        assert!(len <= all.len() && (all.len() as u64).is_multiple_of(each));
                        assert_eq!(all, bytes(&keys::<K>(0..all.len() as u64)));
                        i += 1;
                    }
                });
            }
            begin.wait();
            for i in 0..batches {
                let first = (i * each) as u32;
                assert!(
                    map.insert(K::batch(&batch(i)))
                        .unwrap()
                        .into_iter()
                        .eq(first..first + each as u32)
                );
            }
            ended.store(true, Ordering::Release);
        });
    }
    on_keys!(body: u64, [u32; 3], str);
}

/// Threads that insert the same keys agree on their rows.
#[test]
fn inserts_beside_inserts() {
    fn body<K: Key<One: Send + Sync> + ?Sized>(on: &Target) {
        let n = on.n(2_000, 200_000) as u64;
        let map = RowMap::<K>::new(on.device()).unwrap();
        let insert = |offset: u64| {
            let mut got = Vec::new();
            for round in 0..10 {
                let batch = keys::<K>((0..n / 10).map(|i| (i * 7 + offset + round * n / 10) % n));
                let rows = map.insert(K::batch(&batch)).unwrap();
                got.extend(batch.into_iter().zip(rows));
            }
            got
        };
        let told = thread::scope(|scope| {
            let threads = [0, n / 3, n / 2].map(|offset| scope.spawn(move || insert(offset)));
            threads.map(|thread| thread.join().unwrap())
        });
        let all = map.keys().unwrap();
        let rows = map.get(&all).unwrap();
        let all = K::bytes(all.borrow());
        assert_eq!(all.len(), map.len());
        assert!(
            rows.into_iter().eq((0..all.len() as u32).map(Some)),
            "a key twice"
        );
        for (key, row) in told.into_iter().flatten() {
            assert_eq!(all[row as usize], key.bytes());
        }
    }
    on_keys!(body: u32, [u64; 3], str);
}

/// A lookup sees all keys of a removal or none, and rows are dense after a compaction or as they were.
#[test]
fn lookups_beside_removals() {
    fn body<K: Key<One: Send + Sync> + ?Sized>(on: &Target) {
        let (rounds, each) = (on.n(30, 200) as u64, on.n(200, 20_000) as u64);
        let map = RowMap::<K>::new(on.device()).unwrap();
        // Rows of the second half follow those of the first, which come and go.
        let (comes, stays) = (keys::<K>(0..each), keys::<K>(each..2 * each));
        map.insert(K::batch(&[&comes[..], &stays].concat()))
            .unwrap();
        let (begin, ended) = (Barrier::new(3), AtomicBool::new(false));
        let follow_each_other = |rows: &[Option<u32>]| match rows[0] {
            None => rows.iter().all(Option::is_none),
            Some(first) => rows
                .iter()
                .copied()
                .eq((first..).map(Some).take(rows.len())),
        };
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    begin.wait();
                    while !ended.load(Ordering::Acquire) {
                        let asked = [&stays[..], &comes].concat();
                        let rows = map.get(K::batch(&asked)).unwrap();
                        let (of_stays, of_comes) = rows.split_at(stays.len());
                        assert!(of_stays[0].is_some() && follow_each_other(of_stays));
                        assert!(follow_each_other(of_comes), "a part of a removal");
                        let (all, rows) = map.retrieve_all().unwrap();
                        let all = K::bytes(all.borrow());
                        let mut halves = all.chunks(each as usize);
                        assert!(halves.all(|half| half == bytes(&stays) || half == bytes(&comes)));
                        assert!(all.len() == rows.len() && rows.is_sorted_by(|a, b| a < b));
                    }
                });
            }
            begin.wait();
            for round in 0..rounds {
                assert_eq!(map.remove(K::batch(&comes)).unwrap(), comes.len());
                if round % 3 == 0 {
                    let old = map.compact().unwrap();
                    assert_eq!((old.len(), map.row_bound()), (stays.len(), stays.len()));
                }
                map.insert(K::batch(&comes)).unwrap();
            }
            ended.store(true, Ordering::Release);
        });
        assert_eq!(map.len(), 2 * each as usize);
    }
    on_keys!(body: u64, [u32; 3], str);
}

/// Threads that insert and remove keys of their own, beside compactions, lose none and leave none behind.
#[test]
fn removals_beside_inserts_and_compactions() {
    fn body<K: Key<One: Send + Sync> + ?Sized>(on: &Target) {
        let each = on.n(300, 20_000) as u64;
        let map = RowMap::<K>::new(on.device()).unwrap();
        thread::scope(|scope| {
            for thread in 0..3 {
                let map = &map;
                scope.spawn(move || {
                    let mine = keys::<K>(thread * each..(thread + 1) * each);
                    let half = &mine[..mine.len() / 2];
                    for round in 0..8 {
                        map.insert(K::batch(&mine)).unwrap();
                        assert!(
                            map.get(K::batch(&mine))
                                .unwrap()
                                .iter()
                                .all(Option::is_some)
                        );
                        assert_eq!(map.remove(K::batch(half)).unwrap(), half.len());
                        assert!(map.get(K::batch(half)).unwrap().iter().all(Option::is_none));
                        if round % 3 == thread % 3 {
                            map.compact().unwrap();
                        }
                    }
                });
            }
        });
        let old = map.compact().unwrap();
        let expected = 3 * (each - each / 2);
        assert_eq!(
            (old.len(), map.len()),
            (expected as usize, expected as usize)
        );
        let rows = map.get(&map.keys().unwrap()).unwrap();
        assert!(rows.into_iter().eq((0..old.len() as u32).map(Some)));
    }
    on_keys!(body: u32, [u64; 3], str);
}
