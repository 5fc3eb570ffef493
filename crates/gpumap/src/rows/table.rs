//! The memory of a row map: slots, keys in the order of rows, and which rows were removed.

use gpumap_kernels::rows::{
    BUCKET_BYTES, BUCKET_SLOTS, MOST_ROWS, Removed, RowCompactArgs, RowRebuildArgs, RowView,
};
use gpumap_simt::warp;

use super::KeyForm;
use super::claims::grid;
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::memory::bytes_of_each;
use crate::scratch::Workspace;
use crate::stream::Stream;

use std::mem::replace;
use std::ptr;

/// At most so many rows for [`OF_SLOTS`] slots: walks stay short, and there is always an empty slot.
const ROWS: usize = 7;
const OF_SLOTS: usize = 10;

/// The fewest buckets.
const LEAST_BUCKETS: usize = 16;

/// Slots for a number of rows, all empty at first.
#[derive(Debug)]
pub(crate) struct Slots {
    buckets: Buffer<[u8; BUCKET_BYTES]>,
    /// How many have held a key that was removed: no other key gets them.
    tombstones: usize,
}

impl Slots {
    /// What empty slots are filled with.
    pub const EMPTY_BYTE: u8 = 0xff;

    /// How many buckets slots for so many rows have.
    pub fn buckets_for(rows: usize) -> usize {
        let slots = (rows as u64 * OF_SLOTS as u64).div_ceil(ROWS as u64) + 1;
        (slots.div_ceil(u64::from(BUCKET_SLOTS)) as usize).max(LEAST_BUCKETS)
    }

    /// Bytes of slots for so many rows.
    pub fn bytes_for(rows: usize) -> usize {
        Self::buckets_for(rows) * BUCKET_BYTES
    }

    /// Of so many buckets. The memory is of a stream; what is queued there later finds them empty.
    fn new(stream: &Stream, buckets: usize) -> Result<Self> {
        let mut buckets = Buffer::unwritten(stream, buckets)?;
        buckets.fill_bytes(Self::EMPTY_BYTE)?;
        Ok(Self {
            buckets,
            tombstones: 0,
        })
    }

    /// How many rows they have room for, tombstones among them.
    fn rows(&self) -> usize {
        let slots = self.buckets.len() as u64 * u64::from(BUCKET_SLOTS) - 1;
        ((slots * ROWS as u64 / OF_SLOTS as u64) as usize).min(MOST_ROWS as usize)
    }
}

/// The memory of a map, owned by the host.
#[derive(Debug)]
pub(super) struct Table {
    slots: Slots,
    /// The slots before a batch for which there are more now, until it is known that they are needed.
    replaced: Option<Slots>,
    keys: Buffer<u8>,
    /// A bit for each row that there was when a key was last removed; none if none was.
    removed: Option<Buffer<u32>>,
    form: KeyForm,
    key_bytes: usize,
    seed: u64,
}

/// What a table has when its rows are dense.
#[derive(Debug)]
pub(super) struct Dense {
    slots: Slots,
    keys: Buffer<u8>,
}

impl Table {
    /// Room for so many rows. The memory is of `stream`; returns when it can be used from others.
    pub fn new(stream: &Stream, form: KeyForm, rows: usize, seed: u64) -> Result<Self> {
        let key_bytes = form.bytes();
        expect_rows(rows, key_bytes)?;
        let table = Self {
            slots: Slots::new(stream, Slots::buckets_for(rows))?,
            replaced: None,
            keys: Buffer::unwritten(stream, bytes_of_each(key_bytes, rows)?)?,
            removed: None,
            form,
            key_bytes,
            seed,
        };
        stream.finish()?;
        Ok(table)
    }

    /// The stream that its memory is of.
    fn stream(&self) -> Stream {
        self.keys.stream().clone()
    }

    /// What its array of keys has.
    pub fn form(&self) -> KeyForm {
        self.form
    }

    /// How many rows there are slots for, of which tombstones have taken some.
    pub fn slot_rows(&self) -> usize {
        self.slots.rows()
    }

    /// How many slots are left of removed keys.
    pub fn tombstones(&self) -> usize {
        self.slots.tombstones
    }

    /// How many rows there is room for the keys of.
    pub fn key_rows(&self) -> usize {
        self.keys.len() / self.key_bytes
    }

    /// Where the keys are.
    pub fn keys(&self) -> *const u8 {
        self.keys.as_ptr()
    }

    /// The table as kernels see it.
    pub fn view(&self) -> RowView {
        self.view_of(&self.slots, &self.keys)
    }

    /// What the arguments of kernels say of it: as long as this is the same, so are they.
    pub fn sight(&self) -> Vec<u64> {
        let RowView {
            slots,
            keys,
            seed,
            buckets,
            key_bytes,
        } = self.view();
        vec![
            slots as u64,
            keys as u64,
            seed,
            u64::from(buckets),
            u64::from(key_bytes),
        ]
    }

    /// Slots and keys as kernels see them.
    fn view_of(&self, slots: &Slots, keys: &Buffer<u8>) -> RowView {
        RowView {
            slots: slots.buckets.as_ptr().cast_mut().cast(),
            keys: keys.as_ptr().cast_mut(),
            seed: self.seed,
            buckets: slots.buckets.len() as u32,
            key_bytes: self.key_bytes as u32,
        }
    }

    /// Which rows were removed, as kernels see it.
    pub fn removed(&self) -> Removed {
        let bits = self.removed.as_ref();
        Removed {
            bits: bits.map_or(ptr::null(), Buffer::as_ptr),
            words: bits.map_or(0, Buffer::len) as u64,
        }
    }

    /// Bits for at least so many rows, which say which ones were removed. If it fails, the table is as it was.
    pub fn removed_mut(&mut self, rows: usize) -> Result<*mut u32> {
        let words = |rows: usize| rows.div_ceil(warp::SIZE as usize);
        let there = self.removed.as_ref().map_or(0, Buffer::len);
        if there < words(rows) {
            let stream = self.stream();
            // For all rows that there is room for, so that it is not done again for each batch.
            let mut bits = Buffer::zeroed(&stream, words(self.key_rows().max(rows)))?;
            if let Some(before) = &self.removed {
                bits.copy_range(0, &before.as_view())?;
            }
            stream.finish()?;
            self.removed = Some(bits);
        }
        let bits = self.removed.as_mut();
        Ok(bits.map_or(ptr::null_mut(), Buffer::as_mut_ptr))
    }

    /// Says that so many keys were removed: their slots are tombstones.
    pub fn note_removed(&mut self, keys: usize) {
        self.slots.tombstones += keys;
    }

    /// Empties the slots. Returns when that is done.
    pub fn clear(&mut self) -> Result<()> {
        let queued = self.slots.buckets.fill_bytes(Slots::EMPTY_BYTE);
        let done = self.stream().finish();
        queued.and(done)?;
        self.slots.tombstones = 0;
        self.removed = None;
        Ok(())
    }

    /// Makes slots for `least` keys, or if there is memory for `wished`; `rows` are in use, which may have fewer keys. If it fails, the table is as it was. To be followed by [`keep`](Self::keep) or [`undo`](Self::undo).
    pub fn grow_slots(&mut self, rows: usize, least: usize, wished: usize) -> Result<()> {
        expect_rows(least, self.key_bytes)?;
        let room = self.slot_rows();
        let wished = match 2 * least <= room {
            // Most of it was tombstones, which are gone then.
            true => room,
            false => wished,
        };
        if wished > least
            && let done @ (Ok(()) | Err(Error::Driver { .. } | Error::Kernel(_))) =
                self.remake_slots(rows, wished)
        {
            return done;
        }
        self.remake_slots(rows, least)
    }

    /// Slots, whatever is in them.
    pub fn slot_count(&self) -> usize {
        self.slots.buckets.len() * BUCKET_SLOTS as usize
    }

    /// Bytes of slots and keys.
    pub fn bytes(&self) -> u64 {
        (self.slots.buckets.len() * BUCKET_BYTES + self.keys.len()) as u64
    }

    /// Has no more room than `rows` rows need, of which `len` have keys.
    pub fn shrink(&mut self, rows: usize, len: usize) -> Result<()> {
        if Slots::buckets_for(len) < self.slots.buckets.len() {
            self.remake_slots(rows, len)?;
            self.keep();
        }
        if rows < self.key_rows() {
            self.keys = self.grown_keys(rows, rows, rows)?;
        }
        Ok(())
    }

    /// Puts the keys of `rows` rows into slots for so many. If it fails, the table is as it was.
    fn remake_slots(&mut self, rows: usize, room: usize) -> Result<()> {
        let stream = self.stream();
        let slots = Slots::new(&stream, Slots::buckets_for(room))?;
        self.queue_rebuild(self.view_of(&slots, &self.keys), rows, self.removed())?;
        stream.finish()?;
        self.replaced = Some(replace(&mut self.slots, slots));
        Ok(())
    }

    /// Queues filling empty slots with the rows that were not removed.
    fn queue_rebuild(&self, view: RowView, rows: usize, removed: Removed) -> Result<()> {
        if rows == 0 {
            return Ok(());
        }
        let args = RowRebuildArgs {
            view,
            rows: rows as u64,
            removed,
        };
        let kernel = self.form.kernels_at(view.keys.addr()).rebuild;
        // SAFETY: rows that are in use, and slots for more; the caller has the table alone.
        unsafe { kernel.launch(&self.stream(), grid(rows), args) }
    }

    /// Queues writing the keys of `rows` rows, without those that were removed, and their rows; null where that is not
    /// wanted.
    ///
    /// # Safety
    /// So many rows are in use, and for each word of [`removed`](Self::removed) `before` says how many rows before it were
    /// removed, and behind them how many in all. The outputs have room for the rest, and keys lie at a multiple of 4. All of
    /// it stays until what is queued has ended.
    pub unsafe fn queue_compact(
        &self,
        stream: &Stream,
        rows: usize,
        before: *const u32,
        keys: *mut u8,
        old: *mut u32,
    ) -> Result<()> {
        if rows == 0 {
            return Ok(());
        }
        let args = RowCompactArgs {
            view: self.view(),
            rows: rows as u64,
            removed: self.removed(),
            before,
            keys,
            old,
        };
        let kernel = self.form.kernels_at(keys.addr()).compact;
        // SAFETY: passed on.
        unsafe { kernel.launch(stream, grid(rows), args) }
    }

    /// What the table would have if its `rows` rows, which have `len` keys, were dense: with room as before, or if there
    /// is no memory for that, for these keys. Says in `old` which rows they have now.
    ///
    /// # Safety
    /// As for [`queue_compact`](Self::queue_compact). What is queued on other streams has ended.
    pub unsafe fn dense(
        &self,
        rows: usize,
        len: usize,
        before: *const u32,
        old: *mut u32,
    ) -> Result<Dense> {
        let dense = match self.empty(self.slots.buckets.len(), self.keys.len()) {
            Err(Error::OutOfMemory { .. }) => {
                self.empty(Slots::buckets_for(len), bytes_of_each(self.key_bytes, len)?)?
            }
            made => made?,
        };
        let none = Removed {
            bits: ptr::null(),
            words: 0,
        };
        let to = dense.keys.as_ptr().cast_mut();
        // SAFETY: passed on, with room for all keys.
        let queued = unsafe { self.queue_compact(&self.stream(), rows, before, to, old) };
        let queued = queued
            .and_then(|()| self.queue_rebuild(self.view_of(&dense.slots, &dense.keys), len, none));
        // Of the caller's memory as well, if it fails.
        let done = self.stream().finish();
        queued.and(done)?;
        Ok(dense)
    }

    /// Memory that nothing uses yet.
    fn empty(&self, buckets: usize, key_bytes: usize) -> Result<Dense> {
        let stream = self.stream();
        Ok(Dense {
            slots: Slots::new(&stream, buckets)?,
            keys: Buffer::unwritten(&stream, key_bytes)?,
        })
    }

    /// The keys of what it would have.
    pub fn keys_of(dense: &mut Dense) -> *mut u8 {
        dense.keys.as_mut_ptr()
    }

    /// Has a workspace wait for what was queued on the table's stream, before its memory is used again.
    pub fn hold_back(&self, scratch: &Workspace) {
        let ordered = scratch.stream().wait_stream(&self.stream());
        let _ = ordered.and_then(|()| scratch.wait());
    }

    /// Frees what it would have had, after what was queued on a workspace.
    pub fn abandon(&self, dense: Dense, scratch: &Workspace) {
        self.abandon_keys(dense.keys, scratch);
    }

    /// Frees keys that it does not have, after what was queued on a workspace.
    pub fn abandon_keys(&self, keys: Buffer<u8>, scratch: &Workspace) {
        if scratch.wait().is_err() && self.stream().wait_stream(scratch.stream()).is_err() {
            // They may be in use for as long as the process lives.
            keys.into_raw_parts();
        }
    }

    /// Makes all keys zero.
    pub fn zero_keys(&mut self) -> Result<()> {
        self.keys.fill_bytes(0)
    }

    /// As [`grow_keys`](Self::grow_keys), with zeros behind the keys that there was room for.
    pub fn grow_zeroed(&mut self, least: usize) -> Result<()> {
        expect_rows(least, self.key_bytes)?;
        let stream = self.stream();
        let zeroed = |rows| Buffer::zeroed(&stream, bytes_of_each(self.key_bytes, rows)?);
        let wished = (self.key_rows() + self.key_rows() / 2).min(MOST_ROWS as usize);
        let mut keys = match zeroed(wished.max(least)) {
            Err(Error::OutOfMemory { .. }) => zeroed(least)?,
            made => made?,
        };
        keys.copy_range(0, &self.keys.as_view())?;
        stream.finish()?;
        self.keys = keys;
        Ok(())
    }

    /// Writes the keys of rows that there is room for, and waits.
    pub fn write_keys(&mut self, first_row: usize, keys: &[u8]) -> Result<()> {
        let at = first_row * self.key_bytes;
        self.keys
            .slice_mut(at..at + keys.len())?
            .copy_from_slice(keys)
    }

    /// Makes slots for the rows whose bits are not set, of which there are `len`; none is set if there are no bits.
    pub fn fill_slots(&mut self, rows: usize, len: usize, removed: &[u32]) -> Result<()> {
        if !removed.is_empty() {
            self.removed = Some(Buffer::from_slice(&self.stream(), removed)?);
        }
        self.remake_slots(rows, len.max(self.slot_rows()))?;
        self.keep();
        Ok(())
    }

    /// Which rows were removed, on the host, which has waited for what changes that.
    pub fn removed_words(&self) -> Result<Vec<u32>> {
        self.removed.as_ref().map_or(Ok(Vec::new()), Buffer::to_vec)
    }

    /// Takes the place of what it had.
    pub fn replace_with(&mut self, dense: Dense) {
        self.slots = dense.slots;
        self.keys = dense.keys;
        self.removed = None;
    }

    /// Puts the `len` keys of `rows` rows into the slots that were replaced, and these back, if there are any with room for them. If
    /// it fails, the table is as it was.
    pub fn fill_replaced(&mut self, rows: usize, len: usize) -> Result<()> {
        let Some(mut slots) = self.replaced.take_if(|slots| slots.rows() >= len) else {
            return Ok(());
        };
        let filled = slots.buckets.fill_bytes(Slots::EMPTY_BYTE).and_then(|()| {
            self.queue_rebuild(self.view_of(&slots, &self.keys), rows, self.removed())
        });
        let done = self.stream().finish();
        filled.and(done)?;
        slots.tombstones = 0;
        self.slots = slots;
        Ok(())
    }

    /// Frees the slots that were replaced, if there are any.
    pub fn keep(&mut self) {
        self.replaced = None;
    }

    /// Puts the slots that were replaced back, if there are any. Nothing has changed in them.
    pub fn undo(&mut self) {
        if let Some(slots) = self.replaced.take() {
            self.slots = slots;
        }
    }

    /// Room for the keys of `least` rows, or if there is memory for `wished`, with those of the `rows` in use.
    pub fn grown_keys(&self, rows: usize, least: usize, wished: usize) -> Result<Buffer<u8>> {
        expect_rows(least, self.key_bytes)?;
        let of = |rows| bytes_of_each(self.key_bytes, rows);
        self.keys.grown(of(rows)?, of(least)?, of(wished)?)
    }

    /// Has the keys elsewhere: there are those of all rows in use.
    pub fn set_keys(&mut self, keys: Buffer<u8>) {
        self.keys = keys;
    }
}

/// An error unless a map may have so many rows.
pub(super) fn expect_rows(rows: usize, key_bytes: usize) -> Result<()> {
    expect_at_most(rows, MOST_ROWS, key_bytes)
}

/// An error if there are more keys than kernels can number.
pub(crate) fn expect_at_most(keys: usize, most: u64, key_bytes: usize) -> Result<()> {
    if keys as u64 > most {
        return Err(Error::CapacityOverflow {
            elements: keys,
            element_bytes: key_bytes,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;

    #[test]
    fn slots_have_room_for_what_they_are_made_for() {
        let stream = Stream::new(&Device::cpu()).unwrap();
        for rows in [0, 1, 43, 44, 45, 46, 1_000, 99_999] {
            let slots = Slots::new(&stream, Slots::buckets_for(rows)).unwrap();
            assert!(slots.rows() >= rows, "{rows}");
            let all = slots.buckets.len() * BUCKET_SLOTS as usize;
            assert!(slots.rows() < all, "{rows}: there is an empty slot");
        }
        assert!(Slots::buckets_for(MOST_ROWS as usize) * 4 < 1 << 32);
    }
}
