//! The memory of a multimap: base slabs, and the pool with its bitmaps and its directory.
//!
//! The pool is made of extents, each one allocation for slabs and one for bitmaps, and of one or more
//! super-blocks. Adding one moves nothing. Of the last super-block of an extent, units that do not
//! exist are marked in the bitmaps for good; they need no memory.

use gpumap_kernels::chained::allocator::{Pool, UNITS_LOG2};
use gpumap_kernels::chained::retrieve_all::blocks;
use gpumap_kernels::chained::slab::SLAB_BYTES;
use gpumap_kernels::chained::view::{ChainedView, bases};

use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::memory::bytes_of;
use crate::stream::Stream;

/// A slab's worth of bytes.
type Slab = [u8; SLAB_BYTES as usize];

/// What an empty slab is filled with, and the bitmap of units that do not exist.
const ONES: u8 = 0xff;

/// A pool is made of about as many super-blocks when it is new: few enough that their directory stays
/// in the L1, enough that little of the last one is missing.
const SUPER_BLOCKS: usize = 16;

/// Most buckets of a map.
pub(super) const MOST_BUCKETS: usize = 1 << 31;

/// Most slabs of a pool: 2^42 - 2^33 is what kernels can number, and this is more than any memory has.
pub(super) const MOST_SLABS: usize = 1 << 38;

/// Bits of a word of a bitmap.
const WORD: usize = 32;

/// The memory of a multimap, owned by the host.
#[derive(Debug)]
pub(super) struct Chains {
    bases: Buffer<Slab>,
    extents: Vec<Extent>,
    /// For each super-block where its slabs and its bitmaps are.
    directory: Buffer<[u64; 2]>,
    /// For each super-block, of how many of its units there is memory.
    units: Buffer<u64>,
    /// Memory blocks per super-block, as a power of two.
    blocks_log2: u32,
    buckets: u32,
    seed: u64,
}

/// A part of the pool.
#[derive(Debug)]
struct Extent {
    slabs: Buffer<Slab>,
    bitmaps: Buffer<u32>,
}

impl Extent {
    /// So many slabs, all free, and the bitmaps of as many super-blocks of `units` as they take.
    fn new(stream: &Stream, slabs: usize, units: usize) -> Result<Self> {
        let words = slabs.next_multiple_of(units) / WORD;
        let mut extent = Self {
            slabs: Buffer::unwritten(stream, slabs)?,
            bitmaps: Buffer::unwritten(stream, words)?,
        };
        extent.clear()?;
        Ok(extent)
    }

    /// Frees all slabs.
    fn clear(&mut self) -> Result<()> {
        self.slabs.fill_bytes(ONES)?;
        let whole = self.slabs.len() / WORD;
        self.bitmaps.slice_mut(..whole)?.fill_bytes(0)?;
        self.bitmaps.slice_mut(whole..)?.fill_bytes(ONES)?;
        let rest = self.slabs.len() % WORD;
        if rest != 0 {
            let word = [!0 << rest];
            self.bitmaps
                .slice_mut(whole..=whole)?
                .copy_from_slice(&word)?;
        }
        Ok(())
    }
}

impl Chains {
    /// Empty chains, and a pool of `slabs`, rounded up to whole super-blocks unless `exact`. The
    /// memory is of `stream`; returns when it can be used from others.
    pub fn new(
        stream: &Stream,
        buckets: u32,
        slabs: usize,
        exact: bool,
        seed: u64,
    ) -> Result<Self> {
        let blocks = slabs >> UNITS_LOG2;
        let mut chains = Self {
            bases: Buffer::unwritten(stream, bases(buckets) as usize)?,
            extents: Vec::new(),
            directory: Buffer::zeroed(stream, 0)?,
            units: Buffer::zeroed(stream, 0)?,
            blocks_log2: (blocks / SUPER_BLOCKS).max(1).ilog2(),
            buckets,
            seed,
        };
        chains.bases.fill_bytes(ONES)?;
        if exact {
            chains.grow_by(slabs)?;
        } else {
            chains.grow_by_blocks(slabs)?;
        }
        Ok(chains)
    }

    /// The stream that its memory is of.
    fn stream(&self) -> &Stream {
        self.bases.stream()
    }

    /// Units of a super-block.
    fn units(&self) -> usize {
        1 << (self.blocks_log2 + UNITS_LOG2)
    }

    /// How many buckets it has.
    pub fn buckets(&self) -> u32 {
        self.buckets
    }

    /// Base slabs: one for each bucket, and those of the keys whose bits mean a state.
    pub fn bases(&self) -> u64 {
        self.bases.len() as u64
    }

    /// Slabs of the pool.
    pub fn slabs(&self) -> usize {
        self.extents.iter().map(|extent| extent.slabs.len()).sum()
    }

    /// Bytes of slabs and bitmaps.
    pub fn bytes(&self) -> u64 {
        let bytes = |extent: &Extent| {
            size_of::<Slab>() * extent.slabs.len() + size_of::<u32>() * extent.bitmaps.len()
        };
        let pool: usize = self.extents.iter().map(bytes).sum();
        (pool + size_of::<Slab>() * self.bases.len()) as u64
    }

    /// Bytes that it takes to add so many slabs: theirs, of bitmaps, and of another directory.
    pub fn bytes_to_grow(&self, slabs: usize) -> Result<u64> {
        if slabs == 0 {
            return Ok(0);
        }
        let slab_bytes = bytes_of::<Slab>(slabs)?;
        let super_blocks = slabs.div_ceil(self.units());
        let bitmaps = super_blocks.saturating_mul(self.units() / WORD * size_of::<u32>());
        let entries = super_blocks.saturating_add(self.directory.len());
        let directory = entries.saturating_mul(size_of::<[u64; 2]>() + size_of::<u64>());
        Ok(slab_bytes.saturating_add(bitmaps).saturating_add(directory) as u64)
    }

    /// Adds slabs to the pool, no call in flight. If it fails, the pool is as it was.
    pub fn grow_by(&mut self, slabs: usize) -> Result<()> {
        if slabs == 0 {
            return self.stream().finish();
        }
        let needed = self.bytes_to_grow(slabs)?;
        let available = self.stream().device().available_bytes()?;
        if needed > available {
            return Err(Error::OutOfMemory { needed, available });
        }
        let extent = Extent::new(self.stream(), slabs, self.units())?;
        self.extents.push(extent);
        let published = self.publish();
        if published.is_err() {
            self.extents.pop();
        }
        published
    }

    /// As [`grow_by`](Self::grow_by), rounded up to whole super-blocks.
    pub fn grow_by_blocks(&mut self, slabs: usize) -> Result<()> {
        self.grow_by(slabs.next_multiple_of(self.units()))
    }

    /// Brings the directory on the device up to date, and waits.
    fn publish(&mut self) -> Result<()> {
        let units = self.units();
        let (mut entries, mut lens) = (Vec::new(), Vec::new());
        for extent in &self.extents {
            let (slabs, bitmaps) = (extent.slabs.as_ptr(), extent.bitmaps.as_ptr());
            for first in (0..extent.slabs.len()).step_by(units) {
                let slab = slabs.wrapping_add(first);
                let words = bitmaps.wrapping_add(first / WORD);
                entries.push([slab as u64, words as u64]);
                lens.push(units.min(extent.slabs.len() - first) as u64);
            }
        }
        let mut directory = Buffer::unwritten(self.stream(), entries.len())?;
        directory.copy_from_slice(&entries)?;
        let lens = Buffer::from_slice(self.stream(), &lens)?;
        self.stream().finish()?;
        (self.directory, self.units) = (directory, lens);
        Ok(())
    }

    /// Empties all chains and frees all slabs. Returns when that is done.
    pub fn clear(&mut self) -> Result<()> {
        let mut queued = self.bases.fill_bytes(ONES);
        for extent in &mut self.extents {
            queued = queued.and_then(|()| extent.clear());
        }
        // What was queued before a failure is waited for as well.
        let done = self.stream().finish();
        queued.and(done)
    }

    /// For each super-block of the pool, of how many of its units there is memory.
    pub fn units_of_super_blocks(&self) -> *const u64 {
        self.units.as_ptr()
    }

    /// Blocks of a dump of all pairs.
    pub fn blocks(&self) -> u64 {
        blocks(&self.view())
    }

    /// What the arguments of kernels say of it: as long as this is the same, so are they.
    pub fn sight(&self) -> Vec<u64> {
        let ChainedView {
            bases,
            pool:
                Pool {
                    super_blocks,
                    count,
                    blocks_log2,
                },
            seed,
            buckets,
        } = self.view();
        vec![
            bases as u64,
            super_blocks as u64,
            u64::from(count),
            u64::from(blocks_log2),
            seed,
            u64::from(buckets),
        ]
    }

    /// The map as kernels see it.
    pub fn view(&self) -> ChainedView {
        ChainedView {
            bases: self.bases.as_ptr().cast_mut().cast(),
            pool: Pool {
                super_blocks: self.directory.as_ptr().cast(),
                count: self.directory.len() as u32,
                blocks_log2: self.blocks_log2,
            },
            seed: self.seed,
            buckets: self.buckets,
        }
    }
}
