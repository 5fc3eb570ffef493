//! Rung 10: four elements a thread, one load and one store of 16 bytes.

use super::{BlockScan, ScanArgs, Shuffles, TILE};
use gpumap_simt::{U32x4, kernel, mem, thread};

/// Elements per vector, which is what a thread has of a tile.
pub const PER_VECTOR: u32 = 4;

/// Elements `i` to `i + 3`, with zeros from `end` on.
///
/// # Safety
/// `i` is a multiple of 4 from an address that is one of 16, and what is below `end` can be read.
#[inline(always)]
pub(super) unsafe fn load(from: *const u32, i: u64, end: u64) -> U32x4 {
    let at = from.wrapping_add(i as usize);
    let mut four = U32x4([0; 4]);
    // SAFETY: the caller's promise; elements are below `end`.
    unsafe {
        if i + 4 <= end {
            four = mem::load(at.cast());
        } else {
            let mut k = 0;
            while k < 4 {
                if i + (k as u64) < end {
                    four.0[k] = mem::load(at.add(k));
                }
                k += 1;
            }
        }
    }
    four
}

/// The inverse of [`load`]: nothing is written from `end` on.
///
/// # Safety
/// As for [`load`]; memory below `end` can be written, and no other thread accesses it.
#[inline(always)]
unsafe fn store(to: *mut u32, i: u64, end: u64, four: U32x4) {
    let at = to.wrapping_add(i as usize);
    // SAFETY: the caller's promise; elements are below `end`.
    unsafe {
        if i + 4 <= end {
            mem::store(at.cast(), four);
        } else {
            let mut k = 0;
            while k < 4 {
                if i + (k as u64) < end {
                    mem::store(at.add(k), four.0[k]);
                }
                k += 1;
            }
        }
    }
}

kernel! {
    /// Scans each part, four elements a thread: each thread scans its own four in registers, the
    /// block scans the threads' sums by shuffles.
    pub static SCAN_VECTORS = fn ladder_scan_vectors(args: ScanArgs) {
        let (begin, end) = args.part();
        let t = thread::thread_idx_x();
        // SAFETY: as for the kernels of one element a thread.
        unsafe {
            let mut carry = args.before();
            let mut tile = begin;
            while tile < end {
                let i = tile + u64::from(t * PER_VECTOR);
                let U32x4([a, b, c, d]) = load(args.input, i, end);
                let b = a.wrapping_add(b);
                let c = b.wrapping_add(c);
                let d = c.wrapping_add(d);
                let (up_to, all) = Shuffles::scan(d);
                let before = carry.wrapping_add(up_to).wrapping_sub(d);
                let scanned = [a, b, c, d].map(|x| before.wrapping_add(x));
                store(args.output, i, end, U32x4(scanned));
                carry = carry.wrapping_add(all);
                tile += u64::from(TILE * PER_VECTOR);
                thread::sync_threads();
            }
            if t == 0 {
                args.put_sum(carry);
            }
        }
    }
}
