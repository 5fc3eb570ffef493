//! Moving the pairs of a submap to a new one page by page: how maps grow, shrink and are compacted.
//!
//! The page that a key calls home is its hash, scaled to the number of pages. So the pairs of one new
//! page lie in a known range of old pages, whatever the two numbers are, and a block can make the
//! new page in shared memory and write it in one go: no atomics on global memory, and nobody fills
//! the new submap with empty slots first. The traffic is that of reading the old submap and writing
//! the new one.
//!
//! Invariant: a pair that a block places has only full slabs before it in its walk, as if it had been
//! inserted. A counter for each slab hands out its slots, and does not go down.
//!
//! What a block cannot place goes to a list of leftovers that is inserted one by one after it: pairs
//! whose home page is full as far as their walk goes, and those that had left the range of
//! their home page before.

use crate::count::Counters;
use crate::hash::{KeyHash, scale};
use crate::slot::{Bits, Format, KeyWord};
use crate::table::{MAX_PAGE_SLABS, PAGE_WALK, SLAB_BYTES};
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::{U64x2, kernel_args, mem, shared_array, thread};

/// Threads per block.
pub const THREADS: u32 = 256;

const VECTORS_PER_SLAB: u32 = SLAB_BYTES / 16;

kernel_args! {
    /// Arguments of a `rebuild` kernel. The grid has one block of [`THREADS`] per new page, and
    /// nothing else runs on the map.
    pub struct RebuildArgs {
        /// The slabs of the old submap.
        pub old: *const u8,
        /// The slabs of the new one; written whole.
        pub new: *mut u8,
        /// Pages of the old one.
        pub old_pages: u32,
        /// Pages of the new one.
        pub new_pages: u32,
        /// Slabs per page of both: `1 << page_log2`.
        pub page_log2: u32,
        /// Submaps of the map.
        pub submap_count: u32,
        /// The map's seed.
        pub seed: u64,
        /// Out: slots for pairs that were not placed.
        pub leftovers: *mut u8,
        /// How many of these there are.
        pub room: u64,
        /// Pairs that were not placed, also those beyond the room.
        pub count: Counters,
    }
}

impl RebuildArgs {
    /// The first and the last old page that pairs of a new page call home.
    #[inline(always)]
    fn range(&self, new_page: u32) -> (u32, u32) {
        let (old, new) = (u64::from(self.old_pages), u64::from(self.new_pages));
        // No map has no pages; the other branch would be a panic.
        let over_new = |n: u64| n.checked_div(new).unwrap_or(0) as u32;
        let first = over_new(u64::from(new_page) * old);
        let last = over_new((u64::from(new_page) + 1) * old - 1);
        (first, last)
    }

    /// Whether an old page is in the range of a new one, without a division.
    #[inline(always)]
    fn reads(&self, new_page: u32, old_page: u32) -> bool {
        let (old, new) = (u64::from(self.old_pages), u64::from(self.new_pages));
        let (p, q) = (u64::from(new_page), u64::from(old_page));
        p * old < (q + 1) * new && q * new < (p + 1) * old
    }

    /// Whether a new page is the first in whose range an old page is, which it is in the range of:
    /// its block answers for the pairs that are not in the range of their own.
    #[inline(always)]
    fn owns(&self, new_page: u32, old_page: u32) -> bool {
        new_page == 0 || !self.reads(new_page - 1, old_page)
    }
}

/// The body of the kernels.
///
/// # Safety
/// See [`RebuildArgs`].
#[inline(always)]
pub unsafe fn rebuild<F: Format>(args: &RebuildArgs) {
    let page = shared_array![U64x2; (MAX_PAGE_SLABS * VECTORS_PER_SLAB) as usize];
    let used = shared_array![u32; MAX_PAGE_SLABS as usize];
    let slabs = 1 << args.page_log2;
    let vectors = slabs * VECTORS_PER_SLAB;
    let t = thread::thread_idx_x();
    let here = thread::block_idx_x();
    // SAFETY: between two barriers each shared word is either written by one thread, or is a
    // counter that is only added to; a slot is written by the thread that its slab's counter gave
    // it to. Pages and vectors stay below their numbers.
    unsafe {
        let mut i = t;
        while i < vectors {
            *page.add(i as usize) = U64x2::new(!0, !0);
            i += THREADS;
        }
        let mut i = t;
        while i < slabs {
            *used.add(i as usize) = 0;
            i += THREADS;
        }
        thread::sync_threads();

        let (first, last) = args.range(here);
        let mut old_page = first;
        while old_page <= last {
            let at = u64::from(old_page) * u64::from(vectors);
            let from = args.old.cast::<U64x2>().wrapping_add(at as usize);
            let mut i = t;
            while i < vectors {
                let vector: U64x2 = mem::load_readonly(from.wrapping_add(i as usize));
                let mut s = 0;
                while s < F::SLOTS {
                    let word = F::word(vector, s);
                    if word.is_key() {
                        let pair = Pair::<F> {
                            word,
                            value: F::value(vector, s),
                        };
                        pair.place(args, here, old_page, page.cast(), used);
                    }
                    s += 1;
                }
                i += THREADS;
            }
            old_page += 1;
        }
        thread::sync_threads();
        if t == 0 {
            args.count.block_is_done();
        }

        let to = args
            .new
            .cast::<U64x2>()
            .wrapping_add((u64::from(here) * u64::from(vectors)) as usize);
        let mut i = t;
        while i < vectors {
            mem::store(to.wrapping_add(i as usize), *page.add(i as usize));
            i += THREADS;
        }
    }
}

/// A pair of the old submap.
struct Pair<F: Format> {
    word: F::Word,
    value: F::Value,
}

impl<F: Format> Pair<F> {
    /// Puts the pair where it belongs, if that is the calling block's business.
    ///
    /// # Safety
    /// `page` has the slots of a page in shared memory, `used` a counter for each of its slabs, and
    /// the arguments are those of the launch.
    #[inline(always)]
    unsafe fn place(
        self,
        args: &RebuildArgs,
        here: u32,
        old_page: u32,
        page: *mut u8,
        used: *mut u32,
    ) {
        let hash = KeyHash::new(self.word.to_u64(), args.seed);
        let (_, rest) = hash.submap(args.submap_count);
        let home = scale(rest, args.new_pages);
        if home != here {
            if !args.reads(home, old_page) && args.owns(here, old_page) {
                // SAFETY: the caller's promise.
                unsafe { self.leave(args) };
            }
            return;
        }
        let mask = (1 << args.page_log2) - 1;
        let slab_slots = VECTORS_PER_SLAB * F::SLOTS;
        let mut slab = hash.slab(mask);
        let mut probe = 0;
        while probe < PAGE_WALK && probe <= mask {
            // SAFETY: a counter of the page; the slot that it gives is this thread's alone.
            unsafe {
                let slot = atomic::block_fetch_add(used.add(slab as usize), 1);
                if slot < slab_slots {
                    let slot = slab * slab_slots + slot;
                    F::write(page, u64::from(slot), self.word, self.value);
                    return;
                }
            }
            slab = slab.wrapping_add(hash.step()) & mask;
            probe += 1;
        }
        // SAFETY: the caller's promise.
        unsafe { self.leave(args) };
    }

    /// Puts the pair on the list of leftovers. They are few: one atomic each.
    ///
    /// # Safety
    /// The arguments are those of the launch.
    #[inline(always)]
    unsafe fn leave(self, args: &RebuildArgs) {
        // SAFETY: each place of the list is given to one thread.
        unsafe {
            let at = atomic::fetch_add(args.count.words, 1, Relaxed);
            if at < args.room {
                F::write(args.leftovers, at, self.word, self.value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(old_pages: u32, new_pages: u32) -> RebuildArgs {
        RebuildArgs {
            old: core::ptr::null(),
            new: core::ptr::null_mut(),
            old_pages,
            new_pages,
            page_log2: 9,
            submap_count: 1,
            seed: 0,
            leftovers: core::ptr::null_mut(),
            room: 0,
            count: Counters::of(core::ptr::null_mut()),
        }
    }

    #[test]
    fn every_key_is_found_in_the_range_of_its_new_home() {
        let sizes = [1, 2, 3, 5, 7, 16, 100, 101, 1000];
        for old in sizes {
            for new in sizes {
                let args = args(old, new);
                for i in 0..2000u32 {
                    let rest = i.wrapping_mul(0x9e37_79b9);
                    let (first, last) = args.range(scale(rest, new));
                    let home = scale(rest, old);
                    assert!((first..=last).contains(&home), "{rest:#x}: {old} to {new}");
                    assert!(last < old);
                }
            }
        }
    }

    #[test]
    fn every_old_page_has_one_owner_that_reads_it() {
        for old in 1..40 {
            for new in 1..40 {
                let args = args(old, new);
                for page in 0..old {
                    let reads = |p: u32| {
                        let (first, last) = args.range(p);
                        (first..=last).contains(&page)
                    };
                    assert!((0..new).all(|p| reads(p) == args.reads(p, page)));
                    let owners = (0..new).filter(|&p| reads(p) && args.owns(p, page));
                    assert_eq!(owners.count(), 1, "page {page}: {old} to {new}");
                }
            }
        }
    }
}
