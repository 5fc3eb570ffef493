//! Slots: claims in one and in two steps, updates, lookups.

use super::{
    BUSY, EMPTY, Instance, KEY, LitmusArgs, Shape, TOMBSTONE, look_until, pair, run, shapes,
    store_halves,
};
use gpumap_simt::atomic::part::{self, Update};
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::{U64x2, kernel};

/// "wide claim, lookup": a 128-bit CAS beside 128-bit loads. The control loads halves.
#[cfg(any(not(target_arch = "nvptx64"), gpumap_sm90))]
struct WideClaim;
#[cfg(any(not(target_arch = "nvptx64"), gpumap_sm90))]
impl Shape for WideClaim {
    const ROLES: u32 = 2;

    #[inline(always)]
    unsafe fn run<const CONTROL: bool>(at: Instance, role: u32) {
        let slot = at.place::<U64x2>(0);
        // SAFETY: the instance's own places and registers.
        unsafe {
            if role == 0 {
                let empty = U64x2::new(EMPTY, EMPTY);
                let old = atomic::compare_exchange(slot, empty, U64x2::new(KEY, 7), Relaxed);
                at.put_pair(0, old);
            } else {
                let look = || {
                    if CONTROL {
                        super::halves(slot)
                    } else {
                        pair(slot)
                    }
                };
                let seen = look_until(look, |s| s.x != EMPTY || s.y != EMPTY);
                let again = pair(slot);
                at.put_pair(2, seen);
                at.put_pair(4, again);
            }
        }
    }
}

/// "updates, lookup": 64-bit additions beside 128-bit loads. In the control one is a load and a store.
struct Updates;
impl Shape for Updates {
    const ROLES: u32 = 3;

    #[inline(always)]
    unsafe fn run<const CONTROL: bool>(at: Instance, role: u32) {
        let slot = at.place::<U64x2>(0);
        // SAFETY: the instance's own places and registers.
        unsafe {
            if role == 2 {
                let seen = look_until(|| pair(slot), |s| s.y != 0);
                let again = pair(slot);
                at.put_pair(0, seen);
                at.put_pair(2, again);
            } else if CONTROL && role == 1 {
                let value = slot.cast::<u64>().wrapping_add(1);
                let old = atomic::load(value.cast_const(), Relaxed);
                atomic::store(value, old + 2, Relaxed);
            } else {
                part::update_part(slot, 8, Update::Add, u64::from(role) + 1);
            }
        }
    }
}

/// "wide slot reused, late update": a 128-bit CAS beside a 64-bit addition and 128-bit loads. In the control it is a CAS and a store.
#[cfg(any(not(target_arch = "nvptx64"), gpumap_sm90))]
struct WideReuse;
#[cfg(any(not(target_arch = "nvptx64"), gpumap_sm90))]
impl Shape for WideReuse {
    const ROLES: u32 = 3;

    #[inline(always)]
    unsafe fn run<const CONTROL: bool>(at: Instance, role: u32) {
        let slot = at.place::<U64x2>(0);
        // SAFETY: the instance's own places and registers.
        unsafe {
            if role == 0 {
                let seen = pair(slot);
                at.put_pair(0, seen);
                if seen.x != TOMBSTONE {
                    return;
                }
                if CONTROL {
                    let old = part::compare_exchange_part(slot, 0, TOMBSTONE, KEY);
                    at.put(2, old);
                    if old == TOMBSTONE {
                        let value = slot.cast::<u64>().wrapping_add(1);
                        at.put(3, atomic::load(value.cast_const(), Relaxed));
                        atomic::store(value, 1, Relaxed);
                    }
                } else {
                    let old = atomic::compare_exchange(slot, seen, U64x2::new(KEY, 1), Relaxed);
                    at.put_pair(2, old);
                }
            } else if role == 1 {
                at.put(4, part::fetch_update_part(slot, 8, Update::Add, 10u64));
            } else {
                at.put_pair(5, look_until(|| pair(slot), |s| s.x != TOMBSTONE));
            }
        }
    }
}

/// A claim in two steps of a slot with this key word. In the control the pair is stored in two parts.
///
/// # Safety
/// A slot, accessed atomically only.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn split_claim(slot: *mut U64x2, free: u64, new: U64x2, in_parts: bool) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        let old = part::compare_exchange_part(slot, 0, free, BUSY);
        if old == free {
            if in_parts {
                store_halves(slot, new);
            } else {
                atomic::store(slot, new, Relaxed);
            }
        }
        old
    }
}

/// "split claims, lookup": a 64-bit CAS and a 128-bit store beside 128-bit loads. In the control the store is two.
struct SplitClaims;
impl Shape for SplitClaims {
    const ROLES: u32 = 3;

    #[inline(always)]
    unsafe fn run<const CONTROL: bool>(at: Instance, role: u32) {
        let slot = at.place::<U64x2>(0);
        // SAFETY: the instance's own places and registers.
        unsafe {
            if role < 2 {
                let new = U64x2::new(KEY, 7 + 2 * u64::from(role));
                at.put(role, split_claim(slot, EMPTY, new, CONTROL && role == 0));
            } else {
                let is_new = |s: U64x2| s.x != EMPTY && s.x != BUSY;
                at.put_pair(2, look_until(|| pair(slot), is_new));
            }
        }
    }
}

/// "split slot reused, late update": the same beside a 64-bit addition.
struct SplitReuse;
impl Shape for SplitReuse {
    const ROLES: u32 = 3;

    #[inline(always)]
    unsafe fn run<const CONTROL: bool>(at: Instance, role: u32) {
        let slot = at.place::<U64x2>(0);
        // SAFETY: the instance's own places and registers.
        unsafe {
            if role == 0 {
                let new = U64x2::new(KEY, 1);
                at.put(0, split_claim(slot, TOMBSTONE, new, CONTROL));
            } else if role == 1 {
                at.put(1, part::fetch_update_part(slot, 8, Update::Add, 10u64));
            } else {
                let is_new = |s: U64x2| s.x != TOMBSTONE && s.x != BUSY;
                at.put_pair(2, look_until(|| pair(slot), is_new));
            }
        }
    }
}

/// "packed claims, update, lookup": a 64-bit CAS beside a 32-bit addition and 128-bit loads. In the control one CAS is a CAS and a
/// store.
struct Packed;
impl Shape for Packed {
    const ROLES: u32 = 3;

    #[inline(always)]
    unsafe fn run<const CONTROL: bool>(at: Instance, role: u32) {
        let slot = at.place::<u64>(0);
        let low = |word: u64| word as u32 as i32 as u64;
        let high = |word: u64| (word >> 32) as u32 as i32 as u64;
        // SAFETY: the instance's own places and registers.
        unsafe {
            if role == 2 {
                let look = || pair(slot.cast());
                let seen = look_until(look, |s: U64x2| low(s.x) != EMPTY);
                at.put_pair(5, U64x2::new(low(seen.x), high(seen.x)));
                at.put_pair(7, U64x2::new(low(seen.y), high(seen.y)));
            } else if CONTROL && role == 0 {
                let old = part::compare_exchange_part(slot, 0, !0, KEY as u32);
                at.put(0, low(u64::from(old)));
                if old == !0 {
                    atomic::store(slot.cast::<u32>().wrapping_add(1), 7, Relaxed);
                }
            } else {
                let new = KEY | (7 + 2 * u64::from(role)) << 32;
                let old = atomic::compare_exchange(slot, !0, new, Relaxed);
                at.put_pair(2 * role, U64x2::new(low(old), high(old)));
                if role == 1 && low(old) == KEY {
                    let old: u32 = part::fetch_update_part(slot, 4, Update::Add, 1);
                    at.put(4, low(u64::from(old)));
                }
            }
        }
    }
}

shapes! {
    /// The shape "wide claim, lookup".
    #[cfg(any(not(target_arch = "nvptx64"), gpumap_sm90))]
    WideClaim, WIDE_CLAIM litmus_claim_wide, WIDE_CLAIM_CONTROL litmus_claim_control_wide;
    /// The shape "updates, lookup".
    Updates, UPDATES litmus_updates, UPDATES_CONTROL litmus_updates_control;
    /// The shape "wide slot reused, late update".
    #[cfg(any(not(target_arch = "nvptx64"), gpumap_sm90))]
    WideReuse, WIDE_REUSE litmus_reuse_wide, WIDE_REUSE_CONTROL litmus_reuse_control_wide;
    /// The shape "split claims, lookup".
    SplitClaims, SPLIT_CLAIMS litmus_split_claims, SPLIT_CLAIMS_CONTROL litmus_split_claims_control;
    /// The shape "split slot reused, late update".
    SplitReuse, SPLIT_REUSE litmus_split_reuse, SPLIT_REUSE_CONTROL litmus_split_reuse_control;
    /// The shape "packed claims, update, lookup".
    Packed, PACKED litmus_packed, PACKED_CONTROL litmus_packed_control;
}
