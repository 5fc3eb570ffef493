//! The verbs that store pairs.
//!
//! A batch that fits whatever its keys are runs beside others. One that may not fit runs alone, when
//! room was made for it.

use gpumap_kernels::chained::answer::Outcome;

use super::apply::Operation;
use super::chains::Chains;
use super::run::{BatchKernel, Job};
use super::{MultiMap, Word, WordKey};
#[cfg(doc)]
use crate::error::Error;
use crate::error::{Result, expect_same_len};
use crate::input::{Input, Source};
use crate::map::Arrays;
use crate::memory::host_vec;
use crate::op::{self, Execute};
use crate::scratch::{ScratchRole, Workspace, address_of};

/// # Insert and append
impl<K: WordKey, V: Word<Bits = K::Bits>> MultiMap<K, V> {
    /// Keeps the present value, unlike `HashMap::insert`: stores the pairs whose key is absent, and a present key
    /// keeps its value ([`append`](Self::append) stores another pair beside it). Of several pairs of the batch with one key, one is
    /// stored. Returns how many were.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`]; [`Error::OutOfMemory`], or [`Error::Full`] if the pool is fixed, and
    /// then nothing of the batch is in the map, unless that error says `partial`: calls beside it have
    /// used up what it needed in the end, slots or memory. [`Error::WrongDevice`], [`Error::Poisoned`],
    /// [`Error::Driver`].
    pub fn insert(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
    ) -> Result<usize> {
        self.execute(op::insert(keys, values))
    }

    /// Stores all pairs, whatever is there: a key may have several, and each takes a slot.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn append(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
    ) -> Result<()> {
        let (keys, values) = (keys.source(), values.source());
        let appended = self.store(Operation::Append, keys, values, [None, None]);
        appended.map(drop)
    }

    /// Stages a batch and stores it. Returns how many pairs were stored. The outputs are at least as long as the keys: the
    /// value that the map has for each key then, and whether its pair was stored.
    pub(super) fn store(
        &self,
        operation: Operation,
        keys: Source<'_, K>,
        values: Source<'_, V>,
        outputs: Arrays<'_>,
    ) -> Result<usize> {
        let len = keys.len();
        expect_same_len(len, values.len())?;
        if len == 0 {
            return Ok(0);
        }
        self.scratch.of_batch(|scratch| {
            let told = outputs.iter().flatten();
            let told: u64 = told.map(|output| scratch.bytes_of_array(output, len)).sum();
            let staged = scratch.bytes_of_pairs(keys, values) + Workspace::bytes_of(len) + told;
            let stage = || {
                let mut targets = scratch.host_targets(outputs, len)?;
                let [held, flags] = targets.each_mut().map(address_of);
                // SAFETY: what is queued has ended when this returns, or when the workspace goes back.
                let job = unsafe {
                    Job {
                        keys: scratch.stage(ScratchRole::Keys, keys)?,
                        values: scratch.stage(ScratchRole::Values, values)?,
                        operations: std::ptr::null(),
                        outcomes: scratch.reserve(ScratchRole::Held, len)?,
                        flags,
                        found: held.cast(),
                        len,
                    }
                };
                if !held.is_null() {
                    let bytes = len * size_of::<V>();
                    // SAFETY: as many values. The kernel exchanges those of present keys.
                    unsafe { scratch.stream().copy(held, job.values.cast(), bytes) }?;
                }
                Ok((job, targets))
            };
            let (job, targets) =
                stage().map_err(|error| self.too_large_to_stage(error, len, staged))?;
            let stored = self.store_staged(scratch, operation, job);
            let stored = stored.map_err(|error| error.of_batch_with(staged))?;
            scratch.copy_all_to_host(targets.into_iter().flatten())?;
            Ok(stored)
        })
    }

    /// Stores a batch that is staged. Returns how many pairs were stored.
    fn store_staged(
        &self,
        scratch: &mut Workspace,
        operation: Operation,
        job: Job<K, V>,
    ) -> Result<usize> {
        let len = job.len;
        let kernel = match operation {
            Operation::Append => self.kernels.append,
            _ => self.kernels.insert,
        };
        let beside = self.store_beside(scratch, kernel, job)?;
        if let Some([stored, 0]) = beside {
            return Ok(stored);
        }
        let mut chains = self.exclusive()?;
        let [stored, full] = match beside {
            Some(counts) => counts,
            None => {
                let unique = operation == Operation::Insert;
                self.make_room_for(&mut chains, scratch, job, unique)?;
                self.store_in(&chains, scratch, kernel, job)?
            }
        };
        if full == 0 {
            return Ok(stored);
        }
        // The rest of the batch is in the map.
        let mut outcomes =
            host_vec(len).map_err(|error| self.full(len, full, true).because(Some(error)))?;
        let replayed = self.replay(&mut chains, scratch, job, &|_| operation, &mut outcomes)?;
        Ok(stored + replayed)
    }

    /// Stores a batch beside other calls, if it fits for sure. Returns how many pairs were stored, and
    /// how many found no room all the same: for a moment, other warps may hold what they do not need.
    fn store_beside(
        &self,
        scratch: &mut Workspace,
        kernel: &'static BatchKernel<K>,
        job: Job<K, V>,
    ) -> Result<Option<[usize; 2]>> {
        let chains = self.shared_to_change()?;
        let slots = job.len.saturating_add(self.spare_slots(job.len));
        let Some(reservation) = self.state.occupancy.reserve_pairs(slots) else {
            return Ok(None);
        };
        let counts = self.change(&chains, scratch, kernel, job, self.share_out(job.len))?;
        // Under the lock still: the next compaction takes the occupancy as it is then.
        reservation.commit(counts[0]);
        Ok(Some(counts))
    }

    /// Stores a batch alone.
    fn store_in(
        &self,
        chains: &Chains,
        scratch: &mut Workspace,
        kernel: &'static BatchKernel<K>,
        job: Job<K, V>,
    ) -> Result<[usize; 2]> {
        let counts = self.change(chains, scratch, kernel, job, self.share_out(job.len))?;
        self.state.occupancy.stored(counts[0]);
        Ok(counts)
    }

    /// Makes room for a batch, alone. Keys that are present need none if they are to be `unique`.
    fn make_room_for(
        &self,
        chains: &mut Chains,
        scratch: &mut Workspace,
        job: Job<K, V>,
        unique: bool,
    ) -> Result<()> {
        let mut new = job.len;
        if unique && new > self.state.occupancy.left() {
            let ask = Job {
                found: std::ptr::null_mut(),
                ..job
            };
            self.look(chains, scratch, self.kernels.get, ask)?;
            // SAFETY: a byte for each key was reserved, and written just now.
            let outcomes = unsafe { scratch.read(job.outcomes, job.len) }?;
            let absent = |&&outcome: &&u8| outcome == Outcome::Absent as u8;
            new = outcomes.iter().filter(absent).count();
        }
        self.make_room(chains, new)
    }
}
