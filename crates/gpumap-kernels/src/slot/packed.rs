//! [`Packed`]: pairs of 4 + 4 bytes.

use gpumap_simt::U64x2;
use gpumap_simt::atomic::part::{self, Update};
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::mem;

use super::{Claim, Format, KeyWord};

/// Pairs of 4 + 4 bytes in 8-byte slots: key in the low half, value in the high half.
#[derive(Clone, Copy, Debug)]
pub struct Packed;

impl Format for Packed {
    type Key = u32;
    type Value = u32;
    type Word = u32;
    const SLOTS: u32 = 2;
    const HAS_BUSY: bool = false;

    #[inline(always)]
    fn word(vector: U64x2, i: u32) -> u32 {
        (if i == 0 { vector.x } else { vector.y }) as u32
    }

    #[inline(always)]
    fn value(vector: U64x2, i: u32) -> u32 {
        ((if i == 0 { vector.x } else { vector.y }) >> 32) as u32
    }

    #[inline(always)]
    unsafe fn claim(slot: *mut u8, word: u32, value: u32) -> Claim {
        let pair = u64::from(word) | u64::from(value) << 32;
        // SAFETY: slots are aligned to their size and accessed atomically only.
        let old = unsafe { atomic::compare_exchange(slot.cast(), !0u64, pair, Relaxed) };
        match old as u32 {
            u32::EMPTY => Claim::Won,
            other if other == word => Claim::SameKey,
            _ => Claim::OtherKey,
        }
    }

    #[inline(always)]
    unsafe fn revive(slot: *mut u8, word: u32, value: u32) -> Claim {
        let pair = u64::from(word) | u64::from(value) << 32;
        // SAFETY: as above.
        let mut seen = unsafe { atomic::load(slot.cast::<u64>(), Relaxed) };
        // Goes round again only when another operation changed the cell.
        while seen as u32 != word {
            // SAFETY: as above.
            let old = unsafe { atomic::compare_exchange(slot.cast(), seen, pair, Relaxed) };
            if old == seen {
                return Claim::Won;
            }
            seen = old;
        }
        Claim::SameKey
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn update(slot: *mut u8, update: Update, value: u32) {
        // SAFETY: slots are aligned to their size and accessed atomically only.
        unsafe { part::update_part(slot.cast::<u64>(), 4, update, value) };
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn fetch_update(slot: *mut u8, update: Update, value: u32) -> u32 {
        // SAFETY: as above.
        unsafe { part::fetch_update_part(slot.cast::<u64>(), 4, update, value) }
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn bury(slot: *mut u8, word: u32) -> bool {
        let whole = slot.cast::<u64>();
        // SAFETY: as above.
        unsafe { part::compare_exchange_part(whole, 0, word, u32::TOMBSTONE) == word }
    }

    #[inline(always)]
    unsafe fn read(slots: *const u8, i: u64) -> (u32, u32) {
        // SAFETY: in the table, by the caller.
        let pair: u64 = unsafe { mem::load_streaming(slots.cast::<u64>().add(i as usize)) };
        (pair as u32, (pair >> 32) as u32)
    }

    #[inline(always)]
    unsafe fn write(slots: *mut u8, i: u64, word: u32, value: u32) {
        let pair = u64::from(word) | u64::from(value) << 32;
        // SAFETY: the caller's slot; slots are aligned to their size.
        unsafe { slots.cast::<u64>().add(i as usize).write(pair) };
    }

    #[inline(always)]
    unsafe fn take_back(slot: *mut u8) {
        // SAFETY: as above.
        unsafe { atomic::store(slot.cast(), !0u64, Relaxed) };
    }
}
