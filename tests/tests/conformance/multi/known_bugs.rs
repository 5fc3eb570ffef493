//! What implementations of the slab hash are known to have got wrong, one test each.

use std::thread;

use gpumap::{Numeric, Word, WordKey};
use gpumap_tests::multi::{Model, assert_model};
use gpumap_tests::pairs::value_by;
use gpumap_tests::{Batch, Target, key, key_bits, on_every_multi_format, on_pairs};

/// A deleted slot at the front of a chain must not be filled by a key that lies further back.
#[test]
fn unique_insert_after_delete_makes_no_duplicate() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let map = on.multi::<K, V>().buckets(1).build().unwrap();
        let batch = Batch::<K, V>::numbered(0..200, 1);
        for &k in &batch.keys {
            // One by one: the chain has them in this order.
            map.insert(&[k], &[value_by(k, 1)]).unwrap();
        }
        assert!(map.stats().unwrap().longest_chain > 10);
        map.remove(&batch.keys[..50]).unwrap();
        let again = Batch::<K, V>::numbered(0..200, 2);
        assert_eq!(map.insert(&again.keys, &again.values).unwrap(), 50);
        assert_eq!(map.count(&batch.keys).unwrap(), [1; 200]);
        let mut model = Model::default();
        model.extend(Batch::<K, V>::numbered(0..50, 2).bits());
        model.extend(Batch::<K, V>::numbered(50..200, 1).bits());
        assert_model(&map, &model);
        // Nor after the holes have been closed.
        map.compact().unwrap();
        assert_eq!(map.insert(&again.keys, &again.values).unwrap(), 0);
        assert_model(&map, &model);
    }
    on_every_multi_format!(body);
}

/// A delete must not hit the slot of a key that came there meanwhile.
#[test]
fn delete_never_destroys_another_key() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let (n, rounds) = (on.n(60, 5_000) as u64, on.n(12, 30));
        // All in a few buckets.
        let map = on
            .multi::<K, V>()
            .buckets(on.n(2, 500))
            .capacity(4_000)
            .build()
            .unwrap();
        let stays = Batch::<K, V>::numbered(1_000_000..1_000_000 + n, 0);
        map.insert(&stays.keys, &stays.values).unwrap();
        thread::scope(|scope| {
            for writer in 1..4u64 {
                let map = &map;
                scope.spawn(move || {
                    let own = writer * 10_000;
                    for _ in 0..rounds {
                        let batch = Batch::<K, V>::numbered(own..own + n, writer as u8);
                        let new = map.insert(&batch.keys, &batch.values).unwrap() as u64;
                        assert_eq!(new, n, "a key of its own was there");
                        assert_eq!(map.count(&batch.keys).unwrap(), vec![1; n as usize]);
                        assert_eq!(map.remove(&batch.keys).unwrap() as u64, n);
                        let old = Batch::<K, V>::numbered(own..own + n, 0);
                        assert!(map.contains(&old.keys).unwrap().iter().all(|is| !is));
                    }
                });
            }
        });
        let mut model = Model::default();
        model.extend(stays.bits());
        assert_model(&map, &model);
    }
    on_every_multi_format!(body);
}

/// An allocator must not go round for ever when nothing is free: the last slab is found, and then there
/// is an answer.
#[test]
fn an_exhausted_pool_ends() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        for slabs in [0, 1, 31, 33] {
            let map = on
                .multi::<K, V>()
                .buckets(1)
                .pool_slabs(slabs)
                .build()
                .unwrap();
            let n = map.capacity();
            let k = key::<K>(77);
            // All of one chain, from several warps: every slab is used to its last slot.
            map.append(&vec![k; n], &vec![value_by::<K, V>(k, 1); n])
                .unwrap();
            assert_eq!(map.count(&[k]).unwrap(), [n]);
            assert!(map.append(&[k], &[value_by::<K, V>(k, 1)]).is_err());
            assert_eq!(map.len(), n);
        }
    }
    on_every_multi_format!(body);
}

/// Keys that are equal in 32 bits are not equal.
#[test]
fn keys_of_64_bits_are_compared_whole() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let map = on.multi::<K, V>().buckets(3).build().unwrap();
        let halves = [0u64, 1, 0x7fff_ffff, 0xffff_fffd, 0xffff_fffe, 0xffff_ffff];
        let all = halves
            .map(|high| halves.map(|low| high << 32 | low))
            .concat();
        let batch = Batch::<K, V>::of(all.iter().map(|&bits| (bits, !bits)));
        assert_eq!(map.insert(&batch.keys, &batch.values).unwrap(), all.len());
        let mut model = Model::default();
        model.extend(batch.bits());
        assert_model(&map, &model);
        for &k in &batch.keys[..18] {
            assert_eq!(map.remove(&[k]).unwrap(), 1);
            model.remove(key_bits(k));
            assert_model(&map, &model);
        }
    }
    on_pairs!(body: u64 => u64);
}
