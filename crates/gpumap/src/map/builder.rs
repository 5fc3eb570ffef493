//! [`MapBuilder`]: a map with other than the usual settings.

use std::hash::{BuildHasher, RandomState};
use std::marker::PhantomData;

use gpumap_kernels::kernels::{Encoding, pairs_8_8_wide};
use gpumap_kernels::table::MAX_PAGE_SLABS;

use super::shape::Wish;
use super::storage::Store;
use super::tuning::Tuning;
use super::{Config, Core, Held, Key, Layout, Map, Pair, Place, Value, arena, has_words};
use crate::device::{Device, Kind};
use crate::error::{Error, Result, Setting};
use crate::file::{self, Kinds};
use crate::rows::Growing;
use crate::scratch::Chunking;
use crate::wide::{self, ValueForm};

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

/// Settings of a map to be; made by [`Map::builder`]. Over a group each rank has them, with its share of the capacity.
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
pub struct MapBuilder<K, V, P = Device> {
    pub(crate) place: P,
    /// What the owners of keys follow from, over a group.
    pub(crate) owner_seed: Option<u64>,
    pub(super) wish: Wish,
    pub(crate) seed: Option<u64>,
    encoding: Option<Encoding>,
    /// None is the layout's default.
    pub(super) growth: Option<Growth>,
    pub(crate) kinds: Kinds,
    bulk: Option<Tuning>,
    chunking: Option<Chunking>,
    _pair: PhantomData<fn(K) -> V>,
}

impl<K: Key, V: Value, P: Place> MapBuilder<K, V, P> {
    pub(super) fn new(place: &P) -> Self {
        Self {
            place: place.clone(),
            owner_seed: None,
            wish: Wish {
                capacity: 0,
                max_load_factor: DEFAULT_MAX_LOAD_FACTOR,
                submaps: None,
                submap_slots: None,
                page_slabs: MAX_PAGE_SLABS,
            },
            seed: None,
            encoding: None,
            growth: None,
            kinds: Kinds::of::<K, V>(),
            bulk: None,
            chunking: None,
            _pair: PhantomData,
        }
    }

    /// How many pairs must fit before it grows, over a group in all ranks together. Default 0, which gives the smallest map.
    #[must_use]
    pub fn capacity(mut self, pairs: usize) -> Self {
        self.wish.capacity = pairs;
        self
    }

    /// Pairs per slot when the map holds [`capacity`](Self::capacity) of them, from 0.01 to
    /// 0.95. Default [`DEFAULT_MAX_LOAD_FACTOR`]. Lower is faster and larger. Not of the layout [`Rows`](Layout::Rows), whose
    /// tables have 7 rows for 10 slots at most.
    #[must_use]
    pub fn max_load_factor(mut self, pairs_per_slot: f64) -> Self {
        self.wish.max_load_factor = pairs_per_slot;
        self
    }

    /// How many submaps the hash range is divided among, 1 to 4,096. Each is an allocation of its
    /// own; every operation touches exactly one, and growing replaces them one at a time. By
    /// default small maps have one, and large ones 16. Not of the layout [`Rows`](Layout::Rows), which has one table.
    #[must_use]
    pub fn submaps(mut self, submaps: u32) -> Self {
        self.wish.submaps = Some(submaps);
        self
    }

    /// What happens when pairs do not fit. Default: the capacity is doubled; with the layout [`Rows`](Layout::Rows) there are twice as
    /// many slots, and memory for half as many pairs again.
    ///
    /// A map of the layout `Rows` that is [fixed](Growth::Fixed) has the very capacity, in which the room of removed keys is used
    /// again. A large batch of repeated new keys takes memory for as many slots for a while.
    ///
    /// ```
    /// use gpumap::{Device, Error, Growth, Map};
    /// let map = Map::<u128, u32>::builder(&Device::cpu()).capacity(2).growth(Growth::Fixed).build()?;
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

    /// The seed of the hash function. By default each map, or all of a group, has a random one: keys that were made to
    /// collide under another seed do not collide here. With a fixed one the places of keys are
    /// the same on every run.
    #[must_use]
    pub fn hash_seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// What the keys are, which saved files say: a file with keys of another kind is not [loaded](Self::load). Default: what a number or
    /// an array of numbers is by its type; a type of your own is [bytes](crate::file::Kind::Bytes), which fit every kind.
    ///
    /// ```
    /// use gpumap::file::Kind;
    /// use gpumap::{Device, Map};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("cells.gpumap");
    ///
    /// #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
    /// #[repr(C)]
    /// struct Cell(i32, i32, i32);
    /// let builder = || Map::<Cell, f32>::builder(&Device::cpu()).key_kind(Kind::of::<i32>());
    /// builder().build()?.save(&path)?;
    /// assert!(builder().load(&path).is_ok());
    /// assert!(Map::<[i32; 3], f32>::load(&Device::cpu(), &path).is_ok());
    /// assert!(Map::<[f32; 3], f32>::load(&Device::cpu(), &path).is_err());
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    #[must_use]
    pub fn key_kind(mut self, kind: file::Kind) -> Self {
        self.kinds.key = kind;
        self
    }

    /// What the values are, as [`key_kind`](Self::key_kind) says it of keys.
    #[must_use]
    pub fn value_kind(mut self, kind: file::Kind) -> Self {
        self.kinds.value = kind;
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
    pub fn build(self) -> Result<Map<K, V, P>> {
        self.check()?;
        Held::build(self).map(|held| Map { held })
    }

    /// The same settings for a map of so many pairs elsewhere.
    pub(crate) fn at<Q>(
        &self,
        place: Q,
        capacity: impl FnOnce(usize) -> usize,
    ) -> MapBuilder<K, V, Q> {
        let mut wish = self.wish.clone();
        wish.capacity = capacity(wish.capacity);
        MapBuilder {
            place,
            owner_seed: None,
            wish,
            seed: self.seed,
            encoding: self.encoding,
            growth: self.growth,
            kinds: self.kinds,
            bulk: self.bulk,
            chunking: self.chunking,
            _pair: PhantomData,
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        let wish = &self.wish;
        Setting::MaxLoadFactor.expect(wish.max_load_factor, LEAST_LOAD..=MOST_LOAD)?;
        self.growth.map_or(Ok(()), Growth::check)?;
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

impl<K: Key, V: Value> MapBuilder<K, V> {
    /// The memory of a map on a device.
    pub(super) fn store(&self) -> Result<Store> {
        let seed = self.seed.unwrap_or_else(random_seed);
        let pair = Pair::of::<K, V>();
        Ok(match Map::<K, V>::LAYOUT {
            Layout::Inline => Store::Inline(self.table(pair, seed)?),
            Layout::Cells => {
                let ids = self.table(arena::Core::pair_of_ids(pair.key), seed)?;
                let growth = self.growth.unwrap_or_default();
                Store::Cells(Box::new(arena::Core::new(ids, pair.value, growth)?))
            }
            Layout::Rows => {
                let capacity = self.wish.capacity;
                let form = match has_words::<V>() {
                    true => ValueForm::Words,
                    false => ValueForm::Bytes,
                };
                let core = wide::Core::new(&self.place, (pair, form), capacity, seed)?;
                Store::Rows(core.growing(Growing::of(self.growth, capacity)))
            }
        })
    }

    /// A table with the settings, for keys and values of so many bytes.
    fn table(&self, pair: Pair, seed: u64) -> Result<Core> {
        let config = Config {
            wish: self.wish.clone(),
            growth: self.growth.unwrap_or_default(),
            tuning: self.bulk,
            chunking: self.chunking,
            seed,
            encoding: encoding_of(&self.place, self.encoding)?,
        };
        Core::build(&self.place, pair, config)
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
