//! A kernel for what the others do not call: each thread writes a row of results.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use cuda_std::atomic::{AtomicF32, BlockAtomicF32, mid};
use cuda_std::prelude::*;
use cuda_std::ptr::{self, AddressSpace};
use cuda_std::{shared, warp};

/// Results of a thread.
pub const ROW: usize = 22;

/// Words that threads change together.
#[derive(Debug)]
#[repr(C)]
pub struct Shared {
    /// 0, to which each thread adds 0.5.
    pub sum: f32,
    /// 100, from which each takes 1.
    pub left: i32,
    /// The largest negative of a thread's number, and the least.
    pub extremes: [i64; 2],
    /// A bit for each lane.
    pub bits: u64,
}
gpumap_simt::layout!(Shared {
    sum,
    left,
    extremes,
    bits
});

/// Calls what there is, with one block of 64 threads and 16 bytes of dynamic shared memory.
///
/// # Safety
/// `rows` has [`ROW`] words for each thread.
#[kernel]
pub unsafe fn all(shared: &Shared, rows: &mut [u64]) {
    let t = thread::thread_idx().x;
    let lane = warp::lane_id();
    let full = !0;
    let half = if lane < 16 { 0xffff } else { 0xffff_0000 };
    let block = shared::dynamic_shared_mem::<BlockAtomicF32>();
    let here = (&raw const *shared).cast_mut();
    // SAFETY: one block, all of whose threads come here; every access of a shared word is an atomic.
    unsafe {
        if thread::first() {
            (*block).store(0.0, Relaxed);
        }
        thread::sync_threads();
        (*block).fetch_add(1.0, Relaxed);
        let sum = &*(&raw const (*here).sum).cast::<AtomicF32>();
        sum.fetch_add(0.5, Relaxed);
        mid::atomic_fetch_sub_i32_device(&raw mut (*here).left, Relaxed, 1);
        let extremes = (&raw mut (*here).extremes).cast::<i64>();
        let number = -i64::from(t);
        mid::atomic_fetch_max_i64_device(extremes, Release, number);
        mid::atomic_fetch_min_i64_device(extremes.add(1), Relaxed, number);
        mid::atomic_fetch_or_u64_device(&raw mut (*here).bits, Relaxed, 1 << t);
        mid::device_thread_fence(AcqRel);
        thread::sync_threads();

        let shuffles = [
            warp::warp_shuffle_up(full, t, 3, 8),
            warp::warp_shuffle_down(full, t, 3, 8),
            warp::warp_shuffle_xor(full, t, 12, 8),
            warp::warp_shuffle_idx(full, t, 9, 8),
        ];
        let pair = |(value, is_there): (u32, bool)| u64::from(value) << 1 | u64::from(is_there);
        warp::sync_warp(half);
        let results: [u64; ROW] = [
            thread::index().into(),
            thread::index_2d().y.into(),
            thread::index_3d().x.into(),
            (thread::block_dim().x * thread::grid_dim().y).into(),
            thread::sync_threads_count(t & 1).into(),
            thread::sync_threads_and(u32::from(t < 64)).into(),
            thread::sync_threads_or(u32::from(t == 99)).into(),
            warp::warp_vote_all(half, t < 40).into(),
            warp::warp_vote_any(half, t == 40).into(),
            warp::warp_vote_ballot(half, t & 1 != 0).into(),
            warp::warp_match_any(full, t & 3).into(),
            warp::warp_match_any(full, i64::from(t & 1) - 1).into(),
            warp::warp_match_all(full, lane / 32).unwrap_or(0).into(),
            warp::warp_match_all(full, lane).map_or(7, u64::from),
            pair(shuffles[0]),
            pair(shuffles[1]),
            pair(shuffles[2]),
            pair(shuffles[3]),
            sum.load(Acquire).to_bits().into(),
            (*block).load(Relaxed).to_bits().into(),
            mid::atomic_load_64_device(&raw mut (*here).bits, SeqCst),
            u64::from(ptr::is_in_address_space(here, AddressSpace::Global)),
        ];
        for (i, &result) in results.iter().enumerate() {
            *rows.as_mut_ptr().add(t as usize * ROW + i) = result;
        }
    }
}
