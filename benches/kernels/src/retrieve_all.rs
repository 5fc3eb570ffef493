//! The ladder of `retrieve_all`: every live pair of the slots of several submaps, in any order.
//!
//! A submap here is an array of 16-byte slots, key and value, and no more: no slabs and no
//! hashing. A thread takes one slot by its number in the whole map, and finds the submap by
//! walking over the prefix sums of the capacities; there are usually fewer than ten.

use crate::compact::{
    Aggregated, Assembled, Ballot, BlockCounter, BlockScan, Naive, Source, Tiles, compact,
    compact_rounds,
};
use gpumap_simt::{U64x2, kernel, kernel_args, mem};

/// The key of a slot that never had a pair.
pub const EMPTY: u64 = u64::MAX;
/// The key of a slot whose pair was removed.
pub const ERASED: u64 = u64::MAX - 1;

/// Slots per thread of [`DUMP_ROUNDS`], whose grid covers them at as many a thread.
pub const ROUNDS: usize = 4;

kernel_args! {
    /// Arguments of the dumps. Blocks have [`THREADS`](crate::compact::THREADS) threads and
    /// [`SHARED_BYTES`](crate::compact::SHARED_BYTES); the grid covers all slots.
    pub struct RetrieveAllArgs {
        /// For each submap its slots.
        pub submaps: *const u64,
        /// For each submap how many slots there are up to its end: **inclusive** prefix sums, so
        /// the last one is the number of all slots.
        pub ends: *const u64,
        /// How many slots there are in all.
        pub slots: u64,
        /// Out: room for all live keys.
        pub keys: *mut u64,
        /// Out: their values, each beside its key.
        pub values: *mut u64,
        /// Zero at the start; at the end how many pairs there were.
        pub counter: *mut u64,
    }
}

impl Source for RetrieveAllArgs {
    type Item = U64x2;

    #[inline(always)]
    unsafe fn load(&self, i: u64) -> U64x2 {
        // SAFETY: `i < slots`, which is the last of the ends, so the walk ends at the last submap
        // at the latest, and the slot is in the submap that it ends at.
        unsafe {
            let mut submap = 0;
            let mut begin = 0;
            let mut end = mem::load_readonly(self.ends);
            while end <= i {
                submap += 1;
                begin = end;
                end = mem::load_readonly(self.ends.add(submap));
            }
            let slots = mem::load_readonly(self.submaps.add(submap)) as *const U64x2;
            mem::load(slots.add((i - begin) as usize))
        }
    }

    #[inline(always)]
    fn keeps(&self, slot: U64x2) -> bool {
        slot.x != EMPTY && slot.x != ERASED
    }

    #[inline(always)]
    unsafe fn store(&self, at: u64, slot: U64x2) {
        // SAFETY: a position of this pair's own.
        unsafe {
            mem::store(self.keys.add(at as usize), slot.x);
            mem::store(self.values.add(at as usize), slot.y);
        }
    }
}

macro_rules! dumps {
    ($($(#[$doc:meta])* $NAME:ident $name:ident: $position:ty;)*) => {
        kernel! {
            $(
                $(#[$doc])*
                pub static $NAME = fn $name(args: RetrieveAllArgs) {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { compact::<_, $position>(&args, args.slots, args.counter) }
                }
            )*
            /// Several slots a thread.
            pub static DUMP_ROUNDS = fn ladder_dump_rounds(args: RetrieveAllArgs) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { compact_rounds::<_, ROUNDS>(&args, args.slots, args.counter) }
            }
        }
    };
}

dumps! {
    /// One global atomic per live slot.
    DUMP_NAIVE ladder_dump_naive: Naive;
    /// The same, left to the assembler.
    DUMP_ASSEMBLED ladder_dump_assembled: Assembled;
    /// One per warp and counter, found by a match.
    DUMP_AGGREGATED ladder_dump_aggregated: Aggregated;
    /// One per warp, by ballot.
    DUMP_BALLOT ladder_dump_ballot: Ballot;
    /// A shared counter, one global atomic per block.
    DUMP_BLOCK_COUNTER ladder_dump_block_counter: BlockCounter;
    /// A block-wide scan, one global atomic per block.
    DUMP_BLOCK_SCAN ladder_dump_block_scan: BlockScan;
    /// Tiles of 4 lanes, one global atomic per block.
    DUMP_TILES_4 ladder_dump_tiles_4: Tiles<4>;
    /// Tiles of 8 lanes.
    DUMP_TILES_8 ladder_dump_tiles_8: Tiles<8>;
    /// Tiles of 16 lanes.
    DUMP_TILES_16 ladder_dump_tiles_16: Tiles<16>;
    /// Tiles of 32 lanes: warps.
    DUMP_TILES_32 ladder_dump_tiles_32: Tiles<32>;
}
