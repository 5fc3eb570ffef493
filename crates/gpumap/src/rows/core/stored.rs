//! What files need of a row map: [`Held`], its rows while they are saved, and [`Loading`], those of a file on their way in.

use std::ops::Range;
use std::ptr;

use super::super::Keys;
use super::super::table::Table;
use super::Core;
use crate::error::Result;
use crate::file::FileError;
use crate::lock::{Callback, ReadGuard, WriteGuard};
use crate::memory::{host_collect, host_is_full, retain_at};
use crate::scratch::{Scratch, ScratchRole};

impl Core {
    /// Keeps the rows as they are, while they are read.
    pub(crate) fn hold(&self) -> Result<Held<'_>> {
        let scratch = self.scratch.take()?;
        let table = self.shared_in_turn()?;
        Ok(Held {
            len: self.len(),
            rows: self.rows(),
            removed: table.removed_words()?,
            scratch,
            _callback: table.callback(),
            table,
        })
    }
}

/// Whether the bit of a row is set.
fn has(bits: &[u32], row: u32) -> bool {
    let word = bits.get((row / u32::BITS) as usize);
    word.is_some_and(|word| word >> (row % u32::BITS) & 1 != 0)
}

/// The rows of a map, which do not change.
#[derive(Debug)]
pub(crate) struct Held<'c> {
    /// How many keys there are.
    pub len: usize,
    /// How many rows were given out.
    pub rows: usize,
    removed: Vec<u32>,
    scratch: Scratch<'c>,
    /// What is done with them may be code of the caller. Dropped before the lock.
    _callback: Callback<'c>,
    table: ReadGuard<'c, Table>,
}

impl Held<'_> {
    /// Whether a row has no key any more.
    pub fn is_removed(&self, row: u32) -> bool {
        has(&self.removed, row)
    }

    /// Gives all keys out with their rows, in the order of these, of at most so many rows at a time.
    pub fn give<K: bytemuck::Pod>(
        &mut self,
        rows: usize,
        give: &mut dyn FnMut(Vec<K>, Vec<u32>) -> Result<()>,
    ) -> Result<()> {
        let (all, step) = (self.rows, rows.max(1));
        for first in (0..all).step_by(step) {
            let end = all.min(first.saturating_add(step));
            let mut keys: Vec<K> = self.keys(first..end)?;
            let mut rows: Vec<u32> = host_collect(first as u32..end as u32)?;
            if self.len != all {
                let is_there = |at: usize| !self.is_removed((first + at) as u32);
                retain_at(&mut keys, is_there);
                retain_at(&mut rows, is_there);
            }
            if !keys.is_empty() {
                give(keys, rows)?;
            }
        }
        Ok(())
    }

    /// The keys of rows, also of those that have none any more.
    pub fn keys<K: bytemuck::Pod>(&mut self, rows: Range<usize>) -> Result<Vec<K>> {
        let from = self.table.keys().wrapping_add(rows.start * size_of::<K>());
        // SAFETY: rows in use, under the table's lock.
        unsafe { self.scratch.read(from.cast(), rows.len()) }
    }
}

/// An empty map that gets rows of a file.
#[derive(Debug)]
pub(in crate::rows) struct Loading<'c> {
    core: &'c Core,
    table: WriteGuard<'c, Table>,
    /// Keys that are not on the device yet, from this row on; rows between them are zero.
    piece: Vec<u8>,
    first: usize,
    /// The row that comes next at the earliest.
    next: u64,
    /// Rows that have no key, of those before `next`.
    removed: Vec<u32>,
    len: usize,
}

/// Makes room for so many elements in all, or says that the host has no memory for them.
fn expect_room<T>(vec: &mut Vec<T>, len: usize) -> Result<()> {
    let room = vec.try_reserve(len.saturating_sub(vec.len()));
    room.map_err(|_| host_is_full(len * size_of::<T>()))
}

impl<'c> Loading<'c> {
    /// Bytes of a piece, about.
    const PIECE_BYTES: usize = 16 << 20;

    pub fn new(core: &'c Core) -> Result<Self> {
        let mut table = core.alone()?;
        table.zero_keys()?;
        Ok(Self {
            core,
            table,
            piece: Vec::new(),
            first: 0,
            next: 0,
            removed: Vec::new(),
            len: 0,
        })
    }

    /// Makes room for so many rows.
    pub fn reserve(&mut self, rows: u64) -> Result<()> {
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        if rows > self.table.key_rows() {
            self.table.grow_zeroed(rows)?;
        }
        Ok(())
    }

    /// The row that comes next at the earliest.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Takes the key of a row, which is not before [`next`](Self::next).
    pub fn put(&mut self, key: &[u8], row: u32) -> Result<()> {
        let mut at = (row as usize - self.first) * key.len();
        if at >= Self::PIECE_BYTES {
            self.flush()?;
            (self.first, at) = (row as usize, 0);
        }
        expect_room(&mut self.piece, at + key.len())?;
        self.piece.resize(at, 0);
        self.piece.extend_from_slice(key);
        self.pass_over(row.into())?;
        self.removed[(row / u32::BITS) as usize] &= !(1 << (row % u32::BITS));
        self.next = u64::from(row) + 1;
        self.len += 1;
        Ok(())
    }

    /// Notes that rows up to this one have no key, as far as nothing else is known.
    fn pass_over(&mut self, row: u64) -> Result<()> {
        let words = (row / u64::from(u32::BITS)) as usize + 1;
        if words > self.removed.len() {
            expect_room(&mut self.removed, words)?;
            self.removed.resize(words, !0);
        }
        Ok(())
    }

    /// Brings the piece to the device.
    fn flush(&mut self) -> Result<()> {
        let end = self.first + self.piece.len() / self.core.key_bytes;
        self.reserve(end as u64)?;
        self.table.write_keys(self.first, &self.piece)?;
        self.piece.clear();
        self.first = end;
        Ok(())
    }

    /// Makes the map, with rows below `rows`, and sees to it that no key has two of them.
    pub fn finish(mut self, rows: u64) -> Result<()> {
        self.flush()?;
        self.reserve(rows)?;
        let (rows, len) = (rows as usize, self.len);
        self.removed.truncate(rows.div_ceil(u32::BITS as usize));
        if rows > len {
            self.pass_over(rows as u64 - 1)?;
            // Bits of rows that there are not are zero.
            if let Some(last) = self.removed.last_mut()
                && !rows.is_multiple_of(u32::BITS as usize)
            {
                *last &= (1 << (rows % u32::BITS as usize)) - 1;
            }
        } else {
            self.removed.clear();
        }
        self.table.fill_slots(rows, len, &self.removed)?;
        self.expect_one_row_each(rows)?;
        self.core.set_len(len, rows);
        self.core.growing.allow(rows);
        Ok(())
    }

    /// An error if a search for the key of a row ends at another row.
    fn expect_one_row_each(&self, rows: usize) -> Result<()> {
        const STEP: usize = 1 << 20;
        let mut scratch = self.core.scratch.take()?;
        for first in (0..rows).step_by(STEP) {
            let n = STEP.min(rows - first);
            let at = self.table.keys().wrapping_add(first * self.core.key_bytes);
            let keys = Keys::at(at, n, self.table.form())?;
            let found = scratch.reserve::<u32>(ScratchRole::FirstOutput, n)?;
            self.core
                .launch_get(scratch.stream(), &self.table, keys, found, ptr::null_mut())?;
            // SAFETY: reserved and written just now.
            let found = unsafe { scratch.read(found.cast_const(), n) }?;
            let mut found = (first as u32..).zip(found);
            let is_wrong = |&(row, at): &(u32, u32)| at != row && !has(&self.removed, row);
            if let Some((row, _)) = found.find(is_wrong) {
                return Err(FileError::Row { row }.into());
            }
        }
        Ok(())
    }
}
