//! [`ShardedMap`]: a map over all devices of a group that one process drives.

mod change;
mod look_up;
mod persist;
mod retrieve;

use std::mem;
use std::sync::Arc;

use parking_lot::Mutex;

use super::seats::{self, Seats};
use super::spread::Spread;
use super::{Rank, Ranks, Shard};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::map::{Key, Map, MapBuilder, Receiver, Value};
#[cfg(doc)]
use crate::op;
use crate::op::{Execute, Op};

/// A map over the devices of a group, driven by one process.
///
/// | group | operations |
/// |---|---|
/// | Create | [`new`](Self::new), [`with_capacity`](Self::with_capacity), [`with`](Self::with) |
/// | Insert and update | [`insert`](Self::insert), [`upsert`](Self::upsert), [`merge`](Self::merge), [`get_or_insert`](Self::get_or_insert) |
/// | Update if present | [`update`](Self::update), [`update_with`](Self::update_with) |
/// | Look up | [`get`](Self::get), [`get_or`](Self::get_or), [`get_into`](Self::get_into), [`get_or_into`](Self::get_or_into), [`contains`](Self::contains), [`contains_into`](Self::contains_into) |
/// | Remove | [`remove`](Self::remove), [`take`](Self::take), [`retain`](Self::retain), [`retain_where`](Self::retain_where), [`retain_keys`](Self::retain_keys), [`clear`](Self::clear), [`drain`](Self::drain) |
/// | Dump | [`retrieve_all`](Self::retrieve_all), [`retrieve_all_into`](Self::retrieve_all_into), [`for_each_chunk`](Self::for_each_chunk) |
/// | Save and load | [`save`](Self::save), [`save_to`](Self::save_to), [`load`](Self::load), [`load_with`](Self::load_with), [`load_from`](Self::load_from) |
/// | Group | [`ranks`](Self::ranks), [`run`](Self::run), [`local`](Self::local), [`owner`](Self::owner) |
/// | Size and state | [`len`](Self::len), [`is_empty`](Self::is_empty), [`lens`](Self::lens) |
/// | Capacity and memory | [`capacity`](Self::capacity), [`reserve`](Self::reserve), [`shrink_to_fit`](Self::shrink_to_fit), [`trim`](Self::trim) |
///
/// Batches are slices of the host: each rank takes a chunk of them, and answers come in their order.
/// Batches that are on the devices already go through the shards themselves, by [`run`](Self::run). What
/// the map holds, counts and finds is what one [`Map`](Map) would. The same operations as data, with answers of other kinds, are in
/// [`op`].
///
/// ```
/// use gpumap::{Merge, ShardedMap};
/// use gpumap::sharded::{Ranks, devices};
///
/// let ranks = Ranks::new(&devices("cpu,cpu,cpu")?)?;
/// let counts = ShardedMap::<u32, u32>::new(&ranks)?;
/// let words: Vec<u32> = (0..3_000).map(|i| i % 1_000).collect();
/// assert_eq!(counts.merge(&words, &vec![1; words.len()], Merge::Add)?, 1_000);
/// assert_eq!(counts.get(&[999, 1_000])?, [Some(3), None]);
/// assert_eq!(counts.remove(&[0, 5, 5_000])?, 2);
///
/// let (keys, values) = counts.retrieve_all()?;
/// assert!(keys.len() == 998 && counts.len() == 998);
/// assert!(values.iter().all(|&count| count == 3));
/// # Ok::<(), gpumap::Error>(())
/// ```
///
/// # Concurrency
/// [`Send`] and [`Sync`]; the verbs may be called from any number of threads and run one after the
/// other, each over the whole group. In [work of the group](Self::run) they are
/// [`GroupError::Nested`](super::GroupError::Nested), since they would wait for it. What is
/// [counted](Self::len) meanwhile may be a part of what is under way.
/// [`GroupError`](super::GroupError) says what becomes of failures.
#[derive(Debug)]
pub struct ShardedMap<K: Key, V: Value> {
    seats: Seats<Seat<K, V>>,
}

/// The part of a rank.
#[derive(Debug)]
struct Seat<K: Key, V: Value> {
    /// Held while the rank works.
    shard: Mutex<Shard<K, V>>,
    /// The pairs of it and the owners of keys, for callers that do not wait for that.
    seen: Mutex<(Arc<Map<K, V>>, Spread)>,
}

impl<K: Key, V: Value> seats::Seat for Seat<K, V> {
    fn expect_no_callback(&self) -> Result<()> {
        self.map().storage().expect_no_callback()
    }

    fn expect_others(&self) -> Result<()> {
        self.map().storage().expect_others()
    }
}

impl<K: Key, V: Value> Seat<K, V> {
    fn new(shard: Shard<K, V>) -> Self {
        Self {
            seen: Mutex::new(Self::seen(&shard)),
            shard: Mutex::new(shard),
        }
    }

    fn seen(shard: &Shard<K, V>) -> (Arc<Map<K, V>>, Spread) {
        (Arc::clone(shard.map()), *shard.spread())
    }

    /// Runs work with the shard.
    fn with<R>(&self, work: impl FnOnce(&mut Shard<K, V>) -> R) -> R {
        let mut shard = self.shard.lock();
        let result = work(&mut shard);
        // It may be another one now.
        let seen = Self::seen(&shard);
        drop(mem::replace(&mut *self.seen.lock(), seen));
        result
    }

    fn map(&self) -> Arc<Map<K, V>> {
        Arc::clone(&self.seen.lock().0)
    }

    fn owner(&self, key: &K) -> usize {
        self.seen.lock().1.owner_of(key)
    }
}

/// # Create
impl<K: Key, V: Value> ShardedMap<K, V> {
    /// The smallest map over a group.
    ///
    /// # Errors
    /// As for [`Map::new`](Map::new); [`Error::Group`].
    pub fn new(ranks: &Ranks) -> Result<Self> {
        Self::with(ranks, None, |builder, _| builder)
    }

    /// A map that has room for this many pairs.
    ///
    /// # Errors
    /// As for [`Map::with_capacity`](Map::with_capacity); [`Error::Group`].
    pub fn with_capacity(ranks: &Ranks, pairs: usize) -> Result<Self> {
        Self::with(ranks, None, |builder, share| builder.capacity(share(pairs)))
    }

    /// A map with settings; see [`Shard::with`].
    ///
    /// ```
    /// use gpumap::{Growth, ShardedMap};
    /// use gpumap::sharded::{Ranks, devices};
    ///
    /// let ranks = Ranks::new(&devices("cpu,cpu")?)?;
    /// let map = ShardedMap::<u64, u64>::with(&ranks, Some(7), |builder, share| {
    ///     builder.capacity(share(1_000)).growth(Growth::Fixed).hash_seed(8)
    /// })?;
    /// assert!(map.capacity() >= 1_000);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`MapBuilder::build`]; [`Error::Group`].
    pub fn with(
        ranks: &Ranks,
        owner_seed: Option<u64>,
        configure: impl Fn(MapBuilder<K, V>, &dyn Fn(usize) -> usize) -> MapBuilder<K, V> + Sync,
    ) -> Result<Self> {
        let seat = |rank: &mut Rank| Shard::with(rank, owner_seed, &configure).map(Seat::new);
        let seats = Seats::new(ranks, seat)?;
        Ok(Self { seats })
    }
}

/// # Group
impl<K: Key, V: Value> ShardedMap<K, V> {
    /// The group.
    pub fn ranks(&self) -> &Ranks {
        self.seats.ranks()
    }

    /// Runs work on every rank with its shard, and returns the result of each: for batches that are
    /// on the devices. As [`Ranks::run`].
    ///
    /// ```
    /// use gpumap::{Buffer, ShardedMap, Stream};
    /// use gpumap::sharded::{Ranks, devices};
    ///
    /// let ranks = Ranks::new(&devices("cpu,cpu")?)?;
    /// let map = ShardedMap::<u32, u32>::new(&ranks)?;
    /// let new = map.run(|rank, shard| {
    ///     let stream = Stream::new(rank.device())?;
    ///     let first = 100 * rank.index() as u32;
    ///     let keys: Vec<u32> = (first..first + 100).collect();
    ///     let keys = Buffer::from_slice(&stream, &keys)?; // made on the device, most often
    ///     shard.insert(rank, &keys, &keys)
    /// })?;
    /// assert_eq!(new, [200, 200]); // each returns the count of all ranks
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of the work, and [`Error::Group`].
    pub fn run<R: Send>(
        &self,
        work: impl Fn(&mut Rank, &mut Shard<K, V>) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        self.seats
            .run(|rank, seat| seat.with(|shard| work(rank, shard)))
    }

    /// The pairs that a rank has, on its device; see [`Shard::local`].
    ///
    /// # Errors
    /// [`Error::Group`] if there is no such rank.
    pub fn local(&self, rank: usize) -> Result<Arc<Map<K, V>>> {
        self.seats.at(rank).map(Seat::map)
    }

    /// The rank that has a key, if any rank has it.
    pub fn owner(&self, key: K) -> usize {
        self.seats.owner(|seat| seat.owner(&key))
    }
}

/// # Size and state
impl<K: Key, V: Value> ShardedMap<K, V> {
    /// How many pairs it holds. Waits for nothing: of a call in flight a part may be counted.
    ///
    /// ```
    /// use gpumap::ShardedMap;
    /// use gpumap::sharded::{Ranks, devices};
    ///
    /// let map = ShardedMap::<u32, u32>::new(&Ranks::new(&devices("cpu,cpu")?)?)?;
    /// map.insert(&[1, 2, 3], &[10, 20, 30])?;
    /// assert_eq!(map.len(), 3);
    /// assert_eq!(map.run(|_, _| Ok(map.len()))?, [3, 3]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.lens().iter().sum()
    }

    /// Whether it holds no pair.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many pairs fit before some rank grows, if they are spread evenly; never less than [`len`](Self::len).
    pub fn capacity(&self) -> usize {
        self.seats.each(|seat| seat.map().capacity()).iter().sum()
    }

    /// How many pairs each rank has.
    pub fn lens(&self) -> Vec<usize> {
        self.seats.each(|seat| seat.map().len())
    }
}

/// Batches and outputs are of the host.
impl<K: Key, V: Value> Execute<K, V> for ShardedMap<K, V> {
    fn execute<A>(&self, op: Op<'_, K, V, A>) -> Result<A> {
        let by = Receiver::Sharded;
        self.seats.execute(by, op, |rank, seat, batch, outputs| {
            seat.with(|shard| shard.run(rank, batch, outputs))
        })
    }
}
