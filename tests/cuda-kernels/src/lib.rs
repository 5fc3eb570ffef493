//! Kernels in rust-cuda's form. Besides the three that programs have, one that calls most of what [`cuda_std`] has.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::atomic::mid;
use cuda_std::prelude::*;
use cuda_std::{shared_array, warp};

/// Threads of a block of [`block_sums`], a power of two.
pub const SUM_THREADS: u32 = 256;

/// How many elements a lane of [`filter`] takes.
pub const FILTER_ROUNDS: usize = 16;

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

/// Copies the numbers below `limit`, in any order, and counts them: one atomic for all lanes and rounds of a warp.
///
/// # Safety
/// Blocks are whole warps, with [`FILTER_ROUNDS`] numbers for each thread; `kept` has room for all that are below, `count` was set to 0.
#[kernel]
pub unsafe fn filter(numbers: &[u64], limit: u64, kept: *mut u64, count: *mut u64) {
    const LANES: usize = 32;
    const ALL: u32 = !0;
    let lane = warp::lane_id();
    let warp = thread::index_1d() as usize / LANES;
    let first = warp * (FILTER_ROUNDS * LANES) + lane as usize;

    let mut values = [u64::MAX; FILTER_ROUNDS];
    let mut lanes = [0; FILTER_ROUNDS];
    let mut total = 0;
    // SAFETY: all lanes of the warp come here; indices are below the lengths.
    unsafe {
        for (round, value) in values.iter_mut().enumerate() {
            let i = first + round * LANES;
            if i < numbers.len() {
                *value = *numbers.get_unchecked(i);
            }
        }
        for round in 0..FILTER_ROUNDS {
            let is_there = first + round * LANES < numbers.len();
            lanes[round] = warp::warp_vote_ballot(ALL, is_there && values[round] < limit);
            total += lanes[round].count_ones();
        }
        let mut at = 0;
        if lane == 0 {
            at = mid::atomic_fetch_add_u64_device(count, Relaxed, total.into());
        }
        let (mut at, _) = warp::warp_shuffle_idx(ALL, at, 0, 32);
        for round in 0..FILTER_ROUNDS {
            if lanes[round] >> lane & 1 != 0 {
                let below = lanes[round] & ((1 << lane) - 1);
                *kept.add(at as usize + below.count_ones() as usize) = values[round];
            }
            at += u64::from(lanes[round].count_ones());
        }
    }
}

pub mod all;
