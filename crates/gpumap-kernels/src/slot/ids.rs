//! Slots whose value is an id: something that is owned, so that each must leave its slot to exactly
//! one operation.

use super::{Bits, Format, KeyWord, Packed, Split};
use gpumap_simt::U64x2;
use gpumap_simt::atomic::part;
use gpumap_simt::atomic::{self, Relaxed};

/// What [`Split`] adds to the value word of a pair that is about to be a tombstone: a bit beyond those
/// of an id, so that readers of the pair do not see it.
const LEAVING: u64 = 1 << 32;

/// A format whose values are ids.
///
/// An id that has left its slot does not enter any slot again while operations run. No pair is
/// exchanged and withdrawn at the same time: the host keeps the two kinds of calls apart.
pub trait IdFormat: Format<Value = u32> {
    /// What a slot is accessed as whole.
    type Whole: part::Whole;
    /// Where the id begins in a slot, in bytes.
    const ID_AT: u32;

    /// Puts an id in the place of that in a slot, and returns the one that was there. Of several
    /// exchanges each gets the id of the one before it.
    ///
    /// # Safety
    /// `slot` is a slot of this format in a live table that holds a pair, and nothing withdraws pairs
    /// meanwhile.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn exchange(slot: *mut u8, id: u32) -> u32 {
        let whole = slot.cast::<Self::Whole>();
        // SAFETY: slots are aligned to their size and accessed atomically only.
        unsafe { part::exchange_part(whole, Self::ID_AT, id) }
    }

    /// Makes a tombstone of this very pair, and says whether it was there to be made one: then the id
    /// is the caller's.
    ///
    /// [`Format::bury`] looks at the key word alone. In the cell of a reserved key, where a slot is used
    /// again, it may take away another pair than the one whose id was read.
    ///
    /// # Safety
    /// `slot` is a slot of this format in a live table, and nothing exchanges ids meanwhile.
    unsafe fn withdraw(slot: *mut u8, word: Self::Word, id: u32) -> bool;
}

impl IdFormat for Packed {
    type Whole = u64;
    const ID_AT: u32 = 4;

    #[inline(always)]
    unsafe fn withdraw(slot: *mut u8, word: u32, id: u32) -> bool {
        let value = u64::from(id) << 32;
        let pair = u64::from(word) | value;
        let tombstone = u64::from(u32::TOMBSTONE) | value;
        // SAFETY: slots are aligned to their size and accessed atomically only.
        unsafe { atomic::compare_exchange(slot.cast(), pair, tombstone, Relaxed) == pair }
    }
}

#[cfg(any(not(target_arch = "nvptx64"), gpumap_sm90))]
impl<K: Bits> IdFormat for super::Wide<K, u32> {
    type Whole = U64x2;
    const ID_AT: u32 = 8;

    #[inline(always)]
    unsafe fn withdraw(slot: *mut u8, word: u64, id: u32) -> bool {
        let pair = U64x2::new(word, u64::from(id));
        let tombstone = U64x2::new(u64::TOMBSTONE, u64::from(id));
        // SAFETY: as above.
        unsafe { atomic::compare_exchange(slot.cast(), pair, tombstone, Relaxed) == pair }
    }
}

impl<K: Bits> IdFormat for Split<K, u32> {
    type Whole = U64x2;
    const ID_AT: u32 = 8;

    /// By the value word, since it alone distinguishes this pair from another with its key: no id
    /// comes twice. Only the lane that marked it changes the key word next.
    #[inline(always)]
    unsafe fn withdraw(slot: *mut u8, word: u64, id: u32) -> bool {
        let (pair, id) = (slot.cast::<U64x2>(), u64::from(id));
        // SAFETY: as above.
        unsafe {
            part::compare_exchange_part(pair, Self::ID_AT, id, id | LEAVING) == id
                && Self::bury(slot, word)
        }
    }
}
