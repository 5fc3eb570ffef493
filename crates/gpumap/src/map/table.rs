//! The memory of a map: slabs, directory, prefix sums.

use gpumap_kernels::retrieve_all::CHUNK_SLABS;
use gpumap_kernels::table::{MapView, SLAB_BYTES, Submap};

use super::shape::Shape;
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::stream::Stream;

/// A slab's worth of bytes, the unit in which submaps are allocated.
type Slab = [u8; SLAB_BYTES as usize];

/// What fills an empty table: every slot's key word is EMPTY.
const EMPTY_BYTE: u8 = 0xff;

/// The memory of a map, owned by the host.
#[derive(Debug)]
pub(super) struct Table {
    pub shape: Shape,
    /// Kept for their memory; kernels find them through the directory.
    submaps: Vec<Buffer<Slab>>,
    reserved: Buffer<Slab>,
    /// One [`Submap`] per submap, and one for the reserved slab.
    directory: Buffer<[u64; 2]>,
    /// For each entry of the directory the `retrieve_all` chunks up to its end: inclusive prefix
    /// sums of the submaps' capacities.
    chunk_ends: Buffer<u64>,
    chunks: u64,
    seed: u64,
}

impl Table {
    /// An empty table.
    pub fn new(stream: &Stream, shape: Shape, seed: u64) -> Result<Self> {
        let submaps = (0..shape.pages.len())
            .map(|i| Buffer::<Slab>::uninit(stream, shape.slabs(i)))
            .collect::<Result<Vec<_>>>()?;
        let reserved = Buffer::<Slab>::uninit(stream, 1)?;

        let mut entries = Vec::with_capacity(submaps.len() + 1);
        let mut ends = Vec::with_capacity(submaps.len() + 1);
        let mut chunks = 0;
        let counted = submaps
            .iter()
            .zip(&shape.pages)
            .map(|(s, &pages)| (s, pages));
        for (slabs, pages) in counted.chain([(&reserved, 1)]) {
            entries.push([slabs.as_ptr() as u64, u64::from(pages)]);
            chunks += (slabs.len() as u64).div_ceil(u64::from(CHUNK_SLABS));
            ends.push(chunks);
        }
        let mut table = Self {
            directory: Buffer::from_slice(stream, &entries)?,
            chunk_ends: Buffer::from_slice(stream, &ends)?,
            submaps,
            reserved,
            shape,
            chunks,
            seed,
        };
        table.clear()?;
        Ok(table)
    }

    /// Empties every slot. Returns when that is done.
    pub fn clear(&mut self) -> Result<()> {
        let mut submaps = self.submaps.iter_mut();
        let queued = submaps
            .try_for_each(|slabs| slabs.fill_bytes(EMPTY_BYTE))
            .and_then(|()| self.reserved.fill_bytes(EMPTY_BYTE));
        // What was queued before a failure is waited for as well.
        let done = self.reserved.stream().synchronize();
        queued.and(done)
    }

    /// The table as kernels see it.
    pub fn view(&self) -> MapView {
        MapView {
            submaps: self.entries(),
            reserved: self.reserved.as_ptr().cast_mut().cast(),
            seed: self.seed,
            submap_count: self.submaps.len() as u32,
            page_log2: self.shape.page_log2,
        }
    }

    /// The directory on the device, the reserved slab's entry last.
    pub fn entries(&self) -> *const Submap {
        self.directory.as_ptr().cast()
    }

    /// How many entries the directory has.
    pub fn entry_count(&self) -> u32 {
        self.submaps.len() as u32 + 1
    }

    /// The inclusive prefix sums on the device, one per entry.
    pub fn chunk_ends(&self) -> *const u64 {
        self.chunk_ends.as_ptr()
    }

    /// Blocks that a `retrieve_all` needs.
    pub fn chunks(&self) -> Result<u32> {
        u32::try_from(self.chunks).map_err(|_| Error::CapacityOverflow {
            elements: self.shape.slots(),
            element_bytes: (SLAB_BYTES / self.shape.slab_slots) as usize,
        })
    }
}
