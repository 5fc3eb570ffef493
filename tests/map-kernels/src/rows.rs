//! Lookups in row maps, and counts at the rows.

use gpumap_kernels::rows::{NO_ROW, RowRef};
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::{kernel, kernel_args, mem, thread};

kernel_args! {
    /// Arguments of the lookups: a lane for each key.
    pub struct RowsArgs<K> {
        /// The map.
        pub map: RowRef<K>,
        /// Keys; may repeat.
        pub keys: *const K,
        /// How many.
        pub len: u64,
        /// Out: the row of each key, or [`NO_ROW`]; `NO_ROW - 1` where the key of the row has another one.
        pub rows: *mut u32,
        /// Added to, for each row: how many keys have it.
        pub counts: *mut u32,
    }
}

impl<K: Copy> RowsArgs<K> {
    /// # Safety
    /// As the arguments say.
    #[inline(always)]
    unsafe fn run(&self) {
        let i = thread::index();
        if i >= self.len {
            return;
        }
        // SAFETY: below the length; the map was lent to this launch, and there is a count for each row.
        unsafe {
            let key = self.keys.wrapping_add(i as usize).read();
            let mut told = NO_ROW;
            if let Some(row) = self.map.get(key) {
                let is_below = u64::from(row) < self.map.row_bound();
                let is_its_own = is_below && self.map.get(self.map.key(row)) == Some(row);
                told = if is_its_own { row } else { NO_ROW - 1 };
                if is_its_own {
                    atomic::fetch_add(self.counts.wrapping_add(row as usize), 1, Relaxed);
                }
            }
            mem::store(self.rows.wrapping_add(i as usize), told);
        }
    }
}

kernel! {
    /// Lookups of keys of 4 bytes.
    pub static ROWS_4 = fn row_ref_4(args: RowsArgs<u32>) by thread {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { args.run() }
    }
    /// Lookups of keys of 8 bytes.
    pub static ROWS_8 = fn row_ref_8(args: RowsArgs<u64>) by thread {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { args.run() }
    }
    /// Lookups of keys of 12 bytes.
    pub static ROWS_12 = fn row_ref_12(args: RowsArgs<[u32; 3]>) by thread {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { args.run() }
    }
    /// Lookups of keys of 64 bytes.
    pub static ROWS_64 = fn row_ref_64(args: RowsArgs<[u64; 8]>) by thread {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { args.run() }
    }
}
