//! Cells: where values lie that are too large for a slot.
//!
//! A map of such values keeps in its slots the **ids** of cells. The directory has an entry per chunk
//! of [`CHUNK`] ids, the address of its first cell; so the host allocates cells in pieces of any size,
//! and never moves one.
//!
//! A value is written to its cell by one launch and its id stored in a slot by a later one of the same
//! stream. A cell that a slot led to is not written again while any call is in flight, even when no slot
//! leads to it any more. Hence a launch may read the cell of every id that an earlier launch of its call
//! has found, with plain loads.
//!
//! Values are copied by a block for [`THREADS`] of them: a thread per value looks up its cell, then
//! all threads copy words, side by side on both ends.

use core::ptr;

use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::mem::{self, Vector};
use gpumap_simt::{U64x2, kernel, kernel_args, shared_array, thread, warp};

/// Ids per entry of the directory.
pub const CHUNK: u32 = 1 << CHUNK_LOG2;
const CHUNK_LOG2: u32 = 12;

/// The id of no cell: what absent keys have.
pub const NO_CELL: u32 = !0;

/// Threads per block, and values or ids per block.
pub const THREADS: u32 = 256;
const WARPS: u32 = THREADS / warp::SIZE;

kernel_args! {
    /// Arguments of the kernels that copy values: a block of [`THREADS`] for each [`THREADS`] ids.
    pub struct CopyArgs {
        /// `len` ids.
        pub ids: *const u32,
        /// `len` values, one after the other.
        pub values: *mut u8,
        /// Out, of `gather`: one byte per id, 1 where it is of a cell; may be null.
        pub found: *mut u8,
        /// The directory: where the first cell of each chunk is.
        pub chunks: *const u64,
        /// How many.
        pub len: u64,
        /// Bytes of a word: 16, 8, 4 or 1.
        pub word: u32,
        /// Words per value, at least one.
        pub words: u32,
        /// Bytes from cell to cell, a multiple of the word.
        pub stride: u32,
    }
}

kernel_args! {
    /// Arguments of `number`: a thread per id.
    pub struct NumberArgs {
        /// Out: `len` ids.
        pub ids: *mut u32,
        /// How many.
        pub len: u64,
        /// The first of them.
        pub first: u32,
    }
}

kernel_args! {
    /// Arguments of `retire`: a block of [`THREADS`] for each [`THREADS`] ids.
    pub struct RetireArgs {
        /// `len` ids; those that are [`NO_CELL`] are left out.
        pub ids: *const u32,
        /// One byte per id, which is left out where it is 1; may be null.
        pub kept: *const u8,
        /// One id per id, which is left out where this one is not [`NO_CELL`]; may be null.
        pub given: *const u32,
        /// How many.
        pub len: u64,
        /// Out: the ring, of `places` places.
        pub ring: *mut u32,
        /// How many places it has.
        pub places: u64,
        /// The place for the next id, less than twice `places`. Is moved on.
        pub tail: *mut u64,
    }
}

/// Where a cell is.
///
/// # Safety
/// The id is of a cell, and the directory leads to it.
#[inline(always)]
unsafe fn cell_of(args: &CopyArgs, id: u32) -> u64 {
    // SAFETY: the caller's promise; the directory is not written while the launch lasts.
    let chunk = unsafe { mem::load_readonly(args.chunks.add((id >> CHUNK_LOG2) as usize)) };
    chunk + u64::from(id & (CHUNK - 1)) * u64::from(args.stride)
}

/// Copies values to their cells, or from them; then an id of no cell gives zeros.
///
/// # Safety
/// See [`CopyArgs`]. Cells, values and strides are aligned to the word. No cell is written by this launch that another one
/// accesses.
#[inline(always)]
unsafe fn copy<const FROM_CELLS: bool>(args: &CopyArgs) {
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::is_here() {
        // SAFETY: passed on.
        return unsafe { copy_natively::<FROM_CELLS>(args) };
    }
    let cells = shared_array![u64; THREADS as usize];
    let t = thread::thread_idx_x();
    let first = u64::from(thread::block_idx_x()) * u64::from(THREADS);
    let len = (args.len - first).min(u64::from(THREADS)) as u32;

    // SAFETY: indices stay below the lengths; each thread writes its own word of `cells`, which are read
    // after a barrier that all threads reach.
    unsafe {
        let mut cell = 0;
        if t < len {
            let i = (first + u64::from(t)) as usize;
            let id = mem::load_streaming(args.ids.add(i));
            if id != NO_CELL {
                cell = cell_of(args, id);
            }
            if FROM_CELLS && !args.found.is_null() {
                mem::store(args.found.add(i), u8::from(id != NO_CELL));
            }
        }
        *cells.add(t as usize) = cell;
        thread::sync_threads();

        let values = args
            .values
            .wrapping_add((first * u64::from(args.words) * u64::from(args.word)) as usize);
        match args.word {
            16 => copy_words::<U64x2, FROM_CELLS>(args.words, cells, values.cast(), len),
            8 => copy_words::<u64, FROM_CELLS>(args.words, cells, values.cast(), len),
            4 => copy_words::<u32, FROM_CELLS>(args.words, cells, values.cast(), len),
            _ => copy_words::<u8, FROM_CELLS>(args.words, cells, values, len),
        }
    }
}

/// What all threads of a block do.
///
/// # Safety
/// As for [`copy`].
#[cfg(not(target_arch = "nvptx64"))]
unsafe fn copy_natively<const FROM_CELLS: bool>(args: &CopyArgs) {
    let bytes = args.words as usize * args.word as usize;
    // SAFETY: indices stay below the length; a cell and a value have so many bytes.
    unsafe {
        for i in ids_of_block(args.len) {
            let id = *args.ids.add(i);
            let value = args.values.wrapping_add(i * bytes);
            if FROM_CELLS && !args.found.is_null() {
                *args.found.add(i) = u8::from(id != NO_CELL);
            }
            if id == NO_CELL {
                if FROM_CELLS {
                    ptr::write_bytes(value, 0, bytes);
                }
                continue;
            }
            let cell = ptr::with_exposed_provenance_mut::<u8>(cell_of(args, id) as usize);
            if FROM_CELLS {
                ptr::copy_nonoverlapping(cell, value, bytes);
            } else {
                ptr::copy_nonoverlapping(value, cell, bytes);
            }
        }
    }
}

/// The places of a block's ids among all.
#[cfg(not(target_arch = "nvptx64"))]
fn ids_of_block(len: u64) -> core::ops::Range<usize> {
    let first = u64::from(thread::block_idx_x()) * u64::from(THREADS);
    first as usize..(first + u64::from(THREADS)).min(len) as usize
}

/// Copies the block's values, of so many words each.
///
/// # Safety
/// As for [`copy`]; `cells` are the addresses of the cells of `len` values.
#[inline(always)]
unsafe fn copy_words<W: Vector + Default, const FROM_CELLS: bool>(
    words: u32,
    cells: *const u64,
    values: *mut W,
    len: u32,
) {
    let t = thread::thread_idx_x();
    // Never divides by zero, and has no branch to a panic.
    let value_step = THREADS.checked_div(words).unwrap_or(0);
    let word_step = THREADS - value_step * words;
    let mut value = t.checked_div(words).unwrap_or(0);
    let mut word = t - value * words;
    let mut i = t;
    while i < len * words {
        // SAFETY: the value is one of the block's, and the word one of the value's.
        unsafe {
            let cell = ptr::with_exposed_provenance_mut::<W>(*cells.add(value as usize) as usize);
            if FROM_CELLS {
                let mut read = W::default();
                if !cell.is_null() {
                    read = mem::load(cell.add(word as usize));
                }
                mem::store_streaming(values.add(i as usize), read);
            } else if !cell.is_null() {
                let read = mem::load_streaming(values.add(i as usize));
                mem::store(cell.add(word as usize), read);
            }
        }
        i += THREADS;
        value += value_step;
        word += word_step;
        if word >= words {
            word -= words;
            value += 1;
        }
    }
}

/// Appends ids to the ring, with one atomic per block.
///
/// # Safety
/// See [`RetireArgs`]. From the next place of the ring on, as many are free as there are ids in all
/// launches that append to it.
#[inline(always)]
unsafe fn retire(args: &RetireArgs) {
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::is_here() {
        // SAFETY: passed on.
        return unsafe { retire_natively(args) };
    }
    let sums = shared_array![u32; WARPS as usize];
    let begin = shared_array![u64; 1];
    let t = thread::thread_idx_x();
    let (lane, warp_id) = (warp::lane_id(), t / warp::SIZE);
    let i = thread::index();

    // SAFETY: indices stay below the lengths; all threads reach the barriers and the ballot. Shared
    // words are written by one thread and read by others only across a barrier.
    unsafe {
        let mut id = NO_CELL;
        if i < args.len {
            id = mem::load_streaming(args.ids.add(i as usize));
            if !args.kept.is_null() && mem::load(args.kept.add(i as usize)) == 1 {
                id = NO_CELL;
            }
            if !args.given.is_null() && mem::load(args.given.add(i as usize)) != NO_CELL {
                id = NO_CELL;
            }
        }
        let lanes = warp::warp_vote_ballot(LaneMask::FULL, id != NO_CELL);
        if lane == 0 {
            *sums.add(warp_id as usize) = lanes.count();
        }
        thread::sync_threads();
        if t == 0 {
            let mut sum = 0;
            let mut w = 0;
            while w < WARPS {
                let of_warp = *sums.add(w as usize);
                *sums.add(w as usize) = sum;
                sum += of_warp;
                w += 1;
            }
            if sum != 0 {
                *begin = atomic::fetch_add(args.tail, u64::from(sum), Relaxed);
            }
        }
        thread::sync_threads();
        if id != NO_CELL {
            let before = *sums.add(warp_id as usize) + lanes.rank_of(lane);
            let mut place = *begin + u64::from(before);
            if place >= args.places {
                place -= args.places;
            }
            mem::store(args.ring.add(place as usize), id);
        }
    }
}

/// What all threads of a block do.
///
/// # Safety
/// As for [`retire`].
#[cfg(not(target_arch = "nvptx64"))]
unsafe fn retire_natively(args: &RetireArgs) {
    let mut retired = [NO_CELL; THREADS as usize];
    let mut len = 0;
    // SAFETY: indices stay below the length, and places of the ring are given once.
    unsafe {
        for i in ids_of_block(args.len) {
            let kept = !args.kept.is_null() && *args.kept.add(i) == 1;
            let given = !args.given.is_null() && *args.given.add(i) != NO_CELL;
            retired[len] = *args.ids.add(i);
            len += usize::from(retired[len] != NO_CELL && !kept && !given);
        }
        let begin = atomic::fetch_add(args.tail, len as u64, Relaxed);
        for (i, &id) in (begin..).zip(&retired[..len]) {
            let place = if i >= args.places { i - args.places } else { i };
            *args.ring.add(place as usize) = id;
        }
    }
}

kernel! {
    /// Copies values from their cells.
    pub static GATHER = fn cells_gather(args: CopyArgs) by block {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { copy::<true>(&args) }
    }
    /// Copies values to their cells.
    pub static SCATTER = fn cells_scatter(args: CopyArgs) by block {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { copy::<false>(&args) }
    }
    /// Writes consecutive ids.
    pub static NUMBER = fn cells_number(args: NumberArgs) by thread {
        let i = thread::index();
        if i < args.len {
            // SAFETY: below the length.
            unsafe { mem::store(args.ids.add(i as usize), args.first + i as u32) };
        }
    }
    /// Appends ids to the ring.
    pub static RETIRE = fn cells_retire(args: RetireArgs) by block {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { retire(&args) }
    }
}
