//! [`Rows`]: a map from keys to rows, and a column with the value of each row.
//!
//! What a layout by row would do, with the kernels that there are: calls that change it hold the column alone from before their keys
//! get rows until their values are there, and lookups share it. The keys of a batch are distinct here. Where they need not be, a
//! batch that replaces values elects one pair of each key first; so `upsert` does that too, in an array by row. A lookup waits twice,
//! for rows and for values, where one of a map would once: with small batches that is about an empty launch more than it has to be.

use anyhow::{Result, ensure};
use gpumap::bytemuck::Pod;
use gpumap::simt::atomic::part::Update;
use gpumap::simt::kernel::{Grid, Kernel};
use gpumap::{Buffer, BufferView, BufferViewMut, Device, RowMap, Stream};
use gpumap_kernels::cells::{CHUNK, CopyArgs, GATHER, SCATTER, THREADS};
use gpumap_kernels::rows::{
    NO_ROW, OTHER_ROWS, ROW_GATHER_4, ROW_UPDATE_4, RowGatherArgs, RowUpdateArgs,
};
use parking_lot::RwLock;

use super::Large;
use super::store::{Pairs, Scratch};

/// How a column grows: by half, as those of the library do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// As one array: all values are copied to a larger one.
    Whole,
    /// By another segment.
    Segments,
}

/// Keys with rows, and a value by row.
pub struct Rows<V: Pod> {
    map: RowMap<u64>,
    column: RwLock<Column<V>>,
}

/// The values.
struct Column<V> {
    layout: Layout,
    segments: Vec<Buffer<V>>,
    /// For each chunk of rows where its first value is.
    directory: Buffer<u64>,
    /// By row the place in the batch that was elected; 16 bytes have those of four rows.
    elected: Buffer<[u32; 4]>,
}

impl<V: Large> Column<V> {
    fn rows(&self) -> usize {
        self.segments.iter().map(Buffer::len).sum()
    }

    /// Makes room for so many rows, at least.
    fn grow(&mut self, rows: usize) -> Result<()> {
        let before = self.rows();
        if rows <= before {
            return Ok(());
        }
        let stream = &self.directory.stream().clone();
        let wanted = rows
            .max(before + before / 2)
            .next_multiple_of(CHUNK as usize);
        let new = match self.layout {
            Layout::Whole => wanted,
            Layout::Segments => wanted - before,
        };
        // SAFETY: a value is read only once its row was given to a key, and written just after that.
        let mut segment = unsafe { Buffer::<V>::uninit(stream, new)? };
        if self.layout == Layout::Whole {
            for old in self.segments.drain(..) {
                segment.copy_range(0, &old.as_view())?;
            }
        }
        self.segments.push(segment);
        let chunks = self.segments.iter().flat_map(|segment| {
            let chunks = segment.len() / CHUNK as usize;
            (0..chunks).map(|i| segment.as_ptr().wrapping_add(i * CHUNK as usize) as u64)
        });
        self.directory = Buffer::from_slice(stream, &chunks.collect::<Vec<_>>())?;
        Ok(stream.synchronize()?)
    }

    /// Copies the values of a batch from or to their rows, and waits.
    fn copy(
        &self,
        kernel: &'static Kernel<CopyArgs>,
        scratch: &Scratch,
        (values, found): (*mut V, *mut u8),
        len: usize,
    ) -> Result<()> {
        let args = CopyArgs {
            ids: scratch.rows.as_ptr(),
            values: values.cast(),
            found,
            chunks: self.directory.as_ptr(),
            len: len as u64,
            word: 16,
            words: (size_of::<V>() / 16) as u32,
            stride: size_of::<V>() as u32,
        };
        let grid = Grid::new(len.div_ceil(THREADS as usize) as u32, THREADS);
        // SAFETY: all arrays have so many elements and outlive the launch, which is waited for. The directory leads to all rows
        // that the map gave out, and the caller holds the column alone, or shares it if it reads.
        unsafe { kernel.launch(&scratch.stream, grid, args) }?;
        Ok(scratch.stream.synchronize()?)
    }

    /// Elects one pair for each key of a batch, in an array by row: the last one.
    fn elect(&mut self, scratch: &mut Scratch, len: usize) -> Result<()> {
        if self.elected.len() * 4 < self.rows() {
            self.elected = Buffer::zeroed(&scratch.stream, self.rows().div_ceil(4))?;
        }
        let (stream, n) = (&scratch.stream, len as u64);
        let grid = Grid::covering(n, THREADS);
        let update = RowUpdateArgs {
            table: self.elected.as_mut_ptr().cast(),
            rows: scratch.rows.as_ptr(),
            new: std::ptr::null(),
            values: scratch.places.as_ptr().cast(),
            old: std::ptr::null_mut(),
            found: std::ptr::null_mut(),
            value: 0,
            default: 0,
            n,
            which: OTHER_ROWS,
            first_new: NO_ROW,
            update: Update::Replace,
        };
        let gather = RowGatherArgs {
            table: self.elected.as_ptr().cast(),
            rows: scratch.rows.as_ptr(),
            values: scratch.elected.as_mut_ptr().cast(),
            found: std::ptr::null_mut(),
            default: 0,
            n,
        };
        // SAFETY: all arrays have so many elements, the table a word for each row that was given out. All outlive the launches,
        // which are waited for before the column is free.
        unsafe {
            ROW_UPDATE_4.launch(stream, grid, update)?;
            ROW_GATHER_4.launch(stream, grid, gather)?;
        }
        Ok(())
    }
}

impl<V: Large> Rows<V> {
    /// With room for so many pairs.
    pub fn new(device: &Device, pairs: usize, layout: Layout) -> Result<Self> {
        let stream = Stream::new(device)?;
        let mut column = Column {
            layout,
            segments: Vec::new(),
            directory: Buffer::zeroed(&stream, 0)?,
            elected: Buffer::zeroed(&stream, 0)?,
        };
        column.grow(pairs)?;
        let map = RowMap::builder(device).capacity(pairs).hash_seed(1);
        Ok(Self {
            map: map.build()?,
            column: RwLock::new(column),
        })
    }

    pub fn len(&self) -> usize {
        self.map.len()
    }

    pub fn clear(&self) -> Result<()> {
        let _alone = self.column.write();
        Ok(self.map.clear()?)
    }

    /// Stores pairs whose keys are absent. Keys of a batch are all new here, or none is.
    pub fn insert(&self, scratch: &mut Scratch, pairs: Pairs<'_, V>) -> Result<usize> {
        let mut column = self.column.write();
        let (len, new) = (pairs.keys.len(), self.rows_of(scratch, &pairs)?);
        ensure!(new == 0 || new == len, "{new} of {len} keys are new");
        if new > 0 {
            self.grow(&mut column)?;
            let values = pairs.values.as_ptr().cast_mut();
            column.copy(&SCATTER, scratch, (values, std::ptr::null_mut()), len)?;
        }
        Ok(new)
    }

    /// Stores pairs, present keys too.
    pub fn upsert(&self, scratch: &mut Scratch, pairs: Pairs<'_, V>) -> Result<usize> {
        let mut column = self.column.write();
        let (len, new) = (pairs.keys.len(), self.rows_of(scratch, &pairs)?);
        self.grow(&mut column)?;
        column.elect(scratch, len)?;
        let values = pairs.values.as_ptr().cast_mut();
        column.copy(&SCATTER, scratch, (values, std::ptr::null_mut()), len)?;
        Ok(new)
    }

    pub fn get(
        &self,
        scratch: &mut Scratch,
        keys: &BufferView<'_, u64>,
        mut values: BufferViewMut<'_, V>,
        mut found: BufferViewMut<'_, u8>,
    ) -> Result<()> {
        let column = self.column.read();
        let len = keys.len();
        self.map
            .get_into(keys, &mut scratch.rows.slice_mut(..len)?)?;
        let answers = (values.as_mut_ptr(), found.as_mut_ptr());
        column.copy(&GATHER, scratch, answers, len)
    }

    /// Gives keys rows. Returns how many were new.
    fn rows_of(&self, scratch: &mut Scratch, pairs: &Pairs<'_, V>) -> Result<usize> {
        let len = pairs.keys.len();
        let mut rows = scratch.rows.slice_mut(..len)?;
        let mut new = scratch.new.slice_mut(..len)?;
        Ok(self
            .map
            .insert_with_outcome_into(&pairs.keys, &mut rows, &mut new)?)
    }

    fn grow(&self, column: &mut Column<V>) -> Result<()> {
        column.grow(self.map.row_bound())
    }
}
