//! Dump of every pair: stream compaction of the table, through shared memory.
//!
//! A block works on one tile after the other: a chunk of 512 slabs (32 KiB) of one submap, or an even
//! part of one where shared memory is small. In each turn, between two barriers:
//!
//! | warps | the tile that comes next | this turn's tile | the tile before | the tile before that |
//! |---|---|---|---|---|
//! | working warps, first | on its way into registers | each packs its pairs in its part of shared memory, and counts them | | |
//! | the control warp | found in its submap | | adds up the counts of the warps | finds where its part of the outputs begins |
//! | working warps, after the barrier | | | | each stores its pairs |
//!
//! A pipeline like a [filter's](crate::primitives::filter), whose ways to decide where a tile's
//! part of the outputs begins it has as well: **one atomic per tile**, or in the order of the table
//! by **[look-back](crate::primitives::look_back)** over the tiles before.
//!
//! Beside writers: a pair that is there throughout is reported exactly once, since slots are read
//! once and pairs never move. A key that is removed and inserted again meanwhile lies in another
//! slot the second time, and may be reported for each.
//!
//! | file | idea |
//! |---|---|
//! | `control` | the control warp |
//! | `packed` | pairs in shared memory |
//! | `share` | the working warps |
//! | `turns` | what they exchange |

mod control;
pub(crate) mod packed;
mod share;
mod turns;

use crate::chunk::{self, Chunks};
use crate::count::Counters;
#[cfg(doc)]
use crate::primitives::CONTROL_THREADS;
use crate::primitives::look_back::LAG;
use crate::slot::Format;
use control::{Plan, control};
use gpumap_simt::shared_ptr::SharedPtr;
use gpumap_simt::{kernel_args, thread, warp};
use packed::{PART_BYTES, ROUNDS};
use share::work;
use turns::Words;

kernel_args! {
    /// Arguments of a `retrieve_all` kernel: any number of blocks, of [`MAX_WORKERS`]` >> parts_log2`
    /// working threads in whole warps and [`CONTROL_THREADS`], with [`shared_bytes`].
    pub struct RetrieveAllArgs<K, V> {
        /// The chunks to dump.
        pub chunks: Chunks,
        /// How many they are.
        pub count: u32,
        /// How many tiles each has, as a power of two.
        pub parts_log2: u32,
        /// Out: the keys.
        pub keys: *mut K,
        /// Out: the values, each beside its key.
        pub values: *mut V,
        /// Room in each of the outputs; what goes beyond is counted, not written.
        pub room: u64,
        /// Pairs, also those for which there is no room. The second word counts the tiles that are taken.
        pub pairs: Counters,
        /// For the order of the table: the header of [`look_back`](crate::primitives::look_back) and
        /// status words for the tiles; zero. Null for any order.
        pub tiles: *mut u8,
    }
}

/// The most working threads of a block: a chunk's.
pub const MAX_WORKERS: u32 = chunk::THREADS;

/// Packed tiles in shared memory: this turn's, and those that wait for their places in the outputs.
const PACKED: u32 = 2 + LAG as u32;

/// The most working warps.
const WARPS: u32 = MAX_WORKERS / warp::SIZE;

/// Bytes of dynamic shared memory per block of `workers`: packed tiles; of two turns where each warp's
/// part of the outputs begins and how many pairs it has, and where a tile lies, how long it is, and
/// its number.
pub const fn shared_bytes(workers: u32) -> u32 {
    PACKED * workers / warp::SIZE * PART_BYTES + 2 * (WARPS * (8 + 4) + 8 + 4 + 4)
}

/// The body of the kernels.
///
/// # Safety
/// See [`RetrieveAllArgs`]; the arguments describe a live map of format `F`, and the outputs have
/// `room` elements.
#[inline(always)]
pub unsafe fn dump<F: Format>(args: &RetrieveAllArgs<F::Key, F::Value>) {
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::ALONE || crate::native::is_here() {
        // SAFETY: passed on.
        return unsafe { crate::native::dump::dump::<F>(args) };
    }
    let workers = MAX_WORKERS >> args.parts_log2;
    let words = Words::behind(SharedPtr::dynamic().add(PACKED * workers * ROUNDS));
    let plan = Plan {
        chunks: &args.chunks,
        taken: args.pairs.unplaced().cast(),
        parts_log2: args.parts_log2,
        vectors: workers * ROUNDS,
        tiles: args.count << args.parts_log2,
    };
    // Control and workers have loops of their own, each with its barrier: in one loop all threads would keep
    // the values of both. A barrier counts warps, wherever they reach it.
    //
    // Both loops end: each turn takes a tile, there are finitely many, and two turns after the last
    // one nothing is left.
    //
    // SAFETY: whole warps branch alike, and control and workers reach as many barriers: two
    // before the first turn, and one in each.
    unsafe {
        if thread::thread_idx_x() >= workers {
            control(args, &plan, &words, workers / warp::SIZE);
        } else {
            work::<F>(args, &plan, &words, workers / warp::SIZE);
        }
    }
}
