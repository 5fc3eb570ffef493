//! Slots of 8 + 8 bytes with a bug, to see that the models fail.

use std::marker::PhantomData;

use gpumap_kernels::slot::{Claim, Format, KeyWord};
use gpumap_simt::U64x2;
use gpumap_simt::atomic::part::{self, Update};
use gpumap_simt::atomic::{self, Relaxed};

/// What is wrong.
pub trait Bug: Copy + 'static {
    /// A removal buries whatever the slot holds by then.
    const BURIES_BLINDLY: bool = false;
    /// A pair is published by two stores, the key first.
    const PUBLISHES_IN_HALVES: bool = false;
    /// A slot that is being written is taken for another key's.
    const PASSES_BUSY: bool = false;
    /// A lost race to the own key is taken for one to another key.
    const FORGETS_WHO_WON: bool = false;
    /// An update is a load and a store.
    const UPDATES_IN_TWO_STEPS: bool = false;
    /// A cell is filled whatever it holds by then.
    const REVIVES_BLINDLY: bool = false;
}

/// Slots like `F` with a bug.
#[derive(Clone, Copy, Debug)]
pub struct Planted<F, B>(PhantomData<(F, B)>);

impl<F: Format<Key = u64, Value = u64, Word = u64>, B: Bug> Format for Planted<F, B> {
    type Key = u64;
    type Value = u64;
    type Word = u64;
    const SLOTS: u32 = F::SLOTS;
    const HAS_BUSY: bool = F::HAS_BUSY && !B::PASSES_BUSY;

    fn word(vector: U64x2, i: u32) -> u64 {
        F::word(vector, i)
    }

    fn value(vector: U64x2, i: u32) -> u64 {
        F::value(vector, i)
    }

    unsafe fn claim(slot: *mut u8, word: u64, value: u64) -> Claim {
        // SAFETY: the caller's promise, here and below.
        unsafe {
            if B::PUBLISHES_IN_HALVES {
                let old = part::compare_exchange_part(slot.cast::<U64x2>(), 0, !0u64, word);
                if old == !0 {
                    part::update_part(slot.cast::<U64x2>(), 8, Update::Replace, value);
                    return Claim::Won;
                }
            }
            match F::claim(slot, word, value) {
                Claim::Busy if B::PASSES_BUSY => Claim::OtherKey,
                Claim::SameKey if B::FORGETS_WHO_WON => Claim::OtherKey,
                claim => claim,
            }
        }
    }

    unsafe fn revive(slot: *mut u8, word: u64, value: u64) -> Claim {
        // SAFETY: the caller's promise.
        unsafe {
            if B::REVIVES_BLINDLY {
                atomic::store(slot.cast(), U64x2::new(word, value), Relaxed);
                return Claim::Won;
            }
            F::revive(slot, word, value)
        }
    }

    unsafe fn update(slot: *mut u8, update: Update, value: u64) {
        // SAFETY: the caller's promise.
        unsafe {
            if B::UPDATES_IN_TWO_STEPS {
                assert_eq!(update, Update::Add);
                let old: U64x2 = atomic::load(slot.cast_const().cast(), Relaxed);
                let sum = old.y.wrapping_add(value);
                part::update_part(slot.cast::<U64x2>(), 8, Update::Replace, sum);
                return;
            }
            F::update(slot, update, value);
        }
    }

    unsafe fn fetch_update(slot: *mut u8, update: Update, value: u64) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { F::fetch_update(slot, update, value) }
    }

    unsafe fn bury(slot: *mut u8, word: u64) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            if B::BURIES_BLINDLY {
                part::update_part(slot.cast::<U64x2>(), 0, Update::Replace, u64::TOMBSTONE);
                return true;
            }
            F::bury(slot, word)
        }
    }

    unsafe fn read(slots: *const u8, i: u64) -> (u64, u64) {
        // SAFETY: the caller's promise.
        unsafe { F::read(slots, i) }
    }

    unsafe fn write(slots: *mut u8, i: u64, word: u64, value: u64) {
        // SAFETY: the caller's promise.
        unsafe { F::write(slots, i, word, value) };
    }

    unsafe fn take_back(slot: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { F::take_back(slot) };
    }
}
