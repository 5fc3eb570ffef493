//! Rung 1: a block is one thread, which adds its part up where it lies.

use super::ScanArgs;
use gpumap_simt::{kernel, mem};

kernel! {
    /// Scans each part by one thread. The other 31 lanes of its warp do nothing, and each load
    /// waits for the one before it.
    pub static ONE_THREAD = fn ladder_scan_one_thread(args: ScanArgs) {
        let (begin, end) = args.part();
        // SAFETY: `begin <= i < end <= n`, and the part is this thread's own.
        unsafe {
            let mut sum = args.before();
            let mut i = begin;
            while i < end {
                sum = sum.wrapping_add(mem::load(args.input.add(i as usize)));
                mem::store(args.output.add(i as usize), sum);
                i += 1;
            }
            args.put_sum(sum);
        }
    }
}
