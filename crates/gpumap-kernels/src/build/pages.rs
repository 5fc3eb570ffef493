//! From bins to pages: the second pass.
//!
//! It leaves the pairs that are sent to a page at a *head*, keys and values in two arrays one behind
//! the other, in any order. A page in which nothing is stored is its own head: a slot is no smaller
//! than a pair, so there is room for as many as it has slots. Those of pages in use lie in scratch
//! memory.

use crate::build::spill::Spill;
use crate::hash::{KeyHash, scale};
use crate::primitives::partition::{Payload, Route, Run, Tile, scatter};
use crate::slot::Bits;
use crate::table::{MapView, SLAB_BYTES, Submap, load_submap};
use core::ptr;
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::mem::{self, Vector};
use gpumap_simt::shared_ptr::SharedWord;
use gpumap_simt::{U64x2, kernel_args, thread};

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
    /// Arguments of the kernels that sort bins by page: `tiles` blocks for each of the bins, of the
    /// threads that the kernel is for. Nothing else runs on the map, which has no pairs but in its
    /// reserved slabs if pages are their own heads.
    pub struct PagesArgs<K, V> {
        /// The map.
        pub view: MapView,
        /// Keys in `sources << bits` bins by the top bits of their hash.
        pub keys: *const K,
        /// The values beside them.
        pub values: *const V,
        /// How many pairs each bin has.
        pub counts: *const u64,
        /// Places of a bin: a multiple of [`GRAIN`](crate::build::bins::GRAIN).
        pub capacity: u64,
        /// What bins are by: the top bits of the hash.
        pub bits: u32,
        /// How many bins there are for each value of these, one behind the other; at least one.
        pub sources: u32,
        /// Blocks for each bin.
        pub tiles: u32,
        /// Keys per tile: a multiple of 64, at most what the kernel's threads rank.
        pub tile: u32,
        /// The most pages that a bin reaches into, at most the block's threads.
        pub parts: u32,
        /// Where pairs go.
        pub heads: Heads,
        /// In and out: for each page, how many pairs it was sent, also those that were spilled.
        pub cursors: *mut u64,
        /// Where these go.
        pub spill: Spill<K, V>,
    }
}

impl MapView {
    /// The number of a key's home page among those of all submaps.
    ///
    /// # Safety
    /// The view is of a live map.
    #[inline(always)]
    pub unsafe fn page_number(&self, hash: KeyHash) -> u32 {
        let (index, rest) = hash.submap(self.submap_count);
        // SAFETY: `index < submap_count`; the directory is not written while operations run.
        let submap = unsafe { load_submap(self.submaps.add(index as usize)) };
        submap.pages_before.wrapping_add(scale(rest, submap.pages))
    }

    /// Bytes of a page.
    #[inline(always)]
    pub const fn page_bytes(&self) -> u64 {
        (SLAB_BYTES as u64) << self.page_log2
    }
}

impl Submap {
    /// Where page number `page` of all begins, if this submap has it.
    #[inline(always)]
    pub fn page_at(&self, page: u32, page_bytes: u64) -> *mut u8 {
        let inside = page.wrapping_sub(self.pages_before);
        self.slabs
            .wrapping_add((u64::from(inside) * page_bytes) as usize)
    }
}

/// From the tile of a block to the pages of its bin.
struct BinToPages<'a, K, V> {
    args: &'a PagesArgs<K, V>,
    /// The bin of the block.
    bin: u32,
    /// Its tile among those of the bin.
    tile: u32,
    /// The first page that keys of the bin call home.
    first: u32,
    /// The number of the submap that has it,
    index: u32,
    /// and its entry.
    submap: Submap,
}

impl<'a, K: Bits, V: Bits> BinToPages<'a, K, V> {
    /// # Safety
    /// The launch is as [`PagesArgs`] says.
    #[inline(always)]
    unsafe fn of_block(args: &'a PagesArgs<K, V>) -> Self {
        let block = thread::block_idx_x();
        // There is at least one tile; the other branch would be a panic.
        let bin = block.checked_div(args.tiles).unwrap_or(0);
        let least = KeyHash::first_of(bin.checked_div(args.sources).unwrap_or(0), args.bits);
        let (index, _) = least.submap(args.view.submap_count);
        // SAFETY: `index` is below the number of submaps; the map is live.
        unsafe {
            Self {
                args,
                bin,
                tile: block - bin * args.tiles,
                first: args.view.page_number(least),
                index,
                submap: load_submap(args.view.submaps.add(index as usize)),
            }
        }
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

impl<K, V> BinToPages<'_, K, V> {
    /// The keys of a head, and the place there of key number `i` in the tile's order.
    #[inline(always)]
    fn of_place(&self, place: U64x2, i: u32) -> (*mut K, u32) {
        let head = ptr::with_exposed_provenance_mut(place.x as usize);
        (head, (place.y as u32).wrapping_add(i))
    }
}

impl<K: Bits, V: Bits + Payload> Route<K, V> for BinToPages<'_, K, V> {
    /// The address of the head, and its first free place less the run's position in the tile's
    /// order, modulo 2^32.
    type Place = U64x2;

    #[inline(always)]
    fn tile(&self) -> Tile<K, V> {
        let inside = u64::from(self.tile) * u64::from(self.args.tile);
        // SAFETY: one count per bin, which was counted by another launch.
        let count = unsafe { mem::load_readonly(self.args.counts.add(self.bin as usize)) };
        let begin = u64::from(self.bin) * self.args.capacity + inside;
        let left = count.saturating_sub(inside);
        Tile {
            keys: self.args.keys.wrapping_add(begin as usize),
            values: self
                .args
                .values
                .cast::<V::Word>()
                .wrapping_add(begin as usize),
            len: if left < u64::from(self.args.tile) {
                left as u32
            } else {
                self.args.tile
            },
            // Bins and tiles begin at multiples of 64 keys.
            aligned: 3,
        }
    }

    #[inline(always)]
    fn parts(&self) -> u32 {
        self.args.parts
    }

    #[inline(always)]
    fn part(&self, key: K) -> u32 {
        let hash = KeyHash::new(key.to_u64(), self.args.view.seed);
        let (index, rest) = hash.submap(self.args.view.submap_count);
        // The submap is nearly always the first one that the bin reaches into.
        let submap = if index == self.index {
            self.submap
        } else {
            // SAFETY: a submap of the map, which is live.
            unsafe { load_submap(self.args.view.submaps.add(index as usize)) }
        };
        let page = submap.pages_before.wrapping_add(scale(rest, submap.pages));
        page.wrapping_sub(self.first)
    }

    #[inline(always)]
    unsafe fn take(&self, part: u32, len: u32) -> u64 {
        if len == 0 {
            return 0;
        }
        let page = self.first.wrapping_add(part) as usize;
        // SAFETY: a cursor for each page, and the part has a key, so it is a page.
        unsafe { atomic::fetch_add(self.args.cursors.add(page), u64::from(len), Relaxed) }
    }

    #[inline(always)]
    unsafe fn place(&self, part: u32, Run { to, len, start }: Run) -> U64x2 {
        if len == 0 {
            return U64x2::new(0, 0);
        }
        // SAFETY: the part has a key.
        let head = unsafe { self.head(part) };
        // A page gets fewer than 2^32 keys.
        let shift = (to as u32).wrapping_sub(start);
        U64x2::new(head.expose_provenance() as u64, u64::from(shift))
    }

    #[inline(always)]
    unsafe fn put_key(&self, place: U64x2, i: u32, key: K, value: *const V::Word) {
        let (keys, at) = self.of_place(place, i);
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
        let (keys, at) = self.of_place(place, i);
        if at < self.args.heads.room {
            // SAFETY: as above.
            unsafe {
                let values = keys.add(self.args.heads.keys as usize).cast::<V::Word>();
                mem::store(values.add(at as usize), value);
            }
        }
    }
}

/// The body of the kernels.
///
/// # Safety
/// See [`PagesArgs`].
#[inline(always)]
pub(super) unsafe fn to_pages<K, V, const THREADS: u32, const EACH: usize>(args: &PagesArgs<K, V>)
where
    K: Bits + SharedWord + Vector,
    V: Bits + Payload,
{
    // SAFETY: the launch is as the arguments say.
    unsafe {
        let route = BinToPages::of_block(args);
        scatter::<_, _, _, THREADS, EACH, false>(&route, args.tile);
    }
}
