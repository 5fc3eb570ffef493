//! The table cut into chunks, one per block, for kernels that look at every slot.
//!
//! Chunks are found by binary search in inclusive prefix sums over the submaps, which the host
//! keeps. The reserved slabs are the last entry.

use crate::slot::{Format, RESERVED_WORDS};
use crate::table::{SLAB_BYTES, Submap};
use gpumap_simt::{U64x2, mem, thread};

/// Slabs per chunk, that is per block.
pub const CHUNK_SLABS: u32 = 512;

/// Vectors of 16 bytes per chunk.
const CHUNK_VECTORS: u32 = CHUNK_SLABS * VECTORS_PER_SLAB;

const VECTORS_PER_SLAB: u32 = SLAB_BYTES / 16;

/// Vectors that each thread loads.
pub const VECTORS: u32 = 4;

/// Threads per block.
pub const THREADS: u32 = CHUNK_VECTORS / VECTORS;

/// The chunks of a map that a launch is to look at; it has a block of [`THREADS`] for each.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Chunks {
    /// The directory, followed by one entry for the reserved slabs.
    pub submaps: *const Submap,
    /// For each entry, how many chunks there are up to its end: inclusive prefix sums.
    pub ends: *const u64,
    /// How many entries there are, the one for the reserved slabs included.
    pub entries: u32,
    /// Slabs per page: `1 << page_log2`.
    pub page_log2: u32,
    /// The chunk of the first block.
    pub first: u64,
}

// SAFETY: addresses and plain words; what they lead to is synchronised by the kernels.
unsafe impl Send for Chunks {}
// SAFETY: as above.
unsafe impl Sync for Chunks {}

/// What a block works on.
pub struct Chunk {
    /// Its first vector.
    pub vectors: *mut U64x2,
    /// How many of its vectors there are; the rest is beyond the submap's end.
    pub len: u32,
    /// Whether it is that of the reserved slabs.
    pub reserved: bool,
}

impl Chunks {
    /// The chunk of the calling block.
    ///
    /// # Safety
    /// The chunks are of a live map, and there is one for the block.
    #[inline(always)]
    pub unsafe fn of_block(&self) -> Chunk {
        let chunk = self.first + u64::from(thread::block_idx_x());
        // The first entry whose end is beyond it. All threads of the block find the same.
        let (mut low, mut high) = (0, self.entries - 1);
        while low < high {
            let middle = low + (high - low) / 2;
            // SAFETY: `middle < entries`.
            if unsafe { mem::load_readonly(self.ends.add(middle as usize)) } <= chunk {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let reserved = low == self.entries - 1;
        // SAFETY: `low < entries`; entries are 16 aligned bytes, read as two words.
        unsafe {
            let begin = if low == 0 {
                0
            } else {
                mem::load_readonly(self.ends.add(low as usize - 1))
            };
            let entry: U64x2 = mem::load_readonly(self.submaps.add(low as usize).cast());
            let pages = u64::from(entry.y as u32);
            let slabs = if reserved {
                RESERVED_WORDS
            } else {
                pages << self.page_log2
            };
            let first = (chunk - begin) * u64::from(CHUNK_SLABS);
            let vectors = (first * u64::from(VECTORS_PER_SLAB)) as usize;
            Chunk {
                vectors: (entry.x as *mut U64x2).wrapping_add(vectors),
                len: (slabs - first).min(u64::from(CHUNK_SLABS)) as u32 * VECTORS_PER_SLAB,
                reserved,
            }
        }
    }
}

impl Chunk {
    /// The key of a word that was found in the chunk.
    #[inline(always)]
    pub fn key<F: Format>(&self, word: F::Word) -> F::Key {
        if self.reserved {
            F::reserved_key(word)
        } else {
            F::key(word)
        }
    }
}
