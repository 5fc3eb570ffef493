//! The small kernels around a scatter: counts of each tile's digits, and sums of counts.

use super::THREADS;
use crate::primitives::binning::DigitOf;
use crate::slot::Bits;
use gpumap_simt::mask::LaneMask;
use gpumap_simt::shared_ptr::SharedPtr;
use gpumap_simt::{kernel, kernel_args, mem, shared_array, thread, warp};

/// Warps per block of [`THREADS`].
const WARPS: u32 = THREADS / warp::SIZE;

kernel_args! {
    /// Arguments of [`OFFSETS`]: one block of [`THREADS`].
    pub struct OffsetsArgs {
        /// `parts` counts.
        pub counts: *const u64,
        /// At most [`THREADS`].
        pub parts: u32,
        /// Out: `parts + 1` exclusive sums.
        pub offsets: *mut u64,
        /// Out: the first `parts` of them again.
        pub cursors: *mut u64,
    }
}

kernel_args! {
    /// Arguments of a tile count kernel: one block of [`THREADS`] per tile.
    pub struct TileCountArgs<K> {
        /// `len` keys.
        pub keys: *const K,
        /// How many there are.
        pub len: u64,
        /// Keys per tile.
        pub tile: u32,
        /// How many parts, at most [`THREADS`].
        pub parts: u32,
        /// The part of a key.
        pub digit: DigitOf,
        /// Out: `matrix[part * tiles + tile]`, how many keys of the part are in the tile.
        pub matrix: *mut u64,
    }
}

kernel_args! {
    /// Arguments of [`SCAN_ROWS`]: one block of [`THREADS`] per row.
    pub struct ScanRowsArgs {
        /// Rows of `columns` counts each; in place become exclusive sums.
        pub matrix: *mut u64,
        /// How long a row is.
        pub columns: u64,
        /// Out: the sum of each row.
        pub totals: *mut u64,
    }
}

/// For each thread, the sum of `value` over the threads below it, and over the block.
///
/// | must call | result valid |
/// |---|---|
/// | every thread of a block of [`THREADS`], converged | in every thread |
///
/// # Safety
/// As the table says; `sums` has [`WARPS`] words that nothing else uses, and between two calls
/// lies a barrier.
#[inline(always)]
unsafe fn block_exclusive_sum(value: u64, sums: *mut u64) -> (u64, u64) {
    let (lane, warp_id) = (warp::lane_id(), thread::thread_idx_x() / warp::SIZE);
    // SAFETY: the whole block is here; a word of `sums` is written by one lane and read after
    // the barrier.
    unsafe {
        let mut up_to = value;
        let mut step = 1;
        while step < warp::SIZE {
            let below = warp::warp_shuffle_up(LaneMask::FULL, up_to, step, warp::SIZE);
            if lane >= step {
                up_to += below;
            }
            step *= 2;
        }
        if lane == warp::SIZE - 1 {
            *sums.add(warp_id as usize) = up_to;
        }
        thread::sync_threads();
        let (mut before, mut total) = (0, 0);
        let mut w = 0;
        while w < WARPS {
            let sum = *sums.add(w as usize);
            if w < warp_id {
                before += sum;
            }
            total += sum;
            w += 1;
        }
        (before + up_to - value, total)
    }
}

/// Counts the digits of one tile.
///
/// # Safety
/// The launch is as [`TileCountArgs`] says.
#[inline(always)]
unsafe fn count_tile<K: Bits>(args: &TileCountArgs<K>) {
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::is_here() {
        // SAFETY: passed on.
        return unsafe { crate::native::primitives::count_tile(args) };
    }
    let counts = SharedPtr::<u32>::dynamic();
    let t = thread::thread_idx_x();
    let block = u64::from(thread::block_idx_x());
    let begin = block * u64::from(args.tile);
    let left = args.len - begin;
    let len = if left < u64::from(args.tile) {
        left as u32
    } else {
        args.tile
    };
    // SAFETY: indices stay below `len` and `parts`; the three phases are apart by barriers.
    unsafe {
        if t < args.parts {
            counts.add(t).store(0);
        }
        thread::sync_threads();
        let keys = args.keys.add(begin as usize);
        let mut i = t;
        while i < len {
            let key = mem::load_readonly(keys.add(i as usize));
            counts.add(args.digit.digit(key)).count();
            i += THREADS;
        }
        thread::sync_threads();
        if t < args.parts {
            let at = u64::from(t) * u64::from(thread::grid_dim_x()) + block;
            mem::store(
                args.matrix.add(at as usize),
                u64::from(counts.add(t).load()),
            );
        }
    }
}

kernel! {
    /// Exclusive sums of the counts of all parts.
    pub static OFFSETS = fn partition_offsets(args: OffsetsArgs) by block {
        #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::is_here() {
        // SAFETY: passed on.
        return unsafe { crate::native::primitives::offsets(&args) };
    }
        let sums = shared_array![u64; WARPS as usize];
        let t = thread::thread_idx_x();
        // SAFETY: one block, as the arguments say; indices are at most `parts`.
        unsafe {
            let count = if t < args.parts { mem::load(args.counts.add(t as usize)) } else { 0 };
            let (before, total) = block_exclusive_sum(count, sums);
            if t < args.parts {
                mem::store(args.offsets.add(t as usize), before);
                mem::store(args.cursors.add(t as usize), before);
            }
            if t == 0 {
                mem::store(args.offsets.add(args.parts as usize), total);
            }
        }
    }
    /// Exclusive sums of each row of a matrix, in place.
    pub static SCAN_ROWS = fn partition_scan_rows(args: ScanRowsArgs) by block {
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::is_here() {
        // SAFETY: passed on.
        return unsafe { crate::native::primitives::scan_row(&args) };
    }
        let sums = shared_array![u64; WARPS as usize];
        let t = thread::thread_idx_x();
        let row = args.matrix.wrapping_add((u64::from(thread::block_idx_x()) * args.columns) as usize);
        // SAFETY: columns stay below `columns`; each word has one thread. The loop is the same
        // for the whole block.
        unsafe {
            let (mut carried, mut first) = (0, 0);
            while first < args.columns {
                let column = first + u64::from(t);
                let at = row.wrapping_add(column as usize);
                let count = if column < args.columns { mem::load(at.cast_const()) } else { 0 };
                let (before, total) = block_exclusive_sum(count, sums);
                if column < args.columns {
                    mem::store(at, carried + before);
                }
                carried += total;
                first += u64::from(THREADS);
                // The sums are written again only when all have read them.
                thread::sync_threads();
            }
            if t == 0 {
                mem::store(args.totals.add(thread::block_idx_x() as usize), carried);
            }
        }
    }
    /// Counts the digits of each tile of 4-byte keys.
    pub static COUNT_TILES_4 = fn partition_count_tiles_4(args: TileCountArgs<u32>) by block {
        // SAFETY: the launch is as the arguments say.
        unsafe { count_tile(&args) };
    }
    /// Counts the digits of each tile of 8-byte keys.
    pub static COUNT_TILES_8 = fn partition_count_tiles_8(args: TileCountArgs<u64>) by block {
        // SAFETY: the launch is as the arguments say.
        unsafe { count_tile(&args) };
    }
}
