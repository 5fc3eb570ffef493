//! Stream compaction: keep some elements, write them side by side, in any order.
//!
//! Everything about it is easy but one question: a thread that keeps its element needs a
//! position in the output that no other thread gets. A [`Position`] answers it, and each file here
//! is one answer. What the elements are, and which of them are kept, is a [`Source`].
//!
//! | rung | atomics in global memory | in shared memory |
//! |---|---|---|
//! | [`Naive`] | one per kept element | |
//! | [`Assembled`] | the same, of which the assembler makes one per warp | |
//! | [`Aggregated`] | one per warp and counter | |
//! | [`Ballot`] | one per warp | |
//! | [`BlockCounter`] | one per block | one per kept element |
//! | [`BlockScan`] | one per block | |
//! | [`Tiles`] | one per block | one per tile of 4, 8, 16 or 32 lanes |
//! | [`compact_rounds`] | one per block, which has several elements a thread | |

mod aggregated;
mod ballot;
mod block_counter;
mod block_scan;
mod naive;
mod rounds;
mod tiles;

pub use aggregated::Aggregated;
pub use ballot::Ballot;
pub use block_counter::BlockCounter;
pub use block_scan::BlockScan;
pub use naive::{Assembled, Naive};
pub use rounds::compact_rounds;
pub use tiles::Tiles;

use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::shared_ptr::SharedPtr;
use gpumap_simt::{thread, warp};

/// Threads per block.
pub const THREADS: u32 = 512;

/// Warps per block.
const WARPS: u32 = THREADS / warp::SIZE;

/// Bytes of dynamic shared memory per block: a word for each of up to 32 warps, a place in the
/// output, a count.
pub const SHARED_BYTES: u32 = 32 * 4 + 8 + 4;

/// What is compacted: elements by number, a predicate, an output.
pub trait Source {
    /// An element. The default stands for those beyond the end, which are never kept.
    type Item: Copy + Default;

    /// Element `i`.
    ///
    /// # Safety
    /// `i` is below the number of elements.
    unsafe fn load(&self, i: u64) -> Self::Item;

    /// Whether it is kept.
    fn keeps(&self, item: Self::Item) -> bool;

    /// Writes a kept element to its position.
    ///
    /// # Safety
    /// `at` is a position that this element alone was given.
    unsafe fn store(&self, at: u64, item: Self::Item);
}

/// How a thread finds where its element goes.
pub trait Position {
    /// A position of the caller's own if it keeps its element; else anything. `counter` grows by
    /// the number of elements kept.
    ///
    /// | must call | result valid |
    /// |---|---|
    /// | every thread of the block, also those that keep nothing | where `keep` is true |
    ///
    /// # Safety
    /// As the table says. Blocks have [`THREADS`] threads and [`SHARED_BYTES`] of shared memory;
    /// `counter` is zero before the launch and accessed by nothing else.
    unsafe fn of(keep: bool, counter: *mut u64) -> u64;
}

/// The body of the kernels: one element for each thread of a grid that covers `n`.
///
/// Threads beyond the end keep nothing, and still take part: a barrier waits for every thread.
///
/// # Safety
/// As for [`Position::of`]; the source has `n` elements, and room for those that are kept.
#[inline(always)]
pub unsafe fn compact<S: Source, P: Position>(source: &S, n: u64, counter: *mut u64) {
    let i = thread::index();
    let mut item = S::Item::default();
    let mut keep = false;
    // SAFETY: `i < n`, and a position is stored to by the thread that got it.
    unsafe {
        if i < n {
            item = source.load(i);
            keep = source.keeps(item);
        }
        let at = P::of(keep, counter);
        if keep {
            source.store(at, item);
        }
    }
}

/// The shared memory of a block.
#[derive(Clone, Copy)]
struct BlockMemory {
    /// A word for each warp.
    sums: SharedPtr<u32>,
    /// Where the block's part of the output begins.
    begin: SharedPtr<u64>,
    /// How many elements the block keeps.
    count: SharedPtr<u32>,
}

impl BlockMemory {
    #[inline(always)]
    fn of_block() -> Self {
        let sums = SharedPtr::<u32>::dynamic();
        Self {
            sums,
            begin: sums.add(32).cast(),
            count: sums.add(34),
        }
    }
}

/// Takes room for `count` elements of the output, and returns where it begins.
///
/// # Safety
/// `counter` is accessed atomically only.
#[inline(always)]
unsafe fn reserve(counter: *mut u64, count: u32) -> u64 {
    if count == 0 {
        return 0;
    }
    // SAFETY: the caller's promise. Relaxed: nothing but the number is communicated.
    unsafe { atomic::fetch_add(counter, u64::from(count), Relaxed) }
}
