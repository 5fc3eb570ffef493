//! [`WideMap`]: a map with keys of up to 64 bytes.

mod builder;
mod core;
mod lend;
mod on_stream;
mod persist;

use std::fmt;
use std::marker::PhantomData;

use bytemuck::Pod;

pub use builder::WideMapBuilder;

pub(crate) use self::core::Core;
use crate::device::Device;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::file::Kind;
use crate::input::Input;
use crate::map::{Chunk, Merge, Operand, Outcome, Receiver, Value};
use crate::op::{self, Execute, Op};
use crate::output::Output;

/// A map from keys of 4 to 64 bytes to values of 4 or 8 bytes, in the memory of a device, which compares keys by their bits.
///
/// Keys are plain data whose size is a multiple of 4, compared by their bits: `u128`, `[u32; 3]`, UUIDs, coordinates, 128-bit hashes,
/// structs of your own. **Every bit pattern is allowed**: of floats 0.0 and -0.0 are two keys, and each NaN is one, unless
/// [`Primitives::normalize_floats`](crate::primitives::Primitives::normalize_floats) has made one of them. For keys of 4 and 8 bytes a [`Map`](crate::Map) is the better choice:
/// its pairs lie in the slots, and calls that change it run side by side. Values of `()` make a set of keys.
///
/// | group | operations |
/// |---|---|
/// | Create | [`new`](Self::new), [`with_capacity`](Self::with_capacity), [`builder`](Self::builder) |
/// | Insert and update | [`insert`](Self::insert), [`insert_with_outcome`](Self::insert_with_outcome), [`upsert`](Self::upsert), [`merge`](Self::merge), [`get_or_insert`](Self::get_or_insert) |
/// | Update if present | [`update`](Self::update), [`update_with`](Self::update_with) |
/// | Look up | [`get`](Self::get), [`get_or`](Self::get_or), [`get_into`](Self::get_into), [`get_or_into`](Self::get_or_into), [`contains`](Self::contains) |
/// | Remove | [`remove`](Self::remove), [`take`](Self::take), [`retain`](Self::retain), [`retain_keys`](Self::retain_keys), [`clear`](Self::clear), [`drain`](Self::drain) |
/// | Dump | [`retrieve_all`](Self::retrieve_all), [`retrieve_all_into`](Self::retrieve_all_into), [`for_each_chunk`](Self::for_each_chunk) |
/// | Save and load | [`save`](Self::save), [`save_to`](Self::save_to), [`load`](Self::load) |
/// | Streams, graphs | [`on`](Self::on), [`graph`](Self::graph) |
/// | Kernels of your own | [`launch_with`](Self::launch_with) |
/// | Size and memory | [`len`](Self::len), [`is_empty`](Self::is_empty), [`capacity`](Self::capacity), [`reserve`](Self::reserve), [`trim`](Self::trim), [`device`](Self::device) |
///
/// All verbs take batches: slices, vectors or arrays of the host, which are copied to the device, or
/// [`Buffer`](crate::Buffer)s, which are used where they are. They return when the device is done. The same operations as
/// data, with answers of other kinds, are in [`op`].
///
/// ```
/// use gpumap::{Device, Merge, WideMap};
///
/// let device = Device::best()?; // a GPU, or the CPU where there is none
/// let visits: WideMap<u128, u64> = WideMap::new(&device)?;
/// assert_eq!(visits.merge(&[1 << 100, 7, 1 << 100], 1, Merge::Add)?, 2); // how many keys were new
/// assert_eq!(visits.get(&[1 << 100, 8])?, [Some(2), None]);
/// assert_eq!(visits.retrieve_all()?, (vec![1 << 100, 7], vec![2, 1]));
/// # Ok::<(), gpumap::Error>(())
/// ```
///
/// A key of another size does not compile:
///
/// ```compile_fail,E0080
/// # use gpumap::{Device, WideMap};
/// let map = WideMap::<[u8; 6], u32>::new(&Device::cpu());
/// ```
///
/// # Where pairs lie
/// Keys have rows, as in a [`RowMap`](crate::RowMap), and the value of a key lies in an array at its row. So a lookup costs a trip to
/// memory for each of slot, key and value. A dump has the pairs in the order in which their keys first came, and is a copy
/// unless keys were removed. Rows of removed keys are used again when a batch would make the map grow otherwise and they are at
/// least half of all.
///
/// # Concurrency
/// `WideMap` is [`Send`] and [`Sync`], and every verb takes `&self`. Lookups and dumps run side by side. A call that changes the map
/// waits for all others, and takes effect at one moment: others see all of its batch or nothing.
///
/// # Room
/// A map grows as keys come, or refuses what does not fit ([`WideMapBuilder::growth`]). What there is no memory for is refused as a
/// whole, with the map as it was. There are up to 2^31
/// pairs, and up to 2^31 - 1 keys in a batch.
pub struct WideMap<K: Pod, V> {
    core: Core,
    /// What saved files say that the keys are.
    key_kind: Kind,
    _pair: PhantomData<fn(K) -> V>,
}

/// # Create
impl<K: Pod, V: Value> WideMap<K, V> {
    /// A map without room, which grows as keys come.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Driver`].
    pub fn new(device: &Device) -> Result<Self> {
        Self::builder(device).build()
    }

    /// A map with room for so many pairs.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::CapacityOverflow`], [`Error::Driver`].
    pub fn with_capacity(device: &Device, pairs: usize) -> Result<Self> {
        Self::builder(device).capacity(pairs).build()
    }

    /// A map with settings.
    pub fn builder(device: &Device) -> WideMapBuilder<K, V> {
        WideMapBuilder::new(device)
    }

    /// The map without the types of its pairs.
    pub(crate) fn core(&self) -> &Core {
        &self.core
    }
}

impl<K: Pod, V: Value> Execute<K, V> for WideMap<K, V> {
    fn execute<A>(&self, op: Op<'_, K, V, A>) -> Result<A> {
        op.run(Receiver::Wide, |batch, outputs| {
            self.core.run(&batch, outputs)
        })
    }
}

/// # Insert and update
impl<K: Pod, V: Value> WideMap<K, V> {
    /// Keeps the present value, unlike `HashMap::insert`: stores the pairs whose key is absent. Of several pairs of the batch
    /// with one key, the first is stored. Returns how many were.
    ///
    /// ```
    /// use gpumap::{Device, WideMap};
    /// let map = WideMap::<[u32; 3], f32>::new(&Device::cpu())?;
    /// assert_eq!(map.insert(&[[1; 3], [2; 3]], &[0.1, 0.2])?, 2);
    /// assert_eq!(map.insert(&[[2; 3], [3; 3], [3; 3]], &[9.0, 0.3, 9.0])?, 1);
    /// assert_eq!(map.get(&[[2; 3], [3; 3]])?, [Some(0.2), Some(0.3)]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::LengthMismatch`]; [`Error::OutOfMemory`], [`Error::CapacityOverflow`], or [`Error::Full`] if the map does not grow:
    /// it is as it was. [`Error::WrongDevice`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn insert(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
    ) -> Result<usize> {
        self.execute(op::insert(keys, values))
    }

    /// As [`insert`](Self::insert), and says for each pair whether it was stored.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn insert_with_outcome(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
    ) -> Result<Vec<Outcome>> {
        self.execute(op::insert(keys, values).each_outcome())
    }

    /// Stores pairs; a present key gets the new value. Of several pairs of the batch with one key, one is there in the end.
    /// Returns how many keys were new.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn upsert(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
    ) -> Result<usize> {
        self.execute(op::upsert(keys, values))
    }

    /// Merges values with those of present keys, and stores the pairs whose key is absent. Several pairs of the batch may have
    /// one key: all are merged. Returns how many keys were new. One value instead of a batch of them comes with every key.
    ///
    /// ```
    /// use gpumap::{Device, Merge, WideMap};
    /// let most = WideMap::<u128, i32>::new(&Device::cpu())?;
    /// assert_eq!(most.merge(&[5, 6, 5], &[-3, 4, 2], Merge::Max)?, 2);
    /// assert_eq!(most.get(&[5, 6])?, [Some(2), Some(4)]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn merge<Form>(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: impl Operand<V, Form>,
        merge: Merge,
    ) -> Result<usize> {
        self.execute(op::merge(keys, values, merge))
    }

    /// Stores pairs whose key is absent, and returns for each key the value that the map holds: its own where it was stored, else
    /// the one that was there.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn get_or_insert(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
    ) -> Result<Vec<V>> {
        self.execute(op::get_or_insert(keys, values))
    }
}

/// # Update if present
impl<K: Pod, V: Value> WideMap<K, V> {
    /// Gives present keys new values; absent keys stay absent. Of several pairs of the batch with one key, the value of one is
    /// there in the end. Returns how many keys of the batch were present; one that comes several times counts each time.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`]; [`Error::OutOfMemory`] before anything is changed; [`Error::WrongDevice`], [`Error::Poisoned`],
    /// [`Error::Driver`].
    pub fn update(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
    ) -> Result<usize> {
        self.execute(op::update(keys, values))
    }

    /// Merges values with those of present keys, as [`merge`](Self::merge) does; absent keys stay absent. Returns how many keys of
    /// the batch were present; one that comes several times counts each time.
    ///
    /// # Errors
    /// As for [`update`](Self::update).
    pub fn update_with<Form>(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: impl Operand<V, Form>,
        merge: Merge,
    ) -> Result<usize> {
        self.execute(op::update_with(keys, values, merge))
    }
}

/// # Look up
impl<K: Pod, V: Value> WideMap<K, V> {
    /// Looks keys up: for each its value, or none.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::WrongDevice`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn get(&self, keys: &(impl Input<K> + ?Sized)) -> Result<Vec<Option<V>>> {
        self.execute(op::get(keys))
    }

    /// Looks keys up: for each its value, or `default` where it is absent.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub fn get_or(&self, keys: &(impl Input<K> + ?Sized), default: V) -> Result<Vec<V>> {
        self.execute(op::get(keys).or(default))
    }

    /// Looks keys up into memory of the host or of the device: `found[i]` is 1 and `values[i]` the value of `keys[i]`, or both are 0
    /// where it is absent.
    ///
    /// ```
    /// use gpumap::{Buffer, Device, Stream, WideMap};
    /// let stream = Stream::new(&Device::cpu())?;
    /// let map = WideMap::<u128, u32>::new(stream.device())?;
    /// map.insert(&[1 << 80], &[10])?;
    /// let keys = Buffer::from_slice(&stream, &[3u128, 1 << 80])?;
    /// let (mut values, mut found) = (Buffer::zeroed(&stream, 2)?, Buffer::zeroed(&stream, 2)?);
    /// map.get_into(&keys, &mut values, &mut found)?;
    /// assert_eq!((values.to_vec()?, found.to_vec()?), (vec![0, 10], vec![0, 1]));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`] if an output is shorter than `keys`; else as for [`get`](Self::get).
    pub fn get_into(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &mut (impl Output<V> + ?Sized),
        found: &mut (impl Output<u8> + ?Sized),
    ) -> Result<()> {
        self.execute(op::get(keys).into(values).found(found))
    }

    /// Looks keys up into memory of the host or of the device: `values[i]` is the value of `keys[i]`, or `default` where it is
    /// absent.
    ///
    /// # Errors
    /// As for [`get_into`](Self::get_into).
    pub fn get_or_into(
        &self,
        keys: &(impl Input<K> + ?Sized),
        default: V,
        values: &mut (impl Output<V> + ?Sized),
    ) -> Result<()> {
        self.execute(op::get(keys).or(default).into(values))
    }

    /// For each key whether it is present. Does not look at values.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub fn contains(&self, keys: &(impl Input<K> + ?Sized)) -> Result<Vec<bool>> {
        self.execute(op::contains(keys))
    }
}

/// # Remove
impl<K: Pod, V: Value> WideMap<K, V> {
    /// Removes keys. Returns how many were present; a key that comes several times counts once.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] before anything is removed; [`Error::WrongDevice`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn remove(&self, keys: &(impl Input<K> + ?Sized)) -> Result<usize> {
        self.execute(op::remove(keys))
    }

    /// Removes keys, and returns their values. Of several equal keys, one gets it.
    ///
    /// ```
    /// use gpumap::{Device, WideMap};
    /// let map = WideMap::<[u64; 4], u32>::new(&Device::cpu())?;
    /// map.insert(&[[1; 4], [2; 4]], &[10, 20])?;
    /// assert_eq!(map.take(&[[2; 4], [3; 4]])?, [Some(20), None]);
    /// assert_eq!(map.len(), 1);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`remove`](Self::remove).
    pub fn take(&self, keys: &(impl Input<K> + ?Sized)) -> Result<Vec<Option<V>>> {
        self.execute(op::take(keys))
    }

    /// Keeps the pairs for which `keep` says so, and removes all others. Returns how many were removed. All pairs are streamed
    /// to the host, and all other calls wait: `keep` must not wait for one of another thread. It may look the map
    /// up; changes are [`Error::Nested`].
    ///
    /// ```
    /// use gpumap::{Device, WideMap};
    /// let map = WideMap::<u128, u32>::new(&Device::cpu())?;
    /// map.insert(&[1, 2, 3], &[10, 20, 30])?;
    /// assert_eq!(map.retain(|key, value| key != 3 && *value > 10)?, 2);
    /// assert_eq!(map.retrieve_all()?, (vec![2], vec![20]));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`remove`](Self::remove).
    pub fn retain(&self, mut keep: impl FnMut(K, &V) -> bool) -> Result<usize> {
        let keep = |key, value: &V| Ok(keep(key, value));
        self.core.retain(keep, &mut || Ok(()))
    }

    /// Keeps the pairs whose key is in the batch, and removes all others. Returns how many were removed. All pairs are streamed
    /// to the host.
    ///
    /// # Errors
    /// As for [`remove`](Self::remove).
    pub fn retain_keys(&self, keys: &(impl Input<K> + ?Sized)) -> Result<usize> {
        let keys = keys.source().into();
        self.core.retain_keys::<K, V>(keys, &mut || Ok(()))
    }

    /// Removes all pairs. The map keeps its room, and is sound again if it was [poisoned](Error::Poisoned).
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn clear(&self) -> Result<()> {
        self.core.clear()
    }

    /// Removes all pairs and returns them, as [`retrieve_all`](Self::retrieve_all) does.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] before anything is removed; [`Error::Poisoned`], [`Error::Driver`].
    pub fn drain(&self) -> Result<(Vec<K>, Vec<V>)> {
        self.core.drain(&mut || Ok(()))
    }
}

/// # Dump
impl<K: Pod, V: Value> WideMap<K, V> {
    /// Every pair: `values[i]` belongs to `keys[i]`. Keys come in the order in which they were first inserted.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn retrieve_all(&self) -> Result<(Vec<K>, Vec<V>)> {
        self.core.retrieve_all()
    }

    /// Hands all pairs to `take` in chunks of at most `pairs`, in the order in which the keys were first inserted, until that
    /// fails. Calls that change the map wait meanwhile: so it has the pairs of one moment, and are [`Error::Nested`] in `take`, which may
    /// look keys up. It must not wait for a call of another thread that changes the map.
    ///
    /// # Errors
    /// As for [`retrieve_all`](Self::retrieve_all), and those of `take`.
    pub fn for_each_chunk(
        &self,
        pairs: usize,
        mut take: impl FnMut(&Chunk<K, V>) -> Result<()>,
    ) -> Result<()> {
        self.core.give_chunks(pairs, &mut take)
    }

    /// Every pair, into memory of the host or of the device. Returns how many there are.
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`], before anything is written; else as for [`retrieve_all`](Self::retrieve_all).
    pub fn retrieve_all_into(
        &self,
        keys: &mut (impl Output<K> + ?Sized),
        values: &mut (impl Output<V> + ?Sized),
    ) -> Result<usize> {
        self.core.retrieve_all_into(keys, values)
    }
}

/// # Size and memory
impl<K: Pod, V: Value> WideMap<K, V> {
    /// How many pairs there are.
    pub fn len(&self) -> usize {
        self.core.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many pairs there can be without more memory. Removed keys take some of it until their rows are used again.
    pub fn capacity(&self) -> usize {
        self.core.capacity()
    }

    /// Makes room for `more` pairs beside those that there are, also in a map that does not grow by itself.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::CapacityOverflow`]: the map is as it was. [`Error::Poisoned`], [`Error::Driver`].
    pub fn reserve(&self, more: usize) -> Result<()> {
        self.core.reserve(more)
    }

    /// Frees the scratch memory that no call is using; see [`Map::trim`](crate::Map::trim).
    pub fn trim(&self) {
        self.core.scratch().trim();
    }

    /// The device it lives on.
    pub fn device(&self) -> &Device {
        self.core.device()
    }
}

impl<K: Pod, V: Value> fmt::Debug for WideMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WideMap")
            .field("device", self.device())
            .field("len", &self.len())
            .field("key_bytes", &size_of::<K>())
            .finish_non_exhaustive()
    }
}
