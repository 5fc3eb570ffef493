//! What an arena map looks like inside.

use bytemuck::Pod;

use super::super::{Key, Stats};
use super::ArenaMap;
use super::memory::Arena;
use crate::error::{Error, Result};

/// What an [`ArenaMap`] holds and how, as [`ArenaMap::stats`] found it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArenaStats {
    /// The slots, which have the number of a cell each.
    pub table: Stats,
    /// Cells.
    pub cells: usize,
    /// Cells with the value of a pair.
    pub live: usize,
    /// Cells for the next batches.
    pub free: usize,
    /// Cells that become free as soon as a call finds too few.
    pub retired: usize,
    /// Bytes per cell.
    pub cell_bytes: usize,
    /// Bytes of all cells and of the lists of those that are free.
    pub arena_bytes: u64,
}

/// # Statistics
impl<K: Key, V: Pod + Send + Sync> ArenaMap<K, V> {
    /// Counts cells, and looks at every slot as [`Map::stats`](crate::Map::stats) does. Waits for the
    /// calls in flight.
    ///
    /// ```
    /// use gpumap::{ArenaMap, Device};
    /// let map = ArenaMap::<u32, [u8; 30]>::with_capacity(&Device::cpu(), 100)?;
    /// map.insert(&[1, 2, 3], &[[0; 30]; 3])?;
    /// map.upsert(&[1, 2], &[[1; 30]; 2])?;
    /// let stats = map.stats()?;
    /// assert_eq!((stats.live, stats.retired, stats.cell_bytes), (3, 2, 32));
    /// assert_eq!(stats.live + stats.free + stats.retired, stats.cells);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn stats(&self) -> Result<ArenaStats> {
        match self.alone() {
            Ok(arena) => self.stats_of(&arena),
            // This thread has it alone, for the call that runs the callback.
            Err(Error::Nested) => self.stats_of(&self.arena.read()),
            Err(error) => Err(error),
        }
    }

    fn stats_of(&self, arena: &Arena) -> Result<ArenaStats> {
        let table = self.ids.stats()?;
        let cells = arena.cells.count();
        let (free, retired) = (arena.ring.free(), arena.ring.retired()?);
        Ok(ArenaStats {
            table,
            cells,
            // No call is in flight, so the others are in slots.
            live: cells.saturating_sub(free + retired),
            free,
            retired,
            cell_bytes: arena.cells.stride(),
            arena_bytes: arena.bytes(),
        })
    }
}
