//! Moving the pairs of a submap to a new one, where a block makes its pages in place.
//!
//! New pages stay in the cache while they are made, and old ones are read in order. No [marks](crate::marks) are
//! left: blocks that run natively do not look at them.

use core::ptr::write_bytes;

use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::native::Block;

use crate::hash::{KeyHash, scale};
use crate::rebuild::{MOST_PAGES, RebuildArgs};
use crate::slot::{Format, KeyWord};
use crate::table::{MAX_PAGE_SLABS, PAGE_WALK, SLAB_BYTES};

/// The most slabs of a block's new pages.
const SLABS: usize = (MOST_PAGES * MAX_PAGE_SLABS) as usize;

/// The new pages of a block.
struct NewPages<'a> {
    args: &'a RebuildArgs,
    /// The first one, and how many.
    first: u32,
    count: u32,
    /// Their slabs.
    slabs: *mut u8,
    /// Slots of each that are taken.
    taken: [u8; SLABS],
}

/// # Safety
/// See [`rebuild`](crate::rebuild::rebuild), of which this is what all threads of the block do.
pub(crate) unsafe fn rebuild<F: Format>(args: &RebuildArgs, block: Block) {
    let first = block.index * args.together;
    let page_bytes = (SLAB_BYTES as usize) << args.page_log2;
    let mut pages = NewPages {
        args,
        first,
        count: args.together.min(args.new_pages - first),
        slabs: args.new.wrapping_add(first as usize * page_bytes),
        taken: [0; SLABS],
    };
    let page_slots = page_bytes / F::SLOT_BYTES as usize;
    // SAFETY: the new pages are the block's; old ones are not written any more.
    unsafe {
        write_bytes(pages.slabs, 0xff, pages.count as usize * page_bytes);
        let (first_old, _) = args.range(first);
        let (_, last_old) = args.range(first + pages.count - 1);
        for old_page in first_old..=last_old {
            let begin = (old_page as usize * page_slots) as u64;
            for slot in begin..begin + page_slots as u64 {
                let (word, value) = F::read(args.old, slot);
                if word.is_key() {
                    pages.take_in::<F>(old_page, word, value);
                }
            }
        }
        args.count.block_is_done();
    }
}

/// Puts a pair on the list of leftovers.
///
/// # Safety
/// The arguments are those of the launch.
unsafe fn leave<F: Format>(args: &RebuildArgs, word: F::Word, value: F::Value) {
    // SAFETY: each place of the list is given once.
    unsafe {
        let at = atomic::fetch_add(args.count.words, 1, Relaxed);
        if at < args.room {
            F::write(args.leftovers, at, word, value);
        }
    }
}

impl NewPages<'_> {
    /// Places a pair of an old page, if that is the block's business.
    ///
    /// # Safety
    /// It lay in that page.
    #[inline(always)]
    unsafe fn take_in<F: Format>(&mut self, old_page: u32, word: F::Word, value: F::Value) {
        let args = self.args;
        let hash = KeyHash::new(F::key(word), args.seed);
        let home = scale(hash.submap(args.submap_count).1, args.new_pages);
        let page = home.wrapping_sub(self.first);
        let is_read = args.reads(home, old_page);
        // SAFETY: a page of the block; the list is that of the launch.
        unsafe {
            if page < self.count && is_read {
                if !self.place::<F>(page, hash, word, value) {
                    leave::<F>(args, word, value);
                }
            } else if !is_read && args.owns(self.first, old_page) {
                leave::<F>(args, word, value);
            }
        }
    }

    /// Puts a pair where its walk through a page leads, if there is room.
    ///
    /// # Safety
    /// The page is one of the block's.
    #[inline(always)]
    unsafe fn place<F: Format>(
        &mut self,
        page: u32,
        hash: KeyHash,
        word: F::Word,
        value: F::Value,
    ) -> bool {
        let mask = (1 << self.args.page_log2) - 1;
        let slab_slots = SLAB_BYTES / F::SLOT_BYTES;
        let mut slab = hash.slab(mask);
        for _ in 0..PAGE_WALK.min(mask + 1) {
            let i = page << self.args.page_log2 | slab;
            let taken = &mut self.taken[i as usize];
            if u32::from(*taken) < slab_slots {
                let slot = i * slab_slots + u32::from(*taken);
                *taken += 1;
                // SAFETY: a slot of the page, and given once.
                unsafe { F::write(self.slabs, u64::from(slot), word, value) };
                return true;
            }
            slab = slab.wrapping_add(hash.step()) & mask;
        }
        false
    }
}
