//! Batches in which each key says what is done with it.

use std::ptr;

use gpumap_kernels::kernels::codes::{self, CODES, COUNT_STORES, CountStoresArgs};
use gpumap_kernels::kernels::{self, OperationArgs};
use gpumap_kernels::verbs::look_up::Answers;
use gpumap_kernels::verbs::mixed::operation::{self, may_store};
use gpumap_kernels::verbs::mixed::outcome;
use gpumap_kernels::verbs::store::Select;
use gpumap_simt::kernel::Grid;

use super::command::{Command, Kind};
use super::launch::Notes;
use super::store::{Progress, Report};
use super::table::Table;
use super::{Core, Key, Map, Value};
use crate::array::{Array, ArrayMut};
#[cfg(doc)]
use crate::error::Error;
use crate::error::{Result, expect_room, expect_same_len};
use crate::input::{Input, Source};
use crate::memory::{host_collect, host_vec, host_zeroed};
use crate::occupancy::Reservation;
use crate::output::Output;
use crate::scratch::{ScratchRole, Workspace};

/// What [`Map::apply`] does with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Looks it up; see [`Map::get`].
    Get,
    /// Stores the pair, if the key is absent; see [`Map::insert`].
    Insert,
    /// Stores the pair; a present key gets the new value. See [`Map::upsert`].
    Upsert,
    /// Removes the pair with this key; see [`Map::remove`].
    Remove,
}

impl Operation {
    /// As [`Map::apply_into`] takes it. With any other code nothing is done.
    pub fn code(self) -> u8 {
        match self {
            Self::Get => operation::GET,
            Self::Insert => operation::INSERT,
            Self::Upsert => operation::UPSERT,
            Self::Remove => operation::REMOVE,
        }
    }
}

/// What became of an operation of [`Map::apply`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer<V> {
    /// `Get`, `Remove`: there is no pair with this key.
    Absent,
    /// `Get`: the value that was found. `Insert`: the key keeps this value. `Upsert`: the key was there, and
    /// has this value now, its own of the batch.
    Present(V),
    /// `Insert`, `Upsert`: the key is new.
    Stored,
    /// `Remove`: the pair is gone.
    Removed,
}

impl<V> Answer<V> {
    /// From what [`Map::apply_into`] returns. [`Absent`](Self::Absent) for a code that it does not return.
    pub fn from_code(code: u8, value: V) -> Self {
        match code {
            outcome::PRESENT => Self::Present(value),
            outcome::STORED => Self::Stored,
            outcome::REMOVED => Self::Removed,
            _ => Self::Absent,
        }
    }
}

/// How many pairs came and went in [`Map::apply_into`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Applied {
    /// Pairs stored.
    pub stored: usize,
    /// Pairs removed.
    pub removed: usize,
}

/// A mixed batch on the device.
#[derive(Clone, Copy)]
struct Mix {
    /// Keys and values.
    pairs: Command,
    operations: *const u8,
    answers: Answers<u8>,
    /// How many of them may store, if that has been counted.
    stores: Option<usize>,
    /// How many of them remove at most.
    removes: usize,
}

/// # Mixed batches
impl<K: Key, V: Value> Map<K, V> {
    /// Does with each key what its operation says, all in one launch, and answers in the same order.
    ///
    /// The operations of a batch run at the same time, as those of several calls do: of two on the same
    /// key either may come first. Values of operations that store nothing are not looked at.
    ///
    /// ```
    /// use gpumap::{Answer, Device, Map, Operation};
    ///
    /// let map = Map::<u32, u32>::with_capacity(&Device::cpu(), 100)?;
    /// map.insert(&[1, 2], &[10, 20])?;
    /// let operations = [Operation::Get, Operation::Remove, Operation::Insert, Operation::Get];
    /// let answers = map.apply(&operations, &[1, 2, 3, 4], &[0, 0, 30, 0])?;
    /// assert_eq!(
    ///     answers,
    ///     [Answer::Present(10), Answer::Removed, Answer::Stored, Answer::Absent]
    /// );
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] if there are not as many keys as operations and values;
    /// [`Error::OutOfMemory`], or [`Error::Full`] if the map does not grow and it has less room than
    /// the batch has absent keys: then nothing of the batch has been done, unless that error says
    /// `partial`. [`Error::WrongDevice`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn apply(
        &self,
        operations: &[Operation],
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
    ) -> Result<Vec<Answer<V>>> {
        let len = keys.source().len();
        let codes = operations.iter().map(|operation| operation.code());
        let codes = host_collect(codes)?;
        let (mut values_told, mut outcomes) = (host_zeroed(len)?, host_zeroed(len)?);
        // Allocated now, so that answers are not lost for want of memory once the operations are done.
        let mut answers = host_vec(len)?;
        self.apply_into(&codes, keys, values, &mut values_told, &mut outcomes)?;
        let told = outcomes.into_iter().zip(values_told);
        answers.extend(told.map(|(code, value)| Answer::from_code(code, value)));
        Ok(answers)
    }

    /// As [`apply`](Self::apply), with [codes](Operation::code) for operations, and answers for
    /// [`Answer::from_code`]: `values_told[i]` counts only if the key is present, and may be anything if not.
    ///
    /// # Errors
    /// As for [`apply`](Self::apply); [`Error::OutputTooSmall`].
    pub fn apply_into(
        &self,
        operations: &(impl Input<u8> + ?Sized),
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
        values_told: &mut (impl Output<V> + ?Sized),
        outcomes: &mut (impl Output<u8> + ?Sized),
    ) -> Result<Applied> {
        let () = Self::EXPECT_INLINE;
        let (operations, keys, values) = (operations.source(), keys.source(), values.source());
        let (values_told, outcomes) = (values_told.sink(), outcomes.sink());
        let len = keys.len();
        for other in [values.len(), operations.len()] {
            expect_same_len(len, other)?;
        }
        expect_room(len, values_told.len().min(outcomes.len()))?;
        if len == 0 {
            return Ok(Applied::default());
        }
        let stores = match operations {
            Source::Host(codes) => Some(codes.iter().filter(|&&code| may_store(code)).count()),
            Source::Device(_) => None,
        };
        let removes = match operations {
            Source::Host(codes) => codes
                .iter()
                .filter(|&&code| code == operation::REMOVE)
                .count(),
            // Not counted.
            Source::Device(_) => len,
        };
        let batch = Mixed {
            operations: operations.into(),
            keys: keys.into(),
            values: values.into(),
            values_told: values_told.into(),
            outcomes: outcomes.into(),
            stores,
            removes,
        };
        self.inline().apply(batch)
    }
}

/// A batch in which each key says what is done with it: as many elements everywhere, and places for as many answers.
struct Mixed<'a> {
    operations: Array<'a>,
    keys: Array<'a>,
    values: Array<'a>,
    values_told: ArrayMut<'a>,
    outcomes: ArrayMut<'a>,
    /// How many operations may store, if that is known.
    stores: Option<usize>,
    /// How many remove at most.
    removes: usize,
}

impl Core {
    fn apply(&self, batch: Mixed<'_>) -> Result<Applied> {
        let Mixed {
            operations,
            keys,
            values,
            values_told,
            outcomes,
            stores,
            removes,
        } = batch;
        let len = keys.len();
        let bytes_told = len * values_told.element();
        let (values_told, outcomes) = (values_told.into_bytes(), outcomes.into_bytes());
        self.scratch.of_batch(|scratch| {
            let staged = scratch.bytes_of_pairs(keys.bytes(), values.bytes())
                + scratch.bytes_of_pairs(operations.bytes(), Source::Host(&[0_u8; 0]))
                + scratch.bytes_of_sink(&values_told, bytes_told)
                + scratch.bytes_of_sink(&outcomes, len);
            let stage = || {
                let mut values_told =
                    scratch.host_target(ScratchRole::FirstOutput, values_told, bytes_told)?;
                let mut outcomes = scratch.host_target(ScratchRole::SecondOutput, outcomes, len)?;
                let answers = Answers {
                    values: values_told.as_mut_ptr(),
                    found: outcomes.as_mut_ptr(),
                    default: 0,
                };
                // SAFETY: what is queued has ended when this returns, or when the workspace goes back.
                let mix = unsafe {
                    Mix {
                        pairs: Command {
                            keys: scratch.stage(ScratchRole::Keys, keys.bytes())?,
                            values: scratch.stage(ScratchRole::Values, values.bytes())?,
                            ..Command::of(Kind::Insert, self.pair, len)
                        },
                        operations: scratch.stage(ScratchRole::Tiles, operations.bytes())?,
                        answers,
                        stores,
                        removes,
                    }
                };
                Ok((mix, values_told, outcomes))
            };
            let (mix, values_told, outcomes) =
                stage().map_err(|error| self.too_large_to_stage(error, len, staged))?;
            let applied = self.apply_mix(scratch, mix);
            let applied = applied.map_err(|error| error.of_batch_with(staged))?;
            scratch.copy_all_to_host([values_told, outcomes])?;
            Ok(applied)
        })
    }

    /// How many operations of a batch on the device may store. Waits.
    fn count_stores(&self, scratch: &mut Workspace, codes: *const u8, len: usize) -> Result<usize> {
        self.expect_sound()?;
        let args = CountStoresArgs {
            codes,
            n: len as u64,
            stores: scratch.counting()?,
        };
        let grid = Grid {
            blocks: (len as u64).div_ceil(u64::from(CODES)) as u32,
            threads: codes::THREADS,
            shared_bytes: 0,
        };
        // SAFETY: there are as many codes, which live until the wait below.
        unsafe { COUNT_STORES.launch(scratch.stream(), grid, args) }?;
        let [stores, _] = scratch.counted()?;
        Ok(stores as usize)
    }

    /// Room for all that a batch stores, if there is as much for sure, and how much it needs at most. Operations
    /// on the device are counted only if there is no room for all of them.
    fn reservation_for(
        &self,
        scratch: &mut Workspace,
        mix: &Mix,
    ) -> Result<(Option<Reservation<'_>>, usize)> {
        let len = mix.pairs.len;
        if let Some(stores) = mix.stores {
            return Ok((self.state.occupancy.reserve_pairs(stores), stores));
        }
        if let Some(reservation) = self.state.occupancy.reserve_pairs(len) {
            return Ok((Some(reservation), len));
        }
        let stores = self.count_stores(scratch, mix.operations, len)?;
        Ok((self.state.occupancy.reserve_pairs(stores), stores))
    }

    /// Runs a batch: beside other calls if it fits for sure, else alone.
    fn apply_mix(&self, scratch: &mut Workspace, mix: Mix) -> Result<Applied> {
        self.table.expect_no_callback()?;
        let (report, mut applied) = {
            let table = self.table.read();
            let (reservation, stores) = self.reservation_for(scratch, &mix)?;
            match reservation {
                Some(reservation) => {
                    let (report, applied) = self.run_mix(&table, scratch, mix, Select::All)?;
                    reservation.commit(applied.stored);
                    self.state.occupancy.removed(applied.removed);
                    (report, applied)
                }
                None => {
                    drop(table);
                    self.apply_alone(scratch, mix, stores)?
                }
            }
        };
        if report.unplaced == 0 {
            return Ok(applied);
        }
        let (mut table, mut progress) = (self.exclusive()?, Progress::default());
        let mut again = |table: &Table, scratch: &mut Workspace| {
            let (report, more) = self.run_mix(table, scratch, mix, Select::Unplaced)?;
            applied.stored += more.stored;
            Ok(report)
        };
        let len = mix.pairs.len;
        self.place_by(&mut table, scratch, len, report, &mut progress, &mut again)?;
        Ok(applied)
    }

    /// Runs a batch alone, when there is room for as many pairs as it may store.
    fn apply_alone(
        &self,
        scratch: &mut Workspace,
        mix: Mix,
        stores: usize,
    ) -> Result<(Report, Applied)> {
        let mut table = self.exclusive()?;
        // Nothing is in flight, so what is left is exact. Absent keys that are only looked up, or are
        // equal, are counted as well.
        let absent = self.count_absent(&table, scratch, mix.pairs)?;
        let new = absent.min(stores);
        let len = mix.pairs.len;
        let bytes = self.bytes_to_store(&table, new, len);
        let bits = scratch.clear_bits(len);
        bits.map_err(|error| error.of_batch_of(bytes))?;
        let before = table.shape.bytes();
        self.or_give_back(&mut table, |table| {
            let bits = Workspace::bytes_of_bits(len);
            if new > self.state.occupancy.left() {
                let grown = self.make_room_for_all(table, new);
                grown.map_err(|error| error.of_batch_with(bits))?;
            }
            // A pair that is removed and stored again takes a second slot. Those of removed pairs are cleared away
            // then, for which there has to be memory before anything is removed.
            let slots = stores.min(absent.saturating_add(mix.removes));
            if slots > self.state.occupancy.left() {
                let taken = bits + table.shape.bytes().saturating_sub(before);
                let compactable = self.expect_compactable(table);
                compactable.map_err(|error| error.of_batch_with(taken))?;
            }
            let (report, applied) = self.run_mix(table, scratch, mix, Select::All)?;
            self.state.occupancy.stored(applied.stored);
            self.state.occupancy.removed(applied.removed);
            Ok((report, applied))
        })
    }

    /// Runs the kernel, and waits. The caller holds the table's lock, and accounts for the pairs.
    fn run_mix(
        &self,
        table: &Table,
        scratch: &mut Workspace,
        mix: Mix,
        select: Select,
    ) -> Result<(Report, Applied)> {
        self.expect_sound()?;
        let Command {
            keys, values, len, ..
        } = mix.pairs;
        let unplaced = match select {
            // As the run before has left them.
            Select::Unplaced => scratch.bits(),
            _ => scratch.clear_bits(len)?,
        };
        let (counters, removed) = scratch.counting_two()?;
        let (grid, batch) = self.share_out(keys, values, len);
        let view = match mix.stores {
            Some(0) => table.view(),
            _ => table.view_to_mix(),
        };
        let notes = Notes {
            counters,
            unplaced,
            select,
        };
        let kernel = self.batch_kernel(kernels::Operation::Mixed)?;
        let args = OperationArgs {
            answers: mix.answers,
            operations: mix.operations,
            removed,
            ..self.operation_args(view, batch, notes.account(ptr::null_mut()))
        };
        // Until the kernel is known to have ended well.
        scratch.dirty_bits();
        let [[stored, unplaced], [removed, _]] =
            self.or_poison_if_launched(scratch, |scratch| {
                // SAFETY: the kernel set fits the map's types; inputs are staged, outputs and bits are as
                // long as the batch; the caller holds the table's lock until this has ended.
                unsafe { kernel.launch(scratch.stream(), grid, args) }?;
                scratch.counted_two()
            })?;
        if unplaced == 0 && select != Select::Unplaced {
            scratch.untouched_bits();
        }
        let (stored, unplaced) = (stored as usize, unplaced as usize);
        let applied = Applied {
            stored,
            removed: removed as usize,
        };
        Ok((Report { stored, unplaced }, applied))
    }
}
