//! [`Core`]: the layout `Rows`, without the types of its pairs.
//!
//! Keys have rows in a row map, and values lie in a [column](super::column), each at the row of its key. A call that changes either
//! holds the values alone; all others share them. Lookups on streams are in flight in the state of the row map, which holds back
//! what takes the values alone as well.

use std::ops::Deref;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytemuck::Pod;
use gpumap_kernels::count::Counters;
use gpumap_kernels::rows::{MOST_ROWS, NEW_ROWS, NO_ROW, OTHER_ROWS, RowUpdateArgs};
use gpumap_simt::atomic::part::Update;

use super::column::{Answers, Chosen, Column, Notes, ValueForm};
use crate::array::Array;
use crate::device::Device;
use crate::error::{Error, Result, expect_room};
use crate::input::Source;
use crate::lending::launch_and_wait;
use crate::lock::{Lock, ReadGuard, WriteGuard};
use crate::map::{
    Batch, Chunk, Command, HeldPairs, Kind, Layout, MapMemory, MapState, Outputs, Pair, ReadPairs,
    Ready, Stats,
};
use crate::memory::{host_collect, host_push, host_zeroed, retain_at};
use crate::persist::chunk_pairs;
use crate::poison;
use crate::primitives::Order;
use crate::rows::{self, Growing, KeyForm, Keys, RowMemory, Told, WideRef};
use crate::scratch::{ScratchPool, ScratchRole, Workspace, address_of};
use crate::stream::{LaunchOn, Stream};

/// A map whose keys and values have some numbers of bytes.
#[derive(Debug)]
pub(crate) struct Core {
    /// Before the values: its drop waits for lookups in flight.
    rows: rows::Core,
    value_bytes: usize,
    value_form: ValueForm,
    /// The value of each row, and room for some more. Whatever changes keys or values holds it alone.
    values: Lock<Column>,
    /// Whether a write failed half-way.
    poisoned: AtomicBool,
}

/// Pairs in rows, under the lock of their values.
struct HeldRows<'c, G> {
    core: &'c Core,
    values: G,
}

impl<G: Deref<Target = Column>> HeldPairs for HeldRows<'_, G> {
    fn most(&self) -> usize {
        self.core.len()
    }

    /// In the order of rows, which is stable.
    fn write(
        &self,
        scratch: &mut Workspace,
        _: Order,
        [keys, values]: [*mut u8; 2],
        room: usize,
    ) -> Result<usize> {
        let len = self.core.len();
        match len <= room {
            true => self.core.dump(scratch, &self.values, keys, values),
            // The caller makes room for more.
            false => Ok(len),
        }
    }
}

/// What calls on streams look at. The values are locked first.
struct WideMemory<'m> {
    values: ReadGuard<'m, Column>,
    rows: RowMemory<'m>,
}

impl MapMemory for WideMemory<'_> {
    fn sight(&self) -> Vec<u64> {
        let mut sight = self.rows.sight();
        sight.extend(self.values.sight());
        sight
    }

    /// The rows.
    fn hands_on(&self, _: &Command) -> usize {
        size_of::<u32>()
    }

    unsafe fn launch(
        &self,
        on: LaunchOn<'_>,
        command: &Command,
        counters: Counters,
        rows: *mut u8,
    ) -> Result<()> {
        let find = Command {
            out_values: rows,
            ..*command
        };
        let answers = Answers {
            values: command.out_values,
            flags: command.out_flags,
        };
        let rows = (rows.cast::<u32>().cast_const(), command.len);
        // SAFETY: passed on, with a place for each row. The rows are found just before; what changes values waits for this call.
        unsafe {
            self.rows.launch(on, &find, counters, ptr::null_mut())?;
            self.values
                .queue_gather(&on, rows, answers, command.default)
        }
    }
}

impl Core {
    /// One with room for so many pairs. Values that are words have 0, 4 or 8 bytes.
    pub fn new(
        device: &Device,
        (pair, value_form): (Pair, ValueForm),
        pairs: usize,
        seed: u64,
    ) -> Result<Self> {
        let Pair {
            key,
            value: value_bytes,
        } = pair;
        let rows = rows::Core::new(device, KeyForm::Data(key), pairs, seed)?;
        let stream = Stream::of_calls(device)?;
        let values = Column::new(&stream, (value_bytes, value_form), pairs)?;
        stream.synchronize()?;
        Ok(Self {
            rows,
            value_bytes,
            value_form,
            values: Lock::new(values),
            poisoned: AtomicBool::new(false),
        })
    }

    /// The same map, which grows in some other way.
    pub fn growing(mut self, growing: Growing) -> Self {
        self.set_growing(growing);
        self
    }

    /// Has it grow in some other way.
    pub fn set_growing(&mut self, growing: Growing) {
        self.rows.set_growing(growing);
    }

    /// Whether it does not grow.
    pub fn is_fixed(&self) -> bool {
        self.rows.growth().is_fixed()
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn device(&self) -> &Device {
        &self.rows.device
    }

    /// What its values are.
    pub fn value_form(&self) -> ValueForm {
        self.value_form
    }

    /// What calls in flight change.
    pub fn state(&self) -> &Arc<MapState> {
        self.rows.state()
    }

    pub fn scratch(&self) -> &ScratchPool {
        &self.rows.scratch
    }

    /// How many bytes keys and values have.
    pub fn pair(&self) -> Pair {
        Pair {
            key: self.rows.key_bytes,
            value: self.value_bytes,
        }
    }

    /// How many pairs there can be without more memory, or fewer if rows of removed keys come in between.
    pub fn capacity(&self) -> usize {
        self.capacity_with(&self.values.read())
    }

    fn capacity_with(&self, values: &Column) -> usize {
        let removed = self.rows.rows() - self.len();
        self.rows.capacity().min(values.rows()) - removed
    }

    /// Runs an operation that has been checked. Returns what it counts.
    pub fn run(&self, batch: &Batch<'_>, outputs: Outputs<'_>) -> Result<usize> {
        self.run_when(batch, outputs, &mut || Ok(()))
    }

    /// The same. One that changes the map calls `ready` first, once, when nothing can be refused any more, and changes no pair if that
    /// fails. It is not called for a batch without keys.
    pub fn run_when(
        &self,
        batch: &Batch<'_>,
        outputs: Outputs<'_>,
        ready: Ready<'_>,
    ) -> Result<usize> {
        let (n, bytes) = (batch.keys.len(), self.bytes_of_batch(batch, &outputs));
        outputs.through_arrays(n, |arrays| {
            self.rows.scratch.of_batch(|scratch| {
                let mut targets = scratch.host_targets(arrays, n)?;
                let [values, flags] = targets.each_mut().map(address_of);
                let answers = Answers { values, flags };
                let count = self.run_on(scratch, batch, answers, ready);
                let count = count.map_err(|error| error.of_batch_of(bytes))?;
                scratch.copy_all_to_host(targets.into_iter().flatten())?;
                Ok(count)
            })
        })
    }

    fn run_on(
        &self,
        scratch: &mut Workspace,
        batch: &Batch<'_>,
        answers: Answers,
        ready: Ready<'_>,
    ) -> Result<usize> {
        if batch.keys.is_empty() {
            return self.expect_sound().map(|()| 0);
        }
        match batch.kind {
            kind if kind.traits().stores => {
                self.store(scratch, &mut *self.alone()?, (batch, ready), answers)
            }
            kind if kind.traits().removes => {
                let keys = (batch.keys, batch.default);
                self.remove(scratch, &*self.alone()?, keys, answers, ready)
            }
            Kind::Update(update) | Kind::GetAndTouch(update) => {
                let mut values = self.alone()?;
                self.update(scratch, &mut values, (batch, update, ready), answers)
            }
            _ => {
                self.look_up(scratch, &*self.shared()?, batch, answers)?;
                Ok(0)
            }
        }
    }

    fn expect_sound(&self) -> Result<()> {
        poison::expect_sound(&self.poisoned)
    }

    /// The map for a call that changes it.
    fn alone(&self) -> Result<WriteGuard<'_, Column>> {
        let values = self.rows.state().alone(&self.values)?;
        self.expect_sound()?;
        Ok(values)
    }

    /// See [`Lock::expect_no_callback`].
    pub fn expect_no_callback(&self) -> Result<()> {
        self.values.expect_no_callback()
    }

    /// See [`Lock::expect_others`].
    pub fn expect_others(&self) -> Result<()> {
        self.values.expect_others()
    }

    /// The map for a call that does not.
    fn shared(&self) -> Result<ReadGuard<'_, Column>> {
        let values = self.values.read();
        self.expect_sound()?;
        Ok(values)
    }

    /// Bytes that a batch needs at most, with its arrays.
    fn bytes_of_batch(&self, batch: &Batch<'_>, outputs: &Outputs<'_>) -> u64 {
        let n = batch.keys.len();
        let [tells_values, tells_flags] = outputs.told().map(usize::from);
        let pair = self.rows.key_bytes + (1 + tells_values) * self.value_bytes + tells_flags;
        let rows = self.rows.rows().saturating_add(n);
        let values = Column::bytes_for((self.value_bytes, self.value_form), rows);
        let notes = Workspace::bytes_of(n.saturating_mul(size_of::<u32>()))
            + Workspace::bytes_of(n)
            + Notes::bytes(self.value_form, n);
        self.rows
            .bytes_of_batch(n, n.saturating_mul(pair))
            .saturating_add(values)
            .saturating_add(notes)
    }

    /// Stores a batch. Returns how many keys were new.
    fn store(
        &self,
        scratch: &mut Workspace,
        values: &mut Column,
        (batch, ready): (&Batch<'_>, Ready<'_>),
        answers: Answers,
    ) -> Result<usize> {
        let n = batch.keys.len();
        self.make_rows_dense(values, n)?;
        let rows: *mut u32 = scratch.reserve(ScratchRole::ThirdOutput, n)?;
        let new = match answers.flags.is_null() {
            true => scratch.reserve(ScratchRole::FourthOutput, n)?,
            false => answers.flags,
        };
        let notes = Notes::reserve(scratch, self.value_form, n)?;
        // SAFETY: what is queued has ended when this returns, or when the workspace goes back.
        let (keys, given) = unsafe {
            let keys = Keys::stage(scratch, batch.keys, self.rows.key_bytes)?;
            (keys, batch.values.stage(scratch)?)
        };
        let replaces = batch.kind == Kind::Merge(Update::Replace);
        let told = Told {
            rows,
            new,
            ..Told::NOTHING
        };
        let removed = self.rows.rows() - self.len();
        let mut used = self.rows.rows();
        let stored = match self.give_rows_to(scratch, (values, replaces), (keys, told), ready) {
            // They fit if rows of removed keys are used again.
            Err(Error::Full { unplaced, .. }) if unplaced <= removed => {
                self.compact(values)?;
                used = self.rows.rows();
                self.give_rows_to(scratch, (values, replaces), (keys, told), ready)
            }
            stored => stored.map_err(|error| error.with_room_for(removed)),
        }?;
        // A new key gets its first value, unless all are merged.
        let first_new = match replaces {
            true => used as u32,
            false => NO_ROW,
        };
        let update = RowUpdateArgs {
            new,
            first_new,
            values: given,
            value: batch.values.same(),
            ..values.update(rows, n)
        };
        let which = match replaces {
            true => NEW_ROWS | OTHER_ROWS,
            false => NEW_ROWS,
        };
        let chosen = match replaces {
            _ if stored == n => Chosen::All,
            true => Chosen::OneOfEach,
            false => Chosen::New,
        };
        poison::or_poison(&self.poisoned, scratch, |scratch| {
            let stream = scratch.stream();
            // SAFETY: staged, with a row for each key, and the values are held alone.
            unsafe {
                values.queue_update(stream, RowUpdateArgs { which, ..update })?;
                if let Some(notes) = notes
                    && (replaces || stored != 0)
                {
                    values.queue_copies(stream, notes, update, chosen)?;
                }
                if let Kind::Merge(update_others) = batch.kind
                    && update_others != Update::Replace
                {
                    let others = RowUpdateArgs {
                        which: OTHER_ROWS,
                        update: update_others,
                        ..update
                    };
                    values.queue_update(stream, others)?;
                }
                if !answers.values.is_null() {
                    let held = Answers {
                        values: answers.values,
                        ..Answers::NONE
                    };
                    values.queue_gather(stream, (rows, n), held, 0)?;
                }
            }
            scratch.wait()
        })?;
        Ok(stored)
    }

    /// Gives staged keys rows, with room for their values and to replace some, if `ready` agrees. Returns how many were new.
    fn give_rows_to(
        &self,
        scratch: &mut Workspace,
        (values, replaces): (&mut Column, bool),
        (keys, told): (Keys, Told),
        ready: Ready<'_>,
    ) -> Result<usize> {
        let (used, mut grown) = (self.rows.rows(), None);
        // All that may be refused comes before the keys are there.
        let new = self.rows.insert_staged(scratch, keys, told, |_, rows, _| {
            if rows > values.rows() {
                let wished = self.rows.growth().rows(values.rows());
                values.trim();
                grown = Some(values.grown(used, rows, wished)?);
            }
            if replaces && rows - used != keys.n {
                grown.as_mut().unwrap_or(&mut *values).make_electable()?;
            }
            ready()
        })?;
        if let Some(grown) = grown {
            *values = grown;
        }
        Ok(new)
    }

    /// Makes rows dense if a batch of `n` keys would need more memory otherwise, and at least half of it would be that of
    /// removed keys. So memory stays in proportion to the pairs.
    fn make_rows_dense(&self, values: &mut Column, n: usize) -> Result<()> {
        let (len, rows) = (self.len(), self.rows.rows());
        let (removed, all) = (rows - len, rows.saturating_add(n));
        let grows = all > self.rows.capacity().min(values.rows());
        let is_worth_it = removed >= len && grows || all as u64 > MOST_ROWS;
        if removed == 0 || !is_worth_it {
            return Ok(());
        }
        match self.compact(values) {
            // Then the batch is tried without.
            Err(Error::OutOfMemory { .. }) => Ok(()),
            done => done,
        }
    }

    /// Gives pairs the rows 0, 1, 2 and so on. If it fails, all is as it was.
    fn compact(&self, values: &mut Column) -> Result<()> {
        let before = &*values;
        let output = |scratch: &mut Workspace, len| {
            let old: *mut u32 = scratch.reserve(ScratchRole::FirstOutput, len)?;
            let deliver = move |scratch: &mut Workspace| {
                let dense = match before.empty(before.rows()) {
                    Err(Error::OutOfMemory { .. }) => before.empty(len)?,
                    made => made?,
                };
                let to = Answers {
                    values: dense.at(),
                    ..Answers::NONE
                };
                // SAFETY: the rows of all pairs, and room for their values; nothing else knows of them.
                unsafe { before.queue_gather(scratch.stream(), (old, len), to, 0) }?;
                scratch.wait()?;
                Ok(dense)
            };
            Ok((old, deliver))
        };
        let dense = self.rows.compact_to(output, |_, _, _| Ok(()))?;
        *values = dense;
        Ok(())
    }

    /// Removes keys. Returns how many there were.
    fn remove(
        &self,
        scratch: &mut Workspace,
        values: &Column,
        (keys, default): (Array<'_>, u64),
        answers: Answers,
        ready: Ready<'_>,
    ) -> Result<usize> {
        let n = keys.len();
        // SAFETY: what is queued has ended when this returns, or when the workspace goes back.
        let keys = unsafe { Keys::stage(scratch, keys, self.rows.key_bytes) }?;
        if answers.values.is_null() && answers.flags.is_null() {
            return self
                .rows
                .remove_staged(scratch, keys, ptr::null_mut(), ready);
        }
        let rows = scratch.reserve(ScratchRole::ThirdOutput, n)?;
        let removed = self.rows.remove_staged(scratch, keys, rows, ready)?;
        // Their values are as they were, until other keys get their rows.
        poison::or_poison(&self.poisoned, scratch, |scratch| {
            // SAFETY: rows that there are, and outputs for each key.
            unsafe { values.queue_gather(scratch.stream(), (rows, n), answers, default) }?;
            scratch.wait()
        })?;
        Ok(removed)
    }

    /// Updates values of keys that are present. Returns how many are, counted as often as they come.
    fn update(
        &self,
        scratch: &mut Workspace,
        values: &mut Column,
        (batch, update, ready): (&Batch<'_>, Update, Ready<'_>),
        answers: Answers,
    ) -> Result<usize> {
        let n = batch.keys.len();
        let notes = Notes::reserve(scratch, self.value_form, n)?;
        values.make_electable()?;
        // SAFETY: what is queued has ended when this returns, or when the workspace goes back.
        let (keys, given) = unsafe {
            let keys = Keys::stage(scratch, batch.keys, self.rows.key_bytes)?;
            (keys, batch.values.stage(scratch)?)
        };
        let rows = scratch.reserve(ScratchRole::ThirdOutput, n)?;
        let absent = self.rows.get_counting(scratch, keys, rows)?;
        ready()?;
        scratch.begin();
        poison::or_poison_if_launched(&self.poisoned, scratch, |scratch| {
            let args = RowUpdateArgs {
                values: given,
                value: batch.values.same(),
                old: answers.values,
                found: answers.flags,
                default: batch.default,
                which: OTHER_ROWS,
                update,
                ..values.update(rows, n)
            };
            let stream = scratch.stream();
            // SAFETY: staged, with a row for each key that has one, and the values are held alone.
            unsafe {
                match notes {
                    None => values.queue_update(stream, args),
                    Some(notes) => values.queue_copies(stream, notes, args, Chosen::OneOfEach),
                }
            }?;
            scratch.wait()
        })?;
        Ok(n - absent)
    }

    /// Looks keys up.
    fn look_up(
        &self,
        scratch: &mut Workspace,
        values: &Column,
        batch: &Batch<'_>,
        answers: Answers,
    ) -> Result<()> {
        let n = batch.keys.len();
        // SAFETY: what is queued has ended when this returns, or when the workspace goes back.
        let keys = unsafe { Keys::stage(scratch, batch.keys, self.rows.key_bytes) }?;
        let rows = scratch.reserve(ScratchRole::ThirdOutput, n)?;
        self.rows.get_staged(scratch, keys, rows)?;
        // SAFETY: rows that there are, and outputs for each key.
        unsafe { values.queue_gather(scratch.stream(), (rows, n), answers, batch.default) }?;
        scratch.wait()
    }

    /// Lends the map to kernels that `launch` launches on a stream, and waits until they have ended. They may change values, so
    /// nothing else runs.
    pub fn lend<K: Copy, B>(
        &self,
        stream: &Stream,
        launch: impl FnOnce(WideRef<K, B>) -> Result<()>,
    ) -> Result<()> {
        self.device().expect_same(stream.device())?;
        let values = self.alone()?;
        let _callback = values.callback();
        let set_poisoned = || self.poisoned.store(true, Ordering::Release);
        let [launched, waited] = self.rows.with_ref(|keys| {
            let map = WideRef::new(keys, values.at());
            launch_and_wait(stream, set_poisoned, || launch(map))
        })??;
        // Such a kernel may have ended anywhere.
        let is_unknown = matches!(launched, Err(Error::Kernel(_) | Error::Driver { .. }));
        if is_unknown || waited.is_err() {
            set_poisoned();
        }
        launched.and(waited)
    }

    /// Keys, rows and values, for lookups on streams.
    pub fn memory(&self) -> Result<Box<dyn MapMemory + '_>> {
        let values = self.shared()?;
        let rows = RowMemory::of(&self.rows)?;
        Ok(Box::new(WideMemory { values, rows }))
    }

    /// Removes the pairs that do not pass. Calls `ready` first, unless there are none, and removes none if that fails, or `keep`
    /// does. Returns how many.
    pub fn retain<K: Pod, V: Pod>(
        &self,
        mut keep: impl FnMut(K, &V) -> Result<bool>,
        ready: Ready<'_>,
    ) -> Result<usize> {
        let mut scratch = self.rows.scratch.take()?;
        let values = self.alone()?;
        let _callback = values.callback();
        let mut keep = |key, value: &V, _| keep(key, value);
        self.remove_unless(&mut scratch, &values, &mut keep, ready)
    }

    /// The same with the pairs whose key is not in a batch.
    pub fn retain_keys<K: Pod, V: Pod>(&self, keys: Array<'_>, ready: Ready<'_>) -> Result<usize> {
        let mut scratch = self.rows.scratch.take()?;
        let values = self.alone()?;
        let n = keys.len();
        // SAFETY: what is queued has ended when this returns, or when the workspace goes back.
        let keys = unsafe { Keys::stage(&mut scratch, keys, self.rows.key_bytes) }?;
        let rows: *mut u32 = scratch.reserve(ScratchRole::ThirdOutput, n)?;
        let mut kept = host_zeroed::<u8>(self.rows.rows())?;
        if n != 0 {
            self.rows.get_staged(&scratch, keys, rows)?;
        }
        // SAFETY: reserved, and written just now.
        for row in unsafe { scratch.read(rows.cast_const(), n) }? {
            if row != NO_ROW {
                kept[row as usize] = 1;
            }
        }
        let mut keep = |_, _: &V, row| Ok(kept[row as usize] != 0);
        self.remove_unless::<K, V>(&mut scratch, &values, &mut keep, ready)
    }

    /// Removes the pairs that do not pass, which is told their rows as well. Returns how many.
    fn remove_unless<K: Pod, V: Pod>(
        &self,
        scratch: &mut Workspace,
        values: &Column,
        keep: &mut dyn FnMut(K, &V, u32) -> Result<bool>,
        ready: Ready<'_>,
    ) -> Result<usize> {
        let mut unwanted = Vec::new();
        self.give_rows::<K, V>(values, chunk_pairs::<K, V>(), &mut |keys, held, rows| {
            for ((key, value), row) in keys.into_iter().zip(&held).zip(rows) {
                if !keep(key, value, row)? {
                    host_push(&mut unwanted, key)?;
                }
            }
            Ok(())
        })?;
        if unwanted.is_empty() {
            return Ok(0);
        }
        let unwanted = Source::Host(&unwanted[..]);
        let keys = (unwanted.into(), 0);
        self.remove(scratch, values, keys, Answers::NONE, ready)
    }

    /// Gives all pairs out with their rows, in the order of these, at most so many at a time.
    fn give_rows<K: Pod, V: Pod>(
        &self,
        values: &Column,
        pairs: usize,
        give: &mut dyn FnMut(Vec<K>, Vec<V>, Vec<u32>) -> Result<()>,
    ) -> Result<()> {
        let mut scratch = self.rows.scratch.take()?;
        let mut held = self.rows.hold()?;
        for first in (0..held.rows).step_by(pairs.max(1)) {
            let end = held.rows.min(first.saturating_add(pairs.max(1)));
            let mut keys: Vec<K> = held.keys(first..end)?;
            let from = values.at().wrapping_add(first * self.value_bytes);
            let mut of_keys: Vec<V> = match self.value_bytes {
                0 => host_zeroed(end - first)?,
                // SAFETY: rows in use, under the lock of the values.
                _ => unsafe { scratch.read(from.cast_const().cast(), end - first) }?,
            };
            let mut rows: Vec<u32> = host_collect(first as u32..end as u32)?;
            if held.len != held.rows {
                let is_there = |at: usize| !held.is_removed((first + at) as u32);
                retain_at(&mut keys, is_there);
                retain_at(&mut of_keys, is_there);
                retain_at(&mut rows, is_there);
            }
            give(keys, of_keys, rows)?;
        }
        Ok(())
    }

    /// Gives all pairs out, at most so many at a time. Calls that change the map wait meanwhile.
    pub fn give_chunks<K: Pod, V: Pod>(
        &self,
        pairs: usize,
        give: &mut dyn FnMut(&Chunk<K, V>) -> Result<()>,
    ) -> Result<()> {
        let values = self.values.read_in_turn();
        self.expect_sound()?;
        let _callback = values.callback();
        self.give_rows(
            &values,
            pairs,
            &mut |keys, values, _| match keys.is_empty() {
                true => Ok(()),
                false => give(&Chunk::of((keys, values))),
            },
        )
    }

    /// All pairs, beside other calls that read.
    pub fn hold(&self) -> Result<Box<dyn HeldPairs + '_>> {
        let values = self.shared()?;
        Ok(Box::new(HeldRows { core: self, values }))
    }

    /// Removes all pairs when `read` has them.
    pub fn drain(&self, read: ReadPairs<'_>) -> Result<()> {
        let mut scratch = self.rows.scratch.take()?;
        let values = self.alone()?;
        let held = HeldRows {
            core: self,
            values: &*values,
        };
        read(&mut scratch, &held)?;
        self.rows.clear()
    }

    /// Writes all pairs to where there is room for as many, and waits. Returns how many there are.
    fn dump(
        &self,
        scratch: &mut Workspace,
        values: &Column,
        keys: *mut u8,
        to: *mut u8,
    ) -> Result<usize> {
        let len = self.len();
        let is_dense = self.rows.rows() == len;
        let rows = match is_dense {
            true => ptr::null_mut(),
            false => scratch.reserve(ScratchRole::ThirdOutput, len)?,
        };
        let to = Answers {
            values: to,
            ..Answers::NONE
        };
        // SAFETY: room for all pairs, whose values do not change meanwhile.
        let queued = unsafe {
            self.rows
                .queue_dump(scratch, keys, rows)
                .and_then(|()| match is_dense {
                    true => {
                        let bytes = len * self.value_bytes;
                        scratch.stream().copy(to.values, values.at(), bytes)
                    }
                    false => values.queue_gather(scratch.stream(), (rows, len), to, 0),
                })
        };
        scratch.or_wait(queued)?;
        scratch.wait()?;
        Ok(len)
    }

    /// The same, if there is room for so many.
    pub fn dump_into(
        &self,
        scratch: &mut Workspace,
        keys: *mut u8,
        to: *mut u8,
        room: usize,
    ) -> Result<usize> {
        let values = self.shared()?;
        expect_room(self.len(), room)?;
        self.dump(scratch, &values, keys, to)
    }

    /// The rows without values.
    pub fn rows(&self) -> &rows::Core {
        &self.rows
    }

    /// What it looks like inside.
    pub fn stats(&self) -> Result<Stats> {
        let values = self.shared()?;
        let [table_bytes, tombstones] = self.rows.memory()?;
        Ok(Stats {
            layout: Layout::Rows,
            len: self.len(),
            tombstones: tombstones as usize,
            slots: self.rows.slots(),
            capacity: self.capacity_with(&values).max(self.len()),
            submaps: 1,
            table_bytes: table_bytes + values.bytes(),
            probe_lengths: Vec::new(),
            cells: None,
        })
    }

    /// Gives back the memory of removed pairs, and of those that may come.
    pub fn shrink_to_fit(&self) -> Result<()> {
        let mut values = self.alone()?;
        if self.rows.rows() != self.len() {
            self.compact(&mut values)?;
        }
        self.rows.shrink_to_fit()?;
        let len = self.len();
        if len < values.rows() && self.value_bytes != 0 {
            *values = values.moved(len, len)?;
        }
        values.trim();
        Ok(())
    }

    /// Makes room for so many pairs more.
    pub fn reserve(&self, more: usize) -> Result<()> {
        let mut values = self.alone()?;
        self.make_rows_dense(&mut values, more)?;
        let (used, rows) = (self.rows.rows(), self.rows.rows().saturating_add(more));
        let grown = match rows > values.rows() {
            true => Some(values.moved(used, rows)?),
            false => None,
        };
        self.rows.reserve(more)?;
        if let Some(grown) = grown {
            *values = grown;
        }
        Ok(())
    }

    /// Removes all pairs.
    pub fn clear(&self) -> Result<()> {
        let _values = self.rows.state().alone(&self.values)?;
        self.rows.clear()?;
        self.poisoned.store(false, Ordering::Release);
        Ok(())
    }
}
