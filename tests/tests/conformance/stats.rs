//! `stats`: against what can be computed otherwise.

use gpumap::{Key, Map, Numeric, Stats};
use gpumap_kernels::hash::scale;
use gpumap_kernels::table::SLAB_BYTES;
use gpumap_tests::device::noting;
use gpumap_tests::pairs::{key_hash, nth_key, slot_bytes};
use gpumap_tests::{Batch, Shape, Target, key, on_every_format, value};

/// The figures of a map, checked against each other.
fn stats<K: Key, V: Numeric>(map: &Map<K, V>) -> Stats {
    let stats = map.stats().unwrap();
    assert_eq!(stats.len, map.len());
    assert_eq!(stats.slots, map.slots());
    assert_eq!(stats.capacity, map.capacity());
    assert_eq!(stats.submaps, map.submaps());
    assert_eq!(stats.load_factor(), map.load_factor());
    let slot = slot_bytes::<K, V>() as u64;
    assert_eq!(stats.table_bytes, map.slots() as u64 * slot);
    assert_eq!(stats.probe_lengths.iter().sum::<u64>() as usize, stats.len);
    assert_ne!(stats.probe_lengths.last(), Some(&0), "longer than needed");
    let mean = stats.mean_probe_length();
    assert!(if stats.len == 0 {
        mean == 0.0
    } else {
        mean >= 1.0
    });
    stats
}

#[test]
fn pairs_and_tombstones_are_counted() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(1_000, 500_000) as u64;
        for submaps in [1, 9] {
            let builder = on.builder::<K, V>().capacity(n as usize + 3);
            let map = builder.submaps(submaps).build().unwrap();
            assert_eq!((stats(&map).len, stats(&map).tombstones), (0, 0));
            let batch = Batch::<K, V>::numbered(0..n, 1);
            map.insert(&batch.keys, &batch.values).unwrap();
            map.insert(&[!0, !1, !2].map(key::<K>), &[value(0); 3])
                .unwrap();
            assert_eq!(stats(&map).tombstones, 0);
            map.remove(&batch.keys[..n as usize / 3]).unwrap();
            assert_eq!(stats(&map).tombstones as u64, n / 3);
            map.remove(&[key::<K>(!1)]).unwrap();
            assert_eq!(stats(&map).tombstones as u64, n / 3 + 1);
            map.clear().unwrap();
            assert_eq!((stats(&map).len, stats(&map).tombstones), (0, 0));
        }
    }
    on_every_format!(body);
}

#[test]
fn probe_lengths_of_a_small_map() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        const SEED: u64 = 77;
        // Pages of one slab: the walk of a key goes from its home to the next, and round.
        let shape = Shape::new::<K, V>(&[100], 1, SEED);
        let map = shape.builder::<K, V>(on).build().unwrap();
        let slab_slots = SLAB_BYTES as usize / slot_bytes::<K, V>();
        let slabs = map.slots() / slab_slots;
        let mut used = vec![0; slabs];
        let mut lengths = vec![0u64; slabs];
        let mut of_key = Vec::new();
        for i in 0..map.slots() as u64 {
            let k = nth_key::<K>(i);
            // One at a time, so that each finds what the ones before left.
            assert_eq!(map.insert(&[k], &[value::<V>(i)]).unwrap(), 1);
            let (_, rest) = key_hash(k, SEED).submap(1);
            let home = scale(rest, slabs as u32) as usize;
            let before = (0..slabs)
                .find(|before| used[(home + before) % slabs] < slab_slots)
                .unwrap();
            used[(home + before) % slabs] += 1;
            lengths[before] += 1;
            of_key.push(before);
            noting(&format!("{} pairs", i + 1), || compare(&map, &lengths));
        }
        for (i, before) in of_key.into_iter().enumerate().step_by(3) {
            map.remove(&[nth_key::<K>(i as u64)]).unwrap();
            lengths[before] -= 1;
            compare(&map, &lengths);
        }
    }
    on_every_format!(body);
}

fn compare<K: Key, V: Numeric>(map: &Map<K, V>, lengths: &[u64]) {
    let longest = lengths.iter().rposition(|&pairs| pairs != 0);
    let expected = &lengths[..longest.map_or(0, |last| last + 1)];
    let stats = stats(map);
    assert_eq!(stats.probe_lengths, expected);
    let slabs: u64 = (1..).zip(expected).map(|(i, pairs)| i * pairs).sum();
    let mean = slabs as f64 / map.len().max(1) as f64;
    assert_eq!(stats.mean_probe_length(), mean);
}
