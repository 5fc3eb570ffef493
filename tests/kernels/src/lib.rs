//! Kernels that exercise the facade itself: every collective, tile, atomic, kind of shared
//! memory and width of load, one group per kernel.
//!
//! Each thread writes what it got to its own row of `out`, and the host compares with plain
//! Rust. They are kernels of a crate of their own with PTX of its own, which is also how a
//! user's kernels are loaded on a device.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]

pub mod aggregate;
pub mod atomics;
pub mod collectives;
pub mod litmus;
pub mod memory;
pub mod tiles;

use gpumap_simt::{kernel_args, thread};

kernel_args! {
    /// One input word per thread, one row of results per thread.
    pub struct RowArgs {
        /// In: a word per thread.
        pub input: *const u64,
        /// Out: `row` words per thread.
        pub out: *mut u64,
        /// Words per row.
        pub row: u32,
    }
}

impl RowArgs {
    /// The calling thread's input.
    ///
    /// # Safety
    /// There is a word for every thread of the grid.
    #[inline(always)]
    unsafe fn word(&self) -> u64 {
        // SAFETY: passed on.
        unsafe { gpumap_simt::mem::load(self.input.add(thread::index() as usize)) }
    }

    /// Writes result `i` of the calling thread.
    ///
    /// # Safety
    /// There is a row for every thread of the grid, and `i < row`.
    #[inline(always)]
    unsafe fn put(&self, i: u32, result: u64) {
        let at = thread::index() as usize * self.row as usize + i as usize;
        // SAFETY: in the thread's own row.
        unsafe { gpumap_simt::mem::store(self.out.add(at), result) };
    }
}
