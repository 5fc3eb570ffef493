//! How a [`Batch`] is run: one order for all kinds.
//!
//! Lengths have been compared by the face of the map, which knows the types. A few keys on the CPU are run [at
//! once](super::at_once). Else: room for outputs on the device, pieces if
//! the batch is large and the host has it, or else all of it is staged; the table's lock, shared or not; room for what is
//! stored; the kernel, sorted first where that pays; counts, and outputs to where the caller wants them.

use std::ptr;

use super::Core;
use super::command::{Arrays, Batch, Collect, Command, Kind, Outputs};
use super::launch::Notes;
use super::operand::Operands;
use super::table::Table;
use crate::array::Array;
use crate::error::Result;
use crate::scratch::{HostTarget, ScratchRole, Workspace, address_of};

/// Bytes that outputs are a multiple of.
const WORD: usize = size_of::<u64>();

impl Core {
    /// Runs an operation, and waits. Returns what it counts: pairs that were stored or removed, or keys that were present.
    pub(crate) fn run(&self, batch: &Batch<'_>, outputs: Outputs<'_>) -> Result<usize> {
        if batch.kind.changes() {
            self.table.expect_no_callback()?;
        }
        let mut outputs = outputs;
        match self.run_at_once(batch, &mut outputs)? {
            Some(count) => Ok(count),
            None => self.run_on_device(*batch, outputs),
        }
    }

    /// The same by a workspace. Not inlined, so that what it keeps on the stack takes no time of a few keys.
    #[inline(never)]
    fn run_on_device(&self, batch: Batch<'_>, outputs: Outputs<'_>) -> Result<usize> {
        let (traits, len) = (batch.kind.traits(), batch.keys.len());
        match traits {
            _ if traits.stores => outputs.through_arrays(len, |outputs| self.store(batch, outputs)),
            _ if traits.removes || traits.takes_values => {
                outputs.through_arrays(len, |outputs| self.change(batch, outputs))
            }
            _ => self.answer(batch, outputs).map(|()| 0),
        }
    }

    /// Stores a batch: one that makes no answer for single keys, or makes room for answers first.
    fn store(&self, batch: Batch<'_>, outputs: Arrays<'_>) -> Result<usize> {
        let Batch {
            kind, keys, values, ..
        } = batch;
        let len = keys.len();
        self.scratch.of_batch(|scratch| {
            let told: u64 = outputs
                .iter()
                .flatten()
                .map(|output| scratch.bytes_of_near_target(output, len))
                .sum();
            let answered = self.answered(scratch, kind, len, outputs);
            let (targets, command) = answered.map_err(|error| {
                let bytes = scratch.bytes_to_stage_near([keys.bytes(), values.each().bytes()]);
                self.too_large_to_stage(error, len, bytes + told)
            })?;
            if !command.out_flags.is_null() {
                // SAFETY: one byte per key.
                unsafe { scratch.clear_output(command.out_flags, len) }?;
            }
            let value = values.same();
            let command = Command { value, ..command };
            let stored = self.store_batch(scratch, keys, values, command)?;
            scratch.copy_all_to_host(targets.into_iter().flatten())?;
            Ok(stored)
        })
    }

    /// Stages a batch and stores it. Returns how many pairs were stored.
    fn store_batch(
        &self,
        scratch: &mut Workspace,
        keys: Array<'_>,
        values: Operands<'_>,
        command: Command,
    ) -> Result<usize> {
        if keys.is_empty() {
            return Ok(0);
        }
        let told = command.bytes_in(scratch);
        let bytes = told + scratch.bytes_to_stage_near([keys.bytes(), values.each().bytes()]);
        let too_large = |error| self.too_large_to_stage(error, keys.len(), bytes);
        let in_chunks = self.store_in_chunks(scratch, keys, values, command);
        if let Some(stored) = in_chunks.map_err(too_large)? {
            return Ok(stored);
        }
        // SAFETY: the workspace waits for its stream before this call returns.
        let staged = unsafe { stage(scratch, keys, values, command) };
        let command = staged.map_err(too_large)?;
        let staged = command.bytes_in(scratch);
        let stored = self.store_all(scratch, command);
        stored.map_err(|error| error.of_batch_with(staged))
    }

    /// Changes pairs that are there, or removes them.
    fn change(&self, batch: Batch<'_>, outputs: Arrays<'_>) -> Result<usize> {
        let Batch {
            kind,
            keys,
            values,
            default,
            ..
        } = batch;
        let len = keys.len();
        if len == 0 {
            return Ok(0);
        }
        let traits = kind.traits();
        let mut scratch = self.scratch.take()?;
        let (targets, command) = self.answered(&mut scratch, kind, len, outputs)?;
        let command = Command {
            value: values.same(),
            default,
            ..command
        };
        let changed = match traits.is_alone {
            true => {
                let table = self.exclusive()?;
                self.change_batch(&table, &mut scratch, keys, values, command)
            }
            false => {
                let table = self.table.read();
                self.change_batch(&table, &mut scratch, keys, values, command)
            }
        }?;
        scratch.copy_all_to_host(targets.into_iter().flatten())?;
        Ok(changed)
    }

    /// Changes pairs that are there, or removes them, and waits. The caller holds the table's lock, and outputs have places
    /// for all keys. Returns how many keys were present.
    pub(super) fn change_batch(
        &self,
        table: &Table,
        scratch: &mut Workspace,
        keys: Array<'_>,
        values: Operands<'_>,
        command: Command,
    ) -> Result<usize> {
        if keys.is_empty() {
            return Ok(0);
        }
        let in_chunks = self.change_in_chunks(table, keys, values, command)?;
        if let Some(changed) = in_chunks {
            return Ok(changed);
        }
        // SAFETY: the wait below is over before keys and values are given back.
        let command = unsafe { stage(scratch, keys, values, command) }?;
        self.expect_sound()?;
        let sorted = self.sorted(scratch, &command, false)?;
        let command = command.sorted(sorted.as_ref());
        self.run_change(table, scratch, command)
    }

    /// Changes pairs that are there by a batch on the device, and waits. Returns how many keys were present.
    pub(super) fn change_staged(&self, scratch: &mut Workspace, command: Command) -> Result<usize> {
        let table = self.table.read();
        self.expect_sound()?;
        self.run_change(&table, scratch, command)
    }

    /// Runs the kernel of a command that changes pairs that are there, or removes them, and waits. The caller holds the
    /// table's lock.
    pub(super) fn run_change(
        &self,
        table: &Table,
        scratch: &mut Workspace,
        command: Command,
    ) -> Result<usize> {
        let notes = Notes::of(scratch.counting()?);
        let [changed, _] = self.or_poison_if_launched(scratch, |scratch| {
            // SAFETY: the batch is staged, outputs have a place for each key, and bins live as long as the command;
            // the caller holds the table's lock until this has ended.
            unsafe { self.launch(table, scratch.stream(), &command, notes) }?;
            scratch.counted()
        })?;
        let changed = changed as usize;
        if command.kind.traits().removes {
            self.state.occupancy.removed(changed);
        }
        Ok(changed)
    }

    /// Looks keys up, in chunks if they are many and the answers are for the host.
    fn answer(&self, batch: Batch<'_>, outputs: Outputs<'_>) -> Result<()> {
        let Batch { keys, default, .. } = batch;
        match outputs {
            Outputs::Arrays(arrays) => match self.look_up_for_host(keys, arrays, default)? {
                Some(arrays) => self.answer_whole(keys, default, arrays),
                None => Ok(()),
            },
            Outputs::Collect(collect) => match self.collect_in_chunks(keys, default, collect)? {
                Some(collect) => self.collect_whole(keys, default, collect),
                None => Ok(()),
            },
        }
    }

    /// Looks keys up into memory of the host or of the device, which has room for as many answers.
    fn answer_whole(&self, keys: Array<'_>, default: u64, outputs: Arrays<'_>) -> Result<()> {
        let mut scratch = self.scratch.take()?;
        let (targets, command) = self.answered(&mut scratch, Kind::Get, keys.len(), outputs)?;
        self.look_up(&mut scratch, keys, Command { default, ..command })?;
        scratch.copy_all_to_host(targets.into_iter().flatten())
    }

    /// Looks keys up, and makes something of each answer.
    fn collect_whole(&self, keys: Array<'_>, default: u64, collect: Collect<'_>) -> Result<()> {
        let (len, wanted) = (keys.len(), collect.wanted);
        let mut scratch = self.scratch.take()?;
        let words = wanted
            .bytes(self.pair.value, len)
            .map(|bytes| bytes.div_ceil(WORD));
        let mut values = scratch.near_output(ScratchRole::FirstOutput, words[0])?;
        let mut found = scratch.near_output(ScratchRole::SecondOutput, words[1])?;
        let unless_none = |is_wanted, at: *mut u64| match is_wanted {
            true => at.cast(),
            false => ptr::null_mut(),
        };
        let command = Command {
            default,
            out_values: unless_none(wanted.values, values.as_mut_ptr()),
            out_flags: unless_none(wanted.found, found.as_mut_ptr()),
            ..Command::of(Kind::Get, self.pair, len)
        };
        self.look_up(&mut scratch, keys, command)?;
        if !wanted.found {
            return scratch.fetch_to(values, collect.places);
        }
        let [value_bytes, found_bytes] = wanted.bytes(self.pair.value, len);
        let values = scratch.fetch_bytes(values, value_bytes)?;
        let found = scratch.fetch_bytes(found, found_bytes)?;
        collect.fill(
            bytemuck::cast_slice(&values),
            bytemuck::cast_slice(&found),
            len,
        );
        Ok(())
    }

    /// Looks keys up, and waits. Outputs are as long as they.
    pub(super) fn look_up(
        &self,
        scratch: &mut Workspace,
        keys: Array<'_>,
        command: Command,
    ) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        // SAFETY: the callers wait for the workspace while they hold `keys`.
        let command = unsafe { stage(scratch, keys, Operands::NONE, command) }?;
        let table = self.table.read();
        self.look_up_staged(&table, scratch, command)
    }

    /// Looks up keys that are on the device, and waits. To be called under the table's lock.
    pub(super) fn look_up_staged(
        &self,
        table: &Table,
        scratch: &mut Workspace,
        command: Command,
    ) -> Result<()> {
        if self.look_up_sorted(table, scratch, command)? {
            return Ok(());
        }
        self.expect_sound()?;
        // SAFETY: the keys are staged and the outputs are as long as the batch; the caller holds
        // the lock until this has ended.
        unsafe { self.launch(table, scratch.stream(), &command, Notes::NONE) }?;
        scratch.wait()
    }

    /// Room for the answers to `len` keys, and the command that has its addresses; where its batch is, is still to be said.
    fn answered<'a>(
        &self,
        scratch: &mut Workspace,
        kind: Kind,
        len: usize,
        outputs: Arrays<'a>,
    ) -> Result<([Option<HostTarget<'a, u8>>; 2], Command)> {
        let mut targets = scratch.near_targets(outputs, len)?;
        let [out_values, out_flags] = targets.each_mut().map(address_of);
        let command = Command {
            out_values,
            out_flags,
            ..Command::of(kind, self.pair, len)
        };
        Ok((targets, command))
    }
}

/// The command with its batch on the device.
///
/// # Safety
/// As for [`Workspace::stage`].
unsafe fn stage(
    scratch: &mut Workspace,
    keys: Array<'_>,
    values: Operands<'_>,
    command: Command,
) -> Result<Command> {
    // SAFETY: the caller's promise.
    unsafe {
        Ok(Command {
            keys: scratch.stage_near(ScratchRole::Keys, keys.bytes())?,
            values: match values {
                Operands::Each(values) if command.kind.traits().takes_values => {
                    scratch.stage_near(ScratchRole::Values, values.bytes())?
                }
                _ => ptr::null(),
            },
            ..command
        })
    }
}
