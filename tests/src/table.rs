//! A table in host memory, for tests that run the device code on an executor of their own: they
//! choose blocks, warps and verbs lane by lane, which a map's launches do not let them.

use std::marker::PhantomData;

use gpumap::simt::U64x2;
use gpumap_kernels::chunk::{CHUNK_SLABS, Chunks};
use gpumap_kernels::slot::{Bits, Format, KeyWord, RESERVED_WORDS};
use gpumap_kernels::table::{MapView, Submap};

/// Slabs for reserved keys.
const RESERVED: usize = RESERVED_WORDS as usize;

/// A slab: four vectors of 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
struct Slab([U64x2; 4]);

const EMPTY: Slab = Slab([U64x2::new(!0, !0); 4]);

/// Slabs of slot format `F` and the directory that leads to them.
#[derive(Clone, Debug)]
pub struct HostTable<F> {
    /// Those of all submaps, and the reserved ones at the end.
    slabs: Vec<Slab>,
    /// Pages of each submap.
    pages: Vec<u32>,
    page_log2: u32,
    seed: u64,
    directory: Vec<Submap>,
    chunk_ends: Vec<u64>,
    _format: PhantomData<F>,
}

impl<F: Format> HostTable<F> {
    /// An empty table of submaps with these numbers of pages.
    pub fn new(pages: &[u32], page_log2: u32, seed: u64) -> Self {
        let slabs: u32 = pages.iter().map(|pages| pages << page_log2).sum();
        Self {
            slabs: vec![EMPTY; slabs as usize + RESERVED],
            pages: pages.to_vec(),
            page_log2,
            seed,
            directory: Vec::new(),
            chunk_ends: Vec::new(),
            _format: PhantomData,
        }
    }

    /// Slots, without the reserved ones.
    pub fn slots(&self) -> usize {
        (self.slabs.len() - RESERVED) * 4 * F::SLOTS as usize
    }

    /// The table as device code sees it, good until the table is used again.
    pub fn view(&mut self) -> MapView {
        let first = self.slabs.as_mut_ptr();
        let mut at = 0;
        let mut tiles = 0;
        self.directory.clear();
        self.chunk_ends.clear();
        // The reserved slabs are the last entry, as `Chunks` wants it.
        let sizes = self
            .pages
            .iter()
            .map(|&pages| (pages, pages << self.page_log2));
        for (pages, slabs) in sizes.chain([(1, RESERVED as u32)]) {
            let slabs_at = first.wrapping_add(at).cast();
            self.directory.push(Submap {
                slabs: slabs_at,
                pages,
                pages_before: at as u32 >> self.page_log2,
            });
            at += slabs as usize;
            tiles += u64::from(slabs.div_ceil(CHUNK_SLABS));
            self.chunk_ends.push(tiles);
        }
        MapView {
            submaps: self.directory.as_ptr(),
            reserved: first.wrapping_add(self.slabs.len() - RESERVED).cast(),
            seed: self.seed,
            submap_count: self.pages.len() as u32,
            page_log2: self.page_log2,
            marks: 0,
        }
    }

    /// The chunks that go with the last [`view`](Self::view), and how many there are.
    pub fn chunks(&self) -> (Chunks, u32) {
        let chunks = Chunks {
            submaps: self.directory.as_ptr(),
            ends: self.chunk_ends.as_ptr(),
            entries: self.directory.len() as u32,
            page_log2: self.page_log2,
            first: 0,
        };
        let blocks = self.chunk_ends.last().map_or(0, |&end| end as u32);
        (chunks, blocks)
    }

    /// Every pair, as bits, in slot order. A key that is there twice comes twice.
    ///
    /// # Panics
    /// If a slot is still busy.
    pub fn pairs(&self) -> Vec<(u64, u64)> {
        let mut pairs = Vec::new();
        for (i, slab) in self.slabs.iter().enumerate() {
            for (&vector, slot) in slab
                .0
                .iter()
                .flat_map(|v| (0..F::SLOTS).map(move |s| (v, s)))
            {
                let word = F::word(vector, slot);
                assert!(
                    !F::HAS_BUSY || word != F::Word::BUSY,
                    "a busy slot is left in slab {i}"
                );
                if !word.is_key() {
                    continue;
                }
                let key = if i >= self.slabs.len() - RESERVED {
                    F::reserved_key(word)
                } else {
                    F::key(word)
                };
                pairs.push((key.to_u64(), F::value(vector, slot).to_u64()));
            }
        }
        pairs
    }

    /// Whether every word is the same.
    pub fn same_bytes(&self, other: &Self) -> bool {
        self.slabs == other.slabs
    }
}
