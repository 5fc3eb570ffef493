//! Maps of every kind with a fixed capacity: a batch that does not fit is refused, and the map is as it was.

use gpumap::sharded::{Ranks, devices};
use gpumap::{
    Device, Error, Growth, Key, Map, Merge, MultiMap, Numeric, Result, RowMap, ShardedMap,
};
use gpumap_tests::device::noting;
use gpumap_tests::faults::Subject;
use gpumap_tests::pairs::nth_key;
use gpumap_tests::{Target, on_every_target, value};

use super::rows::{Key as RowsKey, keys, on_every_device};

/// Panics unless a verb is refused for want of room, several times, and the map holds what it held before.
fn assert_refused<M: Subject, T>(map: &M, batch: usize, verb: impl Fn(&M) -> Result<T>) {
    let before = map.contents().unwrap();
    for _ in 0..3 {
        match verb(map).map(drop) {
            Err(Error::Full {
                len,
                batch: of_batch,
                unplaced,
                partial: false,
                ..
            }) => {
                assert_eq!(len, before.len());
                // Of a multimap only absent keys count.
                assert!((1..=batch).contains(&of_batch), "{of_batch} of {batch}");
                assert!(
                    (1..=of_batch).contains(&unplaced),
                    "{unplaced} of {of_batch}"
                );
            }
            other => panic!("not refused: {other:?}"),
        }
        assert_eq!(map.len(), before.len());
        assert!(map.contents().unwrap() == before, "the map has changed");
    }
}

/// A map built for 100 said 102 and held 128, so that `capacity() - len()` was below zero.
#[test]
fn no_map_has_more_pairs_than_its_capacity() {
    /// Fills a map that was built for `wished` pairs to its refusal, and returns what it holds then.
    fn fill<M>(
        map: &M,
        wished: usize,
        sizes: impl Fn(&M) -> (usize, usize),
        store: impl Fn(&M, &[u32]) -> Result<()>,
    ) -> usize {
        let (len, capacity) = sizes(map);
        assert!(len == 0 && capacity >= wished, "{capacity} of {wished}");
        // One by one where that is soon done, else most of them in one batch.
        let mut next = match wished {
            0..300 => 0,
            _ => wished as u32,
        };
        store(map, &(0..next).collect::<Vec<_>>()).unwrap();
        loop {
            let (len, capacity) = sizes(map);
            assert!(
                len == next as usize && len <= capacity,
                "{len} of {capacity}"
            );
            if let Err(error) = store(map, &[next]) {
                assert!(matches!(error, Error::Full { .. }), "{error}");
                // What was said to fit has fitted.
                assert!(
                    len >= wished && len == capacity,
                    "{len} of {capacity}, {wished}"
                );
                return len;
            }
            next += 1;
        }
    }
    on_every_target(|on| {
        let fixed = Growth::Fixed;
        for wished in [
            0,
            1,
            2,
            3,
            4,
            5,
            15,
            16,
            17,
            63,
            64,
            65,
            100,
            127,
            200,
            on.n(301, 1_000),
        ] {
            let map = Map::<u64, u64>::builder(on.device())
                .capacity(wished)
                .growth(fixed);
            let map = map.build().unwrap();
            let sizes = |map: &Map<u64, u64>| (map.len(), map.capacity());
            let held = fill(&map, wished, sizes, |map, keys| {
                let keys: Vec<u64> = keys.iter().map(|&key| key.into()).collect();
                map.insert(&keys, &keys).map(drop)
            });
            assert_eq!(held, map.slots());
            assert_eq!(map.stats().unwrap().capacity, held);

            let set = Map::<u32, ()>::builder(on.device())
                .capacity(wished)
                .growth(fixed);
            let sizes = |set: &Map<u32, ()>| (set.len(), set.capacity());
            fill(&set.build().unwrap(), wished, sizes, |set, keys| {
                set.insert_keys(keys).map(drop)
            });

            let arena = Map::<u32, [u64; 5]>::builder(on.device()).capacity(wished);
            let sizes = |map: &Map<u32, [u64; 5]>| (map.len(), map.capacity());
            fill(
                &arena.growth(fixed).build().unwrap(),
                wished,
                sizes,
                |map, keys| map.insert(keys, &vec![[7; 5]; keys.len()]).map(drop),
            );

            let wide = Map::<[u32; 3], u32>::builder(on.device()).capacity(wished);
            let sizes = |map: &Map<[u32; 3], u32>| (map.len(), map.capacity());
            fill(
                &wide.growth(fixed).build().unwrap(),
                wished,
                sizes,
                |map, keys| {
                    let wide: Vec<[u32; 3]> = keys.iter().map(|&key| [key; 3]).collect();
                    map.insert(&wide, keys).map(drop)
                },
            );

            let rows = RowMap::<u64>::builder(on.device()).capacity(wished);
            let sizes = |map: &RowMap<u64>| (map.len(), map.capacity());
            fill(
                &rows.growth(fixed).build().unwrap(),
                wished,
                sizes,
                |map, keys| {
                    let keys: Vec<u64> = keys.iter().map(|&key| key.into()).collect();
                    map.insert(&keys).map(drop)
                },
            );
        }
        let pool = MultiMap::<u32, u32>::builder(on.device()).buckets(8);
        let pool = pool.pool_slabs(12).build().unwrap();
        let sizes = |map: &MultiMap<u32, u32>| (map.len(), map.capacity());
        for key in 0..10_000 {
            let (len, capacity) = sizes(&pool);
            assert!(len <= capacity, "{len} of {capacity}");
            if pool.append(&[key], &[key]).is_err() {
                break;
            }
        }
        assert!(pool.append(&[7], &[7]).is_err());
    });
    // Ranks fill up one by one.
    let ranks = Ranks::new(&devices("cpu,cpu,cpu").unwrap()).unwrap();
    for wished in [1, 100] {
        let map = ShardedMap::<u32, u32>::builder(&ranks).capacity(wished);
        let map = map.growth(Growth::Fixed).build().unwrap();
        let refused = (0..10_000).find(|&key| {
            assert!(
                map.len() <= map.capacity(),
                "{} of {}",
                map.len(),
                map.capacity()
            );
            map.insert(&[key], &[key]).is_err()
        });
        assert!(refused.is_some() && map.len() <= map.capacity());
    }
}

/// As many pairs as a map takes, one by one, up to `most`.
fn filled(most: u64, insert: impl Fn(u64) -> Result<usize>) -> u64 {
    (0..most).find(|&i| insert(i).is_err()).unwrap_or(most)
}

/// Refused, and then present keys: `store` takes a range of numbers.
fn check<M: Subject>(map: &M, held: u64, store: impl Fn(&M, &[u64]) -> Result<usize>) {
    let batch: Vec<u64> = (held / 2..held + 40).rev().collect();
    assert_refused(map, batch.len(), |map| store(map, &batch));
    // The same pairs many times.
    let batch: Vec<u64> = (0..20 * held).map(|i| i % (held + 7)).collect();
    assert_refused(map, batch.len(), |map| store(map, &batch));
    let batch: Vec<u64> = (0..20 * held).map(|i| i % held).collect();
    assert_eq!(store(map, &batch).unwrap(), 0, "present keys need no room");
    assert_eq!(map.len() as u64, held);
}

#[test]
fn full_maps_are_as_they_were() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let map = on.fixed::<K, V>(100);
        let value_of = |i: u64| value::<V>(i * 3);
        let store = |map: &Map<K, V>, numbers: &[u64]| {
            let keys: Vec<K> = numbers.iter().map(|&i| nth_key(i)).collect();
            let values: Vec<V> = numbers.iter().map(|&i| value_of(i)).collect();
            map.insert(&keys, &values)
        };
        let held = filled(1_000, |i| store(&map, &[i]));
        assert!((100..1_000).contains(&held));
        check(&map, held, store);
    }
    gpumap_tests::on_every_format!(body);
}

#[test]
fn full_maps_of_large_values_are_as_they_were() {
    on_every_target(|on| {
        let map = Map::<u64, [u64; 5]>::builder(on.device())
            .capacity(100)
            .growth(Growth::Fixed)
            .build()
            .unwrap();
        let store = |map: &Map<u64, [u64; 5]>, numbers: &[u64]| {
            let values: Vec<_> = numbers.iter().map(|&i| [i; 5]).collect();
            map.insert(numbers, &values)
        };
        let held = filled(1_000, |i| store(&map, &[i]));
        assert!((100..1_000).contains(&held));
        check(&map, held, store);
        let batch: Vec<u64> = (0..held + 9).collect();
        let values: Vec<_> = batch.iter().map(|&i| [i + 1; 5]).collect();
        assert_refused(&map, batch.len(), |map| map.upsert(&batch, &values));
    });
}

#[test]
fn full_multimaps_are_as_they_were() {
    on_every_target(|on| {
        let map = MultiMap::<u32, u32>::builder(on.device())
            .buckets(8)
            .pool_slabs(12)
            .build()
            .unwrap();
        let store = |map: &MultiMap<u32, u32>, numbers: &[u64]| {
            let keys: Vec<u32> = numbers.iter().map(|&i| i as u32).collect();
            map.insert(&keys, &keys)
        };
        let held = filled(1_000, |i| store(&map, &[i]));
        assert!((100..1_000).contains(&held));
        check(&map, held, store);
        let batch: Vec<u32> = (0..4_000).map(|i| i % 50).collect();
        assert_refused(&map, batch.len(), |map| map.append(&batch, &batch));
    });
}

/// How many keys a fixed map has room for in these tests.
const CAPACITY: u64 = 100;

#[test]
fn full_wide_maps_are_as_they_were() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let map = wide::<K, V>(on.device(), CAPACITY as usize);
        let store = |map: &Map<K, V>, numbers: &[u64]| {
            let values: Vec<V> = numbers.iter().map(|&i| value(i * 3)).collect();
            map.insert(&keys::<K>(numbers.iter().copied()), &values)
        };
        assert_eq!(filled(1_000, |i| store(&map, &[i])), CAPACITY);
        check(&map, CAPACITY, store);
        let batch = keys::<K>(CAPACITY - 5..CAPACITY + 1);
        let values = vec![value::<V>(5); batch.len()];
        assert_refused(&map, 6, |map| map.upsert(&batch, &values));
        assert_refused(&map, 6, |map| map.merge(&batch, &values, Merge::Add));
        assert_refused(&map, 6, |map| map.get_or_insert(&batch, &values));
        assert_eq!(map.capacity(), CAPACITY as usize);
    }
    on_every_device::<u128>(body::<u128, u32>);
    on_every_device::<[u32; 3]>(body::<[u32; 3], u64>);
    on_every_device::<[u8; 16]>(body::<[u8; 16], ()>);
}

fn wide<K: Key, V: Numeric>(device: &Device, capacity: usize) -> Map<K, V> {
    let builder = Map::builder(device).capacity(capacity);
    builder.growth(Growth::Fixed).build().unwrap()
}

#[test]
fn wide_maps_use_the_room_of_removed_keys() {
    fn body<K: Key>(on: &Target) {
        let map = wide::<K, u64>(on.device(), CAPACITY as usize);
        let all: Vec<u64> = (0..1_000).collect();
        map.insert(&keys::<K>(0..100), &all[..100]).unwrap();
        let mut first = 0;
        for gone in [1, 30, 99, 100, 5] {
            assert_eq!(
                map.remove(&keys::<K>(first..first + gone)).unwrap() as u64,
                gone
            );
            // One more than was removed, then as many, several times over and among present keys.
            let batch = keys::<K>(first + gone..first + CAPACITY + gone + 1);
            let values = &all[..batch.len()];
            assert_refused(&map, batch.len(), |map| map.upsert(&batch, values));
            let numbers = |i| first + gone + i % CAPACITY;
            let batch = keys::<K>((0..9 * CAPACITY).map(numbers));
            let values: Vec<u64> = (0..9 * CAPACITY).map(|i| numbers(i) + 1).collect();
            assert_eq!(map.upsert(&batch, &values).unwrap() as u64, gone);
            first += gone;
            assert_eq!((map.len(), map.capacity()), (100, 100));
            assert_eq!(
                map.get(&batch).unwrap(),
                values.iter().copied().map(Some).collect::<Vec<_>>()
            );
        }
        map.reserve(50).unwrap();
        let batch = keys::<K>(first..first + CAPACITY + 50);
        assert_eq!(map.insert(&batch, &all[..batch.len()]).unwrap(), 50);
        let more = keys::<K>([first + CAPACITY + 50]);
        assert_refused(&map, 1, |map| map.insert(&more, &[1]));
        map.clear().unwrap();
        assert_eq!(map.insert(&batch, &all[..batch.len()]).unwrap(), 150);
        assert_refused(&map, 1, |map| map.insert(&more, &[1]));
    }
    on_every_device::<u128>(body::<u128>);
    on_every_device::<[u32; 3]>(body::<[u32; 3]>);
}

#[test]
fn full_row_maps_are_as_they_were() {
    fn body<K: RowsKey + ?Sized>(on: &Target)
    where
        RowMap<K>: Subject,
    {
        let on = &on.with_memory_budget(1 << 30);
        let builder = RowMap::<K>::builder(on.device()).capacity(CAPACITY as usize);
        let map = builder.growth(Growth::Fixed).build().unwrap();
        let allocated = on.device().allocated_bytes();
        let store = |map: &RowMap<K>, numbers: &[u64]| {
            let mut rows = vec![0; numbers.len()];
            let keys = keys::<K>(numbers.iter().copied());
            map.insert_into(K::batch(&keys), &mut rows[..])
        };
        // Few different keys, far more often than there is room for.
        let batch: Vec<u64> = (0..70 * CAPACITY).map(|i| i % 90).collect();
        assert_eq!(store(&map, &batch).unwrap(), 90);
        map.trim();
        if !K::ARE_STRINGS {
            assert_eq!(on.device().allocated_bytes(), allocated);
        }
        assert_eq!(filled(1_000, |i| store(&map, &[i])), CAPACITY);
        check(&map, CAPACITY, store);
        assert_eq!((map.capacity(), map.row_bound()), (100, 100));
        // No other key gets the rows of removed ones before they are dense.
        map.remove(K::batch(&keys::<K>(10..20))).unwrap();
        assert_refused(&map, 1, |map| store(map, &[10]));
        map.compact().unwrap();
        assert_eq!(
            map.insert(K::batch(&keys::<K>(200..210))).unwrap(),
            (90..100).collect::<Vec<u32>>()
        );
        assert_refused(&map, 1, |map| store(map, &[10]));
        // With more room than was asked for at first: also after rows were made dense.
        map.remove(K::batch(&keys::<K>(0..100))).unwrap();
        map.reserve(60).unwrap();
        assert_eq!(map.compact().unwrap().len(), 10);
        let batch: Vec<u64> = (0..600).map(|i| 300 + i % 150).collect();
        assert_eq!(store(&map, &batch).unwrap(), 150);
        assert_refused(&map, 1, |map| store(map, &[10]));
    }
    on_every_device::<u32>(body::<u32>);
    on_every_device::<[u64; 3]>(body::<[u64; 3]>);
    on_every_device::<str>(body::<str>);
    on_every_device::<[u8; 16]>(body::<[u8; 16]>);
}

#[test]
fn files_bring_the_room_that_they_need() {
    fn body<K: Key>(on: &Target) {
        let (device, batch) = (on.device(), keys::<K>(0..150));
        let values: Vec<u32> = (0..150).collect();
        let map = Map::<K, u32>::new(device).unwrap();
        map.insert(&batch, &values).unwrap();
        let mut bytes = Vec::new();
        map.save_to(&mut bytes).unwrap();
        let builder = |capacity| Map::<K, u32>::builder(device).capacity(capacity);
        for (capacity, room) in [(100, 150), (160, 160)] {
            let fixed = builder(capacity).growth(Growth::Fixed);
            let back = fixed.load_from(&bytes[..]).unwrap();
            let more = keys::<K>(150..150 + room - 150 + 1);
            let values = vec![7; more.len()];
            assert_refused(&back, more.len(), |map| map.insert(&more, &values));
            let fit = &more[..more.len() - 1];
            assert_eq!(back.insert(fit, &values[..fit.len()]).unwrap(), fit.len());
        }
        let map = RowMap::<K>::new(device).unwrap();
        map.insert(&batch).unwrap();
        bytes.clear();
        map.save_to(&mut bytes).unwrap();
        let fixed = RowMap::<K>::builder(device).growth(Growth::Fixed);
        let back = fixed.load_from(&bytes[..]).unwrap();
        assert_eq!(back.insert(&batch).unwrap(), (0..150).collect::<Vec<u32>>());
        let more = keys::<K>([150]);
        assert_refused(&back, 1, |map| map.insert(&more));
    }
    on_every_device::<u128>(body::<u128>);
}

/// Growth by other factors than the usual ones.
#[test]
fn maps_with_rows_grow_by_a_factor() {
    fn body<K: Key>(on: &Target) {
        let device = on.device();
        for factor in [1.05, 1.5, 4.0] {
            noting(&format!("{factor}"), || {
                let builder = RowMap::<K>::builder(device).capacity(1_000);
                let map = builder.growth(Growth::By(factor)).build().unwrap();
                map.insert(&keys::<K>(0..1_000)).unwrap();
                map.insert(&keys::<K>(1_000..1_030)).unwrap();
                let expected = 1_000.0 * factor;
                let found = map.capacity() as f64;
                assert!((0.99..1.02).contains(&(found / expected)), "{found}");
            });
        }
        for factor in [1.0, 65.0, f64::NAN] {
            let growth = Growth::By(factor);
            let rows = RowMap::<K>::builder(device).growth(growth).build();
            let wide = Map::<K, u32>::builder(device).growth(growth).build();
            assert!(matches!(rows.map(drop), Err(Error::Setting { .. })));
            assert!(matches!(wide.map(drop), Err(Error::Setting { .. })));
        }
    }
    on_every_device::<u128>(body::<u128>);
}
