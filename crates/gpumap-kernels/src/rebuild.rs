//! Moving the pairs of a submap to a new one page by page: how maps grow, shrink and are compacted.
//!
//! The page that a key calls home is its hash, scaled to the number of pages. So the pairs of one new
//! page lie in a known range of old pages, whatever the two numbers are, and a block can make the
//! new page in shared memory and write it in one go: no atomics on global memory, and the new submap
//! is not filled with empty slots first. The traffic is that of reading the old submap and writing
//! the new one.
//!
//! Invariant: a pair that a block places has only full slabs before it in its walk, as if it had been
//! inserted. A counter for each slab hands out its slots, and does not go down.
//!
//! What a block cannot place goes to a list of remaining pairs that is inserted one by one after it:
//! pairs whose home page is full as far as their walk goes, and those that had left the range of
//! their home page before.
//!
//! If there are none, the new submap has [marks](crate::marks).

use crate::count::Counters;
use crate::hash::{KeyHash, scale};
use crate::marks::{SlabCounter, arrange};
use crate::probe::TILE;
use crate::slot::{Format, KeyWord};
use crate::table::{PAGE_WALK, SLAB_BYTES};
use core::ptr;
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::shared_ptr::SharedPtr;
use gpumap_simt::tile::Tile;
use gpumap_simt::{U64x2, kernel_args, mem, thread};

/// Threads per block.
pub const THREADS: u32 = 512;

/// New pages that a block makes at most: those of a map that doubles come by twos from one old page,
/// which is then read once.
pub const MOST_PAGES: u32 = 2;

/// Vectors of an old page that a thread has on their way at a time. Four take too many registers.
const LOADS: usize = 2;

const VECTORS_PER_SLAB: u32 = SLAB_BYTES / 16;

/// Bytes of dynamic shared memory for so many pages of `1 << page_log2` slabs each.
pub const fn shared_bytes(pages: u32, page_log2: u32) -> u32 {
    (pages << page_log2) * (SLAB_BYTES + 4) + 4 * (queue_room(pages, page_log2) + 1)
}

/// How many pairs whose home is full are put off. At load 0.9 three in ten find it so; those
/// without room are not put off.
const fn queue_room(pages: u32, page_log2: u32) -> u32 {
    (pages << page_log2) / 4 * 5
}

kernel_args! {
    /// Arguments of a `rebuild` kernel. The grid has one block of [`THREADS`] for every `together`
    /// new pages, with [`shared_bytes`] for them, and nothing else runs on the map.
    pub struct RebuildArgs {
        /// The slabs of the old submap.
        pub old: *const u8,
        /// The slabs of the new one; written whole.
        pub new: *mut u8,
        /// Pages of the old one.
        pub old_pages: u32,
        /// Pages of the new one.
        pub new_pages: u32,
        /// New pages that a block makes: 1 to [`MOST_PAGES`].
        pub together: u32,
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
    pub(crate) fn range(&self, new_page: u32) -> (u32, u32) {
        let (old, new) = (u64::from(self.old_pages), u64::from(self.new_pages));
        // No map has no pages; the other branch would be a panic.
        let over_new = |n: u64| n.checked_div(new).unwrap_or(0) as u32;
        let first = over_new(u64::from(new_page) * old);
        let last = over_new((u64::from(new_page) + 1) * old - 1);
        (first, last)
    }

    /// Whether an old page is in the range of a new one, without a division.
    #[inline(always)]
    pub(crate) fn reads(&self, new_page: u32, old_page: u32) -> bool {
        let (old, new) = (u64::from(self.old_pages), u64::from(self.new_pages));
        let (p, q) = (u64::from(new_page), u64::from(old_page));
        p * old < (q + 1) * new && q * new < (p + 1) * old
    }

    /// Whether a block whose new pages begin with this one is the first that reads an old page which it
    /// does read: it answers for the pairs that are not in the range of their home.
    #[inline(always)]
    pub(crate) fn owns(&self, first: u32, old_page: u32) -> bool {
        first == 0 || !self.reads(first - 1, old_page)
    }
}

/// The body of the kernels.
///
/// # Safety
/// See [`RebuildArgs`].
#[inline(always)]
pub unsafe fn rebuild<F: Format>(args: &RebuildArgs) {
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::ALONE || crate::native::is_here() {
        let block = crate::native::block();
        // SAFETY: passed on.
        return unsafe { crate::native::rebuild::rebuild::<F>(args, block) };
    }
    let vectors = VECTORS_PER_SLAB << args.page_log2;
    let pages = NewPages::of_block(args);
    let t = thread::thread_idx_x();
    // SAFETY: between two barriers each shared word is either written by one thread, or is a
    // counter that is only added to; a slot is written by the thread that its slab's counter gave
    // it to. Pages and vectors stay below their numbers.
    unsafe {
        let mut i = t;
        while i < pages.count * vectors {
            pages.slots.add(i).store(U64x2::new(!0, !0));
            i += THREADS;
        }
        let mut i = t;
        // And the length of the queue after them.
        while i < (args.together << args.page_log2) + 1 {
            pages.used.add(i).store(0);
            i += THREADS;
        }
        thread::sync_threads();

        let mut old_page = pages.first_old;
        let (_, last) = args.range(pages.first + pages.count - 1);
        while old_page <= last {
            let at = u64::from(old_page) * u64::from(vectors);
            let from = args.old.cast::<U64x2>().wrapping_add(at as usize);
            let readers = pages.readers(old_page);
            let before = (old_page - pages.first_old) * vectors * F::SLOTS;
            let mut i = t;
            while i < vectors {
                let mut loaded = [U64x2::new(!0, !0); LOADS];
                let mut l = 0;
                while l < LOADS {
                    let at = i + l as u32 * THREADS;
                    if at < vectors {
                        loaded[l] = mem::load_readonly(from.wrapping_add(at as usize));
                    }
                    l += 1;
                }
                let mut l = 0;
                while l < LOADS {
                    let mut s = 0;
                    while s < F::SLOTS {
                        let word = F::word(loaded[l], s);
                        if word.is_key() {
                            let value = F::value(loaded[l], s);
                            let at = (i + l as u32 * THREADS) * F::SLOTS + s;
                            Pair::<F> { word, value }.place(&pages, old_page, readers, before + at);
                        }
                        s += 1;
                    }
                    l += 1;
                }
                i += LOADS as u32 * THREADS;
            }
            old_page += 1;
        }
        thread::sync_threads();

        // All lanes of a warp walk on now, each with its own pair.
        let queued = pages.queued.load().min(pages.queue_room);
        let from = u64::from(pages.first_old) * u64::from(vectors) * u64::from(F::SLOTS);
        let mut q = t;
        while q < queued {
            let at = from + u64::from(pages.queue.add(q).load());
            let (word, value) = F::read(args.old, at);
            Pair::<F> { word, value }.walk_on(&pages);
            q += THREADS;
        }
        thread::sync_threads();
        if t == 0 {
            args.count.block_is_done();
        }

        let to = args.new.cast::<U64x2>();
        let to = to.wrapping_add((u64::from(pages.first) * u64::from(vectors)) as usize);
        let tile = Tile::<TILE>::converged();
        let all = pages.count * vectors;
        let mut i = t;
        // A warp goes on as one, though its last lanes may have no vector.
        while i & !31 < all {
            let at = i.min(all - 1);
            let passed = pages.counter::<F>(at / TILE).passed();
            let (place, vector) = arrange::<F>(tile, pages.slots.add(at).load(), passed);
            if i < all {
                mem::store(to.wrapping_add((i & !(TILE - 1) | place) as usize), vector);
            }
            i += THREADS;
        }
    }
}

/// The new pages of a block.
struct NewPages<'a> {
    args: &'a RebuildArgs,
    /// The first one.
    first: u32,
    /// How many.
    count: u32,
    /// Their slots, in shared memory.
    slots: SharedPtr<U64x2>,
    /// A counter for each of their slabs.
    used: SharedPtr<u32>,
    /// How many pairs found their home full.
    queued: SharedPtr<u32>,
    /// Their slots in the old pages, from the first one in range on.
    queue: SharedPtr<u32>,
    /// How many there is room for.
    queue_room: u32,
    /// The first old page in range.
    first_old: u32,
}

impl<'a> NewPages<'a> {
    #[inline(always)]
    fn of_block(args: &'a RebuildArgs) -> Self {
        let first = thread::block_idx_x() * args.together;
        let slots = SharedPtr::dynamic();
        let slabs = args.together << args.page_log2;
        let used = slots.add(slabs * VECTORS_PER_SLAB).cast::<u32>();
        let queued = used.add(slabs);
        Self {
            args,
            first,
            count: args.together.min(args.new_pages - first),
            slots,
            used,
            queued,
            queue: queued.add(1),
            queue_room: queue_room(args.together, args.page_log2),
            first_old: args.range(first).0,
        }
    }

    /// The counter of a slab.
    #[inline(always)]
    fn counter<F: Format>(&self, slab: u32) -> SlabCounter<F> {
        SlabCounter::of(self.used.add(slab))
    }

    /// Slabs of a page less one.
    #[inline(always)]
    fn slab_mask(&self) -> u32 {
        (1 << self.args.page_log2) - 1
    }

    /// Which of the pages are in the range of an old one: a bit for each.
    #[inline(always)]
    fn readers(&self, old_page: u32) -> u32 {
        let mut bits = 0;
        let mut page = 0;
        while page < self.count {
            bits |= u32::from(self.args.reads(self.first + page, old_page)) << page;
            page += 1;
        }
        bits
    }
}

/// A pair of the old submap.
struct Pair<F: Format> {
    word: F::Word,
    value: F::Value,
}

impl<F: Format> Pair<F> {
    /// Puts the pair into its home slab, if that is the calling block's business, or into the queue if
    /// that is full.
    ///
    /// # Safety
    /// The pages are those of the block; it lay in that old page, at slot `at` of the range, and
    /// `readers` are those of the page.
    #[inline(always)]
    unsafe fn place(self, pages: &NewPages<'_>, old_page: u32, readers: u32, at: u32) {
        let args = pages.args;
        let (hash, home) = self.home(args);
        let page = home.wrapping_sub(pages.first);
        // SAFETY: counters and a place of the block's; the slot that a counter gives is this
        // thread's alone.
        unsafe {
            if page >= pages.count || readers >> page & 1 == 0 {
                if !args.reads(home, old_page) && args.owns(pages.first, old_page) {
                    self.leave(args);
                }
            } else if !self.take_slot(pages, page, hash.slab(pages.slab_mask())) {
                let q = pages.queued.fetch_add(1);
                if q < pages.queue_room {
                    pages.queue.add(q).store(at);
                } else {
                    self.walk_on(pages);
                }
            }
        }
    }

    /// The hash of the key, and its home among the new pages.
    #[inline(always)]
    fn home(&self, args: &RebuildArgs) -> (KeyHash, u32) {
        let hash = KeyHash::new(F::key(self.word), args.seed);
        let (_, rest) = hash.submap(args.submap_count);
        (hash, scale(rest, args.new_pages))
    }

    /// Puts the pair into the next slot of a slab, if there is one; else its key passes the slab.
    ///
    /// # Safety
    /// The page is one of the block's.
    #[inline(always)]
    unsafe fn take_slot(&self, pages: &NewPages<'_>, page: u32, slab: u32) -> bool {
        let slab_slots = VECTORS_PER_SLAB * F::SLOTS;
        let slab = page << pages.args.page_log2 | slab;
        // SAFETY: a counter of the page; the slot that it gives is this thread's alone.
        unsafe {
            let slot = pages.counter::<F>(slab).take_slot(self.word);
            if let Some(slot) = slot {
                self.write(pages.slots, slab * slab_slots + slot);
            }
            slot.is_some()
        }
    }

    /// Puts a pair of the block's pages that found its home full where its walk leads.
    ///
    /// # Safety
    /// The pages are those of the block.
    #[inline(always)]
    unsafe fn walk_on(self, pages: &NewPages<'_>) {
        let (hash, home) = self.home(pages.args);
        let mask = pages.slab_mask();
        let mut slab = hash.slab(mask);
        let mut probe = 1;
        while probe < PAGE_WALK && probe <= mask {
            slab = slab.wrapping_add(hash.step()) & mask;
            // SAFETY: the caller's promise.
            if unsafe { self.take_slot(pages, home - pages.first, slab) } {
                return;
            }
            probe += 1;
        }
        // SAFETY: the arguments are those of the launch.
        unsafe { self.leave(pages.args) };
    }

    /// Writes the pair to a slot in shared memory.
    ///
    /// # Safety
    /// It is the caller's.
    #[inline(always)]
    unsafe fn write(&self, slots: SharedPtr<U64x2>, slot: u32) {
        let mut cell = U64x2::new(!0, !0);
        // SAFETY: a slot is no larger than the cell; the caller's promise.
        unsafe {
            F::write(ptr::from_mut(&mut cell).cast(), 0, self.word, self.value);
            if F::SLOTS == 1 {
                slots.add(slot).store(cell);
            } else {
                slots.cast::<u64>().add(slot).store(cell.x);
            }
        }
    }

    /// Puts the pair on the list of remaining pairs. They are few: one atomic each.
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
            together: 1,
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
                    for together in 1..=MOST_PAGES {
                        let owners = (0..new).step_by(together as usize).filter(|&first| {
                            let mut pages = first..(first + together).min(new);
                            pages.any(reads) && args.owns(first, page)
                        });
                        assert_eq!(owners.count(), 1, "page {page}: {old} to {new}");
                    }
                }
            }
        }
    }
}
