//! The verbs that store pairs, and what happens when they may not fit.
//!
//! A batch that fits whatever its keys are runs beside others. One that may not fit runs alone,
//! and leaves a mark for each key: if a pair finds no room, what it did is undone, so that the map
//! is as it was.

use std::ptr;
use std::sync::atomic::Ordering;

use gpumap_kernels::kernels::{StoreArgs, UndoArgs};
use gpumap_kernels::verbs::Mark;
use gpumap_simt::kernel::Kernel;

use super::table::Table;
use super::{Key, Map, Value};
use crate::error::{Error, Result};
use crate::input::{Input, Source};
use crate::scratch::{Slot, Workspace};

/// The kernels that store share their arguments.
type StoreKernel<K, V> = &'static Kernel<StoreArgs<<K as Key>::Bits, <V as Value>::Bits>>;

/// A batch on the device.
#[derive(Clone, Copy)]
struct Staged<K, V> {
    keys: *const K,
    values: *const V,
    len: usize,
}

/// What a kernel reports.
struct Report {
    stored: usize,
    unplaced: usize,
}

impl<K: Key, V: Value> Map<K, V> {
    /// Stores pairs whose key is absent; a present key keeps its value. Of several pairs of the
    /// batch with one key, one is stored. Returns how many were.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`]; [`Error::Full`] if the batch does not fit, and then nothing of
    /// it is in the map, unless the error says `partial`; [`Error::OutOfMemory`],
    /// [`Error::WrongDevice`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn insert(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
    ) -> Result<usize> {
        self.store(self.kernels.insert, keys.source(), values.source())
    }

    /// Adds values to those of present keys, wrapping around in the integers of the value's
    /// size, and stores the pairs whose key is absent. Several pairs of the batch may have one
    /// key: all are added. Returns how many keys were new.
    ///
    /// Values of floating point are not added as such: this is for `u32`, `i32`, `u64` and `i64`
    /// and types made of them.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let counts = Map::<u32, u64>::with_capacity(&Device::cpu(), 10)?;
    /// assert_eq!(counts.add(&[7, 8, 7, 7], &[1, 1, 1, 1])?, 2);
    /// assert_eq!(counts.get(&[7, 8])?, [Some(3), Some(1)]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn add(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
    ) -> Result<usize> {
        self.store(self.kernels.add, keys.source(), values.source())
    }

    fn store(
        &self,
        kernel: StoreKernel<K, V>,
        keys: Source<'_, K>,
        values: Source<'_, V>,
    ) -> Result<usize> {
        if keys.len() != values.len() {
            return Err(Error::LengthMismatch {
                keys: keys.len(),
                values: values.len(),
            });
        }
        if keys.is_empty() {
            return Ok(0);
        }
        let mut scratch = self.scratch.take()?;
        // SAFETY: the workspace waits for its stream before this call returns.
        let batch = unsafe {
            Staged {
                keys: scratch.stage(Slot::Keys, keys)?,
                values: scratch.stage(Slot::Values, values)?,
                len: keys.len(),
            }
        };
        {
            let table = self.table.read();
            if let Some(promise) = Promise::of(self, batch.len) {
                return self.store_beside_others(&table, promise, kernel, &mut scratch, batch);
            }
        }
        let table = self.table.write();
        // Nothing is in flight now, so the promise is exact.
        match Promise::of(self, batch.len) {
            Some(promise) => self.store_beside_others(&table, promise, kernel, &mut scratch, batch),
            None => self.store_alone(&table, kernel, &mut scratch, batch),
        }
    }

    fn store_beside_others(
        &self,
        table: &Table,
        promise: Promise<'_, K, V>,
        kernel: StoreKernel<K, V>,
        scratch: &mut Workspace,
        batch: Staged<K, V>,
    ) -> Result<usize> {
        let report = self.run(table, kernel, scratch, batch, ptr::null_mut())?;
        promise.keep(report.stored);
        if report.unplaced != 0 {
            return Err(self.full(&batch, report.unplaced, true));
        }
        Ok(report.stored)
    }

    fn store_alone(
        &self,
        table: &Table,
        kernel: StoreKernel<K, V>,
        scratch: &mut Workspace,
        batch: Staged<K, V>,
    ) -> Result<usize> {
        let marks: *mut u8 = scratch.reserve(Slot::FirstOutput, batch.len)?;
        // SAFETY: reserved with one byte per key.
        unsafe { scratch.stream().fill(marks, Mark::None as u8, batch.len) }?;
        let report = self.run(table, kernel, scratch, batch, marks)?;
        if report.unplaced != 0 {
            // Additions first: some may have gone to pairs that the batch stored.
            for mark in [Mark::Added, Mark::Stored] {
                self.undo(table, scratch, batch, marks, mark)?;
            }
            return Err(self.full(&batch, report.unplaced, false));
        }
        self.promised.fetch_add(report.stored, Ordering::AcqRel);
        self.len.fetch_add(report.stored, Ordering::AcqRel);
        Ok(report.stored)
    }

    /// Runs a kernel that stores, and waits for it.
    fn run(
        &self,
        table: &Table,
        kernel: StoreKernel<K, V>,
        scratch: &mut Workspace,
        batch: Staged<K, V>,
        marks: *mut u8,
    ) -> Result<Report> {
        self.expect_sound()?;
        scratch.reset_counters()?;
        let (grid, pairs) = self.share_out(batch.keys, batch.values, batch.len);
        let args = StoreArgs {
            view: table.view(),
            batch: pairs,
            marks,
            counters: scratch.counters(),
        };
        let counters = self.or_poison(scratch, |scratch| {
            // SAFETY: the kernel set fits the map's types; inputs are staged, `marks` is null or
            // has a byte per key; the caller holds the table's lock until this has ended.
            unsafe { kernel.launch(scratch.stream(), grid, args) }?;
            scratch.read_counters()
        })?;
        let [stored, unplaced, ..] = counters;
        Ok(Report {
            stored: stored as usize,
            unplaced: unplaced as usize,
        })
    }

    /// Takes back one part of what a batch did, and waits.
    fn undo(
        &self,
        table: &Table,
        scratch: &mut Workspace,
        batch: Staged<K, V>,
        marks: *const u8,
        mark: Mark,
    ) -> Result<()> {
        let (grid, pairs) = self.share_out(batch.keys, batch.values, batch.len);
        let args = UndoArgs {
            view: table.view(),
            batch: pairs,
            marks,
            mark,
        };
        self.or_poison(scratch, |scratch| {
            // SAFETY: the batch has ended and left `marks`; the exclusive lock keeps all other
            // operations away.
            unsafe { self.kernels.undo.launch(scratch.stream(), grid, args) }?;
            scratch.stream().synchronize()
        })
    }

    fn full(&self, batch: &Staged<K, V>, unplaced: usize, partial: bool) -> Error {
        Error::Full {
            len: self.len(),
            slots: self.slots(),
            batch: batch.len,
            unplaced,
            partial,
        }
    }
}

/// Room that a call in flight may use up: as long as all promises together stay within the
/// map's capacity, no batch can fail for want of room.
struct Promise<'m, K: Key, V: Value> {
    map: &'m Map<K, V>,
    pairs: usize,
}

impl<'m, K: Key, V: Value> Promise<'m, K, V> {
    /// Room for `pairs` more, if there is.
    fn of(map: &'m Map<K, V>, pairs: usize) -> Option<Self> {
        let within = |promised: usize| {
            promised
                .checked_add(pairs)
                .filter(|&sum| sum <= map.shape.capacity)
        };
        map.promised
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, within)
            .ok()
            .map(|_| Self { map, pairs })
    }

    /// Ends it: `stored` pairs are in the map now, the rest of the room is free again.
    fn keep(mut self, stored: usize) {
        self.map.len.fetch_add(stored, Ordering::AcqRel);
        self.pairs -= stored;
    }
}

impl<K: Key, V: Value> Drop for Promise<'_, K, V> {
    fn drop(&mut self) {
        self.map.promised.fetch_sub(self.pairs, Ordering::AcqRel);
    }
}
