//! Pairs to fill a map with, made where they are needed.

use gpumap_simt::{kernel, kernel_args, mem, thread};

kernel_args! {
    /// Arguments of [`PAIRS`]; the grid covers `n`.
    pub struct PairsArgs {
        /// The number of the first pair,
        pub first: u64,
        /// and how far it is to the next.
        pub step: u64,
        /// How many.
        pub n: u64,
        /// Out: sparse keys, all different.
        pub keys: *mut u64,
        /// Out: the numbers of the pairs.
        pub values: *mut u64,
    }
}

/// The finaliser of MurmurHash3, which is a bijection: the `i`-th key.
#[inline(always)]
pub const fn key(i: u64) -> u64 {
    let h = (i ^ (i >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let h = (h ^ (h >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ (h >> 33)
}

kernel! {
    /// Makes pairs.
    pub static PAIRS = fn bench_pairs(args: PairsArgs) {
        let i = thread::index();
        if i < args.n {
            let number = args.first + i * args.step;
            // SAFETY: one element of each array is this thread's.
            unsafe {
                mem::store(args.keys.add(i as usize), key(number));
                mem::store(args.values.add(i as usize), number);
            }
        }
    }
}
