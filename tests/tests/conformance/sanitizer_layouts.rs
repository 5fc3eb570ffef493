//! The kernels of maps with large values and of multimaps for `compute-sanitizer`, small, as in
//! [`sanitizer`](crate::sanitizer).

use gpumap::primitives::{Element, Predicate};
use gpumap::{Key, Map, MultiMap, Numeric, Value, Word, WordKey};
use gpumap_tests::blob::{Bytes, Line, blob, blobs};
use gpumap_tests::device::{run_pair_on, targets_of_all_kernels};
use gpumap_tests::pairs::nth_key;
use gpumap_tests::{Batch, Target, key_bits, value_bits};

/// The keys of these numbers.
fn keys<K: Key>(numbers: std::ops::Range<u64>) -> Vec<K> {
    numbers.map(nth_key).collect()
}

/// Cells that are taken, replaced, given back and taken again, and more of them than there were.
fn large_values<K: Key, V: Value + PartialEq + std::fmt::Debug>(on: &Target) {
    const N: u64 = 300;
    let map: Map<K, V> = on.map(64);
    let (first, second) = (keys::<K>(0..N), keys::<K>(N / 2..N + N / 2));
    for _ in 0..3 {
        let new = map.insert(&first, &blobs(0..N)).unwrap();
        assert_eq!(new as u64, N);
        let new = map.upsert(&second, &blobs(N..2 * N)).unwrap();
        assert_eq!(new as u64, N - N / 2);
        // Half of these keys are absent.
        let expected = |i| match i {
            i if i < N / 2 => Some(blob(i)),
            i if i < N + N / 2 => Some(blob(N + i - N / 2)),
            _ => None,
        };
        let found = map.get(&keys::<K>(0..3 * N)).unwrap();
        assert_eq!(found, (0..3 * N).map(expected).collect::<Vec<_>>());
        assert_eq!(map.retrieve_all().unwrap().0.len() as u64, N + N / 2);
        let removed = map.take(&keys::<K>(0..N)).unwrap();
        assert_eq!(removed, (0..N).map(expected).collect::<Vec<_>>());
        assert_eq!(map.remove(&second).unwrap() as u64, N / 2);
        assert!(map.is_empty());
    }
    map.shrink_to_fit().unwrap();
}

#[test]
fn sanitizer_large_values() {
    for on in targets_of_all_kernels() {
        large_values::<u32, Bytes<9>>(&on);
        large_values::<u64, Line>(&on);
    }
}

/// Chains of several slabs, which are emptied, compacted and filled again. Values are looked up
/// of keys that are there only: `get` copies the places of the others to the host as they are,
/// which initcheck would report.
#[test]
fn sanitizer_chains() {
    fn body<K: WordKey + Element, V: Numeric + Word<Bits = K::Bits> + Element>(on: &Target) {
        const N: u64 = 300;
        let map: MultiMap<K, V> = on.multi().buckets(3).build().unwrap();
        let first = Batch::<K, V>::numbered((0..2 * N).map(|i| i % N), 1);
        for _ in 0..3 {
            assert_eq!(map.insert(&first.keys, &first.values).unwrap() as u64, N);
            let held = map.get(&first.keys).unwrap();
            let same = held.iter().zip(&first.values);
            assert!(
                same.into_iter()
                    .all(|(held, &v)| held.map(value_bits) == Some(value_bits(v)))
            );
            let there = map.contains(&keys::<K>(0..2 * N)).unwrap();
            assert_eq!(there.iter().filter(|&&there| there).count() as u64, N);
            let (all, _) = map.retrieve_all().unwrap();
            let mut all: Vec<u64> = all.into_iter().map(key_bits).collect();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len() as u64, N);
            assert_eq!(map.save_to(std::io::sink()).unwrap(), N);
            let others = Predicate::NotEqual(first.keys[N as usize - 1]);
            assert_eq!(map.retain_where(others, Predicate::Always).unwrap(), 1);
            let removed = map.remove(&first.keys[..N as usize - 7]).unwrap();
            assert_eq!(removed as u64, N - 7);
            map.compact().unwrap();
            assert_eq!(map.remove(&first.keys).unwrap(), 6);
            assert!(map.is_empty());
        }
    }
    for on in targets_of_all_kernels() {
        run_pair_on::<u32, u32>(&on, body::<u32, u32>);
        run_pair_on::<u64, u64>(&on, body::<u64, u64>);
    }
}
