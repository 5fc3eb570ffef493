//! Slots as a native block sees them.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;

use gpumap_simt::U64x2;

use crate::slot::Format;

/// The word that begins at byte `at` of some slots. What is loaded next is not older.
///
/// # Safety
/// There is such a word, aligned, in slots that are written atomically only.
#[inline(always)]
pub(crate) unsafe fn load(slots: *const u8, at: usize) -> u64 {
    // SAFETY: the caller's promise. Accesses of other sizes to the same place are those of claims and updates,
    // which processors order with this one.
    unsafe { AtomicU64::from_ptr(slots.wrapping_add(at).cast_mut().cast()) }.load(Acquire)
}

/// The key word and the value of slot `i`, in any order that other threads write them in: where the word is a key, the
/// value is one that the key had then or later.
///
/// # Safety
/// There are more than `i` slots of this format, in a live table.
#[inline(always)]
pub(crate) unsafe fn read<F: Format>(slots: *const u8, i: usize) -> (F::Word, F::Value) {
    let at = i * F::SLOT_BYTES as usize;
    // SAFETY: the two halves of a slot, or one slot.
    let pair = unsafe {
        let first = load(slots, at);
        let second = if F::SLOTS == 1 {
            load(slots, at + 8)
        } else {
            0
        };
        U64x2::new(first, second)
    };
    (F::word(pair, 0), F::value(pair, 0))
}
