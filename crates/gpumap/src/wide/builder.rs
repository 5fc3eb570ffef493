//! [`WideMapBuilder`]: a map with other than the usual settings.

use std::marker::PhantomData;

use bytemuck::Pod;

use super::WideMap;
use super::core::Core;
use crate::device::Device;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::file::Kind;
use crate::map::{Growth, Value, random_seed};
use crate::rows::{Growing, key_bytes};

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
    pub(super) growth: Option<Growth>,
    pub(super) key_kind: Kind,
    _pair: PhantomData<fn(K) -> V>,
}

impl<K: Pod, V: Value> WideMapBuilder<K, V> {
    pub(super) fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            capacity: 0,
            seed: None,
            growth: None,
            key_kind: Kind::of::<K>(),
            _pair: PhantomData,
        }
    }

    /// How many pairs there is room for at first. Default 0.
    #[must_use]
    pub fn capacity(mut self, pairs: usize) -> Self {
        self.capacity = pairs;
        self
    }

    /// What happens when pairs do not fit. Default: there are twice as many slots, and memory for half as many pairs again. A map of a
    /// [fixed](Growth::Fixed) capacity refuses a batch with more new keys than it has room for, as a whole; the room of removed keys
    /// is used again.
    ///
    /// A large batch of repeated new keys takes memory for as many slots for a while, and is [`Error::OutOfMemory`] where there is none.
    ///
    /// ```
    /// use gpumap::{Device, Error, Growth, WideMap};
    /// let map = WideMap::<u128, u32>::builder(&Device::cpu()).capacity(2).growth(Growth::Fixed).build()?;
    /// assert_eq!(map.insert(&[7, 8], &[70, 80])?, 2);
    /// assert!(matches!(map.upsert(&[8, 9], &[81, 90]), Err(Error::Full { slots: 2, .. })));
    /// assert_eq!(map.upsert(&[8, 7], &[81, 71])?, 0); // present keys need no room
    /// assert_eq!(map.remove(&[7])?, 1);
    /// assert_eq!(map.upsert(&[8, 9], &[82, 90])?, 1);
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

    /// What the keys are, which saved files say: a file with keys of another kind is not [loaded](Self::load). Default:
    /// [`Kind::of`] their type, so that a type of your own is bytes, which fit every kind.
    ///
    /// ```
    /// use gpumap::file::Kind;
    /// use gpumap::{Device, WideMap};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("cells.gpumap");
    ///
    /// #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
    /// #[repr(C)]
    /// struct Cell(i32, i32, i32);
    /// let builder = || WideMap::<Cell, f32>::builder(&Device::cpu()).key_kind(Kind::of::<i32>());
    /// builder().build()?.save(&path)?;
    /// assert!(builder().load(&path).is_ok());
    /// assert!(WideMap::<[i32; 3], f32>::load(&Device::cpu(), &path).is_ok());
    /// assert!(WideMap::<[f32; 3], f32>::load(&Device::cpu(), &path).is_err());
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    #[must_use]
    pub fn key_kind(mut self, kind: Kind) -> Self {
        self.key_kind = kind;
        self
    }

    /// Makes the map, empty.
    ///
    /// # Errors
    /// [`Error::Setting`] for a growth factor out of its range, [`Error::CapacityOverflow`], [`Error::OutOfMemory`],
    /// [`Error::Driver`].
    pub fn build(self) -> Result<WideMap<K, V>> {
        self.growth.map_or(Ok(()), Growth::check)?;
        let seed = self.seed.unwrap_or_else(random_seed);
        let growing = Growing::of(self.growth, self.capacity);
        let sizes = (key_bytes::<K>(), size_of::<V>());
        Ok(WideMap {
            core: Core::new(&self.device, sizes, self.capacity, seed)?.growing(growing),
            key_kind: self.key_kind,
            _pair: PhantomData,
        })
    }
}
