//! Merging with pairs of a page in use, before others get slots.
//!
//! A key that is in the page is looked for where it lies, as a lookup does: no tag and no counter has to be made first, and if
//! all keys of a batch are present, none is. Then the page is written as it lies there.

use super::Page;
use crate::slot::{Bits, Format, KeyWord, Stored};
use crate::table::PAGE_WALK;
use gpumap_simt::shared_ptr::SharedWord;
use gpumap_simt::{U64x2, mem, thread};

use super::shared::Shared;

impl<F, const IN_USE: bool> Page<'_, F, IN_USE>
where
    F: Format,
    F::Key: SharedWord,
    F::Value: SharedWord,
    F::Word: SharedWord,
{
    /// Merges staged pairs whose keys are in the page. Returns bit `n` for pair number `n` of this thread that was not
    /// merged: its key is absent, or not in the walk within this page. If pairs of absent keys are not to be stored,
    /// they are spilled, and no bit is set.
    ///
    /// # Safety
    /// The whole block calls it between two barriers; pairs and the page are there.
    #[inline(always)]
    pub(super) unsafe fn merge_present(&self) -> u32 {
        let merging = &self.args.merging;
        let (mut others, mut bit) = (0, 1);
        let mut i = thread::thread_idx_x();
        // SAFETY: places stay below `count`. Values are updated atomically, those of staged pairs not at all.
        unsafe {
            while i < self.count {
                let (key, value) = self.shared.pair(i);
                let slot = match F::stored(key) {
                    Stored::Table(word) => self.slot_of_key(key, word),
                    Stored::Reserved(_) => None,
                };
                if let Some(slot) = slot {
                    let place = self.shared.room + slot;
                    self.shared.value_at(place).update(merging.update, value);
                } else if merging.leaves_absent != 0 {
                    self.spill(i);
                } else {
                    others |= bit;
                }
                i += thread::block_dim_x();
                bit <<= 1;
            }
        }
        others
    }

    /// The slot of the page as it was that has a key, if one within its walk has.
    ///
    /// # Safety
    /// The page is there, and no key of it is written.
    #[inline(always)]
    unsafe fn slot_of_key(&self, key: F::Key, word: F::Word) -> Option<u32> {
        let hash = crate::hash::KeyHash::new(key, self.args.view.seed);
        let mut slab = hash.slab(self.slab_mask);
        let mut probe = 0;
        while probe < PAGE_WALK && probe <= self.slab_mask {
            let first = slab * Shared::<F, IN_USE>::SLAB_SLOTS;
            let mut has_free = false;
            let mut s = 0;
            while s < Shared::<F, IN_USE>::SLAB_SLOTS {
                let at = (first + s) * F::SLOT_BYTES;
                // SAFETY: a slot of the page, which begins with its key word.
                let there = unsafe {
                    self.shared
                        .page
                        .cast::<u8>()
                        .add(at)
                        .cast::<F::Word>()
                        .load()
                };
                if there.to_u64() == word.to_u64() {
                    return Some(first + s);
                }
                has_free |= there == F::Word::EMPTY;
                s += 1;
            }
            if has_free {
                return None;
            }
            slab = slab.wrapping_add(hash.step()) & self.slab_mask;
            probe += 1;
        }
        None
    }

    /// Writes the page to `to` as it was loaded, except for values.
    ///
    /// # Safety
    /// The whole block calls it, across a barrier from the last update.
    #[inline(always)]
    pub(super) unsafe fn write_as_loaded(&self, to: *mut U64x2) {
        let mut v = thread::thread_idx_x();
        while v < self.slots / F::SLOTS {
            // SAFETY: a vector of the page, which one thread has.
            unsafe { mem::store(to.add(v as usize), self.shared.page.add(v).load()) };
            v += thread::block_dim_x();
        }
    }
}
