//! [`RowMapBuilder`]: a row map with other than the usual settings.

use std::marker::PhantomData;

use bytemuck::Pod;

use super::core::Core;
use super::{KeyForm, RowMap, key_bytes};
use crate::device::Device;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::map::random_seed;

/// Settings of a row map to be; made by [`RowMap::builder`].
///
/// ```
/// use gpumap::{Device, RowMap};
/// let map: RowMap<[u32; 3]> = RowMap::builder(&Device::cpu()).capacity(1_000).hash_seed(1).build()?;
/// assert!(map.capacity() >= 1_000);
/// # Ok::<(), gpumap::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RowMapBuilder<K> {
    device: Device,
    pub(super) capacity: usize,
    seed: Option<u64>,
    _key: PhantomData<fn(K)>,
}

impl<K: Pod> RowMapBuilder<K> {
    pub(super) fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            capacity: 0,
            seed: None,
            _key: PhantomData,
        }
    }

    /// How many rows there is room for at first. Default 0.
    #[must_use]
    pub fn capacity(mut self, rows: usize) -> Self {
        self.capacity = rows;
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
    /// [`Error::CapacityOverflow`], [`Error::OutOfMemory`], [`Error::Driver`].
    pub fn build(self) -> Result<RowMap<K>> {
        let seed = self.seed.unwrap_or_else(random_seed);
        Ok(RowMap {
            core: Core::new(
                &self.device,
                KeyForm::Data(key_bytes::<K>()),
                self.capacity,
                seed,
            )?,
            _key: PhantomData,
        })
    }
}
