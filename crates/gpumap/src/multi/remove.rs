//! Removing pairs.

use std::sync::atomic::Ordering;

use gpumap_kernels::chained::retain::RetainChainsArgs;

use super::compact::grid_of_chains;
use super::run::Job;
use super::{MultiMap, Word, WordKey};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::input::{Input, Source};
use crate::map::{Arrays, Pair, stay};
use crate::op::{self, Execute};
use crate::primitives::{Element, Predicate};
use crate::scratch::{ScratchRole, address_of};

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

    /// Removes one pair for each key that is present, and waits. The outputs are at least as long as the keys.
    pub(super) fn take_away(&self, keys: Source<'_, K>, outputs: Arrays<'_>) -> Result<usize> {
        let len = keys.len();
        if len == 0 {
            return Ok(0);
        }
        let mut scratch = self.scratch.take()?;
        let mut targets = scratch.host_targets(outputs, len)?;
        let [values, flags] = targets.each_mut().map(address_of);
        // SAFETY: what is queued has ended when this returns, or when the workspace goes back.
        let staged = unsafe { scratch.stage(ScratchRole::Keys, keys) }?;
        if !values.is_null() {
            // SAFETY: there is a place for each key. The kernel writes to those of present keys.
            unsafe { scratch.stream().fill(values, 0, len * size_of::<V>()) }?;
        }
        let job = Job {
            found: values.cast(),
            flags,
            ..Job::of_keys(staged, len)
        };
        let chains = self.shared_to_change()?;
        let grid = self.share_out(len);
        let [removed, _] = self.change(&chains, &mut scratch, self.kernels.remove, job, grid)?;
        self.state.occupancy.removed(removed);
        drop(chains);
        scratch.copy_all_to_host(targets.into_iter().flatten())?;
        Ok(removed)
    }

    /// Removes every pair. Waits for the calls in flight. The pool keeps its size.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn clear(&self) -> Result<()> {
        let mut chains = self.state.alone(&self.chains)?;
        // Half-way through it holds neither what it held nor nothing.
        self.state.poisoned.store(true, Ordering::Release);
        chains.clear()?;
        self.state.occupancy.rebuilt(0, self.pool_capacity());
        self.state.poisoned.store(false, Ordering::Release);
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
        let mut scratch = self.scratch.take()?;
        let chains = self.exclusive()?;
        let args = RetainChainsArgs {
            view: chains.view(),
            stay: stay(
                keys.test().raised(),
                values.test().raised(),
                Pair::of::<K, V>(),
            ),
            removed: scratch.counting()?,
        };
        let grid = grid_of_chains(chains.bases());
        let [removed, _] = self.or_poison_if_launched(&mut scratch, |scratch| {
            // SAFETY: the kernel set fits the map's types; nothing else runs on the map until this has ended.
            unsafe { self.kernels.retain.launch(scratch.stream(), grid, args) }?;
            scratch.counted()
        })?;
        self.state.occupancy.removed(removed as usize);
        Ok(removed as usize)
    }
}
