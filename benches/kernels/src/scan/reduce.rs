//! The first launch of reduce-then-scan: the sum of each part, and nothing else.

use super::vectors::{self, PER_VECTOR};
use super::{ScanArgs, WARPS};
use gpumap_simt::shared_ptr::SharedPtr;
use gpumap_simt::{U32x4, kernel, mem, thread, warp};

/// Adds up every thread's `x`; the first warp has the sum.
///
/// # Safety
/// Every thread of the block calls it, once.
#[inline(always)]
unsafe fn block_sum(x: u32) -> u32 {
    let sums = SharedPtr::<u32>::dynamic();
    let lane = warp::lane_id();
    let warp_id = thread::thread_idx_x() / warp::SIZE;
    // SAFETY: every thread reaches the barrier, every lane to each sum. Words are written before
    // the barrier and read after it.
    unsafe {
        let of_warp = warp::warp_reduce_add(x);
        if lane == 0 {
            sums.add(warp_id).store(of_warp);
        }
        thread::sync_threads();
        let mut sum = 0;
        if warp_id == 0 {
            const { assert!(WARPS == warp::SIZE) };
            sum = warp::warp_reduce_add(sums.add(lane).load());
        }
        sum
    }
}

kernel! {
    /// The sum of each part.
    pub static REDUCE = fn ladder_scan_reduce(args: ScanArgs) {
        let (begin, end) = args.part();
        let t = thread::thread_idx_x();
        // SAFETY: `i` is in the block's part; every thread reaches the sum.
        unsafe {
            let mut sum = 0u32;
            let mut i = begin + u64::from(t);
            while i < end {
                sum = sum.wrapping_add(mem::load(args.input.add(i as usize)));
                i += u64::from(thread::block_dim_x());
            }
            let sum = block_sum(sum);
            if t == 0 {
                args.put_sum(sum);
            }
        }
    }
    /// The sum of each part, by loads of 16 bytes.
    pub static REDUCE_VECTORS = fn ladder_scan_reduce_vectors(args: ScanArgs) {
        let (begin, end) = args.part();
        let t = thread::thread_idx_x();
        // SAFETY: elements are in the block's part, which begins at a multiple of 16 bytes; every
        // thread reaches the sum.
        unsafe {
            let mut sum = 0u32;
            let mut i = begin + u64::from(t * PER_VECTOR);
            while i < end {
                let U32x4([a, b, c, d]) = vectors::load(args.input, i, end);
                sum = sum.wrapping_add(a).wrapping_add(b).wrapping_add(c).wrapping_add(d);
                i += u64::from(thread::block_dim_x() * PER_VECTOR);
            }
            let sum = block_sum(sum);
            if t == 0 {
                args.put_sum(sum);
            }
        }
    }
}
