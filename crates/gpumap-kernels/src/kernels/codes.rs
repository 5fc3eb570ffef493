//! How many operations of a mixed batch may store a pair.

use crate::count::Counters;
use crate::verbs::mixed::operation::may_store;
use gpumap_simt::{kernel, kernel_args, mem, thread};

/// Threads per block.
pub const THREADS: u32 = 256;

/// Codes that a block looks at.
pub const CODES: u32 = 32 * THREADS;

kernel_args! {
    /// Arguments of [`COUNT_STORES`]: one block of [`THREADS`] for every [`CODES`] codes.
    pub struct CountStoresArgs {
        /// `n` codes of operations.
        pub codes: *const u8,
        /// How many.
        pub n: u64,
        /// Those that may store a pair.
        pub stores: Counters,
    }
}

kernel! {
    /// Counts the operations that may store a pair.
    pub static COUNT_STORES = fn count_stores(args: CountStoresArgs) by block {
        let first = u64::from(thread::block_idx_x()) * u64::from(CODES);
        #[cfg(not(target_arch = "nvptx64"))]
        if crate::native::is_here() {
            let len = args.n.saturating_sub(first).min(u64::from(CODES));
            // SAFETY: below `n`; the block reaches the count.
            unsafe {
                let codes = core::slice::from_raw_parts(args.codes.add(first as usize), len as usize);
                let stores = codes.iter().filter(|&&code| may_store(code)).count();
                return args.stores.add_from_block(stores as u32);
            }
        }
        let mut i = first + u64::from(thread::thread_idx_x());
        let mut stores = 0;
        let mut r = 0;
        while r < CODES / THREADS {
            if i < args.n {
                // SAFETY: below `n`.
                let code = unsafe { mem::load_readonly(args.codes.add(i as usize)) };
                stores += u32::from(may_store(code));
            }
            i += u64::from(THREADS);
            r += 1;
        }
        // SAFETY: all threads of all blocks come here.
        unsafe { args.stores.add_from_block(stores) };
    }
}
