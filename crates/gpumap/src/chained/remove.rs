//! Removing pairs.

use std::sync::atomic::Ordering;

use super::run::Job;
use super::{ChainedMap, Key, Value};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::input::{Input, Source};
use crate::op::{self, Execute};
use crate::scratch::ScratchRole;

/// # Remove
impl<K: Key, V: Value<Bits = K::Bits>> ChainedMap<K, V> {
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

    /// Removes one pair for each key that is present, and waits.
    pub(super) fn take_away(&self, keys: Source<'_, K>) -> Result<usize> {
        let len = keys.len();
        if len == 0 {
            return Ok(0);
        }
        let mut scratch = self.scratch.take()?;
        // SAFETY: what is queued has ended when this returns, or when the workspace goes back.
        let staged = unsafe { scratch.stage(ScratchRole::Keys, keys) }?;
        let job = Job::of_keys(staged, len);
        let chains = self.shared()?;
        let grid = self.share_out(len);
        let [removed, _] = self.change(&chains, &mut scratch, self.kernels.remove, job, grid)?;
        self.occupancy.removed(removed);
        Ok(removed)
    }

    /// Removes every pair. Waits for the calls in flight. The pool keeps its size.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn clear(&self) -> Result<()> {
        let mut chains = self.chains.write();
        // Half-way through it holds neither what it held nor nothing.
        self.poisoned.store(true, Ordering::Release);
        chains.clear()?;
        self.occupancy.rebuilt(0, self.capacity());
        self.poisoned.store(false, Ordering::Release);
        Ok(())
    }
}
