//! The verbs that change the values of present keys, and store nothing.

use crate::probe::{Job, Next, Seen, Verb};
use crate::slot::Format;
use crate::verbs::look_up::Answers;
use gpumap_simt::atomic::part::Update;

/// Updates the value of a present key with that of the batch; an absent one stays so.
///
/// If the key is removed between reading its slab and the update, the update changes a tombstone:
/// it counts as done just before the removal.
#[derive(Clone, Copy, Debug)]
pub struct Assign {
    /// What becomes of the two values.
    pub update: Update,
    /// This lane's keys that were present.
    pub present: u32,
}

impl<F: Format> Verb<F> for Assign {
    const TAKES: bool = true;
    const READS: bool = false;
    const LOCATES: bool = true;
    const CLAIMS: bool = false;

    #[inline(always)]
    unsafe fn serve(&mut self, job: &Job<F>, seen: Seen<F::Value>) -> Next {
        if seen.holds != 0 {
            // SAFETY: a slot of the slab that was read, which held the key's pair.
            unsafe { F::update(job.slot(seen.holds), self.update, job.value) };
            self.present += 1;
            return Next::Done;
        }
        if seen.empty == 0 {
            Next::Walk
        } else {
            Next::Done
        }
    }

    #[inline(always)]
    unsafe fn walked_off(&mut self, _: &Job<F>, _: bool) -> Next {
        Next::Done
    }
}

/// As [`Assign`], and returns the value that each key had just before its update, or none.
#[derive(Clone, Copy, Debug)]
pub struct Touch<V> {
    /// What becomes of the two values.
    pub update: Update,
    /// Where the values go.
    pub answers: Answers<V>,
    /// This lane's keys that were present.
    pub present: u32,
}

impl<F: Format> Verb<F> for Touch<F::Value> {
    const TAKES: bool = true;
    const READS: bool = false;
    const LOCATES: bool = true;
    const CLAIMS: bool = false;

    #[inline(always)]
    unsafe fn serve(&mut self, job: &Job<F>, seen: Seen<F::Value>) -> Next {
        let found = seen.holds != 0;
        if !found && seen.empty == 0 {
            return Next::Walk;
        }
        let mut old = F::Value::default();
        // SAFETY: a slot of the slab that was read, which held the key's pair; the job's index is in the batch.
        unsafe {
            if found {
                old = F::fetch_update(job.slot(seen.holds), self.update, job.value);
                self.present += 1;
            }
            self.answers.give(job.index, old, found);
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
