//! Collectives of a warp, over the lanes whose bits `mask` has.
//!
//! | must call | result valid |
//! |---|---|
//! | every lane of `mask`, none exited, with the same function and the same `mask`, the caller's own bit set | in every calling lane |
//!
//! [`sync_warp`] and [`lane_id`] are of `cuda_std` 0.2.2, the others of its repository. The checked executor reports a lane that is
//! missing; a GPU waits for ever.

use gpumap_simt::mask::LaneMask;
use gpumap_simt::warp::{self, SIZE, ShuffleValue};

/// The calling thread's lane, 0 to 31.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn lane_id() -> u32 {
    warp::lane_id()
}

/// The lanes that run together with the caller at this moment, which is no promise.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn activemask() -> u32 {
    warp::activemask().bits()
}

/// Waits for the lanes of `mask`, which then see what each wrote before.
///
/// # Safety
/// See the [module](self).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn sync_warp(mask: u32) {
    // SAFETY: the caller keeps the module's rule.
    unsafe { warp::sync_warp(LaneMask::new(mask)) }
}

/// Whether `predicate` is true in all lanes of `mask`.
///
/// # Safety
/// See the [module](self).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warp_vote_all(mask: u32, predicate: bool) -> bool {
    // SAFETY: the caller keeps the module's rule.
    unsafe { warp::warp_vote_all(LaneMask::new(mask), predicate) }
}

/// Whether `predicate` is true in any lane of `mask`.
///
/// # Safety
/// See the [module](self).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warp_vote_any(mask: u32, predicate: bool) -> bool {
    // SAFETY: the caller keeps the module's rule.
    unsafe { warp::warp_vote_any(LaneMask::new(mask), predicate) }
}

/// The lanes of `mask` whose `predicate` is true.
///
/// # Safety
/// See the [module](self).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warp_vote_ballot(mask: u32, predicate: bool) -> u32 {
    // SAFETY: the caller keeps the module's rule.
    unsafe { warp::warp_vote_ballot(LaneMask::new(mask), predicate) }.bits()
}

/// Words that lanes compare.
pub trait WarpMatchValue: Copy + sealed::Match {}

mod sealed {
    pub trait Match {
        unsafe fn match_any(self, mask: u32) -> u32;
    }
}

macro_rules! matches {
    ($($t:ty as $bits:ty, $match:ident;)*) => {$(
        impl WarpMatchValue for $t {}
        impl sealed::Match for $t {
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn match_any(self, mask: u32) -> u32 {
                // SAFETY: the caller keeps the module's rule.
                unsafe { warp::$match(LaneMask::new(mask), self as $bits) }.bits()
            }
        }
    )*};
}

matches! {
    u32 as u32, warp_match_any_32;
    i32 as u32, warp_match_any_32;
    u64 as u64, warp_match_any_64;
    i64 as u64, warp_match_any_64;
}

/// The lanes of `mask` that have the caller's `value`.
///
/// # Safety
/// See the [module](self).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warp_match_any<T: WarpMatchValue>(mask: u32, value: T) -> u32 {
    // SAFETY: the caller keeps the module's rule.
    unsafe { value.match_any(mask) }
}

/// `mask`, if all its lanes have the same `value`.
///
/// # Safety
/// See the [module](self).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warp_match_all<T: WarpMatchValue>(mask: u32, value: T) -> Option<u32> {
    // SAFETY: the caller keeps the module's rule.
    (unsafe { value.match_any(mask) } == mask).then_some(mask)
}

/// What a shuffle moves: words of 32 and 64 bits.
pub trait WarpShuffleValue: ShuffleValue {}
impl<T: ShuffleValue> WarpShuffleValue for T {}

macro_rules! shuffles {
    ($($(#[$doc:meta])* $name:ident($by:ident) = |$lane:ident, $width:ident| $inside:expr;)*) => {$(
        $(#[$doc])*
        /// With it, whether that lane is of the caller's segment of `width` lanes (a power of two); if not, the value is the caller's own.
        ///
        /// # Safety
        /// See the [module](self); the lane that is read is in `mask`.
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $name<T: WarpShuffleValue>(mask: u32, value: T, $by: u32, width: u32) -> (T, bool) {
            let ($lane, $width) = (lane_id() % SIZE, width);
            // SAFETY: the caller keeps the module's rule.
            (unsafe { warp::$name(LaneMask::new(mask), value, $by, width) }, $inside)
        }
    )*};
}

shuffles! {
    /// The `value` of the lane `delta` below.
    warp_shuffle_up(delta) = |lane, width| lane & (width - 1) >= delta;
    /// The `value` of the lane `delta` above.
    warp_shuffle_down(delta) = |lane, width| (lane & (width - 1)) + delta < width;
    /// The `value` of the lane whose number is the caller's xor `lane_mask`. A lane of an earlier segment is read too.
    warp_shuffle_xor(lane_mask) = |lane, width| lane ^ lane_mask <= lane | (width - 1);
    /// The `value` of lane `idx` of the segment, modulo `width`.
    warp_shuffle_idx(idx) = |_lane, _width| true;
}
