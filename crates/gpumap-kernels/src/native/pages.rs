//! Making pages from the pairs at their heads, and what was in them before.
//!
//! Nothing else uses the map meanwhile, so a pair is put into the first slot that is free on its walk, without atomics.
//! Slabs that are full are then put in the order that says what has passed them ([`marks`]).

use core::mem::MaybeUninit;
use core::ptr::{copy_nonoverlapping, write_bytes};

use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::{U64x2, thread};

use crate::build::page::BuildArgs;
use crate::build::pair::{self, side_by_side};
use crate::hash::KeyHash;
use crate::marks::{self, ALL_CLASSES};
use crate::slot::{Format, KeyWord, Stored};
use crate::table::{MAX_PAGE_SLABS, MapView, PAGE_WALK, SLAB_BYTES, load_submap};

/// A slab as it lies in the table.
pub(super) type Slab = [U64x2; SLAB_BYTES as usize / 16];

/// What has passed a slab, if that has not been looked at.
const UNKNOWN: u8 = !0;

/// Where the walk of a key through its page ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// At a slot that is free, for a pair with it.
    Free(Free),
    /// At a slot that has one.
    Present(*mut u8),
    /// Behind the last slab.
    WalkedOff,
}

/// A slot that is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Free {
    /// Its slab among all.
    slab: usize,
    slot: u32,
}

/// Pages side by side, of `SLABS` slabs at most, that nothing else uses.
pub(super) struct Pages<const SLABS: usize> {
    slabs: *mut Slab,
    /// Slabs of each page, less one.
    mask: u32,
    /// The classes of keys that have passed each slab, or [`UNKNOWN`].
    passed: [u8; SLABS],
}

impl<const SLABS: usize> Pages<SLABS> {
    pub(super) fn new(slabs: *mut Slab, page_log2: u32) -> Self {
        Self {
            slabs,
            mask: (1 << page_log2) - 1,
            passed: [UNKNOWN; SLABS],
        }
    }

    /// Where the walk of a key ends, which passes the slabs before. `LOOKS` unless the key is known to be absent.
    ///
    /// # Safety
    /// There is such a page, of slots of this format; the hash is that of the key.
    #[inline(always)]
    pub(super) unsafe fn walk<F: Format, const LOOKS: bool>(
        &mut self,
        page: u32,
        hash: KeyHash,
        word: F::Word,
    ) -> End {
        let slab_slots = SLAB_BYTES / F::SLOT_BYTES;
        let mut slab = hash.slab(self.mask);
        for _ in 0..PAGE_WALK.min(self.mask + 1) {
            let i = (page * (self.mask + 1) + slab) as usize;
            let slots = self.slabs.wrapping_add(i).cast::<u8>();
            let (mut holds, mut empty) = (0, 0);
            for slot in 0..slab_slots {
                // SAFETY: a slot of the slab.
                let (there, _) = unsafe { F::read(slots, u64::from(slot)) };
                holds |= u32::from(there == word) << slot;
                empty |= u32::from(there == F::Word::EMPTY) << slot;
            }
            if LOOKS && holds != 0 {
                let slot = holds.trailing_zeros() * F::SLOT_BYTES;
                return End::Present(slots.wrapping_add(slot as usize));
            }
            if empty != 0 {
                let slot = empty.trailing_zeros();
                return End::Free(Free { slab: i, slot });
            }
            if self.passed[i] == UNKNOWN {
                // SAFETY: a slab of the page.
                let unpassed = marks::unpassed_alone::<F>(unsafe { &*self.slabs.add(i) });
                self.passed[i] = (!unpassed & ALL_CLASSES) as u8;
            }
            self.passed[i] |= marks::class::<F>(word) as u8;
            slab = slab.wrapping_add(hash.step()) & self.mask;
        }
        End::WalkedOff
    }

    /// Puts a pair into a slot.
    ///
    /// # Safety
    /// The slot is free, and of this format.
    #[inline(always)]
    pub(super) unsafe fn put<F: Format>(&mut self, at: Free, word: F::Word, value: F::Value) {
        let slots = self.slabs.wrapping_add(at.slab).cast();
        // SAFETY: the caller's promise.
        unsafe { F::write(slots, u64::from(at.slot), word, value) };
        // Nothing passes a slab with a free slot.
        self.passed[at.slab] = 0;
    }

    /// Puts slabs that have become full in the order that says what has passed them.
    ///
    /// # Safety
    /// There are so many slabs, of this format.
    pub(super) unsafe fn arrange<F: Format>(&mut self, slabs: usize) {
        for i in 0..slabs {
            if self.passed[i] == UNKNOWN {
                continue;
            }
            // SAFETY: passed on.
            let slab = unsafe { &mut *self.slabs.add(i) };
            if slab
                .iter()
                .all(|&vector| F::find(vector, F::Word::EMPTY) == 0)
            {
                marks::arrange_alone::<F>(slab, u32::from(self.passed[i]));
            }
        }
    }
}

/// Makes the page of a block.
///
/// # Safety
/// See [`build`](crate::build::page::build), of which this is what all threads of the block do.
pub(crate) unsafe fn build<F: Format, const IN_USE: bool, const MERGES: bool>(
    args: &BuildArgs<F::Key, F::Value>,
) {
    const MOST: usize = MAX_PAGE_SLABS as usize;
    let number = args.first + thread::block_idx_x();
    let slabs = 1 << args.view.page_log2;
    // A page that is its own head is made here.
    let mut made = [const { MaybeUninit::<Slab>::uninit() }; MOST];
    // SAFETY: the page is the block's, and its head is read before it is written.
    unsafe {
        let at = page_of_block(&args.view, number);
        let sent = *args.counts.add(number as usize);
        let room = args.heads.room;
        if sent > u64::from(room) {
            atomic::store(args.crowded, 1u64, Relaxed);
        }
        let head = args.heads.of(number, at).cast_const();
        let slots = if IN_USE {
            at.cast::<Slab>()
        } else {
            write_bytes(made.as_mut_ptr(), 0xff, slabs);
            made.as_mut_ptr().cast()
        };
        let merging = &args.merging;
        if MERGES && *merging.sent_away > merging.most_sent_away {
            return args.stored.block_is_done();
        }
        let mut page = Pages::<MOST>::new(slots, args.view.page_log2);
        let mut stored = 0;
        for i in 0..sent.min(u64::from(room)) {
            let (key, value) = pair_at::<F>(head, args.heads.keys, i);
            let Stored::Table(word) = F::stored(key) else {
                args.spill.put(key, value);
                continue;
            };
            let hash = KeyHash::new(key, args.view.seed);
            match page.walk::<F, true>(0, hash, word) {
                End::Free(slot) if !(MERGES && merging.leaves_absent != 0) => {
                    page.put::<F>(slot, word, value);
                    stored += 1;
                }
                End::Present(slot) if MERGES => F::update(slot, merging.update, value),
                End::Present(_) => {}
                End::Free(_) | End::WalkedOff => args.spill.put(key, value),
            }
        }
        page.arrange::<F>(slabs);
        if !IN_USE {
            copy_nonoverlapping(slots, at.cast(), slabs);
        }
        if stored != 0 {
            atomic::fetch_add(args.stored.words, stored, Relaxed);
        }
        args.stored.block_is_done();
    }
}

/// A pair at the head of a page, with room for so many keys.
///
/// # Safety
/// There is one.
#[inline(always)]
unsafe fn pair_at<F: Format>(head: *const u8, keys: u32, i: u64) -> (F::Key, F::Value) {
    // SAFETY: pairs side by side, or keys and behind them values.
    unsafe {
        if const { side_by_side::<F::Key, F::Value>() } {
            return pair::load(head, i);
        }
        let key = head.cast::<F::Key>();
        let value = key.add(keys as usize).cast::<F::Value>();
        (*key.add(i as usize), *value.add(i as usize))
    }
}

/// Where page number `number` of all is.
///
/// # Safety
/// The map is live, and has that page.
unsafe fn page_of_block(view: &MapView, number: u32) -> *mut u8 {
    // The last submap that no more pages come before, which is one of `len` from `low` on.
    let (mut low, mut len) = (0, view.submap_count);
    while len > 1 {
        let half = len / 2;
        // SAFETY: a submap of the map.
        let middle = unsafe { load_submap(view.submaps.add((low + half) as usize)) };
        if middle.pages_before <= number {
            low += half;
            len -= half;
        } else {
            len = half;
        }
    }
    // SAFETY: as above.
    let submap = unsafe { load_submap(view.submaps.add(low as usize)) };
    submap.page_at(number, view.page_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::{Bits, Keys, Packed, Wide};

    /// Fills a page; returns its slabs, and for each the classes of keys that were sent past it.
    fn filled<F: Format>(slabs: usize, keys: impl Iterator<Item = u64>) -> (Vec<Slab>, Vec<u32>) {
        let mut memory = vec![[U64x2::new(!0, !0); 4]; slabs];
        let page_log2 = slabs.ilog2();
        let mut pages = Pages::<512>::new(memory.as_mut_ptr(), page_log2);
        let mut passed = vec![0; slabs];
        let mut free = vec![SLAB_BYTES / F::SLOT_BYTES; slabs];
        for key in keys {
            let key = F::Key::from_u64(key);
            let Stored::Table(word) = F::stored(key) else {
                panic!("a reserved key");
            };
            let hash = KeyHash::new(key, 7);
            let mut slab = hash.slab(pages.mask) as usize;
            let mut left = PAGE_WALK.min(slabs as u32);
            while left != 0 && free[slab] == 0 {
                passed[slab] |= marks::class::<F>(word);
                slab = (slab + hash.step() as usize) % slabs;
                left -= 1;
            }
            // SAFETY: a page of the format.
            unsafe {
                let end = pages.walk::<F, true>(0, hash, word);
                if left == 0 {
                    assert_eq!(end, End::WalkedOff);
                    continue;
                }
                let End::Free(at) = end else {
                    panic!("{end:?}");
                };
                assert_eq!(at.slab, slab);
                free[slab] -= 1;
                pages.put::<F>(at, word, F::Value::from_u64(1));
                let again = pages.walk::<F, true>(0, hash, word);
                assert!(matches!(again, End::Present(_)), "{again:?}");
            }
        }
        // SAFETY: as above.
        unsafe { pages.arrange::<F>(slabs) };
        for (passed, &free) in passed.iter_mut().zip(&free) {
            // Nothing is said of others.
            *passed |= u32::from(free != 0) * ALL_CLASSES;
        }
        (memory, passed)
    }

    fn full_slabs_say_what_has_passed<F: Format>(classes: u32) {
        let slots = 64 * (SLAB_BYTES / F::SLOT_BYTES);
        for n in [slots / 2, slots * 9 / 10, slots + 20] {
            let keys = (0..u64::from(n)).map(|i| i * 0x9e37 + 5);
            let (slabs, passed) = filled::<F>(64, keys);
            for (slab, passed) in slabs.iter().zip(passed) {
                if passed & ALL_CLASSES != ALL_CLASSES {
                    let said = !marks::unpassed_alone::<F>(slab) & classes;
                    assert_eq!(said, passed & classes, "{n} keys");
                }
            }
        }
    }

    #[test]
    fn pages_are_marked() {
        full_slabs_say_what_has_passed::<Wide<u64, u64>>(7);
        full_slabs_say_what_has_passed::<Wide<u32, u64>>(7);
        full_slabs_say_what_has_passed::<Packed>(15);
        full_slabs_say_what_has_passed::<Keys<u64>>(15);
    }
}
