//! What calls of several threads do to each other.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use gpumap::{Key, Map, Value};
use gpumap_tests::blob::{assert_cells_add_up, blobs, run, tag, tags};
use gpumap_tests::pairs::nth_key;
use gpumap_tests::{Target, key, key_bits, on_blobs_by_row, on_every_blob};

/// The tag of a value that belongs to key number `i`, written in a round.
fn tag_of(i: u64, round: u64) -> u64 {
    i << 32 | round
}

/// Counts a thread down when it ends, also by a panic, so that threads that wait for it end.
struct Countdown<'a>(&'a AtomicUsize);
impl Drop for Countdown<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

fn keys<K: Key>(n: u64) -> Vec<K> {
    (0..n).map(nth_key).collect()
}

#[test]
fn readers_beside_upserts_see_whole_values() {
    fn body<K: Key, V: Value>(on: &Target) {
        let n = on.n(300, 50_000) as u64;
        let rounds = on.n(25, 100) as u64;
        // Few cells, so that they are written again soon.
        let map: Map<K, V> = on.map(n as usize);
        let all = keys::<K>(n);
        map.insert(&all, &blobs((0..n).map(|i| tag_of(i, 0))))
            .unwrap();
        let writers = AtomicUsize::new(2);
        thread::scope(|scope| {
            for writer in 0..2 {
                let (map, all, writers) = (&map, &all, &writers);
                scope.spawn(move || {
                    let _count = Countdown(writers);
                    for round in 0..rounds {
                        let tags = (0..n).map(|i| tag_of(i, 1 + 2 * round + writer));
                        assert_eq!(map.upsert(all, &blobs::<V>(tags)).unwrap(), 0);
                    }
                });
            }
            // By look-up and by dump: `tag` panics at a torn value.
            scope.spawn(|| {
                while writers.load(Ordering::Acquire) != 0 {
                    for (i, v) in map.get(&all).unwrap().iter().enumerate() {
                        let v = v.as_ref().expect("never removed");
                        assert_eq!(tag(v) >> 32, i as u64, "the value of another key");
                    }
                }
            });
            scope.spawn(|| {
                while writers.load(Ordering::Acquire) != 0 {
                    let (keys, values) = map.retrieve_all().unwrap();
                    assert_eq!(keys.len(), n as usize);
                    for (k, v) in keys.iter().zip(&values) {
                        let i = tag(v) >> 32;
                        assert_eq!(key_bits(nth_key::<K>(i)), key_bits(*k));
                    }
                }
            });
            // What a chunk was told of has been replaced when its values are read, and its cells may be another key's.
            scope.spawn(|| {
                while writers.load(Ordering::Acquire) != 0 {
                    let mut seen = HashSet::new();
                    map.for_each_chunk(1_000, |chunk| {
                        for (k, v) in chunk.iter() {
                            let i = tag(&v) >> 32;
                            assert_eq!(key_bits(nth_key::<K>(i)), key_bits(k));
                            assert!(seen.insert(i), "a key comes twice");
                        }
                        Ok(())
                    })
                    .unwrap();
                    assert_eq!(seen.len() as u64, n);
                }
            });
        });
        assert_cells_add_up(&map);
        // The last round of one of the two.
        for (_, tag) in tags(&map) {
            assert!((tag & 0xffff_ffff) > 2 * (rounds - 1));
        }
    }
    on_every_blob!(body);
    on_blobs_by_row!(body);
}

#[test]
fn all_verbs_side_by_side_lose_no_cell() {
    fn body<K: Key, V: Value>(on: &Target) {
        let n = on.n(150, 20_000) as u64;
        let rounds = on.n(20, 60) as u64;
        let map: Map<K, V> = on.map(0);
        // Reserved keys among them, whose slots are used again beside everything.
        let mut all = keys::<K>(n);
        all.extend((0..3).map(|i| key::<K>(u64::MAX - i)));
        let running = AtomicUsize::new(6);
        thread::scope(|scope| {
            let verb = |verb: u64| {
                let (map, all, running) = (&map, &all, &running);
                move || {
                    let _count = Countdown(running);
                    for round in 0..rounds {
                        let len = all.len() as u64;
                        let values: Vec<V> = blobs((0..len).map(|i| tag_of(i, round)));
                        match verb {
                            0 => drop(map.upsert(all, &values).unwrap()),
                            1 => drop(map.insert(all, &values).unwrap()),
                            2 => {
                                let held = map.get_or_insert(all, &values).unwrap();
                                for (i, v) in held.iter().enumerate() {
                                    assert_eq!(tag(v) >> 32, i as u64);
                                }
                            }
                            3 => drop(map.remove(all).unwrap()),
                            4 => drop(map.update(all, &values).unwrap()),
                            _ => {
                                let taken = map.take(all).unwrap();
                                for (i, v) in taken.iter().enumerate() {
                                    assert!(v.is_none_or(|v| tag(&v) >> 32 == i as u64));
                                }
                            }
                        }
                    }
                }
            };
            (0..6).for_each(|which| drop(scope.spawn(verb(which))));
            scope.spawn(|| {
                while running.load(Ordering::Acquire) != 0 {
                    map.get(&all).unwrap().iter().flatten().for_each(|v| {
                        tag(v);
                    });
                    assert_cells_of_a_moment(&map);
                }
            });
        });
        assert_cells_add_up(&map);
        tags(&map);
    }
    run::<u32, [u64; 3]>(body::<u32, [u64; 3]>);
    run::<u64, [u64; 2]>(body::<u64, [u64; 2]>);
    run::<u64, gpumap_tests::blob::Bytes<31>>(body::<u64, gpumap_tests::blob::Bytes<31>>);
}

/// At every moment without a call in flight each cell is somewhere.
fn assert_cells_of_a_moment<K: Key, V: Value>(map: &Map<K, V>) {
    let audit = map.audit().unwrap();
    let places = [&audit.stored, &audit.free, &audit.retired];
    let seen: HashSet<&u32> = places.into_iter().flatten().collect();
    assert_eq!(seen.len(), audit.all.len());
    assert_eq!(places.map(Vec::len).iter().sum::<usize>(), seen.len());
}

#[test]
fn maps_can_be_shared_and_sent() {
    fn shared<T: Send + Sync>() {}
    shared::<Map<u64, [u64; 32]>>();
}
