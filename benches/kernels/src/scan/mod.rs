//! The ladder of scans: inclusive sums of 32-bit numbers, wrapping around.
//!
//! A grid cannot wait for itself, so a large scan is cut into *parts*, one per block, and put
//! together in one of three ways:
//!
//! | way | launches | words moved per element |
//! |---|---|---|
//! | **scan, then fan**: scan every part; scan the parts' sums; add to each part what is before it | a part kernel with `sums`, the sums, [`fan`] | 4 |
//! | **reduce, then scan**: add up every part; scan the sums; scan every part from what is before it | [`reduce`], the sums, a part kernel with `before` | 3 |
//! | **single pass**, the library's own: a part gets the sum before it from its neighbours, by decoupled look-back | one | 2 |
//!
//! The part kernels ([`parts`]) differ in how a block scans a tile, that is as many elements as it has
//! threads; a part longer than a tile is walked tile by tile with the sum so far carried along.
//! How a block scans its tile is a [`BlockScan`], and each file here is one:
//!
//! | rung | a tile is scanned by |
//! |---|---|
//! | [`one_thread`] | one thread, in global memory |
//! | [`Staged`] | one thread, in shared memory |
//! | [`Warps`] | one thread per warp, and one for the warps' sums |
//! | [`HillisSteele`] | all lanes, in five steps in shared memory |
//! | [`Padded`] | the same without branches and without bank conflicts |
//! | [`Shuffles`] | the same by shuffles, without shared memory except for the warps' sums |
//! | [`vectors`] | the same with four elements a thread, of 16 bytes |

pub mod fan;
mod hillis_steele;
pub mod one_thread;
mod padded;
pub mod parts;
pub mod reduce;
mod shuffles;
mod staged;
pub mod vectors;
mod warps;

pub use hillis_steele::HillisSteele;
pub use padded::Padded;
pub use shuffles::Shuffles;
pub use staged::Staged;
pub use warps::Warps;

use gpumap_simt::{kernel_args, mem, thread, warp};

/// Threads per block, and elements per tile at one a thread.
pub const TILE: u32 = 1024;

/// Warps per block: as many as a warp has lanes, so that one warp scans their sums.
const WARPS: u32 = TILE / warp::SIZE;

/// Bytes of dynamic shared memory per block, enough for every rung: the tile, with room between
/// the warps for [`Padded`], and the warps' sums with as much in front.
pub const SHARED_BYTES: u32 = (WARPS + 1) * padded::STRIDE * 4;

kernel_args! {
    /// Arguments of all kernels of the ladder. The grid has a block for each part, of [`TILE`]
    /// threads with [`SHARED_BYTES`], or of one thread for [`one_thread`].
    pub struct ScanArgs {
        /// In: `n` numbers, aligned to 16 bytes.
        pub input: *const u32,
        /// Out: `n` numbers, likewise. May be `input`.
        pub output: *mut u32,
        /// How many.
        pub n: u64,
        /// Elements per part, a multiple of 4; the last may be shorter.
        pub part: u64,
        /// Null, or the inclusive scan of the parts' sums: what part `i` begins with is at `i - 1`.
        pub before: *const u32,
        /// Null, or out: each part's sum, with what it began with.
        pub sums: *mut u32,
    }
}

impl ScanArgs {
    /// Where the block's part begins and ends.
    #[inline(always)]
    fn part(&self) -> (u64, u64) {
        let begin = u64::from(thread::block_idx_x()) * self.part;
        let end = begin + self.part;
        (begin, if end < self.n { end } else { self.n })
    }

    /// What comes before the block's part.
    ///
    /// # Safety
    /// The arguments are as they should be.
    #[inline(always)]
    unsafe fn before(&self) -> u32 {
        let block = thread::block_idx_x();
        if block == 0 || self.before.is_null() {
            return 0;
        }
        // SAFETY: there is a sum for each part, and they are not written by this launch.
        unsafe { mem::load(self.before.add(block as usize - 1)) }
    }

    /// Writes down the sum of the block's part, if it is wanted. One thread calls it.
    ///
    /// # Safety
    /// The arguments are as they should be.
    #[inline(always)]
    unsafe fn put_sum(&self, sum: u32) {
        if !self.sums.is_null() {
            // SAFETY: there is a sum for each part.
            unsafe { mem::store(self.sums.add(thread::block_idx_x() as usize), sum) };
        }
    }
}

/// How a block scans a tile.
pub trait BlockScan {
    /// The inclusive scan up to the caller's `x`, and the sum of the whole tile.
    ///
    /// | must call | result valid |
    /// |---|---|
    /// | every thread of the block | in every thread |
    ///
    /// # Safety
    /// As the table says; blocks have [`TILE`] threads and [`SHARED_BYTES`]. No other thread uses the shared
    /// memory for anything else until the block's next barrier.
    unsafe fn scan(x: u32) -> (u32, u32);
}
