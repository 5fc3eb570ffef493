//! Collectives over the lanes of one warp.
//!
//! Each takes the [`LaneMask`] of the lanes that take part, and returns when all of them have
//! called it.
//!
//! | must call | result valid |
//! |---|---|
//! | every lane of `mask`, none exited, with the same function and the same `mask`, the caller's own bit set | in every calling lane |
//!
//! Anything else is undefined on a GPU and a [`Fault`](crate::executor) on the executor. A
//! shuffle that reads from a lane outside `mask` is such a mistake too.

use crate::imp;
use crate::mask::LaneMask;

/// Lanes per warp.
pub const SIZE: u32 = 32;

/// The calling thread's lane, `0..32`.
#[inline(always)]
pub fn lane_id() -> u32 {
    imp::lane_id()
}

/// The lanes of the warp that run converged with the caller right now. On a GPU that is a
/// momentary fact and no promise: use it for aggregation, never to synchronise.
#[inline(always)]
pub fn activemask() -> LaneMask {
    LaneMask::new(imp::active_mask())
}

/// Waits for the lanes of `mask`; their memory accesses before it are visible to each other
/// after it.
///
/// # Safety
/// See the [module](self) table.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn sync_warp(mask: LaneMask) {
    // SAFETY: the caller keeps the module's rule.
    unsafe { imp::sync_warp(mask.bits()) }
}

/// The lanes of `mask` whose `predicate` is true.
///
/// # Safety
/// See the [module](self) table.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warp_vote_ballot(mask: LaneMask, predicate: bool) -> LaneMask {
    // SAFETY: the caller keeps the module's rule.
    LaneMask::new(unsafe { imp::vote_ballot(mask.bits(), predicate) })
}

/// Whether `predicate` is true in any lane of `mask`.
///
/// # Safety
/// See the [module](self) table.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warp_vote_any(mask: LaneMask, predicate: bool) -> bool {
    // SAFETY: the caller keeps the module's rule.
    unsafe { imp::vote_any(mask.bits(), predicate) }
}

/// Whether `predicate` is true in all lanes of `mask`.
///
/// # Safety
/// See the [module](self) table.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warp_vote_all(mask: LaneMask, predicate: bool) -> bool {
    // SAFETY: the caller keeps the module's rule.
    unsafe { imp::vote_all(mask.bits(), predicate) }
}

/// The lanes of `mask` that hold the caller's `value`.
///
/// # Safety
/// See the [module](self) table.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warp_match_any_32(mask: LaneMask, value: u32) -> LaneMask {
    // SAFETY: the caller keeps the module's rule.
    LaneMask::new(unsafe { imp::match_any_32(mask.bits(), value) })
}

/// The lanes of `mask` that hold the caller's `value`.
///
/// # Safety
/// See the [module](self) table.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warp_match_any_64(mask: LaneMask, value: u64) -> LaneMask {
    // SAFETY: the caller keeps the module's rule.
    LaneMask::new(unsafe { imp::match_any_64(mask.bits(), value) })
}

/// The `value` of lane `src` of the caller's segment of `width` lanes (a power of two).
///
/// # Safety
/// See the [module](self) table; the lane read is in `mask`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warp_shuffle_idx<T: ShuffleValue>(
    mask: LaneMask,
    value: T,
    src: u32,
    width: u32,
) -> T {
    // SAFETY: the caller keeps the module's rule.
    unsafe { value.idx(mask.bits(), src, width) }
}

/// The `value` of the lane `delta` below; the caller's own where that leaves its segment.
///
/// # Safety
/// See the [module](self) table; the lane read is in `mask`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warp_shuffle_up<T: ShuffleValue>(
    mask: LaneMask,
    value: T,
    delta: u32,
    width: u32,
) -> T {
    // SAFETY: the caller keeps the module's rule.
    unsafe { value.up(mask.bits(), delta, width) }
}

/// The `value` of the lane `delta` above; the caller's own where that leaves its segment.
///
/// # Safety
/// See the [module](self) table; the lane read is in `mask`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warp_shuffle_down<T: ShuffleValue>(
    mask: LaneMask,
    value: T,
    delta: u32,
    width: u32,
) -> T {
    // SAFETY: the caller keeps the module's rule.
    unsafe { value.down(mask.bits(), delta, width) }
}

/// The `value` of the lane whose number is the caller's xor `bits`.
///
/// # Safety
/// See the [module](self) table; the lane read is in `mask`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warp_shuffle_xor<T: ShuffleValue>(
    mask: LaneMask,
    value: T,
    bits: u32,
    width: u32,
) -> T {
    // SAFETY: the caller keeps the module's rule.
    unsafe { value.xor(mask.bits(), bits, width) }
}

/// The sum of `value` over the whole warp, in every lane: one instruction from sm_80 on.
///
/// # Safety
/// All 32 lanes call it.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warp_reduce_add(value: u32) -> u32 {
    // SAFETY: all 32 lanes are here, by the caller's promise.
    unsafe {
        #[cfg(gpumap_sm90)]
        return imp::reduce_add(LaneMask::FULL.bits(), value);
        #[cfg(not(gpumap_sm90))]
        reduce(value, u32::wrapping_add)
    }
}

/// The least `value` of the whole warp, in every lane: one instruction from sm_80 on.
///
/// # Safety
/// All 32 lanes call it.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warp_reduce_min(value: u32) -> u32 {
    // SAFETY: all 32 lanes are here, by the caller's promise.
    unsafe {
        #[cfg(gpumap_sm90)]
        return imp::reduce_min(LaneMask::FULL.bits(), value);
        #[cfg(not(gpumap_sm90))]
        reduce(value, u32::min)
    }
}

/// All lanes' values in one, by shuffles.
///
/// # Safety
/// All 32 lanes call it.
#[cfg(not(gpumap_sm90))]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn reduce(value: u32, combine: fn(u32, u32) -> u32) -> u32 {
    let mut all = value;
    let mut step = SIZE / 2;
    while step > 0 {
        // SAFETY: all 32 lanes are here, by the caller's promise.
        all = combine(all, unsafe {
            warp_shuffle_xor(LaneMask::FULL, all, step, SIZE)
        });
        step /= 2;
    }
    all
}

/// For each lane, the sum of `value` over the lanes below it and itself.
///
/// # Safety
/// All 32 lanes call it.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warp_inclusive_sum(value: u32) -> u32 {
    let lane = lane_id();
    let mut sum = value;
    let mut step = 1;
    while step < SIZE {
        // SAFETY: all 32 lanes are here, by the caller's promise.
        let below = unsafe { warp_shuffle_up(LaneMask::FULL, sum, step, SIZE) };
        if lane >= step {
            sum = sum.wrapping_add(below);
        }
        step *= 2;
    }
    sum
}

/// What a shuffle can move: 32-bit and 64-bit plain values, and `()`, for which it does nothing and
/// waits for no lane.
pub trait ShuffleValue: Copy + sealed::Shuffle {}

mod sealed {
    /// The four shuffles, by bits.
    pub trait Shuffle: Sized {
        unsafe fn idx(self, mask: u32, src: u32, width: u32) -> Self;
        unsafe fn up(self, mask: u32, delta: u32, width: u32) -> Self;
        unsafe fn down(self, mask: u32, delta: u32, width: u32) -> Self;
        unsafe fn xor(self, mask: u32, bits: u32, width: u32) -> Self;
    }
}

macro_rules! shuffle_value {
    ($($t:ty, $bits:ty, $to:expr, $from:expr, $idx:ident $up:ident $down:ident $xor:ident;)*) => {$(
        impl ShuffleValue for $t {}
        impl sealed::Shuffle for $t {
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn idx(self, mask: u32, src: u32, width: u32) -> Self {
                let to: fn($t) -> $bits = $to;
                let from: fn($bits) -> $t = $from;
                // SAFETY: passed on from the public function.
                from(unsafe { imp::$idx(mask, to(self), src, width) })
            }
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn up(self, mask: u32, delta: u32, width: u32) -> Self {
                let to: fn($t) -> $bits = $to;
                let from: fn($bits) -> $t = $from;
                // SAFETY: passed on from the public function.
                from(unsafe { imp::$up(mask, to(self), delta, width) })
            }
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn down(self, mask: u32, delta: u32, width: u32) -> Self {
                let to: fn($t) -> $bits = $to;
                let from: fn($bits) -> $t = $from;
                // SAFETY: passed on from the public function.
                from(unsafe { imp::$down(mask, to(self), delta, width) })
            }
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn xor(self, mask: u32, bits: u32, width: u32) -> Self {
                let to: fn($t) -> $bits = $to;
                let from: fn($bits) -> $t = $from;
                // SAFETY: passed on from the public function.
                from(unsafe { imp::$xor(mask, to(self), bits, width) })
            }
        }
    )*};
}

shuffle_value! {
    u32, u32, |v| v, |b| b, shfl_idx_32 shfl_up_32 shfl_down_32 shfl_xor_32;
    i32, u32, |v| v as u32, |b| b as i32, shfl_idx_32 shfl_up_32 shfl_down_32 shfl_xor_32;
    f32, u32, f32::to_bits, f32::from_bits, shfl_idx_32 shfl_up_32 shfl_down_32 shfl_xor_32;
    u64, u64, |v| v, |b| b, shfl_idx_64 shfl_up_64 shfl_down_64 shfl_xor_64;
    i64, u64, |v| v as u64, |b| b as i64, shfl_idx_64 shfl_up_64 shfl_down_64 shfl_xor_64;
    f64, u64, f64::to_bits, f64::from_bits, shfl_idx_64 shfl_up_64 shfl_down_64 shfl_xor_64;
}

impl ShuffleValue for () {}
impl sealed::Shuffle for () {
    #[inline(always)]
    unsafe fn idx(self, _: u32, _: u32, _: u32) {}
    #[inline(always)]
    unsafe fn up(self, _: u32, _: u32, _: u32) {}
    #[inline(always)]
    unsafe fn down(self, _: u32, _: u32, _: u32) {}
    #[inline(always)]
    unsafe fn xor(self, _: u32, _: u32, _: u32) {}
}
