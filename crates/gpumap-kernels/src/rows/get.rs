//! Lookups: the row of each key.

use gpumap_simt::{U64x2, kernel, kernel_args, mem, thread};

use super::key::{Hash, Unit};
use super::slot::{NO_ROW, RowSlot};
#[cfg(not(target_arch = "nvptx64"))]
use super::view::BUCKET_SLOTS;
use super::view::RowView;
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

/// The row of a key, or [`NO_ROW`]. A claim is no row: the insert that made it has not ended.
///
/// # Safety
/// The view is of a live map; `hash` is that of the key, which nothing writes during the launch.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn look_up<U: Unit>(view: &RowView, key: *const U, hash: Hash) -> u32 {
    let tag = hash.tag();
    let mut bucket = hash.home(view.buckets);
    // The loop ends: there is an empty slot.
    // SAFETY: slots of the map, and rows that were committed.
    unsafe {
        loop {
            let seen = view.bucket(bucket);
            let mut left = seen.which(|slot| slot.tag() == tag && !slot.has_no_row());
            while left != 0 {
                let row = seen.slot(left.trailing_zeros()).number();
                if view.are_equal(view.key::<U>(row).cast_const(), key) {
                    return row;
                }
                left &= left - 1;
            }
            if seen.which(|slot| slot == RowSlot::EMPTY) != 0 {
                return NO_ROW;
            }
            bucket = view.next(bucket);
        }
    }
}

/// The body of the kernels.
///
/// # Safety
/// See [`RowGetArgs`].
#[inline(always)]
unsafe fn get<U: Unit>(args: &RowGetArgs) {
    let view = &args.view;
    let mut absent = 0;
    let mut answer = |i: u32, row: u32| {
        absent += u32::from(row == NO_ROW);
        if !args.rows.is_null() {
            // SAFETY: a place for each key.
            unsafe { mem::store(args.rows.wrapping_add(i as usize), row) };
        }
    };
    // SAFETY: keys of the batch.
    let hashed = |i: u32| unsafe {
        let key = view.key_in::<U>(args.batch, i);
        (key, view.hash(key))
    };
    #[cfg(not(target_arch = "nvptx64"))]
    let is_native = crate::native::is_here();
    #[cfg(target_arch = "nvptx64")]
    let is_native = false;
    if is_native {
        #[cfg(not(target_arch = "nvptx64"))]
        {
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
            super::upkeep::in_block_by_way_of(args.n, fetch, pass, |i, hash, _| {
                let key = view.key_in::<U>(args.batch, i);
                // SAFETY: as above.
                answer(i, unsafe { look_up(view, key, hash) });
            });
        }
    } else {
        let i = thread::index();
        if i < args.n {
            let (key, hash) = hashed(i as u32);
            // SAFETY: as above.
            answer(i as u32, unsafe { look_up(view, key, hash) });
        }
    }
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
}
