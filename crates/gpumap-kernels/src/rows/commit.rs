//! Second pass of an insert: claims become rows.

use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::{U64x2, kernel, kernel_args, mem, thread, warp};

use super::key::Unit;
use super::slot::{NO_SLOT, RowSlot};
use super::string::StringRef;
use super::view::{BUCKET_SLOTS, RowView};

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
        /// For each key its slot, or [`NO_SLOT`] if its row has been told.
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

    /// The row of a slot that is not empty: that of its claim, if it still has that.
    ///
    /// # Safety
    /// See [`RowCommitArgs`].
    #[inline(always)]
    unsafe fn row_in(&self, held: RowSlot) -> u32 {
        if held.has_no_row() {
            // SAFETY: the slot names an owner.
            unsafe { self.row_of(held.number()) }
        } else {
            held.number()
        }
    }

    /// Says which row a key has.
    ///
    /// # Safety
    /// See [`RowCommitArgs`]; the place is below `n`, and one thread's.
    #[inline(always)]
    unsafe fn tell(&self, place: usize, row: u32) {
        if !self.rows.is_null() {
            // SAFETY: there is a place for each key.
            unsafe { mem::store(self.rows.wrapping_add(place), row) };
        }
    }

    /// Gives the claims of a bucket their rows.
    ///
    /// # Safety
    /// See [`RowCommitArgs`]; the bucket is one thread's.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn publish(&self, bucket: u32) {
        // SAFETY: slots of the map.
        unsafe {
            let seen = self.view.bucket(bucket);
            let mut claims = seen.which(RowSlot::is_claim);
            while claims != 0 {
                let nth = claims.trailing_zeros();
                let held = seen.slot(nth);
                let slot = RowSlot::row_of(held.tag(), self.row_of(held.number()));
                let at = self.view.slot(bucket * BUCKET_SLOTS + nth);
                atomic::store(at, slot.bits(), Relaxed);
                claims &= claims - 1;
            }
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
            if owns {
                let row = self.row_of(i);
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
                self.tell(place, row);
            } else if !self.rows.is_null() {
                let at: u32 = mem::load_readonly(self.found.wrapping_add(place));
                if at != NO_SLOT {
                    // Before its owner has written the row there, or after.
                    let held = view.load(at);
                    self.tell(place, self.row_in(held));
                }
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
            if at != NO_SLOT {
                gpumap_simt::native::prefetch(args.view.slot(at));
            }
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

/// The body of [`ROW_PUBLISH`].
///
/// # Safety
/// See [`RowCommitArgs`].
#[inline(always)]
unsafe fn publish(args: &RowCommitArgs) {
    let buckets = u64::from(args.view.buckets);
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::is_here() {
        // SAFETY: as below.
        let serve = |bucket, (), _| unsafe { args.publish(bucket) };
        return super::upkeep::in_block(buckets, |_| (), serve);
    }
    let bucket = thread::index();
    if bucket < buckets {
        // SAFETY: passed on; a bucket of the map.
        unsafe { args.publish(bucket as u32) };
    }
}

kernel! {
    /// Gives all claims their rows, a thread for each bucket, in the order of slots: for batches that fill a good part of
    /// them. What is told is not looked at.
    pub static ROW_PUBLISH = fn row_publish(args: RowCommitArgs) by block {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { publish(&args) }
    }
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
    /// Commits strings.
    pub static ROW_COMMIT_STRING = fn row_commit_string(args: RowCommitArgs) by block {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { commit::<StringRef>(&args) }
    }
}
