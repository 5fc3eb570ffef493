//! [`ShardedWideMap`]: a map with wide keys over all devices of a group that one process drives.

use bytemuck::Pod;

use super::super::exchange::of_all;
use super::super::seats::{Seat, Seats};
use super::super::{Rank, Ranks};
use super::WideShard;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::map::{Chunk, Merge, Operand, Receiver, Value};
use crate::op::{self, Execute, Op};
#[cfg(doc)]
use crate::sharded::GroupError;
use crate::wide::{WideMap, WideMapBuilder};

/// A map with keys of 4 to 64 bytes over the devices of a group, driven by one process.
///
/// Keys and values are those of a [`WideMap`], and the map holds, counts and finds what one would. Which rank has a pair follows from the
/// hash of its key.
///
/// | group | operations |
/// |---|---|
/// | Create | [`new`](Self::new), [`with_capacity`](Self::with_capacity), [`with`](Self::with) |
/// | Insert and update | [`insert`](Self::insert), [`upsert`](Self::upsert), [`merge`](Self::merge), [`get_or_insert`](Self::get_or_insert) |
/// | Update if present | [`update`](Self::update), [`update_with`](Self::update_with) |
/// | Look up | [`get`](Self::get), [`get_or`](Self::get_or), [`get_into`](Self::get_into), [`get_or_into`](Self::get_or_into), [`contains`](Self::contains), [`contains_into`](Self::contains_into) |
/// | Remove | [`remove`](Self::remove), [`take`](Self::take), [`retain`](Self::retain), [`retain_keys`](Self::retain_keys), [`clear`](Self::clear), [`drain`](Self::drain) |
/// | Dump | [`retrieve_all`](Self::retrieve_all), [`retrieve_all_into`](Self::retrieve_all_into), [`for_each_chunk`](Self::for_each_chunk) |
/// | Save and load | [`save`](Self::save), [`save_to`](Self::save_to), [`load`](Self::load), [`load_from`](Self::load_from) |
/// | Group | [`ranks`](Self::ranks), [`run`](Self::run), [`local`](Self::local), [`owner`](Self::owner) |
/// | Size and memory | [`len`](Self::len), [`is_empty`](Self::is_empty), [`lens`](Self::lens), [`capacity`](Self::capacity), [`reserve`](Self::reserve), [`trim`](Self::trim) |
///
/// Batches are slices of the host: each rank takes a chunk of them, and answers come in their order. Batches that are on the devices
/// already go through the shards themselves, by [`run`](Self::run). The same operations as data, with answers of other kinds, are in
/// [`op`].
///
/// ```
/// use gpumap::sharded::{Ranks, devices};
/// use gpumap::{Merge, ShardedWideMap};
///
/// let ranks = Ranks::new(&devices("cpu,cpu")?)?; // or "cuda:0,cuda:1"
/// let visits = ShardedWideMap::<u128, u64>::new(&ranks)?;
/// assert_eq!(visits.merge(&[1 << 100, 7, 1 << 100], 1, Merge::Add)?, 2); // how many keys were new
/// assert_eq!(visits.get(&[1 << 100, 8])?, [Some(2), None]);
/// assert_eq!(visits.remove(&[7, 8])?, 1);
/// assert_eq!(visits.retrieve_all()?, (vec![1 << 100], vec![2]));
/// # Ok::<(), gpumap::Error>(())
/// ```
///
/// # Equal keys
/// Of several pairs of a batch with one key, [`insert`](Self::insert) stores the first; after [`upsert`](Self::upsert) and
/// [`update`](Self::update) the value of one is there; merges merge all. A [`WideMap`] says the same.
///
/// # Concurrency
/// [`Send`] and [`Sync`]; the verbs may be called from any number of threads and run one after the other, each over the whole group.
/// In [work of the group](Self::run) they are [`GroupError::Nested`], since they would wait for it. A batch is not one moment for what
/// looks at one rank alone, by [`local`](Self::local) or [`len`](Self::len): of a call in flight some ranks may have done their part.
///
/// # Room
/// A batch that some rank has no memory for, or no room if its capacity is fixed, is refused by all ranks before any changes a pair. The
/// error is that of the rank. After a failure of a device, [`Error::Driver`], other ranks may have done their part; its own is
/// [`Error::Poisoned`] until [`clear`](Self::clear) if it failed half-way.
#[derive(Debug)]
pub struct ShardedWideMap<K: Pod, V: Value> {
    seats: Seats<WideShard<K, V>>,
}

impl<K: Pod + Send + Sync, V: Value> Seat for WideShard<K, V> {
    fn expect_no_callback(&self) -> Result<()> {
        self.local().core().expect_no_callback()
    }

    fn expect_others(&self) -> Result<()> {
        self.local().core().expect_others()
    }
}

/// # Create
impl<K: Pod + Send + Sync, V: Value> ShardedWideMap<K, V> {
    /// A map without room over a group, which grows as keys come.
    ///
    /// # Errors
    /// As for [`WideMap::new`]; [`Error::Group`].
    pub fn new(ranks: &Ranks) -> Result<Self> {
        Self::with(ranks, None, |builder, _| builder)
    }

    /// A map with room for so many pairs in all.
    ///
    /// # Errors
    /// As for [`WideMap::with_capacity`]; [`Error::Group`].
    pub fn with_capacity(ranks: &Ranks, pairs: usize) -> Result<Self> {
        Self::with(ranks, None, |builder, share| builder.capacity(share(pairs)))
    }

    /// A map with settings; see [`WideShard::with`].
    ///
    /// ```
    /// use gpumap::sharded::{Ranks, devices};
    /// use gpumap::{Growth, ShardedWideMap};
    ///
    /// let ranks = Ranks::new(&devices("cpu,cpu")?)?;
    /// let map = ShardedWideMap::<u128, u32>::with(&ranks, Some(7), |builder, share| {
    ///     builder.capacity(share(1_000)).growth(Growth::Fixed)
    /// })?;
    /// assert!(map.capacity() >= 1_000);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`WideMapBuilder::build`]; [`Error::Group`].
    pub fn with(
        ranks: &Ranks,
        owner_seed: Option<u64>,
        configure: impl Fn(WideMapBuilder<K, V>, &dyn Fn(usize) -> usize) -> WideMapBuilder<K, V> + Sync,
    ) -> Result<Self> {
        let seats = Seats::new(ranks, |rank| WideShard::with(rank, owner_seed, &configure))?;
        Ok(Self { seats })
    }
}

/// # Group
impl<K: Pod + Send + Sync, V: Value> ShardedWideMap<K, V> {
    /// The group.
    pub fn ranks(&self) -> &Ranks {
        self.seats.ranks()
    }

    /// Runs work on every rank with its shard, and returns the result of each: for batches that are on the devices. As [`Ranks::run`].
    ///
    /// ```
    /// use gpumap::sharded::{Ranks, devices};
    /// use gpumap::{Buffer, ShardedWideMap, Stream};
    ///
    /// let ranks = Ranks::new(&devices("cpu,cpu")?)?;
    /// let map = ShardedWideMap::<u128, u32>::new(&ranks)?;
    /// let new = map.run(|rank, shard| {
    ///     let stream = Stream::new(rank.device())?;
    ///     let first = 100 * rank.index() as u128;
    ///     let keys: Vec<u128> = (first..first + 150).collect();
    ///     let keys = Buffer::from_slice(&stream, &keys)?; // made on the device, most often
    ///     let values = Buffer::from_slice(&stream, &[7u32; 150])?;
    ///     shard.insert(rank, &keys, &values)
    /// })?;
    /// assert_eq!(new, [250, 250]); // each returns the count of all ranks
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of the work, and [`Error::Group`].
    pub fn run<R: Send>(
        &self,
        work: impl Fn(&mut Rank, &WideShard<K, V>) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        self.seats.run(work)
    }

    /// The pairs of one rank, on its device. See [`WideShard::local`].
    ///
    /// ```
    /// use gpumap::ShardedWideMap;
    /// use gpumap::sharded::{Ranks, devices};
    ///
    /// let map = ShardedWideMap::<u128, u32>::new(&Ranks::new(&devices("cpu,cpu")?)?)?;
    /// map.insert(&[7], &[70])?;
    /// assert_eq!(map.local(map.owner(7))?.get(&[7])?, [Some(70)]);
    /// assert!(map.local(2).is_err());
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// While a closure keeps it from changing ([`WideMap::for_each_chunk`]), changes of the map over the group by the same thread are
    /// [`Error::Nested`]; call none of another rank: a call of another thread that changes pairs holds all of them until the ranks agree.
    ///
    /// # Errors
    /// [`GroupError::NoSuchRank`].
    pub fn local(&self, rank: usize) -> Result<&WideMap<K, V>> {
        self.seats.at(rank).map(WideShard::local)
    }

    /// The rank that has a key, if any rank has it.
    pub fn owner(&self, key: K) -> usize {
        self.seats.owner(|shard| shard.owner(key))
    }
}

/// Batches and outputs are of the host.
impl<K: Pod + Send + Sync, V: Value> Execute<K, V> for ShardedWideMap<K, V> {
    fn execute<A>(&self, op: Op<'_, K, V, A>) -> Result<A> {
        let by = Receiver::ShardedWide;
        self.seats.execute(by, op, |rank, shard, batch, outputs| {
            shard.run(rank, &batch, outputs, Ok(()))
        })
    }
}

/// # Insert and update
impl<K: Pod + Send + Sync, V: Value> ShardedWideMap<K, V> {
    /// Keeps the present value, unlike `HashMap::insert`: as [`WideMap::insert`]. Returns how many pairs were stored.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`]; [`Error::OutOfMemory`], [`Error::CapacityOverflow`], or [`Error::Full`] if the map does not grow: it is
    /// as it was, on all ranks. [`Error::Poisoned`], [`Error::Driver`], [`Error::Group`].
    pub fn insert(&self, keys: &[K], values: &[V]) -> Result<usize> {
        self.execute(op::insert(keys, values))
    }

    /// As [`WideMap::upsert`]. Returns how many keys were new.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn upsert(&self, keys: &[K], values: &[V]) -> Result<usize> {
        self.execute(op::upsert(keys, values))
    }

    /// As [`WideMap::merge`]. Returns how many keys were new.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn merge<Form>(
        &self,
        keys: &[K],
        values: impl Operand<V, Form>,
        merge: Merge,
    ) -> Result<usize> {
        self.execute(op::merge(keys, values, merge))
    }

    /// As [`WideMap::get_or_insert`]: what the map has for each key afterwards.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn get_or_insert(&self, keys: &[K], values: &[V]) -> Result<Vec<V>> {
        self.execute(op::get_or_insert(keys, values))
    }
}

/// # Update if present
impl<K: Pod + Send + Sync, V: Value> ShardedWideMap<K, V> {
    /// As [`WideMap::update`]. Returns how many keys of the batch were present.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`]; [`Error::OutOfMemory`] before anything is changed; [`Error::Poisoned`], [`Error::Driver`],
    /// [`Error::Group`].
    pub fn update(&self, keys: &[K], values: &[V]) -> Result<usize> {
        self.execute(op::update(keys, values))
    }

    /// As [`WideMap::update_with`]. Returns how many keys of the batch were present.
    ///
    /// # Errors
    /// As for [`update`](Self::update).
    pub fn update_with<Form>(
        &self,
        keys: &[K],
        values: impl Operand<V, Form>,
        merge: Merge,
    ) -> Result<usize> {
        self.execute(op::update_with(keys, values, merge))
    }
}

/// # Look up
impl<K: Pod + Send + Sync, V: Value> ShardedWideMap<K, V> {
    /// Looks keys up: for each its value, or none.
    ///
    /// # Errors
    /// As for [`WideMap::get`], of any rank; [`Error::Group`].
    pub fn get(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        self.execute(op::get(keys))
    }

    /// Looks keys up: for each its value, or `default` where it is absent.
    ///
    /// ```
    /// use gpumap::ShardedWideMap;
    /// use gpumap::sharded::{Ranks, devices};
    ///
    /// let map = ShardedWideMap::<u128, u32>::new(&Ranks::new(&devices("cpu,cpu")?)?)?;
    /// map.insert(&[1, 2], &[10, 20])?;
    /// assert_eq!(map.get_or(&[2, 3], 7)?, [20, 7]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub fn get_or(&self, keys: &[K], default: V) -> Result<Vec<V>> {
        self.execute(op::get(keys).or(default))
    }

    /// As [`get_or`](Self::get_or), into memory of the host.
    ///
    /// # Errors
    /// As for [`get_into`](Self::get_into).
    pub fn get_or_into(&self, keys: &[K], default: V, values: &mut [V]) -> Result<()> {
        self.execute(op::get(keys).or(default).into(values))
    }

    /// Looks keys up into memory of the host: `found[i]` is 1 and `values[i]` the value of `keys[i]`, or both are 0 where it is absent.
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`] if an output is shorter than `keys`; else as for [`get`](Self::get).
    pub fn get_into(&self, keys: &[K], values: &mut [V], found: &mut [u8]) -> Result<()> {
        self.execute(op::get(keys).into(values).found(found))
    }

    /// For each key whether it is present.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub fn contains(&self, keys: &[K]) -> Result<Vec<bool>> {
        self.execute(op::contains(keys))
    }

    /// As [`contains`](Self::contains), into memory of the host: `found[i]` is 1 if `keys[i]` is present, or 0.
    ///
    /// # Errors
    /// As for [`get_into`](Self::get_into).
    pub fn contains_into(&self, keys: &[K], found: &mut [u8]) -> Result<()> {
        self.execute(op::contains(keys).found(found))
    }
}

/// # Remove, and reserve
impl<K: Pod + Send + Sync, V: Value> ShardedWideMap<K, V> {
    /// Removes keys. Returns how many were present; a key that comes several times counts once.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] before anything is removed on any rank; [`Error::Poisoned`], [`Error::Driver`], [`Error::Group`].
    pub fn remove(&self, keys: &[K]) -> Result<usize> {
        self.execute(op::remove(keys))
    }

    /// Removes keys, and returns their values. Of several equal keys, one gets it.
    ///
    /// ```
    /// use gpumap::ShardedWideMap;
    /// use gpumap::sharded::{Ranks, devices};
    ///
    /// let map = ShardedWideMap::<u128, u32>::new(&Ranks::new(&devices("cpu,cpu")?)?)?;
    /// map.insert(&[1, 2], &[10, 20])?;
    /// assert_eq!(map.take(&[3, 2])?, [None, Some(20)]);
    /// assert_eq!(map.len(), 1);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`remove`](Self::remove).
    pub fn take(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        self.execute(op::take(keys))
    }

    /// Keeps the pairs for which `keep` says so, and removes all others: as [`WideMap::retain`]. Returns how many were removed. The pairs
    /// of each rank are streamed to a thread of the host, which calls `keep`: there all calls over the group are [`GroupError::Nested`].
    ///
    /// ```
    /// use gpumap::ShardedWideMap;
    /// use gpumap::sharded::{Ranks, devices};
    ///
    /// let map = ShardedWideMap::<u128, u32>::new(&Ranks::new(&devices("cpu,cpu")?)?)?;
    /// map.insert(&[1, 2, 3], &[10, 20, 30])?;
    /// assert_eq!(map.retain(|key, value| key != 3 && *value > 10)?, 2);
    /// assert_eq!(map.retrieve_all()?, (vec![2], vec![20]));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`remove`](Self::remove).
    pub fn retain(&self, keep: impl Fn(K, &V) -> bool + Sync) -> Result<usize> {
        let removed = self.run(|rank, shard| shard.retain(rank, &keep))?;
        Ok(of_all(removed))
    }

    /// Keeps the pairs whose key is in the batch, and removes all others: as [`WideMap::retain_keys`]. Returns how many were removed.
    ///
    /// ```
    /// use gpumap::ShardedWideMap;
    /// use gpumap::sharded::{Ranks, devices};
    ///
    /// let map = ShardedWideMap::<u128, u32>::new(&Ranks::new(&devices("cpu,cpu")?)?)?;
    /// map.insert(&[1, 2, 3], &[10, 20, 30])?;
    /// assert_eq!(map.retain_keys(&[3, 4])?, 2);
    /// assert_eq!(map.retrieve_all()?, (vec![3], vec![30]));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`remove`](Self::remove).
    pub fn retain_keys(&self, keys: &[K]) -> Result<usize> {
        let _alone = self.seats.alone()?;
        self.seats
            .split(keys, |rank, shard, keys| shard.retain_keys(rank, keys))
    }

    /// Removes all pairs and returns them, as [`retrieve_all`](Self::retrieve_all) has them. No other call comes in between.
    ///
    /// ```
    /// use gpumap::ShardedWideMap;
    /// use gpumap::sharded::{Ranks, devices};
    ///
    /// let map = ShardedWideMap::<u128, u32>::new(&Ranks::new(&devices("cpu,cpu")?)?)?;
    /// map.insert(&[1], &[10])?;
    /// assert_eq!(map.drain()?, (vec![1], vec![10]));
    /// assert!(map.is_empty());
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`retrieve_all`](Self::retrieve_all), of any rank, before any pair is removed. After [`Error::Driver`] some ranks may have
    /// removed theirs.
    pub fn drain(&self) -> Result<(Vec<K>, Vec<V>)> {
        let _alone = self.seats.alone()?;
        self.seats.dump(&self.lens(), |rank, shard, keys, values| {
            shard.drain_into(rank, keys, values)
        })
    }

    /// Removes all pairs. The map keeps its room, and is sound again if it was [poisoned](Error::Poisoned).
    ///
    /// # Errors
    /// [`Error::Driver`], [`Error::Group`].
    pub fn clear(&self) -> Result<()> {
        self.run(|rank, shard| shard.clear(rank)).map(drop)
    }

    /// Makes room for `more` pairs in all beside those that there are.
    ///
    /// # Errors
    /// As for [`WideMap::reserve`], of any rank, which leaves the room that other ranks have made; [`Error::Group`].
    pub fn reserve(&self, more: usize) -> Result<()> {
        self.run(|rank, shard| shard.reserve(rank, more)).map(drop)
    }

    /// Frees the memory that no call is using; see [`WideShard::trim`].
    pub fn trim(&self) {
        self.seats.iter().for_each(WideShard::trim);
    }
}

/// # Dump
impl<K: Pod + Send + Sync, V: Value> ShardedWideMap<K, V> {
    /// Every pair: first those of rank 0, in the order in which their keys were first inserted, then those of rank 1, and so on. For each
    /// rank's own, on its device, there is [`WideMap::retrieve_all_into`] of [`local`](Self::local).
    ///
    /// # Errors
    /// As for [`WideMap::retrieve_all`], of any rank; [`Error::Group`].
    pub fn retrieve_all(&self) -> Result<(Vec<K>, Vec<V>)> {
        let _shared = self.seats.shared()?;
        self.seats.dump(&self.lens(), |_, shard, keys, values| {
            shard.local().retrieve_all_into(keys, values)
        })
    }

    /// Every pair, as [`retrieve_all`](Self::retrieve_all) has them, into memory of the host. Returns how many there are.
    ///
    /// ```
    /// use gpumap::ShardedWideMap;
    /// use gpumap::sharded::{Ranks, devices};
    ///
    /// let map = ShardedWideMap::<u128, u32>::new(&Ranks::new(&devices("cpu,cpu")?)?)?;
    /// map.insert(&[7], &[70])?;
    /// let (mut keys, mut values) = ([0; 2], [0; 2]);
    /// assert_eq!(map.retrieve_all_into(&mut keys, &mut values)?, 1);
    /// assert_eq!((keys, values), ([7, 0], [70, 0]));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`] if the pairs do not fit, before anything is written; else as for [`retrieve_all`](Self::retrieve_all).
    pub fn retrieve_all_into(&self, keys: &mut [K], values: &mut [V]) -> Result<usize> {
        let _shared = self.seats.shared()?;
        self.seats
            .dump_into(&self.lens(), (keys, values), |_, shard, keys, values| {
                shard.local().retrieve_all_into(keys, values)
            })
    }

    /// Hands all pairs to `take` in chunks of at most `pairs`, in the order of [`retrieve_all`](Self::retrieve_all), until that fails. Calls
    /// that change the map wait meanwhile, so it has the pairs of one moment, and are [`Error::Nested`] in `take`, which may look
    /// keys up. It must not wait for a call of another thread that changes the map.
    ///
    /// ```
    /// use gpumap::ShardedWideMap;
    /// use gpumap::sharded::{Ranks, devices};
    ///
    /// let map = ShardedWideMap::<u128, u32>::new(&Ranks::new(&devices("cpu,cpu")?)?)?;
    /// map.insert(&[1, 2, 3], &[10, 20, 30])?;
    /// let mut seen = 0;
    /// map.for_each_chunk(2, |chunk| {
    ///     assert!(chunk.len() <= 2);
    ///     seen += chunk.len();
    ///     Ok(())
    /// })?;
    /// assert_eq!(seen, 3);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`WideMap::for_each_chunk`], of any rank; [`GroupError::Nested`] in work of the group; those of `take`.
    pub fn for_each_chunk(
        &self,
        pairs: usize,
        mut take: impl FnMut(&Chunk<K, V>) -> Result<()>,
    ) -> Result<()> {
        self.give_all_chunks(pairs, &mut take)
    }

    /// What [`for_each_chunk`](Self::for_each_chunk) does.
    pub(super) fn give_all_chunks(
        &self,
        pairs: usize,
        give: &mut dyn FnMut(&Chunk<K, V>) -> Result<()>,
    ) -> Result<()> {
        let shared = self.seats.shared_in_turn()?;
        let _callback = shared.callback();
        let mut maps = self.seats.iter().map(WideShard::local);
        maps.try_for_each(|map| map.core().give_chunks(pairs, give))
    }
}

/// # Size
impl<K: Pod + Send + Sync, V: Value> ShardedWideMap<K, V> {
    /// How many pairs there are. Waits for nothing: of a call in flight a part may be counted.
    pub fn len(&self) -> usize {
        self.lens().iter().sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many pairs each rank has.
    pub fn lens(&self) -> Vec<usize> {
        self.seats.each(|shard| shard.local().len())
    }

    /// How many pairs fit before some rank grows, if they are spread evenly.
    pub fn capacity(&self) -> usize {
        let capacities = self.seats.each(|shard| shard.local().capacity());
        capacities.iter().sum()
    }
}
