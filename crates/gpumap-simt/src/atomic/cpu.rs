//! The executor's atomics: real ones, since blocks run on several threads, each preceded by a
//! point where another lane may be scheduled. Outside of a launch they are those of a
//! [model](crate::executor::Model).

use super::{Order, sealed};
use crate::U64x2;
use crate::cpu::{self, model};
use portable_atomic::{AtomicU32, AtomicU64, AtomicU128, Ordering};

/// The ordering of a load or of a failed exchange.
const fn reading(order: Order) -> Ordering {
    match order {
        Order::Relaxed | Order::Release => Ordering::Relaxed,
        Order::Acquire | Order::AcqRel => Ordering::Acquire,
    }
}

const fn writing(order: Order) -> Ordering {
    match order {
        Order::Relaxed | Order::Acquire => Ordering::Relaxed,
        Order::Release | Order::AcqRel => Ordering::Release,
    }
}

const fn both(order: Order) -> Ordering {
    match order {
        Order::Relaxed => Ordering::Relaxed,
        Order::Acquire => Ordering::Acquire,
        Order::Release => Ordering::Release,
        Order::AcqRel => Ordering::AcqRel,
    }
}

macro_rules! words {
    ($($t:ty, $atomic:ident, $to:expr, $from:expr;)*) => {$(
        impl sealed::Word for $t {
            #[inline(always)]
            #[track_caller]
            unsafe fn load(p: *const Self, order: Order) -> Self {
                if !cpu::before_load(order) {
                    // SAFETY: as below.
                    return unsafe { model::load(p, order) };
                }
                // SAFETY: aligned and valid, and accessed atomically only, by the caller.
                let word = unsafe { $atomic::from_ptr(p.cast_mut().cast()) };
                $from(word.load(reading(order)))
            }
            #[inline(always)]
            #[track_caller]
            unsafe fn store(p: *mut Self, value: Self, order: Order) {
                // SAFETY: as above.
                if !unsafe { cpu::before_write(p, order) } {
                    // SAFETY: as above.
                    unsafe { model::update(p, order, |_| Some(value)) };
                    return;
                }
                // SAFETY: as above.
                let word = unsafe { $atomic::from_ptr(p.cast()) };
                word.store($to(value), writing(order));
            }
        }
        impl sealed::Swap for $t {
            #[inline(always)]
            #[track_caller]
            unsafe fn compare_exchange(p: *mut Self, current: Self, new: Self, order: Order) -> Self {
                // SAFETY: as above.
                if !unsafe { cpu::before_write(p, order) } {
                    // SAFETY: as above.
                    return unsafe { model::update(p, order, |old: Self| (old == current).then_some(new)) };
                }
                // SAFETY: as above.
                let word = unsafe { $atomic::from_ptr(p.cast()) };
                let (current, new) = ($to(current), $to(new));
                match word.compare_exchange(current, new, both(order), reading(order)) {
                    Ok(old) | Err(old) => $from(old),
                }
            }
            #[inline(always)]
            #[track_caller]
            unsafe fn exchange(p: *mut Self, value: Self, order: Order) -> Self {
                // SAFETY: as above.
                if !unsafe { cpu::before_write(p, order) } {
                    // SAFETY: as above.
                    return unsafe { model::update(p, order, |_| Some(value)) };
                }
                // SAFETY: as above.
                let word = unsafe { $atomic::from_ptr(p.cast()) };
                $from(word.swap($to(value), both(order)))
            }
        }
    )*};
}

words! {
    u32, AtomicU32, |w| w, |w| w;
    u64, AtomicU64, |w| w, |w| w;
    U64x2, AtomicU128, U64x2::to_u128, U64x2::from_u128;
}

macro_rules! arithmetic {
    ($($t:ty, $atomic:ident;)*) => {$(
        arithmetic! { @impl $t, $atomic, fetch_add fetch_min fetch_max fetch_and fetch_or fetch_xor }
    )*};
    (@impl $t:ty, $atomic:ident, $($op:ident)*) => {
        impl sealed::Arithmetic for $t {
            $(
                #[inline(always)]
                #[track_caller]
                unsafe fn $op(p: *mut Self, value: Self, order: Order) -> Self {
                    // SAFETY: as below.
                    if !unsafe { cpu::before_write(p, order) } {
                        // SAFETY: as above.
                        return unsafe { model::update(p, order, |old| Some(updated::$op(old, value))) };
                    }
                    // SAFETY: aligned and valid, and accessed atomically only, by the caller.
                    unsafe { $atomic::from_ptr(p) }.$op(value, both(order))
                }
            )*
            #[inline(always)]
            #[track_caller]
            unsafe fn block_fetch_add(p: *mut Self, value: Self) -> Self {
                // SAFETY: as above; shared memory belongs to one block, so to one thread here.
                unsafe { Self::fetch_add(p, value, Order::Relaxed) }
            }
        }
    };
}

/// What a model has to make of a word.
mod updated {
    use std::ops::{BitAnd, BitOr, BitXor};

    /// Wrapping sums.
    pub trait Sum {
        fn sum(self, other: Self) -> Self;
    }
    impl Sum for u32 {
        fn sum(self, other: Self) -> Self {
            self.wrapping_add(other)
        }
    }
    impl Sum for u64 {
        fn sum(self, other: Self) -> Self {
            self.wrapping_add(other)
        }
    }

    pub fn fetch_add<T: Sum>(old: T, value: T) -> T {
        old.sum(value)
    }
    pub fn fetch_min<T: Ord>(old: T, value: T) -> T {
        old.min(value)
    }
    pub fn fetch_max<T: Ord>(old: T, value: T) -> T {
        old.max(value)
    }
    pub fn fetch_and<T: BitAnd<Output = T>>(old: T, value: T) -> T {
        old & value
    }
    pub fn fetch_or<T: BitOr<Output = T>>(old: T, value: T) -> T {
        old | value
    }
    pub fn fetch_xor<T: BitXor<Output = T>>(old: T, value: T) -> T {
        old ^ value
    }
}

arithmetic! {
    u32, AtomicU32;
    u64, AtomicU64;
}

#[inline(always)]
#[track_caller]
pub unsafe fn system_add(p: *mut u64, value: u64) {
    // All devices are in this process: their atomics are one kind.
    // SAFETY: passed on.
    unsafe { <u64 as sealed::Arithmetic>::fetch_add(p, value, Order::Relaxed) };
}

#[inline(always)]
#[track_caller]
pub fn fence() {
    if !cpu::before_fence() {
        return model::fence();
    }
    portable_atomic::fence(Ordering::AcqRel);
}
