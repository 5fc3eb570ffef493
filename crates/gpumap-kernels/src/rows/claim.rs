//! First pass of an insert: each key finds its slot, or claims one.

use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::{U64x2, kernel, kernel_args, mem, thread, warp};

use super::key::{Hash, Unit};
use super::slot::RowSlot;
use super::view::{BUCKET_SLOTS, RowView};

kernel_args! {
    /// Arguments of a claim: blocks of [`THREADS`](super::THREADS), a thread for each key. No other insert runs.
    pub struct RowClaimArgs {
        /// The slots, with room for `n` keys more than there are rows.
        pub view: RowView,
        /// The keys of the batch.
        pub batch: *const u8,
        /// How many, up to [`MOST_KEYS`](super::MOST_KEYS).
        pub n: u64,
        /// Out: for each key its slot.
        pub found: *mut u32,
        /// Out: one bit for each key, which says whether it is an owner. Zero before.
        pub owners: *mut u32,
    }
}

impl RowClaimArgs {
    /// Finds or claims the slot of the key at place `i`. Returns it, and whether the place is its owner now: another one
    /// that is lower may take it over, and turns the bit of `i` then.
    ///
    /// # Safety
    /// See [`RowClaimArgs`]; `i` is below `n`, and `hash` that of its key.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn claim<U: Unit>(&self, i: u32, hash: Hash) -> (u32, bool) {
        let view = &self.view;
        let tag = hash.tag();
        let mut bucket = hash.home(view.buckets);
        // The loops end: there is an empty slot, and places of a claim fall.
        // SAFETY: slots and keys are those of the arguments.
        unsafe {
            loop {
                let seen = view.bucket(bucket);
                let mut left = seen.which(|slot| slot == RowSlot::EMPTY || slot.tag() == tag);
                // In slot order, and past a slot only when it has another key.
                while left != 0 {
                    let nth = left.trailing_zeros();
                    let at = bucket * BUCKET_SLOTS + nth;
                    let mut held = seen.slot(nth);
                    if held == RowSlot::EMPTY {
                        held = view.exchange(at, held, RowSlot::claim_of(tag, i));
                        if held == RowSlot::EMPTY {
                            return (at, true);
                        }
                    }
                    if held.tag() == tag && self.is_key_of::<U>(held, i) {
                        return (at, self.settle(at, held, i));
                    }
                    left &= left - 1;
                }
                bucket = view.next(bucket);
            }
        }
    }

    /// Whether the key of a slot with the tag of the key at place `i` is that key.
    ///
    /// # Safety
    /// As for [`claim`](Self::claim); the slot is not empty.
    #[inline(always)]
    unsafe fn is_key_of<U: Unit>(&self, held: RowSlot, i: u32) -> bool {
        let view = &self.view;
        let keys = if held == RowSlot::TOMBSTONE {
            return false;
        } else if held.has_no_row() {
            self.batch
        } else {
            view.keys.cast_const()
        };
        let key = view.key_in::<U>(self.batch, i);
        // SAFETY: a place of the batch, or a row.
        unsafe { view.are_equal(view.key_in::<U>(keys, held.number()), key) }
    }

    /// Takes a claim of the same key over, if place `i` comes before its own. Returns whether it did.
    ///
    /// # Safety
    /// As for [`claim`](Self::claim); the slot held that, and has this key.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn settle(&self, at: u32, mut held: RowSlot, i: u32) -> bool {
        while held.has_no_row() && held.number() > i {
            let mine = RowSlot::claim_of(held.tag(), i);
            // SAFETY: a slot, and a place of the batch.
            unsafe {
                let there = self.view.exchange(at, held, mine);
                if there == held {
                    let (word, bit) = (held.number() / warp::SIZE, held.number() % warp::SIZE);
                    self.turn(word, 1 << bit);
                    return true;
                }
                // Of the same key still.
                held = there;
            }
        }
        false
    }

    /// Turns bits of owners: exclusive or, since what one thread sets another may clear first.
    ///
    /// # Safety
    /// There is such a word.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn turn(&self, word: u32, bits: u32) {
        // SAFETY: the caller's promise; the words are accessed so only.
        unsafe { atomic::fetch_xor(self.owners.wrapping_add(word as usize), bits, Relaxed) };
    }
}

/// The body of the kernels.
///
/// # Safety
/// See [`RowClaimArgs`].
#[inline(always)]
unsafe fn claim<U: Unit>(args: &RowClaimArgs) {
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::is_here() {
        // SAFETY: passed on.
        return unsafe { natively::<U>(args) };
    }
    let i = thread::index();
    let mut owns = false;
    // SAFETY: keys of the batch; all lanes of the warp come to the vote. Places of a warp share a word.
    unsafe {
        if i < args.n {
            let key = args.view.key_in::<U>(args.batch, i as u32);
            let (found, owner) = args.claim::<U>(i as u32, args.view.hash(key));
            mem::store(args.found.wrapping_add(i as usize), found);
            owns = owner;
        }
        let owners = warp::warp_vote_ballot(LaneMask::FULL, owns);
        if warp::lane_id() == 0 && !owners.is_empty() {
            args.turn(i as u32 / warp::SIZE, owners.bits());
        }
    }
}

/// What all threads of a block do.
///
/// # Safety
/// See [`RowClaimArgs`].
#[cfg(not(target_arch = "nvptx64"))]
unsafe fn natively<U: Unit>(args: &RowClaimArgs) {
    let view = &args.view;
    let mut owners = 0;
    let fetch = |i: u32| {
        // SAFETY: a key of the batch.
        let hash = unsafe { view.hash(view.key_in::<U>(args.batch, i)) };
        gpumap_simt::native::prefetch(view.slot(hash.home(view.buckets) * BUCKET_SLOTS));
        hash
    };
    super::upkeep::in_block(args.n, fetch, |i, hash, is_last| {
        // SAFETY: as above; places of a block and its words are its own.
        unsafe {
            let (found, owns) = args.claim::<U>(i, hash);
            mem::store(args.found.wrapping_add(i as usize), found);
            owners |= u32::from(owns) << (i % warp::SIZE);
            if is_last || i % warp::SIZE == warp::SIZE - 1 {
                args.turn(i / warp::SIZE, owners);
                owners = 0;
            }
        }
    });
}

kernel! {
    /// Claims slots for keys in units of 4 bytes.
    pub static ROW_CLAIM_4 = fn row_claim_4(args: RowClaimArgs) by block {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { claim::<u32>(&args) }
    }
    /// Claims slots for keys in units of 8 bytes.
    pub static ROW_CLAIM_8 = fn row_claim_8(args: RowClaimArgs) by block {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { claim::<u64>(&args) }
    }
    /// Claims slots for keys in units of 16 bytes.
    pub static ROW_CLAIM_16 = fn row_claim_16(args: RowClaimArgs) by block {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { claim::<U64x2>(&args) }
    }
}
