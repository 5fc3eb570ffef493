//! The memory of a map: slabs, directory, prefix sums.
//!
//! Slabs are shared with the iterators that dump them ([`Table::share`]): one that is being read
//! stays as long as it is needed, whatever the map puts in its place.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gpumap_kernels::chunk::{CHUNK_SLABS, Chunks};
use gpumap_kernels::slot::RESERVED_WORDS;
use gpumap_kernels::table::{MapView, PAGE_WALK, SLAB_BYTES, Submap};

use super::shape::Shape;
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::stream::Stream;

/// A slab's worth of bytes, the unit in which submaps are allocated.
pub(super) type Slab = [u8; SLAB_BYTES as usize];

/// What fills an empty table: every slot's key word is EMPTY.
const EMPTY_BYTE: u8 = 0xff;

/// The memory of a map, owned by the host.
#[derive(Debug)]
pub(super) struct Table {
    pub shape: Shape,
    /// Kept for their memory; kernels find them through the directory.
    submaps: Vec<Arc<Buffer<Slab>>>,
    /// A slab for each key whose bits mean a state.
    reserved: Arc<Buffer<Slab>>,
    /// One [`Submap`] per submap, and one for the reserved slabs.
    directory: Buffer<[u64; 2]>,
    /// For each entry of the directory the chunks up to its end: inclusive prefix sums of the
    /// submaps' capacities.
    chunk_ends: Buffer<u64>,
    chunks: u64,
    seed: u64,
    /// Whether the [marks](gpumap_kernels::marks) of its slabs hold: no pair was stored but by making
    /// pages.
    marked: AtomicBool,
}

/// New slabs, all empty.
fn empty_slabs(stream: &Stream, slabs: usize) -> Result<Arc<Buffer<Slab>>> {
    let mut slabs = Buffer::<Slab>::unwritten(stream, slabs)?;
    slabs.fill_bytes(EMPTY_BYTE)?;
    Ok(Arc::new(slabs))
}

/// The directory's entry for a submap, as [`Submap`] has it.
fn entry(slabs: &Buffer<Slab>, pages: u32, pages_before: u32) -> [u64; 2] {
    let counts = u64::from(pages) | u64::from(pages_before) << 32;
    [slabs.as_ptr() as u64, counts]
}

impl Table {
    /// Bytes of a table of that shape.
    pub fn bytes(shape: &Shape) -> u64 {
        let entries = (shape.pages.len() + 1) * (size_of::<[u64; 2]>() + size_of::<u64>());
        let reserved = size_of::<Slab>() * RESERVED_WORDS as usize;
        shape.bytes() + (entries + reserved) as u64
    }

    /// An empty table. Its memory is of `stream`, on which everything that the host does to it
    /// alone is queued; returns when it can be used from others.
    pub fn new(stream: &Stream, shape: Shape, seed: u64) -> Result<Self> {
        let submaps = (0..shape.pages.len())
            .map(|i| empty_slabs(stream, shape.slabs(i)))
            .collect::<Result<Vec<_>>>()?;
        let reserved = empty_slabs(stream, RESERVED_WORDS as usize)?;
        Self::of_slabs(stream, submaps, reserved, shape, seed)
    }

    /// The same slabs under a directory of its own, on `stream`, which does not change when this
    /// table is rebuilt: to dump what is, or was, in them.
    pub fn share(&self, stream: &Stream) -> Result<Self> {
        let (submaps, reserved) = (self.submaps.clone(), Arc::clone(&self.reserved));
        Self::of_slabs(stream, submaps, reserved, self.shape.clone(), self.seed)
    }

    /// Whether some of its slabs may be being dumped through a table that shares them.
    pub fn is_shared(&self) -> bool {
        // Shared with every other table, and kept when submaps are replaced.
        Arc::strong_count(&self.reserved) > 1
    }

    fn of_slabs(
        stream: &Stream,
        submaps: Vec<Arc<Buffer<Slab>>>,
        reserved: Arc<Buffer<Slab>>,
        shape: Shape,
        seed: u64,
    ) -> Result<Self> {
        let mut table = Self {
            directory: Buffer::zeroed(stream, submaps.len() + 1)?,
            chunk_ends: Buffer::zeroed(stream, submaps.len() + 1)?,
            submaps,
            reserved,
            shape,
            chunks: 0,
            seed,
            marked: AtomicBool::new(false),
        };
        table.publish()?;
        Ok(table)
    }

    /// The stream that its memory is of.
    pub fn stream(&self) -> &Stream {
        self.reserved.stream()
    }

    /// Empties every slot. Returns when that is done.
    pub fn clear(&mut self) -> Result<()> {
        let mut all = self.submaps.iter().chain([&self.reserved]);
        let queued = all.try_for_each(|slabs| {
            let (start, bytes) = (
                slabs.as_ptr().cast_mut().cast(),
                size_of::<Slab>() * slabs.len(),
            );
            // SAFETY: all of the buffer. Nothing else uses it: the table is borrowed exclusively,
            // and a map that shares its slabs reads them only under the lock of the table.
            unsafe { self.stream().fill(start, EMPTY_BYTE, bytes) }
        });
        // What was queued before a failure is waited for as well.
        let done = self.stream().finish();
        queued.and(done)
    }

    /// The slabs of a submap.
    pub fn slabs(&self, submap: usize) -> &Buffer<Slab> {
        &self.submaps[submap]
    }

    /// Puts other slabs in the place of a submap, and returns its own. Kernels see it when it is
    /// [published](Self::publish).
    pub fn replace(&mut self, submap: usize, slabs: Arc<Buffer<Slab>>) -> Arc<Buffer<Slab>> {
        self.set_marked(false);
        self.shape.pages[submap] = (slabs.len() >> self.shape.page_log2) as u32;
        std::mem::replace(&mut self.submaps[submap], slabs)
    }

    /// Takes over the reserved slabs of another table; its own, which are not shared yet, are still
    /// empty.
    pub fn copy_reserved(&mut self, other: &Self) -> Result<()> {
        let own = Arc::get_mut(&mut self.reserved).expect("a new table is not shared");
        own.copy_range(0, &other.reserved.as_view())
    }

    /// Brings the directory and the prefix sums on the device up to date.
    pub fn publish(&mut self) -> Result<()> {
        let pages = self.shape.pages.iter().chain([&1]);
        let slabs = self.submaps.iter().chain([&self.reserved]);
        let mut pages_before = 0u32;
        let entries: Vec<_> = slabs
            .zip(pages)
            .map(|(slabs, &pages)| {
                let entry = entry(slabs, pages, pages_before);
                pages_before = pages_before.wrapping_add(pages);
                entry
            })
            .collect();
        self.directory.copy_from_slice(&entries)?;
        let all = self.submaps.iter().chain([&self.reserved]);
        let mut chunks = 0;
        let ends: Vec<u64> = all
            .map(|slabs| {
                chunks += (slabs.len() as u64).div_ceil(u64::from(CHUNK_SLABS));
                chunks
            })
            .collect();
        self.chunks = chunks;
        self.chunk_ends.copy_from_slice(&ends)
    }

    /// The table as kernels see it that store no pair.
    ///
    /// A lookup may be running still when a call that stores begins, and trust marks that do not hold any more: it
    /// was called before that, so what it does not see was stored after it.
    pub fn view(&self) -> MapView {
        MapView {
            submaps: self.entries(),
            reserved: self.reserved.as_ptr().cast_mut().cast(),
            seed: self.seed,
            submap_count: self.submaps.len() as u32,
            page_log2: self.shape.page_log2,
            marks: if self.is_marked() {
                PAGE_WALK.min(1 << self.shape.page_log2)
            } else {
                0
            },
        }
    }

    /// The table as kernels see it that store single pairs: from now on marks do not hold.
    pub fn view_to_store(&self) -> MapView {
        self.set_marked(false);
        self.view()
    }

    /// The table as kernels see it that store single pairs and look up others at the same time: marks do not hold
    /// from now on, except for this launch, beside which its own pairs are stored at any time.
    pub fn view_to_mix(&self) -> MapView {
        let view = self.view();
        self.set_marked(false);
        view
    }

    /// What the arguments of kernels say of it: as long as this is the same, so are they.
    pub fn sight(&self) -> Vec<u64> {
        vec![
            self.directory.as_ptr() as u64,
            self.chunk_ends.as_ptr() as u64,
            self.reserved.as_ptr() as u64,
            self.submaps.len() as u64,
            u64::from(self.shape.page_log2),
            self.chunks,
            self.seed,
            u64::from(self.is_marked()),
        ]
    }

    /// Whether the marks of its slabs hold.
    pub fn is_marked(&self) -> bool {
        self.marked.load(Ordering::Acquire)
    }

    /// Sets whether they do. Only code that has made pages alone on the table may set it.
    pub fn set_marked(&self, marked: bool) {
        // Not again: each call that stores comes here, and a store takes the line away from all other threads.
        if self.is_marked() != marked {
            self.marked.store(marked, Ordering::Release);
        }
    }

    /// The directory on the device, the entry of the reserved slabs last.
    fn entries(&self) -> *const Submap {
        self.directory.as_ptr().cast()
    }

    /// Its chunks, and how many there are: the blocks of a kernel that looks at every slot.
    pub fn chunks(&self) -> Result<(Chunks, u32)> {
        let blocks = u32::try_from(self.chunks)
            .ok()
            .filter(|&blocks| blocks <= i32::MAX as u32)
            .ok_or(Error::CapacityOverflow {
                elements: self.shape.slots(),
                element_bytes: (SLAB_BYTES / self.shape.slab_slots) as usize,
            })?;
        let chunks = Chunks {
            submaps: self.entries(),
            ends: self.chunk_ends.as_ptr(),
            entries: self.submaps.len() as u32 + 1,
            page_log2: self.shape.page_log2,
            first: 0,
        };
        Ok((chunks, blocks))
    }
}
