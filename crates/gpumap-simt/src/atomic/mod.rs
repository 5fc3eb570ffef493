//! Device-scope atomics with orderings that are types.
//!
//! Every operation is atomic with respect to every other one of this module on the same
//! **whole word**, from any thread of the device. `core::sync::atomic` is not used on the device: its
//! `fetch_add` and `swap` lose their ordering on nvptx, and loads and stores are system-scoped.
//!
//! | ordering | load | store | read-modify-write | PTX |
//! |---|---|---|---|---|
//! | [`Relaxed`] | yes | yes | yes | `.relaxed.gpu` |
//! | [`Acquire`] | yes | | yes | `.acquire.gpu` |
//! | [`Release`] | | yes | yes | `.release.gpu` |
//! | [`AcqRel`] | | | yes | `.acq_rel.gpu` |
//!
//! | word | load, store | compare_exchange, exchange | fetch_* |
//! |---|---|---|---|
//! | `u32`, `u64` | all GPUs | all GPUs | all GPUs |
//! | [`U64x2`] (16-byte aligned) | sm_70 and newer | sm_90 and newer | |
//!
//! Read the result of a read-modify-write that acquires: without a reader the assembler of CUDA 12.3 and 12.4 makes a reduction of it on
//! sm_90, and drops the acquire. Where the result does not matter, use a relaxed or a releasing one, and a [`fence`] behind it.
//!
//! [`system_add`] counts in memory of another device. [`part`] has atomics on halves and quarters of these words, on all GPUs.
//!
//! Any lane may call any of them; no other lane is involved. On the executor each one is a
//! point where another lane may be scheduled.

#[cfg(not(target_arch = "nvptx64"))]
mod cpu;
#[cfg(target_arch = "nvptx64")]
mod gpu;
pub mod part;

#[cfg(not(target_arch = "nvptx64"))]
use cpu as imp;
#[cfg(target_arch = "nvptx64")]
use gpu as imp;

#[cfg(doc)]
use crate::U64x2;

/// No ordering with other accesses: atomicity and a single modification order per word only.
#[derive(Clone, Copy, Debug)]
pub struct Relaxed;
/// What the thread does after it sees what was released by the write it read.
#[derive(Clone, Copy, Debug)]
pub struct Acquire;
/// What the thread did before is visible to every thread that acquires the written value.
#[derive(Clone, Copy, Debug)]
pub struct Release;
/// [`Acquire`] and [`Release`].
#[derive(Clone, Copy, Debug)]
pub struct AcqRel;

/// The orderings as values, for the back ends' `match`; always a constant where it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// [`Relaxed`]
    Relaxed,
    /// [`Acquire`]
    Acquire,
    /// [`Release`]
    Release,
    /// [`AcqRel`]
    AcqRel,
}

/// An ordering that a read-modify-write may have: any.
pub trait RmwOrdering: Copy {
    /// The ordering as a value.
    #[doc(hidden)]
    const ORDER: Order;
}
/// An ordering that a load may have.
pub trait LoadOrdering: RmwOrdering {}
/// An ordering that a store may have.
pub trait StoreOrdering: RmwOrdering {}

macro_rules! orderings {
    ($($name:ident: $($as:ident)*;)*) => {$(
        impl RmwOrdering for $name {
            const ORDER: Order = Order::$name;
        }
        $(impl $as for $name {})*
    )*};
}
orderings! {
    Relaxed: LoadOrdering StoreOrdering;
    Acquire: LoadOrdering;
    Release: StoreOrdering;
    AcqRel:;
}

pub(crate) mod sealed {
    use super::Order;

    /// Loads and stores of a word.
    pub trait Word: Copy {
        unsafe fn load(p: *const Self, order: Order) -> Self;
        unsafe fn store(p: *mut Self, value: Self, order: Order);
    }
    /// Compare-and-exchange of a word.
    pub trait Swap: Word {
        unsafe fn compare_exchange(p: *mut Self, current: Self, new: Self, order: Order) -> Self;
        unsafe fn exchange(p: *mut Self, value: Self, order: Order) -> Self;
    }
    /// Arithmetic on a word.
    pub trait Arithmetic: Swap {
        unsafe fn fetch_add(p: *mut Self, value: Self, order: Order) -> Self;
        unsafe fn fetch_min(p: *mut Self, value: Self, order: Order) -> Self;
        unsafe fn fetch_max(p: *mut Self, value: Self, order: Order) -> Self;
        unsafe fn fetch_and(p: *mut Self, value: Self, order: Order) -> Self;
        unsafe fn fetch_or(p: *mut Self, value: Self, order: Order) -> Self;
        unsafe fn fetch_xor(p: *mut Self, value: Self, order: Order) -> Self;
        unsafe fn block_fetch_add(p: *mut Self, value: Self) -> Self;
    }
}

/// A word that can be loaded and stored whole: `u32`, `u64`, [`U64x2`].
pub trait Word: sealed::Word {}
/// A word that can be compared and exchanged: `u32`, `u64`, and [`U64x2`] from sm_90 on.
pub trait Swap: Word + sealed::Swap {}
/// A word that the device can count in: `u32`, `u64`.
pub trait Arithmetic: Swap + sealed::Arithmetic {}

impl<T: sealed::Word> Word for T {}
impl<T: sealed::Swap> Swap for T {}
impl<T: sealed::Arithmetic> Arithmetic for T {}

/// The word at `p`.
///
/// # Safety
/// `p` is aligned, valid for reads on the device, and the word is written only by functions of
/// this module while the launch lasts.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn load<T: Word, O: LoadOrdering>(p: *const T, _: O) -> T {
    // SAFETY: the caller's promise is the back end's.
    unsafe { T::load(p, O::ORDER) }
}

/// Writes the word at `p`.
///
/// # Safety
/// `p` is aligned, valid for writes on the device, and the word is accessed only by functions
/// of this module while the launch lasts.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn store<T: Word, O: StoreOrdering>(p: *mut T, value: T, _: O) {
    // SAFETY: the caller's promise is the back end's.
    unsafe { T::store(p, value, O::ORDER) }
}

/// Replaces the word at `p` by `new` if it is `current`. Returns what was there: it was
/// replaced exactly when that equals `current`. Never fails spuriously.
///
/// # Safety
/// As for [`store`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn compare_exchange<T: Swap, O: RmwOrdering>(p: *mut T, current: T, new: T, _: O) -> T {
    // SAFETY: the caller's promise is the back end's.
    unsafe { T::compare_exchange(p, current, new, O::ORDER) }
}

/// Replaces the word at `p`. Returns what was there.
///
/// # Safety
/// As for [`store`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn exchange<T: Swap, O: RmwOrdering>(p: *mut T, value: T, _: O) -> T {
    // SAFETY: the caller's promise is the back end's.
    unsafe { T::exchange(p, value, O::ORDER) }
}

macro_rules! fetch {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        /// Returns what was there.
        ///
        /// # Safety
        /// As for [`store`].
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $name<T: Arithmetic, O: RmwOrdering>(p: *mut T, value: T, _: O) -> T {
            // SAFETY: the caller's promise is the back end's.
            unsafe { T::$name(p, value, O::ORDER) }
        }
    )*};
}

fetch! {
    /// Adds, wrapping around.
    fetch_add;
    /// Replaces by the smaller, unsigned.
    fetch_min;
    /// Replaces by the larger, unsigned.
    fetch_max;
    /// Bitwise and.
    fetch_and;
    /// Bitwise or.
    fetch_or;
    /// Bitwise exclusive or.
    fetch_xor;
}

/// Adds to a counter in **shared** memory, atomically among the threads of the block, with no
/// ordering of other accesses (the block barrier gives that). Returns what was there.
///
/// # Safety
/// `p` is aligned and lies in the block's shared memory; while the block runs between two
/// barriers the word is accessed only by this function.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn block_fetch_add<T: Arithmetic>(p: *mut T, value: T) -> T {
    // SAFETY: the caller's promise is the back end's.
    unsafe { T::block_fetch_add(p, value) }
}

/// Adds to a counter that threads of **several devices** add to, in the memory of any of them that is
/// mapped into this one: at the scope of the system, with no ordering of other accesses. What was there
/// is not returned, so that nothing waits for the answer of a device far away.
///
/// # Safety
/// `p` is aligned, valid for writes on this device, and the word is accessed only by this function
/// while the launches of all devices last.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn system_add(p: *mut u64, value: u64) {
    // SAFETY: the caller's promise is the back end's.
    unsafe { imp::system_add(p, value) }
}

/// Orders every memory access of the thread before it, acquire and release, with those of other
/// threads of the device that synchronise through an atomic.
///
/// Any lane may call it; no other lane is involved.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn fence() {
    imp::fence();
}
