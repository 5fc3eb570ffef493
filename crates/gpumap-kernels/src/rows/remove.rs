//! Removals, and rows made dense again.

use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::{U64x2, kernel, kernel_args, layout, mem, thread, warp};

use super::get::find_each;
use super::key::Unit;
use super::slot::{NO_ROW, RowSlot};
use super::string::StringRef;
use super::view::RowView;
use crate::count::add_block_sum;

/// Which rows have no key any more: a bit for each row, of which those beyond the last word are zero.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Removed {
    /// The bits.
    pub bits: *const u32,
    /// Words of them; none if no row was removed.
    pub words: u64,
}
layout!(Removed { bits, words });

impl Removed {
    /// Whether the key of a row was removed.
    ///
    /// # Safety
    /// There are so many words, which nothing writes during the launch.
    #[inline(always)]
    pub unsafe fn has(&self, row: u32) -> bool {
        let word = row / warp::SIZE;
        // SAFETY: the caller's promise.
        u64::from(word) < self.words && unsafe { self.word(word) } >> (row % warp::SIZE) & 1 != 0
    }

    /// Bits of 32 rows.
    ///
    /// # Safety
    /// As for [`has`](Self::has); there is such a word.
    #[inline(always)]
    unsafe fn word(&self, word: u32) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { mem::load_readonly(self.bits.wrapping_add(word as usize)) }
    }
}

kernel_args! {
    /// Arguments of a removal: blocks of [`THREADS`](super::THREADS), a thread for each key. Nothing else runs on the map.
    pub struct RowRemoveArgs {
        /// The map.
        pub view: RowView,
        /// The keys to remove.
        pub batch: *const u8,
        /// How many.
        pub n: u64,
        /// A bit for each row: set where a key is removed.
        pub removed: *mut u32,
        /// Out: for each key its row if this one removed it, else [`NO_ROW`]; may be null.
        pub rows: *mut u32,
        /// Added to: how many keys are removed.
        pub count: *mut u64,
    }
}

kernel_args! {
    /// Arguments of a compaction: a thread for each row.
    pub struct RowCompactArgs {
        /// The keys of all rows, and bytes of a key. Slots are not looked at.
        pub view: RowView,
        /// How many rows.
        pub rows: u64,
        /// Those that are left out.
        pub removed: Removed,
        /// For each word of them how many rows before it are left out, and behind them how many in all.
        pub before: *const u32,
        /// Out: the keys that are not left out, in the order of rows; may be null.
        pub keys: *mut u8,
        /// Out: the rows of these keys; may be null.
        pub old: *mut u32,
    }
}

impl RowCompactArgs {
    /// How many rows before this one are left out.
    ///
    /// # Safety
    /// See [`RowCompactArgs`].
    #[inline(always)]
    unsafe fn gone_before(&self, row: u32) -> u32 {
        let word = row / warp::SIZE;
        // SAFETY: a word, or the end.
        unsafe {
            if u64::from(word) < self.removed.words {
                let before: u32 = mem::load_readonly(self.before.wrapping_add(word as usize));
                let below = (1 << (row % warp::SIZE)) - 1;
                before + (self.removed.word(word) & below).count_ones()
            } else {
                mem::load_readonly(self.before.wrapping_add(self.removed.words as usize))
            }
        }
    }
}

/// The body of the kernels that remove. Of several threads with one key, the one that exchanges its slot counts it.
///
/// # Safety
/// See [`RowRemoveArgs`].
#[inline(always)]
unsafe fn remove<U: Unit>(args: &RowRemoveArgs) {
    let view = &args.view;
    let mut count = 0;
    // SAFETY: keys of the batch, the slot of a key, and a bit of its row; all threads of the block come to the sum.
    unsafe {
        find_each::<U>(view, args.batch, args.n, |i, hash, found| {
            let mut gone = NO_ROW;
            if found.row != NO_ROW {
                let held = RowSlot::row_of(hash.tag(), found.row);
                let there = view.exchange(found.at, held, RowSlot::TOMBSTONE);
                if there == held {
                    let (word, bit) = (found.row / warp::SIZE, found.row % warp::SIZE);
                    atomic::fetch_or(args.removed.wrapping_add(word as usize), 1 << bit, Relaxed);
                    count += 1;
                    gone = found.row;
                }
            }
            if !args.rows.is_null() {
                mem::store(args.rows.wrapping_add(i as usize), gone);
            }
        });
        add_block_sum(args.count, count);
    }
}

/// The body of the kernels that compact.
///
/// # Safety
/// See [`RowCompactArgs`].
#[inline(always)]
unsafe fn compact<U: Unit>(args: &RowCompactArgs) {
    let row = thread::index();
    if row >= args.rows {
        return;
    }
    let row = row as u32;
    // SAFETY: a row, and the place that is its alone.
    unsafe {
        if args.removed.has(row) {
            return;
        }
        let new = row - args.gone_before(row);
        if !args.keys.is_null() {
            let dense = RowView {
                keys: args.keys,
                ..args.view
            };
            dense.write_key(new, args.view.key::<U>(row).cast_const());
        }
        if !args.old.is_null() {
            mem::store(args.old.wrapping_add(new as usize), row);
        }
    }
}

kernel! {
    /// Removes keys in units of 4 bytes.
    pub static ROW_REMOVE_4 = fn row_remove_4(args: RowRemoveArgs) by block {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { remove::<u32>(&args) }
    }
    /// Removes keys in units of 8 bytes.
    pub static ROW_REMOVE_8 = fn row_remove_8(args: RowRemoveArgs) by block {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { remove::<u64>(&args) }
    }
    /// Removes keys in units of 16 bytes.
    pub static ROW_REMOVE_16 = fn row_remove_16(args: RowRemoveArgs) by block {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { remove::<U64x2>(&args) }
    }
    /// Removes strings.
    pub static ROW_REMOVE_STRING = fn row_remove_string(args: RowRemoveArgs) by block {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { remove::<StringRef>(&args) }
    }
    /// Makes rows dense, of keys in units of 4 bytes.
    pub static ROW_COMPACT_4 = fn row_compact_4(args: RowCompactArgs) by thread {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { compact::<u32>(&args) }
    }
    /// Makes rows dense, of keys in units of 8 bytes.
    pub static ROW_COMPACT_8 = fn row_compact_8(args: RowCompactArgs) by thread {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { compact::<u64>(&args) }
    }
    /// Makes rows dense, of keys in units of 16 bytes.
    pub static ROW_COMPACT_16 = fn row_compact_16(args: RowCompactArgs) by thread {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { compact::<U64x2>(&args) }
    }
}
