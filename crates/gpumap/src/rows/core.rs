//! [`Core`]: a row map without the type of its keys.
//!
//! An insert holds `inserts`, so that there is one at a time. Its first pass runs beside lookups, under the table's lock as
//! they do; what changes rows runs alone.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use gpumap_kernels::rows::RowGetArgs;

use super::Keys;
use super::claims::{Claims, Told, grid};
use super::table::{Slots, Table, expect_rows};
use crate::array::Array;
use crate::device::Device;
use crate::error::{Result, expect_room};
use crate::lock::Lock;
use crate::map::Arrays;
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
    pub key_bytes: usize,
    table: Lock<Table>,
    inserts: Lock<()>,
    /// Rows in use. Changes only while the table is held alone.
    len: AtomicUsize,
    /// Whether a write failed half-way.
    poisoned: AtomicBool,
}

impl Core {
    pub fn new(device: &Device, key_bytes: usize, rows: usize, seed: u64) -> Result<Self> {
        let stream = Stream::of_calls(device)?;
        Ok(Self {
            scratch: ScratchPool::new(device),
            table: Lock::new(Table::new(&stream, key_bytes, rows, seed)?),
            inserts: Lock::new(()),
            device: device.clone(),
            key_bytes,
            len: AtomicUsize::new(0),
            poisoned: AtomicBool::new(false),
        })
    }

    pub fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// How many rows fit without more memory.
    pub fn capacity(&self) -> usize {
        let table = self.table.read();
        table.slot_rows().min(table.key_rows())
    }

    fn expect_sound(&self) -> Result<()> {
        poison::expect_sound(&self.poisoned)
    }

    /// Says that what the map holds is not known, unless all is well.
    fn or_poison<T>(&self, outcome: Result<T>) -> Result<T> {
        if outcome.is_err() {
            self.poisoned.store(true, Ordering::Release);
        }
        outcome
    }

    /// Gives keys rows. Outputs are the rows and the flags of new keys. Returns how many were new.
    pub fn insert(&self, keys: Array<'_>, outputs: Arrays<'_>) -> Result<usize> {
        let n = keys.len();
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
            // SAFETY: what is queued has ended when this returns, or when the workspace goes back.
            let staged = unsafe { Keys::stage(scratch, keys, self.key_bytes) };
            let new = staged.and_then(|keys| {
                let [rows, new] = targets.each_mut().map(address_of);
                let told = Told {
                    rows: rows.cast(),
                    new,
                    ..Told::NOTHING
                };
                self.insert_staged(scratch, keys, told, |_, _| Ok(()))
            });
            let new = new.map_err(|error| {
                let of_keys = n.saturating_mul(self.key_bytes);
                error.of_batch_of(self.bytes_of_batch(n, of_keys.saturating_add(told)))
            })?;
            scratch.copy_all_to_host(targets.into_iter().flatten())?;
            Ok(new)
        })
    }

    /// Bytes that a batch of `n` keys needs at most, with arrays of so many.
    pub fn bytes_of_batch(&self, n: usize, arrays: usize) -> u64 {
        let rows = self.len().saturating_add(n);
        let of_rows = Slots::bytes_for(rows).saturating_add(rows.saturating_mul(self.key_bytes));
        let arrays = match self.device.has_own_memory() {
            true => Workspace::bytes_of(arrays),
            false => 0,
        };
        Claims::bytes(n)
            .saturating_add(of_rows as u64)
            .saturating_add(arrays)
    }

    /// Gives staged keys rows. Before any of them is there, `ready` is told how many rows there will be: if it fails, the
    /// batch is refused. Returns how many keys were new.
    pub fn insert_staged(
        &self,
        scratch: &mut Workspace,
        keys: Keys,
        told: Told,
        ready: impl FnOnce(&mut Workspace, usize) -> Result<()>,
    ) -> Result<usize> {
        let _order = self.inserts.write();
        self.expect_sound()?;
        let len = self.len();
        self.make_room(scratch, len, keys)?;
        let claims = {
            let table = self.table.read();
            scratch.begin();
            // SAFETY: staged, and there is room; other inserts and commits wait for `inserts`.
            let claims = unsafe { Claims::make(scratch, keys, table.view()) };
            if claims.is_err() && scratch.has_launched() {
                let _ = scratch.wait();
                return self.or_poison(claims).map(|_| 0);
            }
            claims
        };
        let claims = match claims {
            Ok(claims) => claims,
            Err(error) => {
                self.table.write().undo();
                return Err(error);
            }
        };
        let ranked = claims.rank(scratch);
        let mut table = self.table.write();
        let ready = ranked.and_then(|new| {
            let rows = len + new;
            ready(scratch, rows)?;
            if rows > table.key_rows() {
                table.grow_keys(len, rows)?;
            }
            Ok(new)
        });
        let new = match ready {
            Ok(new) => new,
            Err(error) => {
                // SAFETY: lookups wait for the lock.
                let released = unsafe { claims.release(scratch, table.view().slots) };
                if self.or_poison(released).is_ok() {
                    table.undo();
                }
                return Err(error);
            }
        };
        // SAFETY: ranked, with room for the new keys, and the table is held alone.
        let committed = unsafe { claims.commit(scratch, table.view(), len, true, told) };
        self.or_poison(committed.and_then(|()| scratch.wait()))?;
        self.len.store(len + new, Ordering::Release);
        table.keep();
        Ok(new)
    }

    /// Makes slots for a batch, if there may be too few.
    fn make_room(&self, scratch: &mut Workspace, len: usize, keys: Keys) -> Result<()> {
        let table = self.table.read();
        let room = table.slot_rows();
        if len + keys.n <= room {
            return Ok(());
        }
        let absent = match len {
            0 => keys.n,
            _ => self.count_absent(scratch, &table, keys)?,
        };
        drop(table);
        let least = len + absent;
        expect_rows(least, self.key_bytes)?;
        if least > room {
            self.table.write().grow_slots(len, least)?;
        }
        Ok(())
    }

    /// How many keys of a batch are absent, counted as often as they come.
    fn count_absent(&self, scratch: &mut Workspace, table: &Table, keys: Keys) -> Result<usize> {
        scratch.reset_counters()?;
        let absent = scratch.counters();
        self.launch_get(scratch, table, keys, ptr::null_mut(), absent)?;
        Ok(scratch.read_counters()?[0] as usize)
    }

    fn launch_get(
        &self,
        scratch: &Workspace,
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
        unsafe {
            keys.kernels()
                .get
                .launch(scratch.stream(), grid(keys.n), args)
        }
    }

    /// Looks up the row of each key.
    pub fn get(&self, keys: Array<'_>, rows: Arrays<'_>) -> Result<()> {
        let n = keys.len();
        for output in rows.iter().flatten() {
            expect_room(n, output.len())?;
        }
        let mut scratch = self.scratch.take()?;
        let mut targets = scratch.host_targets(rows, n)?;
        if n == 0 {
            return Ok(());
        }
        // SAFETY: what is queued has ended when this returns, or when the workspace goes back.
        let keys = unsafe { Keys::stage(&mut scratch, keys, self.key_bytes) }?;
        let [rows, _] = targets.each_mut().map(address_of);
        self.get_staged(&scratch, keys, rows.cast())?;
        scratch.copy_all_to_host(targets.into_iter().flatten())
    }

    /// Looks up the row of each staged key, into memory of the device.
    pub fn get_staged(&self, scratch: &Workspace, keys: Keys, rows: *mut u32) -> Result<()> {
        let table = self.table.read();
        self.expect_sound()?;
        self.launch_get(scratch, &table, keys, rows, ptr::null_mut())?;
        scratch.wait()
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
        // SAFETY: rows in use, and an output for as many.
        unsafe {
            scratch
                .stream()
                .copy(to, table.keys(), len * self.key_bytes)
        }?;
        scratch.fetch(output, len)
    }

    /// All keys in the order of their rows, into memory of the caller. Returns how many there are.
    pub fn keys_into(&self, sink: Sink<'_, u8>) -> Result<usize> {
        let mut scratch = self.scratch.take()?;
        let table = self.table.read();
        self.expect_sound()?;
        let len = self.len();
        expect_room(len, sink.len() / self.key_bytes)?;
        let bytes = len * self.key_bytes;
        let mut target = scratch.host_target(ScratchRole::FirstOutput, sink, bytes)?;
        // SAFETY: rows in use, and a target for as many.
        unsafe {
            scratch
                .stream()
                .copy(target.as_mut_ptr(), table.keys(), bytes)
        }?;
        scratch.wait()?;
        scratch.copy_to_host(target, bytes)?;
        Ok(len)
    }

    /// Makes room for so many rows more.
    pub fn reserve(&self, more: usize) -> Result<()> {
        let _order = self.inserts.write();
        self.expect_sound()?;
        let mut table = self.table.write();
        let len = self.len();
        let rows = len.saturating_add(more);
        expect_rows(rows, self.key_bytes)?;
        if rows > table.slot_rows() {
            table.grow_slots(len, rows)?;
        }
        if rows > table.key_rows()
            && let Err(error) = table.grow_keys(len, rows)
        {
            table.undo();
            return Err(error);
        }
        table.keep();
        Ok(())
    }

    /// Removes all rows.
    pub fn clear(&self) -> Result<()> {
        let _order = self.inserts.write();
        let mut table = self.table.write();
        // Half-way through it holds neither what it held nor nothing.
        self.poisoned.store(true, Ordering::Release);
        table.keep();
        table.clear()?;
        self.len.store(0, Ordering::Release);
        self.poisoned.store(false, Ordering::Release);
        Ok(())
    }
}
