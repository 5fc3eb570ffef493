//! Lookups: the row of each key.

use gpumap_simt::{U64x2, kernel, kernel_args, mem, thread};

use super::key::{Hash, Unit};
use super::slot::NO_ROW;
use super::string::StringRef;
#[cfg(not(target_arch = "nvptx64"))]
use super::view::BUCKET_SLOTS;
use super::view::{Found, RowView};
use crate::count::add_block_sum;

kernel_args! {
    /// Arguments of a lookup: blocks of [`THREADS`](super::THREADS), a thread for each key. Claims may run beside it, but
    /// no commit.
    pub struct RowGetArgs {
        /// The map.
        pub view: RowView,
        /// The keys asked for.
        pub batch: *const u8,
        /// How many.
        pub n: u64,
        /// Out: for each key its row, or [`NO_ROW`]; may be null.
        pub rows: *mut u32,
        /// Added to: how many keys have none; may be null.
        pub absent: *mut u64,
    }
}

/// Finds a key.
///
/// # Safety
/// The view is of a live map; `hash` is that of the key, which nothing writes during the launch.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(super) unsafe fn find<U: Unit>(view: &RowView, key: *const U, hash: Hash) -> Found {
    // SAFETY: a row that was committed has a key.
    let is_key_of = |row| unsafe { view.are_equal(view.key::<U>(row).cast_const(), key) };
    // SAFETY: passed on.
    unsafe { view.find(hash, is_key_of) }
}

/// Finds the key of this thread, if there is one, and natively those of all threads of the block; `serve` is told each
/// key's place, its hash, and what was found.
///
/// # Safety
/// The view is of a live map, `n` keys lie in the batch, and nothing writes them during the launch.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(super) unsafe fn find_each<U: Unit>(
    view: &RowView,
    batch: *const u8,
    n: u64,
    mut serve: impl FnMut(u32, Hash, Found),
) {
    // SAFETY: keys of the batch.
    let hashed = |i: u32| unsafe {
        let key = view.key_in::<U>(batch, i);
        (key, view.hash(key))
    };
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::is_here() {
        let fetch = |i| {
            let (_, hash) = hashed(i);
            gpumap_simt::native::prefetch(view.slot(hash.home(view.buckets) * BUCKET_SLOTS));
            hash
        };
        // The key of the first slot with its tag, as a rule its own.
        // SAFETY: slots of the map.
        let pass = |hash: Hash| unsafe {
            let seen = view.bucket(hash.home(view.buckets));
            let alike = seen.which(|slot| slot.tag() == hash.tag());
            if alike != 0 {
                let row = seen.slot(alike.trailing_zeros()).number();
                gpumap_simt::native::prefetch(view.key::<U>(row));
            }
        };
        return super::upkeep::in_block_by_way_of(n, fetch, pass, |i, hash, _| {
            let key = view.key_in::<U>(batch, i);
            // SAFETY: as above.
            serve(i, hash, unsafe { find(view, key, hash) });
        });
    }
    let i = thread::index();
    if i < n {
        let (key, hash) = hashed(i as u32);
        // SAFETY: as above.
        serve(i as u32, hash, unsafe { find(view, key, hash) });
    }
}

/// The body of the kernels.
///
/// # Safety
/// See [`RowGetArgs`].
#[inline(always)]
unsafe fn get<U: Unit>(args: &RowGetArgs) {
    let mut absent = 0;
    let answer = |i: u32, _: Hash, found: Found| {
        absent += u32::from(found.row == NO_ROW);
        if !args.rows.is_null() {
            // SAFETY: a place for each key.
            unsafe { mem::store(args.rows.wrapping_add(i as usize), found.row) };
        }
    };
    // SAFETY: passed on.
    unsafe { find_each::<U>(&args.view, args.batch, args.n, answer) };
    if !args.absent.is_null() {
        // SAFETY: all threads of the block come here, and the word is the launch's.
        unsafe { add_block_sum(args.absent, absent) };
    }
}

kernel! {
    /// Looks up keys in units of 4 bytes.
    pub static ROW_GET_4 = fn row_get_4(args: RowGetArgs) by block {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { get::<u32>(&args) }
    }
    /// Looks up keys in units of 8 bytes.
    pub static ROW_GET_8 = fn row_get_8(args: RowGetArgs) by block {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { get::<u64>(&args) }
    }
    /// Looks up keys in units of 16 bytes.
    pub static ROW_GET_16 = fn row_get_16(args: RowGetArgs) by block {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { get::<U64x2>(&args) }
    }
    /// Looks up strings.
    pub static ROW_GET_STRING = fn row_get_string(args: RowGetArgs) by block {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { get::<StringRef>(&args) }
    }
}
