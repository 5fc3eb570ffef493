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

/// Four words are moved as two of twice the width: same instruction, same bytes.
macro_rules! quads {
    ($($load:ident)*; $($store:ident)*) => {
        impl sealed::Vector for U32x4 {
            $(#[inline(always)]
            unsafe fn $load(p: *const Self) -> Self {
                // SAFETY: same size and alignment; the caller vouches for `p`.
                let two = unsafe { <U64x2 as sealed::Vector>::$load(p.cast()) };
                Self([two.x as u32, (two.x >> 32) as u32, two.y as u32, (two.y >> 32) as u32])
            })*
            $(#[inline(always)]
            unsafe fn $store(p: *mut Self, value: Self) {
                let [a, b, c, d] = value.0;
                let two = U64x2 { x: a as u64 | (b as u64) << 32, y: c as u64 | (d as u64) << 32 };
                // SAFETY: as above.
                unsafe { <U64x2 as sealed::Vector>::$store(p.cast(), two) }
            })*
        }
    };
}
quads! { load load_streaming load_readonly; store store_streaming }
