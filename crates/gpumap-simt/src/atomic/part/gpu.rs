//! Parts of words on the device: ordinary instructions of the part's size.

use super::Update;
use crate::U64x2;
use crate::atomic::{Order, RmwOrdering};
use crate::atomic::{Relaxed, sealed::Arithmetic};
use core::arch::asm;

const RELAXED: Order = <Relaxed as RmwOrdering>::ORDER;

/// A word that has parts.
pub trait Whole: Copy {}
impl Whole for u64 {}
impl Whole for U64x2 {}

/// A part of a word.
pub trait Part: Arithmetic {
    fn is_negative(self) -> bool;
    fn negated(self) -> Self;
    unsafe fn min_signed(p: *mut Self, value: Self);
    unsafe fn max_signed(p: *mut Self, value: Self);
    unsafe fn add_float(p: *mut Self, value: Self);
    unsafe fn fetch_min_signed(p: *mut Self, value: Self) -> Self;
    unsafe fn fetch_max_signed(p: *mut Self, value: Self) -> Self;
    unsafe fn fetch_add_float(p: *mut Self, value: Self) -> Self;
}

macro_rules! reductions {
    ($t:ty, $signed:ty, $reg:ident, $($name:ident, $fetch:ident = $instruction:literal;)*) => {
        impl Part for $t {
            #[inline(always)]
            fn is_negative(self) -> bool {
                (self as $signed) < 0
            }
            #[inline(always)]
            fn negated(self) -> Self {
                self.wrapping_neg()
            }
            $(
            #[inline(always)]
            unsafe fn $name(p: *mut Self, value: Self) {
                // SAFETY: the caller vouches for `p`.
                unsafe {
                    asm!(concat!("red.relaxed.gpu.global.", $instruction, " [{p}], {v};"),
                        p = in(reg64) p, v = in($reg) value, options(nostack));
                }
            }
            #[inline(always)]
            unsafe fn $fetch(p: *mut Self, value: Self) -> Self {
                let old;
                // SAFETY: the caller vouches for `p`.
                unsafe {
                    asm!(concat!("atom.relaxed.gpu.global.", $instruction, " {old}, [{p}], {v};"),
                        old = lateout($reg) old, p = in(reg64) p, v = in($reg) value, options(nostack));
                }
                old
            }
            )*
        }
    };
}
reductions! {
    u32, i32, reg32,
    min_signed, fetch_min_signed = "min.s32";
    max_signed, fetch_max_signed = "max.s32";
    add_float, fetch_add_float = "add.f32";
}
reductions! {
    u64, i64, reg64,
    min_signed, fetch_min_signed = "min.s64";
    max_signed, fetch_max_signed = "max.s64";
    add_float, fetch_add_float = "add.f64";
}

/// The update's number, of which the compiler knows nothing: from all that it knows of an enum it
/// concludes that one end of a jump table is never reached, and puts a trap there.
#[inline(always)]
pub fn number(update: Update) -> u32 {
    let mut number = update as u32;
    // SAFETY: does nothing.
    unsafe { asm!("/* {n} */", n = inout(reg32) number, options(pure, nomem, nostack)) };
    number
}

#[inline(always)]
pub unsafe fn update<W: Whole, P: Part>(word: *mut W, at: u32, update: Update, value: P) {
    let p: *mut P = word.cast::<u8>().wrapping_add(at as usize).cast();
    let number = number(update);
    let is = |update: Update| number == update as u32;
    // SAFETY: the part lies in the word, aligned to its size. What an atomic returns is not used,
    // so that ptxas makes reductions of them.
    unsafe {
        if is(Update::Replace) {
            // Not a store: many stores to one word that others read take five times as long (H200, 2026-11).
            P::exchange(p, value, RELAXED);
        } else if is(Update::Add) {
            P::fetch_add(p, value, RELAXED);
        } else if is(Update::Subtract) {
            P::fetch_add(p, value.negated(), RELAXED);
        } else if is(Update::AddFloat) {
            P::add_float(p, value);
        } else if is(Update::MinUnsigned) {
            P::fetch_min(p, value, RELAXED);
        } else if is(Update::MaxUnsigned) {
            P::fetch_max(p, value, RELAXED);
        } else if is(Update::MinSigned) {
            P::min_signed(p, value);
        } else if is(Update::MaxSigned) {
            P::max_signed(p, value);
        } else if is(Update::And) {
            P::fetch_and(p, value, RELAXED);
        } else if is(Update::Or) {
            P::fetch_or(p, value, RELAXED);
        } else if is(Update::Xor) {
            P::fetch_xor(p, value, RELAXED);
        }
        // `for_sign` has made others of `MinFloat` and `MaxFloat`.
    }
}

#[inline(always)]
pub unsafe fn fetch_update<W: Whole, P: Part>(
    word: *mut W,
    at: u32,
    update: Update,
    value: P,
) -> P {
    let p: *mut P = word.cast::<u8>().wrapping_add(at as usize).cast();
    let number = number(update);
    let is = |update: Update| number == update as u32;
    // SAFETY: the part lies in the word, aligned to its size.
    unsafe {
        if is(Update::Replace) {
            P::exchange(p, value, RELAXED)
        } else if is(Update::Add) {
            P::fetch_add(p, value, RELAXED)
        } else if is(Update::Subtract) {
            P::fetch_add(p, value.negated(), RELAXED)
        } else if is(Update::AddFloat) {
            P::fetch_add_float(p, value)
        } else if is(Update::MinUnsigned) {
            P::fetch_min(p, value, RELAXED)
        } else if is(Update::MaxUnsigned) {
            P::fetch_max(p, value, RELAXED)
        } else if is(Update::MinSigned) {
            P::fetch_min_signed(p, value)
        } else if is(Update::MaxSigned) {
            P::fetch_max_signed(p, value)
        } else if is(Update::And) {
            P::fetch_and(p, value, RELAXED)
        } else if is(Update::Or) {
            P::fetch_or(p, value, RELAXED)
        } else {
            // `for_sign` has made others of `MinFloat` and `MaxFloat`.
            P::fetch_xor(p, value, RELAXED)
        }
    }
}

#[inline(always)]
pub unsafe fn compare_exchange<W: Whole, P: Part>(word: *mut W, at: u32, current: P, new: P) -> P {
    let p: *mut P = word.cast::<u8>().wrapping_add(at as usize).cast();
    // SAFETY: the part lies in the word, aligned to its size.
    unsafe { P::compare_exchange(p, current, new, RELAXED) }
}

#[inline(always)]
pub unsafe fn exchange<W: Whole, P: Part>(word: *mut W, at: u32, value: P) -> P {
    let p: *mut P = word.cast::<u8>().wrapping_add(at as usize).cast();
    // SAFETY: the part lies in the word, aligned to its size.
    unsafe { P::exchange(p, value, RELAXED) }
}
