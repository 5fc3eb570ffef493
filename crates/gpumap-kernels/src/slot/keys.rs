//! [`Keys`]: the slots of a set.

use core::marker::PhantomData;

use gpumap_simt::U64x2;
use gpumap_simt::atomic::part::Update;
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::mem;

use super::{Bits, Claim, Format, KeyWord};

/// Keys alone in 8-byte slots, zero-extended: the slot is the key word, so every transition is one
/// 64-bit CAS on every GPU.
#[derive(Clone, Copy, Debug)]
pub struct Keys<K>(PhantomData<K>);

impl<K: Bits> Keys<K> {
    /// Puts a key in the place of the word `free`.
    ///
    /// # Safety
    /// As for [`Format::claim`].
    #[inline(always)]
    unsafe fn take(slot: *mut u8, free: u64, word: u64) -> Claim {
        // SAFETY: slots are aligned to their size and accessed atomically only.
        match unsafe { atomic::compare_exchange(slot.cast(), free, word, Relaxed) } {
            old if old == free => Claim::Won,
            old if old == word => Claim::SameKey,
            _ => Claim::OtherKey,
        }
    }
}

impl<K: Bits> Format for Keys<K> {
    type Key = K;
    type Value = ();
    type Word = u64;
    const SLOTS: u32 = 2;
    const HAS_BUSY: bool = false;

    #[inline(always)]
    fn word(vector: U64x2, i: u32) -> u64 {
        if i == 0 { vector.x } else { vector.y }
    }

    #[inline(always)]
    fn value(_: U64x2, _: u32) {}

    #[inline(always)]
    unsafe fn claim(slot: *mut u8, word: u64, (): ()) -> Claim {
        // SAFETY: the caller's promise.
        unsafe { Self::take(slot, u64::EMPTY, word) }
    }

    #[inline(always)]
    unsafe fn revive(slot: *mut u8, word: u64, (): ()) -> Claim {
        // A cell has one key, so there is either this key or its tombstone.
        // SAFETY: the caller's promise.
        unsafe { Self::take(slot, u64::TOMBSTONE, word) }
    }

    #[inline(always)]
    unsafe fn update(_: *mut u8, _: Update, (): ()) {}

    #[inline(always)]
    unsafe fn fetch_update(_: *mut u8, _: Update, (): ()) {}

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn bury(slot: *mut u8, word: u64) -> bool {
        // SAFETY: slots are aligned to their size and accessed atomically only.
        let old = unsafe { atomic::compare_exchange(slot.cast(), word, u64::TOMBSTONE, Relaxed) };
        old == word
    }

    #[inline(always)]
    unsafe fn read(slots: *const u8, i: u64) -> (u64, ()) {
        // SAFETY: in the table, by the caller.
        let word = unsafe { mem::load_streaming(slots.cast::<u64>().add(i as usize)) };
        (word, ())
    }

    #[inline(always)]
    unsafe fn write(slots: *mut u8, i: u64, word: u64, (): ()) {
        // SAFETY: the caller's slot; slots are aligned to their size.
        unsafe { slots.cast::<u64>().add(i as usize).write(word) };
    }

    #[inline(always)]
    unsafe fn take_back(slot: *mut u8) {
        // SAFETY: slots are aligned to their size and accessed atomically only.
        unsafe { atomic::store(slot.cast(), u64::EMPTY, Relaxed) };
    }
}
