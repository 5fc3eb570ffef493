//! The memory of values: segments of cells that never move, and the directory that leads to them.

use std::ops::Range;
use std::ptr;

use gpumap_kernels::cells::{CHUNK, CopyArgs, GATHER, SCATTER, THREADS};
use gpumap_simt::kernel::{Grid, Launcher};

use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::memory::bytes_of;
use crate::stream::Stream;

/// Chunks of ids there can be; the last one has the id of no cell.
const MOST_CHUNKS: usize = (u32::MAX / CHUNK) as usize;

/// Some cells in one allocation, with consecutive ids.
#[derive(Debug)]
pub(super) struct Segment {
    memory: Buffer<u8>,
    /// Its ids. Those up to the next chunk's begin are unused.
    pub ids: Range<u32>,
}

impl Segment {
    pub fn cells(&self) -> usize {
        self.ids.len()
    }

    fn chunks(&self) -> Range<usize> {
        chunk_of(self.ids.start)..self.ids.end.div_ceil(CHUNK) as usize
    }
}

fn chunk_of(id: u32) -> usize {
    (id / CHUNK) as usize
}

/// All cells.
#[derive(Debug)]
pub(super) struct Cells {
    /// Bytes of a value.
    value: usize,
    /// By their ids.
    segments: Vec<Segment>,
    /// For each chunk of ids the address of its first cell, or zero.
    directory: Buffer<u64>,
}

/// Which way values go.
#[derive(Clone, Copy, Debug)]
enum Way {
    ToCells,
    FromCells,
}

impl Cells {
    /// None, of values of so many bytes.
    pub fn new(stream: &Stream, value: usize) -> Result<Self> {
        Ok(Self {
            value,
            segments: Vec::new(),
            directory: Buffer::zeroed(stream, 0)?,
        })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.segments.iter().map(Segment::cells).sum()
    }

    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Bytes from cell to cell: the value's, rounded up to 4 or the word that it is copied by.
    pub fn stride(&self) -> usize {
        self.value.next_multiple_of(size_of::<u32>())
    }

    /// Bytes of the cells and their directory.
    pub fn bytes(&self) -> u64 {
        let directory = self.directory.len() * size_of::<u64>();
        (self.count() * self.stride() + directory) as u64
    }

    /// Bytes that so many cells more would take, without their ring.
    pub fn bytes_of(&self, cells: usize) -> Result<usize> {
        bytes_of::<u8>(cells.saturating_mul(self.stride()))
    }

    /// Bytes of a directory for so many cells more, at most.
    pub fn bytes_of_directory_with(&self, cells: usize) -> u64 {
        let chunks = self.directory.len() + cells.div_ceil(CHUNK as usize);
        (chunks * size_of::<u64>()) as u64
    }

    /// A segment of so many cells, at least one, that is not among the others yet.
    pub fn new_segment(&self, cells: usize) -> Result<Segment> {
        let overflow = || Error::CapacityOverflow {
            elements: self.count().saturating_add(cells),
            element_bytes: self.stride(),
        };
        let chunks = cells.div_ceil(CHUNK as usize);
        // The first gap that is large enough: segments that were released leave some.
        let mut first = 0;
        for segment in &self.segments {
            if segment.chunks().start - first >= chunks {
                break;
            }
            first = segment.chunks().end;
        }
        if chunks > MOST_CHUNKS - first {
            return Err(overflow());
        }
        let ids = first as u32 * CHUNK..first as u32 * CHUNK + cells as u32;
        let memory = Buffer::unwritten(self.directory.stream(), self.bytes_of(cells)?)?;
        Ok(Segment { memory, ids })
    }

    /// A directory for the segments that are kept and a new one.
    fn directory_of<'s>(&self, segments: impl Iterator<Item = &'s Segment>) -> Result<Buffer<u64>> {
        let mut entries = Vec::new();
        for segment in segments {
            let chunks = segment.chunks();
            entries.resize(entries.len().max(chunks.end), 0);
            for (i, entry) in entries[chunks].iter_mut().enumerate() {
                let offset = i * CHUNK as usize * self.stride();
                *entry = segment.memory.as_ptr().wrapping_add(offset) as u64;
            }
        }
        Buffer::from_slice(self.directory.stream(), &entries)
    }

    /// The directory once the segment is [added](Self::add).
    pub fn directory_with(&self, segment: &Segment) -> Result<Buffer<u64>> {
        self.directory_of(self.segments.iter().chain([segment]))
    }

    /// Takes a segment in. Cannot fail; no call is in flight.
    pub fn add(&mut self, segment: Segment, directory: Buffer<u64>) {
        let before = |other: &Segment| other.ids.start < segment.ids.start;
        let at = self.segments.partition_point(before);
        self.segments.insert(at, segment);
        self.directory = directory;
    }

    /// Frees the segments that are not wanted. If it fails, all are there still. No call is in flight.
    pub fn retain(&mut self, wanted: impl Fn(&Segment) -> bool) -> Result<()> {
        self.directory = self.directory_of(self.segments.iter().filter(|s| wanted(s)))?;
        self.segments.retain(wanted);
        Ok(())
    }

    /// What the arguments of kernels say of them that may change.
    pub fn sight(&self) -> u64 {
        self.directory.as_ptr() as u64
    }

    /// What copies values to cells and from them.
    pub fn copying(&self) -> Copying {
        Copying {
            chunks: self.directory.as_ptr(),
            value: self.value,
            stride: self.stride(),
        }
    }
}

/// Copies values to cells and from them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copying {
    /// For each chunk of ids the address of its first cell.
    pub chunks: *const u64,
    /// Bytes of a value.
    pub value: usize,
    /// Bytes from cell to cell: a multiple of the word that values are copied by.
    pub stride: usize,
}

impl Copying {
    /// Queues copying values to their cells, but those whose id is that of no cell.
    ///
    /// # Safety
    /// There are `len` ids and as many values at that point of the stream. Each id is of a cell that is
    /// the caller's alone, and comes once.
    pub unsafe fn scatter(
        self,
        stream: &Stream,
        ids: *const u32,
        values: *const u8,
        len: usize,
    ) -> Result<()> {
        let values = values.cast_mut();
        // SAFETY: passed on; this way values are not written to.
        unsafe { self.copy(stream, Way::ToCells, ids, values, ptr::null_mut(), len) }
    }

    /// Launches copying values from their cells; what is of no cell gets zeros. `found` gets one byte per
    /// id, 1 where it is of a cell; it may be null.
    ///
    /// # Safety
    /// There are `len` ids, and outputs as long, at that point of the stream. The ids were in slots when
    /// a call that is still in flight looked.
    pub unsafe fn gather(
        self,
        on: &impl Launcher<Error = Error>,
        ids: *const u32,
        values: *mut u8,
        found: *mut u8,
        len: usize,
    ) -> Result<()> {
        // SAFETY: passed on.
        unsafe { self.copy(on, Way::FromCells, ids, values, found, len) }
    }

    /// # Safety
    /// As for [`scatter`](Self::scatter) and [`gather`](Self::gather).
    unsafe fn copy(
        self,
        on: &impl Launcher<Error = Error>,
        way: Way,
        ids: *const u32,
        values: *mut u8,
        found: *mut u8,
        len: usize,
    ) -> Result<()> {
        let word = self.word(values);
        let kernel = match way {
            Way::ToCells => &SCATTER,
            Way::FromCells => &GATHER,
        };
        let args = CopyArgs {
            ids,
            values,
            found,
            chunks: self.chunks,
            len: len as u64,
            word: word as u32,
            words: (self.value / word) as u32,
            stride: self.stride as u32,
        };
        let blocks = len.div_ceil(THREADS as usize) as u32;
        // SAFETY: the caller's promise. Values, cells and strides are multiples of the word.
        unsafe { kernel.launch(on, Grid::new(blocks, THREADS), args) }
    }

    /// Bytes of the largest word that values can be copied by. A slice of the host that the CPU reads where it is may be aligned
    /// to less than its elements' size.
    fn word(self, values: *const u8) -> usize {
        match (self.value | values.addr()).trailing_zeros() {
            4.. => 16,
            3 => 8,
            2 => 4,
            _ => 1,
        }
    }
}
