//! The verbs that change values of present keys, and store nothing.

use super::merge::Merge;
use super::operand::Operand;
use super::{Key, Map, Numeric, Place, Value};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::input::Input;
use crate::op::{self, Execute};

/// # Update if present
impl<K: Key, V: Value, P: Place> Map<K, V, P> {
    /// Gives present keys new values; absent keys stay absent, so the map never grows. Of several
    /// pairs of the batch with one key, the value of one is there in the end. Returns how many keys
    /// of the batch were present; one that comes several times counts each time. The name is that of
    /// NVIDIA's HierarchicalKV.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, u32>::new(&Device::cpu())?;
    /// map.insert(&[1, 2], &[10, 20])?;
    /// assert_eq!(map.update(&[2, 3], &[99, 30])?, 1);
    /// assert_eq!(map.get(&[1, 2, 3])?, [Some(10), Some(99), None]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::LengthMismatch`]; [`Error::OutOfMemory`] before anything is changed;
    /// [`Error::WrongDevice`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn update(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
    ) -> Result<usize> {
        self.execute(op::update(keys, values))
    }

    /// Merges values with those of present keys, as [`merge`](Self::merge) does; absent keys stay
    /// absent. Returns how many keys of the batch were present; one that comes several times counts
    /// each time.
    ///
    /// ```
    /// use gpumap::{Device, Map, Merge};
    /// let watched = Map::<u32, u64>::from_pairs(&Device::cpu(), [(7, 0), (8, 0)])?;
    /// assert_eq!(watched.update_with(&[7, 9, 7], &[1, 1, 1], Merge::Add)?, 2);
    /// assert_eq!(watched.get(&[7, 8, 9])?, [Some(2), Some(0), None]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`update`](Self::update).
    pub fn update_with<Form>(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: impl Operand<V, Form>,
        merge: Merge,
    ) -> Result<usize>
    where
        V: Numeric,
    {
        self.execute(op::update_with(keys, values, merge))
    }
}
