//! Numbers as words in whose unsigned order they are, for sorting by digits.
//!
//! The rank of a number: floats of negative sign have all bits but that one turned, so that greater magnitudes come first; then
//! the sign is turned, if numbers have one. The other way round the order falls. At last, as many ranks as there are NaNs with a
//! sign go from one end to the other: so NaNs of both signs lie beyond infinity, and no two numbers have one rank.

use gpumap_simt::{kernel, kernel_args, mem, thread};

/// Threads per block.
pub const THREADS: u32 = 256;

kernel_args! {
    /// Arguments of the kernels that make ranks of numbers, or numbers of ranks: a thread for each.
    pub struct RankArgs {
        /// Numbers, or ranks.
        pub from: *const u8,
        /// Out: the other; may be the same place.
        pub to: *mut u8,
        /// How many.
        pub n: u64,
        /// All bits but the highest if they are floats, else none.
        pub fold: u64,
        /// The highest bit if numbers have a sign; all others instead if the order falls.
        pub flip: u64,
        /// What is added to a rank, wrapping around: nothing for integers.
        pub turn: u64,
        /// Not 0: numbers of ranks.
        pub back: u32,
    }
}

macro_rules! ranks {
    ($($(#[$doc:meta])* $name:ident = fn $entry:ident($t:ty, $signed:ty);)*) => {
        kernel! {$(
            $(#[$doc])*
            pub static $name = fn $entry(args: RankArgs) by thread {
                let i = thread::index();
                if i < args.n {
                    let (fold, flip, turn) = (args.fold as $t, args.flip as $t, args.turn as $t);
                    let folded = |bits: $t| bits ^ (((bits as $signed) >> (<$t>::BITS - 1)) as $t & fold);
                    // SAFETY: a number of this thread's.
                    unsafe {
                        let bits = mem::load(args.from.cast::<$t>().wrapping_add(i as usize));
                        let made = if args.back == 0 {
                            (folded(bits) ^ flip).wrapping_add(turn)
                        } else {
                            folded(bits.wrapping_sub(turn) ^ flip)
                        };
                        mem::store(args.to.cast::<$t>().wrapping_add(i as usize), made);
                    }
                }
            }
        )*}
    };
}

ranks! {
    /// Ranks of numbers of 4 bytes.
    RANK_4 = fn sort_rank_4(u32, i32);
    /// Ranks of numbers of 8 bytes.
    RANK_8 = fn sort_rank_8(u64, i64);
}
