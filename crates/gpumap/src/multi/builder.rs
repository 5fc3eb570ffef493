//! [`MultiMapBuilder`]: a multimap with other than the usual settings.

use std::marker::PhantomData;

use gpumap_kernels::chained::kernels::chained_kernels_of;
use gpumap_kernels::kernels::Encoding;

use super::chains::{Chains, MOST_BUCKETS, MOST_SLABS};
use super::grow::spare_slabs;
use super::{Core, MultiMap, Word, WordKey};
use crate::device::Device;
use crate::error::{Error, Result, Setting};
use crate::lock::Lock;
use crate::map::{OwnState, Pair, encoding_of, random_seed};
use crate::scratch::ScratchPool;
use crate::stream::Stream;

/// Pairs per slot of the base slabs when a map holds its [capacity](MultiMapBuilder::capacity): few
/// chains have a second slab then, and lookups read little more than one.
pub const PAIRS_PER_SLOT: f64 = 0.7;

/// A map without a capacity hint still needs buckets to spread keys over.
const LEAST_BUCKETS: usize = 1024;

/// Settings of a multimap to be; made by [`MultiMap::builder`].
///
/// ```
/// use gpumap::{Device, Error, MultiMap};
///
/// let map: MultiMap<u32, u32> = MultiMap::builder(&Device::cpu())
///     .buckets(10)
///     .pool_slabs(20) // of 15 slots each, and never more
///     .hash_seed(1)
///     .build()?;
/// assert_eq!(map.capacity(), 300);
/// let keys: Vec<u32> = (0..301).collect();
/// assert!(matches!(map.insert(&keys, &keys), Err(Error::Full { slots: 300, .. })));
/// assert!(map.is_empty());
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MultiMapBuilder<K, V> {
    device: Device,
    capacity: usize,
    buckets: Option<usize>,
    pool_slabs: Option<usize>,
    seed: Option<u64>,
    encoding: Option<Encoding>,
    _pair: PhantomData<fn(K) -> V>,
}

impl<K: WordKey, V: Word<Bits = K::Bits>> MultiMapBuilder<K, V> {
    pub(super) fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            capacity: 0,
            buckets: None,
            pool_slabs: None,
            seed: None,
            encoding: None,
            _pair: PhantomData,
        }
    }

    /// How many pairs are expected: buckets are made for so many, and the pool has room for them
    /// whatever their keys. Default 0.
    #[must_use]
    pub fn capacity(mut self, pairs: usize) -> Self {
        self.capacity = pairs;
        self
    }

    /// How many buckets, 1 to 2^31, each with a base slab of 128 bytes, for all of the map's life.
    /// Default: as many as give [`PAIRS_PER_SLOT`] at the capacity, and 1,024 at least.
    #[must_use]
    pub fn buckets(mut self, buckets: usize) -> Self {
        self.buckets = Some(buckets);
        self
    }

    /// Slabs in the pool, of 128 bytes each: so many and never more. By default there are enough for
    /// the capacity, and the pool grows.
    #[must_use]
    pub fn pool_slabs(mut self, slabs: usize) -> Self {
        self.pool_slabs = Some(slabs);
        self
    }

    /// The seed of the hash function. By default each map has a random one: keys that were made to
    /// collide under another seed do not collide here.
    #[must_use]
    pub fn hash_seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// How 16-byte slots are claimed, on the CPU: for tests of the form that older GPUs use.
    #[cfg(feature = "unstable-testing")]
    #[doc(hidden)]
    #[must_use]
    pub fn encoding(mut self, encoding: Encoding) -> Self {
        self.encoding = Some(encoding);
        self
    }

    /// The map, empty, with a capacity for so many pairs at least.
    pub(super) fn for_pairs(self, pairs: usize) -> Result<MultiMap<K, V>> {
        let capacity = self.capacity.max(pairs);
        self.capacity(capacity).build()
    }

    /// Makes the map, empty.
    ///
    /// # Errors
    /// [`Error::Setting`] for a setting out of range, [`Error::CapacityOverflow`],
    /// [`Error::OutOfMemory`], [`Error::Driver`].
    pub fn build(self) -> Result<MultiMap<K, V>> {
        let encoding = encoding_of(&self.device, self.encoding)?;
        let pair = Pair::of::<K, V>();
        let kernels = chained_kernels_of(pair.key, encoding);
        let slab_slots = kernels.slab_slots as usize;
        let buckets = self.buckets.unwrap_or_else(|| {
            let slabs = self.capacity as f64 / (slab_slots as f64 * PAIRS_PER_SLOT);
            (slabs.ceil() as usize).clamp(LEAST_BUCKETS, MOST_BUCKETS)
        });
        Setting::Buckets.expect(buckets as f64, 1.0..=MOST_BUCKETS as f64)?;
        let slabs = match self.pool_slabs {
            Some(slabs) => {
                Setting::PoolSlabs.expect(slabs as f64, 0.0..=MOST_SLABS as f64)?;
                slabs
            }
            None => {
                let spare = spare_slabs(self.capacity, self.device.multiprocessors());
                let slabs = self.capacity.div_ceil(slab_slots).saturating_add(spare);
                if slabs > MOST_SLABS {
                    return Err(Error::CapacityOverflow {
                        elements: self.capacity,
                        element_bytes: pair.key + pair.value,
                    });
                }
                slabs
            }
        };
        let seed = self.seed.unwrap_or_else(random_seed);
        let fixed = self.pool_slabs.is_some();
        let stream = Stream::of_calls(&self.device)?;
        let chains = Chains::new(&stream, buckets as u32, slabs, fixed, seed)?;
        let slots = chains.slabs() * slab_slots;
        let core = Core {
            scratch: ScratchPool::new(&self.device),
            state: OwnState::new(&self.device, slots, slots),
            chains: Lock::new(chains),
            device: self.device,
            kernels,
            pair,
            fixed,
        };
        Ok(MultiMap {
            core,
            _pair: PhantomData,
        })
    }
}
