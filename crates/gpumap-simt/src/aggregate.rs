//! Warp-aggregated counting: lanes that increment one counter at the same time send one atomic.
//!
//! The lanes of a mask are partitioned by the **address** of their counter with a match; in each
//! part the lowest lane is the leader, adds the number of lanes in one atomic, and hands the old
//! value round with a shuffle; each lane adds its rank. So lanes may count in different counters,
//! and a filter is `out[ticket] = element` with one atomic per warp instead of one per element.
//!
//! On recent GPUs the assembler does the same by itself for an increment of one counter whose
//! result is not used. Aggregation by block, with one atomic per block, is faster still where a
//! whole block comes together.
//!
//! | function | must call | result valid |
//! |---|---|---|
//! | [`atomic_agg_inc`] | any lane, also in divergent code | in every calling lane |
//! | [`atomic_agg_inc_in`] | every lane of `mask`, none exited | in every calling lane |
//! | [`atomic_agg_add`] | the whole warp | in every lane |

use crate::atomic::{self, Arithmetic, Relaxed};
use crate::imp;
use crate::mask::LaneMask;
use crate::warp::{self, ShuffleValue};

/// A word that lanes can count in together: `u32`, `u64`.
pub trait Counter: Arithmetic + ShuffleValue {
    /// The word that has this value.
    #[doc(hidden)]
    fn from_count(count: u32) -> Self;
    /// Adds, wrapping around.
    #[doc(hidden)]
    fn plus(self, other: Self) -> Self;
}

macro_rules! counters {
    ($($t:ty)*) => {$(
        impl Counter for $t {
            #[inline(always)]
            fn from_count(count: u32) -> Self {
                count as $t
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
        }
    )*};
}
counters! { u32 u64 }

/// Adds one to `*counter`, wrapping around, and returns what was there before the caller's own
/// increment: a ticket that no other caller gets. Relaxed, at device scope.
///
/// Lanes that run converged here and share a counter are served by one atomic. It may be called
/// from divergent code, with different counters in different lanes: the lanes that take part are
/// those that the hardware runs together right now, and however it groups them, the tickets are
/// right. On the executor lanes run one at a time, so each sends its own atomic.
///
/// # Safety
/// `counter` is aligned, valid on the device, and accessed only atomically during the launch.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn atomic_agg_inc<C: Counter>(counter: *mut C) -> C {
    // SAFETY: the lanes of the mask execute this very instruction together, so all of them come
    // to the collectives below; the counter is the caller's promise.
    unsafe { atomic_agg_inc_in(LaneMask::new(imp::converged_mask()), counter) }
}

/// Adds one to `*counter` for each lane of `mask`, and returns the caller's ticket; see
/// [`atomic_agg_inc`]. In each part of lanes that share a counter tickets rise with the lanes.
///
/// # Safety
/// Every lane of `mask` calls it with the same `mask`, the caller among them. `counter`, which may
/// differ from lane to lane, is as for [`atomic_agg_inc`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn atomic_agg_inc_in<C: Counter>(mask: LaneMask, counter: *mut C) -> C {
    // SAFETY: all lanes of `mask` are here; those of `peers` are the ones of them that found each
    // other, and take the shuffle together. The leader is one of them.
    unsafe {
        let peers = warp::warp_match_any_64(mask, counter as u64);
        let lane = warp::lane_id();
        let leader = peers.bits().trailing_zeros();
        let mut old = C::from_count(0);
        if lane == leader {
            old = atomic::fetch_add(counter, C::from_count(peers.count()), Relaxed);
        }
        let old = warp::warp_shuffle_idx(peers, old, leader, warp::SIZE);
        old.plus(C::from_count(peers.rank_of(lane)))
    }
}

/// Adds every lane's `amount` to `*counter`, all lanes with **one** counter, and
/// returns where the caller's own amount begins: the old value plus the amounts of the lanes
/// below. Relaxed, at device scope.
///
/// # Safety
/// The whole warp calls it, lanes that have nothing to add with 0. `counter` is the same in all
/// lanes, and as for [`atomic_agg_inc`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn atomic_agg_add<C: Counter>(counter: *mut C, amount: u32) -> C {
    // SAFETY: the whole warp is here.
    unsafe {
        let up_to = warp::warp_inclusive_sum(amount);
        let last = warp::SIZE - 1;
        let mut old = C::from_count(0);
        if warp::lane_id() == last && up_to != 0 {
            old = atomic::fetch_add(counter, C::from_count(up_to), Relaxed);
        }
        let old = warp::warp_shuffle_idx(LaneMask::FULL, old, last, warp::SIZE);
        old.plus(C::from_count(up_to - amount))
    }
}
