//! Shared memory of the executor: ordinary pointers; copies are made at once.

use super::sealed;
use crate::atomic::part::{self, Update};
use crate::{U32x4, U64x2, atomic, imp};

/// A pointer into a block's shared memory.
pub type Address = *mut u8;

#[inline(always)]
pub fn dynamic() -> Address {
    imp::dynamic_shared()
}

#[inline(always)]
pub fn offset(at: Address, bytes: u32) -> Address {
    at.wrapping_add(bytes as usize)
}

macro_rules! words {
    ($($t:ty)*) => {$(
        impl sealed::SharedWord for $t {
            #[inline(always)]
            unsafe fn load(at: Address) -> Self {
                // SAFETY: aligned and valid, by the caller.
                unsafe { at.cast::<Self>().read() }
            }
            #[inline(always)]
            unsafe fn store(at: Address, value: Self) {
                // SAFETY: as above.
                unsafe { at.cast::<Self>().write(value) }
            }
        }
    )*};
}

words! { () u16 u32 u64 U64x2 U32x4 }

macro_rules! values {
    ($($t:ty)*) => {$(
        impl sealed::SharedValue for $t {
            #[inline(always)]
            #[track_caller]
            unsafe fn update(at: Address, update: Update, value: Self) {
                let word = at.cast::<Self>();
                let update = update.for_sign(part::ImpPart::is_negative(value));
                // Goes round again only when another lane changed the word.
                loop {
                    // SAFETY: aligned and valid, by the caller.
                    unsafe {
                        let old = atomic::load(word, atomic::Relaxed);
                        let new = part::ImpPart::updated(old, update, value);
                        if atomic::compare_exchange(word, old, new, atomic::Relaxed) == old {
                            return;
                        }
                    }
                }
            }
        }
    )*};
}

values! { u32 u64 }

/// Nothing to update.
impl sealed::SharedValue for () {
    #[inline(always)]
    unsafe fn update(_: Address, _: Update, (): Self) {}
}

#[inline(always)]
#[track_caller]
pub unsafe fn fetch_add(at: Address, value: u32) -> u32 {
    // SAFETY: aligned and valid, by the caller.
    unsafe { atomic::block_fetch_add(at.cast::<u32>(), value) }
}

#[inline(always)]
#[track_caller]
pub unsafe fn compare_exchange(at: Address, current: u32, new: u32) -> u32 {
    // SAFETY: as above.
    unsafe { atomic::compare_exchange(at.cast::<u32>(), current, new, atomic::Relaxed) }
}

#[inline(always)]
#[track_caller]
pub unsafe fn peek(at: Address) -> U32x4 {
    let words = at.cast::<u32>();
    // SAFETY: as above.
    U32x4([0, 1, 2, 3].map(|i| unsafe { atomic::load(words.wrapping_add(i), atomic::Relaxed) }))
}

#[inline(always)]
#[track_caller]
pub unsafe fn peek_word(at: Address) -> u32 {
    // SAFETY: as above.
    unsafe { atomic::load(at.cast::<u32>(), atomic::Relaxed) }
}

#[inline(always)]
#[track_caller]
pub unsafe fn count(at: Address) {
    // SAFETY: as above.
    unsafe { fetch_add(at, 1) };
}

#[inline(always)]
#[track_caller]
pub unsafe fn set_bits(at: Address, bits: u32) {
    // SAFETY: as above.
    unsafe { atomic::fetch_or(at.cast::<u32>(), bits, atomic::Relaxed) };
}

#[inline(always)]
#[track_caller]
pub unsafe fn fetch_or(at: Address, bits: u32) -> u32 {
    // SAFETY: as above.
    unsafe { atomic::fetch_or(at.cast::<u32>(), bits, atomic::Relaxed) }
}

#[inline(always)]
pub unsafe fn copy_async<const BYTES: u32>(at: Address, source: *const u8) {
    // SAFETY: both sides are valid, by the caller; shared memory and inputs do not overlap.
    unsafe { at.copy_from_nonoverlapping(source, BYTES as usize) }
}

#[inline(always)]
pub fn commit_copies() {}

#[inline(always)]
pub fn wait_copies<const PENDING: u32>() {}
