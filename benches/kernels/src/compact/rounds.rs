//! Rung 11: several elements a thread, all loaded before the first is looked at.

use super::block_scan::scan_sums;
use super::{BlockMemory, Source, THREADS};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::{thread, warp};

/// `R` elements a thread, at most 8: a ballot for each, one sum per warp, one global atomic per
/// block of `R * `[`THREADS`] elements.
///
/// What is won: a thread has several loads on their way at once, and the barriers, the scan of
/// the sums and the atomic are shared by as many more elements. The library's kernels are this
/// rung with loads of 16 bytes.
///
/// # Safety
/// As for [`compact`](super::compact), but that the grid covers `n` at `R` elements a thread.
#[inline(always)]
pub unsafe fn compact_rounds<S: Source, const R: usize>(source: &S, n: u64, counter: *mut u64) {
    let memory = BlockMemory::of_block();
    let t = thread::thread_idx_x();
    let lane = warp::lane_id();
    let warp_id = t / warp::SIZE;
    // A warp's elements lie together, those of one round side by side: loads stay coalesced.
    let block = u64::from(thread::block_idx_x()) * u64::from(THREADS) * R as u64;
    let first = block + u64::from(warp_id * warp::SIZE * R as u32 + lane);

    // SAFETY: elements are below `n`. Every thread of the block reaches each barrier, every lane
    // to each ballot. Shared words are written before a barrier and read after it.
    unsafe {
        let mut items = [S::Item::default(); R];
        let mut r = 0;
        while r < R {
            let i = first + r as u64 * u64::from(warp::SIZE);
            if i < n {
                items[r] = source.load(i);
            }
            r += 1;
        }

        let mut kept = [LaneMask::EMPTY; R];
        let mut of_warp = 0;
        let mut r = 0;
        while r < R {
            let i = first + r as u64 * u64::from(warp::SIZE);
            let keep = i < n && source.keeps(items[r]);
            kept[r] = warp::warp_vote_ballot(LaneMask::FULL, keep);
            of_warp += kept[r].count();
            r += 1;
        }
        if lane == 0 {
            memory.sums.add(warp_id).store(of_warp);
        }
        thread::sync_threads();
        if warp_id == 0 {
            scan_sums(memory, counter);
        }
        thread::sync_threads();

        let mut at = memory.begin.load() + u64::from(memory.sums.add(warp_id).load());
        let mut r = 0;
        while r < R {
            if kept[r].contains(lane) {
                source.store(at + u64::from(kept[r].rank_of(lane)), items[r]);
            }
            at += u64::from(kept[r].count());
            r += 1;
        }
    }
}
