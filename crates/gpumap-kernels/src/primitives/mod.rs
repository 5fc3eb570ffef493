//! Data-parallel primitives over plain arrays.
//!
//! | module | idea |
//! |---|---|
//! | [`word`] | elements as bit patterns of 4 or 8 bytes, moved 16 bytes at a time |
//! | [`combine`] | the associative operations: add, and one minimum that serves all orders |
//! | [`look_back`] | prefixes across tiles in a single pass |
//! | [`scan`] | inclusive and exclusive scan |
//! | [`reduce`] | one value from many, the same on every run |
//! | [`filter`] | copies what satisfies a predicate, or where it is; any order or stable |
//! | [`binning`] | which bin a word falls into, without a division |
//! | [`sweep`] | every word of an array once, sixteen bytes at a time |
//! | [`histogram`] | counters in shared memory, several copies of each |
//! | [`partition`] | pairs sorted by a digit, through a tile in shared memory |
//! | [`spread`] | a histogram whose counters lie on several devices |
//! | [`sort`](mod@sort) | numbers as words in whose order they are |
//! | [`order`] | where elements came from, and back there |
//!
//! # Tiles
//! Work is cut into *tiles*: as many vectors of 16 bytes per thread as its registers hold, all
//! loaded at once. Reductions give each block some; scans and filters have one block to each
//! multiprocessor, and blocks take tiles from a counter. A warp's vectors lie together and those of one load
//! instruction side by side, so that accesses coalesce and the order of elements is: warp, then
//! round, then lane, then place in the vector.

/// The most working threads of a block of a scan or a filter: what registers are handed out for.
pub const MAX_WORKERS: u32 = 768;

/// Threads of such a block after the working ones: one warp, which sees to what the block has to
/// do with other blocks.
pub const CONTROL_THREADS: u32 = 32;

/// Room for a word of each working warp.
const MAX_WARPS: u32 = 32;

pub mod binning;
pub mod combine;
pub mod filter;
pub mod histogram;
pub mod look_back;
pub mod order;
pub mod partition;
pub mod reduce;
pub mod scan;
pub mod sort;
pub mod spread;
pub mod sweep;
pub mod word;
