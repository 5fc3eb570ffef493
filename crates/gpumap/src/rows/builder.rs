//! [`RowMapBuilder`]: a row map with other than the usual settings.

use std::marker::PhantomData;

use bytemuck::Pod;

use super::core::Core;
use super::{Growing, RowKey, RowMap, RowStore};
use crate::device::Device;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::file::Kind;
use crate::map::{Growth, random_seed};

/// Settings of a row map to be; made by [`RowMap::builder`].
///
/// ```
/// use gpumap::{Device, RowMap};
/// let map: RowMap<[u32; 3]> = RowMap::builder(&Device::cpu()).capacity(1_000).hash_seed(1).build()?;
/// assert!(map.capacity() >= 1_000);
/// # Ok::<(), gpumap::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RowMapBuilder<K: ?Sized> {
    device: Device,
    pub(crate) capacity: usize,
    pub(crate) bytes: usize,
    seed: Option<u64>,
    growth: Option<Growth>,
    pub(super) key_kind: Kind,
    _key: PhantomData<fn(&K)>,
}

impl<K: RowKey + ?Sized> RowMapBuilder<K> {
    pub(super) fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            capacity: 0,
            bytes: 0,
            seed: None,
            growth: None,
            key_kind: K::kind(),
            _key: PhantomData,
        }
    }

    /// How many rows there is room for at first. Default 0.
    #[must_use]
    pub fn capacity(mut self, rows: usize) -> Self {
        self.capacity = rows;
        self
    }

    /// What happens when rows do not fit. Default: there are twice as many slots, and memory for half as many rows again. A map of a
    /// [fixed](Growth::Fixed) capacity refuses a batch that would give out more rows, as a whole. Rows of removed keys count until
    /// [`compact`](RowMap::compact).
    ///
    /// A large batch of repeated new keys takes memory for as many slots for a while, and is [`Error::OutOfMemory`] where there is none.
    ///
    /// ```
    /// use gpumap::{Device, Error, Growth, RowMap};
    /// let map = RowMap::<u64>::builder(&Device::cpu()).capacity(2).growth(Growth::Fixed).build()?;
    /// assert_eq!(map.insert(&[7, 8, 7])?, [0, 1, 0]);
    /// assert!(matches!(map.insert(&[8, 9]), Err(Error::Full { slots: 2, .. })));
    /// assert_eq!(map.insert(&[8, 7])?, [1, 0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn growth(mut self, growth: Growth) -> Self {
        self.growth = Some(growth);
        self
    }

    /// The seed of the hash function. By default each map has a random one: keys that were made to collide under another
    /// seed do not collide here.
    #[must_use]
    pub fn hash_seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Makes the map, empty.
    ///
    /// # Errors
    /// [`Error::Setting`] for a growth factor out of its range, [`Error::CapacityOverflow`], [`Error::OutOfMemory`],
    /// [`Error::Driver`].
    pub fn build(self) -> Result<RowMap<K>> {
        self.growth.map_or(Ok(()), Growth::check)?;
        let seed = self.seed.unwrap_or_else(random_seed);
        let core = Core::new(&self.device, K::FORM, self.capacity, seed)?;
        let core = core.growing(Growing::of(self.growth, self.capacity));
        Ok(RowMap {
            store: K::Store::of(core, self.bytes, seed)?,
            key_kind: self.key_kind,
        })
    }
}

impl<K: Pod> RowMapBuilder<K> {
    /// What the keys are, which saved files say; see [`MapBuilder::key_kind`](crate::MapBuilder::key_kind).
    #[must_use]
    pub fn key_kind(mut self, kind: Kind) -> Self {
        self.key_kind = kind;
        self
    }
}
