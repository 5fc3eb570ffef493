//! Keys that are made with a map's seed: their walks are all the same, slab by slab.
//!
//! The hash is a bijection, so that a key for any hash can be computed. That is no weakness of a map
//! whose seed is unknown.

use gpumap_kernels::hash::KeyHash;

/// How many such keys there are.
pub const MOST: u64 = 1 << 22;

/// Keys of 8 bytes that lie in the first page of the first submap of every map with this seed that has
/// less than 2^17 pages, begin in one slab there and go on by one step. In a multimap they lie in the
/// first bucket.
///
/// # Panics
/// If there are not so many.
pub fn colliding_keys(seed: u64, n: usize) -> Vec<u64> {
    assert!(n as u64 <= MOST, "{n} keys that collide");
    (0..n as u64).map(|i| made(seed, i)).collect()
}

/// Key number `i`.
fn made(seed: u64, i: u64) -> u64 {
    // Bits that choose neither submap and page, nor slab and step.
    let (high, low) = (i >> 7, i & 0x7f);
    let hash = high << 32 | 0x1234 << 16 | low << 9 | 5;
    let key = unmix64(hash) ^ seed;
    debug_assert_eq!(KeyHash::new(key, seed).slab(0x1ff), 5);
    key
}

/// The word that [`mix64`](gpumap_kernels::hash::mix64) makes this hash of.
const fn unmix64(hash: u64) -> u64 {
    const FACTOR: u64 = 0xa6f8_e269_27e1_32cb;
    let z = (hash ^ hash >> 32).wrapping_mul(FACTOR);
    let z = (z ^ z >> 32).wrapping_mul(FACTOR);
    z ^ z >> 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpumap_kernels::hash::mix64;
    use gpumap_kernels::table::MAX_PAGE_SLABS;

    #[test]
    fn the_hash_is_undone() {
        for word in (0..1000).map(|i: u64| i.wrapping_mul(0xabcd_ef01_2345_6789)) {
            assert_eq!(unmix64(mix64(word)), word);
        }
    }

    #[test]
    fn all_have_one_walk_and_differ() {
        for seed in [0, 1, !0 / 3] {
            let keys = colliding_keys(seed, 5_000);
            let place = |&key: &u64| {
                let hash = KeyHash::new(key, seed);
                let (submap, rest) = hash.submap(16);
                let page = gpumap_kernels::hash::scale(rest, 1 << 12);
                (submap, page, hash.slab(MAX_PAGE_SLABS - 1), hash.step())
            };
            assert!(keys.iter().all(|key| place(key) == place(&keys[0])));
            let distinct: std::collections::HashSet<_> = keys.iter().collect();
            assert_eq!(distinct.len(), keys.len());
        }
    }
}
