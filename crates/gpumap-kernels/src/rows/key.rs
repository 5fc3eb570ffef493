//! Keys of 4 to 64 bytes: hashed and compared unit by unit. A key of any length is a [reference](super::StringRef), one unit.

use gpumap_simt::mem::{self, Vector};
use gpumap_simt::{U64x2, layout};

use crate::hash::{KeyHash, mix64};

/// What keys are loaded in: 4, 8 or 16 bytes, of which a key is a multiple, and its address too; or a reference to the bytes
/// of a string. How many is known at run time: so one kernel serves all widths.
pub trait Unit: Copy {
    /// The hash of a key of so many units. The same whatever size they have.
    ///
    /// # Safety
    /// A key of so many units lies there, which nothing writes during the launch.
    unsafe fn hash(key: *const Self, units: u32, seed: u64) -> u64;

    /// Whether two keys of so many units are equal.
    ///
    /// # Safety
    /// Such keys lie there, which nothing writes during the launch.
    unsafe fn are_equal(a: *const Self, b: *const Self, units: u32) -> bool;

    /// Copies a key of so many units.
    ///
    /// # Safety
    /// As for [`hash`](Self::hash); there is room for it, which is this thread's.
    unsafe fn copy(to: *mut Self, key: *const Self, units: u32);
}

/// Keys that are their units: compared and copied as they lie.
macro_rules! by_units {
    () => {
        #[inline(always)]
        unsafe fn are_equal(a: *const Self, b: *const Self, units: u32) -> bool {
            // SAFETY: passed on.
            unsafe { are_equal(a, b, units) }
        }

        #[inline(always)]
        unsafe fn copy(to: *mut Self, key: *const Self, units: u32) {
            // SAFETY: passed on.
            unsafe { copy(to, key, units) }
        }
    };
}

impl Unit for u32 {
    by_units!();

    #[inline(always)]
    unsafe fn hash(key: *const Self, units: u32, seed: u64) -> u64 {
        // SAFETY: below the number of units.
        unsafe {
            hash_words(units, seed, |i| {
                mem::load_readonly(key.wrapping_add(i as usize))
            })
        }
    }
}

/// The hash of a key of so many words.
#[inline(always)]
pub fn hash_words(words: u32, seed: u64, word: impl Fn(u32) -> u32) -> u64 {
    if words == 1 {
        return KeyHash::new(word(0), seed).bits();
    }
    let mut hash = seed;
    let mut i = 0;
    while i < words {
        let low = word(i);
        let mut high = 0;
        if i + 1 < words {
            high = word(i + 1);
        }
        hash = mix64(hash ^ (high as u64) << 32 ^ low as u64);
        i += 2;
    }
    hash
}

impl Unit for u64 {
    by_units!();

    #[inline(always)]
    unsafe fn hash(key: *const Self, units: u32, seed: u64) -> u64 {
        let mut hash = seed;
        let mut i = 0;
        while i < units {
            // SAFETY: below the number of units.
            hash = mix64(hash ^ unsafe { mem::load_readonly(key.wrapping_add(i as usize)) });
            i += 1;
        }
        hash
    }
}

impl Unit for U64x2 {
    by_units!();

    #[inline(always)]
    unsafe fn hash(key: *const Self, units: u32, seed: u64) -> u64 {
        let mut hash = seed;
        let mut i = 0;
        while i < units {
            // SAFETY: below the number of units.
            let unit = unsafe { mem::load_readonly(key.wrapping_add(i as usize)) };
            hash = mix64(mix64(hash ^ unit.x) ^ unit.y);
            i += 1;
        }
        hash
    }
}

/// Whether so many units are equal.
///
/// # Safety
/// They lie there, and nothing writes them during the launch.
#[inline(always)]
unsafe fn are_equal<W: Vector + PartialEq>(a: *const W, b: *const W, units: u32) -> bool {
    let mut i = 0;
    while i < units as usize {
        // SAFETY: below the number of units.
        unsafe {
            if mem::load_readonly(a.wrapping_add(i)) != mem::load_readonly(b.wrapping_add(i)) {
                return false;
            }
        }
        i += 1;
    }
    true
}

/// Copies so many units.
///
/// # Safety
/// They lie there, and nothing writes them during the launch; there is room for as many, which is this thread's.
#[inline(always)]
pub(super) unsafe fn copy<W: Vector>(to: *mut W, from: *const W, units: u32) {
    let mut i = 0;
    while i < units as usize {
        // SAFETY: below the number of units.
        unsafe { mem::store(to.wrapping_add(i), mem::load_readonly(from.wrapping_add(i))) };
        i += 1;
    }
}

/// The hash of a key: the high half says where its walk begins, the low half is its tag.
///
/// Of a key of 4 bytes the tag is a bijection: keys with one tag are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Hash(pub u64);
layout!(Hash { 0 });

impl Hash {
    /// What tells keys of one bucket apart.
    #[inline(always)]
    pub const fn tag(self) -> u32 {
        self.0 as u32
    }

    /// The bucket where the walk begins.
    #[inline(always)]
    pub const fn home(self, buckets: u32) -> u32 {
        crate::hash::scale((self.0 >> 32) as u32, buckets)
    }
}

/// The hash of a key on the host: for tests, which look for keys that collide.
#[cfg(not(target_arch = "nvptx64"))]
pub fn hash(key: &[u8], seed: u64) -> Hash {
    let words: Vec<u32> = key
        .chunks_exact(4)
        .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
        .collect();
    // SAFETY: as many words.
    Hash(unsafe { Unit::hash(words.as_ptr(), words.len() as u32, seed) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_does_not_depend_on_the_units() {
        let words: Vec<u64> = (1..9u64)
            .map(|i| i.wrapping_mul(0x0123_4567_89ab_cdef))
            .collect();
        let pairs: Vec<U64x2> = words.chunks(2).map(|w| U64x2::new(w[0], w[1])).collect();
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        for lanes in 1..=8 {
            let by_4 = hash(&bytes[..8 * lanes], 9).0;
            // SAFETY: there are as many.
            let by_8 = unsafe { Unit::hash(words.as_ptr(), lanes as u32, 9) };
            assert_eq!(by_4, by_8, "{lanes} times 8 bytes");
            if lanes % 2 == 0 {
                // SAFETY: as above.
                let by_16 = unsafe { Unit::hash(pairs.as_ptr(), lanes as u32 / 2, 9) };
                assert_eq!(by_4, by_16, "{lanes} times 8 bytes");
            }
        }
    }

    #[test]
    fn every_word_counts() {
        for width in (4..=64).step_by(4) {
            let mut key = vec![0u8; width];
            let mut seen = vec![hash(&key, 3)];
            for word in 0..width / 4 {
                for bit in [0, 31] {
                    key[4 * word + bit / 8] ^= 1 << (bit % 8);
                    let of_this = hash(&key, 3);
                    assert!(!seen.contains(&of_this), "{width} bytes, word {word}");
                    seen.push(of_this);
                    key.fill(0);
                }
            }
            assert_ne!(hash(&key, 3), hash(&key, 4), "the seed");
        }
    }

    #[test]
    fn tags_of_small_keys_are_exact() {
        let mut tags: Vec<u32> = (0..1 << 20)
            .map(|key: u32| hash(&key.to_le_bytes(), 5).tag())
            .collect();
        tags.sort_unstable();
        tags.dedup();
        assert_eq!(tags.len(), 1 << 20);
    }
}
