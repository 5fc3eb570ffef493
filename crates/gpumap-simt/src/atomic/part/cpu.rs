//! Parts of words on the executor: loops of exchanges of the whole word, so that accesses of
//! different sizes never meet. In a [native](crate::native) block they are atomics of the part's size:
//! processors keep accesses of different sizes to one cache line in one order.

use super::Update;
use crate::U64x2;
use crate::atomic::Order;
use crate::cpu::{self, model};
use crate::native;
use portable_atomic::{AtomicU32, AtomicU64, AtomicU128, Ordering::Relaxed};

/// A word that has parts.
pub trait Whole: Copy {
    /// As [`replace`](Self::replace), of a model's memory.
    unsafe fn replace_modelled(p: *mut Self, f: impl FnMut(u128) -> Option<u128>) -> u128;
    /// Replaces the word by what `f` makes of it, unless that is nothing. Returns the old word.
    unsafe fn replace(p: *mut Self, f: impl FnMut(u128) -> Option<u128>) -> u128;
}

macro_rules! wholes {
    ($($t:ty, $atomic:ident, $raw:ty;)*) => {$(
        impl Whole for $t {
            unsafe fn replace_modelled(p: *mut Self, mut f: impl FnMut(u128) -> Option<u128>) -> u128 {
                let f = |old| f(model::Word::to_bits(old)).map(model::Word::from_bits);
                // SAFETY: the caller's promise.
                model::Word::to_bits(unsafe { model::update(p, Order::Relaxed, f) })
            }
            #[inline(always)]
            unsafe fn replace(p: *mut Self, mut f: impl FnMut(u128) -> Option<u128>) -> u128 {
                // SAFETY: aligned and valid, and accessed atomically only, by the caller.
                let word = unsafe { $atomic::from_ptr(p.cast()) };
                let f = |old: $raw| f(u128::from(old)).map(|new| new as $raw);
                // Goes round again only when another thread changed the word.
                match word.fetch_update(Relaxed, Relaxed, f) {
                    Ok(old) | Err(old) => u128::from(old),
                }
            }
        }
    )*};
}
wholes! {
    u64, AtomicU64, u64;
    U64x2, AtomicU128, u128;
}

/// A part of a word.
pub trait Part: Copy {
    const MASK: u128;
    fn to_bits(self) -> u128;
    fn from_bits(bits: u128) -> Self;
    fn is_negative(self) -> bool;
    fn updated(self, update: Update, value: Self) -> Self;
    /// Updates it where it lies, by an atomic of its size.
    ///
    /// # Safety
    /// As for [`update`].
    unsafe fn update_alone(p: *mut Self, update: Update, value: Self);
    /// The same, and returns what was there.
    ///
    /// # Safety
    /// As for [`update`].
    unsafe fn fetch_update_alone(p: *mut Self, update: Update, value: Self) -> Self;
    /// Likewise, as [`compare_exchange`].
    ///
    /// # Safety
    /// As for [`compare_exchange`].
    unsafe fn compare_exchange_alone(p: *mut Self, current: Self, new: Self) -> Self;
    /// Likewise, as [`exchange`].
    ///
    /// # Safety
    /// As for [`exchange`].
    unsafe fn exchange_alone(p: *mut Self, value: Self) -> Self;
}

/// Where a part lies.
fn part_of<W, P>(word: *mut W, at: u32) -> *mut P {
    word.cast::<u8>().wrapping_add(at as usize).cast()
}

/// Sums as a GPU's L2 makes them.
trait Float {
    fn sum(self, other: Self) -> Self;
}

impl Float for f32 {
    fn sum(self, other: Self) -> Self {
        let flush = |x: f32| {
            if x.is_subnormal() {
                0.0f32.copysign(x)
            } else {
                x
            }
        };
        flush(flush(self) + flush(other))
    }
}

impl Float for f64 {
    fn sum(self, other: Self) -> Self {
        self + other
    }
}

macro_rules! parts {
    ($($t:ty, $atomic:ident, $signed:ty, $float:ty;)*) => {$(
        impl Part for $t {
            const MASK: u128 = <$t>::MAX as u128;
            #[inline(always)]
            fn to_bits(self) -> u128 {
                u128::from(self)
            }
            #[inline(always)]
            fn from_bits(bits: u128) -> Self {
                bits as $t
            }
            #[inline(always)]
            fn is_negative(self) -> bool {
                (self as $signed) < 0
            }
            fn updated(self, update: Update, value: Self) -> Self {
                let (old, new) = (self as $signed, value as $signed);
                match update {
                    Update::Replace => value,
                    Update::Add => self.wrapping_add(value),
                    Update::Subtract => self.wrapping_sub(value),
                    Update::AddFloat => {
                        let (old, new) = (<$float>::from_bits(self), <$float>::from_bits(value));
                        old.sum(new).to_bits()
                    }
                    Update::MinUnsigned => self.min(value),
                    Update::MaxUnsigned => self.max(value),
                    Update::MinSigned => old.min(new) as $t,
                    Update::MaxSigned => old.max(new) as $t,
                    Update::MinFloat | Update::MaxFloat => unreachable!("see `for_sign`"),
                    Update::And => self & value,
                    Update::Or => self | value,
                    Update::Xor => self ^ value,
                }
            }
            #[inline(always)]
            unsafe fn update_alone(p: *mut Self, update: Update, value: Self) {
                // SAFETY: aligned to its size in a valid word, and accessed atomically only, by the caller.
                let part = unsafe { $atomic::from_ptr(p) };
                match update {
                    Update::Replace => part.store(value, Relaxed),
                    Update::Add => {
                        part.fetch_add(value, Relaxed);
                    }
                    Update::Subtract => {
                        part.fetch_sub(value, Relaxed);
                    }
                    other => {
                        // Goes round again only when another thread changed the part.
                        let _ = part.fetch_update(Relaxed, Relaxed, |old| {
                            let new = old.updated(other, value);
                            (new != old).then_some(new)
                        });
                    }
                }
            }
            #[inline(always)]
            unsafe fn fetch_update_alone(p: *mut Self, update: Update, value: Self) -> Self {
                // SAFETY: as above.
                let part = unsafe { $atomic::from_ptr(p) };
                let updated = |old: Self| Some(old.updated(update, value));
                match part.fetch_update(Relaxed, Relaxed, updated) {
                    Ok(old) | Err(old) => old,
                }
            }
            #[inline(always)]
            unsafe fn compare_exchange_alone(p: *mut Self, current: Self, new: Self) -> Self {
                // SAFETY: as above.
                let part = unsafe { $atomic::from_ptr(p) };
                match part.compare_exchange(current, new, Relaxed, Relaxed) {
                    Ok(old) | Err(old) => old,
                }
            }
            #[inline(always)]
            unsafe fn exchange_alone(p: *mut Self, value: Self) -> Self {
                // SAFETY: as above.
                unsafe { $atomic::from_ptr(p) }.swap(value, Relaxed)
            }
        }
    )*};
}
parts! {
    u32, AtomicU32, i32, f32;
    u64, AtomicU64, i64, f64;
}

/// Updates a part, where a lane may be preempted; returns the old one.
#[inline(always)]
#[track_caller]
unsafe fn replace<W: Whole, P: Part>(
    word: *mut W,
    at: u32,
    mut f: impl FnMut(P) -> Option<P>,
) -> P {
    let shift = at * 8;
    let part = |whole: u128| P::from_bits(whole >> shift & P::MASK);
    let with = |whole: u128| {
        let rest = whole & !(P::MASK << shift);
        f(part(whole)).map(|new| rest | new.to_bits() << shift)
    };
    // SAFETY: the caller's promise.
    let old = unsafe {
        if cpu::before_write(word, Order::Relaxed) {
            W::replace(word, with)
        } else {
            W::replace_modelled(word, with)
        }
    };
    part(old)
}

#[inline(always)]
#[track_caller]
pub unsafe fn update<W: Whole, P: Part>(word: *mut W, at: u32, update: Update, value: P) {
    if native::is_here() {
        // SAFETY: the part of the caller's word.
        return unsafe { P::update_alone(part_of(word, at), update, value) };
    }
    // SAFETY: the caller's promise.
    unsafe { replace(word, at, |old: P| Some(old.updated(update, value))) };
}

#[inline(always)]
#[track_caller]
pub unsafe fn fetch_update<W: Whole, P: Part>(
    word: *mut W,
    at: u32,
    update: Update,
    value: P,
) -> P {
    if native::is_here() {
        // SAFETY: the part of the caller's word.
        return unsafe { P::fetch_update_alone(part_of(word, at), update, value) };
    }
    // SAFETY: the caller's promise.
    unsafe { replace(word, at, |old: P| Some(old.updated(update, value))) }
}

#[inline(always)]
#[track_caller]
pub unsafe fn compare_exchange<W: Whole, P: Part>(word: *mut W, at: u32, current: P, new: P) -> P {
    if native::is_here() {
        // SAFETY: the part of the caller's word.
        return unsafe { P::compare_exchange_alone(part_of(word, at), current, new) };
    }
    let same = |old: P| (old.to_bits() == current.to_bits()).then_some(new);
    // SAFETY: the caller's promise.
    unsafe { replace(word, at, same) }
}

#[inline(always)]
#[track_caller]
pub unsafe fn exchange<W: Whole, P: Part>(word: *mut W, at: u32, value: P) -> P {
    if native::is_here() {
        // SAFETY: the part of the caller's word.
        return unsafe { P::exchange_alone(part_of(word, at), value) };
    }
    // SAFETY: the caller's promise.
    unsafe { replace(word, at, |_: P| Some(value)) }
}
