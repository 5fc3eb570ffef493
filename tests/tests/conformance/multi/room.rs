//! The pool: it grows, is compacted, and its slabs are used again.

use gpumap::{Numeric, Word, WordKey};
use gpumap_tests::multi::{Model, assert_model};
use gpumap_tests::{Batch, Target, on_every_multi_format};

#[test]
fn a_pool_grows_and_nothing_is_lost() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let step = on.n(2_500, 400_000) as u64;
        let map = on
            .multi::<K, V>()
            .buckets(on.n(100, 10_000))
            .build()
            .unwrap();
        let mut model = Model::default();
        let mut sizes = vec![map.stats().unwrap().pool_slabs];
        for round in 0..8 {
            let batch = Batch::<K, V>::numbered(round * step..(round + 1) * step, 1);
            if round % 2 == 0 {
                map.append(&batch.keys, &batch.values).unwrap();
            } else {
                assert_eq!(map.insert(&batch.keys, &batch.values).unwrap() as u64, step);
            }
            model.extend(batch.bits());
            assert!(map.len() <= map.capacity());
            sizes.push(map.stats().unwrap().pool_slabs);
        }
        sizes.dedup();
        assert!(sizes.len() >= 3 && sizes.is_sorted(), "{sizes:?}");
        assert_model(&map, &model);
    }
    on_every_multi_format!(body);
}

#[test]
fn reserved_room_is_there() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let n = on.n(5_000, 500_000);
        let map = on.multi::<K, V>().buckets(100).build().unwrap();
        map.reserve(n).unwrap();
        assert!(map.capacity() >= n);
        let before = map.stats().unwrap().pool_slabs;
        map.reserve(n).unwrap();
        let batch = Batch::<K, V>::numbered(0..n as u64, 1);
        map.append(&batch.keys, &batch.values).unwrap();
        assert_eq!(map.stats().unwrap().pool_slabs, before);
        assert_eq!(map.len(), n);
    }
    on_every_multi_format!(body);
}

#[test]
fn compact_gives_slabs_back() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let n = on.n(2_000, 200_000) as u64;
        let map = on.multi::<K, V>().buckets(on.n(20, 2_000)).build().unwrap();
        let batch = Batch::<K, V>::numbered(0..n, 1);
        map.insert(&batch.keys, &batch.values).unwrap();
        let full = map.stats().unwrap();
        assert_eq!(map.compact().unwrap(), 0, "nothing to compact");
        assert_eq!(map.stats().unwrap(), full);

        let mut model = Model::default();
        model.extend(batch.bits().filter(|(k, _)| k % 4 == 0));
        let gone: Vec<K> = (batch.keys.iter().copied())
            .filter(|&k| gpumap_tests::key_bits(k) % 4 != 0)
            .collect();
        assert_eq!(map.remove(&gone).unwrap(), gone.len());
        let holes = map.stats().unwrap();
        assert_eq!(holes.tombstones, gone.len());
        assert_eq!(holes.linked_slabs, full.linked_slabs);

        let freed = map.compact().unwrap();
        let compact = map.stats().unwrap();
        assert_eq!(compact.linked_slabs, full.linked_slabs - freed);
        assert!(freed > full.linked_slabs / 2, "{freed} slabs given back");
        assert_eq!(
            (compact.tombstones, compact.pool_slabs),
            (0, full.pool_slabs)
        );
        assert!(compact.longest_chain < full.longest_chain);
        assert_model(&map, &model);

        // They are used again.
        let gone = Batch::<K, V>::numbered(n..n + gone.len() as u64, 1);
        map.insert(&gone.keys, &gone.values).unwrap();
        model.extend(gone.bits());
        assert_model(&map, &model);
        assert_eq!(map.stats().unwrap().pool_slabs, full.pool_slabs);
    }
    on_every_multi_format!(body);
}

#[test]
fn two_hundred_rounds_of_churn_do_not_grow_the_pool() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let n = on.n(300, 100_000) as u64;
        for fixed in [false, true] {
            let mut builder = on.multi::<K, V>().buckets(on.n(16, 3_000));
            builder = if fixed {
                // A third more than the pairs need.
                builder.pool_slabs(n as usize / 7 * 4 / 3)
            } else {
                builder.capacity(2 * n as usize)
            };
            let map = builder.build().unwrap();
            let before = map.stats().unwrap();
            let first = Batch::<K, V>::numbered(0..n, 1);
            map.append(&first.keys, &first.values).unwrap();
            let step = n / 5;
            for round in 0..200 {
                let from = round * step;
                let old = Batch::<K, V>::numbered(from..from + step, 1);
                assert_eq!(map.remove(&old.keys).unwrap() as u64, step);
                let new = Batch::<K, V>::numbered(from + n..from + n + step, 1);
                assert_eq!(map.insert(&new.keys, &new.values).unwrap() as u64, step);
                assert_eq!(map.len() as u64, n);
            }
            let after = map.stats().unwrap();
            assert_eq!(
                (after.pool_slabs, after.bytes),
                (before.pool_slabs, before.bytes)
            );
            let mut model = Model::default();
            model.extend(Batch::<K, V>::numbered(200 * step..200 * step + n, 1).bits());
            assert_model(&map, &model);
        }
    }
    on_every_multi_format!(body);
}

#[test]
fn clear_leaves_an_empty_map_with_its_pool() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        // Not a multiple of anything: the last units of the pool do not exist.
        let map = on
            .multi::<K, V>()
            .buckets(300)
            .pool_slabs(1_061)
            .build()
            .unwrap();
        let batch = Batch::<K, V>::numbered(0..map.capacity() as u64, 1);
        for _ in 0..3 {
            map.insert(&batch.keys, &batch.values).unwrap();
            assert_eq!(map.len(), map.capacity());
            let gone = &batch.keys[..100];
            map.remove(gone).unwrap();
            map.clear().unwrap();
            assert_model(&map, &Model::default());
            let stats = map.stats().unwrap();
            assert_eq!((stats.linked_slabs, stats.tombstones), (0, 0));
            assert_eq!((stats.pool_slabs, stats.longest_chain), (1_061, 1));
        }
    }
    on_every_multi_format!(body);
}
