//! Counters that the lanes of a warp increment together.

use gpumap_simt::aggregate::{atomic_agg_add, atomic_agg_inc, atomic_agg_inc_in};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::{kernel, kernel_args, mem, thread};

/// Counters of each width.
pub const COUNTERS: usize = 5;

kernel_args! {
    /// Arguments of [`AGGREGATE`].
    pub struct AggregateArgs {
        /// In: a word per thread.
        pub input: *const u64,
        /// In and out: [`COUNTERS`] counters.
        pub wide: *mut u64,
        /// In and out: [`COUNTERS`] counters.
        pub narrow: *mut u32,
        /// Out: three tickets per thread.
        pub tickets: *mut u64,
    }
}

kernel! {
    /// Each thread takes tickets: from one of three counters together with its whole warp, from
    /// one of five in branches that part the warp, and as many as its word says from one for all.
    pub static AGGREGATE = fn facade_aggregate(args: AggregateArgs) {
        // SAFETY: blocks are whole warps, and all lanes reach the calls that name the warp;
        // there is an input and a row of tickets for each thread.
        unsafe {
            let i = thread::index() as usize;
            let word = mem::load(args.input.add(i));
            let row = args.tickets.add(3 * i);
            let together = args.wide.add((word % 3) as usize);
            mem::store(row, atomic_agg_inc_in(LaneMask::FULL, together));
            let alone = if word & 16 != 0 {
                // Lanes of one branch with one counter, and of the other with two.
                atomic_agg_inc(args.narrow)
            } else {
                atomic_agg_inc(args.narrow.add(1 + (word >> 5 & 1) as usize))
            };
            mem::store(row.add(1), alone as u64);
            let amount = (word >> 8) as u32 % 7;
            mem::store(row.add(2), atomic_agg_add(args.wide.add(4), amount));
        }
    }
}
