//! [`ArenaMapBuilder`]: an arena map with other than the usual settings.

use std::marker::PhantomData;

use bytemuck::Pod;

use super::super::{Growth, Key, MapBuilder};
use super::ArenaMap;
use crate::device::Device;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;

/// Settings of an [`ArenaMap`] to be; made by [`ArenaMap::builder`].
///
/// ```
/// use gpumap::{ArenaMap, Device, Growth};
///
/// let map: ArenaMap<u32, [u8; 9]> = ArenaMap::builder(&Device::cpu())
///     .capacity(10_000)
///     .growth(Growth::By(1.5))
///     .hash_seed(1)
///     .build()?;
/// assert!(map.capacity() >= 10_000);
/// # Ok::<(), gpumap::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ArenaMapBuilder<K, V> {
    pub(super) ids: MapBuilder<K, u32>,
    _values: PhantomData<fn() -> V>,
}

impl<K: Key, V: Pod + Send + Sync> ArenaMapBuilder<K, V> {
    pub(super) fn of(ids: MapBuilder<K, u32>) -> Self {
        Self {
            ids,
            _values: PhantomData,
        }
    }

    pub(super) fn new(device: &Device) -> Self {
        Self::of(MapBuilder::new(device))
    }

    /// How many pairs must fit before it grows, and how many cells there are at first. Default 0,
    /// which gives the smallest map.
    #[must_use]
    pub fn capacity(mut self, pairs: usize) -> Self {
        self.ids = self.ids.capacity(pairs);
        self
    }

    /// As for [`MapBuilder::max_load_factor`]: of the slots, which have an id each.
    #[must_use]
    pub fn max_load_factor(mut self, pairs_per_slot: f64) -> Self {
        self.ids = self.ids.max_load_factor(pairs_per_slot);
        self
    }

    /// What happens when pairs do not fit, or cells run short. Default: the capacity is doubled. With
    /// [`Growth::Fixed`] more pairs than fit are refused, and there are as many cells more as the
    /// values of batches on their way need.
    #[must_use]
    pub fn growth(mut self, growth: Growth) -> Self {
        self.ids = self.ids.growth(growth);
        self
    }

    /// As for [`MapBuilder::hash_seed`].
    #[must_use]
    pub fn hash_seed(mut self, seed: u64) -> Self {
        self.ids = self.ids.hash_seed(seed);
        self
    }

    /// With these settings for the slots: for tests.
    #[cfg(feature = "unstable-testing")]
    #[doc(hidden)]
    #[must_use]
    pub fn with_ids(ids: MapBuilder<K, u32>) -> Self {
        Self::of(ids)
    }

    /// Makes the map, empty.
    ///
    /// # Errors
    /// [`Error::Setting`] for a setting out of range, [`Error::CapacityOverflow`],
    /// [`Error::OutOfMemory`], [`Error::Driver`].
    pub fn build(self) -> Result<ArenaMap<K, V>> {
        let growth = self.ids.growth;
        ArenaMap::of(self.ids.build()?, growth)
    }
}
