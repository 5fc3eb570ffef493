//! The device's atomics: one PTX instruction each, scope and ordering spelled out.
//!
//! `asm!` is right here: none of these is convergent. None is `pure` or `readonly`: LLVM must
//! neither merge nor move them.

use super::{Order, sealed};
use crate::U64x2;
use core::arch::asm;

/// A load in its ordering, which is a constant where this is inlined.
macro_rules! load {
    ($order:expr, $instruction:literal, $($operands:tt)*) => {
        match $order {
            Order::Relaxed => asm!(concat!("ld.relaxed.gpu.global.", $instruction), $($operands)*),
            Order::Acquire => asm!(concat!("ld.acquire.gpu.global.", $instruction), $($operands)*),
            // SAFETY: `LoadOrdering` has no other implementors.
            _ => core::hint::unreachable_unchecked(),
        }
    };
}

/// A store in its ordering.
macro_rules! store {
    ($order:expr, $instruction:literal, $($operands:tt)*) => {
        match $order {
            Order::Relaxed => asm!(concat!("st.relaxed.gpu.global.", $instruction), $($operands)*),
            Order::Release => asm!(concat!("st.release.gpu.global.", $instruction), $($operands)*),
            // SAFETY: `StoreOrdering` has no other implementors.
            _ => core::hint::unreachable_unchecked(),
        }
    };
}

/// A read-modify-write in its ordering.
macro_rules! atom {
    ($order:expr, $instruction:literal, $($operands:tt)*) => {
        match $order {
            Order::Relaxed => asm!(concat!("atom.relaxed.gpu.global.", $instruction), $($operands)*),
            Order::Acquire => asm!(concat!("atom.acquire.gpu.global.", $instruction), $($operands)*),
            Order::Release => asm!(concat!("atom.release.gpu.global.", $instruction), $($operands)*),
            Order::AcqRel => asm!(concat!("atom.acq_rel.gpu.global.", $instruction), $($operands)*),
        }
    };
}

macro_rules! fetch {
    ($t:ty, $reg:ident, $($name:ident = $instruction:literal;)*) => {$(
        #[inline(always)]
        unsafe fn $name(p: *mut Self, value: Self, order: Order) -> Self {
            let old: $t;
            // SAFETY: the caller vouches for `p`.
            unsafe {
                atom!(order, $instruction, o = out($reg) old, p = in(reg64) p, v = in($reg) value, options(nostack));
            }
            old
        }
    )*};
}

macro_rules! word {
    ($t:ty, $reg:ident, load $load:literal, store $store:literal, cas $cas:literal,
     exchange $exchange:literal, block_add $block_add:literal, $($fetch:tt)*) => {
        impl sealed::Word for $t {
            #[inline(always)]
            unsafe fn load(p: *const Self, order: Order) -> Self {
                let value: $t;
                // SAFETY: the caller vouches for `p`.
                unsafe { load!(order, $load, v = out($reg) value, p = in(reg64) p, options(nostack)) };
                value
            }
            #[inline(always)]
            unsafe fn store(p: *mut Self, value: Self, order: Order) {
                // SAFETY: the caller vouches for `p`.
                unsafe { store!(order, $store, p = in(reg64) p, v = in($reg) value, options(nostack)) };
            }
        }
        impl sealed::Swap for $t {
            #[inline(always)]
            unsafe fn compare_exchange(p: *mut Self, current: Self, new: Self, order: Order) -> Self {
                let old: $t;
                // SAFETY: the caller vouches for `p`.
                unsafe {
                    atom!(order, $cas, o = out($reg) old, p = in(reg64) p, c = in($reg) current,
                        n = in($reg) new, options(nostack));
                }
                old
            }
            fetch! { $t, $reg, exchange = $exchange; }
        }
        impl sealed::Arithmetic for $t {
            fetch! { $t, $reg, $($fetch)* }
            #[inline(always)]
            unsafe fn block_fetch_add(p: *mut Self, value: Self) -> Self {
                let old: $t;
                // SAFETY: the caller vouches for `p`, a generic address in shared memory.
                unsafe {
                    asm!(concat!("atom.relaxed.cta.", $block_add), o = out($reg) old,
                        p = in(reg64) p, v = in($reg) value, options(nostack));
                }
                old
            }
        }
    };
}

word! {
    u32, reg32, load "b32 {v}, [{p}];", store "b32 [{p}], {v};",
    cas "cas.b32 {o}, [{p}], {c}, {n};", exchange "exch.b32 {o}, [{p}], {v};",
    block_add "add.u32 {o}, [{p}], {v};",
    fetch_add = "add.u32 {o}, [{p}], {v};";
    fetch_min = "min.u32 {o}, [{p}], {v};";
    fetch_max = "max.u32 {o}, [{p}], {v};";
    fetch_and = "and.b32 {o}, [{p}], {v};";
    fetch_or = "or.b32 {o}, [{p}], {v};";
    fetch_xor = "xor.b32 {o}, [{p}], {v};";
}

word! {
    u64, reg64, load "b64 {v}, [{p}];", store "b64 [{p}], {v};",
    cas "cas.b64 {o}, [{p}], {c}, {n};", exchange "exch.b64 {o}, [{p}], {v};",
    block_add "add.u64 {o}, [{p}], {v};",
    fetch_add = "add.u64 {o}, [{p}], {v};";
    fetch_min = "min.u64 {o}, [{p}], {v};";
    fetch_max = "max.u64 {o}, [{p}], {v};";
    fetch_and = "and.b64 {o}, [{p}], {v};";
    fetch_or = "or.b64 {o}, [{p}], {v};";
    fetch_xor = "xor.b64 {o}, [{p}], {v};";
}

// 128 bits: PTX has `.b128` registers from ISA 8.3 on, loads and stores of them on sm_70 and
// newer, compare-and-exchange on sm_90 and newer.
impl sealed::Word for U64x2 {
    #[inline(always)]
    unsafe fn load(p: *const Self, order: Order) -> Self {
        let (x, y): (u64, u64);
        // SAFETY: the caller vouches for `p`, 16-byte aligned by its type.
        unsafe {
            match order {
                Order::Relaxed => asm!(
                    "{{ .reg .b128 %w; ld.relaxed.gpu.global.b128 %w, [{p}];",
                    "mov.b128 {{{x}, {y}}}, %w; }}",
                    x = out(reg64) x, y = out(reg64) y, p = in(reg64) p, options(nostack)
                ),
                Order::Acquire => asm!(
                    "{{ .reg .b128 %w; ld.acquire.gpu.global.b128 %w, [{p}];",
                    "mov.b128 {{{x}, {y}}}, %w; }}",
                    x = out(reg64) x, y = out(reg64) y, p = in(reg64) p, options(nostack)
                ),
                // SAFETY: `LoadOrdering` has no other implementors.
                _ => core::hint::unreachable_unchecked(),
            }
        }
        Self { x, y }
    }
    #[inline(always)]
    unsafe fn store(p: *mut Self, value: Self, order: Order) {
        // SAFETY: as above.
        unsafe {
            match order {
                Order::Relaxed => asm!(
                    "{{ .reg .b128 %w; mov.b128 %w, {{{x}, {y}}};",
                    "st.relaxed.gpu.global.b128 [{p}], %w; }}",
                    x = in(reg64) value.x, y = in(reg64) value.y, p = in(reg64) p, options(nostack)
                ),
                Order::Release => asm!(
                    "{{ .reg .b128 %w; mov.b128 %w, {{{x}, {y}}};",
                    "st.release.gpu.global.b128 [{p}], %w; }}",
                    x = in(reg64) value.x, y = in(reg64) value.y, p = in(reg64) p, options(nostack)
                ),
                // SAFETY: `StoreOrdering` has no other implementors.
                _ => core::hint::unreachable_unchecked(),
            }
        }
    }
}

#[cfg(gpumap_sm90)]
macro_rules! cas128 {
    ($name:literal, $p:expr, $current:expr, $new:expr, $x:ident, $y:ident) => {
        asm!(
            "{{ .reg .b128 %c, %n, %o; mov.b128 %c, {{{c0}, {c1}}}; mov.b128 %n, {{{n0}, {n1}}};",
            concat!("atom.", $name, ".gpu.global.cas.b128 %o, [{p}], %c, %n;"),
            "mov.b128 {{{x}, {y}}}, %o; }}",
            x = out(reg64) $x, y = out(reg64) $y, p = in(reg64) $p,
            c0 = in(reg64) $current.x, c1 = in(reg64) $current.y,
            n0 = in(reg64) $new.x, n1 = in(reg64) $new.y, options(nostack)
        )
    };
}

#[cfg(gpumap_sm90)]
macro_rules! exchange128 {
    ($name:literal, $p:expr, $new:expr, $x:ident, $y:ident) => {
        asm!(
            "{{ .reg .b128 %n, %o; mov.b128 %n, {{{n0}, {n1}}};",
            concat!("atom.", $name, ".gpu.global.exch.b128 %o, [{p}], %n;"),
            "mov.b128 {{{x}, {y}}}, %o; }}",
            x = out(reg64) $x, y = out(reg64) $y, p = in(reg64) $p,
            n0 = in(reg64) $new.x, n1 = in(reg64) $new.y, options(nostack)
        )
    };
}

#[cfg(gpumap_sm90)]
impl sealed::Swap for U64x2 {
    #[inline(always)]
    unsafe fn compare_exchange(p: *mut Self, current: Self, new: Self, order: Order) -> Self {
        let (x, y): (u64, u64);
        // SAFETY: the caller vouches for `p`, 16-byte aligned by its type.
        unsafe {
            match order {
                Order::Relaxed => cas128!("relaxed", p, current, new, x, y),
                Order::Acquire => cas128!("acquire", p, current, new, x, y),
                Order::Release => cas128!("release", p, current, new, x, y),
                Order::AcqRel => cas128!("acq_rel", p, current, new, x, y),
            }
        }
        Self { x, y }
    }
    #[inline(always)]
    unsafe fn exchange(p: *mut Self, value: Self, order: Order) -> Self {
        let (x, y): (u64, u64);
        // SAFETY: as above.
        unsafe {
            match order {
                Order::Relaxed => exchange128!("relaxed", p, value, x, y),
                Order::Acquire => exchange128!("acquire", p, value, x, y),
                Order::Release => exchange128!("release", p, value, x, y),
                Order::AcqRel => exchange128!("acq_rel", p, value, x, y),
            }
        }
        Self { x, y }
    }
}

#[inline(always)]
pub unsafe fn system_add(p: *mut u64, value: u64) {
    // SAFETY: the caller vouches for `p`.
    unsafe {
        asm!("red.relaxed.sys.global.add.u64 [{p}], {v};", p = in(reg64) p, v = in(reg64) value, options(nostack));
    }
}

#[inline(always)]
pub fn fence() {
    // SAFETY: orders memory accesses, makes none. Not `nomem`: LLVM must keep to it as well.
    unsafe { asm!("fence.acq_rel.gpu;", options(nostack)) }
}
