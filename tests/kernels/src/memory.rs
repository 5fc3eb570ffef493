//! Shared memory, and loads and stores of every width and hint.

use crate::RowArgs;
use gpumap_simt::mem::{self, Vector};
use gpumap_simt::{U32x4, U64x2, kernel, kernel_args, shared, shared_array, thread};

/// Threads per block of [`SHARED`].
pub const SHARED_THREADS: u32 = 128;
/// Bytes of dynamic shared memory of [`SHARED`].
pub const SHARED_BYTES: u32 = SHARED_THREADS * 8;
/// Results per thread of [`SHARED`].
pub const SHARED_ROW: u32 = 3;

kernel! {
    /// Two static arrays and the dynamic one, each through a barrier to another thread.
    pub static SHARED = fn facade_shared(args: RowArgs) {
        let threads = SHARED_THREADS as usize;
        let words = shared_array![u64; SHARED_THREADS as usize];
        let halves = shared_array![u32; SHARED_THREADS as usize];
        let dynamic = shared::dynamic_shared_mem::<u64>();
        let t = thread::thread_idx_x() as usize;
        // SAFETY: one block of that many threads; each writes its own places, and reads those
        // of others after the barrier only.
        unsafe {
            let v = args.word();
            *words.add(t) = v;
            *halves.add(t) = v as u32;
            *dynamic.add(t) = !v;
            thread::sync_threads();
            args.put(0, *words.add(threads - 1 - t));
            args.put(1, u64::from(*halves.add((t + 1) % threads)));
            args.put(2, *dynamic.add(t ^ 1));
        }
    }
}

kernel_args! {
    /// Arguments of [`COPIES`].
    pub struct CopyArgs {
        /// In: 30 sections of `units` units of 16 bytes.
        pub from: *const U64x2,
        /// Out: the same.
        pub to: *mut U64x2,
        /// Units per section.
        pub units: u64,
    }
}

/// Sections of [`COPIES`]: five widths, three kinds of load, two of store.
pub const SECTIONS: u64 = 30;

/// Copies six sections as elements of `T`, each with another pair of hints.
///
/// # Safety
/// See [`CopyArgs`]; `width` is below 5.
#[inline(always)]
unsafe fn copy<T: Vector>(args: &CopyArgs, width: u64) {
    let per_unit = 16 / size_of::<T>();
    let len = args.units as usize * per_unit;
    let at = |section: u64| (width * 6 + section) as usize * args.units as usize * per_unit;
    let (from, to) = (args.from.cast::<T>(), args.to.cast::<T>());
    let mut i = thread::index() as usize;
    while i < len {
        // SAFETY: `i` is in each of the sections; nothing else writes there.
        unsafe {
            mem::store(to.add(at(0) + i), mem::load(from.add(at(0) + i)));
            mem::store(to.add(at(1) + i), mem::load_streaming(from.add(at(1) + i)));
            mem::store(to.add(at(2) + i), mem::load_readonly(from.add(at(2) + i)));
            mem::store_streaming(to.add(at(3) + i), mem::load(from.add(at(3) + i)));
            mem::store_streaming(to.add(at(4) + i), mem::load_streaming(from.add(at(4) + i)));
            mem::store_streaming(to.add(at(5) + i), mem::load_readonly(from.add(at(5) + i)));
        }
        i += thread::grid_threads() as usize;
    }
}

kernel! {
    /// Copies through every width and hint.
    pub static COPIES = fn facade_copies(args: CopyArgs) {
        // SAFETY: passed on.
        unsafe {
            copy::<u8>(&args, 0);
            copy::<u32>(&args, 1);
            copy::<u64>(&args, 2);
            copy::<U64x2>(&args, 3);
            copy::<U32x4>(&args, 4);
        }
    }
}
