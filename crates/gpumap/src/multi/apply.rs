//! Batches in which each key says what is done with it.

use std::ptr;

use gpumap_kernels::chained::answer::Outcome;
use gpumap_kernels::chained::mixed;

use super::chains::Chains;
use super::run::Job;
use super::{MultiMap, Word, WordKey};
#[cfg(doc)]
use crate::error::Error;
use crate::error::{Result, expect_same_len};
use crate::input::{Input, Source};
use crate::map::bits;
use crate::memory::{host_collect, host_vec};
use crate::scratch::{ScratchRole, Workspace};
use bytemuck::Pod;

/// What [`MultiMap::apply`] does with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Looks it up; see [`MultiMap::get`].
    Get,
    /// Stores the pair, if the key is absent; see [`MultiMap::insert`].
    Insert,
    /// Stores the pair; see [`MultiMap::append`].
    Append,
    /// Removes a pair with this key; see [`MultiMap::remove`].
    Remove,
    /// Counts the pairs with this key; see [`MultiMap::count`].
    Count,
}

/// A code for kernels that no operation has.
pub(super) const NOTHING: u8 = !0;

impl Operation {
    /// As kernels take it.
    pub(super) fn code(self) -> u8 {
        (match self {
            Self::Get => mixed::Operation::Get,
            Self::Insert => mixed::Operation::Insert,
            Self::Append => mixed::Operation::Append,
            Self::Remove => mixed::Operation::Remove,
            Self::Count => mixed::Operation::Count,
        }) as u8
    }

    /// Whether it may need room.
    fn stores(self) -> bool {
        matches!(self, Self::Insert | Self::Append)
    }
}

/// What became of an operation of [`MultiMap::apply`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer<V> {
    /// `Get`, `Remove`: there is no pair with this key.
    Absent,
    /// `Get`: the value that was found. `Insert`: the key keeps this value.
    Present(V),
    /// `Insert`, `Append`: the pair is in the map.
    Stored,
    /// `Remove`: the pair with this value is gone.
    Removed(V),
    /// `Count`: how many pairs the key has.
    Count(usize),
}

/// # Mixed batches
impl<K: WordKey, V: Word<Bits = K::Bits>> MultiMap<K, V> {
    /// Does with each key what its operation says, all in one launch, and answers in the same order.
    ///
    /// The operations of a batch run at the same time, as those of several calls do: of two on the same
    /// key either may come first. Values of operations that store nothing are not looked at.
    ///
    /// ```
    /// use gpumap::multi::{Answer, Operation};
    /// use gpumap::{Device, MultiMap};
    ///
    /// let map = MultiMap::<u32, u32>::with_capacity(&Device::cpu(), 100)?;
    /// map.insert(&[1, 2], &[10, 20])?;
    /// let operations = [Operation::Get, Operation::Remove, Operation::Insert, Operation::Count];
    /// let answers = map.apply(&operations, &[1, 2, 3, 4], &[0, 0, 30, 0])?;
    /// assert_eq!(
    ///     answers,
    ///     [Answer::Present(10), Answer::Removed(20), Answer::Stored, Answer::Count(0)]
    /// );
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] if there are not as many keys as operations and values; else as for
    /// [`insert`](Self::insert): a batch that is refused has done nothing.
    pub fn apply(
        &self,
        operations: &[Operation],
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
    ) -> Result<Vec<Answer<V>>> {
        let (keys, values) = (keys.source(), values.source());
        let len = keys.len();
        expect_same_len(len, values.len())?;
        expect_same_len(len, operations.len())?;
        if len == 0 {
            return Ok(Vec::new());
        }
        let codes = operations.iter().map(|operation| operation.code());
        let codes = host_collect(codes)?;
        // Allocated first, so that answers are not lost for want of memory once the operations are
        // done.
        let (mut outcomes, mut found) = (host_vec(len)?, host_vec(len)?);
        let mut answers = host_vec(len)?;
        let most_new = operations
            .iter()
            .filter(|operation| operation.stores())
            .count();
        self.scratch.of_batch(|scratch| {
            let staged = scratch.bytes_of_pairs(keys, values)
                + scratch.bytes_of_output::<u8>(len)
                + Workspace::bytes_of(len)
                + Workspace::bytes_of(len.saturating_mul(size_of::<V>()));
            let mut stage = || {
                // SAFETY: what is queued has ended when this returns, or when the workspace goes back.
                unsafe {
                    Ok(Job {
                        keys: scratch.stage(ScratchRole::Keys, keys)?,
                        values: scratch.stage(ScratchRole::Values, values)?,
                        operations: scratch.stage(ScratchRole::Tiles, Source::Host(&codes))?,
                        outcomes: scratch.reserve(ScratchRole::FirstOutput, len)?,
                        flags: ptr::null_mut(),
                        found: scratch.reserve(ScratchRole::SecondOutput, len)?,
                        len,
                    })
                }
            };
            let job = stage().map_err(|error| self.too_large_to_stage(error, most_new, staged))?;
            let beside = self.apply_beside(scratch, job, most_new)?;
            if !beside {
                let mut chains = self.exclusive()?;
                let room = self.make_room(&mut chains, most_new);
                room.map_err(|error| error.of_batch_with(staged))?;
                self.apply_alone(&mut chains, scratch, job, operations, &mut outcomes)?;
            }
            // SAFETY: a byte for each key was reserved, and written by the kernel.
            unsafe { scratch.read_to(&mut outcomes, job.outcomes, len) }?;
            if outcomes.contains(&(Outcome::Full as u8)) {
                let (mut chains, operation) = (self.exclusive()?, |i: usize| operations[i]);
                self.replay(&mut chains, scratch, job, &operation, &mut outcomes)?;
                drop(chains);
                // SAFETY: as above.
                unsafe { scratch.read_to(&mut outcomes, job.outcomes, len) }?;
            }
            // SAFETY: as above; memory of a workspace is never uninitialised, and where there was no value
            // none is looked at.
            unsafe { scratch.read_to(&mut found, job.found, len) }
        })?;
        let told = operations.iter().zip(outcomes).zip(found);
        answers
            .extend(told.map(|((&operation, outcome), found)| answer(operation, outcome, found)));
        Ok(answers)
    }

    /// Runs the batch beside other calls if it fits for sure, and says whether it did.
    fn apply_beside(
        &self,
        scratch: &mut Workspace,
        job: Job<K, V>,
        most_new: usize,
    ) -> Result<bool> {
        let spare = match most_new {
            0 => 0,
            // Any warp may store.
            _ => self.spare_slots(job.len),
        };
        let chains = self.shared_to_change()?;
        let Some(reservation) = self
            .state
            .occupancy
            .reserve_pairs(most_new.saturating_add(spare))
        else {
            return Ok(false);
        };
        let [stored, removed] = self.run_mixed(&chains, scratch, job)?;
        reservation.commit(stored);
        self.state.occupancy.removed(removed);
        Ok(true)
    }

    /// Runs the batch alone, when there is room for it.
    fn apply_alone(
        &self,
        chains: &mut Chains,
        scratch: &mut Workspace,
        job: Job<K, V>,
        operations: &[Operation],
        outcomes: &mut Vec<u8>,
    ) -> Result<()> {
        let [stored, removed] = self.run_mixed(chains, scratch, job)?;
        self.state.occupancy.stored(stored);
        self.state.occupancy.removed(removed);
        self.replay(chains, scratch, job, &|i| operations[i], outcomes)?;
        Ok(())
    }

    /// Runs the batch. Returns how many pairs were stored, and how many removed.
    fn run_mixed(
        &self,
        chains: &Chains,
        scratch: &mut Workspace,
        job: Job<K, V>,
    ) -> Result<[usize; 2]> {
        let grid = self.share_out(job.len);
        self.change(chains, scratch, self.kernels.mixed, job, grid)
    }
}

/// The answer that a kernel gave.
fn answer<V: Pod>(operation: Operation, outcome: u8, value: V) -> Answer<V> {
    if operation == Operation::Count {
        return Answer::Count(count_in(value));
    }
    match outcome {
        o if o == Outcome::Present as u8 => Answer::Present(value),
        o if o == Outcome::Stored as u8 => Answer::Stored,
        o if o == Outcome::Removed as u8 => Answer::Removed(value),
        _ => Answer::Absent,
    }
}

/// The number of pairs that was reported as a value.
fn count_in<V: Pod>(value: V) -> usize {
    bits(value) as usize
}
