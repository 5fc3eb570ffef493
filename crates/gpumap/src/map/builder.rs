//! [`MapBuilder`]: a map with other than the usual settings.

use std::hash::{BuildHasher, RandomState};
use std::marker::PhantomData;

use gpumap_kernels::kernels::{Encoding, pairs_8_8_wide};
use gpumap_kernels::table::MAX_PAGE_SLABS;

use super::shape::Wish;
use super::tuning::Tuning;
use super::{Config, Core, Key, Map, Pair, Value};
use crate::device::{Device, Kind};
use crate::error::{Error, Result, Setting};
use crate::scratch::Chunking;

/// Pairs per slot that a map is planned for by default: lookups take a little longer than at half full, for five eighths of
/// the memory.
pub const DEFAULT_MAX_LOAD_FACTOR: f64 = 0.8;

/// A typing error should not request a thousand times the memory.
const LEAST_LOAD: f64 = 0.01;
/// Beyond it walks become long.
const MOST_LOAD: f64 = 0.95;
/// Each is an allocation, and a block of every dump.
const MOST_SUBMAPS: usize = 4096;

/// Below it growing would be all that a map does.
const LEAST_GROWTH: f64 = 1.05;
const MOST_GROWTH: f64 = 64.0;

/// What a map does when pairs do not fit.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Growth {
    /// It grows to this many times its capacity, from 1.05 to 64, or by as much as memory allows.
    By(f64),
    /// It refuses them with [`Error::Full`].
    Fixed,
}

impl Growth {
    /// An error for a factor out of its range.
    pub(crate) fn check(self) -> Result<()> {
        match self {
            Self::By(factor) => Setting::GrowthFactor.expect(factor, LEAST_GROWTH..=MOST_GROWTH),
            Self::Fixed => Ok(()),
        }
    }
}

impl Default for Growth {
    /// Twice the capacity.
    fn default() -> Self {
        Self::By(2.0)
    }
}

/// Settings of a map to be; made by [`Map::builder`].
///
/// ```
/// use gpumap::{Device, Map};
///
/// let map: Map<u64, u64> = Map::builder(&Device::cpu())
///     .capacity(10_000)
///     .max_load_factor(0.5)
///     .submaps(4)
///     .hash_seed(1)
///     .build()?;
/// assert!(map.capacity() >= 10_000 && map.slots() >= 20_000);
/// # Ok::<(), gpumap::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MapBuilder<K, V> {
    device: Device,
    pub(super) wish: Wish,
    seed: Option<u64>,
    encoding: Option<Encoding>,
    pub(super) growth: Growth,
    bulk: Option<Tuning>,
    chunking: Option<Chunking>,
    _pair: PhantomData<fn(K) -> V>,
}

impl<K: Key, V: Value> MapBuilder<K, V> {
    pub(super) fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            wish: Wish {
                capacity: 0,
                max_load_factor: DEFAULT_MAX_LOAD_FACTOR,
                submaps: None,
                submap_slots: None,
                page_slabs: MAX_PAGE_SLABS,
            },
            seed: None,
            encoding: None,
            growth: Growth::default(),
            bulk: None,
            chunking: None,
            _pair: PhantomData,
        }
    }

    /// How many pairs must fit before it grows. Default 0, which gives the smallest map.
    #[must_use]
    pub fn capacity(mut self, pairs: usize) -> Self {
        self.wish.capacity = pairs;
        self
    }

    /// Pairs per slot when the map holds [`capacity`](Self::capacity) of them, from 0.01 to
    /// 0.95. Default [`DEFAULT_MAX_LOAD_FACTOR`]. Lower is faster and larger.
    #[must_use]
    pub fn max_load_factor(mut self, pairs_per_slot: f64) -> Self {
        self.wish.max_load_factor = pairs_per_slot;
        self
    }

    /// How many submaps the hash range is divided among, 1 to 4,096. Each is an allocation of its
    /// own; every operation touches exactly one, and growing replaces them one at a time. By
    /// default small maps have one, and large ones 16.
    #[must_use]
    pub fn submaps(mut self, submaps: u32) -> Self {
        self.wish.submaps = Some(submaps);
        self
    }

    /// What happens when pairs do not fit. Default: the capacity is doubled.
    #[must_use]
    pub fn growth(mut self, growth: Growth) -> Self {
        self.growth = growth;
        self
    }

    /// The seed of the hash function. By default each map, or all of a group, has a random one: keys that were made to
    /// collide under another seed do not collide here. With a fixed one the places of keys are
    /// the same on every run.
    #[must_use]
    pub fn hash_seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Slots of each submap, whatever the capacity: for tests.
    #[cfg(feature = "unstable-testing")]
    #[doc(hidden)]
    #[must_use]
    pub fn submap_slots(mut self, slots: &[usize]) -> Self {
        self.wish.submap_slots = Some(slots.to_vec());
        self
    }

    /// Slabs per page at most, a power of two up to 512: for tests and benchmarks. Small pages in
    /// a large map are for load factors up to 0.8.
    #[cfg(feature = "unstable-testing")]
    #[doc(hidden)]
    #[must_use]
    pub fn page_slabs(mut self, slabs: u32) -> Self {
        self.wish.page_slabs = slabs;
        self
    }

    /// From how many pairs of a batch on empty maps are built, maps in use filled page by page, and
    /// batches sorted by hash, or by rank and hash, on any device: for tests and benchmarks. [`usize::MAX`] for never.
    #[cfg(feature = "unstable-testing")]
    #[doc(hidden)]
    #[must_use]
    pub fn bulk_from(mut self, pairs: [usize; 3]) -> Self {
        self.bulk = Some(Tuning::from(pairs));
        self
    }

    /// Zeroes memory of bins before a batch is sorted into them, if batches are sorted from
    /// [so many pairs on](Self::bulk_from): for the initcheck of compute-sanitizer.
    #[cfg(feature = "unstable-testing")]
    #[doc(hidden)]
    #[must_use]
    pub fn zeroed_bins(mut self) -> Self {
        if let Some(bulk) = &mut self.bulk {
            bulk.zeroes_bins = true;
        }
        self
    }

    /// From how many bytes of the host on a batch is cut into chunks, how many bytes these have at most, and
    /// whether threads of their own copy them, on any device: for tests and benchmarks.
    #[cfg(feature = "unstable-testing")]
    #[doc(hidden)]
    #[must_use]
    pub fn chunking(mut self, from_bytes: usize, chunk_bytes: usize, has_copy_pool: bool) -> Self {
        self.chunking = Some(Chunking {
            from_bytes,
            chunk_bytes,
            has_copy_pool,
        });
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

    /// Makes the map, empty.
    ///
    /// # Errors
    /// [`Error::Setting`] for a setting out of range, [`Error::CapacityOverflow`],
    /// [`Error::OutOfMemory`], [`Error::Driver`].
    pub fn build(self) -> Result<Map<K, V>> {
        self.check()?;
        let seed = self.seed.unwrap_or_else(random_seed);
        let encoding = encoding_of(&self.device, self.encoding)?;
        let config = Config {
            wish: self.wish,
            growth: self.growth,
            tuning: self.bulk,
            chunking: self.chunking,
            seed,
            encoding,
        };
        let core = Core::build(&self.device, Pair::of::<K, V>(), config)?;
        Ok(Map::of(core))
    }

    pub(super) fn check(&self) -> Result<()> {
        let wish = &self.wish;
        Setting::MaxLoadFactor.expect(wish.max_load_factor, LEAST_LOAD..=MOST_LOAD)?;
        self.growth.check()?;
        let submaps = wish
            .submap_slots
            .as_ref()
            .map_or(wish.submaps.unwrap_or(1) as usize, Vec::len);
        Setting::Submaps.expect(submaps as f64, 1.0..=MOST_SUBMAPS as f64)?;
        let (page, pages) = (wish.page_slabs, 1.0..=MAX_PAGE_SLABS.into());
        if !page.is_power_of_two() {
            return Err(Setting::PageSlabs.refused(page.into(), pages));
        }
        Setting::PageSlabs.expect(page.into(), pages)
    }
}

/// A seed that cannot be predicted.
pub(crate) fn random_seed() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// How the device's kernels claim 16-byte slots: the PTX for older GPUs has no others than those
/// for [`Encoding::Split`]. Those of the CPU claim them as asked.
pub(crate) fn encoding_of(device: &Device, asked: Option<Encoding>) -> Result<Encoding> {
    let Kind::Cuda(context) = device.kind() else {
        return Ok(asked.unwrap_or(Encoding::Wide));
    };
    let current = context.enter()?;
    match context.function(&current, &pairs_8_8_wide::INSERT_8_8_WIDE) {
        Ok(_) => Ok(Encoding::Wide),
        Err(Error::KernelMissing { .. }) => Ok(Encoding::Split),
        Err(error) => Err(error),
    }
}
