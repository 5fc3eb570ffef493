//! Strings that hash alike are told apart by their bytes.

use gpumap::RowMap;
use gpumap_kernels::hash::mix64;
use gpumap_kernels::rows::string_hash;
use gpumap_tests::Target;

use super::super::rows::collisions::unmix64;
use super::{Oracle, on_every_device};

const SEED: u64 = 11;

/// Different strings with the very same hash: of 16 bytes, of 24, and of 8.
fn alike() -> Vec<Vec<u8>> {
    const HASH: u64 = 0x1234_5678_9abc_def0;
    let string = |i: u64| {
        let len = 8 * (1 + i % 3).min(i + 1);
        let mut words: Vec<u64> = (1..len / 8).map(|word| word * 1_000 + i).collect();
        let before = words.iter().fold(SEED, |hash, word| mix64(hash ^ word));
        // What brings all of them to one hash.
        words.push(before ^ unmix64(unmix64(HASH) ^ len));
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    };
    // Of one word there is one.
    (0..160)
        .filter(|i| i % 3 != 0 || *i == 0)
        .map(string)
        .collect()
}

#[test]
fn strings_of_one_hash_have_rows_of_their_own() {
    fn body(on: &Target) {
        let all = alike();
        let first = string_hash(&all[0], SEED);
        assert!(
            all.iter().all(|string| string_hash(string, SEED) == first),
            "made to collide"
        );
        assert_eq!(all.iter().map(Vec::len).max(), Some(24));
        let map = RowMap::<str>::builder(on.device())
            .hash_seed(SEED)
            .build()
            .unwrap();
        let mut oracle = Oracle::default();
        // Of one batch, with each other; of several, with what is there.
        for batch in [&all[..1], &all[20..60], &all[..]] {
            assert_eq!(map.get(batch).unwrap(), oracle.get(batch));
            assert_eq!(map.insert(batch).unwrap(), oracle.insert(batch).0);
            oracle.assert_same(&map);
        }
        let gone = &all[10..50];
        assert_eq!(map.remove(gone).unwrap(), oracle.remove(gone));
        assert_eq!(map.get(&all).unwrap(), oracle.get(&all));
        assert_eq!(map.compact().unwrap(), oracle.compact());
        oracle.assert_same(&map);
        assert_eq!(map.insert(&all).unwrap(), oracle.insert(&all).0);
        oracle.assert_same(&map);
    }
    on_every_device(body);
}
