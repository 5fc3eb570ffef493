//! What becomes of pairs that found no room though there is enough: they are stored again, alone, by
//! fewer and fewer warps.
//!
//! A warp that looks for a slab may find none while others hold some that they are about to give back.
//! A single warp refuses no pair before every slab is in a chain, and when room was made for a batch,
//! they never all are.

use gpumap_kernels::chained::answer::Outcome;
use gpumap_kernels::source::Batch;
use gpumap_simt::kernel::Grid;
use gpumap_simt::warp;

use super::Core;
use super::apply::NOTHING;
use super::chains::Chains;
use super::run::Job;
use super::store::{Storing, count_of};
use crate::error::{Error, Result};
use crate::input::Source;
use crate::map::grid;
use crate::scratch::{ScratchRole, Workspace};

const WARP: usize = warp::SIZE as usize;
/// How many times fewer warps there are each time.
const FEWER: usize = 8;

impl Core {
    /// Does once more what found no room of a batch, alone. Returns how many pairs were stored.
    ///
    /// The job has its outcomes, and gets those of what is done now, on the host too. If there is no memory for more, the error says
    /// that the rest of the batch is in the map.
    pub(super) fn replay(
        &self,
        chains: &mut Chains,
        scratch: &mut Workspace,
        job: Job,
        what: Storing<'_>,
        outcomes: &mut Vec<u8>,
    ) -> Result<usize> {
        let mut stored = 0;
        let mut warps = job.len().div_ceil(WARP);
        loop {
            // SAFETY: a byte for each key was reserved, and written by the kernels before.
            unsafe { scratch.read_to(outcomes, job.report.outcomes, job.len()) }?;
            let full = count_of(Outcome::Full, outcomes);
            if full == 0 {
                return Ok(stored);
            }
            let refusal = self.make_room(chains, full).err();
            if refusal.is_some() || warps == 0 {
                return Err(self.full(job.len(), full, true).because(refusal));
            }
            tracing::debug!(pairs = full, warps, "storing once more what found no room");
            for (i, outcome) in outcomes.iter_mut().enumerate() {
                *outcome = match *outcome == Outcome::Full as u8 {
                    true => what.operation(i).code(),
                    false => NOTHING,
                };
            }
            // SAFETY: the codes are not changed until the kernel has ended.
            let staged = unsafe { scratch.stage(ScratchRole::Tiles, Source::Host(outcomes)) };
            let operations = match staged {
                Err(error @ Error::OutOfMemory { .. }) => {
                    return Err(self.full(job.len(), full, true).because(Some(error)));
                }
                staged => staged?,
            };
            let (grid, per_warp) = grid_of(job.len(), warps);
            let again = Job {
                grid,
                batch: Batch {
                    per_warp,
                    ..job.batch
                },
                operations,
                ..job
            };
            let [new, _] = self.change(chains, scratch, self.kernels.mixed, again)?;
            self.state.occupancy.stored(new);
            stored += new;
            // At last one, and then none.
            warps = if warps < FEWER {
                warps / 2
            } else {
                warps / FEWER
            };
        }
    }
}

/// A grid of so many warps at most, and the keys of each.
fn grid_of(len: usize, warps: usize) -> (Grid, u32) {
    let most = (u32::MAX as usize).next_multiple_of(WARP) / 2;
    let per_warp = len.div_ceil(warps).next_multiple_of(WARP).min(most);
    grid(len as u64, per_warp as u64)
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use gpumap_kernels::chained::answer::Report;

    use super::super::{MultiMap, Operation};
    use super::*;
    use crate::device::Device;

    /// As if a kernel had found no room for any key, or for every third.
    #[test]
    fn what_found_no_room_is_stored_and_nothing_else() {
        const N: usize = 1_000;
        let keys: Vec<u64> = (0..N as u64).collect();
        for every in [1, 3] {
            let builder = MultiMap::<u64, u64>::builder(&Device::cpu());
            // With nothing to spare, so that it takes several turns as a rule.
            let slabs = N.div_ceil(every).div_ceil(7);
            let map = builder.buckets(40).pool_slabs(slabs).build().unwrap();
            let mut outcomes: Vec<u8> = vec![Outcome::Absent as u8; N];
            let full = outcomes.iter_mut().step_by(every);
            full.for_each(|outcome| *outcome = Outcome::Full as u8);
            let core = &map.core;
            let at = keys.as_ptr().cast();
            let (grid, batch) = core.batch(at, at, N);
            let job = Job {
                grid,
                batch,
                operations: ptr::null(),
                report: Report {
                    outcomes: outcomes.as_mut_ptr(),
                    flags: ptr::null_mut(),
                    values: ptr::null_mut(),
                },
            };
            let mut scratch = core.scratch.take().unwrap();
            let mut chains = core.exclusive().unwrap();
            let stored = core
                .replay(
                    &mut chains,
                    &mut scratch,
                    job,
                    Storing::All(Operation::Append),
                    &mut Vec::with_capacity(N),
                )
                .unwrap();
            drop(chains);
            assert_eq!((stored, map.len()), (N.div_ceil(every), stored));
            let present = map.contains(&keys).unwrap();
            assert!(
                present
                    .iter()
                    .enumerate()
                    .all(|(i, &is)| is == (i % every == 0))
            );
        }
    }

    #[test]
    fn every_key_has_a_warp_and_there_are_no_more_than_wished() {
        for len in [1, 31, 32, 33, 1_000, 1_000_000] {
            for wished in [1, 2, 8, 9, 31_250] {
                let (grid, per_warp) = grid_of(len, wished);
                let warps = (grid.blocks * grid.threads) as usize / WARP;
                assert!(warps * per_warp as usize >= len);
                assert!(warps <= wished.next_multiple_of(8));
                assert!(wished != 1 || warps == 1);
                assert_eq!(per_warp as usize % WARP, 0);
            }
        }
    }
}
