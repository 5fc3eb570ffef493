//! How the pairs of a large batch lie on their way to the table: in bins, at the heads of pages, and
//! staged.
//!
//! Pairs of 4 + 4 and of 8 + 8 bytes lie *side by side*, each in one word: one load and one store move it, and
//! runs are twice as long. Others lie as they came, keys in one array and values in another.

use crate::slot::Bits;
use gpumap_simt::U64x2;
use gpumap_simt::mem::{self, Vector};
use gpumap_simt::shared_ptr::SharedWord;

/// Whether pairs of keys and values of these types lie side by side.
pub const fn side_by_side<K, V>() -> bool {
    are_side_by_side(size_of::<K>(), size_of::<V>())
}

/// The same of so many bytes.
pub const fn are_side_by_side(key_bytes: usize, value_bytes: usize) -> bool {
    matches!((key_bytes, value_bytes), (4, 4) | (8, 8))
}

/// A key and its value in one word.
pub trait Joined: SharedWord + Vector {
    /// The word of a pair.
    fn of<K: Bits, V: Bits>(key: K, value: V) -> Self;
    /// The key.
    fn key<K: Bits>(self) -> K;
    /// The value.
    fn value<V: Bits>(self) -> V;
}

impl Joined for u64 {
    #[inline(always)]
    fn of<K: Bits, V: Bits>(key: K, value: V) -> Self {
        value.to_u64() << 32 | key.to_u64()
    }
    #[inline(always)]
    fn key<K: Bits>(self) -> K {
        K::from_u64(u64::from(self as u32))
    }
    #[inline(always)]
    fn value<V: Bits>(self) -> V {
        V::from_u64(self >> 32)
    }
}

impl Joined for U64x2 {
    #[inline(always)]
    fn of<K: Bits, V: Bits>(key: K, value: V) -> Self {
        Self::new(key.to_u64(), value.to_u64())
    }
    #[inline(always)]
    fn key<K: Bits>(self) -> K {
        K::from_u64(self.x)
    }
    #[inline(always)]
    fn value<V: Bits>(self) -> V {
        V::from_u64(self.y)
    }
}

/// Number `i` of pairs that lie side by side.
///
/// # Safety
/// There is one, aligned to its size, and it is not written while the launch lasts.
#[inline(always)]
pub unsafe fn load<K: Bits, V: Bits>(pairs: *const u8, i: u64) -> (K, V) {
    #[inline(always)]
    unsafe fn of<W: Joined, K: Bits, V: Bits>(pairs: *const u8, i: u64) -> (K, V) {
        // SAFETY: passed on.
        let word: W = unsafe { mem::load_streaming(pairs.cast::<W>().add(i as usize)) };
        (word.key(), word.value())
    }
    // SAFETY: passed on.
    unsafe {
        if const { size_of::<K>() == 4 } {
            of::<u64, K, V>(pairs, i)
        } else {
            of::<U64x2, K, V>(pairs, i)
        }
    }
}

/// Writes number `i` of pairs that lie side by side.
///
/// # Safety
/// There is room for it, aligned to its size, which is the calling lane's.
#[inline(always)]
pub unsafe fn store<K: Bits, V: Bits>(pairs: *mut u8, i: u64, key: K, value: V) {
    // SAFETY: passed on.
    unsafe {
        if const { size_of::<K>() == 4 } {
            mem::store(pairs.cast::<u64>().add(i as usize), Joined::of(key, value));
        } else {
            mem::store(
                pairs.cast::<U64x2>().add(i as usize),
                Joined::of(key, value),
            );
        }
    }
}
