//! The device's loads and stores, one PTX instruction each.
//!
//! Loads are `readonly` for LLVM (it may move them between writes) and none is `pure` (it may
//! not invent them).

use super::sealed;
use crate::{U32x4, U64x2};
use core::arch::asm;

macro_rules! scalars {
    ($($t:ty, $reg:ident, $suffix:literal;)*) => {$(
        impl sealed::Vector for $t {
            #[inline(always)]
            unsafe fn load(p: *const Self) -> Self {
                scalars!(@load $t, $reg, concat!("ld.global.", $suffix, " {v}, [{p}];"), p)
            }
            #[inline(always)]
            unsafe fn load_streaming(p: *const Self) -> Self {
                scalars!(@load $t, $reg, concat!("ld.global.cs.", $suffix, " {v}, [{p}];"), p)
            }
            #[inline(always)]
            unsafe fn load_readonly(p: *const Self) -> Self {
                scalars!(@load $t, $reg, concat!("ld.global.nc.", $suffix, " {v}, [{p}];"), p)
            }
            #[inline(always)]
            unsafe fn store(p: *mut Self, value: Self) {
                scalars!(@store $reg, concat!("st.global.", $suffix, " [{p}], {v};"), p, value);
            }
            #[inline(always)]
            unsafe fn store_streaming(p: *mut Self, value: Self) {
                scalars!(@store $reg, concat!("st.global.cs.", $suffix, " [{p}], {v};"), p, value);
            }
        }
    )*};
    (@load $t:ty, $reg:ident, $instruction:expr, $p:ident) => {{
        let value;
        // SAFETY: the caller vouches for `p`.
        unsafe { asm!($instruction, v = out($reg) value, p = in(reg64) $p, options(nostack, readonly)) };
        let value: $t = value;
        value
    }};
    (@store $reg:ident, $instruction:expr, $p:ident, $v:ident) => {
        // SAFETY: the caller vouches for `p`.
        unsafe { asm!($instruction, v = in($reg) $v, p = in(reg64) $p, options(nostack)) }
    };
}

scalars! {
    u32, reg32, "u32";
    u64, reg64, "u64";
}

/// Bytes travel in 32-bit registers.
impl sealed::Vector for u8 {
    #[inline(always)]
    unsafe fn load(p: *const Self) -> Self {
        let value: u32;
        // SAFETY: the caller vouches for `p`.
        unsafe {
            asm!("ld.global.u8 {v}, [{p}];", v = out(reg32) value, p = in(reg64) p, options(nostack, readonly));
        }
        value as u8
    }
    #[inline(always)]
    unsafe fn load_streaming(p: *const Self) -> Self {
        // SAFETY: as above.
        unsafe { <Self as sealed::Vector>::load(p) }
    }
    #[inline(always)]
    unsafe fn load_readonly(p: *const Self) -> Self {
        // SAFETY: as above.
        unsafe { <Self as sealed::Vector>::load(p) }
    }
    #[inline(always)]
    unsafe fn store(p: *mut Self, value: Self) {
        // SAFETY: as above.
        unsafe {
            asm!("st.global.u8 [{p}], {v};", v = in(reg32) value as u32, p = in(reg64) p, options(nostack));
        }
    }
    #[inline(always)]
    unsafe fn store_streaming(p: *mut Self, value: Self) {
        // SAFETY: as above.
        unsafe { <Self as sealed::Vector>::store(p, value) }
    }
}

macro_rules! pairs {
    (@load $instruction:literal, $p:ident) => {{
        let (x, y): (u64, u64);
        // SAFETY: the caller vouches for `p`, 16-byte aligned by its type.
        unsafe {
            asm!(concat!($instruction, " {{{x}, {y}}}, [{p}];"),
                x = out(reg64) x, y = out(reg64) y, p = in(reg64) $p, options(nostack, readonly));
        }
        U64x2 { x, y }
    }};
    (@store $instruction:literal, $p:ident, $v:ident) => {
        // SAFETY: as above.
        unsafe {
            asm!(concat!($instruction, " [{p}], {{{x}, {y}}};"),
                x = in(reg64) $v.x, y = in(reg64) $v.y, p = in(reg64) $p, options(nostack));
        }
    };
}

impl sealed::Vector for U64x2 {
    #[inline(always)]
    unsafe fn load(p: *const Self) -> Self {
        pairs!(@load "ld.global.v2.u64", p)
    }
    #[inline(always)]
    unsafe fn load_streaming(p: *const Self) -> Self {
        pairs!(@load "ld.global.cs.v2.u64", p)
    }
    #[inline(always)]
    unsafe fn load_readonly(p: *const Self) -> Self {
        pairs!(@load "ld.global.nc.v2.u64", p)
    }
    #[inline(always)]
    unsafe fn store(p: *mut Self, value: Self) {
        pairs!(@store "st.global.v2.u64", p, value);
    }
    #[inline(always)]
    unsafe fn store_streaming(p: *mut Self, value: Self) {
        pairs!(@store "st.global.cs.v2.u64", p, value);
    }
}

/// Four words, in four registers.
macro_rules! quads {
    (loads: $($load:ident = $ld:literal),*; stores: $($store:ident = $st:literal),*) => {
        impl sealed::Vector for U32x4 {
            $(#[inline(always)]
            unsafe fn $load(p: *const Self) -> Self {
                let (a, b, c, d): (u32, u32, u32, u32);
                // SAFETY: the caller vouches for `p`, 16-byte aligned by its type.
                unsafe {
                    asm!(concat!($ld, " {{{a}, {b}, {c}, {d}}}, [{p}];"),
                        a = out(reg32) a, b = out(reg32) b, c = out(reg32) c, d = out(reg32) d,
                        p = in(reg64) p, options(nostack, readonly));
                }
                Self([a, b, c, d])
            })*
            $(#[inline(always)]
            unsafe fn $store(p: *mut Self, value: Self) {
                let [a, b, c, d] = value.0;
                // SAFETY: as above.
                unsafe {
                    asm!(concat!($st, " [{p}], {{{a}, {b}, {c}, {d}}};"),
                        a = in(reg32) a, b = in(reg32) b, c = in(reg32) c, d = in(reg32) d,
                        p = in(reg64) p, options(nostack));
                }
            })*
        }
    };
}
quads! {
    loads: load = "ld.global.v4.u32", load_streaming = "ld.global.cs.v4.u32",
        load_readonly = "ld.global.nc.v4.u32";
    stores: store = "st.global.v4.u32", store_streaming = "st.global.cs.v4.u32"
}
