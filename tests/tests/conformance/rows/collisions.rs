//! Keys that hash alike are told apart by their bits.

use gpumap::RowMap;
use gpumap::bytemuck::{self, Pod, bytes_of};
use gpumap_kernels::hash::mix64;
use gpumap_kernels::rows::{hash, string_hash};
use gpumap_tests::Target;

use super::{Checked, Key, Text, on_keys};

const SEED: u64 = 11;

/// The word that the mixer makes this of: its inverse.
fn unmix64(word: u64) -> u64 {
    const FACTOR: u64 = 0xdaba_0b6e_b093_22e3;
    // Newton's iteration: each step doubles the bits that are right.
    let mut inverse = FACTOR;
    for _ in 0..6 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(FACTOR.wrapping_mul(inverse)));
    }
    let z = (word ^ (word >> 32)).wrapping_mul(inverse);
    let z = (z ^ (z >> 32)).wrapping_mul(inverse);
    z ^ (z >> 32)
}

/// Different keys with one tag and one home: of 8 bytes as near to one hash as a bijection lets them come, of more with the
/// very same hash.
fn alike<K: Pod>(n: u64) -> Vec<K> {
    let lanes = size_of::<K>() / 8;
    let key = |i: u64| {
        let mut words = vec![0u64; lanes];
        if lanes == 1 {
            // A tag, and homes close to each other in any table.
            words[0] = unmix64(0xaaaa_0000_0000_0777 + (i << 32)) ^ SEED;
        } else {
            words[0] = i;
            // What brings all of them to one state.
            words[1] = mix64(SEED ^ i) ^ 0x1234_5678_9abc_def0;
        }
        bytemuck::pod_read_unaligned(bytemuck::cast_slice(&words))
    };
    (0..n).map(key).collect()
}

/// Different strings with the very same hash: of 16 bytes, of 24, and of 8.
fn alike_strings() -> Vec<Text> {
    const HASH: u64 = 0x1234_5678_9abc_def0;
    let string = |i: u64| {
        let len = 8 * (1 + i % 3).min(i + 1);
        let mut words: Vec<u64> = (1..len / 8).map(|word| word * 1_000 + i).collect();
        let before = words.iter().fold(SEED, |hash, word| mix64(hash ^ word));
        // What brings all of them to one hash.
        words.push(before ^ unmix64(unmix64(HASH) ^ len));
        Text(words.iter().flat_map(|word| word.to_le_bytes()).collect())
    };
    // Of one word there is one.
    let numbers = (0..160).filter(|i| i % 3 != 0 || *i == 0);
    numbers.map(string).collect()
}

/// A map of the seed that keys are made to collide under.
fn seeded<K: Key + ?Sized>(on: &Target) -> Checked<K> {
    let builder = RowMap::<K>::builder(on.device()).hash_seed(SEED);
    builder.build().unwrap().into()
}

fn assert_are_told_apart<K: Key + ?Sized>(on: &Target, all: &[K::One]) {
    let mut both = seeded::<K>(on);
    let (some, more) = all.split_at(all.len() / 2);
    // As claims of one batch, and as rows beside claims.
    both.get(some);
    both.insert(&[some, some].concat());
    both.get(all);
    both.insert(&[more, some, more].concat());
    both.assert_same();
    both.map.reserve(10_000).unwrap();
    both.assert_same();
    both.remove(&all[10..50]);
    both.get(all);
    both.compact();
    both.assert_same();
    both.insert(all);
    both.assert_same();
    // With what is there, one after the other.
    both = seeded::<K>(on);
    for batch in [&all[..1], &all[20..60], all] {
        both.get(batch);
        both.insert(batch);
        both.assert_same();
    }
}

#[test]
fn keys_of_one_hash_have_rows_of_their_own() {
    fn body<K: Pod>(on: &Target) {
        let all = alike::<K>(160);
        let same = |a: &K, b: &K| {
            let [a, b] = [a, b].map(|key| hash(bytes_of(key), SEED));
            a.tag() == b.tag() && a.home(500) == b.home(500)
        };
        assert!(
            all.windows(2).all(|two| same(&two[0], &two[1])),
            "made to collide"
        );
        assert_are_told_apart::<K>(on, &all);
    }
    on_keys!(body: u64, [u32; 2], [u32; 4], u128, [u64; 3], [u64; 4], [u64; 8]);
}

#[test]
fn strings_of_one_hash_have_rows_of_their_own() {
    fn body(on: &Target) {
        let all = alike_strings();
        let first = string_hash(&all[0], SEED);
        let mut hashes = all.iter().map(|string| string_hash(string, SEED));
        assert!(hashes.all(|hash| hash == first), "made to collide");
        assert_eq!(all.iter().map(|string| string.len()).max(), Some(24));
        assert_are_told_apart::<str>(on, &all);
    }
    super::on_every_device::<str>(body);
}

/// Keys of tag 0, which tombstones have as well, and all with one home; of 4 bytes there is one.
fn of_tag_0<K: Pod>(n: u64) -> Vec<K> {
    let key = |i: u64| match size_of::<K>() {
        4 => bytemuck::pod_read_unaligned(&(SEED as u32).to_le_bytes()),
        8 => bytemuck::pod_read_unaligned(&(unmix64(i << 32) ^ SEED).to_le_bytes()),
        bytes => {
            // The state is 0 after two words, and stays so.
            let mut words = vec![0u64; bytes / 8];
            (words[0], words[1]) = (i, mix64(SEED ^ i));
            bytemuck::pod_read_unaligned(bytemuck::cast_slice(&words))
        }
    };
    (0..if size_of::<K>() == 4 { 1 } else { n })
        .map(key)
        .collect()
}

#[test]
fn removed_keys_with_the_tag_of_a_tombstone() {
    fn body<K: Pod>(on: &Target) {
        let all = of_tag_0::<K>(120);
        let tag_0 = |key: &K| {
            let hash = hash(bytes_of(key), SEED);
            hash.tag() == 0 && hash.home(20) == 0
        };
        assert!(all.iter().all(tag_0), "made to collide");
        let mut both = seeded::<K>(on);
        let some = &all[..all.len().div_ceil(2)];
        for _ in 0..3 {
            // Behind tombstones, and several times in a batch.
            both.insert(&[some, some].concat());
            both.assert_same();
            let gone: Vec<K> = some.iter().step_by(2).copied().collect();
            both.remove(&[&gone[..], &gone].concat());
            both.assert_same();
            both.get(&all);
        }
        // With growth, which drops the tombstones.
        both.insert(&all);
        both.assert_same();
        both.remove(some);
        both.compact();
        both.assert_same();
        both.insert(&all);
        both.assert_same();
    }
    on_keys!(body: u32, u64, [u32; 2], [u32; 4], u128, [u64; 3], [u64; 8]);
}

/// Of 12 bytes no collision can be written down, but a few are soon found.
#[test]
fn keys_of_12_bytes_with_one_tag() {
    fn body(on: &Target) {
        let numbered = |i: u32| [i, 7, i ^ 0x5555];
        let mut tags: Vec<(u32, u32)> = (0..400_000)
            .map(|i| (hash(bytemuck::cast_slice(&numbered(i)), SEED).tag(), i))
            .collect();
        tags.sort_unstable();
        let equal = tags.windows(2).filter(|two| two[0].0 == two[1].0);
        let keys: Vec<[u32; 3]> = equal
            .flat_map(|two| [numbered(two[0].1), numbered(two[1].1)])
            .collect();
        assert!(keys.len() >= 10, "{} keys", keys.len());
        // In a table of few buckets many share one.
        let mut both = seeded::<[u32; 3]>(on);
        both.insert(&[&keys[..], &keys].concat());
        both.assert_same();
    }
    super::on_every_device::<[u32; 3]>(body);
}
