//! Atomics on a part of a word: a half of a pair, a quarter, a half of a `u64`.
//!
//! Atomic with respect to every other access of this module and of [`atomic`](super) to the
//! **whole word** that has the part; the rest of the word stays as it is. All are relaxed.
//!
//! PTX makes no promise for accesses of different sizes to one place. GPUs keep it all the same:
//! the accesses meet in the slice of the L2 that owns the 32-byte sector, which handles them one
//! after the other. cuCollections and SlabHash rely on the same, and the tests of this module run
//! on a GPU.
//!
//! | whole word | parts |
//! |---|---|
//! | `u64` | `u32` at byte 0 or 4 |
//! | [`U64x2`](crate::U64x2) | `u64` at byte 0 or 8, `u32` at byte 0, 4, 8 or 12 |
//!
//! Any lane may call any of them; no other lane is involved.

#[cfg(not(target_arch = "nvptx64"))]
mod cpu;
#[cfg(target_arch = "nvptx64")]
mod gpu;

#[cfg(not(target_arch = "nvptx64"))]
use cpu as imp;
#[cfg(target_arch = "nvptx64")]
use gpu as imp;

use super::Word;
use crate::layout;
#[cfg(not(target_arch = "nvptx64"))]
pub(crate) use imp::Part as ImpPart;
#[cfg(target_arch = "nvptx64")]
pub(crate) use imp::number;

/// What [`update_part`] does with a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Update {
    /// Replaces it.
    Replace,
    /// Adds, wrapping around.
    Add,
    /// Subtracts, wrapping around.
    Subtract,
    /// Adds as `f32` or `f64`, rounding to nearest even. Among `f32`, subnormal numbers count as
    /// zeros of their sign, and so does a subnormal sum: a GPU's L2 adds so, and the CPU executor
    /// does the same.
    AddFloat,
    /// Keeps the smaller, unsigned.
    MinUnsigned,
    /// Keeps the larger, unsigned.
    MaxUnsigned,
    /// Keeps the smaller, signed.
    MinSigned,
    /// Keeps the larger, signed.
    MaxSigned,
    /// Keeps the smaller as `f32` or `f64`, by their total order.
    MinFloat,
    /// Keeps the larger as `f32` or `f64`, by their total order.
    MaxFloat,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
}
layout!(
    enum Update {
        Replace,
        Add,
        Subtract,
        AddFloat,
        MinUnsigned,
        MaxUnsigned,
        MinSigned,
        MaxSigned,
        MinFloat,
        MaxFloat,
        And,
        Or,
        Xor,
    }
);

impl Update {
    /// What takes this back, if there is anything: after both the word is what it was, whatever else was done to
    /// it in between that commutes with them.
    pub const fn inverse(self) -> Option<Self> {
        match self {
            Self::Add => Some(Self::Subtract),
            Self::Subtract => Some(Self::Add),
            Self::Xor => Some(Self::Xor),
            _ => None,
        }
    }

    /// The comparison of integers that does for a float of this sign. In the total order, floats
    /// with a clear sign are ordered like integers and are greater than all others; those with a
    /// set sign are ordered the other way round, and are the larger words.
    #[inline(always)]
    pub(crate) const fn for_sign(self, negative: bool) -> Self {
        match (self, negative) {
            (Self::MinFloat, false) => Self::MinSigned,
            (Self::MinFloat, true) => Self::MaxUnsigned,
            (Self::MaxFloat, false) => Self::MaxSigned,
            (Self::MaxFloat, true) => Self::MinUnsigned,
            (other, _) => other,
        }
    }
}

/// A word that has parts: `u64`, [`U64x2`](crate::U64x2).
pub trait Whole: Word + imp::Whole {}
impl<T: Word + imp::Whole> Whole for T {}

/// A part of a word: `u32`, `u64`.
pub trait Part: Copy + imp::Part {}
impl<T: Copy + imp::Part> Part for T {}

/// Updates the part of `*word` that begins at byte `at`.
///
/// # Safety
/// `word` is aligned and valid for writes on the device; the table above has `at` for the types.
/// While the launch lasts, the word is accessed only by functions of this module and of
/// [`atomic`](super).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn update_part<W: Whole, P: Part>(word: *mut W, at: u32, update: Update, value: P) {
    // SAFETY: the caller's promise is the back end's.
    unsafe { imp::update(word, at, update.for_sign(value.is_negative()), value) }
}

/// As [`update_part`], and returns what was there. Where that is not needed, [`update_part`] costs less.
///
/// # Safety
/// As for [`update_part`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn fetch_update_part<W: Whole, P: Part>(
    word: *mut W,
    at: u32,
    update: Update,
    value: P,
) -> P {
    // SAFETY: the caller's promise is the back end's.
    unsafe { imp::fetch_update(word, at, update.for_sign(value.is_negative()), value) }
}

/// Replaces the part of `*word` that begins at byte `at` by `new` if it is `current`. Returns what
/// was there: it was replaced exactly when that equals `current`. Never fails spuriously.
///
/// # Safety
/// As for [`update_part`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn compare_exchange_part<W: Whole, P: Part>(
    word: *mut W,
    at: u32,
    current: P,
    new: P,
) -> P {
    // SAFETY: the caller's promise is the back end's.
    unsafe { imp::compare_exchange(word, at, current, new) }
}

/// Replaces the part of `*word` that begins at byte `at`. Returns what was there.
///
/// # Safety
/// As for [`update_part`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn exchange_part<W: Whole, P: Part>(word: *mut W, at: u32, value: P) -> P {
    // SAFETY: the caller's promise is the back end's.
    unsafe { imp::exchange(word, at, value) }
}
