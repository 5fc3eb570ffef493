//! First pass of an insert: each key finds its slot, or claims one.

use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::{U64x2, kernel, kernel_args, mem, thread, warp};

use super::key::{Hash, Unit};
use super::slot::{NO_SLOT, RowSlot};
use super::string::StringRef;
use super::view::{BUCKET_SLOTS, RowView};

kernel_args! {
    /// Arguments of a claim: blocks of [`THREADS`](super::THREADS), a thread for each key. No other insert runs.
    pub struct RowClaimArgs {
        /// The slots, with room for as many keys more as the batch has, or if `claimed` is not null, for any number.
        pub view: RowView,
        /// The keys of the batch.
        pub batch: *const u8,
        /// The place of the first key to claim for: a multiple of [`THREADS`](super::THREADS).
        pub from: u64,
        /// The place after the last one, up to [`MOST_KEYS`](super::MOST_KEYS).
        pub n: u64,
        /// Out: for each key its slot, or [`NO_SLOT`] if it has a row.
        pub found: *mut u32,
        /// Out: for each key that has a row this one; may be null.
        pub rows: *mut u32,
        /// Out: one bit for each key, which says whether it is an owner. Zero before.
        pub owners: *mut u32,
        /// Added to: how many slots were claimed; may be null.
        pub claimed: *mut u64,
        /// With more claims than this, the launch has failed: keys whose walk is long give up. Without `claimed` it is not
        /// looked at.
        pub most: u64,
    }
}

/// Buckets after which a walk looks whether the slots are too full.
const LONG_WALK: u32 = 4;

/// Buckets after which a walk says so itself: one of as many is not to be expected of slots that have room.
const LONGEST_WALK: u32 = 64;

/// What a claim comes to.
#[derive(Clone, Copy)]
struct Claimed {
    /// The slot, or [`NO_SLOT`].
    at: u32,
    /// Whether the place is its owner now.
    owns: bool,
    /// Whether the slot was empty.
    is_new: bool,
}

impl Claimed {
    /// It was given up.
    const NOTHING: Self = Self {
        at: 0,
        owns: false,
        is_new: false,
    };
}

impl RowClaimArgs {
    /// Finds or claims the slot of the key at place `i`. Of places of one key that is lower takes a claim over, and turns the
    /// bit of the one that had it.
    ///
    /// # Safety
    /// See [`RowClaimArgs`]; `i` is below `n`, and `hash` that of its key.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn claim<U: Unit>(&self, i: u32, hash: Hash) -> Claimed {
        let view = &self.view;
        let tag = hash.tag();
        let mut bucket = hash.home(view.buckets);
        let mut walked = 0;
        // The loops end: there is an empty slot, or the walk is given up; and places of a claim fall.
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
                            let (owns, is_new) = (true, true);
                            return Claimed { at, owns, is_new };
                        }
                    }
                    if held.tag() == tag && self.is_key_of::<U>(held, i) {
                        let (mut at, mut owns) = (at, false);
                        if held.has_no_row() {
                            owns = self.settle(at, held, i);
                        } else {
                            self.tell(i, held.number());
                            at = NO_SLOT;
                        }
                        let is_new = false;
                        return Claimed { at, owns, is_new };
                    }
                    left &= left - 1;
                }
                bucket = view.next(bucket);
                walked += 1;
                if walked >= LONG_WALK && !self.claimed.is_null() && self.gives_up(walked) {
                    return Claimed::NOTHING;
                }
            }
        }
    }

    /// Whether a walk of so many buckets is given up, since there are more claims than there may be. One of
    /// [`LONGEST_WALK`] makes it so.
    ///
    /// # Safety
    /// As for [`claim`](Self::claim); claims are counted.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn gives_up(&self, walked: u32) -> bool {
        // SAFETY: a counter, which is accessed atomically.
        unsafe {
            if walked >= LONGEST_WALK {
                atomic::fetch_add(self.claimed, self.most + 1, Relaxed);
                return true;
            }
            atomic::load(self.claimed, Relaxed) > self.most
        }
    }

    /// Counts slots that were claimed.
    ///
    /// # Safety
    /// As for [`claim`](Self::claim).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn count(&self, claims: u32) {
        if !self.claimed.is_null() {
            // SAFETY: a counter, which is accessed atomically.
            unsafe { atomic::fetch_add(self.claimed, u64::from(claims), Relaxed) };
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

    /// Says which row a key has.
    ///
    /// # Safety
    /// As for [`claim`](Self::claim); the place is one thread's.
    #[inline(always)]
    unsafe fn tell(&self, i: u32, row: u32) {
        if !self.rows.is_null() {
            // SAFETY: a place of the batch.
            unsafe { mem::store(self.rows.wrapping_add(i as usize), row) };
        }
    }

    /// Takes a claim of the same key over, if place `i` comes before its own. Returns whether it did.
    ///
    /// # Safety
    /// As for [`claim`](Self::claim); the slot held that, and has this key.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn settle(&self, at: u32, mut held: RowSlot, i: u32) -> bool {
        // Nothing gives rows to claims meanwhile.
        while held.number() > i {
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
    let i = args.from + thread::index();
    let mut claimed = Claimed::NOTHING;
    // SAFETY: keys of the batch; all lanes of the warp come to the votes. Places of a warp share a word.
    unsafe {
        if i < args.n {
            let key = args.view.key_in::<U>(args.batch, i as u32);
            claimed = args.claim::<U>(i as u32, args.view.hash(key));
            mem::store(args.found.wrapping_add(i as usize), claimed.at);
        }
        let owners = warp::warp_vote_ballot(LaneMask::FULL, claimed.owns);
        let new = warp::warp_vote_ballot(LaneMask::FULL, claimed.is_new);
        if warp::lane_id() == 0 && !owners.is_empty() {
            args.turn(i as u32 / warp::SIZE, owners.bits());
            args.count(new.count());
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
    let (mut owners, mut new) = (0, 0);
    let fetch = |i: u32| {
        // SAFETY: a key of the batch.
        let hash = unsafe { view.hash(view.key_in::<U>(args.batch, i)) };
        gpumap_simt::native::prefetch(view.slot(hash.home(view.buckets) * BUCKET_SLOTS));
        hash
    };
    super::upkeep::in_block_from(args.from, args.n, fetch, |i, hash, is_last| {
        // SAFETY: as above; places of a block and its words are its own.
        unsafe {
            let claimed = args.claim::<U>(i, hash);
            mem::store(args.found.wrapping_add(i as usize), claimed.at);
            owners |= u32::from(claimed.owns) << (i % warp::SIZE);
            new += u32::from(claimed.is_new);
            if is_last || i % warp::SIZE == warp::SIZE - 1 {
                args.turn(i / warp::SIZE, owners);
                owners = 0;
            }
            if is_last {
                args.count(new);
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
    /// Claims slots for strings.
    pub static ROW_CLAIM_STRING = fn row_claim_string(args: RowClaimArgs) by block {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { claim::<StringRef>(&args) }
    }
}
