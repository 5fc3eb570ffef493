//! Taking away what removed pairs left behind.

use gpumap_kernels::chained::compact::CompactArgs;
use gpumap_kernels::chained::slab::LANES;
use gpumap_simt::kernel::Grid;

use super::chains::Chains;
use super::{MultiMap, Word, WordKey};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;

/// Threads per block of the kernels that look at every chain.
const CHAIN_THREADS: u32 = 256;

/// A grid with eight threads for each base slab.
pub(super) fn grid_of_chains(bases: u64) -> Grid {
    Grid::covering(bases * u64::from(LANES), CHAIN_THREADS)
}

/// # Compact
impl<K: WordKey, V: Word<Bits = K::Bits>> MultiMap<K, V> {
    /// Moves the pairs of every chain together, over what removed ones left behind, and gives slabs that
    /// are empty then back to the pool. Returns how many. Pairs keep their order. Waits for the calls in
    /// flight.
    ///
    /// ```
    /// use gpumap::{Device, MultiMap};
    /// let map = MultiMap::<u64, u64>::with_capacity(&Device::cpu(), 100)?;
    /// map.append(&[7; 70], &[1; 70])?; // ten slabs of seven
    /// map.remove(&[7; 63])?;
    /// assert_eq!(map.compact()?, 9);
    /// assert_eq!(map.count(&[7])?, [7]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Poisoned`], [`Error::Driver`].
    pub fn compact(&self) -> Result<usize> {
        self.compact_in(&mut *self.exclusive()?)
    }

    /// Compacts all chains, alone.
    pub(super) fn compact_in(&self, chains: &mut Chains) -> Result<usize> {
        let mut scratch = self.scratch.take()?;
        let args = CompactArgs {
            view: chains.view(),
            freed: scratch.counting()?,
        };
        let grid = grid_of_chains(chains.bases());
        let [freed, _] = self.or_poison_if_launched(&mut scratch, |scratch| {
            // SAFETY: the kernel set fits the map's types; the chains are borrowed exclusively until this
            // has ended, so nothing else runs on the map.
            unsafe { self.kernels.compact.launch(scratch.stream(), grid, args) }?;
            scratch.counted()
        })?;
        self.state
            .occupancy
            .rebuilt(self.state.occupancy.len(), self.pool_capacity());
        tracing::debug!(freed, pairs = self.len(), "compacted the chains");
        Ok(freed as usize)
    }
}
