//! From bins to pages: the second pass.
//!
//! It leaves the pairs that are sent to a page at a *head*, in any order: [side by side](super::pair), or
//! keys and values in two arrays one after the other. A page in which nothing is stored is its own head: a
//! slot is no smaller than a pair, so there is room for as many as it has slots. Those of pages in use lie
//! in scratch memory.

use crate::build::combine::{self, Combine};
use crate::build::pair::{Joined, side_by_side};
use crate::build::spill::Spill;
use crate::hash::{KeyHash, scale};
use crate::primitives::partition::{Payload, Route, Run, Tile};
use crate::slot::Bits;
use crate::table::{MapView, SLAB_BYTES, Submap, load_submap};
use core::marker::PhantomData;
use core::ptr;
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::mem;
use gpumap_simt::shared_ptr::SharedPtr;
use gpumap_simt::{U64x2, kernel_args, layout, thread};

/// Where the pairs lie that were sent to a page.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Heads {
    /// The first page's head, aligned to 16 bytes; or null, and pages are their own heads.
    pub at: *mut u8,
    /// Bytes from one to the next: a multiple of 16. Not used for pages that are their own.
    pub stride: u64,
    /// Keys that there is space for before the values begin: a multiple of 4.
    pub keys: u32,
    /// Pairs that are left there at most, no more than `keys`; a multiple of 4.
    pub room: u32,
}
layout!(Heads {
    at,
    stride,
    keys,
    room
});

impl Heads {
    /// The head of page number `number`, which is at `page`.
    #[inline(always)]
    pub fn of(&self, number: u32, page: *mut u8) -> *mut u8 {
        if self.at.is_null() {
            page
        } else {
            let offset = u64::from(number) * self.stride;
            self.at.wrapping_add(offset as usize)
        }
    }
}

kernel_args! {
    /// Arguments of the kernels that sort bins by page: `tiles` blocks for each of some consecutive bins, of
    /// the threads that the kernel is for. Nothing else runs on the map, which has no pairs but in its
    /// reserved slabs if pages are their own heads.
    pub struct PagesArgs<K, V> {
        /// The map.
        pub view: MapView,
        /// Keys in `sources << bits` bins by the top bits of their hash, or pairs [side by side](super::pair).
        pub keys: *const K,
        /// The values of keys alone.
        pub values: *const V,
        /// How many pairs each bin has.
        pub counts: *const u64,
        /// Places of a bin: a multiple of [`GRAIN`](crate::build::bins::GRAIN).
        pub capacity: u64,
        /// What bins are by: the top bits of the hash.
        pub bits: u32,
        /// How many bins there are for each value of these, one after the other; at least one.
        pub sources: u32,
        /// The number of the first of the bins.
        pub first: u32,
        /// Blocks for each bin.
        pub tiles: u32,
        /// Keys per tile: a multiple of 64, at most what the kernel's threads rank.
        pub tile: u32,
        /// The most pages that a bin reaches into, at most [`ROWS`] for each thread of a block.
        pub parts: u32,
        /// Where pairs go.
        pub heads: Heads,
        /// In and out: for each page, how many pairs it was sent, also those that were spilled.
        pub cursors: *mut u64,
        /// Where these go.
        pub spill: Spill<K, V>,
        /// What becomes of the values of equal keys, of kernels that combine.
        pub combine: Combine,
    }
}

impl MapView {
    /// Bytes of a page.
    #[inline(always)]
    pub const fn page_bytes(&self) -> u64 {
        (SLAB_BYTES as u64) << self.page_log2
    }
}

impl Submap {
    /// The number, among those of all submaps, of the page that such [bits](KeyHash::submap) choose.
    #[inline(always)]
    fn page_of(&self, rest: u32) -> u32 {
        self.pages_before.wrapping_add(scale(rest, self.pages))
    }

    /// Where page number `page` of all begins, if this submap has it.
    #[inline(always)]
    pub fn page_at(&self, page: u32, page_bytes: u64) -> *mut u8 {
        let inside = page.wrapping_sub(self.pages_before);
        self.slabs
            .wrapping_add((u64::from(inside) * page_bytes) as usize)
    }
}

/// Pages for each thread, of those that a bin reaches into.
pub const ROWS: usize = 2;

/// From the tile of a block to the pages of its bin.
pub(super) struct BinToPages<'a, K, V> {
    args: &'a PagesArgs<K, V>,
    /// The bin of the block.
    bin: u32,
    /// Its tile among those of the bin.
    tile: u32,
    /// The first page that keys of the bin call home,
    first: u32,
    /// the number of the submap that has it,
    index: u32,
    /// and its entry: known once it has [begun](Route::begin).
    submap: Submap,
}

impl<'a, K: Bits, V: Bits> BinToPages<'a, K, V> {
    #[inline(always)]
    pub(super) fn of_block(args: &'a PagesArgs<K, V>) -> Self {
        let block = thread::block_idx_x();
        // There is at least one tile; the other branch would be a panic.
        let bin = block.checked_div(args.tiles).unwrap_or(0);
        Self {
            args,
            bin: args.first + bin,
            tile: block - bin * args.tiles,
            first: 0,
            index: 0,
            submap: Submap {
                slabs: ptr::null_mut(),
                pages: 0,
                pages_before: 0,
            },
        }
    }

    /// Finds the first page.
    ///
    /// # Safety
    /// The launch is as [`PagesArgs`] says.
    #[inline(always)]
    unsafe fn find_first(&mut self) {
        let args = self.args;
        // No key comes from no source; the other branch would be a panic.
        let region = self.bin.checked_div(args.sources).unwrap_or(0);
        let least = KeyHash::first_of(region, args.bits);
        let (index, rest) = least.submap(args.view.submap_count);
        self.index = index;
        // SAFETY: `index` is below the number of submaps; the map is live.
        self.submap = unsafe { load_submap(args.view.submaps.add(index as usize)) };
        self.first = self.submap.page_of(rest);
    }

    /// The head of the page of a part.
    ///
    /// # Safety
    /// A key of the bin has that part.
    #[inline(always)]
    unsafe fn head(&self, part: u32) -> *mut u8 {
        let page = self.first.wrapping_add(part);
        if !self.args.heads.at.is_null() {
            return self.args.heads.of(page, ptr::null_mut());
        }
        let (mut submap, mut index) = (self.submap, self.index);
        // A bin seldom reaches into a second submap. Ends with the submap that has the page.
        while page.wrapping_sub(submap.pages_before) >= submap.pages {
            index += 1;
            // SAFETY: the page is that of a key, so some submap has it.
            submap = unsafe { load_submap(self.args.view.submaps.add(index as usize)) };
        }
        submap.page_at(page, self.args.view.page_bytes())
    }
}

impl<K: Bits, V: Bits> BinToPages<'_, K, V> {
    /// The first place of the block's tile, and how many are in use from there on.
    #[inline(always)]
    fn range(&self) -> (usize, u32) {
        let inside = u64::from(self.tile) * u64::from(self.args.tile);
        // SAFETY: one count per bin, which was counted by another launch.
        let count = unsafe { mem::load_readonly(self.args.counts.add(self.bin as usize)) };
        let begin = u64::from(self.bin) * self.args.capacity + inside;
        let left = count.saturating_sub(inside);
        let len = if left < u64::from(self.args.tile) {
            left as u32
        } else {
            self.args.tile
        };
        (begin as usize, len)
    }

    /// The page that a key calls home, among those that the bin reaches into.
    #[inline(always)]
    fn part_of(&self, key: K) -> u32 {
        let hash = KeyHash::new(key, self.args.view.seed);
        let (index, rest) = hash.submap(self.args.view.submap_count);
        // The submap is nearly always the first one that the bin reaches into.
        let submap = if index == self.index {
            self.submap
        } else {
            // SAFETY: a submap of the map, which is live.
            unsafe { load_submap(self.args.view.submaps.add(index as usize)) }
        };
        submap.page_of(rest).wrapping_sub(self.first)
    }

    /// Takes room at the head of a page.
    ///
    /// # Safety
    /// Called once for each part.
    #[inline(always)]
    unsafe fn take_room(&self, part: u32, len: u32) -> u64 {
        if len == 0 {
            return 0;
        }
        let page = self.first.wrapping_add(part) as usize;
        // SAFETY: a cursor for each page, and the part has a key, so it is a page.
        unsafe { atomic::fetch_add(self.args.cursors.add(page), u64::from(len), Relaxed) }
    }

    /// The address of the head, and its first free place less the run's position in the tile's
    /// order, modulo 2^32.
    ///
    /// # Safety
    /// The run is what the block has of that part.
    #[inline(always)]
    unsafe fn at_head(&self, part: u32, Run { to, len, start }: Run) -> U64x2 {
        if len == 0 {
            return U64x2::new(0, 0);
        }
        // SAFETY: the part has a key.
        let head = unsafe { self.head(part) };
        // A page gets fewer than 2^32 keys.
        let shift = (to as u32).wrapping_sub(start);
        U64x2::new(head.expose_provenance() as u64, u64::from(shift))
    }

    /// The head that a place is at, and the number there of key number `i` in the tile's order.
    #[inline(always)]
    fn of_place<T>(&self, place: U64x2, i: u32) -> (*mut T, u32) {
        let head = ptr::with_exposed_provenance_mut(place.x as usize);
        (head, (place.y as u32).wrapping_add(i))
    }
}

/// Keys and values in arrays of their own.
impl<K: Bits, V: Bits + Payload> Route<K, V> for BinToPages<'_, K, V> {
    type Place = U64x2;

    const ROWS: usize = ROWS;

    #[inline(always)]
    fn tile(&self) -> Tile<K, V> {
        let (begin, len) = self.range();
        Tile {
            keys: self.args.keys.wrapping_add(begin),
            values: self.args.values.cast::<V::Word>().wrapping_add(begin),
            len,
            // Bins and tiles begin at multiples of 64 keys.
            aligned: 3,
        }
    }

    #[inline(always)]
    unsafe fn begin(&mut self) {
        // SAFETY: passed on.
        unsafe { self.find_first() };
    }

    #[inline(always)]
    fn parts(&self) -> u32 {
        self.args.parts
    }

    #[inline(always)]
    fn part(&self, key: K) -> u32 {
        self.part_of(key)
    }

    #[inline(always)]
    unsafe fn take(&self, part: u32, len: u32) -> u64 {
        // SAFETY: passed on.
        unsafe { self.take_room(part, len) }
    }

    #[inline(always)]
    unsafe fn place(&self, part: u32, run: Run) -> U64x2 {
        // SAFETY: passed on.
        unsafe { self.at_head(part, run) }
    }

    #[inline(always)]
    unsafe fn put_key(&self, place: U64x2, i: u32, key: K, value: *const V::Word) {
        let (keys, at) = self.of_place::<K>(place, i);
        // SAFETY: a place of the page's head, or of the list, that is this pair's alone.
        unsafe {
            if at < self.args.heads.room {
                mem::store(keys.add(at as usize), key);
            } else {
                self.args.spill.put(key, mem::load(value.cast::<V>()));
            }
        }
    }

    #[inline(always)]
    unsafe fn put_value(&self, place: U64x2, i: u32, value: V::Word) {
        let (keys, at) = self.of_place::<K>(place, i);
        if at < self.args.heads.room {
            // SAFETY: as above.
            unsafe {
                let values = keys.add(self.args.heads.keys as usize).cast::<V::Word>();
                mem::store(values.add(at as usize), value);
            }
        }
    }
}

/// The same for pairs side by side in words.
pub(super) struct PairsToPages<'a, K, V, W> {
    route: BinToPages<'a, K, V>,
    word: PhantomData<W>,
}

impl<'a, K: Bits, V: Bits, W: Joined> PairsToPages<'a, K, V, W> {
    #[inline(always)]
    pub(super) fn of_block(args: &'a PagesArgs<K, V>) -> Self {
        const { assert!(side_by_side::<K, V>()) };
        const { assert!(size_of::<W>() == size_of::<K>() + size_of::<V>()) };
        Self {
            route: BinToPages::of_block(args),
            word: PhantomData,
        }
    }
}

impl<K: Bits, V: Bits, W: Joined> Route<W, ()> for PairsToPages<'_, K, V, W> {
    type Place = U64x2;

    const ROWS: usize = ROWS;

    #[inline(always)]
    fn tile(&self) -> Tile<W, ()> {
        let (begin, len) = self.route.range();
        Tile {
            keys: self.route.args.keys.cast::<W>().wrapping_add(begin),
            values: ptr::null(),
            len,
            aligned: 1,
        }
    }

    #[inline(always)]
    unsafe fn begin(&mut self) {
        // SAFETY: passed on.
        unsafe { self.route.find_first() };
    }

    #[inline(always)]
    fn parts(&self) -> u32 {
        self.route.args.parts
    }

    #[inline(always)]
    fn place_of(&self, pair: W) -> u32 {
        combine::place_of(pair.key::<K>())
    }

    #[inline(always)]
    fn same(&self, one: W, other: W) -> bool {
        one.key::<K>() == other.key::<K>()
    }

    #[inline(always)]
    unsafe fn combine(&self, pairs: SharedPtr<W>, _: SharedPtr<u32>, there: u32, i: u32) {
        // The second half of a pair.
        let value = |i: u32| pairs.cast::<V>().add(2 * i + 1);
        // SAFETY: passed on.
        unsafe { self.route.args.combine.apply(value(there), value(i)) };
    }

    #[inline(always)]
    fn part(&self, pair: W) -> u32 {
        self.route.part_of(pair.key())
    }

    #[inline(always)]
    unsafe fn take(&self, part: u32, len: u32) -> u64 {
        // SAFETY: passed on.
        unsafe { self.route.take_room(part, len) }
    }

    #[inline(always)]
    unsafe fn place(&self, part: u32, run: Run) -> U64x2 {
        // SAFETY: passed on.
        unsafe { self.route.at_head(part, run) }
    }

    #[inline(always)]
    unsafe fn put_key(&self, place: U64x2, i: u32, pair: W, _: *const u32) {
        let (pairs, at) = self.route.of_place::<W>(place, i);
        let args = self.route.args;
        // SAFETY: a place of the page's head, or of the list, that is this pair's alone.
        unsafe {
            if at < args.heads.room {
                mem::store(pairs.add(at as usize), pair);
            } else {
                args.spill.put(pair.key(), pair.value());
            }
        }
    }

    /// Pairs have no values beside them.
    #[inline(always)]
    unsafe fn put_value(&self, _: U64x2, _: u32, _: u32) {}
}
