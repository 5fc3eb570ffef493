//! The verbs of maps whose values are ids: a lane that takes an id out of a slot gets it.

use super::look_up::Answers;
use super::store::Present;
use crate::probe::{Job, Next, Seen, Verb};
use crate::slot::ids::IdFormat;
use gpumap_simt::mem;

/// Upsert: a present key gets the id of the batch, and its own is reported. Beside no removals.
#[derive(Clone, Copy, Debug)]
pub struct Exchange {
    /// One id per key of the batch: the one that was replaced. Not written where there was none.
    pub replaced: *mut u32,
}

impl<F: IdFormat> Present<F> for Exchange {
    const READS: bool = false;
    const LOCATES: bool = true;

    #[inline(always)]
    unsafe fn found(&mut self, job: &Job<F>, seen: &Seen<u32>) -> Next {
        // SAFETY: a slot of the slab that held the key's pair.
        unsafe { self.met(job, job.slot(seen.holds)) }
    }

    #[inline(always)]
    unsafe fn met(&mut self, job: &Job<F>, slot: *mut u8) -> Next {
        // SAFETY: a slot that holds the key's pair, since nothing removes it; one place per key,
        // written by the key's lane only.
        unsafe {
            let replaced = F::exchange(slot, job.value);
            mem::store_streaming(self.replaced.add(job.index as usize), replaced);
        }
        Next::Done
    }
}

/// Remove: each pair goes to one lane, with the id that was in it. Beside no exchanges.
#[derive(Clone, Copy, Debug)]
pub struct Withdraw {
    /// What became of each key: the id that this lane took away.
    pub answers: Answers<u32>,
    /// This lane's removed pairs.
    pub removed: u32,
}

impl<F: IdFormat> Verb<F> for Withdraw {
    const TAKES: bool = false;
    const READS: bool = true;
    const LOCATES: bool = true;
    const CLAIMS: bool = false;

    #[inline(always)]
    unsafe fn serve(&mut self, job: &Job<F>, seen: Seen<u32>) -> Next {
        if seen.holds == 0 && seen.empty == 0 {
            return Next::Walk;
        }
        // SAFETY: the slab is the one that was read, and the job's index is in the batch. Of several
        // lanes with one key, one gets the pair; the others come after it.
        unsafe {
            let mine = seen.holds != 0 && F::withdraw(job.slot(seen.holds), job.word, seen.value);
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
