//! [`Core`]: a row map without the type of its keys.
//!
//! An insert holds `inserts`, so that there is one at a time. Its first pass runs beside lookups, under the table's lock as
//! they do; what changes rows runs alone, and what removes keys as well. Lookups on streams are in flight when they have given
//! the lock back; [`MapState`] says what they hold back.

mod stored;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gpumap_kernels::rows::{RowGetArgs, RowKernels, RowRemoveArgs};
use gpumap_simt::kernel::Launcher;

pub(crate) use stored::Held;
pub(super) use stored::Loading;

use super::claims::{Claims, Told, grid, queue_ranks};
use super::table::{Slots, Table, expect_rows};
use super::{Growing, KeyForm, Keys};
use crate::array::Array;
use crate::device::Device;
use crate::error::{Error, Result, expect_room};
use crate::lock::{Lock, ReadGuard, WriteGuard};
use crate::map::{Arrays, KEY_ALIGN, MapState, OwnState};
use crate::output::Sink;
use crate::poison;
use crate::scratch::{ScratchPool, ScratchRole, Workspace, address_of};
use crate::stream::Stream;

use std::ptr;

/// A row map, whose keys have some number of bytes.
#[derive(Debug)]
pub(crate) struct Core {
    pub device: Device,
    pub scratch: ScratchPool,
    /// Bytes for each key in an array of them.
    pub key_bytes: usize,
    /// Lookups on streams, and whether a write failed half-way. Before the table: dropped first, after waiting for them.
    state: OwnState,
    table: Lock<Table>,
    inserts: Lock<()>,
    growing: Growing,
    /// Keys. Changes only while the table is held alone, and so do rows.
    len: AtomicUsize,
    /// Rows in use, of which some may have no key any more.
    rows: AtomicUsize,
}

impl Core {
    pub fn new(device: &Device, form: KeyForm, rows: usize, seed: u64) -> Result<Self> {
        let stream = Stream::of_calls(device)?;
        Ok(Self {
            scratch: ScratchPool::new(device),
            table: Lock::new(Table::new(&stream, form, rows, seed)?),
            inserts: Lock::new(()),
            growing: Growing::default(),
            device: device.clone(),
            key_bytes: form.bytes(),
            len: AtomicUsize::new(0),
            rows: AtomicUsize::new(0),
            // It counts by itself.
            state: OwnState::new(device, 0, 0),
        })
    }

    /// The same map, which grows in some other way.
    pub fn growing(self, growing: Growing) -> Self {
        Self { growing, ..self }
    }

    /// Has it grow in some other way.
    pub fn set_growing(&mut self, growing: Growing) {
        self.growing = growing;
    }

    /// How it grows.
    pub fn growth(&self) -> &Growing {
        &self.growing
    }

    pub fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// How many rows were given out.
    pub fn rows(&self) -> usize {
        self.rows.load(Ordering::Acquire)
    }

    /// Says how many keys and rows there are. To be called with the table held alone.
    fn set_len(&self, len: usize, rows: usize) {
        self.len.store(len, Ordering::Release);
        self.rows.store(rows, Ordering::Release);
    }

    /// Slots that are not empty.
    fn used(&self, table: &Table) -> usize {
        self.len() + table.tombstones()
    }

    /// How many rows fit without more memory.
    pub fn capacity(&self) -> usize {
        let table = self.table.read();
        let rows = self.rows();
        let room = rows + (table.slot_rows() - self.used(&table)).min(table.key_rows() - rows);
        room.min(self.growing.most())
    }

    /// Slots, whatever is in them.
    pub fn slots(&self) -> usize {
        self.table.read().slot_count()
    }

    /// Bytes of slots and keys, and how many slots removed keys have left.
    pub fn memory(&self) -> Result<[u64; 2]> {
        let table = self.shared()?;
        Ok([table.bytes(), table.tombstones() as u64])
    }

    /// The kernels that its operations launch: those for keys on an address as they are made, and for any.
    pub fn kernels(&self) -> [&'static RowKernels; 2] {
        let form = self.table.read().form();
        [form.kernels_at(0), form.kernels_at(KEY_ALIGN)]
    }

    /// Gives back the memory of slots and keys that is not needed for the rows in use.
    pub fn shrink_to_fit(&self) -> Result<()> {
        let _order = self.order()?;
        self.expect_sound()?;
        let mut table = self.alone()?;
        table.shrink(self.rows(), self.len())
    }

    /// The same. `moved` is told where a copy of the keys is, before it takes the place of the keys, and how many rows there are; what
    /// it queues has ended when it returns. If it fails, keys are where they were.
    pub fn shrink_to_fit_by(
        &self,
        moved: impl FnOnce(&mut Workspace, *mut u8, usize) -> Result<()>,
    ) -> Result<()> {
        self.scratch.of_batch(|scratch| {
            let _order = self.order()?;
            self.expect_sound()?;
            let mut table = self.alone()?;
            let rows = self.rows();
            table.shrink(rows, self.len())?;
            let mut keys = table.grown_keys(rows, rows, rows)?;
            if let Err(error) = moved(scratch, keys.as_mut_ptr(), rows) {
                table.abandon_keys(keys, scratch);
                return Err(error);
            }
            table.set_keys(keys);
            Ok(())
        })
    }

    /// What calls in flight change.
    pub fn state(&self) -> &Arc<MapState> {
        &self.state
    }

    /// The table alone: no lookup is in flight, and none begins.
    fn alone(&self) -> Result<WriteGuard<'_, Table>> {
        self.state.alone(&self.table)
    }

    /// The table, beside other calls.
    pub(super) fn shared(&self) -> Result<ReadGuard<'_, Table>> {
        let table = self.table.read();
        self.expect_sound()?;
        Ok(table)
    }

    /// The same, for a call that runs callbacks; see [`Lock::read_in_turn`].
    pub(super) fn shared_in_turn(&self) -> Result<ReadGuard<'_, Table>> {
        let table = self.table.read_in_turn();
        self.expect_sound()?;
        Ok(table)
    }

    fn expect_sound(&self) -> Result<()> {
        poison::expect_sound(&self.state.poisoned)
    }

    /// The turn of a call that changes keys.
    ///
    /// # Errors
    /// [`Error::Nested`].
    fn order(&self) -> Result<WriteGuard<'_, ()>> {
        self.expect_no_callback()?;
        self.inserts.write()
    }

    /// See [`Lock::expect_no_callback`].
    pub fn expect_no_callback(&self) -> Result<()> {
        self.table.expect_no_callback()
    }

    /// See [`Lock::expect_others`].
    pub fn expect_others(&self) -> Result<()> {
        self.table.expect_others()
    }

    /// Says that what the map holds is not known, unless all is well.
    fn or_poison<T>(&self, outcome: Result<T>) -> Result<T> {
        if outcome.is_err() {
            self.state.poisoned.store(true, Ordering::Release);
        }
        outcome
    }

    /// Gives keys rows. Outputs are the rows and the flags of new keys. Returns how many were new.
    pub fn insert(&self, keys: Array<'_>, outputs: Arrays<'_>) -> Result<usize> {
        self.insert_when(keys, outputs, |_, _| Ok(()))
    }

    /// The same, if what [`insert_staged`](Self::insert_staged) calls before there are new keys agrees. It is not called for a batch
    /// without keys.
    pub fn insert_when(
        &self,
        keys: Array<'_>,
        outputs: Arrays<'_>,
        ready: impl FnOnce(&mut Workspace, usize) -> Result<()>,
    ) -> Result<usize> {
        let n = keys.len();
        let of_keys = n.saturating_mul(self.key_bytes);
        self.insert_by(n, (of_keys, 0), outputs, |scratch, told| {
            // SAFETY: what is queued has ended when this returns, or when the workspace goes back.
            let keys = unsafe { Keys::stage(scratch, keys, self.key_bytes) }?;
            self.insert_staged(scratch, keys, told, |scratch, rows, _| ready(scratch, rows))
        })
    }

    /// Has `insert` give `n` keys rows, which takes bytes for arrays of the caller that lie on the host, and others. Outputs are
    /// the rows and the flags of new keys. Returns how many were new.
    pub fn insert_by(
        &self,
        n: usize,
        (of_keys, beside): (usize, u64),
        outputs: Arrays<'_>,
        insert: impl FnOnce(&mut Workspace, Told) -> Result<usize>,
    ) -> Result<usize> {
        for output in outputs.iter().flatten() {
            expect_room(n, output.len())?;
        }
        self.scratch.of_batch(|scratch| {
            let told = outputs
                .iter()
                .flatten()
                .filter(|output| output.is_on_host());
            let told: usize = told.map(|output| n.saturating_mul(output.element())).sum();
            let mut targets = scratch.host_targets(outputs, n)?;
            if n == 0 {
                return Ok(0);
            }
            let [rows, new] = targets.each_mut().map(address_of);
            let wanted = Told {
                rows: rows.cast(),
                new,
                ..Told::NOTHING
            };
            let new = insert(scratch, wanted).map_err(|error| {
                let bytes = self.bytes_of_batch(n, of_keys.saturating_add(told));
                error.of_batch_of(bytes.saturating_add(beside))
            })?;
            scratch.copy_all_to_host(targets.into_iter().flatten())?;
            Ok(new)
        })
    }

    /// Bytes that a batch of `n` keys needs at most, with arrays of so many.
    pub fn bytes_of_batch(&self, n: usize, arrays: usize) -> u64 {
        // If there is memory for more than that, it takes more.
        let (slots, keys) = {
            let table = self.table.read();
            (table.slot_rows(), table.key_rows())
        };
        let keys = self.growing.rows(keys).max(self.rows().saturating_add(n));
        let slots = self.growing.slots(slots).max(self.len().saturating_add(n));
        let of_rows = Slots::bytes_for(slots).saturating_add(keys.saturating_mul(self.key_bytes));
        let arrays = match self.device.has_own_memory() {
            true => Workspace::bytes_of(arrays),
            false => 0,
        };
        Claims::bytes(n)
            .saturating_add(of_rows as u64)
            .saturating_add(arrays)
    }

    /// Gives staged keys rows. Before any of them is there, and when there is room for all, `ready` is told how many rows there will
    /// be, and which keys of the batch are owners, a bit for each; null if none is new. If it fails, the batch is refused; what it
    /// queues runs before the keys are written to their rows. Returns how many keys were new.
    pub fn insert_staged(
        &self,
        scratch: &mut Workspace,
        keys: Keys,
        told: Told,
        ready: impl FnOnce(&mut Workspace, usize, *const u32) -> Result<()>,
    ) -> Result<usize> {
        let _order = self.order()?;
        self.expect_sound()?;
        let (len, rows) = (self.len(), self.rows());
        if self.make_room(scratch, keys, told.rows)? == Some(0) {
            ready(scratch, rows, ptr::null())?;
            return none_new(scratch, keys, told);
        }
        let claims = {
            let table = self.table.read();
            scratch.begin();
            let claims = Claims::of(scratch, keys).and_then(|claims| {
                // SAFETY: staged, and there is room; other inserts and commits wait for `inserts`.
                unsafe { claims.queue(scratch, table.view(), told.rows) }?;
                Ok(claims)
            });
            if claims.is_err() && scratch.has_launched() {
                let _ = scratch.wait();
                return self.or_poison(claims).map(|_| 0);
            }
            claims
        };
        let claims = match claims {
            Ok(claims) => claims,
            Err(error) => {
                match self.alone() {
                    Ok(mut table) => table.undo(),
                    // Lookups may read the new slots, and none the old ones.
                    Err(_) => self.table.write()?.keep(),
                }
                return Err(error);
            }
        };
        let ranked = claims.rank(scratch);
        if let Ok(0) = ranked {
            ready(scratch, rows, ptr::null())?;
            return none_new(scratch, keys, told);
        }
        // If it cannot be had, the claims stay.
        let mut table = self.or_poison(self.alone())?;
        let ready = ranked.and_then(|new| {
            let all = rows + new;
            self.growing.expect_fits(all, len, keys.n)?;
            let grown = match all > table.key_rows() {
                true => Some(table.grown_keys(rows, all, self.growing.rows(table.key_rows()))?),
                false => None,
            };
            ready(scratch, all, claims.owners())?;
            if let Some(keys) = grown {
                table.set_keys(keys);
            }
            Ok(new)
        });
        let new = match ready {
            Ok(new) => new,
            Err(error) => {
                // SAFETY: lookups wait for the lock.
                let released = unsafe { claims.release(scratch, table.view().slots) };
                return Err(match (error, self.or_poison(released)) {
                    (error @ Error::Driver { .. }, Err(_)) => error,
                    // The map is not as it was, as the other error would say.
                    (_, Err(of_release)) => of_release,
                    (error, Ok(())) => {
                        table.undo();
                        error
                    }
                });
            }
        };
        // SAFETY: ranked, with room for the new keys, and the table is held alone.
        let committed = unsafe { claims.commit(scratch, table.view(), (rows, new), true, told) };
        // Of its launches one may run when the next is refused.
        let committed = scratch.or_wait(committed);
        self.or_poison(committed.and_then(|()| scratch.wait()))?;
        if self.growing.is_fixed()
            && let Err(error) = table.fill_replaced(rows + new, len + new)
        {
            tracing::debug!(%error, "a map of a fixed capacity keeps more slots than it needs");
        }
        self.set_len(len + new, rows + new);
        table.keep();
        Ok(new)
    }

    /// Makes slots for a batch, if there may be too few. Returns how many keys are absent, counted as often as they come, if it
    /// had to look: then it has said in `told` which rows the others have; null if that is not wanted.
    fn make_room(
        &self,
        scratch: &mut Workspace,
        keys: Keys,
        told: *mut u32,
    ) -> Result<Option<usize>> {
        let table = self.table.read();
        let (len, rows) = (self.len(), self.rows());
        let room = table.slot_rows() - self.used(&table);
        if keys.n <= room {
            return Ok(None);
        }
        let absent = match len {
            0 => keys.n,
            _ => self.count_absent(scratch, &table, keys, told)?,
        };
        drop(table);
        expect_rows(rows + absent, self.key_bytes)?;
        if absent > room {
            // Also if the map is fixed: until it is known how many keys are new, which may come several times.
            let mut table = self.alone()?;
            let wished = self.growing.slots(table.slot_rows());
            table.grow_slots(rows, len + absent, wished)?;
        }
        Ok(Some(absent))
    }

    /// How many keys of a batch are absent, counted as often as they come, and the rows of the others.
    fn count_absent(
        &self,
        scratch: &mut Workspace,
        table: &Table,
        keys: Keys,
        rows: *mut u32,
    ) -> Result<usize> {
        scratch.reset_counters()?;
        let absent = scratch.counters();
        self.launch_get(scratch.stream(), table, keys, rows, absent)?;
        Ok(scratch.read_counters()?[0] as usize)
    }

    /// Launches a lookup of the row of each staged key.
    pub(super) fn launch_get(
        &self,
        on: &impl Launcher<Error = Error>,
        table: &Table,
        keys: Keys,
        rows: *mut u32,
        absent: *mut u64,
    ) -> Result<()> {
        let args = RowGetArgs {
            view: table.view(),
            batch: keys.at,
            n: keys.n as u64,
            rows,
            absent,
        };
        // SAFETY: staged, with a place for each row; the caller holds the table's lock.
        unsafe { keys.kernels().get.launch(on, grid(keys.n), args) }
    }

    /// Looks up the row of each key.
    pub fn get(&self, keys: Array<'_>, rows: Arrays<'_>) -> Result<()> {
        self.get_by(keys.len(), rows, |scratch| {
            // SAFETY: what is queued has ended when this returns, or when the workspace goes back.
            unsafe { Keys::stage(scratch, keys, self.key_bytes) }
        })
    }

    /// Looks up the row of each of `n` keys that `stage` brings to the device.
    pub fn get_by(
        &self,
        n: usize,
        rows: Arrays<'_>,
        stage: impl FnOnce(&mut Workspace) -> Result<Keys>,
    ) -> Result<()> {
        for output in rows.iter().flatten() {
            expect_room(n, output.len())?;
        }
        let mut scratch = self.scratch.take()?;
        let mut targets = scratch.host_targets(rows, n)?;
        if n == 0 {
            return Ok(());
        }
        let keys = stage(&mut scratch)?;
        let [rows, _] = targets.each_mut().map(address_of);
        self.get_staged(&scratch, keys, rows.cast())?;
        scratch.copy_all_to_host(targets.into_iter().flatten())
    }

    /// Looks up the row of each staged key, into memory of the device.
    pub fn get_staged(&self, scratch: &Workspace, keys: Keys, rows: *mut u32) -> Result<()> {
        let table = self.table.read();
        self.expect_sound()?;
        self.launch_get(scratch.stream(), &table, keys, rows, ptr::null_mut())?;
        scratch.wait()
    }

    /// The same. Returns how many keys have no row, counted as often as they come.
    pub fn get_counting(
        &self,
        scratch: &mut Workspace,
        keys: Keys,
        rows: *mut u32,
    ) -> Result<usize> {
        let table = self.table.read();
        self.expect_sound()?;
        self.count_absent(scratch, &table, keys, rows)
    }

    /// Removes keys. Returns how many there were.
    pub fn remove(&self, keys: Array<'_>) -> Result<usize> {
        self.remove_when(keys, || Ok(()))
    }

    /// The same, if what [`remove_staged`](Self::remove_staged) calls before it agrees. It is not called for a batch without keys.
    pub fn remove_when(
        &self,
        keys: Array<'_>,
        ready: impl FnOnce() -> Result<()>,
    ) -> Result<usize> {
        let stage = |scratch: &mut Workspace| {
            // SAFETY: what is queued has ended when this returns, or when the workspace goes back.
            unsafe { Keys::stage(scratch, keys, self.key_bytes) }
        };
        self.remove_by(keys.len(), stage, ready)
    }

    /// The same with `n` keys that `stage` brings to the device.
    pub fn remove_by(
        &self,
        n: usize,
        stage: impl FnOnce(&mut Workspace) -> Result<Keys>,
        ready: impl FnOnce() -> Result<()>,
    ) -> Result<usize> {
        self.scratch.of_batch(|scratch| {
            if n == 0 {
                return Ok(0);
            }
            let keys = stage(scratch)?;
            self.remove_staged(scratch, keys, ptr::null_mut(), ready)
        })
    }

    /// Removes staged keys, and says for each its row if this one removed it; null where that is not wanted. Before any is removed,
    /// and when there is memory for it, `ready` is called: if it fails, none is. Returns how many there were.
    pub fn remove_staged(
        &self,
        scratch: &mut Workspace,
        keys: Keys,
        gone: *mut u32,
        ready: impl FnOnce() -> Result<()>,
    ) -> Result<usize> {
        let _order = self.order()?;
        let mut table = self.alone()?;
        self.expect_sound()?;
        let (len, rows) = (self.len(), self.rows());
        if len == 0 && gone.is_null() {
            return ready().map(|()| 0);
        }
        let removed = table.removed_mut(rows)?;
        ready()?;
        scratch.begin();
        let counts = poison::or_poison_if_launched(&self.state.poisoned, scratch, |scratch| {
            scratch.reset_counters()?;
            let args = RowRemoveArgs {
                view: table.view(),
                batch: keys.at,
                n: keys.n as u64,
                removed,
                rows: gone,
                count: scratch.counters(),
            };
            // SAFETY: staged, with a bit for each row and a counter; the table is held alone.
            unsafe {
                keys.kernels()
                    .remove
                    .launch(scratch.stream(), grid(keys.n), args)
            }?;
            scratch.read_counters()
        })?;
        let removed = counts[0] as usize;
        table.note_removed(removed);
        self.set_len(len - removed, rows);
        Ok(removed)
    }

    /// Ranks the rows that were removed, in scratch memory of the role `Held`.
    fn rank_removed(&self, scratch: &mut Workspace, table: &Table) -> Result<*const u32> {
        let removed = table.removed();
        let words = removed.words as usize;
        let ranks = scratch.reserve(ScratchRole::Held, words + 1)?;
        // SAFETY: so many words, and room reserved for a rank more.
        unsafe { queue_ranks(scratch, removed.bits, words, ranks) }?;
        Ok(ranks)
    }

    /// The keys for a call that reads them: no call changes rows meanwhile.
    pub fn share(&self) -> Result<Shared<'_>> {
        let table = self.table.read();
        self.expect_sound()?;
        Ok(Shared { core: self, table })
    }

    /// Queues writing all keys in the order of their rows, and these, where that is wanted. If that fails, nothing of it runs
    /// any more: the caller gives the table's lock up.
    ///
    /// # Safety
    /// The outputs have room for as many as there are, until what is queued has ended.
    unsafe fn dump(
        &self,
        scratch: &mut Workspace,
        table: &Table,
        keys: *mut u8,
        rows: *mut u32,
    ) -> Result<()> {
        // SAFETY: passed on.
        let queued = unsafe { self.queue_keys(scratch, table, keys, rows) };
        scratch.or_wait(queued)
    }

    /// What [`dump`](Self::dump) queues.
    ///
    /// # Safety
    /// As for that.
    unsafe fn queue_keys(
        &self,
        scratch: &mut Workspace,
        table: &Table,
        keys: *mut u8,
        rows: *mut u32,
    ) -> Result<()> {
        let (len, all) = (self.len(), self.rows());
        let bytes = len * self.key_bytes;
        let mut to = keys;
        if !keys.is_null() && len == all {
            // SAFETY: rows in use, and the caller's room.
            unsafe { scratch.stream().copy(keys, table.keys(), bytes) }?;
            to = ptr::null_mut();
        } else if !keys.addr().is_multiple_of(4) {
            // Of a type like `[u8; 16]`, which may lie anywhere.
            to = scratch.reserve(ScratchRole::Keys, bytes)?;
        }
        if !to.is_null() || !rows.is_null() {
            let before = self.rank_removed(scratch, table)?;
            // SAFETY: ranked just now; the caller's room, or what was reserved.
            unsafe { table.queue_compact(scratch.stream(), all, before, to, rows) }?;
        }
        if !to.is_null() && to != keys {
            // SAFETY: written just now, and the caller's room.
            unsafe { scratch.stream().copy(keys, to, bytes) }?;
        }
        Ok(())
    }

    /// Queues writing all keys in the order of their rows, and these, where that is wanted.
    ///
    /// # Safety
    /// The outputs have room for as many as there are, and no call changes rows, until what is queued has ended.
    pub unsafe fn queue_dump(
        &self,
        scratch: &mut Workspace,
        keys: *mut u8,
        rows: *mut u32,
    ) -> Result<()> {
        let table = self.table.read();
        self.expect_sound()?;
        // SAFETY: passed on.
        unsafe { self.dump(scratch, &table, keys, rows) }
    }

    /// All keys in the order of their rows, as a vector of the host. Those have so many bytes.
    pub fn keys<K: bytemuck::Pod>(&self) -> Result<Vec<K>> {
        debug_assert_eq!(size_of::<K>(), self.key_bytes);
        let mut scratch = self.scratch.take()?;
        let table = self.table.read();
        self.expect_sound()?;
        let len = self.len();
        let mut output = scratch.output::<K>(ScratchRole::FirstOutput, len)?;
        let to = output.as_mut_ptr().cast();
        // SAFETY: an output for all keys.
        unsafe { self.dump(&mut scratch, &table, to, ptr::null_mut()) }?;
        scratch.fetch(output, len)
    }

    /// All keys in the order of their rows, and these if they are wanted, into memory of the caller. Returns how many there are.
    pub fn dump_to(&self, keys: Sink<'_, u8>, rows: Option<Sink<'_, u32>>) -> Result<usize> {
        let mut scratch = self.scratch.take()?;
        let table = self.shared()?;
        let len = self.len();
        let places = keys.len() / self.key_bytes;
        let most = rows.as_ref().map_or(places, |rows| rows.len().min(places));
        expect_room(len, most)?;
        let bytes = len * self.key_bytes;
        let mut keys = scratch.host_target(ScratchRole::FirstOutput, keys, bytes)?;
        let rows = rows.map(|rows| scratch.host_target(ScratchRole::SecondOutput, rows, len));
        let mut rows = rows.transpose()?;
        let of_rows = rows
            .as_mut()
            .map_or(ptr::null_mut(), |rows| rows.as_mut_ptr());
        // SAFETY: targets for all keys and rows.
        unsafe { self.dump(&mut scratch, &table, keys.as_mut_ptr(), of_rows) }?;
        scratch.wait()?;
        scratch.copy_to_host(keys, bytes)?;
        rows.map_or(Ok(()), |rows| scratch.copy_to_host(rows, len))?;
        Ok(len)
    }

    /// All keys in the order of their rows, and these. Keys have so many bytes.
    pub fn retrieve_all<K: bytemuck::Pod>(&self) -> Result<(Vec<K>, Vec<u32>)> {
        let mut scratch = self.scratch.take()?;
        let table = self.table.read();
        self.expect_sound()?;
        let len = self.len();
        scratch.collect_pairs(len, len, |scratch, to, _| {
            self.dump_pairs(scratch, &table, to)
        })
    }

    /// Writes all keys and rows, of which there are as many as [`len`](Self::len) says. Returns that.
    fn dump_pairs<K>(
        &self,
        scratch: &mut Workspace,
        table: &Table,
        (keys, rows): (*mut K, *mut u32),
    ) -> Result<usize> {
        debug_assert_eq!(size_of::<K>(), self.key_bytes);
        // SAFETY: outputs for all keys.
        unsafe { self.dump(scratch, table, keys.cast(), rows) }?;
        scratch.wait()?;
        Ok(self.len())
    }

    /// The same, into memory of the device that has room for so many. Waits.
    pub fn dump_into(
        &self,
        scratch: &mut Workspace,
        keys: *mut u8,
        rows: *mut u32,
        room: usize,
    ) -> Result<usize> {
        let table = self.shared()?;
        expect_room(self.len(), room)?;
        // SAFETY: outputs for all keys.
        unsafe { self.dump(scratch, &table, keys, rows) }?;
        scratch.wait()?;
        Ok(self.len())
    }

    /// Makes rows dense, if `ready` agrees when nothing else can fail. Returns the row that each key had, in the order of its new one.
    pub fn compact(&self, ready: impl FnOnce() -> Result<()>) -> Result<Vec<u32>> {
        self.compact_by(|_, _, _| Ok(()), ready)
    }

    /// The same. Before the old keys are given up, and `ready` is called, `moved` is told where the dense ones are, and how many.
    pub fn compact_by(
        &self,
        moved: impl FnOnce(&mut Workspace, *mut u8, usize) -> Result<()>,
        ready: impl FnOnce() -> Result<()>,
    ) -> Result<Vec<u32>> {
        let output = |scratch: &mut Workspace, len| {
            let mut old = scratch.output(ScratchRole::FirstOutput, len)?;
            let to = old.as_mut_ptr();
            let deliver = move |scratch: &mut Workspace| {
                let old = scratch.fetch(old, len)?;
                ready().map(|()| old)
            };
            Ok((to, deliver))
        };
        self.compact_to(output, moved)
    }

    /// As [`compact`](Self::compact), into memory of the caller. Returns how many rows there are.
    pub fn compact_into(
        &self,
        old: Sink<'_, u32>,
        ready: impl FnOnce() -> Result<()>,
    ) -> Result<usize> {
        self.compact_into_by(old, |_, _, _| Ok(()), ready)
    }

    /// As [`compact_by`](Self::compact_by), into memory of the caller. Returns how many rows there are.
    pub fn compact_into_by(
        &self,
        old: Sink<'_, u32>,
        moved: impl FnOnce(&mut Workspace, *mut u8, usize) -> Result<()>,
        ready: impl FnOnce() -> Result<()>,
    ) -> Result<usize> {
        let output = |scratch: &mut Workspace, len| {
            let mut old = scratch.host_target(ScratchRole::FirstOutput, old, len)?;
            let to = old.as_mut_ptr();
            let deliver = move |scratch: &mut Workspace| {
                scratch.copy_to_host(old, len)?;
                ready().map(|()| len)
            };
            Ok((to, deliver))
        };
        self.compact_to(output, moved)
    }

    /// Makes rows dense. `output` is told how many there will be, and returns where to write the rows that they had, and what
    /// brings these to the caller: if that fails, rows are as they were. So they are if `moved` does, which is told where the
    /// dense keys are, and how many, unless rows are dense already; what it queues has ended when it returns.
    pub fn compact_to<T, F: FnOnce(&mut Workspace) -> Result<T>>(
        &self,
        output: impl FnOnce(&mut Workspace, usize) -> Result<(*mut u32, F)>,
        moved: impl FnOnce(&mut Workspace, *mut u8, usize) -> Result<()>,
    ) -> Result<T> {
        self.scratch.of_batch(|scratch| {
            let _order = self.order()?;
            let mut table = self.alone()?;
            self.expect_sound()?;
            let (len, rows) = (self.len(), self.rows());
            let (old, deliver) = output(scratch, len)?;
            if len == rows {
                // SAFETY: an output for all rows.
                unsafe { self.dump(scratch, &table, ptr::null_mut(), old) }?;
                scratch.wait()?;
                return deliver(scratch);
            }
            let ranked = self.rank_removed(scratch, &table);
            let before = scratch.or_wait(ranked)?;
            scratch.wait()?;
            // SAFETY: ranked just now, an output for all rows, and the wait above.
            let dense = unsafe { table.dense(rows, len, before, old) };
            // What it queued may still use the workspace, and what the caller has.
            let mut dense = dense.inspect_err(|_| table.hold_back(scratch))?;
            if let Err(error) = moved(scratch, Table::keys_of(&mut dense), len) {
                table.abandon(dense, scratch);
                return Err(error);
            }
            let told = deliver(scratch)?;
            table.replace_with(dense);
            self.set_len(len, len);
            Ok(told)
        })
    }

    /// Makes room for so many rows more.
    pub fn reserve(&self, more: usize) -> Result<()> {
        let _order = self.order()?;
        self.expect_sound()?;
        let mut table = self.alone()?;
        let (len, rows) = (self.len(), self.rows());
        let all = rows.saturating_add(more);
        expect_rows(all, self.key_bytes)?;
        if more > table.slot_rows() - self.used(&table) {
            let wished = self.growing.slots(table.slot_rows());
            table.grow_slots(rows, len + more, wished)?;
        }
        if all > table.key_rows() {
            let wished = self.growing.rows(table.key_rows());
            match table.grown_keys(rows, all, wished) {
                Ok(keys) => table.set_keys(keys),
                Err(error) => {
                    table.undo();
                    return Err(error);
                }
            }
        }
        table.keep();
        self.growing.allow(all);
        Ok(())
    }

    /// Removes all rows.
    pub fn clear(&self) -> Result<()> {
        let _order = self.order()?;
        let mut table = self.alone()?;
        // Half-way through it holds neither what it held nor nothing.
        self.state.poisoned.store(true, Ordering::Release);
        table.keep();
        table.clear()?;
        self.set_len(0, 0);
        self.state.poisoned.store(false, Ordering::Release);
        Ok(())
    }
}

/// The rows of a map, which no call changes meanwhile.
#[derive(Debug)]
pub(crate) struct Shared<'c> {
    core: &'c Core,
    table: ReadGuard<'c, Table>,
}

impl Shared<'_> {
    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.core.len()
    }

    /// Where all keys are, in the order of their rows, when what is queued then reaches them. Uses the role `Keys` if some were
    /// removed.
    pub fn dense_keys(&self, scratch: &mut Workspace) -> Result<*const u8> {
        let len = self.len();
        if len == self.core.rows() {
            return Ok(self.table.keys());
        }
        let to = scratch.reserve(ScratchRole::Keys, len * self.core.key_bytes)?;
        // SAFETY: reserved for all keys.
        unsafe { self.core.dump(scratch, &self.table, to, ptr::null_mut()) }?;
        Ok(to)
    }

    /// Queues writing the rows of all keys, in their order.
    ///
    /// # Safety
    /// There is room for as many as there are keys, until what is queued has ended.
    pub unsafe fn queue_rows(&self, scratch: &mut Workspace, rows: *mut u32) -> Result<()> {
        // SAFETY: passed on.
        unsafe { self.core.dump(scratch, &self.table, ptr::null_mut(), rows) }
    }
}

/// Says of a batch whose rows have been told that no key was new, and waits.
fn none_new(scratch: &Workspace, keys: Keys, told: Told) -> Result<usize> {
    if !told.new.is_null() {
        // SAFETY: a place for each key.
        unsafe { scratch.stream().fill(told.new, 0, keys.n) }?;
    }
    scratch.wait()?;
    Ok(0)
}
