//! The keys and values that tests store.
//!
//! Everything is made from and compared by its bits, zero-extended to 64, so that one body does
//! for integers, floats and newtypes.

use bytemuck::{Pod, Zeroable};
use gpumap::{Key, Number, Numeric, Value, Word, element_type};
use gpumap_kernels::hash::KeyHash;

/// A 4-byte newtype, as key.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(transparent)]
pub struct Ticket(pub u32);

/// An 8-byte newtype, as key and as value.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Pod, Zeroable)]
#[repr(transparent)]
pub struct UserId(pub u64);
element_type!(UserId: u64);

/// An 8-byte struct of two fields, as key.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C, align(8))]
pub struct Edge {
    /// From this node
    pub from: u32,
    /// to this one.
    pub to: u32,
}

/// A 4-byte newtype of a float, as value.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Pod, Zeroable)]
#[repr(transparent)]
pub struct Celsius(pub f32);
element_type!(Celsius: f32);

/// A 4-byte newtype of a float that is merged as one, as value.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(transparent)]
pub struct Height(pub f32);

/// An 8-byte newtype of an integer with a sign, as value.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Pod, Zeroable)]
#[repr(transparent)]
pub struct Cents(pub i64);
element_type!(Cents: i64);

/// 4 bytes that are not aligned as a `u32`: maps have such keys by row, and such values in cells.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(transparent)]
pub struct Halves32(pub [u16; 2]);

/// The same of 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(transparent)]
pub struct Halves64(pub [u32; 2]);

impl Numeric for Halves32 {
    const NUMBER: Number = Number::Unsigned;
}

impl Numeric for Halves64 {
    const NUMBER: Number = Number::Unsigned;
}

macro_rules! words {
    ($($t:ty: $bits:ty, $number:ident;)*) => {
        $(
            // SAFETY: transparent, or of the size and the alignment of an integer.
            unsafe impl Word for $t {
                type Bits = $bits;
            }

            impl Numeric for $t {
                const NUMBER: Number = Number::$number;
            }
        )*
    };
}

words! {
    Ticket: u32, Unsigned;
    UserId: u64, Unsigned;
    Edge: u64, Unsigned;
    Celsius: u32, Unsigned;
    Height: u32, Float;
    Cents: u64, Signed;
}

/// The key with these bits; those that it has no room for are cut off.
pub fn key<K: Key>(bits: u64) -> K {
    of_bits(bits)
}

/// The bits of a key.
pub fn key_bits<K: Key>(key: K) -> u64 {
    bits_of(key)
}

/// Its hash in a map with this seed.
pub fn key_hash<K: Key>(key: K, seed: u64) -> KeyHash {
    match size_of::<K>() {
        4 => KeyHash::new(bits_of(key) as u32, seed),
        _ => KeyHash::new(bits_of(key), seed),
    }
}

/// The value with these bits; those that it has no room for are cut off.
pub fn value<V: Value>(bits: u64) -> V {
    of_bits(bits)
}

/// The bits of a value.
pub fn value_bits<V: Value>(value: V) -> u64 {
    bits_of(value)
}

/// The low bits that a type of `bytes` bytes has room for.
pub const fn mask(bytes: usize) -> u64 {
    if bytes == 0 {
        0
    } else {
        !0 >> (64 - 8 * bytes)
    }
}

/// Bytes of a slot: keys alone and pairs of 4 + 4 bytes have 8, all others 16.
pub const fn slot_bytes<K, V>() -> usize {
    match (size_of::<K>(), size_of::<V>()) {
        (_, 0) | (4, 4) => 8,
        _ => 16,
    }
}

/// Bytes of a key as it lies in a slot.
pub const fn word_bytes<K, V>() -> usize {
    match (size_of::<K>(), size_of::<V>()) {
        (4, 4) => 4,
        _ => 8,
    }
}

/// Key number `i` of a scattered sequence without repetition (of 2^32 or 2^64 keys).
pub fn nth_key<K: Key>(i: u64) -> K {
    key(i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// A value that belongs to a key and to the `writer` that stores it: a reader can check that it
/// was made for this key, and by which writer.
pub fn value_by<K: Key, V: Value>(k: K, writer: u8) -> V {
    let z = (key_bits(k) ^ 0x5851_f42d_4c95_7f2d).wrapping_mul(0xd134_2543_de82_ef95);
    value((z ^ z >> 32) << 8 | u64::from(writer))
}

/// The writer that stored this value for this key; a panic if none did.
pub fn writer_of<K: Key, V: Value>(k: K, v: V) -> u8 {
    let writer = value_bits(v) as u8;
    let expected = value_bits(value_by::<K, V>(k, writer));
    assert!(
        value_bits(v) == expected,
        "key {:#x} has the value {:#x}, which no writer wrote for it",
        key_bits(k),
        value_bits(v)
    );
    writer
}

/// Bit patterns of a type of `bytes` bytes that an implementation may trip over: all zeros, all
/// ones, the three words that mean a state, their aliases 0, 1 and 2 and their neighbours, sign
/// bits, and what is special in the other width.
pub fn patterns(bytes: usize) -> Vec<u64> {
    if bytes == 0 {
        return vec![0];
    }
    let ones = mask(bytes);
    let half = mask(bytes / 2);
    let mut patterns = vec![
        0,
        1,
        2,
        3,
        4,
        0xff,
        half,
        half - 1,
        half - 2,
        half - 3,
        half + 1,
    ];
    patterns.extend((0..5).map(|i| ones - i));
    patterns.extend([
        ones >> 1,
        (ones >> 1) + 1,
        ones / 3,
        ones / 3 * 2,
        ones ^ half,
    ]);
    // NaNs and infinities of both widths.
    patterns.extend([
        0x7f80_0000,
        0x7fc0_0001,
        0xff80_0000,
        0x7ff0 << 48,
        0x7ff8_0000_0000_0001,
    ]);
    patterns.iter_mut().for_each(|pattern| *pattern &= ones);
    patterns.sort_unstable();
    patterns.dedup();
    patterns
}

/// Keys with their values, in the two slices that a map takes.
#[derive(Clone, Debug)]
pub struct Batch<K, V> {
    /// The keys.
    pub keys: Vec<K>,
    /// As many values.
    pub values: Vec<V>,
}

impl<K: Key, V: Value> Batch<K, V> {
    /// From pairs of bits.
    pub fn of(pairs: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let (keys, values) = pairs
            .into_iter()
            .map(|(k, v)| (key::<K>(k), value::<V>(v)))
            .unzip();
        Self { keys, values }
    }

    /// The keys of these numbers, each with `writer`'s value for it.
    pub fn numbered(numbers: impl IntoIterator<Item = u64>, writer: u8) -> Self {
        let (keys, values) = numbers
            .into_iter()
            .map(|i| {
                let key = nth_key::<K>(i);
                (key, value_by::<K, V>(key, writer))
            })
            .unzip();
        Self { keys, values }
    }

    /// How many pairs there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The pairs, as bits.
    pub fn bits(&self) -> impl Iterator<Item = (u64, u64)> {
        let pairs = self.keys.iter().zip(&self.values);
        pairs.map(|(&k, &v)| (key_bits(k), value_bits(v)))
    }
}

/// What has these bits, of at most 8 bytes; those that it has no room for are cut off.
fn of_bits<T: Pod>(bits: u64) -> T {
    bytemuck::pod_read_unaligned(&bits.to_le_bytes()[..size_of::<T>()])
}

/// The bits of what has at most 8 bytes.
fn bits_of<T: Pod>(of: T) -> u64 {
    let bytes = bytemuck::bytes_of(&of);
    let mut bits = [0; size_of::<u64>()];
    bits[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(bits)
}
