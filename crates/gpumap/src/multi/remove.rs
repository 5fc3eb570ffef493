//! Removing pairs, and taking away what they left behind.

use std::sync::atomic::Ordering;

use gpumap_kernels::chained::compact::CompactArgs;
use gpumap_kernels::chained::retain::RetainChainsArgs;
use gpumap_kernels::chained::slab::LANES;
use gpumap_simt::kernel::Grid;

use super::chains::Chains;
use super::{Core, MultiMap, Word, WordKey};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::input::Input;
use crate::map::stay;
use crate::op::{self, Execute};
use crate::primitives::{Element, Predicate};

/// Threads per block of the kernels that look at every chain.
const CHAIN_THREADS: u32 = 256;

/// A grid with eight threads for each base slab.
pub(super) fn grid_of_chains(bases: u64) -> Grid {
    Grid::covering(bases * u64::from(LANES), CHAIN_THREADS)
}

/// # Remove
impl<K: WordKey, V: Word<Bits = K::Bits>> MultiMap<K, V> {
    /// Removes one pair for each key that is present: the one that was stored first. Returns how many
    /// were removed; a key that comes twice in the batch removes two, if it has as many.
    ///
    /// The slots of removed pairs are used again when the map is [compacted](Self::compact), which it
    /// does by itself before it grows.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] before anything is removed; [`Error::WrongDevice`],
    /// [`Error::Poisoned`], [`Error::Driver`].
    pub fn remove(&self, keys: &(impl Input<K> + ?Sized)) -> Result<usize> {
        self.execute(op::remove(keys))
    }

    /// Removes every pair. Waits for the calls in flight. The pool keeps its size.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn clear(&self) -> Result<()> {
        let (core, state) = (&self.core, &self.core.state);
        let mut chains = state.alone(&core.chains)?;
        // Half-way through it holds neither what it held nor nothing.
        state.poisoned.store(true, Ordering::Release);
        chains.clear()?;
        state.occupancy.rebuilt(0, core.pool_capacity());
        state.poisoned.store(false, Ordering::Release);
        Ok(())
    }
}

/// # Remove by predicate
impl<K: WordKey + Element, V: Word<Bits = K::Bits> + Element> MultiMap<K, V> {
    /// Keeps the pairs whose key and value both satisfy a predicate, and removes all others: of several pairs with one key
    /// each for itself. Returns how many were removed. Waits for the calls in flight.
    ///
    /// ```
    /// use gpumap::primitives::Predicate;
    /// use gpumap::{Device, MultiMap};
    /// let map = MultiMap::<u32, i32>::with_capacity(&Device::cpu(), 100)?;
    /// map.append(&[1, 2, 2, 3], &[10, 20, -20, 30])?;
    /// assert_eq!(map.retain_where(Predicate::LessOrEqual(2), Predicate::Greater(0))?, 2);
    /// assert_eq!(map.get_all(&[1, 2, 3])?.iter().collect::<Vec<_>>(), [&[10][..], &[20], &[]]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Poisoned`], [`Error::Driver`].
    pub fn retain_where(&self, keys: Predicate<K>, values: Predicate<V>) -> Result<usize> {
        let core = &self.core;
        let mut scratch = core.scratch.take()?;
        let chains = core.exclusive()?;
        let args = RetainChainsArgs {
            view: chains.view(),
            stay: stay(keys.test().raised(), values.test().raised(), core.pair),
            removed: scratch.counting()?,
        };
        let (grid, retain) = (grid_of_chains(chains.bases()), core.kernels.retain);
        // SAFETY: nothing else runs on the map until this has ended.
        let [removed, _] = unsafe { core.change_by(&mut scratch, retain, grid, args) }?;
        core.state.occupancy.removed(removed);
        Ok(removed)
    }
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
        self.core.compact_in(&mut *self.core.exclusive()?)
    }
}

impl Core {
    /// Compacts all chains, alone.
    pub(super) fn compact_in(&self, chains: &mut Chains) -> Result<usize> {
        let mut scratch = self.scratch.take()?;
        let args = CompactArgs {
            view: chains.view(),
            freed: scratch.counting()?,
        };
        let grid = grid_of_chains(chains.bases());
        // SAFETY: the chains are borrowed exclusively, so nothing else runs on the map.
        let [freed, _] = unsafe { self.change_by(&mut scratch, self.kernels.compact, grid, args) }?;
        self.state
            .occupancy
            .rebuilt(self.state.occupancy.len(), self.pool_capacity());
        tracing::debug!(
            freed,
            pairs = self.state.occupancy.len(),
            "compacted the chains"
        );
        Ok(freed)
    }
}
