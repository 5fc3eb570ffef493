//! Data-parallel primitives over arrays, as in CUB and thrust: scans, reductions, filters,
//! histograms, partitions, sorts, counts of keys, unique keys, aggregates by key, joins.
//!
//! A [`Primitives`] handle owns the scratch memory of its calls, so that a call in the steady
//! state, from device memory to device memory, allocates nothing. Inputs are anything that is an
//! [`Input`](crate::Input); outputs are [`Buffer`](crate::Buffer)s of the caller or parts of them (methods whose
//! name ends in `_into`), or vectors of the host.
//!
//! ```
//! use gpumap::Device;
//! use gpumap::primitives::{Op, Order, Predicate, Primitives};
//!
//! let primitives = Primitives::new(&Device::cpu());
//! let data = [3, 1, 4, 1, 5, 9, 2, 6];
//! assert_eq!(primitives.inclusive_scan(&data, Op::Add)?, [3, 4, 8, 9, 14, 23, 25, 31]);
//! assert_eq!(primitives.exclusive_scan(&data, Op::Max, 0)?, [0, 3, 3, 4, 4, 5, 9, 9]);
//! assert_eq!(primitives.reduce(&data, Op::Min, i32::MAX)?, 1);
//! assert_eq!(primitives.filter(&data, Predicate::Greater(3), Order::Stable)?, [4, 5, 9, 6]);
//!
//! let histogram = primitives.histogram_even(&[1, 2, 2, 9, -4], 0..8, 4)?;
//! assert_eq!(histogram.counts, [1, 2, 0, 0]);
//! assert_eq!((histogram.below, histogram.above), (1, 1));
//! # Ok::<(), gpumap::Error>(())
//! ```
//!
//! Elements are `u32`, `i32`, `f32`, `u64`, `i64` and `f64`, and newtypes of these ([`Element`]). Kernels are compiled
//! ahead of time, so operations and predicates are data ([`Op`], [`Predicate`]), not closures.
//! Lengths are 64 bits wide; empty inputs are fine; arrays need no alignment beyond the
//! element's, but those at multiples of 16 bytes are faster.
//!
//! # Order of minima and maxima
//! Integers as usual; floats by [`f32::total_cmp`] without NaN: minus zero is below zero. A NaN of either sign is passed over,
//! unless there is nothing else: then the result is the positive NaN without a payload. That is associative, so results do
//! not depend on how the work was divided. Sums and means are NaN if a number is.
//!
//! # Floats in keys
//! For groups, joins and unique keys, floats have one zero and one NaN: see [`Floats`]. [Sorted](Primitives#sorting) numbers keep
//! their bits, NaNs of both signs come after infinity.

mod counts;
pub mod distributed;
mod element;
mod filter;
mod group_by;
mod histogram;
mod join;
mod normalize;
mod partition;
mod predicate;
mod reduce;
mod scan;
mod sort;
mod unique;

pub use crate::floats::{FloatField, FloatKeys, Floats};
pub use element::{Element, Op};
pub use filter::Order;
pub use group_by::{
    Aggregate, Aggregates, Chosen, Count, Fixed, Function, GroupBy, Grouped, Grouping, Max, Mean,
    Min, Numbers, NumbersMut, Push, Sum,
};
pub use histogram::{Histogram, Outside, Sample};
pub use join::{Join, JoinTable, Pairs};
pub(crate) use partition::scatter_tile;
pub use partition::{Digit, MAX_PARTS};
pub use predicate::Predicate;
pub(crate) use scan::{empty_tiles, queue_exclusive_sum};
pub use sort::Direction;
pub use unique::{Unique, UniqueOutputs};

use gpumap_kernels::primitives::{CONTROL_THREADS, MAX_WORKERS};
use gpumap_simt::kernel::Grid;

use crate::device::Device;
use crate::scratch::ScratchPool;

/// The primitives on one device, with their scratch memory.
///
/// [`Send`] and [`Sync`]: calls from several threads run side by side, each on a stream and in
/// scratch of its own, of which there are as many as calls were ever in flight at once. Every
/// method returns when the device is done.
#[derive(Debug)]
pub struct Primitives {
    pub(crate) scratch: ScratchPool,
    device: Device,
}

impl Primitives {
    /// A handle on a device. Nothing is allocated before the first call.
    pub fn new(device: &Device) -> Self {
        Self {
            scratch: ScratchPool::new(device),
            device: device.clone(),
        }
    }

    /// The device it runs on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Bytes of shared memory that a block may have.
    fn max_shared_bytes(&self) -> u32 {
        self.device.shared_memory()
    }
}

/// Working threads per block of the kernels that keep tiles in shared memory, of which they need
/// so many bytes: as many as there is room for, in one block for each multiprocessor.
fn block_workers(device: &Device, shared_bytes: fn(u32) -> u32) -> u32 {
    let room = device.shared_memory();
    let mut workers = MAX_WORKERS;
    while workers > 32 && shared_bytes(workers) > room {
        workers -= 32;
    }
    workers
}

/// The grid for `tiles` tiles, which blocks take from each other.
fn grid_of(device: &Device, tiles: u32, workers: u32, shared_bytes: u32) -> Grid {
    let blocks = tiles.min(tile_blocks(device, 1));
    Grid {
        shared_bytes,
        ..Grid::new(blocks, workers + CONTROL_THREADS)
    }
}

/// The most blocks for tiles that blocks take from each other: as many as run at once, of which a multiprocessor has so many.
/// Natively any number, each of which takes its share: other threads come when the first block has ended.
pub(crate) fn tile_blocks(device: &Device, side_by_side: u32) -> u32 {
    if device.is_native() {
        i32::MAX as u32
    } else {
        side_by_side * device.multiprocessors()
    }
}

/// The blocks for `n` elements, `per_block` each. More than a device takes are refused by the
/// launch.
fn blocks(n: usize, per_block: u32) -> u32 {
    u32::try_from((n as u64).div_ceil(u64::from(per_block))).unwrap_or(u32::MAX)
}
