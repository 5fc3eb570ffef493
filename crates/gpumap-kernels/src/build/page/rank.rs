//! Placing by counters: pairs whose keys all differ, as most batches' do.
//!
//! A counter for each slab hands out its slots, so that nothing is compared and no attempt fails. Those whose home is full
//! wait until all others are placed; then it is settled which of the home [leaves](super::leave).
//!
//! In a page in use each pair first looks for its key at home; and farther on, if that was full before. A key that is not
//! found was not there, so it may lie wherever there is room.
//!
//! Whether keys of the batch are [equal](super::equal) is seen afterwards. If they are, all is undone. Batches in which each key comes
//! many times are given up earlier, when more pairs have left their homes than differing keys ever would.

use super::Page;
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
            // A bit for each of this thread's pairs that found its home full.
            let (mut full, mut round) = (0, 1);
            while i < self.count {
                let key = shared.key(i);
                if let Stored::Table(_) = F::stored(key) {
                    let (hash, word) = self.staged(i, key);
                    let slab = hash.slab(self.slab_mask);
                    if !IN_USE || !shared.has_another(slab, word, true) {
                        match shared.counter(slab).take_slot_at_home(hash.tag()) {
                            AtHome::Slot(slot) => {
                                shared.put(slab, slot, word);
                                stored += 1;
                            }
                            AtHome::Full { is_new } => {
                                full |= round;
                                if !is_new {
                                    shared.suspect(slab, word);
                                }
                            }
                        }
                    }
                } else {
                    self.spill(i);
                }
                i += thread::block_dim_x();
                round <<= 1;
            }
            shared.wait_together(t, thread::block_dim_x(), full);
            thread::sync_threads();

            let (queued, too_many) = shared.waiting(0, 0);
            if too_many {
                return None;
            }
            let mut q = t;
            while q < queued {
                let i = shared.waits(q);
                if !IN_USE || !self.was_farther_on(i) {
                    let left = self.move_next_door(i);
                    if let Some(i) = left {
                        shared.wait(i, queued, 1);
                    }
                    stored += u32::from(left.is_none());
                }
                q += thread::block_dim_x();
            }
            thread::sync_threads();

            let (again, too_many) = shared.waiting(queued, 1);
            if too_many {
                return None;
            }
            let mut q = queued + t;
            while q < again {
                stored += u32::from(self.walk_on(shared.waits(q)));
                q += thread::block_dim_x();
            }
        }
        Some(stored)
    }
}
