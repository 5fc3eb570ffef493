//! Placing by counters: pairs whose keys all differ, as most batches' do.
//!
//! A counter for each slab hands out its slots, so that nothing is compared and no attempt fails. Those whose home is full
//! wait until all others are placed; then it is settled who of the home [leaves](super::leave).
//!
//! Whether keys are [equal](super::equal) is seen afterwards. If they are, all is undone. Batches in which each key comes
//! many times are given up earlier, when more pairs have left their homes than differing keys ever would.

use super::Page;
use super::shared::Shared;
use crate::marks::AtHome;
use crate::slot::{Format, Stored};
use gpumap_simt::shared_ptr::SharedWord;
use gpumap_simt::thread;

impl<F, const IN_USE: bool> Page<'_, F, IN_USE>
where
    F: Format,
    F::Key: SharedWord,
    F::Value: SharedWord,
    F::Word: SharedWord,
{
    /// Gives staged pairs slots, spills those that find none. Returns how many this thread stored; none if far
    /// more left their homes than differing keys would, the same for the whole block. Then, or if keys are
    /// [equal](Self::sees_equal_keys), slots and queue are to be cleared.
    ///
    /// # Safety
    /// The whole block calls it between two barriers; pairs are staged, slots and queue clear.
    #[inline(always)]
    pub(super) unsafe fn rank_all(&self) -> Option<u32> {
        let shared = &self.shared;
        let t = thread::thread_idx_x();
        let mut stored = 0;
        // SAFETY: places stay below `count`, slabs are masked; the barriers are the same for all.
        unsafe {
            let mut i = t;
            while i < self.count {
                let key = shared.key(i);
                if let Stored::Table(_) = F::stored(key) {
                    let (hash, word) = self.staged(i, key);
                    let slab = hash.slab(self.slab_mask);
                    match shared.counter(slab).take_slot_at_home(hash.tag()) {
                        AtHome::Slot(slot) => {
                            let slot = slab * Shared::<F, IN_USE>::SLAB_SLOTS + slot;
                            shared.slots.add(slot).store(word);
                            stored += 1;
                        }
                        AtHome::Full { is_new } => {
                            shared.wait_in_queue(i);
                            if !is_new {
                                shared.suspect(i);
                            }
                        }
                    }
                } else {
                    self.spill(i);
                }
                i += thread::block_dim_x();
            }
            thread::sync_threads();

            let (queued, too_many) = shared.queued();
            if too_many {
                return None;
            }
            let mut q = t;
            while q < queued {
                stored += u32::from(self.move_next_door(shared.waits(q)));
                q += thread::block_dim_x();
            }
            thread::sync_threads();

            let (queued_again, too_many) = shared.queued_again();
            if too_many {
                return None;
            }
            let mut q = queued + t;
            while q < queued_again {
                stored += u32::from(self.walk_on(shared.waits(q)));
                q += thread::block_dim_x();
            }
        }
        Some(stored)
    }
}
