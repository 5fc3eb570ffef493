//! Kernels that measure what the machine can do at best, for benchmarks to print beside their
//! figures: copy, random gather, random compare-and-exchange.
//!
//! Each random access goes to `mix64(i)`, reduced to the table without a division; tables are
//! meant to be much larger than the L2.

use gpumap_kernels::hash::mix64;
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::{U64x2, kernel, kernel_args, mem, thread};

kernel_args! {
    /// Arguments of the ceilings.
    pub struct CeilingArgs {
        /// `units` units of 16 bytes.
        pub table: *mut U64x2,
        /// How many units the table has.
        pub units: u64,
        /// In or out, by kernel.
        pub other: *mut u64,
        /// How many accesses; one thread each.
        pub n: u64,
    }
}

/// A random unit for access `i`.
///
/// # Safety
/// The table has `units` units, at most 2^32.
#[inline(always)]
unsafe fn random_unit(args: &CeilingArgs, i: u64) -> *mut U64x2 {
    let unit = ((mix64(i) >> 32) * args.units) >> 32;
    args.table.wrapping_add(unit as usize)
}

kernel! {
    /// Copies `n` units from the table to `other`: one unit per thread, one block per tile.
    pub static COPY_16 = fn ceiling_copy_16(args: CeilingArgs) {
        let i = thread::index();
        if i < args.n {
            // SAFETY: both sides have `n` units.
            unsafe { mem::store(args.other.cast::<U64x2>().add(i as usize), mem::load(args.table.add(i as usize))) };
        }
    }
    /// Reads 8 bytes at a random unit, writes 8 bytes in order.
    pub static GATHER_8 = fn ceiling_gather_8(args: CeilingArgs) {
        let i = thread::index();
        if i < args.n {
            // SAFETY: the unit is in the table; `other` has `n` words.
            unsafe {
                let word: u64 = mem::load(random_unit(&args, i).cast());
                mem::store_streaming(args.other.add(i as usize), word);
            }
        }
    }
    /// A 64-bit compare-and-exchange of an empty word at a random unit.
    pub static CAS_64 = fn ceiling_cas_64(args: CeilingArgs) {
        let i = thread::index();
        if i < args.n {
            // SAFETY: the unit is in the table.
            unsafe { atomic::compare_exchange(random_unit(&args, i).cast::<u64>(), !0, i, Relaxed) };
        }
    }
    /// A 64-bit atomic add at a random unit.
    pub static ADD_64 = fn ceiling_add_64(args: CeilingArgs) {
        let i = thread::index();
        if i < args.n {
            // SAFETY: the unit is in the table.
            unsafe { atomic::fetch_add(random_unit(&args, i).cast::<u64>(), i, Relaxed) };
        }
    }
    /// A 128-bit compare-and-exchange of an empty unit.
    #[cfg(any(not(target_arch = "nvptx64"), gpumap_sm90))]
    pub static CAS_128 = fn ceiling_cas_128(args: CeilingArgs) {
        let i = thread::index();
        if i < args.n {
            let (empty, new) = (U64x2::new(!0, !0), U64x2::new(i, i));
            // SAFETY: the unit is in the table.
            unsafe { atomic::compare_exchange(random_unit(&args, i), empty, new, Relaxed) };
        }
    }
}
