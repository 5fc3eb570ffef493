//! How a pair lies in a slot, and the atomics that move a slot from state to state.
//!
//! A slot is empty, a pair or a tombstone; which one is said by its key word. Three key words
//! are taken for that, and the keys with those bits live in the map's reserved slab under an
//! alias ([`Stored`]), so that every bit pattern is a legal key.
//!
//! | format | key, value bytes | slot | claimed by |
//! |---|---|---|---|
//! | [`Keys`] | 4 or 8, none | 8 bytes, two per vector | one 64-bit CAS of the key word |
//! | [`Packed`] | 4, 4 | 8 bytes, two per vector | one 64-bit CAS of the pair |
//! | [`Wide`] | 4 or 8, 4 or 8 | 16 bytes | one 128-bit CAS of the pair (sm_90) |
//! | [`Split`] | 4 or 8, 4 or 8 | 16 bytes | 64-bit CAS of the key word to *busy*, then one 128-bit store of the pair |
//!
//! Readers load whole vectors of 16 bytes with relaxed 128-bit loads, which are single-copy
//! atomic, so no reader ever sees half a pair or the value of another key. What is executed is narrower where a kernel uses less:
//! 64 bits of a vector of which one half is unused, and in some packed kernels two loads of one key each, of two slots. Never
//! are the words of one slot loaded by two instructions: `cargo xtask lint` looks. Every access is
//! relaxed: a slot carries all its data in itself, and orders nothing else.
//!
//! | transition | by | how |
//! |---|---|---|
//! | empty → pair | [`Format::claim`] | above |
//! | pair → pair of the same key | [`Format::update`] | one atomic on the value word, if there is one |
//! | pair → tombstone | [`Format::bury`] | CAS of the key word |
//! | tombstone → pair, in the reserved slabs only | [`Format::revive`] | CAS of the pair, or of the key word |
//!
//! An update that read a pair may come after the pair was erased. It changes a value that is not
//! read any more, and counts as done just before the removal.
//!
//! Invariant: while the key word is empty, so is the rest of the slot (all ones). A claim may
//! therefore see from the key word alone whether it won. Updates do not break it: slots never
//! become empty again while operations run.

pub mod ids;
mod keys;
mod packed;
mod sixteen;

use gpumap_simt::U64x2;
use gpumap_simt::atomic::part::{Part, Update};
use gpumap_simt::layout::Layout;
use gpumap_simt::mem::Vector;
use gpumap_simt::shared_ptr::SharedValue;
use gpumap_simt::warp::ShuffleValue;

/// The body of a kernel of maps with slots of some format, where it [is compiled](Format::RUNS_HERE).
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
macro_rules! body_of {
    ($format:ty, $body:expr) => {
        if <$format as $crate::slot::Format>::RUNS_HERE {
            // SAFETY: the launcher keeps the contract of the arguments.
            unsafe { $body }
        } else {
            $crate::slot::not_here()
        }
    };
}
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
pub(crate) use body_of;

/// A kernel that was left out was launched.
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
#[cold]
pub(crate) fn not_here() -> ! {
    panic!("these slots are for GPUs: the feature `split-on-host` has their kernels on a CPU");
}

pub use keys::Keys;
pub use packed::Packed;
pub use sixteen::{Split, Wide};

/// The bits of a key or a value as it lies in batches: `u32`, `u64`, or `()` for the values of a
/// set, which have none.
pub trait Bits:
    Copy + Layout + Vector + SharedValue + ShuffleValue + PartialEq + Default + Send + Sync + 'static
{
    /// Zero-extended.
    fn to_u64(self) -> u64;
    /// The low bits.
    fn from_u64(word: u64) -> Self;
}

impl Bits for () {
    #[inline(always)]
    fn to_u64(self) -> u64 {
        0
    }
    #[inline(always)]
    fn from_u64(_: u64) -> Self {}
}

impl Bits for u32 {
    #[inline(always)]
    fn to_u64(self) -> u64 {
        u64::from(self)
    }
    #[inline(always)]
    fn from_u64(word: u64) -> Self {
        word as u32
    }
}

impl Bits for u64 {
    #[inline(always)]
    fn to_u64(self) -> u64 {
        self
    }
    #[inline(always)]
    fn from_u64(word: u64) -> Self {
        word
    }
}

/// How many key words mean a state instead of a key: empty, tombstone, busy.
pub const RESERVED_WORDS: u64 = 3;

/// The key word of a slot, 32 or 64 bits wide.
pub trait KeyWord: Bits + Part {
    /// No pair was ever here: all ones, so that a table is emptied by filling it with `0xff`.
    const EMPTY: Self;
    /// A pair was here.
    const TOMBSTONE: Self;
    /// A pair is about to be here ([`Split`] only).
    const BUSY: Self;
    /// Whether the word is a key rather than a state.
    fn is_key(self) -> bool;
}

impl KeyWord for u32 {
    const EMPTY: Self = !0;
    const TOMBSTONE: Self = !0 - 1;
    const BUSY: Self = !0 - 2;
    #[inline(always)]
    fn is_key(self) -> bool {
        self < Self::BUSY
    }
}

impl KeyWord for u64 {
    const EMPTY: Self = !0;
    const TOMBSTONE: Self = !0 - 1;
    const BUSY: Self = !0 - 2;
    #[inline(always)]
    fn is_key(self) -> bool {
        self < Self::BUSY
    }
}

/// Where a key goes, and under which word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored<W> {
    /// In the slabs of its walk, as itself.
    Table(W),
    /// In the reserved slab, under this alias: its own bits mean a state.
    Reserved(W),
}

/// What became of an attempt to put a pair into a slot that looked empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The pair is in the slot.
    Won,
    /// The same key was faster.
    SameKey,
    /// Another key was faster.
    OtherKey,
    /// Another lane is writing there: read again.
    Busy,
}

/// A way to lay pairs in slots.
pub trait Format: Copy + 'static {
    /// A key as it lies in batches.
    type Key: Bits;
    /// A value as it lies in batches.
    type Value: Bits;
    /// A key as it lies in a slot.
    type Word: KeyWord;
    /// Slots per 16-byte vector.
    const SLOTS: u32;
    /// Whether slots can be [busy](self).
    const HAS_BUSY: bool;
    /// Whether kernels of maps with such slots are compiled for this target. The unit tests of this crate launch none of
    /// them, and would compile them a second time: they would be three quarters of their code.
    const RUNS_HERE: bool = cfg!(not(test));

    /// Bytes per slot.
    const SLOT_BYTES: u32 = 16 / Self::SLOTS;

    /// Where the key goes.
    #[inline(always)]
    fn stored(key: Self::Key) -> Stored<Self::Word> {
        let word = Self::Word::from_u64(key.to_u64());
        if word.is_key() {
            Stored::Table(word)
        } else {
            let first = Self::Word::BUSY.to_u64();
            Stored::Reserved(Self::Word::from_u64(word.to_u64() - first))
        }
    }

    /// The key of a word that was found in a slot of the table.
    #[inline(always)]
    fn key(word: Self::Word) -> Self::Key {
        Self::Key::from_u64(word.to_u64())
    }

    /// The key of a word that was found in the reserved slab: an alias.
    #[inline(always)]
    fn reserved_key(alias: Self::Word) -> Self::Key {
        Self::Key::from_u64(alias.to_u64() + Self::Word::BUSY.to_u64())
    }

    /// The key word of slot `i` of a vector.
    fn word(vector: U64x2, i: u32) -> Self::Word;
    /// The value in slot `i` of a vector.
    fn value(vector: U64x2, i: u32) -> Self::Value;

    /// The slots of a vector whose key word is `word`, bit `i` for slot `i`.
    #[inline(always)]
    fn find(vector: U64x2, word: Self::Word) -> u32 {
        let mut found = 0;
        let mut i = 0;
        while i < Self::SLOTS {
            found |= u32::from(Self::word(vector, i) == word) << i;
            i += 1;
        }
        found
    }

    /// Puts a pair into an empty slot.
    ///
    /// # Safety
    /// `slot` is a slot of this format in a live table; `word` is a key or an alias.
    unsafe fn claim(slot: *mut u8, word: Self::Word, value: Self::Value) -> Claim;

    /// Puts a pair into the cell of a reserved key whose slots are all used up, where it takes the
    /// place of a tombstone. A cell has one key, so no walk leads past it.
    ///
    /// # Safety
    /// `slot` is the last slot of the reserved slab of `word`, and was seen to be neither empty nor
    /// busy.
    unsafe fn revive(slot: *mut u8, word: Self::Word, value: Self::Value) -> Claim;

    /// Updates the value of a slot.
    ///
    /// # Safety
    /// `slot` is a slot of this format in a live table, and has held a pair.
    unsafe fn update(slot: *mut u8, update: Update, value: Self::Value);

    /// The same, and returns the value that was there.
    ///
    /// # Safety
    /// As for [`update`](Self::update).
    unsafe fn fetch_update(slot: *mut u8, update: Update, value: Self::Value) -> Self::Value;

    /// Makes a tombstone of the pair with this key word, and says whether it was there to be made
    /// one.
    ///
    /// # Safety
    /// As for [`update`](Self::update).
    unsafe fn bury(slot: *mut u8, word: Self::Word) -> bool;

    /// The key word and the value of slot `i` of a table that is not written while the launch
    /// lasts.
    ///
    /// # Safety
    /// The table has more than `i` slots.
    unsafe fn read(slots: *const u8, i: u64) -> (Self::Word, Self::Value);

    /// Writes a pair to slot `i` of slots that nothing else looks at now, in global or in shared
    /// memory.
    ///
    /// # Safety
    /// There are more than `i` slots, and this one is the calling lane's.
    unsafe fn write(slots: *mut u8, i: u64, word: Self::Word, value: Self::Value);

    /// Makes a slot empty again.
    ///
    /// # Safety
    /// `slot` holds a pair that this launch alone may touch, and every pair that was put after
    /// it in a walk is taken back by the same launch.
    unsafe fn take_back(slot: *mut u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    type Wide88 = Wide<u64, u64>;

    #[test]
    fn every_key_pattern_has_its_own_place() {
        for key in [0, 1, 2, !0u32 - 3, !0 - 2, !0 - 1, !0] {
            match Packed::stored(key) {
                Stored::Table(word) => assert!(word.is_key() && word == key),
                Stored::Reserved(alias) => {
                    assert!(u64::from(alias) < RESERVED_WORDS);
                    assert_eq!(Packed::reserved_key(alias), key);
                }
            }
        }
        for key in [0, !0u64 - 3, !0 - 2, !0 - 1, !0] {
            if let Stored::Reserved(alias) = Wide88::stored(key) {
                assert_eq!(Wide88::reserved_key(alias), key);
            }
        }
        // A 4-byte key in an 8-byte word never meets a state.
        assert_eq!(Wide::<u32, u64>::stored(!0), Stored::Table(0xffff_ffff));
        assert_eq!(Keys::<u32>::stored(!0), Stored::Table(0xffff_ffff));
    }
}
