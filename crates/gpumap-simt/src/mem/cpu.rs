//! The executor's loads and stores: ordinary ones; a CPU has no use for the hints.

use super::sealed;
use crate::{U32x4, U64x2};

macro_rules! vectors {
    ($($t:ty)*) => {$(
        impl sealed::Vector for $t {
            #[inline(always)]
            unsafe fn load(p: *const Self) -> Self {
                // SAFETY: aligned and valid, by the caller.
                unsafe { p.read() }
            }
            #[inline(always)]
            unsafe fn load_streaming(p: *const Self) -> Self {
                // SAFETY: as above.
                unsafe { p.read() }
            }
            #[inline(always)]
            unsafe fn load_readonly(p: *const Self) -> Self {
                // SAFETY: as above.
                unsafe { p.read() }
            }
            #[inline(always)]
            unsafe fn store(p: *mut Self, value: Self) {
                // SAFETY: as above.
                unsafe { p.write(value) }
            }
            #[inline(always)]
            unsafe fn store_streaming(p: *mut Self, value: Self) {
                // SAFETY: as above.
                unsafe { p.write(value) }
            }
        }
    )*};
}

vectors! { u8 u32 u64 U64x2 U32x4 }
