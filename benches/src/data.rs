//! Keys to measure with: a bijection of the index, so that they are unique and can be checked.

use gpumap::{Key, Numeric};

/// A word that a key or a value is made of.
pub trait Word: Copy + PartialEq + std::fmt::Debug {
    /// The `i`-th sparse random word; different `i` below 2^32 give different words.
    fn sparse(i: u64) -> Self;
    /// The `i`-th of dense words.
    fn dense(i: u64) -> Self;
    /// Which of the dense words it is.
    fn number(self) -> u64;
}

impl Word for u32 {
    fn sparse(i: u64) -> Self {
        // Wellons' lowbias32: a bijection of 32 bits.
        let h = (i as u32 ^ (i as u32 >> 16)).wrapping_mul(0x7feb_352d);
        let h = (h ^ (h >> 15)).wrapping_mul(0x846c_a68b);
        h ^ (h >> 16)
    }
    fn dense(i: u64) -> Self {
        i as u32
    }
    fn number(self) -> u64 {
        self.into()
    }
}

impl Word for u64 {
    fn sparse(i: u64) -> Self {
        // Not the map's own mix: a different bijection, so that the hash has work to do.
        gpumap_bench_kernels::pairs::key(i)
    }
    fn dense(i: u64) -> Self {
        i
    }
    fn number(self) -> u64 {
        self
    }
}

/// A large value, all of whose words are the same.
impl<const N: usize> Word for [u64; N] {
    fn sparse(i: u64) -> Self {
        [u64::sparse(i); N]
    }
    fn dense(i: u64) -> Self {
        [u64::dense(i); N]
    }
    fn number(self) -> u64 {
        self[0]
    }
}

/// A key that can be generated.
pub trait BenchKey: Key + Word {}
impl<T: Key + Word> BenchKey for T {}
/// A value that can be generated.
pub trait BenchValue: Numeric + Word {}
impl<T: Numeric + Word> BenchValue for T {}

/// A permutation of `0..n` with a large constant stride: the order in which keys are looked up.
pub fn strided(i: u64, n: u64) -> u64 {
    // A prime: it shares no factor with an `n` below it.
    (u128::from(i) * 4_294_967_291 % u128::from(n)) as u64
}

/// Bytes of a key and a value.
pub const fn pair_bytes<K, V>() -> usize {
    size_of::<K>() + size_of::<V>()
}

/// Bytes of a slot: keys alone and pairs of 4 + 4 bytes have 8, all others 16.
pub const fn slot_bytes<K, V>() -> usize {
    match (size_of::<K>(), size_of::<V>()) {
        (_, 0) | (4, 4) => 8,
        _ => 16,
    }
}

/// What rows call pairs of these sizes.
pub fn sizes<K, V>() -> String {
    format!("{}+{}", size_of::<K>(), size_of::<V>())
}
