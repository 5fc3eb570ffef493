//! [`WideMapBuilder`]: a map with other than the usual settings.

use std::marker::PhantomData;

use bytemuck::Pod;

use super::WideMap;
use super::core::Core;
use crate::device::Device;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::map::{Value, random_seed};
use crate::rows::key_bytes;

/// Settings of a map to be; made by [`WideMap::builder`].
///
/// ```
/// use gpumap::{Device, WideMap};
/// let map: WideMap<u128, f64> = WideMap::builder(&Device::cpu()).capacity(1_000).hash_seed(1).build()?;
/// assert!(map.capacity() >= 1_000);
/// # Ok::<(), gpumap::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct WideMapBuilder<K, V> {
    device: Device,
    pub(super) capacity: usize,
    seed: Option<u64>,
    _pair: PhantomData<fn(K) -> V>,
}

impl<K: Pod, V: Value> WideMapBuilder<K, V> {
    pub(super) fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            capacity: 0,
            seed: None,
            _pair: PhantomData,
        }
    }

    /// How many pairs there is room for at first. Default 0.
    #[must_use]
    pub fn capacity(mut self, pairs: usize) -> Self {
        self.capacity = pairs;
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
    pub fn build(self) -> Result<WideMap<K, V>> {
        let seed = self.seed.unwrap_or_else(random_seed);
        let sizes = (key_bytes::<K>(), size_of::<V>());
        Ok(WideMap {
            core: Core::new(&self.device, sizes, self.capacity, seed)?,
            _pair: PhantomData,
        })
    }
}
