//! What a multimap looks like inside.

use gpumap_kernels::chained::stats::{ChainStatsArgs, figure};

use super::remove::grid_of_chains;
use super::{MultiMap, Word, WordKey};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;

/// What a multimap holds and how its pairs lie, as [`MultiMap::stats`] found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MultiStats {
    /// Pairs.
    pub len: usize,
    /// What removed pairs left behind, until the map is compacted.
    pub tombstones: usize,
    /// Buckets.
    pub buckets: usize,
    /// Slabs of the pool that are in chains, beside the base slab that each bucket has.
    pub linked_slabs: usize,
    /// Slabs of the pool.
    pub pool_slabs: usize,
    /// Slabs of the longest chain, its base slab included: what a lookup reads at the worst.
    pub longest_chain: usize,
    /// Slots of all slabs that are in chains.
    pub slots: usize,
    /// Bytes of base slabs and pool, without scratch memory.
    pub bytes: u64,
}

impl MultiStats {
    /// Pairs per slot of the slabs that are in chains.
    pub fn load_factor(&self) -> f64 {
        self.len as f64 / self.slots as f64
    }
}

/// # Statistics
impl<K: WordKey, V: Word<Bits = K::Bits>> MultiMap<K, V> {
    /// Looks at every slot and says what the map holds. Beside writers the figures are of no single
    /// moment.
    ///
    /// ```
    /// use gpumap::{Device, MultiMap};
    /// let map = MultiMap::<u64, u64>::with_capacity(&Device::cpu(), 100)?;
    /// map.append(&[7; 20], &[1; 20])?;
    /// map.remove(&[7])?;
    /// let stats = map.stats()?;
    /// assert_eq!((stats.len, stats.tombstones), (19, 1));
    /// assert_eq!((stats.longest_chain, stats.linked_slabs), (3, 2)); // of seven slots each
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn stats(&self) -> Result<MultiStats> {
        let core = &self.core;
        let mut scratch = core.scratch.take()?;
        let chains = core.shared()?;
        scratch.reset_counters()?;
        let args = ChainStatsArgs {
            view: chains.view(),
            figures: scratch.counters(),
        };
        let grid = grid_of_chains(chains.bases());
        // SAFETY: the kernel set fits the map's types, and there are more counters than figures; the
        // lock is held until they have been read.
        unsafe { core.kernels.stats.launch(scratch.stream(), grid, args) }?;
        let figures = scratch.read_counters()?.map(|figure| figure as usize);
        Ok(MultiStats {
            len: figures[figure::PAIRS],
            tombstones: figures[figure::TOMBSTONES],
            buckets: chains.buckets() as usize,
            linked_slabs: figures[figure::LINKED],
            pool_slabs: chains.slabs(),
            longest_chain: figures[figure::LONGEST],
            slots: (chains.bases() as usize + figures[figure::LINKED]) * core.slab_slots(),
            bytes: chains.bytes(),
        })
    }
}
