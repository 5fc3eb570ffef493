//! The third launch of scan-then-fan: every element gets what is before its part.

use super::ScanArgs;
use gpumap_simt::{kernel, mem, thread};

kernel! {
    /// Adds to each element of `output` the sum of the parts before its own, which is in `before`.
    pub static FAN = fn ladder_scan_fan(args: ScanArgs) {
        let (begin, end) = args.part();
        // SAFETY: `i` is in the block's own part.
        unsafe {
            let before = args.before();
            let mut i = begin + u64::from(thread::thread_idx_x());
            while i < end {
                let at = args.output.add(i as usize);
                mem::store(at, mem::load(at.cast_const()).wrapping_add(before));
                i += u64::from(thread::block_dim_x());
            }
        }
    }
}
