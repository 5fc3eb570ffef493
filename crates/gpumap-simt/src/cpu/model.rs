//! Atomics outside of a launch, under a model of memory.
//!
//! A model checker has threads of its own, and runs them once for each order of events and for each
//! value that a load may return. Device code that a lane does alone, without collectives, can be one of
//! its threads: its atomics then call the [`Model`] of the OS thread instead of the executor.
//!
//! Memory is modelled in units of 16 bytes, the widest word that there is. So accesses of different
//! sizes to one place meet in one unit, as they do in a GPU's L2.

use std::cell::RefCell;
use std::rc::Rc;

use super::lane::outside;
use crate::U64x2;
use crate::atomic::Order;

thread_local! {
    static HERE: RefCell<Option<Rc<dyn Model>>> = const { RefCell::new(None) };
}

/// Memory as a model checker has it.
pub trait Model {
    /// What an atomic load of a unit sees.
    ///
    /// # Safety
    /// The unit may be read, and only atomics and this model write it.
    unsafe fn load(&self, unit: *const u128, order: Order) -> u128;

    /// An atomic read-modify-write of a unit, also for a store: the unit becomes what `change` makes of
    /// it, or stays what it is. Returns the old one.
    ///
    /// # Safety
    /// As for [`load`](Self::load), and the unit may be written.
    unsafe fn update(
        &self,
        unit: *mut u128,
        order: Order,
        change: &mut dyn FnMut(u128) -> Option<u128>,
    ) -> u128;

    /// A fence.
    fn fence(&self);

    /// What kernels take for the number of blocks.
    fn blocks(&self) -> u32;
}

/// Runs `f` with this model on this OS thread. Within it, device code may run outside of a launch, as
/// long as it calls nothing but atomics, plain loads and stores, and the size of the grid.
///
/// ```
/// use gpumap_simt::atomic::{self, Order, Relaxed};
/// use gpumap_simt::executor::{Model, with_model};
///
/// /// Memory without surprises.
/// struct Plain;
/// impl Model for Plain {
///     unsafe fn load(&self, unit: *const u128, _: Order) -> u128 {
///         // SAFETY: the caller's promise.
///         unsafe { unit.read() }
///     }
///     unsafe fn update(
///         &self,
///         unit: *mut u128,
///         _: Order,
///         change: &mut dyn FnMut(u128) -> Option<u128>,
///     ) -> u128 {
///         // SAFETY: as above.
///         let old = unsafe { unit.read() };
///         if let Some(new) = change(old) {
///             // SAFETY: as above.
///             unsafe { unit.write(new) };
///         }
///         old
///     }
///     fn fence(&self) {}
///     fn blocks(&self) -> u32 { 1 }
/// }
///
/// let mut unit = 5u128;
/// let word = (&raw mut unit).cast::<u64>();
/// // SAFETY: a word of a unit, which is this thread's.
/// let old = with_model(std::rc::Rc::new(Plain), || unsafe { atomic::fetch_add(word, 2, Relaxed) });
/// assert_eq!((old, unit), (5, 7));
/// ```
pub fn with_model<R>(model: Rc<dyn Model>, f: impl FnOnce() -> R) -> R {
    struct Before(Option<Rc<dyn Model>>);
    impl Drop for Before {
        fn drop(&mut self) {
            HERE.set(self.0.take());
        }
    }
    let _before = Before(HERE.replace(Some(model)));
    f()
}

/// The model of this thread.
#[track_caller]
fn model() -> Rc<dyn Model> {
    // Not borrowed meanwhile: the model may switch to another of its threads.
    HERE.with_borrow(Clone::clone).unwrap_or_else(|| outside())
}

/// A word of at most one unit.
pub(crate) trait Word: Copy {
    /// As many ones as it has bits.
    const MASK: u128;
    fn to_bits(self) -> u128;
    fn from_bits(bits: u128) -> Self;
}

macro_rules! words {
    ($($t:ty, $bits:ty, $to:expr, $from:expr;)*) => {$(
        impl Word for $t {
            const MASK: u128 = <$bits>::MAX as u128;
            fn to_bits(self) -> u128 {
                $to(self)
            }
            fn from_bits(bits: u128) -> Self {
                $from(bits as $bits)
            }
        }
    )*};
}

words! {
    u32, u32, u128::from, |bits| bits;
    u64, u64, u128::from, |bits| bits;
    U64x2, u128, U64x2::to_u128, U64x2::from_u128;
}

/// The unit of a word, and where in it the word begins, in bits.
fn place<T>(p: *mut T) -> (*mut u128, u32) {
    let at = p.addr() % size_of::<u128>();
    (p.cast::<u8>().wrapping_sub(at).cast(), at as u32 * 8)
}

/// As an atomic load of the word.
///
/// # Safety
/// As for the atomic; what else is in the unit may be read as well.
#[cold]
#[track_caller]
pub(crate) unsafe fn load<T: Word>(p: *const T, order: Order) -> T {
    let (unit, shift) = place(p.cast_mut());
    // SAFETY: the caller's promise.
    let unit = unsafe { model().load(unit, order) };
    T::from_bits(unit >> shift & T::MASK)
}

/// As an atomic read-modify-write of the word; returns the old one.
///
/// # Safety
/// As for the atomic; what else is in the unit may be written as well.
#[cold]
#[track_caller]
pub(crate) unsafe fn update<T: Word>(
    p: *mut T,
    order: Order,
    mut change: impl FnMut(T) -> Option<T>,
) -> T {
    let (unit, shift) = place(p);
    let word = |unit: u128| T::from_bits(unit >> shift & T::MASK);
    let mut change = |unit| {
        let new = change(word(unit))?;
        Some(unit & !(T::MASK << shift) | new.to_bits() << shift)
    };
    // SAFETY: the caller's promise.
    word(unsafe { model().update(unit, order, &mut change) })
}

/// As a fence.
#[cold]
#[track_caller]
pub(crate) fn fence() {
    model().fence();
}

/// The size of the grid.
#[cold]
#[track_caller]
pub(crate) fn blocks() -> u32 {
    model().blocks()
}
