//! The queue of those whose home is full, until all others are placed.

use super::shared::Shared;
use crate::slot::Format;
use gpumap_simt::shared_ptr::SharedWord;

/// How often they wait, at most.
pub(super) const ROUNDS: u32 = 2;

/// How many of `room` staged pairs wait, once or twice, for others to be placed. Of pages full to the last slot a fifth
/// do, and a tenth twice; of pages that were half full before, twice as many of those that come.
pub(super) const fn most_queued(room: u32, in_use: bool) -> u32 {
    room / 8 * if in_use { 5 } else { 3 } + 8
}

impl<F, const IN_USE: bool> Shared<F, IN_USE>
where
    F: Format,
    F::Key: SharedWord,
    F::Word: SharedWord,
{
    /// Puts the staged pair at place `i` into the queue, for a round that begins at place `start` of it; false if there is
    /// no room.
    ///
    /// # Safety
    /// There is one; the queue is written by this and [`wait_together`](Self::wait_together) alone.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(super) unsafe fn wait(&self, i: u32, start: u32, round: u32) -> bool {
        // SAFETY: each place of the queue is given to one thread.
        unsafe {
            let at = start + self.queued.add(round).fetch_add(1);
            let has_room = at < most_queued(self.room, IN_USE);
            if has_room {
                self.queue.add(at).store(i as u16);
            }
            has_room
        }
    }

    /// Puts several of the calling thread's staged pairs into the queue for the first round, as far as there is room:
    /// those at places `first + step * n` for each bit `n` of `some`.
    ///
    /// # Safety
    /// As for [`wait`](Self::wait).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(super) unsafe fn wait_together(&self, first: u32, step: u32, some: u32) {
        if some == 0 {
            return;
        }
        // SAFETY: as there.
        unsafe {
            let mut at = self.queued.fetch_add(some.count_ones());
            let mut left = some;
            while left != 0 {
                if at < most_queued(self.room, IN_USE) {
                    let i = first + step * left.trailing_zeros();
                    self.queue.add(at).store(i as u16);
                }
                at += 1;
                left &= left - 1;
            }
        }
    }

    /// Where those end that wait for a round that begins at place `start` of the queue, and whether others were to.
    ///
    /// # Safety
    /// A barrier lies after the last that was put there.
    #[inline(always)]
    pub(super) unsafe fn waiting(&self, start: u32, round: u32) -> (u32, bool) {
        let most = most_queued(self.room, IN_USE);
        // SAFETY: the caller's promise.
        let end = unsafe { start + self.queued.add(round).load() };
        (end.min(most), end > most)
    }

    /// The pair that waits at a place of the queue.
    ///
    /// # Safety
    /// There is one, and a barrier follows.
    #[inline(always)]
    pub(super) unsafe fn waits(&self, q: u32) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { u32::from(self.queue.add(q).load()) }
    }
}
