//! The verbs that store pairs.
//!
//! A batch that fits whatever its keys are runs beside others. One that may not fit runs alone, when
//! room was made for it.

use std::ptr;

use gpumap_kernels::chained::answer::{Outcome, Report};

use super::apply::Operation;
use super::chains::Chains;
use super::run::Job;
use super::{Core, MultiMap, Word, WordKey};
use crate::array::Array;
#[cfg(doc)]
use crate::error::Error;
use crate::error::{Result, expect_same_len};
use crate::input::{Input, Source};
use crate::map::{Arrays, Command, Kind};
use crate::memory::{host_collect, host_vec};
use crate::occupancy::Reservation;
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
        let (keys, values) = (keys.source().into(), values.source().into());
        let append = Storing::All(Operation::Append);
        self.core
            .store(append, keys, values, [None, None])
            .map(drop)
    }
}

/// What a batch that may store pairs does with its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Storing<'a> {
    /// The same with all of them.
    All(Operation),
    /// What it says of each.
    Each(&'a [Operation]),
}

impl Storing<'_> {
    pub const INSERT: Self = Self::All(Operation::Insert);

    /// What it does with a key.
    pub fn operation(&self, i: usize) -> Operation {
        match self {
            Self::All(operation) => *operation,
            Self::Each(operations) => operations[i],
        }
    }

    /// How many pairs of `len` it may store.
    fn most_new(&self, len: usize) -> usize {
        match self {
            Self::All(_) => len,
            Self::Each(operations) => operations.iter().filter(|each| each.stores()).count(),
        }
    }
}

impl Core {
    /// Stages a batch and stores it. Returns how many pairs were stored. The outputs are at least as long as the keys: the
    /// value that the map has for each key then, and whether its pair was stored. If operations differ, returns also the outcomes of
    /// all keys.
    pub(super) fn store(
        &self,
        what: Storing<'_>,
        keys: Array<'_>,
        values: Array<'_>,
        outputs: Arrays<'_>,
    ) -> Result<(usize, Vec<u8>)> {
        let len = keys.len();
        expect_same_len(len, values.len())?;
        let (mut codes, mut outcomes) = (Vec::new(), Vec::new());
        if len == 0 {
            return Ok((0, outcomes));
        }
        if let Storing::Each(operations) = what {
            codes = host_collect(operations.iter().map(|operation| operation.code()))?;
            // Allocated first, so that answers are not lost for want of memory once the operations are done.
            outcomes = host_vec(len)?;
        }
        self.scratch.of_batch(|scratch| {
            let told = outputs.iter().flatten();
            let told: u64 = told.map(|output| scratch.bytes_of_array(output, len)).sum();
            let staged = scratch.bytes_of_pairs(keys.bytes(), values.bytes())
                + scratch.bytes_of_output::<u8>(codes.len())
                + Workspace::bytes_of(len)
                + told;
            let stage = || {
                let mut targets = scratch.host_targets(outputs, len)?;
                let [held, flags] = targets.each_mut().map(address_of);
                // SAFETY: what is queued has ended when this returns, or when the workspace goes back.
                let (keys, values, operations) = unsafe {
                    let operations = match codes.is_empty() {
                        true => ptr::null(),
                        false => scratch.stage(ScratchRole::Tiles, Source::Host(&codes))?,
                    };
                    (
                        scratch.stage(ScratchRole::Keys, keys.bytes())?,
                        scratch.stage(ScratchRole::Values, values.bytes())?,
                        operations,
                    )
                };
                let report = Report {
                    outcomes: scratch.reserve(ScratchRole::Held, len)?,
                    flags,
                    values: held,
                };
                if !held.is_null() && operations.is_null() {
                    // SAFETY: as many values. The kernel exchanges those of present keys.
                    unsafe { scratch.stream().copy(held, values, len * self.pair.value) }?;
                }
                let (grid, batch) = self.batch(keys, values, len);
                let job = Job {
                    grid,
                    batch,
                    operations,
                    report,
                };
                Ok((job, targets))
            };
            let (job, targets) = stage()
                .map_err(|error| self.too_large_to_stage(error, what.most_new(len), staged))?;
            let stored = self.store_staged(scratch, what, job, &mut outcomes);
            let stored = stored.map_err(|error| error.of_batch_with(staged))?;
            scratch.copy_all_to_host(targets.into_iter().flatten())?;
            Ok((stored, outcomes))
        })
    }

    /// Stores a batch that is staged: beside other calls if it fits for sure, else alone. For a moment, other warps may hold slabs
    /// that they do not need: so pairs may find no room all the same, and are stored once more. Returns how many were stored.
    fn store_staged(
        &self,
        scratch: &mut Workspace,
        what: Storing<'_>,
        job: Job,
        outcomes: &mut Vec<u8>,
    ) -> Result<usize> {
        let slots = match what.most_new(job.len()) {
            0 => 0,
            // Any warp may store.
            new => new.saturating_add(self.spare_slots(job.len())),
        };
        let beside = {
            let chains = self.shared_to_change()?;
            let reservation = self.state.occupancy.reserve_pairs(slots);
            let store = |room| self.store_in(&chains, scratch, what, job, Some(room), outcomes);
            reservation.map(store).transpose()?
        };
        if let Some((stored, 0)) = beside {
            return Ok(stored);
        }
        let mut chains = self.exclusive()?;
        let (stored, full) = match beside {
            Some(counts) => counts,
            None => {
                self.make_room_for(&mut chains, scratch, what, job)?;
                self.store_in(&chains, scratch, what, job, None, outcomes)?
            }
        };
        if full == 0 {
            return Ok(stored);
        }
        if outcomes.capacity() < job.len() {
            // The rest of the batch is in the map.
            let lost = |error| self.full(job.len(), full, true).because(Some(error));
            *outcomes = host_vec(job.len()).map_err(lost)?;
        }
        let replayed = self.replay(&mut chains, scratch, job, what, outcomes)?;
        Ok(stored + replayed)
    }

    /// Runs the kernel of a batch for which there is room, reserved or alone. Returns how many pairs were stored, and how many found no
    /// room.
    fn store_in(
        &self,
        chains: &Chains,
        scratch: &mut Workspace,
        what: Storing<'_>,
        job: Job,
        reservation: Option<Reservation<'_>>,
        outcomes: &mut Vec<u8>,
    ) -> Result<(usize, usize)> {
        let kernel = match what {
            Storing::All(Operation::Append) => self.kernels.append,
            Storing::All(_) => self.kernels.insert,
            Storing::Each(_) => self.kernels.mixed,
        };
        let [stored, second] = self.change(chains, scratch, kernel, job)?;
        let occupancy = &self.state.occupancy;
        // Under the lock still: the next compaction takes the occupancy as it is then.
        match reservation {
            Some(reservation) => reservation.commit(stored),
            None => occupancy.stored(stored),
        }
        let full = match what {
            Storing::All(_) => second,
            Storing::Each(_) => {
                occupancy.removed(second);
                // SAFETY: a byte for each key was reserved, and written by the kernel.
                unsafe { scratch.read_to(outcomes, job.report.outcomes, job.len()) }?;
                count_of(Outcome::Full, outcomes)
            }
        };
        Ok((stored, full))
    }

    /// Makes room for a batch, alone. Keys that are present need none if they are all inserted.
    fn make_room_for(
        &self,
        chains: &mut Chains,
        scratch: &mut Workspace,
        what: Storing<'_>,
        job: Job,
    ) -> Result<()> {
        let mut new = what.most_new(job.len());
        if matches!(what, Storing::INSERT) && new > self.state.occupancy.left() {
            let ask = Command {
                keys: job.batch.keys,
                out_flags: job.report.outcomes,
                ..Command::of(Kind::Get, self.pair, job.len())
            };
            self.look(chains, scratch, &ask)?;
            // SAFETY: a byte for each key was reserved, and written just now.
            let outcomes = unsafe { scratch.read(job.report.outcomes, job.len()) }?;
            new = count_of(Outcome::Absent, &outcomes);
        }
        self.make_room(chains, new)
    }
}

/// How many keys have an outcome.
pub(super) fn count_of(outcome: Outcome, outcomes: &[u8]) -> usize {
    let code = outcome as u8;
    outcomes.iter().filter(|&&of_key| of_key == code).count()
}
