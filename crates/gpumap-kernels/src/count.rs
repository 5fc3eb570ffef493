//! Counters that all blocks of a launch add to, and how the host learns what they came to.

use core::ptr;
use gpumap_simt::atomic::{self, AcqRel, Relaxed};
use gpumap_simt::{mem, shared_array, thread, warp};

/// Words of [`Counters::words`].
pub const WORDS: usize = 3;

/// Words of [`Counters::mirror`].
pub const MIRRORED: usize = 2;

/// Where a launch counts.
///
/// The block that is done last hands the counts over and sets the words to zero again. So a
/// launch costs no memory operation beside it: on an H200, the copy of 16 bytes to the host that
/// this replaces kept the next kernel on a stream waiting for longer than ten microseconds.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Counters {
    /// [`WORDS`] words on the device: pairs, pairs that found no room, blocks that are done. Zero
    /// before the launch, and after it if there is a mirror.
    pub words: *mut u64,
    /// [`MIRRORED`] words, page-locked on the host: get the first two when the launch has ended.
    /// May be null.
    pub mirror: *mut u64,
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

    /// Adds every thread's `mine` to the first word, with one atomic per block: the last thing that
    /// a kernel does.
    ///
    /// A shuffle sums the warp, shared memory the block: an atomic per warp on one address was
    /// seen to cost an insert of 100 million keys two thirds of its speed.
    ///
    /// | must call | result |
    /// |---|---|
    /// | every thread of every block, converged | in the mirror, when the launch has ended |
    ///
    /// # Safety
    /// As the table says; both places are valid on the device, and the launch's own. The block's
    /// sum is below 2^32.
    #[inline(always)]
    pub unsafe fn add_from_block(self, mine: u32) {
        // SAFETY: every thread of the block comes here.
        unsafe {
            add_block_sum(self.words, mine);
            if thread::thread_idx_x() == 0 {
                self.block_is_done();
            }
        }
    }

    /// As [`add_from_block`](Self::add_from_block), for kernels that count two things: `other` goes
    /// to the second word.
    ///
    /// # Safety
    /// As for [`add_from_block`](Self::add_from_block).
    #[inline(always)]
    pub unsafe fn add_both_from_block(self, mine: u32, other: u32) {
        // SAFETY: every thread of the block comes here.
        unsafe {
            add_block_sum(self.unplaced(), other);
            self.add_from_block(mine);
        }
    }

    /// Hands the counts over if this block is the last one: for kernels that count by themselves.
    ///
    /// | must call | result |
    /// |---|---|
    /// | one thread of every block, when a barrier has followed all that the block counts | in the mirror, when the launch has ended |
    ///
    /// # Safety
    /// As the table says; both places are valid on the device, and the launch's own.
    #[inline(always)]
    pub unsafe fn block_is_done(self) {
        if self.mirror.is_null() {
            return;
        }
        // SAFETY: the caller's promise. What a block counted comes before its barrier, that before
        // this atomic, and the last of these after all others; so the last block sees all counts,
        // and nobody else comes to them any more.
        unsafe {
            let done = self.words.add(2);
            let before = atomic::fetch_add(done, 1, AcqRel);
            if before + 1 == u64::from(thread::grid_dim_x()) {
                // Both are on their way at the same time: everybody waits for this.
                let pairs = atomic::load(self.words, Relaxed);
                let unplaced = atomic::load(self.unplaced(), Relaxed);
                mem::store(self.mirror, pairs);
                mem::store(self.mirror.add(1), unplaced);
                for i in 0..WORDS {
                    atomic::store(self.words.add(i), 0, Relaxed);
                }
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
pub(crate) unsafe fn add_block_sum(word: *mut u64, mine: u32) {
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
        if thread::thread_idx_x() == 0 && *sum != 0 {
            atomic::fetch_add(word, u64::from(*sum), Relaxed);
        }
    }
}
