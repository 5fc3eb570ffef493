//! The table cut into chunks, one per block, for kernels that look at every slot.
//!
//! Chunks are found by binary search in inclusive prefix sums over the submaps, which the host
//! keeps. The reserved slabs are the last entry.

use crate::slot::{Format, RESERVED_WORDS};
use crate::table::{SLAB_BYTES, Submap};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::{U64x2, layout, mem, thread, warp};

/// Slabs per chunk, that is per block.
pub const CHUNK_SLABS: u32 = 512;

/// Vectors of 16 bytes per chunk.
const CHUNK_VECTORS: u32 = CHUNK_SLABS * VECTORS_PER_SLAB;

pub(crate) const VECTORS_PER_SLAB: u32 = SLAB_BYTES / 16;

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
layout!(Chunks {
    submaps,
    ends,
    entries,
    page_log2,
    first
});

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
    /// The chunk of the calling block, by binary search.
    ///
    /// # Safety
    /// The chunks are of a live map, and there is one for the block.
    #[inline(always)]
    pub unsafe fn of_block(&self) -> Chunk {
        let i = thread::block_idx_x();
        let chunk = self.first + u64::from(i);
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
        // SAFETY: `low < entries`.
        unsafe { self.run(low).chunk(chunk) }
    }

    /// The chunk of this number.
    ///
    /// # Safety
    /// The chunks are of a live map, and there are more.
    #[cfg(not(target_arch = "nvptx64"))]
    pub(crate) unsafe fn at(&self, chunk: u64) -> Chunk {
        // SAFETY: the ends of all entries, the last of which is beyond all chunks.
        unsafe {
            let ends = core::slice::from_raw_parts(self.ends, self.entries as usize);
            let entry = ends.partition_point(|&end| end <= chunk);
            self.run(entry as u32).chunk(chunk)
        }
    }

    /// The run of chunk `i`, which is not before entry `from`: 32 entries with every load.
    ///
    /// | must call | result valid |
    /// |---|---|
    /// | all lanes of a warp, with the same arguments | in every lane |
    ///
    /// # Safety
    /// As the table says; the chunks are of a live map, and there are more than `i`.
    #[inline(always)]
    pub unsafe fn run_of(&self, i: u32, mut from: u32) -> Run {
        let chunk = self.first + u64::from(i);
        // The loop ends: the last entry ends after all chunks.
        loop {
            let entry = (from + warp::lane_id()).min(self.entries - 1);
            // SAFETY: below the number of entries; what is branched on was voted on.
            unsafe {
                let run = self.run(entry);
                let beyond = warp::warp_vote_ballot(LaneMask::FULL, run.end > chunk);
                if !beyond.is_empty() {
                    return run.of_lane(beyond.bits().trailing_zeros());
                }
            }
            from += warp::SIZE;
        }
    }

    /// Entry `i` of the directory.
    ///
    /// # Safety
    /// The chunks are of a live map, and there are more than `i` entries.
    #[inline(always)]
    unsafe fn run(&self, i: u32) -> Run {
        let reserved = i == self.entries - 1;
        // SAFETY: below the number of entries, which are 16 aligned bytes, read as two words.
        unsafe {
            let before = i.saturating_sub(1);
            let begin = mem::load_readonly(self.ends.add(before as usize));
            let end = mem::load_readonly(self.ends.add(i as usize));
            let entry: U64x2 = mem::load_readonly(self.submaps.add(i as usize).cast());
            let slabs = if reserved {
                RESERVED_WORDS
            } else {
                u64::from(entry.y as u32) << self.page_log2
            };
            Run {
                entry: i,
                begin: if i == 0 { 0 } else { begin },
                end,
                vectors: entry.x,
                slabs,
                reserved,
            }
        }
    }
}

/// The chunks of one entry of the directory, numbered over all of the map.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Which.
    pub entry: u32,
    begin: u64,
    end: u64,
    vectors: u64,
    slabs: u64,
    reserved: bool,
}

impl Run {
    /// Whether it ends before this chunk.
    #[inline(always)]
    pub fn is_before(&self, chunk: u64) -> bool {
        chunk >= self.end
    }

    /// One of its chunks.
    #[inline(always)]
    pub fn chunk(&self, chunk: u64) -> Chunk {
        let first = (chunk - self.begin) * u64::from(CHUNK_SLABS);
        let vectors = (first * u64::from(VECTORS_PER_SLAB)) as usize;
        let left = self.slabs - first;
        Chunk {
            vectors: (self.vectors as *mut U64x2).wrapping_add(vectors),
            len: left.min(u64::from(CHUNK_SLABS)) as u32 * VECTORS_PER_SLAB,
            reserved: self.reserved,
        }
    }

    /// That of another lane.
    ///
    /// # Safety
    /// All lanes of the warp call it.
    #[inline(always)]
    unsafe fn of_lane(self, lane: u32) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let of = |word| warp::warp_shuffle_idx(LaneMask::FULL, word, lane, warp::SIZE);
            let of_half = |word| warp::warp_shuffle_idx(LaneMask::FULL, word, lane, warp::SIZE);
            Self {
                entry: of_half(self.entry),
                begin: of(self.begin),
                end: of(self.end),
                vectors: of(self.vectors),
                slabs: of(self.slabs),
                reserved: of_half(u32::from(self.reserved)) != 0,
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
