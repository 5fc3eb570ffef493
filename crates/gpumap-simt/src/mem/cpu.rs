//! The executor's loads and stores: ordinary ones; a CPU has no use for the hints. Where memory is
//! weak, a load may see what was there before.

use super::sealed;
use crate::cpu::weak;
use crate::{U32x4, U64x2};

macro_rules! vectors {
    ($($t:ty)*) => {$(
        impl sealed::Vector for $t {
            #[inline(always)]
            unsafe fn load(p: *const Self) -> Self {
                // SAFETY: aligned and valid, by the caller.
                unsafe { read(p) }
            }
            #[inline(always)]
            unsafe fn load_streaming(p: *const Self) -> Self {
                // SAFETY: as above.
                unsafe { read(p) }
            }
            #[inline(always)]
            unsafe fn load_readonly(p: *const Self) -> Self {
                // SAFETY: as above.
                unsafe { read(p) }
            }
            #[inline(always)]
            unsafe fn store(p: *mut Self, value: Self) {
                // SAFETY: as above.
                unsafe { write(p, value) }
            }
            #[inline(always)]
            unsafe fn store_streaming(p: *mut Self, value: Self) {
                // SAFETY: as above.
                unsafe { write(p, value) }
            }
        }
    )*};
}

/// # Safety
/// `p` is aligned and valid for reads, and `T` is an integer or an array of them.
#[inline(always)]
unsafe fn read<T: Copy>(p: *const T) -> T {
    // SAFETY: the caller's promise.
    let mut value = unsafe { p.read() };
    if weak::is_in_use() {
        // SAFETY: an integer is its bytes, whichever they are.
        let bytes = unsafe {
            core::slice::from_raw_parts_mut((&raw mut value).cast::<u8>(), size_of::<T>())
        };
        weak::seen(p.cast(), bytes);
    }
    value
}

/// # Safety
/// `p` is aligned and valid for writes and reads.
#[inline(always)]
unsafe fn write<T: Copy>(p: *mut T, value: T) {
    if weak::is_in_use() {
        // SAFETY: the caller's promise; all lanes take turns on one OS thread.
        unsafe { weak::will_write(p.cast_const().cast(), size_of::<T>(), false) };
    }
    // SAFETY: the caller's promise.
    unsafe { p.write(value) }
}

vectors! { u8 u32 u64 U64x2 U32x4 }
