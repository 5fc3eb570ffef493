//! Counters that all blocks of a launch add to, and how the host gets their sums.

use core::ptr;
use gpumap_simt::atomic::{self, AcqRel, Relaxed, Release};
use gpumap_simt::{layout, mem, shared_array, thread, warp};

/// Words of [`Counters::words`].
pub const WORDS: usize = 3;

/// Words of [`Counters::mirror`].
pub const MIRRORED: usize = 2;

/// A launch that reports has fewer blocks: as many have 2^34 threads, more than a device has memory for
/// the keys of.
pub const MOST_BLOCKS: u64 = Report::UNPLACED / Report::BLOCK;

/// Where a launch counts.
///
/// The block that is done last hands the counts over and sets the words to zero again. So a
/// launch costs no memory operation beside it: on an H200, the copy of 16 bytes to the host that
/// this replaces kept the next kernel on a stream waiting for longer than ten microseconds.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Counters {
    /// [`WORDS`] words on the device: pairs, pairs that found no room, what blocks report. Zero
    /// before the launch, and after it if there is a mirror.
    pub words: *mut u64,
    /// [`MIRRORED`] words, page-locked on the host: get the pairs, and those that found no room,
    /// when the launch has ended. May be null.
    pub mirror: *mut u64,
}
layout!(Counters { words, mirror });

/// What blocks say when they are done, added up: how many they are, how many pairs they have
/// counted, and whether pairs without room lie in a word of their own.
///
/// All of it is one word: so the atomic by which a block says that it is done returns to the
/// last one what all have counted, and orders nothing. A block that adds to a counter first, and
/// then to that of blocks, waits for its addition in between, and the last one for what it
/// reads, at the end of every launch (measured in `docs/decisions/host-path.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Report(u64);

impl Report {
    /// One block: above the pairs, of which a launch has fewer than there are keys in a device's
    /// memory.
    const BLOCK: u64 = 1 << 36;
    /// Some pairs found no room. Added once: above the blocks, of which there are fewer than
    /// [`MOST_BLOCKS`].
    const UNPLACED: u64 = 1 << 63;

    #[inline(always)]
    const fn pairs(self) -> u64 {
        self.0 & (Self::BLOCK - 1)
    }

    #[inline(always)]
    const fn blocks(self) -> u64 {
        (self.0 & !Self::UNPLACED) / Self::BLOCK
    }

    #[inline(always)]
    const fn is_unplaced(self) -> bool {
        self.0 & Self::UNPLACED != 0
    }
}

impl Counters {
    /// Words that are only added to.
    #[inline(always)]
    pub const fn of(words: *mut u64) -> Self {
        Self {
            words,
            mirror: ptr::null_mut(),
        }
    }

    /// The counter of pairs that found no room.
    #[inline(always)]
    pub fn unplaced(self) -> *mut u64 {
        self.words.wrapping_add(1)
    }

    /// What blocks report.
    #[inline(always)]
    fn reports(self) -> *mut u64 {
        self.words.wrapping_add(2)
    }

    /// Counts pairs that found no room: for any thread, before its block is done. They are few, so
    /// it is these that see to the order.
    ///
    /// # Safety
    /// Both places are valid on the device, and the launch's own. There is at least one pair.
    #[inline(always)]
    pub unsafe fn count_unplaced(self, pairs: u32) {
        debug_assert!(pairs != 0, "a block that counts none looks like the first");
        // SAFETY: the caller's promise. The second addition releases the first, also where it
        // adds nothing: the block that is last acquires it through all reports in between.
        unsafe {
            let before = atomic::fetch_add(self.unplaced(), u64::from(pairs), Relaxed);
            if !self.mirror.is_null() {
                let first = if before == 0 { Report::UNPLACED } else { 0 };
                atomic::fetch_add(self.reports(), first, Release);
            }
        }
    }

    /// Counts every thread's `mine`, with one atomic per block: the last thing that a kernel does.
    ///
    /// A shuffle sums the warp, shared memory the block: an atomic per warp on one address was
    /// seen to cost an insert of 100 million keys two thirds of its speed.
    ///
    /// | must call | result |
    /// |---|---|
    /// | every thread of every block, converged | in the mirror, when the launch has ended; without one in the first word |
    ///
    /// # Safety
    /// As the table says; both places are valid on the device, and the launch's own. The block's
    /// sum is below 2^32. Nothing else adds to the first word.
    #[inline(always)]
    pub unsafe fn add_from_block(self, mine: u32) {
        // SAFETY: every thread of the block comes here.
        unsafe {
            let sum = block_sum(mine);
            if thread::thread_idx_x() == 0 {
                self.report(sum);
            }
        }
    }

    /// As [`add_from_block`](Self::add_from_block), for kernels that count two things: `other` is
    /// counted as pairs without room are.
    ///
    /// # Safety
    /// As for [`add_from_block`](Self::add_from_block).
    #[inline(always)]
    pub unsafe fn add_both_from_block(self, mine: u32, other: u32) {
        // SAFETY: every thread of the block comes here.
        unsafe {
            let other = block_sum(other);
            if thread::thread_idx_x() == 0 && other != 0 {
                self.count_unplaced(other);
            }
            self.add_from_block(mine);
        }
    }

    /// Counts what a block has counted, which is done then, and hands all counts over if it is
    /// the last.
    ///
    /// | must call | result |
    /// |---|---|
    /// | one thread of every block, when a barrier has followed all that the block counts | as of [`add_from_block`](Self::add_from_block) |
    ///
    /// # Safety
    /// As for [`add_from_block`](Self::add_from_block).
    #[inline(always)]
    pub unsafe fn report(self, pairs: u32) {
        let (pairs, blocks) = (u64::from(pairs), u64::from(thread::grid_dim_x()));
        debug_assert!(blocks < MOST_BLOCKS);
        // SAFETY: the caller's promise. The last block sees all reports in the word that it adds
        // to, and only where that says so there is something to be seen elsewhere.
        unsafe {
            if self.mirror.is_null() {
                if pairs != 0 {
                    atomic::fetch_add(self.words, pairs, Relaxed);
                }
                return;
            }
            let mine = Report::BLOCK | pairs;
            let all = Report(atomic::fetch_add(self.reports(), mine, Relaxed) + mine);
            if all.blocks() == blocks {
                let mut unplaced = 0;
                if all.is_unplaced() {
                    atomic::fence();
                    unplaced = atomic::load(self.unplaced(), Relaxed);
                }
                self.hand_over(all.pairs(), unplaced);
            }
        }
    }

    /// Hands the first two words over if this block is the last one: for kernels that add to them
    /// by themselves.
    ///
    /// | must call | result |
    /// |---|---|
    /// | one thread of every block, when a barrier has followed all that the block counts | in the mirror, when the launch has ended |
    ///
    /// # Safety
    /// As the table says; both places are valid on the device, and the launch's own.
    #[inline(always)]
    pub unsafe fn block_is_done(self) {
        // SAFETY: passed on; the last block sees all counts.
        unsafe {
            if self.is_last_block() {
                // Both are on their way at the same time: the whole launch waits for this.
                let pairs = atomic::load(self.words, Relaxed);
                let unplaced = atomic::load(self.unplaced(), Relaxed);
                self.hand_over(pairs, unplaced);
            }
        }
    }

    /// Whether this block is the last one, which sees what all others have counted in the first two words, and
    /// [hands over](Self::hand_over) what it makes of that. None is without a mirror.
    ///
    /// | must call | result |
    /// |---|---|
    /// | one thread of every block, once, when a barrier has followed all that the block counts | true for one block |
    ///
    /// # Safety
    /// As for [`block_is_done`](Self::block_is_done).
    #[inline(always)]
    pub unsafe fn is_last_block(self) -> bool {
        if self.mirror.is_null() {
            return false;
        }
        // SAFETY: the caller's promise. What a block counted comes before its barrier, that before
        // this atomic, and the last of these after all others; so the last block sees all counts,
        // and nothing else accesses them any more. No block reports, so blocks are alone in that
        // word, and there may be any number of them.
        let before = unsafe { atomic::fetch_add(self.reports(), 1, AcqRel) };
        before + 1 == u64::from(thread::grid_dim_x())
    }

    /// Writes two words to the host, and makes those of the device ready for the next launch.
    ///
    /// # Safety
    /// All other blocks are done.
    #[inline(always)]
    pub unsafe fn hand_over(self, pairs: u64, unplaced: u64) {
        // SAFETY: the caller's promise.
        unsafe {
            mem::store(self.mirror, pairs);
            mem::store(self.mirror.add(1), unplaced);
            for i in 0..WORDS {
                atomic::store(self.words.add(i), 0, Relaxed);
            }
        }
    }
}

/// Adds the sum of every thread's `mine` to a word, by one thread: the block's first.
///
/// | must call | result |
/// |---|---|
/// | every thread of the block, converged | in the word, when the launch has ended |
///
/// # Safety
/// Every thread of the block comes here; the word is valid, and the sum below 2^32.
#[inline(always)]
pub unsafe fn add_block_sum(word: *mut u64, mine: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        let sum = block_sum(mine);
        if thread::thread_idx_x() == 0 && sum != 0 {
            atomic::fetch_add(word, u64::from(sum), Relaxed);
        }
    }
}

/// The sum of every thread's `mine`, for the block's first thread.
///
/// | must call | result |
/// |---|---|
/// | every thread of the block, converged | the sum, in the first thread |
///
/// # Safety
/// Every thread of the block comes here; the sum is below 2^32.
#[inline(always)]
unsafe fn block_sum(mine: u32) -> u32 {
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::is_here() {
        return mine;
    }
    let sum = shared_array![u32; 1];
    // SAFETY: every thread of the block comes here, so barriers and shuffles are whole. Between
    // the barriers the word is only added to, before and after them one thread has it.
    unsafe {
        if thread::thread_idx_x() == 0 {
            *sum = 0;
        }
        thread::sync_threads();
        let of_warp = warp::warp_reduce_add(mine);
        if warp::lane_id() == 0 && of_warp != 0 {
            atomic::block_fetch_add(sum, of_warp);
        }
        thread::sync_threads();
        if thread::thread_idx_x() == 0 { *sum } else { 0 }
    }
}
