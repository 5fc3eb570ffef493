//! The verbs that take pairs away.

use super::look_up::Answers;
use crate::probe::{Job, Next, Seen, Verb};
use crate::slot::Format;
use gpumap_simt::mem;

/// Makes tombstones of the pairs of present keys. With `READS` it reports their values, which are
/// right only if no value is updated at the same time.
#[derive(Clone, Copy, Debug)]
pub struct Remove<V, const READS: bool> {
    /// What became of each key: `found` says whether this lane removed it.
    pub answers: Answers<V>,
    /// This lane's removed pairs.
    pub removed: u32,
}

impl<F: Format, const READS: bool> Verb<F> for Remove<F::Value, READS> {
    const TAKES: bool = false;
    const READS: bool = READS;
    const LOCATES: bool = true;
    const CLAIMS: bool = false;

    #[inline(always)]
    unsafe fn serve(&mut self, job: &Job<F>, seen: Seen<F::Value>) -> Next {
        if seen.holds == 0 && seen.empty == 0 {
            return Next::Walk;
        }
        // SAFETY: the slab is the one that was read, and the job's index is in the batch. Of
        // several lanes with one key, one makes the tombstone; the others come after it.
        unsafe {
            let mine = seen.holds != 0 && F::bury(job.slot(seen.holds), job.word);
            self.removed += u32::from(mine);
            self.answers.give(job.index, seen.value, mine);
        }
        Next::Done
    }

    #[inline(always)]
    unsafe fn walked_off(&mut self, job: &Job<F>, _: bool) -> Next {
        // SAFETY: as above.
        unsafe { self.answers.give(job.index, F::Value::default(), false) };
        Next::Done
    }
}

/// Takes back what a batch stored, alone on the map.
///
/// While nothing was put after them, slots are made empty again. That breaks no walk but those
/// of pairs that go as well; for those, it does not stop at empty slots. When pairs have moved
/// since, tombstones are left.
#[derive(Clone, Copy, Debug)]
pub struct Undo {
    /// The batch's outcomes, one byte per key: 1 where the pair was stored.
    pub outcomes: *const u8,
    /// Whether to leave tombstones.
    pub buries: bool,
}

impl<F: Format> Verb<F> for Undo {
    const TAKES: bool = false;
    const READS: bool = false;
    const LOCATES: bool = true;
    const CLAIMS: bool = false;

    #[inline(always)]
    unsafe fn wants(&mut self, index: u64) -> bool {
        // SAFETY: one byte per key of the batch, not written during this launch.
        unsafe { mem::load(self.outcomes.add(index as usize)) == 1 }
    }

    #[inline(always)]
    unsafe fn serve(&mut self, job: &Job<F>, seen: Seen<F::Value>) -> Next {
        if seen.holds == 0 {
            return Next::Walk;
        }
        let slot = job.slot(seen.holds);
        // SAFETY: the batch stored this very pair, and nothing else runs.
        unsafe {
            if self.buries {
                F::bury(slot, job.word);
            } else {
                F::take_back(slot);
            }
        }
        Next::Done
    }

    #[inline(always)]
    unsafe fn walked_off(&mut self, _: &Job<F>, _: bool) -> Next {
        Next::Done
    }
}
