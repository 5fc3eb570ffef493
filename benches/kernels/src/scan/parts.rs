//! Walking over a part tile by tile: the kernels of all rungs that scan one element a thread.

use super::{BlockScan, HillisSteele, Padded, ScanArgs, Shuffles, Staged, TILE, Warps};
use gpumap_simt::{kernel, mem, thread};

/// Scans the block's part.
///
/// # Safety
/// See [`ScanArgs`].
#[inline(always)]
unsafe fn scan_part<S: BlockScan>(args: &ScanArgs) {
    let (begin, end) = args.part();
    let t = thread::thread_idx_x();
    // SAFETY: elements are below `end`. The loop is the same for all threads of the block, so all
    // of them reach each scan and each barrier; the barrier keeps a tile's shared memory from
    // being written while some still read what the tile before left there.
    unsafe {
        let mut carry = args.before();
        let mut tile = begin;
        while tile < end {
            let i = tile + u64::from(t);
            let mut x = 0;
            if i < end {
                x = mem::load(args.input.add(i as usize));
            }
            let (up_to, all) = S::scan(x);
            if i < end {
                mem::store(args.output.add(i as usize), carry.wrapping_add(up_to));
            }
            carry = carry.wrapping_add(all);
            tile += u64::from(TILE);
            thread::sync_threads();
        }
        if t == 0 {
            args.put_sum(carry);
        }
    }
}

macro_rules! part_kernels {
    ($($(#[$doc:meta])* $NAME:ident $name:ident: $scan:ty;)*) => {
        kernel! {$(
            $(#[$doc])*
            pub static $NAME = fn $name(args: ScanArgs) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { scan_part::<$scan>(&args) }
            }
        )*}
    };
}

part_kernels! {
    /// One thread scans the tile in shared memory.
    SCAN_STAGED ladder_scan_staged: Staged;
    /// One thread per warp.
    SCAN_WARPS ladder_scan_warps: Warps;
    /// All lanes, in steps in shared memory.
    SCAN_HILLIS_STEELE ladder_scan_hillis_steele: HillisSteele;
    /// The same without branches and bank conflicts.
    SCAN_PADDED ladder_scan_padded: Padded;
    /// By shuffles.
    SCAN_SHUFFLES ladder_scan_shuffles: Shuffles;
}
