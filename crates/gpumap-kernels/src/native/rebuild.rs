//! Moving the pairs of a submap to a new one, where a block makes its pages in place.
//!
//! New pages stay in the cache while they are made, and old ones are read in order.

use core::ptr::write_bytes;

use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::native::Block;

use super::pages::{End, Pages};
use crate::hash::{KeyHash, scale};
use crate::rebuild::{MOST_PAGES, RebuildArgs};
use crate::slot::{Format, KeyWord};
use crate::table::{MAX_PAGE_SLABS, SLAB_BYTES};

/// The most slabs of a block's new pages.
const SLABS: usize = (MOST_PAGES * MAX_PAGE_SLABS) as usize;

/// The new pages of a block.
struct NewPages<'a> {
    args: &'a RebuildArgs,
    /// The first one, and how many.
    first: u32,
    count: u32,
    pages: Pages<SLABS>,
}

/// # Safety
/// See [`rebuild`](crate::rebuild::rebuild), of which this is what all threads of the block do.
pub(crate) unsafe fn rebuild<F: Format>(args: &RebuildArgs, block: Block) {
    let first = block.index * args.together;
    let page_bytes = (SLAB_BYTES as usize) << args.page_log2;
    let slabs = args.new.wrapping_add(first as usize * page_bytes);
    let mut pages = NewPages {
        args,
        first,
        count: args.together.min(args.new_pages - first),
        pages: Pages::new(slabs.cast(), args.page_log2),
    };
    let page_slots = page_bytes / F::SLOT_BYTES as usize;
    // SAFETY: the new pages are the block's; old ones are not written any more.
    unsafe {
        write_bytes(slabs, 0xff, pages.count as usize * page_bytes);
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
        pages
            .pages
            .arrange::<F>((pages.count as usize) << args.page_log2);
        args.count.block_is_done();
    }
}

/// Puts a pair on the list of remaining pairs.
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
                match self.pages.walk::<F, false>(page, hash, word) {
                    End::Free(at) => self.pages.put::<F>(at, word, value),
                    _ => leave::<F>(args, word, value),
                }
            } else if !is_read && args.owns(self.first, old_page) {
                leave::<F>(args, word, value);
            }
        }
    }
}
