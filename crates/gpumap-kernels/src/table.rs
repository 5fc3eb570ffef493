//! Submaps, pages, slabs, and the walk of a key through them.
//!
//! | unit | size | role |
//! |---|---|---|
//! | slot | 8 or 16 bytes | one pair, or one key of a set |
//! | slab | 64 bytes | what four lanes read at once; the L2 fetches that much anyway |
//! | page | up to 512 slabs (32 KiB) | the home of a key: its walk starts here |
//! | submap | any number of pages | one allocation; a share of the hash range |
//!
//! The **walk** of a key is a fixed order of slabs: up to 32 of its home page by double hashing,
//! then 32 of the next page of the submap, and so on; when it comes round to its home page it
//! goes on with the next 32. It visits no slab twice, and ends after [`MAX_WALK`] slabs or all
//! the submap has. Every verb follows the same order.

use crate::hash::{KeyHash, scale};
use crate::slot::{Bits, Format, Stored};
use gpumap_simt::U64x2;
use gpumap_simt::layout;
use gpumap_simt::mem;

/// Bytes per slab.
pub const SLAB_BYTES: u32 = 64;
/// Slabs of a page at most.
pub const MAX_PAGE_SLABS: u32 = 512;
/// Slabs of one page that a walk visits before it goes to the next page.
pub const PAGE_WALK: u32 = 32;
/// Slabs that a walk visits at most: 2,048 slots of 16 bytes. At load 0.9 a key of 100 million
/// was never seen to pass 64 of them.
pub const MAX_WALK: u32 = 512;

/// One submap, as the device finds it in the map's directory.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub struct Submap {
    /// Its slabs.
    pub slabs: *mut u8,
    /// How many pages it has, at least one.
    pub pages: u32,
    /// How many pages the submaps before it have together, modulo 2^32.
    pub pages_before: u32,
}
layout!(Submap {
    slabs,
    pages,
    pages_before
});

/// A map as kernels see it. The host owns what the pointers lead to.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct MapView {
    /// The directory: one entry per submap, each responsible for an equal share of the hash
    /// range.
    pub submaps: *const Submap,
    /// The [`RESERVED_WORDS`](crate::slot::RESERVED_WORDS) slabs of the keys whose bits mean a
    /// state: one for each, its cell.
    pub reserved: *mut u8,
    /// Combined with every key before it is hashed.
    pub seed: u64,
    /// Entries of the directory.
    pub submap_count: u32,
    /// Slabs per page: `1 << page_log2`.
    pub page_log2: u32,
    /// Slabs of a walk whose [marks](crate::marks) hold: those in its home page, or none.
    pub marks: u32,
}
layout!(MapView {
    submaps,
    reserved,
    seed,
    submap_count,
    page_log2,
    marks
});

// SAFETY: an address and plain words; what it leads to is synchronised by the kernels.
unsafe impl Send for Submap {}
// SAFETY: as above.
unsafe impl Sync for Submap {}
// SAFETY: as above.
unsafe impl Send for MapView {}
// SAFETY: as above.
unsafe impl Sync for MapView {}

/// A place on a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The slab.
    pub slab: *mut u8,
    /// How many slabs the whole walk has.
    pub walk: u32,
}

impl MapView {
    /// Slab number `probe` of the walk of a stored key.
    ///
    /// # Safety
    /// The view is of a live map, and `probe` is 0 or less than the walk's length.
    #[inline(always)]
    pub unsafe fn place<F: Format>(&self, stored: Stored<F::Word>, probe: u32) -> Place {
        // SAFETY: passed on.
        unsafe { self.place_of::<F>(stored, probe, false) }
    }

    /// As [`place`](Self::place), of a key that may be `narrow`: of 4 bytes, though the type of the format's keys has 8.
    ///
    /// # Safety
    /// As for [`place`](Self::place).
    #[inline(always)]
    pub unsafe fn place_of<F: Format>(
        &self,
        stored: Stored<F::Word>,
        probe: u32,
        narrow: bool,
    ) -> Place {
        match stored {
            Stored::Reserved(alias) => Place {
                slab: self
                    .reserved
                    .wrapping_add((alias.to_u64() * u64::from(SLAB_BYTES)) as usize),
                walk: 1,
            },
            Stored::Table(word) => {
                let key = F::key(word);
                let hash = if narrow {
                    KeyHash::new(key.to_u64() as u32, self.seed)
                } else {
                    KeyHash::new(key, self.seed)
                };
                let (index, rest) = hash.submap(self.submap_count);
                // SAFETY: `index < submap_count` by construction. The directory is not written
                // while operations run.
                let submap = unsafe { load_submap(self.submaps.add(index as usize)) };
                place_in(submap, self.page_log2, hash, rest, probe)
            }
        }
    }
}

/// One 16-byte load of a directory entry, through the read-only path: it stays in the L1.
///
/// # Safety
/// `entry` is an entry of a directory that is not written while the launch lasts.
#[inline(always)]
pub(crate) unsafe fn load_submap(entry: *const Submap) -> Submap {
    // SAFETY: `Submap` is 16 bytes, aligned to 16.
    let words: U64x2 = unsafe { mem::load_readonly(entry.cast()) };
    Submap {
        slabs: words.x as *mut u8,
        pages: words.y as u32,
        pages_before: (words.y >> 32) as u32,
    }
}

/// The walk's arithmetic, apart from where the submap came from.
#[inline(always)]
fn place_in(submap: Submap, page_log2: u32, hash: KeyHash, rest: u32, probe: u32) -> Place {
    let page_mask = (1 << page_log2) - 1;
    let mut page = scale(rest, submap.pages);
    let mut position = probe;
    // Pages smaller than a page's share of the walk are visited whole.
    let stay_log2 = page_log2.min(PAGE_WALK.trailing_zeros());
    let mut visit = probe >> stay_log2;
    if visit != 0 {
        // The rare case. At most MAX_WALK turns, for a submap of one page of one slab.
        let mut lap = 0;
        while visit >= submap.pages {
            visit -= submap.pages;
            lap += 1;
        }
        page += visit;
        if page >= submap.pages {
            page -= submap.pages;
        }
        position = (probe & ((1 << stay_log2) - 1)) + (lap << stay_log2);
    }
    let slab = hash
        .slab(page_mask)
        .wrapping_add(position.wrapping_mul(hash.step()))
        & page_mask;
    let index = (u64::from(page) << page_log2) + u64::from(slab);
    Place {
        slab: submap
            .slabs
            .wrapping_add((index * u64::from(SLAB_BYTES)) as usize),
        walk: walk_length(submap.pages, page_log2),
    }
}

/// How many slabs a walk has in a submap of this shape.
#[inline(always)]
pub const fn walk_length(pages: u32, page_log2: u32) -> u32 {
    let slabs = (pages as u64) << page_log2;
    if slabs < MAX_WALK as u64 {
        slabs as u32
    } else {
        MAX_WALK
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::Wide;
    use std::collections::HashSet;

    /// The slabs of a walk, as indices.
    fn walk(submaps: &[Submap], page_log2: u32, key: u64) -> Vec<usize> {
        let view = MapView {
            submaps: submaps.as_ptr(),
            reserved: core::ptr::null_mut(),
            seed: 42,
            submap_count: submaps.len() as u32,
            page_log2,
            marks: 0,
        };
        // SAFETY: the view is of `submaps`, and probes stay below the length.
        let place = |probe| unsafe { view.place::<Wide<u64, u64>>(Stored::Table(key), probe) };
        (0..place(0).walk)
            .map(|probe| place(probe).slab as usize / SLAB_BYTES as usize)
            .collect()
    }

    fn submap(pages: u32) -> Submap {
        Submap {
            slabs: core::ptr::null_mut(),
            pages,
            pages_before: 0,
        }
    }

    #[test]
    fn a_walk_visits_no_slab_twice_and_a_small_submap_whole() {
        for page_log2 in [0, 1, 3, 5, 6, 9] {
            for pages in [1, 2, 3, 5, 16, 17, 100, 1000] {
                for key in 0..20 {
                    let slabs = (pages as usize) << page_log2;
                    let walk = walk(&[submap(pages)], page_log2, key);
                    let distinct: HashSet<_> = walk.iter().collect();
                    assert_eq!(walk.len(), slabs.min(MAX_WALK as usize));
                    assert_eq!(distinct.len(), walk.len(), "pages {pages} of 2^{page_log2}");
                    assert!(walk.iter().all(|&s| s < slabs));
                }
            }
        }
    }

    #[test]
    fn a_walk_stays_in_its_page_before_it_goes_on() {
        let walk = walk(&[submap(8)], 9, 3);
        let page = |probe: usize| walk[probe] >> 9;
        assert!((0..32).all(|probe| page(probe) == page(0)));
        assert_eq!(page(32), (page(0) + 1) % 8);
        assert_eq!(page(8 * 32), page(0), "comes round to its home page");
    }

    #[test]
    fn a_walk_keeps_to_one_submap() {
        let mut submaps = [submap(2); 5];
        for (i, submap) in submaps.iter_mut().enumerate() {
            submap.slabs = core::ptr::without_provenance_mut(i << 30);
        }
        let mut used = HashSet::new();
        for key in 0..100 {
            let walk = walk(&submaps, 4, key);
            let home = walk[0] >> 24;
            assert!(walk.iter().all(|&s| s >> 24 == home));
            used.insert(home);
        }
        assert_eq!(used.len(), 5);
    }

    #[test]
    fn indices_are_64_bits_wide() {
        // 16 Mi pages of 32 KiB: 2^33 slabs, 512 GiB, 2^35 slots. Arithmetic only.
        let last = (0..2000)
            .map(|key| walk(&[submap(1 << 24)], 9, key)[0])
            .max()
            .unwrap();
        assert!(last > (1 << 32));
    }
}
