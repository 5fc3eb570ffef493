//! Strings of any length as keys: [`StringRef`], where the bytes of one lie, how many they are, and their hash.
//!
//! The kernels of row maps take references for keys, of one unit. Two of them are compared by hash and length first, so the
//! bytes of different strings are compared once in 2^64. The hash is made once for each string of a batch, and stays with
//! the row: slots are made anew from references alone.

use gpumap_simt::{layout, mem};

#[cfg(not(target_arch = "nvptx64"))]
use super::key::Hash;
use super::key::{Unit, copy};
use crate::hash::mix64;

/// What the bytes of a string that a map owns are aligned to, and padded with zeros to.
pub const STRING_ALIGNMENT: u64 = size_of::<u64>() as u64;

/// The most bytes of a string.
pub const MOST_STRING_BYTES: u64 = u32::MAX as u64;

/// A string in the memory of the device.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct StringRef {
    /// The first byte, at any address; nothing is read there if there is none.
    pub bytes: *const u8,
    /// How many there are.
    pub len: u64,
    /// Their hash, under the seed of the map.
    pub hash: u64,
}
layout!(StringRef { bytes, len, hash });

impl StringRef {
    /// Bytes of a reference.
    pub const BYTES: usize = size_of::<Self>();

    /// Words of a reference.
    const WORDS: u32 = (Self::BYTES / size_of::<u64>()) as u32;

    /// A string, of which the hash is made.
    ///
    /// # Safety
    /// There are so many bytes, which nothing writes during the launch.
    #[inline(always)]
    pub unsafe fn of(bytes: *const u8, len: u64, seed: u64) -> Self {
        let mut hash = seed;
        let mut at = 0;
        while at < len {
            // SAFETY: below the length.
            hash = mix64(hash ^ unsafe { word(bytes, len, at) });
            at += 8;
        }
        // Zeros at the end are bytes as well as those that are not there.
        let hash = mix64(hash ^ len);
        Self { bytes, len, hash }
    }

    /// The reference at a place.
    ///
    /// # Safety
    /// There is one, which nothing writes during the launch.
    #[inline(always)]
    pub unsafe fn load(at: *const Self) -> Self {
        // SAFETY: its words.
        Self::of_words(|i| unsafe { mem::load_readonly(at.cast::<u64>().wrapping_add(i)) })
    }

    /// The reference at a place, which this thread may write.
    ///
    /// # Safety
    /// There is one, and no other thread writes it during the launch.
    #[inline(always)]
    pub unsafe fn load_own(at: *mut Self) -> Self {
        // SAFETY: its words.
        Self::of_words(|i| unsafe { mem::load(at.cast::<u64>().wrapping_add(i)) })
    }

    #[inline(always)]
    fn of_words(word: impl Fn(usize) -> u64) -> Self {
        Self {
            bytes: core::ptr::with_exposed_provenance(word(0) as usize),
            len: word(1),
            hash: word(2),
        }
    }

    /// Writes it to a place.
    ///
    /// # Safety
    /// There is room for it, which is this thread's.
    #[inline(always)]
    pub unsafe fn store(self, at: *mut Self) {
        let word = |i| at.cast::<u64>().wrapping_add(i);
        // SAFETY: its words.
        unsafe {
            mem::store(word(0), self.bytes.expose_provenance() as u64);
            mem::store(word(1), self.len);
            mem::store(word(2), self.hash);
        }
    }

    /// Copies its bytes to where there is room for them, and for the zeros that make them a multiple of
    /// [`STRING_ALIGNMENT`].
    ///
    /// # Safety
    /// Nothing writes the bytes during the launch. The room is aligned to that, and this thread's.
    #[inline(always)]
    pub unsafe fn copy_padded(self, to: *mut u8) {
        let mut at = 0;
        while at < self.len {
            // SAFETY: below the length, and a word of the room.
            unsafe {
                let word = word(self.bytes, self.len, at);
                mem::store(to.wrapping_add(at as usize).cast(), word);
            }
            at += 8;
        }
    }

    /// Copies its bytes to where there is room for them, at any address.
    ///
    /// # Safety
    /// The bytes begin at a multiple of 8, and nothing writes them during the launch. The room is this thread's.
    #[inline(always)]
    pub unsafe fn copy_to(self, to: *mut u8) {
        let mut at = 0;
        while at < self.len {
            let place = to.wrapping_add(at as usize);
            // SAFETY: below the length; a word only where one fits.
            unsafe {
                if self.len - at >= 8 && place.addr().is_multiple_of(8) {
                    mem::store(place.cast(), word(self.bytes, self.len, at));
                    at += 8;
                } else {
                    mem::store(
                        place,
                        mem::load_readonly(self.bytes.wrapping_add(at as usize)),
                    );
                    at += 1;
                }
            }
        }
    }
}

impl Unit for StringRef {
    #[inline(always)]
    unsafe fn hash(key: *const Self, _: u32, _: u64) -> u64 {
        // SAFETY: the last word of a reference.
        unsafe { mem::load_readonly(key.cast::<u64>().wrapping_add(2)) }
    }

    #[inline(always)]
    unsafe fn are_equal(a: *const Self, b: *const Self, _: u32) -> bool {
        // SAFETY: passed on; both have so many bytes.
        unsafe {
            let (a, b) = (Self::load(a), Self::load(b));
            if a.hash != b.hash || a.len != b.len {
                return false;
            }
            let mut at = 0;
            while at < a.len {
                if word(a.bytes, a.len, at) != word(b.bytes, b.len, at) {
                    return false;
                }
                at += 8;
            }
            true
        }
    }

    #[inline(always)]
    unsafe fn copy(to: *mut Self, key: *const Self, _: u32) {
        // SAFETY: its words.
        unsafe { copy::<u64>(to.cast(), key.cast(), Self::WORDS) }
    }
}

/// Eight bytes of a string from a place on, the first one lowest, or as many as there are, with zeros behind them. No byte
/// outside the string is read.
///
/// # Safety
/// There are so many bytes, which nothing writes during the launch; the place is below their number and a multiple of 8.
#[inline(always)]
unsafe fn word(bytes: *const u8, len: u64, at: u64) -> u64 {
    let from = bytes.wrapping_add(at as usize);
    #[cfg(not(target_arch = "nvptx64"))]
    if len - at >= 8 {
        // A CPU loads words at any address.
        // SAFETY: so many bytes are left.
        return u64::from_le(unsafe { from.cast::<u64>().read_unaligned() });
    }
    // SAFETY: passed on.
    unsafe { aligned_word(from, len - at, at != 0) }
}

/// The same by aligned loads: of `left` bytes, before which there are eight or more of the same string, or none.
///
/// # Safety
/// As for [`word`].
#[inline(always)]
unsafe fn aligned_word(from: *const u8, left: u64, is_inner: bool) -> u64 {
    let skew = from.addr() as u64 % 8;
    let aligned = from.wrapping_sub(skew as usize).cast::<u64>();
    // SAFETY: bytes of the string: two words only where both of them lie in it.
    unsafe {
        if skew == 0 && left >= 8 {
            return mem::load_readonly(aligned);
        }
        if is_inner && skew != 0 && left + skew >= 16 {
            let low = mem::load_readonly(aligned);
            let high = mem::load_readonly(aligned.wrapping_add(1));
            return low >> (8 * skew) | high << (64 - 8 * skew);
        }
        let mut word = 0;
        let mut i = 0;
        while i < 8 && i < left {
            let byte = mem::load_readonly(from.wrapping_add(i as usize));
            word |= u64::from(byte) << (8 * i);
            i += 1;
        }
        word
    }
}

/// The hash of a string on the host: for tests, which look for strings that collide.
#[cfg(not(target_arch = "nvptx64"))]
pub fn string_hash(bytes: &[u8], seed: u64) -> Hash {
    // SAFETY: as many bytes.
    Hash(unsafe { StringRef::of(bytes.as_ptr(), bytes.len() as u64, seed) }.hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of which no two in 251 are equal.
    fn bytes(n: usize) -> Vec<u8> {
        (0..n).map(|i| (i % 251 + 1) as u8).collect()
    }

    #[test]
    fn words_are_the_bytes_of_the_string_wherever_it_lies() {
        // In whole words, so that its address is known.
        let words: Vec<u64> = bytes(96)
            .as_chunks()
            .0
            .iter()
            .copied()
            .map(u64::from_le_bytes)
            .collect();
        let all: &[u8] = &bytes(96);
        let base = words.as_ptr().cast::<u8>();
        for start in 0..16 {
            for len in 1..=60 {
                let string = &all[start..start + len];
                for at in (0..len).step_by(8) {
                    let mut expected = [0; 8];
                    let end = len.min(at + 8);
                    expected[..end - at].copy_from_slice(&string[at..end]);
                    let expected = u64::from_le_bytes(expected);
                    let from = base.wrapping_add(start + at);
                    // SAFETY: bytes of the vector.
                    let [by_word, aligned] = unsafe {
                        [
                            word(base.wrapping_add(start), len as u64, at as u64),
                            aligned_word(from, (len - at) as u64, at != 0),
                        ]
                    };
                    assert_eq!(
                        (by_word, aligned),
                        (expected, expected),
                        "{start}, {len}, {at}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_hash_depends_on_every_byte_and_on_the_length() {
        let mut seen = std::collections::HashSet::new();
        for len in 0..40 {
            assert!(seen.insert(string_hash(&vec![0; len], 3).0), "{len} zeros");
            for at in 0..len {
                let mut string = vec![0; len];
                string[at] = 1;
                assert!(seen.insert(string_hash(&string, 3).0), "{len} bytes, {at}");
            }
        }
        assert_ne!(string_hash(b"key", 3), string_hash(b"key", 4), "the seed");
        assert_ne!(string_hash(b"", 3), string_hash(b"", 4), "of no byte");
    }

    #[test]
    fn copies_have_all_bytes_and_no_others() {
        let all = bytes(64);
        for from in 0..8 {
            for len in 0..40 {
                let string = &all[from..from + len];
                // SAFETY: as many bytes.
                let reference = unsafe { StringRef::of(string.as_ptr(), len as u64, 1) };
                let mut padded = [!0u64; 6];
                // SAFETY: room for them.
                unsafe { reference.copy_padded(padded.as_mut_ptr().cast()) };
                let padded: Vec<u8> = padded.iter().flat_map(|word| word.to_le_bytes()).collect();
                let end = len.next_multiple_of(8);
                assert_eq!(&padded[..len], string);
                assert!(padded[len..end].iter().all(|&byte| byte == 0));
                assert!(padded[end..].iter().all(|&byte| byte == 0xff));
                for to in 0..9 {
                    let mut place = [0xffu8; 64];
                    // SAFETY: room for them.
                    unsafe { reference.copy_to(place.as_mut_ptr().wrapping_add(to)) };
                    assert_eq!(&place[to..to + len], string);
                    let beside = place[..to].iter().chain(&place[to + len..]);
                    assert!(beside.into_iter().all(|&byte| byte == 0xff));
                }
            }
        }
    }
}
