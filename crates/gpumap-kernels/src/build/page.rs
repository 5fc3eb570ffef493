//! Making a page in shared memory from the pairs at its head, and what was in it before.
//!
//! | step | what a block does |
//! |---|---|
//! | stage | copies the pairs to shared memory |
//! | load | of a page in use, copies the page to shared memory too |
//! | place | gives pairs slots: by counters (`rank`), or, if keys may be equal, by claims (`claim`) |
//! | write | every slot, empty ones too, in table order; those of a slab in the order that says what has passed it ([`marks`](crate::marks)) |
//!
//! In shared memory a slot is one word: 16 bits of the key's hash, and where its pair is: staged, or
//! in the page as it was. Keys are compared only where those bits agree, and staged keys do not
//! change, so a thread that reads such a word may read the key. Words of one slab lie side by side, free ones last,
//! wherever their pairs lay in the table; but in a new page that is placed by claims there are free ones in between.
//!
//! Both ways to place first give each pair a slot of its home slab, and gather those that find it full
//! in a queue, as long as it has room. When all others are placed these walk on through the page, with all lanes busy;
//! where keys differ, another pair of the same home may walk in their stead.
//!
//! Whether keys were equal after all is known when a page that was placed by counters has been written: then it is
//! placed by claims and written again.
//!
//! Pages record for those after them which way it is: where many had equal keys, the others are placed by claims at
//! once. So are those of pages in use whose slots have 16 bytes (`Page::RANKS`).
//!
//! Kernels that merge first look for keys where they lie in the page (`present`), and place the others by claims alone: a pair
//! that meets its key has its value merged with the one there, in shared memory, once and for all. So their pages are never made twice, and each pair is either in its page or in the list of those that are spilled,
//! which has room for all. If not all pairs reached a head or a list they do nothing.
//!
//! Invariant: as for single inserts, a pair has only full slabs before it in its walk, and of equal keys one is
//! stored. A key that had left its home page before
//! finds the slabs of its walk there full still, and is spilled.
//!
//! Every loop ends: it runs over the staged pairs, the slots, or the slabs of one walk.

mod claim;
mod equal;
mod leave;
mod present;
mod queue;
mod rank;
mod shared;

use crate::build::pages::Heads;
use crate::build::spill::Spill;
use crate::count::{Counters, add_block_sum};
use crate::hash::KeyHash;
use crate::marks::{ALL_CLASSES, arrange, unpassed};
use crate::primitives::partition::stage;
use crate::probe::TILE;
use crate::slot::{Format, KeyWord};
use crate::table::{MAX_PAGE_SLABS, MapView, SLAB_BYTES, load_submap};
use gpumap_simt::atomic::part::Update;
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::shared_ptr::{SharedWord, wait_copies};
use gpumap_simt::tile::Tile;
use gpumap_simt::{U64x2, kernel_args, layout, mem, thread, warp};
use shared::Shared;

/// The most threads of a block.
pub const MOST_THREADS: u32 = 384;

/// The fewest that [`threads`] gives.
const LEAST_THREADS: u32 = 256;

// A thread notes in a word which of its pairs found their homes full.
const _: () = assert!(MAX_PAGE_SLABS * (SLAB_BYTES / 8) <= LEAST_THREADS * u32::BITS);

/// Threads of a block that makes a page of so many slots from at most `room` pairs, beside those that are in it if it
/// is in use: more where many keys walk, and where a block takes so much of the shared memory that few fit.
pub const fn threads(slots: u32, room: u32, in_use: bool) -> u32 {
    if in_use || room > slots / 4 * 3 {
        MOST_THREADS
    } else {
        LEAST_THREADS
    }
}

/// What the kernels that merge do. They do nothing at all if `sent_away` says that not all pairs are there.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Merging {
    /// What becomes of the value that is there.
    pub update: Update,
    /// Whether pairs whose key is absent are spilled: if not 0.
    pub leaves_absent: u32,
    /// How many pairs found no room at the head of their page.
    pub sent_away: *const u64,
    /// How many of these there are at most.
    pub most_sent_away: u64,
}
layout!(Merging {
    update,
    leaves_absent,
    sent_away,
    most_sent_away
});

kernel_args! {
    /// Arguments of a `build` or a `fill` kernel: one block for each of some consecutive pages, of whole warps,
    /// at most [`MOST_THREADS`] and no fewer than one for 32 pairs that there is room for, with [`shared_bytes`] of dynamic
    /// shared memory. Nothing else runs on the map.
    pub struct BuildArgs<K, V> {
        /// The map.
        pub view: MapView,
        /// The number of the first of the pages, among those of all submaps.
        pub first: u32,
        /// Where the pairs lie that pages were sent; for `fill` not in the pages.
        pub heads: Heads,
        /// For each page, how many it was sent.
        pub counts: *const u64,
        /// Where pairs go that find no place in their page, and reserved keys: for the kernels that merge another list
        /// than the one for those that found none at its head.
        pub spill: Spill<K, V>,
        /// What is done with values, by the kernels that merge.
        pub merging: Merging,
        /// Pages that were made by claims so far, since keys were equal or seemed to be: zero before the launch.
        pub equal: *mut u64,
        /// Zero before the launch; else after it if a page was sent more than it had room for. Its marks do
        /// not hold when those have been stored that did not reach it.
        pub crowded: *mut u64,
        /// Pairs stored.
        pub stored: Counters,
    }
}

pub use shared::shared_bytes;

/// What a block works on.
struct Page<'a, F: Format, const IN_USE: bool> {
    args: &'a BuildArgs<F::Key, F::Value>,
    shared: Shared<F, IN_USE>,
    /// How many slots it has.
    slots: u32,
    /// Slabs less one: a power of two less one.
    slab_mask: u32,
    /// How many pairs are staged.
    count: u32,
}

impl<F, const IN_USE: bool> Page<'_, F, IN_USE>
where
    F: Format,
    F::Key: SharedWord,
    F::Value: SharedWord,
    F::Word: SharedWord,
{
    /// Whether pairs are placed by counters as long as keys seem to differ. Where keys are stored already each has to be
    /// looked for first, and then claims are faster in slabs of few slots (`docs/decisions/bulk-build.md`).
    const RANKS: bool = !IN_USE || F::SLOTS > 1;

    /// The hash of a key, and the word that stands in a slot for the pair with it that is staged at
    /// place `i`.
    #[inline(always)]
    fn staged(&self, i: u32, key: F::Key) -> (KeyHash, u32) {
        let hash = KeyHash::new(key, self.args.view.seed);
        (hash, hash.tag() << 16 | i)
    }

    /// Spills a staged pair.
    ///
    /// # Safety
    /// There is one at this place.
    #[inline(always)]
    unsafe fn spill(&self, i: u32) {
        // SAFETY: the caller's promise.
        unsafe {
            let (key, value) = self.shared.pair(i);
            self.args.spill.put(key, value);
        }
    }

    /// Whether so many pages had equal keys, of those before this one, that it will have some too.
    ///
    /// # Safety
    /// The count is that of the launch.
    #[inline(always)]
    unsafe fn doubts(&self, number: u32) -> bool {
        // SAFETY: accessed atomically only.
        let equal = unsafe { atomic::load(self.args.equal, Relaxed) };
        equal >= 16 && equal > u64::from(number) / 16
    }

    /// Whether any lane of a warp has a vector of the page, if this one's is `v`: so that all go on
    /// together.
    #[inline(always)]
    fn has_any(&self, v: u32) -> bool {
        (v & !31) * F::SLOTS < self.slots
    }

    /// The pairs of a page in use, under the words that stand for them, those of a slab side by side; and what slabs
    /// say of keys that have passed.
    ///
    /// # Safety
    /// The whole block calls it, between two barriers; the page has been copied, and all is [clear](Shared::clear).
    #[inline(always)]
    unsafe fn load(&self) {
        let last = self.slots / F::SLOTS - 1;
        let tile = Tile::<TILE>::converged();
        let before = LaneMask::below(tile.rank());
        let mut v = thread::thread_idx_x();
        while self.has_any(v) {
            // SAFETY: a vector of the page, which one thread has, and a tile its slab; a warp goes through
            // the loop as one. Lanes beyond the last vector go along with it, and write nothing.
            unsafe {
                let vector = self.shared.page.add(v.min(last)).load();
                let slab = v / TILE;
                let mut pairs = 0;
                let mut s = 0;
                while s < F::SLOTS {
                    let word = F::word(vector, s);
                    let is_free = word == F::Word::EMPTY;
                    let lanes = tile.ballot(!is_free);
                    if v <= last && !is_free {
                        let slot = v * F::SLOTS + s;
                        // Tombstones are like no staged key, and get tags that differ.
                        let hash = KeyHash::new(F::key(word), self.args.view.seed);
                        let tag = if word.is_key() { hash.tag() } else { slot };
                        let there = tag << 16 | (self.args.heads.room + slot);
                        let first = slab * Shared::<F, IN_USE>::SLAB_SLOTS + pairs;
                        let at = first + (lanes & before).count();
                        self.shared.slots.add(at).store(there);
                    }
                    pairs += lanes.count();
                    s += 1;
                }
                // Nothing has passed a slab that is not full.
                let is_full = pairs == Shared::<F, IN_USE>::SLAB_SLOTS;
                let mut passed = 0;
                if !warp::warp_vote_ballot(LaneMask::FULL, is_full).is_empty() {
                    let unpassed = unpassed::<F>(tile, vector);
                    passed = if is_full { !unpassed & ALL_CLASSES } else { 0 };
                }
                if v <= last && tile.rank() == 0 {
                    self.shared.counter(slab).load(pairs, passed);
                }
            }
            v += thread::block_dim_x();
        }
    }

    /// Writes the page to `to`.
    ///
    /// # Safety
    /// The whole block calls it, when all pairs have places and values are staged.
    #[inline(always)]
    unsafe fn write(&self, to: *mut U64x2) {
        let last = self.slots / F::SLOTS - 1;
        let tile = Tile::<TILE>::converged();
        let mut v = thread::thread_idx_x();
        while self.has_any(v) {
            // SAFETY: as in `load`. Lanes beyond the last vector go along with it, a tile with one slab, and write
            // nothing.
            unsafe {
                let at = v.min(last);
                let passed = self.shared.counter(at / TILE).passed();
                let (place, vector) = arrange::<F>(tile, self.shared.vector(at), passed);
                if v <= last {
                    mem::store(to.add((v & !(TILE - 1) | place) as usize), vector);
                }
            }
            v += thread::block_dim_x();
        }
    }
}

/// The body of the kernels: of those that add to pages in use, and of those that merge the values of equal keys, of which
/// others keep the first.
///
/// | must call | result |
/// |---|---|
/// | every thread of the block, converged | the page, when the launch has ended |
///
/// # Safety
/// See [`BuildArgs`].
#[inline(always)]
pub unsafe fn build<F, const IN_USE: bool, const MERGES: bool>(args: &BuildArgs<F::Key, F::Value>)
where
    F: Format,
    F::Key: SharedWord,
    F::Value: SharedWord,
    F::Word: SharedWord,
{
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::ALONE || crate::native::is_here() {
        // SAFETY: passed on.
        return unsafe { crate::native::pages::build::<F, IN_USE, MERGES>(args) };
    }
    let number = args.first + thread::block_idx_x();
    let slots = Shared::<F, IN_USE>::SLAB_SLOTS << args.view.page_log2;
    let room = args.heads.room;
    // SAFETY: between two barriers a shared word is written by one thread, or accessed by atomics
    // alone; slots, places and pages stay below their numbers. The page is read before the second
    // barrier and written after it, by this block alone. Whether pairs are ranked well is known
    // to the whole block.
    unsafe {
        let at = page_of_block(&args.view, number);
        let sent = mem::load_readonly(args.counts.add(number as usize));
        let head = args.heads.of(number, at).cast_const();
        let page = Page::<F, IN_USE> {
            args,
            shared: Shared::of(slots, room),
            slots,
            slab_mask: (1 << args.view.page_log2) - 1,
            count: if sent < u64::from(room) {
                sent as u32
            } else {
                room
            },
        };
        if IN_USE {
            let words = at.cast::<u64>().cast_const();
            let len = 2 * (slots / F::SLOTS);
            stage(
                page.shared.page.cast(),
                words,
                len,
                true,
                thread::block_dim_x(),
            );
        }
        page.shared.stage(head, args.heads.keys, page.count);
        page.shared.clear(page.slots);
        if sent > u64::from(room) && thread::thread_idx_x() == 0 {
            atomic::store(args.crowded, 1u64, Relaxed);
        }
        // What was merged cannot be taken back when keys turn out to be equal.
        let may_rank = const { !MERGES && Page::<F, IN_USE>::RANKS };
        if may_rank && thread::thread_idx_x() == 0 {
            page.shared.doubt.store(u32::from(page.doubts(number)));
        }
        let merging = &args.merging;
        let is_whole = !MERGES || mem::load_readonly(merging.sent_away) <= merging.most_sent_away;
        wait_copies::<0>();
        thread::sync_threads();

        // Of this thread's pairs, those that are to be placed.
        let mut some = u32::MAX;
        let mut places = is_whole;
        if IN_USE && MERGES && is_whole {
            some = page.merge_present();
            if some != 0 {
                page.shared.equal.set_bits(1);
            }
            thread::sync_threads();
            places = page.shared.equal.load() != 0;
            if !places {
                page.write_as_loaded(at.cast());
            }
        }
        if IN_USE && places {
            page.load();
            thread::sync_threads();
        }
        let mut ranks = may_rank && page.shared.doubt.load() == 0;
        // Goes round a second time if keys are equal.
        let stored = loop {
            if !places {
                break 0;
            }
            let placed = if ranks {
                page.rank_all()
            } else {
                Some(page.claim_all::<MERGES>(some))
            };
            thread::sync_threads();
            if let Some(placed) = placed {
                // The page is written before it is known whether keys are equal, which they seldom are: a warp
                // that has little to compare goes on.
                if ranks && page.sees_equal_keys() {
                    page.shared.equal.fetch_add(1);
                }
                page.write(at.cast());
                if !ranks {
                    break placed;
                }
                thread::sync_threads();
                if page.shared.equal.load() == 0 {
                    break placed;
                }
            }
            thread::sync_threads();
            if thread::thread_idx_x() == 0 {
                atomic::fetch_add(args.equal, 1, Relaxed);
            }
            page.shared.clear(page.slots);
            thread::sync_threads();
            if IN_USE {
                page.load();
                thread::sync_threads();
            }
            ranks = false;
        };
        // The words have also what launches before this one have counted, and the length of the list of pairs
        // that are spilled.
        add_block_sum(args.stored.words, stored);
        if thread::thread_idx_x() == 0 {
            args.stored.block_is_done();
        }
    }
}

/// Where page number `number` of all is.
///
/// # Safety
/// The map is live, and has that page.
#[inline(always)]
unsafe fn page_of_block(view: &MapView, number: u32) -> *mut u8 {
    // The last submap that no more pages come before, which is one of `len` from `low` on: a warp
    // looks at 32 of these at a time. Ends: `len` becomes a 32nd each time.
    let (mut low, mut len) = (0, view.submap_count);
    while len > 1 {
        let step = len.div_ceil(warp::SIZE);
        let ahead = warp::lane_id() * step;
        // SAFETY: a submap of the map; the directory is not written meanwhile. Warps go through the
        // loop as one.
        unsafe {
            let at = view.submaps.add((low + ahead.min(len - 1)) as usize);
            let comes = ahead < len && load_submap(at).pages_before <= number;
            let before = warp::warp_vote_ballot(LaneMask::FULL, comes);
            let skipped = (before.count() - 1) * step;
            low += skipped;
            len = step.min(len - skipped);
        }
    }
    // SAFETY: as above.
    let submap = unsafe { load_submap(view.submaps.add(low as usize)) };
    submap.page_at(number, view.page_bytes())
}
