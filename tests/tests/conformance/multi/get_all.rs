//! All values of keys, in rows.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use gpumap::executor::Caller;
use gpumap::multi::AllValues;
use gpumap::{Buffer, Error, MultiMap, Numeric, Word, WordKey};
use gpumap_kernels::hash::mix64;
use gpumap_tests::multi::Model;
use gpumap_tests::pairs::{nth_key, patterns, value_by, writer_of};
use gpumap_tests::{
    Batch, Target, key, key_bits, on_every_multi_format, on_every_multi_pair, on_random_schedules,
    value_bits,
};

/// The values of key `i` as bits.
fn row<V: Numeric>(all: &AllValues<V>, i: usize) -> Vec<u64> {
    all[i].iter().map(|&value| value_bits(value)).collect()
}

/// Panics unless the map has exactly the model's values for these keys, in their order.
fn assert_rows<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(
    map: &MultiMap<K, V>,
    model: &Model,
    keys: &[K],
) {
    let all = map.get_all(keys).unwrap();
    assert_eq!(all.len(), keys.len());
    for (i, &k) in keys.iter().enumerate() {
        assert_eq!(
            row(&all, i),
            model.values(key_bits(k)),
            "key {:#x}",
            key_bits(k)
        );
    }
    let counts = map.count(keys).unwrap();
    assert!(all.iter().map(<[V]>::len).eq(counts));
}

#[test]
fn rows_are_those_of_a_hash_map() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let n = on.n(60, 20_000) as u64;
        let map = on.multi::<K, V>().buckets(on.n(3, 2_000)).build().unwrap();
        let mut model = Model::default();
        // Keys that mean a state among them; each once in a batch, so that the order is known.
        let of_number = |i: u64| if i < 4 { key(!i) } else { nth_key::<K>(i) };
        for round in 0..40u8 {
            let drawn = |salt: u64, of: u64| {
                let bits = move |i: &u64| mix64(salt << 40 | u64::from(round) << 32 | i);
                let here = move |i: &u64| bits(i).is_multiple_of(of);
                (0..n).filter(here).map(of_number)
            };
            let keys: Vec<K> = drawn(1, 2).collect();
            let values: Vec<V> = keys.iter().map(|&k| value_by(k, round)).collect();
            map.append(&keys, &values).unwrap();
            model.extend(Batch { keys, values }.bits());
            let gone: Vec<K> = drawn(2, 5).collect();
            map.remove(&gone).unwrap();
            for &k in &gone {
                model.remove(key_bits(k));
            }
            if round % 16 == 9 {
                map.compact().unwrap();
            }
            if round % 8 == 3 {
                // Some twice, some never stored.
                let asked = drawn(3, 3)
                    .chain(drawn(4, 2))
                    .chain((n..n + 9).map(nth_key));
                assert_rows(&map, &model, &asked.collect::<Vec<_>>());
            }
        }
        let asked: Vec<K> = (0..n).map(of_number).collect();
        assert_rows(&map, &model, &asked);
        // More than a slab has room for.
        assert!(asked.iter().any(|&k| model.values(key_bits(k)).len() > 15));
    }
    on_every_multi_pair!(body);
}

#[test]
fn keys_of_any_pattern_have_rows_of_their_own() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let map = on.multi::<K, V>().buckets(1).build().unwrap();
        let keys: Vec<K> = patterns(size_of::<K>()).into_iter().map(key).collect();
        let mut model = Model::default();
        for writer in 0..20 {
            let values: Vec<V> = keys.iter().map(|&k| value_by(k, writer)).collect();
            map.append(&keys, &values).unwrap();
            let keys = keys.clone();
            model.extend(Batch { keys, values }.bits());
        }
        assert_rows(&map, &model, &keys);
    }
    on_every_multi_format!(body);
}

#[test]
fn nothing_asked_and_nothing_there() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let map = on.multi::<K, V>().build().unwrap();
        let none: &[K] = &[];
        for round in 0..2 {
            let all = map.get_all(none).unwrap();
            assert_eq!((all.is_empty(), all.offsets()), (true, &[0][..]));
            let (mut offsets, mut values): ([u64; 1], &mut [V]) = ([9], &mut []);
            assert_eq!(map.get_all_into(none, &mut offsets, values).unwrap(), 0);
            assert_eq!(offsets, [0]);
            map.count_into(none, &mut []).unwrap();

            let asked = Batch::<K, V>::numbered(500..600, 1).keys;
            let all = map.get_all(&asked).unwrap();
            assert!(all.offsets() == [0; 101] && all.values().is_empty());
            let mut offsets = [9; 102];
            values = &mut [];
            assert_eq!(map.get_all_into(&asked, &mut offsets, values).unwrap(), 0);
            assert!(offsets[..101] == [0; 101] && offsets[101] == 9);
            if round == 0 {
                let batch = Batch::<K, V>::numbered(0..100, 1);
                map.insert(&batch.keys, &batch.values).unwrap();
            }
        }
    }
    on_every_multi_format!(body);
}

#[test]
fn rows_on_the_device_and_on_the_host() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let map = on.multi::<K, V>().buckets(2).build().unwrap();
        let mut model = Model::default();
        for writer in 0..6 {
            let batch = Batch::<K, V>::numbered(0..50, writer);
            map.append(&batch.keys, &batch.values).unwrap();
            model.extend(batch.bits());
        }
        let asked: Vec<K> = (20..70).chain(0..9).map(nth_key).collect();
        let (n, pairs) = (asked.len(), 6 * (30 + 9));
        let expected = map.get_all(&asked).unwrap();
        let (expected_offsets, expected_values) = (expected.offsets(), expected.values());
        assert_eq!(expected_values.len(), pairs);
        let as_offsets = |offsets: &[u64]| -> Vec<usize> {
            offsets.iter().map(|&offset| offset as usize).collect()
        };
        let bits =
            |values: &[V]| -> Vec<u64> { values.iter().map(|&value| value_bits(value)).collect() };

        // Outputs that are longer: what is after stays as it was.
        let stream = on.stream();
        let keys = Buffer::from_slice(&stream, &asked).unwrap();
        let before = vec![value_by::<K, V>(asked[0], 7); pairs + 1];
        let mut offsets = Buffer::from_slice(&stream, &vec![77; n + 2]).unwrap();
        let mut values = Buffer::from_slice(&stream, &before).unwrap();
        let there = map.get_all_into(&keys, &mut offsets, &mut values);
        let on_device = (
            there.unwrap(),
            offsets.to_vec().unwrap(),
            values.to_vec().unwrap(),
        );
        let (mut offsets, mut values) = (vec![77; n + 2], before.clone());
        let there = map.get_all_into(&asked, &mut offsets, &mut values);
        for (there, offsets, values) in [on_device, (there.unwrap(), offsets, values)] {
            assert_eq!(there, pairs);
            assert_eq!(as_offsets(&offsets[..n + 1]), expected_offsets);
            assert_eq!(bits(&values[..pairs]), bits(expected_values));
            assert_eq!(
                (offsets[n + 1], bits(&values[pairs..])),
                (77, bits(&before[..1]))
            );
        }

        let mut counts = Buffer::<u64>::zeroed(&stream, n).unwrap();
        map.count_into(&keys, &mut counts).unwrap();
        let counts = as_offsets(&counts.to_vec().unwrap());
        assert!(expected.iter().map(<[V]>::len).eq(counts));
    }
    on_every_multi_format!(body);
}

#[test]
fn outputs_without_room_are_refused() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let map = on.multi::<K, V>().build().unwrap();
        let batch = Batch::<K, V>::numbered(0..20, 1);
        map.append(&batch.keys, &batch.values).unwrap();
        map.append(&batch.keys, &batch.values).unwrap();
        let (mut offsets, mut values) = (vec![9; 21], batch.values.repeat(2));
        let refused = [
            map.count_into(&batch.keys, &mut offsets[..19]),
            map.get_all_into(&batch.keys, &mut offsets[..20], &mut values)
                .map(drop),
            map.get_all_into(&batch.keys, &mut offsets, &mut values[..39])
                .map(drop),
        ];
        for (refused, expected) in refused.into_iter().zip([(20, 19), (21, 20), (40, 39)]) {
            let Err(Error::OutputTooSmall { needed, given }) = refused else {
                panic!("{refused:?}")
            };
            assert_eq!((needed, given), expected);
        }
        let all = map.get_all_into(&batch.keys, &mut offsets, &mut values);
        assert_eq!(all.unwrap(), 40);
    }
    on_every_multi_format!(body);
}

/// Pairs of each key that removals take, since they were stored first.
const FIRST: u8 = 24;
/// Whose pairs stay.
const STAYS: u8 = 99;

/// A map with [`FIRST`] pairs of each key that may go and one after them that stays.
fn with_pairs_that_stay<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(
    on: &Target,
    keys: &[K],
) -> MultiMap<K, V> {
    let map = on.multi::<K, V>().buckets(2).build().unwrap();
    for writer in (0..FIRST).chain([STAYS]) {
        let values: Vec<V> = keys.iter().map(|&k| value_by(k, writer)).collect();
        map.append(keys, &values).unwrap();
    }
    map
}

/// Panics unless every row has the pair that stays, once, and no pair of other keys.
fn assert_stays<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(asked: &[K], all: &AllValues<V>) {
    assert_eq!(all.len(), asked.len());
    for (&k, row) in asked.iter().zip(all) {
        let writers = row.iter().map(|&v| writer_of(k, v));
        assert_eq!(writers.filter(|&writer| writer == STAYS).count(), 1);
    }
}

#[test]
fn rows_beside_writers_have_every_pair_that_stays() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let keys: Vec<K> = (0..on.n(40, 20_000) as u64).map(nth_key).collect();
        let map = with_pairs_that_stay::<K, V>(on, &keys);
        let running = AtomicUsize::new(2);
        thread::scope(|scope| {
            for writer in 100..102u8 {
                let (map, keys, running) = (&map, &keys, &running);
                scope.spawn(move || {
                    let values: Vec<V> = keys.iter().map(|&k| value_by(k, writer)).collect();
                    for _ in 0..FIRST / 2 {
                        map.append(keys, &values).unwrap();
                        assert_eq!(map.remove(keys).unwrap(), keys.len());
                    }
                    running.fetch_sub(1, Ordering::Relaxed);
                });
            }
            while running.load(Ordering::Relaxed) != 0 {
                assert_stays(&keys, &map.get_all(&keys).unwrap());
            }
        });
        assert_eq!(map.count(&keys).unwrap(), vec![25; keys.len()]);
        assert_stays(&keys, &map.get_all(&keys).unwrap());
    }
    on_every_multi_format!(body);
}

/// Pairs go between the two kernels of a call in some of the schedules.
#[test]
fn rows_are_whole_whatever_goes_meanwhile() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let executor = on.device().executor().expect("a CPU device");
        let keys: Vec<K> = (0..5).map(nth_key).collect();
        let map = with_pairs_that_stay::<K, V>(on, &keys);
        let rows = Mutex::new(Vec::new());
        let reader = || -> Caller<'_> {
            Box::new(|| {
                for _ in 0..4 {
                    let all = map.get_all(&keys).unwrap();
                    rows.lock().unwrap().push(all);
                }
            })
        };
        let writer = || -> Caller<'_> {
            Box::new(|| {
                let values: Vec<V> = keys.iter().map(|&k| value_by(k, 100)).collect();
                for _ in 0..FIRST / 6 {
                    map.remove(&keys).unwrap();
                    map.append(&keys[..1], &values[..1]).unwrap();
                    map.remove(&keys).unwrap();
                }
            })
        };
        executor.run_callers(vec![reader(), writer(), writer()]);
        for all in rows.into_inner().unwrap() {
            assert_stays(&keys, &all);
            // What was stored first is first, and nothing is there twice.
            for (&k, row) in keys.iter().zip(&all) {
                let writers: Vec<u8> = row.iter().map(|&v| writer_of(k, v)).collect();
                assert!(writers.is_sorted_by(|a, b| a < b || (*a, *b) == (100, 100)));
            }
        }
        assert_eq!(map.count(&keys).unwrap(), [17, 9, 9, 9, 9]);
    }
    on_random_schedules!(30, body: u32 => u32, u64 => u64);
}
