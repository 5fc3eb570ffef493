//! Second pass of an insert: claims become rows.

use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::{U64x2, kernel, kernel_args, mem, thread, warp};

use super::key::Unit;
use super::slot::RowSlot;
use super::view::RowView;

kernel_args! {
    /// Arguments of a commit: a thread for each key of a batch that was [claimed](super::RowClaimArgs) for. Nothing else
    /// runs on the map.
    pub struct RowCommitArgs {
        /// The slots with the claims, and room for the new keys; the keys may be null if they are not wanted.
        pub view: RowView,
        /// The keys of the batch.
        pub batch: *const u8,
        /// How many.
        pub n: u64,
        /// For each key its slot.
        pub found: *const u32,
        /// For each key whether it is an owner.
        pub owners: *const u32,
        /// For each word of owners how many come before it.
        pub ranks: *const u32,
        /// The row of the first owner.
        pub first_row: u32,
        /// Not 0: slots get their rows. Else nothing looks at them any more.
        pub publish: u32,
        /// Out: for each key its row; may be null.
        pub rows: *mut u32,
        /// Out: for each key 1 if it is an owner, else 0; may be null.
        pub new: *mut u8,
        /// Out: for each row, from `first_row` on, the place of its owner; may be null.
        pub first: *mut u32,
    }
}

impl RowCommitArgs {
    /// The row of an owner.
    ///
    /// # Safety
    /// See [`RowCommitArgs`]; the place is an owner's.
    #[inline(always)]
    unsafe fn row_of(&self, place: u32) -> u32 {
        let (word, bit) = ((place / warp::SIZE) as usize, place % warp::SIZE);
        // SAFETY: a word of the batch.
        unsafe {
            let owners: u32 = mem::load_readonly(self.owners.wrapping_add(word));
            let before: u32 = mem::load_readonly(self.ranks.wrapping_add(word));
            self.first_row + before + (owners & ((1 << bit) - 1)).count_ones()
        }
    }

    /// Whether a place is an owner.
    ///
    /// # Safety
    /// See [`RowCommitArgs`]; the place is below `n`.
    #[inline(always)]
    unsafe fn owns(&self, place: u32) -> bool {
        let word = (place / warp::SIZE) as usize;
        // SAFETY: a word of the batch.
        let owners: u32 = unsafe { mem::load_readonly(self.owners.wrapping_add(word)) };
        owners >> (place % warp::SIZE) & 1 != 0
    }

    /// Commits the key at a place.
    ///
    /// # Safety
    /// See [`RowCommitArgs`]; the place is below `n`, and one thread's.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn place<U: Unit>(&self, i: u32) {
        let place = i as usize;
        let view = &self.view;
        // SAFETY: keys, slots and rows of the arguments; each row is its owner's.
        unsafe {
            let owns = self.owns(i);
            let mut row = 0;
            if owns {
                row = self.row_of(i);
                let key = view.key_in::<U>(self.batch, i);
                if !view.keys.is_null() {
                    view.write_key(row, key);
                }
                if self.publish != 0 {
                    let slot = RowSlot::row_of(view.hash(key).tag(), row);
                    let at: u32 = mem::load_readonly(self.found.wrapping_add(place));
                    atomic::store(view.slot(at), slot.bits(), Relaxed);
                }
                if !self.first.is_null() {
                    mem::store(self.first.wrapping_add((row - self.first_row) as usize), i);
                }
            } else if !self.rows.is_null() {
                // Before its owner has written the row there, or after.
                let held = view.load(mem::load_readonly(self.found.wrapping_add(place)));
                row = if held.has_no_row() {
                    self.row_of(held.number())
                } else {
                    held.number()
                };
            }
            if !self.rows.is_null() {
                mem::store(self.rows.wrapping_add(place), row);
            }
            if !self.new.is_null() {
                mem::store(self.new.wrapping_add(place), u8::from(owns));
            }
        }
    }
}

/// The body of the kernels.
///
/// # Safety
/// See [`RowCommitArgs`].
#[inline(always)]
unsafe fn commit<U: Unit>(args: &RowCommitArgs) {
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::is_here() {
        let fetch = |i: u32| {
            // SAFETY: a place of the batch.
            let at: u32 = unsafe { mem::load_readonly(args.found.wrapping_add(i as usize)) };
            gpumap_simt::native::prefetch(args.view.slot(at));
        };
        // SAFETY: as below.
        return super::upkeep::in_block(args.n, fetch, |i, (), _| unsafe { args.place::<U>(i) });
    }
    let i = thread::index();
    if i < args.n {
        // SAFETY: passed on; a place of the batch.
        unsafe { args.place::<U>(i as u32) };
    }
}

kernel! {
    /// Commits keys in units of 4 bytes.
    pub static ROW_COMMIT_4 = fn row_commit_4(args: RowCommitArgs) by block {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { commit::<u32>(&args) }
    }
    /// Commits keys in units of 8 bytes.
    pub static ROW_COMMIT_8 = fn row_commit_8(args: RowCommitArgs) by block {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { commit::<u64>(&args) }
    }
    /// Commits keys in units of 16 bytes.
    pub static ROW_COMMIT_16 = fn row_commit_16(args: RowCommitArgs) by block {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { commit::<U64x2>(&args) }
    }
}
