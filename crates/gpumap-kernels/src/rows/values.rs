//! Values of 4 or 8 bytes by row: stored, merged, looked up.

use gpumap_simt::atomic::part::{self, Update};
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::{kernel, kernel_args, mem, thread};

use super::slot::NO_ROW;
use super::wide_ref::{WideValue, word_of};

/// Of an update: it is of rows that are new.
pub const NEW_ROWS: u32 = 1 << 1;

/// Of an update: it is of rows that are not new.
pub const OTHER_ROWS: u32 = 1;

kernel_args! {
    /// Arguments of an update: a thread for each key of a batch whose rows are known. Nothing else runs on the values.
    pub struct RowUpdateArgs {
        /// The value of row 0: aligned to 16 bytes, and behind the last one there is room up to a multiple of them.
        pub table: *mut u8,
        /// For each key its row, or [`NO_ROW`], which is left out.
        pub rows: *const u32,
        /// For each key not 0 if the row is new, one of each new row; may be null: then no row is.
        pub new: *const u8,
        /// For each key its value; may be null: then all have the same one.
        pub values: *const u8,
        /// Out: for each key the value of its row just before; may be null, and is if rows may be new.
        pub old: *mut u8,
        /// Out: for each key 1 if it has a row, else 0; may be null.
        pub found: *mut u8,
        /// The value of all keys, as bits.
        pub value: u64,
        /// What `old` is for keys without a row, as bits.
        pub default: u64,
        /// How many keys.
        pub n: u64,
        /// Which rows are updated: [`NEW_ROWS`], [`OTHER_ROWS`] or both.
        pub which: u32,
        /// Rows from this one on are updated only where they are said to be new.
        pub first_new: u32,
        /// How those of other rows are; a new row gets the value.
        pub update: Update,
    }
}

kernel_args! {
    /// Arguments of a gather: a thread for each key.
    pub struct RowGatherArgs {
        /// The value of row 0.
        pub table: *const u8,
        /// For each key its row, or [`NO_ROW`].
        pub rows: *const u32,
        /// Out: for each key the value of its row; may be null.
        pub values: *mut u8,
        /// Out: for each key 1 if it has a row, else 0; may be null.
        pub found: *mut u8,
        /// The value of keys without a row, as bits.
        pub default: u64,
        /// How many keys.
        pub n: u64,
    }
}

/// A value, as its bits.
trait Bits: WideValue + mem::Vector {
    /// The low bits of a word.
    fn of(bits: u64) -> Self;
}

impl Bits for u32 {
    #[inline(always)]
    fn of(bits: u64) -> Self {
        bits as u32
    }
}

impl Bits for u64 {
    #[inline(always)]
    fn of(bits: u64) -> Self {
        bits
    }
}

/// Serves the key of this thread, if there is one, and natively those of all threads of the block. `serve` is told each
/// key's place and row.
///
/// # Safety
/// There are `n` rows, which nothing writes during the launch.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn each<V>(table: *const u8, rows: *const u32, n: u64, mut serve: impl FnMut(usize, u32)) {
    // SAFETY: a key of the batch.
    let row_of = |i: u32| unsafe { mem::load_readonly(rows.wrapping_add(i as usize)) };
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::is_here() {
        let fetch = |i| {
            let row = row_of(i);
            if row != NO_ROW {
                gpumap_simt::native::prefetch(table.cast::<V>().wrapping_add(row as usize));
            }
            row
        };
        return super::upkeep::in_block(n, fetch, |i, row, _| serve(i as usize, row));
    }
    #[cfg(target_arch = "nvptx64")]
    let _ = table;
    let i = thread::index();
    if i < n {
        serve(i as usize, row_of(i as u32));
    }
}

/// The body of the kernels that update.
///
/// # Safety
/// See [`RowUpdateArgs`].
#[inline(always)]
unsafe fn update<V: Bits>(args: &RowUpdateArgs) {
    let serve = |i: usize, row: u32| {
        // SAFETY: a place of the batch, and a value of the table.
        unsafe {
            let mut old = V::of(args.default);
            if row != NO_ROW {
                let is_new = !args.new.is_null() && mem::load(args.new.wrapping_add(i)) != 0;
                let is_left_out = !is_new && row >= args.first_new;
                if args.which >> u32::from(is_new) & 1 != 0 && !is_left_out {
                    let value = if args.values.is_null() {
                        V::of(args.value)
                    } else {
                        mem::load_streaming(args.values.cast::<V>().wrapping_add(i))
                    };
                    let (word, at) = word_of::<V>(args.table, row);
                    if is_new {
                        // What was there is of no key. Of a new row's threads one comes here.
                        let value_at = args.table.cast::<V>().wrapping_add(row as usize);
                        atomic::store(value_at, value, Relaxed);
                    } else if args.old.is_null() {
                        part::update_part(word, at, args.update, value);
                    } else {
                        old = part::fetch_update_part(word, at, args.update, value);
                    }
                }
            }
            if !args.old.is_null() {
                mem::store(args.old.cast::<V>().wrapping_add(i), old);
            }
            if !args.found.is_null() {
                mem::store(args.found.wrapping_add(i), u8::from(row != NO_ROW));
            }
        }
    };
    // SAFETY: passed on.
    unsafe { each::<V>(args.table, args.rows, args.n, serve) };
}

/// The body of the kernels that gather.
///
/// # Safety
/// See [`RowGatherArgs`].
#[inline(always)]
unsafe fn gather<V: Bits>(args: &RowGatherArgs) {
    let serve = |i: usize, row: u32| {
        // SAFETY: a place of the batch, and a value of the table, which nothing writes during the launch.
        unsafe {
            if !args.values.is_null() {
                let value = if row == NO_ROW {
                    V::of(args.default)
                } else {
                    mem::load(args.table.cast::<V>().wrapping_add(row as usize))
                };
                mem::store(args.values.cast::<V>().wrapping_add(i), value);
            }
            if !args.found.is_null() {
                mem::store(args.found.wrapping_add(i), u8::from(row != NO_ROW));
            }
        }
    };
    // SAFETY: passed on.
    unsafe { each::<V>(args.table, args.rows, args.n, serve) };
}

kernel! {
    /// Updates values of 4 bytes.
    pub static ROW_UPDATE_4 = fn row_update_4(args: RowUpdateArgs) by block {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { update::<u32>(&args) }
    }
    /// Updates values of 8 bytes.
    pub static ROW_UPDATE_8 = fn row_update_8(args: RowUpdateArgs) by block {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { update::<u64>(&args) }
    }
    /// Gathers values of 4 bytes.
    pub static ROW_GATHER_4 = fn row_gather_4(args: RowGatherArgs) by block {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { gather::<u32>(&args) }
    }
    /// Gathers values of 8 bytes.
    pub static ROW_GATHER_8 = fn row_gather_8(args: RowGatherArgs) by block {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { gather::<u64>(&args) }
    }
}
