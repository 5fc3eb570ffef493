//! The memory of a row map: slots, and keys in the order of rows.

use gpumap_kernels::rows::{
    BUCKET_BYTES, BUCKET_SLOTS, MOST_ROWS, RowKernels, RowRebuildArgs, RowView,
};

use super::claims::grid;
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::memory::bytes_of_each;
use crate::stream::Stream;

use std::mem::replace;

/// At most so many rows for [`OF_SLOTS`] slots: walks stay short, and there is always an empty slot.
const ROWS: usize = 7;
const OF_SLOTS: usize = 10;

/// The fewest buckets.
const LEAST_BUCKETS: usize = 16;

/// Slots for a number of rows, all empty at first.
#[derive(Debug)]
pub(crate) struct Slots(Buffer<[u8; BUCKET_BYTES]>);

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
        let mut slots = Buffer::unwritten(stream, buckets)?;
        slots.fill_bytes(Self::EMPTY_BYTE)?;
        Ok(Self(slots))
    }

    /// How many rows they have room for.
    fn rows(&self) -> usize {
        let slots = self.0.len() as u64 * u64::from(BUCKET_SLOTS) - 1;
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
    key_bytes: usize,
    seed: u64,
}

impl Table {
    /// Room for so many rows. The memory is of `stream`; returns when it can be used from others.
    pub fn new(stream: &Stream, key_bytes: usize, rows: usize, seed: u64) -> Result<Self> {
        expect_rows(rows, key_bytes)?;
        let table = Self {
            slots: Slots::new(stream, Slots::buckets_for(rows))?,
            replaced: None,
            keys: Buffer::unwritten(stream, bytes_of_each(key_bytes, rows)?)?,
            key_bytes,
            seed,
        };
        stream.synchronize()?;
        Ok(table)
    }

    /// The stream that its memory is of.
    fn stream(&self) -> Stream {
        self.keys.stream().clone()
    }

    /// How many rows there are slots for.
    pub fn slot_rows(&self) -> usize {
        self.slots.rows()
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
        view(&self.slots, self.keys.as_ptr(), self.key_bytes, self.seed)
    }

    /// Empties the slots. Returns when that is done.
    pub fn clear(&mut self) -> Result<()> {
        let queued = self.slots.0.fill_bytes(Slots::EMPTY_BYTE);
        let done = self.stream().synchronize();
        queued.and(done)
    }

    /// Makes slots for `least` rows, or if there is memory for twice as many as before; `len` rows are in use. If it
    /// fails, the table is as it was. To be followed by [`keep`](Self::keep) or [`undo`](Self::undo).
    pub fn grow_slots(&mut self, len: usize, least: usize) -> Result<()> {
        expect_rows(least, self.key_bytes)?;
        let twice = (2 * self.slot_rows()).min(MOST_ROWS as usize);
        if twice > least
            && let done @ (Ok(()) | Err(Error::Driver { .. } | Error::Kernel(_))) =
                self.remake_slots(len, twice)
        {
            return done;
        }
        self.remake_slots(len, least)
    }

    /// Puts `len` rows into slots for so many. If it fails, the table is as it was.
    fn remake_slots(&mut self, len: usize, rows: usize) -> Result<()> {
        let stream = self.stream();
        let slots = Slots::new(&stream, Slots::buckets_for(rows))?;
        if len != 0 {
            let args = RowRebuildArgs {
                view: view(&slots, self.keys.as_ptr(), self.key_bytes, self.seed),
                rows: len as u64,
            };
            let kernel = RowKernels::for_multiples_of(self.key_bytes).rebuild;
            // SAFETY: rows that are in use, and slots for more; the caller has the table alone.
            unsafe { kernel.launch(&stream, grid(len), args) }?;
        }
        stream.synchronize()?;
        self.replaced = Some(replace(&mut self.slots, slots));
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

    /// Makes room for the keys of `least` rows, or if there is memory for half as many again as before; `len` rows are in
    /// use. If it fails, the table is as it was.
    pub fn grow_keys(&mut self, len: usize, least: usize) -> Result<()> {
        let wished = (self.key_rows() + self.key_rows() / 2).min(MOST_ROWS as usize);
        if wished > least
            && let done @ (Ok(()) | Err(Error::Driver { .. })) = self.move_keys(len, wished)
        {
            return done;
        }
        self.move_keys(len, least)
    }

    fn move_keys(&mut self, len: usize, rows: usize) -> Result<()> {
        let stream = self.stream();
        let mut keys = Buffer::unwritten(&stream, bytes_of_each(self.key_bytes, rows)?)?;
        let used = len * self.key_bytes;
        // SAFETY: so many bytes are in use, and fit; the caller has the table alone.
        unsafe { stream.copy(keys.as_mut_ptr(), self.keys.as_ptr(), used) }?;
        stream.synchronize()?;
        self.keys = keys;
        Ok(())
    }
}

/// Slots and keys as kernels see them.
fn view(slots: &Slots, keys: *const u8, key_bytes: usize, seed: u64) -> RowView {
    RowView {
        slots: slots.0.as_ptr().cast_mut().cast(),
        keys: keys.cast_mut(),
        seed,
        buckets: slots.0.len() as u32,
        key_bytes: key_bytes as u32,
    }
}

/// An error unless a map may have so many rows.
pub(super) fn expect_rows(rows: usize, key_bytes: usize) -> Result<()> {
    expect_at_most(rows, MOST_ROWS, key_bytes)
}

/// An error if there are more keys than kernels can number.
pub(super) fn expect_at_most(keys: usize, most: u64, key_bytes: usize) -> Result<()> {
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
            let all = slots.0.len() * BUCKET_SLOTS as usize;
            assert!(slots.rows() < all, "{rows}: there is an empty slot");
        }
        assert!(Slots::buckets_for(MOST_ROWS as usize) * 4 < 1 << 32);
    }
}
