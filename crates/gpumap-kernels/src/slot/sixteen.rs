//! [`Wide`] and [`Split`]: pairs in slots of 16 bytes, claimed in one step or in two.
//!
//! The *busy* state of [`Split`] is short: the lane that made it stores the pair in its next
//! instruction. Readers take a busy slot for some other key's (the insert has not happened
//! yet); inserters look again, since it may be theirs.

use core::marker::PhantomData;

use gpumap_simt::U64x2;
use gpumap_simt::atomic::part::{self, Part, Update};
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::mem;

use super::{Bits, Claim, Format, KeyWord};

/// An empty slot of 16 bytes.
const EMPTY_PAIR: U64x2 = U64x2::new(!0, !0);

/// What the two 16-byte formats have in common: both words zero-extended, key first.
macro_rules! sixteen_bytes {
    () => {
        type Key = K;
        type Value = V;
        type Word = u64;
        const SLOTS: u32 = 1;

        #[inline(always)]
        fn word(vector: U64x2, _: u32) -> u64 {
            vector.x
        }

        #[inline(always)]
        fn value(vector: U64x2, _: u32) -> V {
            V::from_u64(vector.y)
        }

        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        unsafe fn update(slot: *mut u8, update: Update, value: V) {
            // SAFETY: slots are aligned to their size and accessed atomically only.
            unsafe { part::update_part(slot.cast::<U64x2>(), 8, update, value) };
        }

        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        unsafe fn fetch_update(slot: *mut u8, update: Update, value: V) -> V {
            // SAFETY: as above.
            unsafe { part::fetch_update_part(slot.cast::<U64x2>(), 8, update, value) }
        }

        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        unsafe fn bury(slot: *mut u8, word: u64) -> bool {
            let whole = slot.cast::<U64x2>();
            // SAFETY: as above.
            unsafe { part::compare_exchange_part(whole, 0, word, u64::TOMBSTONE) == word }
        }

        #[inline(always)]
        unsafe fn read(slots: *const u8, i: u64) -> (u64, V) {
            // SAFETY: in the table, by the caller.
            let pair: U64x2 = unsafe { mem::load_streaming(slots.cast::<U64x2>().add(i as usize)) };
            (pair.x, V::from_u64(pair.y))
        }

        #[inline(always)]
        unsafe fn write(slots: *mut u8, i: u64, word: u64, value: V) {
            let pair = U64x2::new(word, value.to_u64());
            // SAFETY: the caller's slot; slots are aligned to their size.
            unsafe { slots.cast::<U64x2>().add(i as usize).write(pair) };
        }

        #[inline(always)]
        unsafe fn take_back(slot: *mut u8) {
            // SAFETY: as above.
            unsafe { atomic::store(slot.cast(), EMPTY_PAIR, Relaxed) };
        }
    };
}

/// Pairs in 16-byte slots, claimed whole by a 128-bit CAS: for sm_90 and newer, and the CPU.
#[derive(Clone, Copy, Debug)]
pub struct Wide<K, V>(PhantomData<(K, V)>);

#[cfg(any(not(target_arch = "nvptx64"), gpumap_sm90))]
impl<K: Bits, V: Bits + Part> Format for Wide<K, V> {
    sixteen_bytes! {}
    const HAS_BUSY: bool = false;

    #[inline(always)]
    unsafe fn claim(slot: *mut u8, word: u64, value: V) -> Claim {
        let pair = U64x2::new(word, value.to_u64());
        // SAFETY: slots are aligned to their size and accessed atomically only.
        let old = unsafe { atomic::compare_exchange(slot.cast(), EMPTY_PAIR, pair, Relaxed) };
        match old.x {
            u64::EMPTY => Claim::Won,
            other if other == word => Claim::SameKey,
            _ => Claim::OtherKey,
        }
    }

    #[inline(always)]
    unsafe fn revive(slot: *mut u8, word: u64, value: V) -> Claim {
        let pair = U64x2::new(word, value.to_u64());
        // SAFETY: as above.
        let mut seen = unsafe { atomic::load(slot.cast::<U64x2>(), Relaxed) };
        // Goes round again only when another operation changed the cell.
        while seen.x != word {
            // SAFETY: as above.
            let old = unsafe { atomic::compare_exchange(slot.cast(), seen, pair, Relaxed) };
            if old == seen {
                return Claim::Won;
            }
            seen = old;
        }
        Claim::SameKey
    }
}

/// Pairs in 16-byte slots, claimed by their key word: for GPUs without a 128-bit CAS.
#[derive(Clone, Copy, Debug)]
pub struct Split<K, V>(PhantomData<(K, V)>);

impl<K: Bits, V: Bits> Split<K, V> {
    /// Puts a pair in the place of the key word `free`.
    ///
    /// # Safety
    /// As for [`Format::claim`].
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn take(slot: *mut u8, free: u64, word: u64, value: V) -> Claim {
        let whole = slot.cast::<U64x2>();
        // SAFETY: slots are aligned to their size and accessed atomically only.
        match unsafe { part::compare_exchange_part(whole, 0, free, u64::BUSY) } {
            old if old == free => {
                let pair = U64x2::new(word, value.to_u64());
                // SAFETY: as above. The slot is this lane's until the store: nothing else writes
                // to a busy slot, except for updates that come too late and may be overwritten.
                unsafe { atomic::store(whole, pair, Relaxed) };
                Claim::Won
            }
            u64::BUSY => Claim::Busy,
            old if old == word => Claim::SameKey,
            _ => Claim::OtherKey,
        }
    }
}

impl<K: Bits, V: Bits + Part> Format for Split<K, V> {
    sixteen_bytes! {}
    const HAS_BUSY: bool = true;
    const RUNS_HERE: bool = cfg!(all(
        not(test),
        any(target_arch = "nvptx64", feature = "split-on-host")
    ));

    #[inline(always)]
    unsafe fn claim(slot: *mut u8, word: u64, value: V) -> Claim {
        // SAFETY: the caller's promise.
        unsafe { Self::take(slot, u64::EMPTY, word, value) }
    }

    #[inline(always)]
    unsafe fn revive(slot: *mut u8, word: u64, value: V) -> Claim {
        // SAFETY: the caller's promise.
        unsafe { Self::take(slot, u64::TOMBSTONE, word, value) }
    }
}
