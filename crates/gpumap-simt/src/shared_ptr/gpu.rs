//! Shared memory by its 32-bit addresses, one PTX instruction per access.

use super::sealed;
use crate::atomic::part::{self, Update};
use crate::{U32x4, U64x2};
use core::arch::asm;

/// An address in the shared state space.
pub type Address = u32;

#[inline(always)]
pub fn dynamic() -> Address {
    let at: u32;
    // SAFETY: takes the address of the launch's dynamic shared memory, declared in `gpu`.
    unsafe {
        asm!("mov.u32 {a}, gpumap_dynamic_shared;", a = out(reg32) at, options(pure, nomem, nostack));
    }
    at
}

#[inline(always)]
pub fn offset(at: Address, bytes: u32) -> Address {
    at.wrapping_add(bytes)
}

macro_rules! words {
    ($($t:ty, $reg:ident, $suffix:literal;)*) => {$(
        impl sealed::SharedWord for $t {
            #[inline(always)]
            unsafe fn load(at: Address) -> Self {
                let value: $t;
                // SAFETY: the caller vouches for `at`.
                unsafe {
                    asm!(concat!("ld.shared.", $suffix, " {v}, [{a}];"), v = out($reg) value,
                        a = in(reg32) at, options(nostack, readonly));
                }
                value
            }
            #[inline(always)]
            unsafe fn store(at: Address, value: Self) {
                // SAFETY: the caller vouches for `at`.
                unsafe {
                    asm!(concat!("st.shared.", $suffix, " [{a}], {v};"), v = in($reg) value,
                        a = in(reg32) at, options(nostack));
                }
            }
        }
    )*};
}

/// The value of a set's key: nothing.
impl sealed::SharedWord for () {
    #[inline(always)]
    unsafe fn load(_: Address) -> Self {}
    #[inline(always)]
    unsafe fn store(_: Address, (): Self) {}
}

/// Vectors of 16 bytes.
macro_rules! vectors {
    ($($t:ty, $reg:ident, $suffix:literal, $($part:ident)*, $p:pat => $make:expr;)*) => {$(
        impl sealed::SharedWord for $t {
            #[inline(always)]
            unsafe fn load(at: Address) -> Self {
                $(let $part;)*
                // SAFETY: the caller vouches for `at`.
                unsafe {
                    asm!(concat!("ld.shared.", $suffix, " {{", vectors!(@list $($part)*), "}}, [{at}];"),
                        $($part = out($reg) $part,)* at = in(reg32) at, options(nostack, readonly));
                }
                $make
            }
            #[inline(always)]
            unsafe fn store(at: Address, value: Self) {
                let $p = value;
                // SAFETY: the caller vouches for `at`.
                unsafe {
                    asm!(concat!("st.shared.", $suffix, " [{at}], {{", vectors!(@list $($part)*), "}};"),
                        $($part = in($reg) $part,)* at = in(reg32) at, options(nostack));
                }
            }
        }
    )*};
    (@list $first:ident $($rest:ident)*) => {
        concat!("{", stringify!($first), "}", $(", {", stringify!($rest), "}"),*)
    };
}

vectors! {
    U64x2, reg64, "v2.u64", x y, U64x2 { x, y } => U64x2 { x, y };
    U32x4, reg32, "v4.u32", a b c d, U32x4([a, b, c, d]) => U32x4([a, b, c, d]);
}

words! {
    u16, reg16, "u16";
    u32, reg32, "u32";
    u64, reg64, "u64";
}

macro_rules! values {
    ($($t:ty, $signed:ty, $reg:ident, $bits:literal, $add_float:literal;)*) => {$(
        impl sealed::SharedValue for $t {
            #[inline(always)]
            unsafe fn update(at: Address, update: Update, value: Self) {
                let number = part::number(update.for_sign((value as $signed) < 0));
                let is = |update: Update| number == update as u32;
                if is(Update::Add) {
                    // SAFETY: the caller vouches for `at`.
                    unsafe {
                        asm!(concat!("red.relaxed.cta.shared.add.u", $bits, " [{a}], {v};"),
                            a = in(reg32) at, v = in($reg) value, options(nostack));
                    }
                    return;
                }
                let mut old: $t;
                // SAFETY: the caller vouches for `at`.
                unsafe {
                    asm!(concat!("ld.relaxed.cta.shared.u", $bits, " {v}, [{a}];"),
                        v = out($reg) old, a = in(reg32) at, options(nostack));
                }
                // Goes round again only when another thread changed the word.
                loop {
                    let new = if is(Update::Replace) {
                        value
                    } else if is(Update::Subtract) {
                        old.wrapping_sub(value)
                    } else if is(Update::AddFloat) {
                        let sum: $t;
                        // SAFETY: arithmetic.
                        unsafe {
                            asm!(concat!("{{ .reg .f", $bits, " a, b; mov.b", $bits, " a, {x}; mov.b", $bits,
                                " b, {y}; ", $add_float, " a, a, b; mov.b", $bits, " {s}, a; }}"),
                                s = out($reg) sum, x = in($reg) old, y = in($reg) value,
                                options(pure, nomem, nostack));
                        }
                        sum
                    } else if is(Update::MinUnsigned) {
                        old.min(value)
                    } else if is(Update::MaxUnsigned) {
                        old.max(value)
                    } else if is(Update::MinSigned) {
                        (old as $signed).min(value as $signed) as $t
                    } else if is(Update::MaxSigned) {
                        (old as $signed).max(value as $signed) as $t
                    } else if is(Update::And) {
                        old & value
                    } else if is(Update::Or) {
                        old | value
                    } else {
                        // `for_sign` has made others of `MinFloat` and `MaxFloat`.
                        old ^ value
                    };
                    let seen: $t;
                    // SAFETY: the caller vouches for `at`.
                    unsafe {
                        asm!(concat!("atom.relaxed.cta.shared.cas.b", $bits, " {o}, [{a}], {c}, {n};"),
                            o = out($reg) seen, a = in(reg32) at, c = in($reg) old, n = in($reg) new,
                            options(nostack));
                    }
                    if seen == old {
                        return;
                    }
                    old = seen;
                }
            }
        }
    )*};
}

values! {
    u32, i32, reg32, "32", "add.rn.ftz.f32";
    u64, i64, reg64, "64", "add.rn.f64";
}

/// Nothing to update.
impl sealed::SharedValue for () {
    #[inline(always)]
    unsafe fn update(_: Address, _: Update, (): Self) {}
}

#[inline(always)]
pub unsafe fn fetch_add(at: Address, value: u32) -> u32 {
    let old: u32;
    // SAFETY: the caller vouches for `at`.
    unsafe {
        asm!("atom.relaxed.cta.shared.add.u32 {o}, [{a}], {v};", o = out(reg32) old,
            a = in(reg32) at, v = in(reg32) value, options(nostack));
    }
    old
}

#[inline(always)]
pub unsafe fn compare_exchange(at: Address, current: u32, new: u32) -> u32 {
    let old: u32;
    // SAFETY: the caller vouches for `at`.
    unsafe {
        asm!("atom.relaxed.cta.shared.cas.b32 {o}, [{a}], {c}, {n};", o = out(reg32) old,
            a = in(reg32) at, c = in(reg32) current, n = in(reg32) new, options(nostack));
    }
    old
}

#[inline(always)]
pub unsafe fn peek(at: Address) -> U32x4 {
    let (a, b, c, d): (u32, u32, u32, u32);
    // SAFETY: the caller vouches for `at`.
    unsafe {
        asm!("ld.relaxed.cta.shared.v4.u32 {{{a}, {b}, {c}, {d}}}, [{at}];", a = out(reg32) a,
            b = out(reg32) b, c = out(reg32) c, d = out(reg32) d, at = in(reg32) at,
            options(nostack));
    }
    U32x4([a, b, c, d])
}

#[inline(always)]
pub unsafe fn peek_word(at: Address) -> u32 {
    let word: u32;
    // SAFETY: the caller vouches for `at`.
    unsafe {
        asm!("ld.relaxed.cta.shared.u32 {w}, [{at}];", w = out(reg32) word, at = in(reg32) at,
            options(nostack));
    }
    word
}

#[inline(always)]
pub unsafe fn count(at: Address) {
    // The constant lets ptxas take the increment that merges lanes.
    // SAFETY: the caller vouches for `at`.
    unsafe {
        asm!("red.relaxed.cta.shared.add.u32 [{a}], 1;", a = in(reg32) at, options(nostack));
    }
}

#[inline(always)]
pub unsafe fn set_bits(at: Address, bits: u32) {
    // SAFETY: the caller vouches for `at`.
    unsafe {
        asm!("red.relaxed.cta.shared.or.b32 [{a}], {b};", a = in(reg32) at, b = in(reg32) bits,
            options(nostack));
    }
}

#[inline(always)]
pub unsafe fn fetch_or(at: Address, bits: u32) -> u32 {
    let old: u32;
    // SAFETY: the caller vouches for `at`.
    unsafe {
        asm!("atom.relaxed.cta.shared.or.b32 {o}, [{a}], {b};", o = out(reg32) old,
            a = in(reg32) at, b = in(reg32) bits, options(nostack));
    }
    old
}

#[cfg(gpumap_sm90)]
#[inline(always)]
pub unsafe fn copy_async<const BYTES: u32>(at: Address, source: *const u8) {
    // SAFETY: the caller vouches for both sides. Only whole vectors may go past the L1.
    unsafe {
        if BYTES == 16 {
            asm!("cp.async.cg.shared.global [{a}], [{s}], 16;", a = in(reg32) at,
                s = in(reg64) source, options(nostack));
        } else {
            asm!("cp.async.ca.shared.global [{a}], [{s}], {n};", a = in(reg32) at,
                s = in(reg64) source, n = const BYTES, options(nostack));
        }
    }
}

#[cfg(not(gpumap_sm90))]
#[inline(always)]
pub unsafe fn copy_async<const BYTES: u32>(at: Address, source: *const u8) {
    use crate::mem;
    use sealed::SharedWord;
    // SAFETY: the caller vouches for both sides.
    unsafe {
        match BYTES {
            4 => u32::store(at, mem::load(source.cast())),
            8 => u64::store(at, mem::load(source.cast())),
            _ => U64x2::store(at, mem::load(source.cast())),
        }
    }
}

#[inline(always)]
pub fn commit_copies() {
    #[cfg(gpumap_sm90)]
    // SAFETY: closes a group, touches no memory by itself.
    unsafe {
        asm!("cp.async.commit_group;", options(nostack));
    }
}

#[inline(always)]
pub fn wait_copies<const PENDING: u32>() {
    #[cfg(gpumap_sm90)]
    // SAFETY: waits; what the copies write becomes visible, so LLVM must keep to it.
    unsafe {
        asm!("cp.async.wait_group {n};", n = const PENDING, options(nostack));
    }
}
