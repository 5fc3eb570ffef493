//! [`Column`]: the values of a map by row. Those of 0, 4 or 8 bytes, aligned so, are words, which kernels store and merge by atomics.
//! All others are bytes, which no two threads may write at once: so of the pairs of a batch with one row, one is elected, whose value
//! is copied.

use std::ptr;

use gpumap_kernels::cells::{CHUNK, NUMBER, NumberArgs, THREADS};
use gpumap_kernels::rows::{
    NEW_ROWS, NO_ROW, OTHER_ROWS, ROW_GATHER_4, ROW_GATHER_8, ROW_UPDATE_4, ROW_UPDATE_8,
    RowGatherArgs, RowUpdateArgs,
};
use gpumap_simt::U64x2;
use gpumap_simt::atomic::part::Update;
use gpumap_simt::kernel::{Grid, Launcher};

use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::map::Copying;
use crate::memory::host_collect;
use crate::rows::grid;
use crate::scratch::{ScratchRole, Workspace};
use crate::stream::Stream;

/// What the values of a map are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueForm {
    /// Words of 4 or 8 bytes, or nothing.
    Words,
    /// Bytes, which are copied.
    Bytes,
}

/// Which values of a batch are copied to the rows of their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chosen {
    /// All: each has a row of its own.
    All,
    /// Those whose row is new.
    New,
    /// One for each row; of a new row the one that is said to be new.
    OneOfEach,
}

/// What is noted of each pair of a batch whose values are bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Notes {
    /// Its place in the batch.
    places: *mut u32,
    /// The place of the pair that is elected for its row.
    elected: *mut u32,
    /// The row, if it is chosen.
    rows: *mut u32,
}

impl Notes {
    /// How many numbers there are for so many pairs.
    fn numbers(n: usize) -> usize {
        Self::step(n).saturating_mul(3)
    }

    /// From note to note: a multiple of 16 bytes.
    fn step(n: usize) -> usize {
        n.saturating_add(3) & !3
    }

    /// Bytes for so many pairs.
    pub fn bytes(form: ValueForm, n: usize) -> u64 {
        match form {
            ValueForm::Words => 0,
            ValueForm::Bytes => {
                Workspace::bytes_of(Self::numbers(n).saturating_mul(size_of::<u32>()))
            }
        }
    }

    /// Those of so many pairs; none if their values are words.
    pub fn reserve(scratch: &mut Workspace, form: ValueForm, n: usize) -> Result<Option<Self>> {
        if form == ValueForm::Words {
            return Ok(None);
        }
        let places: *mut u32 = scratch.reserve(ScratchRole::Columns, Self::numbers(n))?;
        Ok(Some(Self {
            places,
            elected: places.wrapping_add(Self::step(n)),
            rows: places.wrapping_add(2 * Self::step(n)),
        }))
    }
}

/// Where a batch's answers go; null where they are not wanted.
#[derive(Clone, Copy)]
pub(super) struct Answers {
    pub values: *mut u8,
    pub flags: *mut u8,
}

impl Answers {
    pub const NONE: Self = Self {
        values: ptr::null_mut(),
        flags: ptr::null_mut(),
    };
}

/// Values by row.
#[derive(Debug)]
pub(super) struct Column {
    words: Buffer<[u64; 2]>,
    value_bytes: usize,
    /// If they are bytes.
    copied: Option<Box<Copied>>,
}

/// What values have that are bytes.
#[derive(Debug)]
struct Copied {
    /// For each chunk of rows where its first value is.
    chunks: Buffer<u64>,
    /// A number for each row, which a batch that replaces values needs, and none reads after it.
    elected: Option<Buffer<[u64; 2]>>,
}

impl Copied {
    fn new(words: &Buffer<[u64; 2]>, value_bytes: usize) -> Result<Self> {
        let rows = words.len() * size_of::<U64x2>() / value_bytes;
        let bytes = CHUNK as usize * value_bytes;
        let first_of = |chunk| words.as_ptr().wrapping_byte_add(chunk * bytes) as u64;
        let chunks = host_collect((0..rows.div_ceil(CHUNK as usize)).map(first_of))?;
        Ok(Self {
            chunks: Buffer::from_slice(words.stream(), &chunks)?,
            elected: None,
        })
    }
}

impl Column {
    /// Words for so many rows.
    pub fn words_for(value_bytes: usize, rows: usize) -> usize {
        rows.saturating_mul(value_bytes)
            .div_ceil(size_of::<U64x2>())
    }

    pub fn new(
        stream: &Stream,
        (value_bytes, form): (usize, ValueForm),
        rows: usize,
    ) -> Result<Self> {
        let words = Buffer::unwritten(stream, Self::words_for(value_bytes, rows))?;
        Self::of(words, value_bytes, form)
    }

    fn of(words: Buffer<[u64; 2]>, value_bytes: usize, form: ValueForm) -> Result<Self> {
        let copied = match form {
            ValueForm::Words => None,
            ValueForm::Bytes => Some(Box::new(Copied::new(&words, value_bytes)?)),
        };
        Ok(Self {
            words,
            value_bytes,
            copied,
        })
    }

    pub fn form(&self) -> ValueForm {
        match self.copied {
            None => ValueForm::Words,
            Some(_) => ValueForm::Bytes,
        }
    }

    /// How many rows there is room for.
    pub fn rows(&self) -> usize {
        match self.value_bytes {
            0 => usize::MAX,
            bytes => self.words.len() * size_of::<U64x2>() / bytes,
        }
    }

    pub fn at(&self) -> *mut u8 {
        self.words.as_ptr().cast_mut().cast()
    }

    /// What the arguments of kernels say of it that may change.
    pub fn sight(&self) -> impl Iterator<Item = u64> {
        let chunks = self
            .copied
            .as_ref()
            .map(|copied| copied.chunks.as_ptr() as u64);
        [self.at() as u64].into_iter().chain(chunks)
    }

    /// What copies values that are bytes.
    fn copying(&self) -> Option<Copying> {
        self.copied.as_ref().map(|copied| Copying {
            chunks: copied.chunks.as_ptr(),
            value: self.value_bytes,
            stride: self.value_bytes,
        })
    }

    /// Makes room for the numbers by which pairs are elected, if values are bytes.
    pub fn make_electable(&mut self) -> Result<()> {
        let (rows, stream) = (self.rows(), self.words.stream());
        if let Some(copied) = &mut self.copied
            && copied.elected.is_none()
        {
            let elected = Buffer::zeroed(stream, Self::words_for(size_of::<u32>(), rows))?;
            stream.finish()?;
            copied.elected = Some(elected);
        }
        Ok(())
    }

    /// Gives the memory of these numbers back.
    pub fn trim(&mut self) {
        if let Some(copied) = &mut self.copied {
            copied.elected = None;
        }
    }

    /// What updates of the values in rows of a batch have in common: no row is new, and none is updated.
    pub fn update(&self, rows: *const u32, n: usize) -> RowUpdateArgs {
        update_of(self.at(), rows, n)
    }

    /// Queues an update of words.
    ///
    /// # Safety
    /// The arguments are of these values, which are held alone; see there.
    pub unsafe fn queue_update(&self, stream: &Stream, args: RowUpdateArgs) -> Result<()> {
        let grid = grid(args.n as usize);
        // SAFETY: passed on.
        unsafe {
            match (self.form(), self.value_bytes) {
                (ValueForm::Words, 4) => ROW_UPDATE_4.launch(stream, grid, args),
                (ValueForm::Words, 8) => ROW_UPDATE_8.launch(stream, grid, args),
                _ => Ok(()),
            }
        }
    }

    /// Queues copying the values of an update, which are bytes, to their rows: those that are chosen.
    ///
    /// # Safety
    /// As for [`queue_update`](Self::queue_update). The notes are of as many pairs, and if one of each is chosen the values are
    /// [electable](Self::make_electable).
    pub unsafe fn queue_copies(
        &self,
        stream: &Stream,
        notes: Notes,
        args: RowUpdateArgs,
        chosen: Chosen,
    ) -> Result<()> {
        let Some(copying) = self.copying() else {
            return Ok(());
        };
        let n = args.n as usize;
        let rows = match chosen {
            Chosen::All => args.rows,
            // SAFETY: passed on.
            Chosen::New | Chosen::OneOfEach => unsafe {
                self.queue_choice(stream, notes, args, chosen)?;
                notes.rows.cast_const()
            },
        };
        // SAFETY: passed on. The rows that are left are the caller's, and each comes once.
        unsafe { copying.scatter(stream, rows, args.values, n) }
    }

    /// Queues noting the rows of the pairs that are chosen, by the kernels for words. To elect, each pair writes its place to the
    /// number of its row; the one whose place is there in the end is elected.
    ///
    /// # Safety
    /// As for [`queue_copies`](Self::queue_copies).
    unsafe fn queue_choice(
        &self,
        stream: &Stream,
        notes: Notes,
        args: RowUpdateArgs,
        chosen: Chosen,
    ) -> Result<()> {
        let (n, grid) = (args.n as usize, grid(args.n as usize));
        let number = NumberArgs {
            ids: notes.places,
            len: args.n,
            first: 0,
        };
        // By place the row.
        let note = RowUpdateArgs {
            values: args.rows.cast(),
            ..update_of(notes.rows.cast(), notes.places, n)
        };
        let elected = self
            .copied
            .as_ref()
            .and_then(|copied| copied.elected.as_ref());
        // SAFETY: places below `n`, and rows in use, for each of which there is a number; nothing else uses either.
        unsafe {
            NUMBER.launch(stream, Grid::covering(args.n, THREADS), number)?;
            stream.fill(notes.rows.cast(), NO_ROW as u8, n * size_of::<u32>())?;
            match (chosen, elected) {
                (Chosen::OneOfEach, Some(elected)) => {
                    let table: *mut u8 = elected.as_ptr().cast_mut().cast();
                    let elect = RowUpdateArgs {
                        new: args.new,
                        values: notes.places.cast_const().cast(),
                        which: NEW_ROWS | OTHER_ROWS,
                        first_new: args.first_new,
                        ..update_of(table, args.rows, n)
                    };
                    let find = RowGatherArgs {
                        table,
                        rows: args.rows,
                        values: notes.elected.cast(),
                        found: ptr::null_mut(),
                        default: NO_ROW.into(),
                        n: args.n,
                    };
                    // Pairs with one row write that to one place.
                    let note = RowUpdateArgs {
                        rows: notes.elected,
                        which: OTHER_ROWS,
                        ..note
                    };
                    ROW_UPDATE_4.launch(stream, grid, elect)?;
                    ROW_GATHER_4.launch(stream, grid, find)?;
                    ROW_UPDATE_4.launch(stream, grid, note)
                }
                _ => {
                    let note = RowUpdateArgs {
                        new: args.new,
                        which: NEW_ROWS,
                        ..note
                    };
                    ROW_UPDATE_4.launch(stream, grid, note)
                }
            }
        }
    }

    /// Launches writing the values in so many rows, and whether there is a row.
    ///
    /// # Safety
    /// All rows are in use or none, and their values do not change until what is queued has ended; there is room for an
    /// answer for each.
    pub unsafe fn queue_gather(
        &self,
        on: &impl Launcher<Error = Error>,
        (rows, n): (*const u32, usize),
        to: Answers,
        default: u64,
    ) -> Result<()> {
        if n != 0
            && !to.values.is_null()
            && let Some(copying) = self.copying()
        {
            // SAFETY: passed on.
            return unsafe { copying.gather(on, rows, to.values, to.flags, n) };
        }
        let args = RowGatherArgs {
            table: self.at(),
            rows,
            // Values without bytes are there already.
            values: match self.value_bytes {
                0 => ptr::null_mut(),
                _ => to.values,
            },
            found: to.flags,
            default,
            n: n as u64,
        };
        if n == 0 || args.values.is_null() && args.found.is_null() {
            return Ok(());
        }
        let kernel = match self.value_bytes {
            8 => &ROW_GATHER_8,
            _ => &ROW_GATHER_4,
        };
        // SAFETY: passed on.
        unsafe { kernel.launch(on, grid(n), args) }
    }

    /// Bytes of it.
    pub fn bytes(&self) -> u64 {
        let of_copied = self.copied.as_ref().map_or(0, |copied| {
            let elected = copied.elected.as_ref().map_or(0, Buffer::len);
            copied.chunks.len() * size_of::<u64>() + elected * size_of::<U64x2>()
        });
        (self.words.len() * size_of::<U64x2>() + of_copied) as u64
    }

    /// Bytes of one for so many rows that can be elected from.
    pub fn bytes_for((value_bytes, form): (usize, ValueForm), rows: usize) -> u64 {
        let words = |bytes| Self::words_for(bytes, rows).saturating_mul(size_of::<U64x2>()) as u64;
        let of_copied = match form {
            ValueForm::Words => 0,
            ValueForm::Bytes => {
                let chunks = rows.div_ceil(CHUNK as usize) * size_of::<u64>();
                words(size_of::<u32>()).saturating_add(chunks as u64)
            }
        };
        words(value_bytes).saturating_add(of_copied)
    }

    /// A larger one: for `rows` rows, or if there is memory for `wished`; with the values of `used`.
    pub fn grown(&self, used: usize, rows: usize, wished: usize) -> Result<Self> {
        let [used, least, wished] =
            [used, rows, wished].map(|rows| Self::words_for(self.value_bytes, rows));
        self.with(self.words.grown(used, least, wished)?)
    }

    /// One for `rows` rows, with the values of `used`.
    pub fn moved(&self, used: usize, rows: usize) -> Result<Self> {
        let [used, rows] = [used, rows].map(|rows| Self::words_for(self.value_bytes, rows));
        self.with(self.words.moved(used, rows)?)
    }

    /// Another one, for so many rows, whose memory can be used from other streams.
    pub fn empty(&self, rows: usize) -> Result<Self> {
        let stream = self.words.stream();
        let empty = Self::new(stream, (self.value_bytes, self.form()), rows)?;
        stream.synchronize()?;
        Ok(empty)
    }

    /// One in other memory.
    fn with(&self, words: Buffer<[u64; 2]>) -> Result<Self> {
        Self::of(words, self.value_bytes, self.form())
    }
}

/// An update by the last value, of which what is still to be said is what it updates.
fn update_of(table: *mut u8, rows: *const u32, n: usize) -> RowUpdateArgs {
    RowUpdateArgs {
        table,
        rows,
        new: ptr::null(),
        values: ptr::null(),
        old: ptr::null_mut(),
        found: ptr::null_mut(),
        value: 0,
        default: 0,
        n: n as u64,
        which: 0,
        first_new: NO_ROW,
        update: Update::Replace,
    }
}
