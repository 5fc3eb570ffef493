//! The ladder of filters: the numbers of an array that are below a limit, in any order.

use crate::compact::{
    Aggregated, Assembled, Ballot, BlockCounter, BlockScan, Naive, Source, Tiles, compact,
    compact_rounds,
};
use gpumap_simt::{kernel, kernel_args, mem};

/// Numbers per thread of [`FILTER_ROUNDS`], whose grid covers them at as many a thread.
pub const ROUNDS: usize = 8;

kernel_args! {
    /// Arguments of the filters. Blocks have [`THREADS`](crate::compact::THREADS) threads and
    /// [`SHARED_BYTES`](crate::compact::SHARED_BYTES); the grid covers `n`.
    pub struct FilterArgs {
        /// In: `n` numbers.
        pub input: *const u32,
        /// How many.
        pub n: u64,
        /// As signed numbers, those below it are kept.
        pub limit: i32,
        /// Out: room for all that are kept.
        pub output: *mut u32,
        /// Zero at the start; at the end how many were kept.
        pub counter: *mut u64,
    }
}

impl Source for FilterArgs {
    type Item = u32;

    #[inline(always)]
    unsafe fn load(&self, i: u64) -> u32 {
        // SAFETY: `i < n`.
        unsafe { mem::load(self.input.add(i as usize)) }
    }

    #[inline(always)]
    fn keeps(&self, item: u32) -> bool {
        (item as i32) < self.limit
    }

    #[inline(always)]
    unsafe fn store(&self, at: u64, item: u32) {
        // SAFETY: a position of this element's own.
        unsafe { mem::store(self.output.add(at as usize), item) }
    }
}

macro_rules! filters {
    ($($(#[$doc:meta])* $NAME:ident $name:ident: $position:ty;)*) => {
        kernel! {
            $(
                $(#[$doc])*
                pub static $NAME = fn $name(args: FilterArgs) {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { compact::<_, $position>(&args, args.n, args.counter) }
                }
            )*
            /// Several elements a thread.
            pub static FILTER_ROUNDS = fn ladder_filter_rounds(args: FilterArgs) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { compact_rounds::<_, ROUNDS>(&args, args.n, args.counter) }
            }
        }
    };
}

filters! {
    /// One global atomic per kept element.
    FILTER_NAIVE ladder_filter_naive: Naive;
    /// The same, left to the assembler.
    FILTER_ASSEMBLED ladder_filter_assembled: Assembled;
    /// One per warp and counter, found by a match.
    FILTER_AGGREGATED ladder_filter_aggregated: Aggregated;
    /// One per warp, by ballot.
    FILTER_BALLOT ladder_filter_ballot: Ballot;
    /// A shared counter, one global atomic per block.
    FILTER_BLOCK_COUNTER ladder_filter_block_counter: BlockCounter;
    /// A block-wide scan, one global atomic per block.
    FILTER_BLOCK_SCAN ladder_filter_block_scan: BlockScan;
    /// Tiles of 4 lanes, one global atomic per block.
    FILTER_TILES_4 ladder_filter_tiles_4: Tiles<4>;
    /// Tiles of 8 lanes.
    FILTER_TILES_8 ladder_filter_tiles_8: Tiles<8>;
    /// Tiles of 16 lanes.
    FILTER_TILES_16 ladder_filter_tiles_16: Tiles<16>;
    /// Tiles of 32 lanes: warps.
    FILTER_TILES_32 ladder_filter_tiles_32: Tiles<32>;
}
