//! Kernels in rust-cuda's form. Besides the three that programs have, one that calls most of what [`cuda_std`] has.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::atomic::mid;
use cuda_std::prelude::*;
use cuda_std::{shared_array, warp};

/// Threads of a block of [`block_sums`], a power of two.
pub const SUM_THREADS: u32 = 256;

/// How many numbers a thread of [`filter`] has of each tile.
pub const FILTER_ROUNDS: usize = 8;

/// `sum[i] = a[i] + b[i]`, a thread for each.
///
/// # Safety
/// `sum` has as many elements as the shorter of the others.
#[kernel]
pub unsafe fn vector_add(a: &[f32], b: &[f32], sum: *mut f32) {
    let i = thread::index_1d() as usize;
    if let (Some(a), Some(b)) = (a.get(i), b.get(i)) {
        // SAFETY: below both lengths, one thread for each.
        unsafe { *sum.add(i) = a + b };
    }
}

/// The sum of the numbers of each block, wrapping around.
///
/// # Safety
/// Blocks have [`SUM_THREADS`] threads; `sums` has a number for each block.
#[kernel]
pub unsafe fn block_sums(numbers: &[u32], sums: *mut u32) {
    let partial = shared_array![u32; SUM_THREADS as usize];
    let t = thread::thread_idx_x();
    let i = thread::index_1d() as usize;
    // SAFETY: each thread has a word, and reads those of others behind a barrier.
    unsafe {
        *partial.add(t as usize) = numbers.get(i).copied().unwrap_or(0);
        thread::sync_threads();
        let mut half = SUM_THREADS / 2;
        while half > 0 {
            if t < half {
                let sum = partial.add(t as usize);
                *sum = (*sum).wrapping_add(*sum.add(half as usize));
            }
            thread::sync_threads();
            half /= 2;
        }
        if t == 0 {
            *sums.add(thread::block_idx_x() as usize) = *partial;
        }
    }
}

/// Copies the numbers below `limit`, in any order, and counts them.
///
/// Aggregated by warp and by block: a warp takes its part of the block's with one atomic in shared memory, the block its part of all with one in
/// global memory. Meanwhile the numbers of the block's next tile are on their way.
///
/// # Safety
/// Blocks are whole warps, any number of them; `kept` has room for all that are below, `count` was set to 0.
#[kernel]
pub unsafe fn filter(numbers: &[u64], limit: u64, kept: *mut u64, count: *mut u64) {
    const LANES: usize = 32;
    const ALL: u32 = !0;
    let of_block = shared_array![u32; 1];
    let begin = shared_array![u64; 1];
    let t = thread::thread_idx_x();
    let lane = warp::lane_id();
    let tile = thread::block_dim_x() as usize * FILTER_ROUNDS;
    let stride = thread::grid_dim_x() as usize * tile;
    let mut first = thread::block_idx_x() as usize * tile;
    let mut mine = first + t as usize / LANES * (LANES * FILTER_ROUNDS) + lane as usize;
    let mut next = numbers_of(numbers, mine);
    // SAFETY: all threads of a block go through as many tiles, and so reach each barrier and collective. A word of shared memory is
    // written by one thread, or counted in, before a barrier, and read after it.
    unsafe {
        if t == 0 {
            *of_block = 0;
        }
        thread::sync_threads();
        while first < numbers.len() {
            let values = next;
            let mut lanes = [0; FILTER_ROUNDS];
            let mut of_warp = 0;
            for round in 0..FILTER_ROUNDS {
                // Those beyond the end are not below any limit.
                lanes[round] = warp::warp_vote_ballot(ALL, values[round] < limit);
                of_warp += lanes[round].count_ones();
            }
            first += stride;
            mine += stride;
            next = numbers_of(numbers, mine);
            let mut at = 0;
            if lane == 0 {
                at = mid::atomic_fetch_add_u32_block(of_block, Relaxed, of_warp);
            }
            thread::sync_threads();
            if t == 0 {
                *begin = mid::atomic_fetch_add_u64_device(count, Relaxed, (*of_block).into());
                *of_block = 0;
            }
            thread::sync_threads();
            let (at, _) = warp::warp_shuffle_idx(ALL, at, 0, 32);
            let mut at = kept.add(*begin as usize + at as usize);
            for round in 0..FILTER_ROUNDS {
                if lanes[round] >> lane & 1 != 0 {
                    let below = lanes[round] & ((1 << lane) - 1);
                    *at.add(below.count_ones() as usize) = values[round];
                }
                at = at.add(lanes[round].count_ones() as usize);
            }
        }
    }
}

/// The numbers of a thread: every 32nd from `first` on, and the largest for those beyond the end.
#[inline(always)]
fn numbers_of(numbers: &[u64], first: usize) -> [u64; FILTER_ROUNDS] {
    let mut values = [u64::MAX; FILTER_ROUNDS];
    for (round, value) in values.iter_mut().enumerate() {
        let i = first + round * 32;
        if i < numbers.len() {
            // SAFETY: it is below the length.
            *value = unsafe { *numbers.get_unchecked(i) };
        }
    }
    values
}

pub mod all;
