//! What a map looks like inside.

use gpumap_kernels::chunk::THREADS;
use gpumap_kernels::stats::{LENGTHS, StatsArgs};
use gpumap_simt::kernel::Grid;

#[cfg(feature = "unstable-testing")]
use super::Audit;
#[cfg(feature = "unstable-testing")]
use super::storage::Store;
use super::{Core, Key, Layout, Map, Value};
use crate::error::Result;
use crate::scratch::ScratchRole;

/// What a map holds and how its pairs lie, as [`Map::stats`] found it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// How it holds its pairs.
    pub layout: Layout,
    /// Pairs.
    pub len: usize,
    /// What removed pairs left behind, until the map is compacted.
    pub tombstones: usize,
    /// Slots.
    pub slots: usize,
    /// Pairs that fit before it grows.
    pub capacity: usize,
    /// Submaps.
    pub submaps: usize,
    /// Bytes of the table, without scratch memory; with the layout [`Rows`](Layout::Rows) also of its arrays of keys and values.
    pub table_bytes: u64,
    /// `probe_lengths[i]` pairs are found in slab `i + 1` of their walk; a slab is 64 bytes, one
    /// trip to memory. No longer than needed, and empty with the layout [`Rows`](Layout::Rows).
    pub probe_lengths: Vec<u64>,
    /// Where values are, with the layout [`Cells`](Layout::Cells).
    pub cells: Option<CellStats>,
}

/// The cells of a map of the layout [`Cells`](Layout::Cells). `free + retired + live` is `cells`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CellStats {
    /// Cells.
    pub cells: usize,
    /// Those with the value of a pair.
    pub live: usize,
    /// Those that the next calls take.
    pub free: usize,
    /// Those whose value was removed or replaced: free when no call is in flight.
    pub retired: usize,
    /// Bytes of a cell.
    pub cell_bytes: usize,
    /// Bytes of all cells, and of the lists of those that are free.
    pub arena_bytes: u64,
}

impl Stats {
    /// Slabs that a lookup of a present key reads, on average; 0 in an empty map.
    pub fn mean_probe_length(&self) -> f64 {
        let read = |(i, &pairs): (usize, &u64)| (i as u64 + 1) * pairs;
        let slabs: u64 = self.probe_lengths.iter().enumerate().map(read).sum();
        slabs as f64 / self.len.max(1) as f64
    }

    /// Pairs per slot.
    pub fn load_factor(&self) -> f64 {
        self.len as f64 / self.slots as f64
    }
}

/// # Statistics
impl<K: Key, V: Value> Map<K, V> {
    /// Looks at every slot and says what the map holds and how far its pairs lie from home.
    /// Beside writers the figures are of no single moment.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, u32>::with_capacity(&Device::cpu(), 100)?;
    /// map.insert(&[1, 2, 3], &[10, 20, 30])?;
    /// map.remove(&[2])?;
    /// let stats = map.stats()?;
    /// assert_eq!((stats.len, stats.tombstones), (2, 1));
    /// assert_eq!(stats.mean_probe_length(), 1.0);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory),
    /// [`Error::Poisoned`](crate::Error::Poisoned), [`Error::Driver`](crate::Error::Driver).
    pub fn stats(&self) -> Result<Stats> {
        self.storage().stats()
    }
}

#[cfg(feature = "unstable-testing")]
#[doc(hidden)]
impl<K: Key, V: Value> Map<K, V> {
    /// Where the cells are; nothing if it has none.
    ///
    /// # Errors
    /// As for [`stats`](Self::stats).
    pub fn audit(&self) -> Result<Audit> {
        match self.held.store() {
            Store::Cells(core) => core.audit(),
            Store::Inline(_) | Store::Rows(_) => Ok(Audit::default()),
        }
    }
}

impl Core {
    /// See [`Map::stats`].
    pub(super) fn stats(&self) -> Result<Stats> {
        let mut scratch = self.scratch.take()?;
        let mut lengths = scratch.output::<u64>(ScratchRole::FirstOutput, LENGTHS)?;
        let table = self.table.read();
        self.expect_sound()?;
        let (chunks, blocks) = table.chunks()?;
        let args = StatsArgs {
            view: table.view(),
            chunks,
            key_bytes: self.pair.key as u32,
            lengths: lengths.as_mut_ptr(),
        };
        // SAFETY: all of the output.
        unsafe {
            scratch
                .stream()
                .fill(args.lengths.cast(), 0, LENGTHS * size_of::<u64>())
        }?;
        let grid = Grid::new(blocks, THREADS);
        // SAFETY: the kernel set fits the map's types, the output has all entries; the table's
        // lock is held until the wait in `fetch`.
        unsafe { self.kernels.stats.launch(scratch.stream(), grid, args) }?;
        let mut probe_lengths = scratch.fetch(lengths, LENGTHS)?;
        let tombstones = probe_lengths.pop().unwrap_or(0);
        let longest = probe_lengths.iter().rposition(|&pairs| pairs != 0);
        probe_lengths.truncate(longest.map_or(0, |last| last + 1));
        Ok(Stats {
            layout: Layout::Inline,
            len: probe_lengths.iter().sum::<u64>() as usize,
            tombstones: tombstones as usize,
            slots: table.shape.slots(),
            capacity: self.capacity().max(self.len()),
            submaps: table.shape.pages.len(),
            table_bytes: table.shape.bytes(),
            probe_lengths,
            cells: None,
        })
    }
}
