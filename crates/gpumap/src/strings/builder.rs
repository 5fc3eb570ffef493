//! [`StringRowMapBuilder`]: a row map of strings with other than the usual settings.

use super::StringRowMap;
use super::core::Core;
use crate::device::Device;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::map::random_seed;

/// Settings of a row map of strings to be; made by [`StringRowMap::builder`].
///
/// ```
/// use gpumap::{Device, StringRowMap};
/// let words = StringRowMap::builder(&Device::cpu()).capacity(1_000).bytes(16_000).build()?;
/// assert!(words.capacity() >= 1_000 && words.byte_capacity() >= 16_000);
/// # Ok::<(), gpumap::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct StringRowMapBuilder {
    device: Device,
    pub(super) capacity: usize,
    bytes: usize,
    seed: Option<u64>,
}

impl StringRowMapBuilder {
    pub(super) fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            capacity: 0,
            bytes: 0,
            seed: None,
        }
    }

    /// How many rows there is room for at first. Default 0.
    #[must_use]
    pub fn capacity(mut self, rows: usize) -> Self {
        self.capacity = rows;
        self
    }

    /// How many bytes of strings there is room for at first, each string rounded up to 8. Default 0.
    #[must_use]
    pub fn bytes(mut self, bytes: usize) -> Self {
        self.bytes = bytes;
        self
    }

    /// The seed of the hash function. By default each map has a random one: strings that were made to collide under another
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
    pub fn build(self) -> Result<StringRowMap> {
        let seed = self.seed.unwrap_or_else(random_seed);
        Ok(StringRowMap {
            core: Core::new(&self.device, (self.capacity, self.bytes), seed)?,
        })
    }
}
