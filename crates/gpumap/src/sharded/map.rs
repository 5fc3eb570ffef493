//! A [`Map`] over all devices of a group that one process drives.

use std::mem;
use std::sync::Arc;

use gpumap_kernels::primitives::filter::Test;
use parking_lot::Mutex;

use super::exchange::of_all;
use super::seats::{self, Seats};
use super::spread::Spread;
use super::{Rank, Ranks, Shard};
use crate::error::{Error, Result};
use crate::file::Header;
use crate::input::Source;
use crate::map::{Chunk, Held, Key, Layout, Map, MapBuilder, Place, Receiver, Value};
use crate::op::Op;
use crate::output::{Output, Sink};

/// A [`Map`] over the devices of a group, driven by one process.
pub type ShardedMap<K, V> = Map<K, V, Ranks>;

impl Place for Ranks {
    type Map<K: Key, V: Value> = Seats<Seat<K, V>>;
}

/// The part of a rank.
pub struct Seat<K: Key, V: Value> {
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

/// The name in errors.
const RECEIVER: Receiver = Receiver::Sharded;

/// What an operation does not do with memory of a device.
fn of_device(operation: &'static str) -> Error {
    Error::Unsupported {
        operation,
        form: " with arrays of a device",
        receiver: RECEIVER.name(),
    }
}

impl<K: Key, V: Value> Held<K, V> for Seats<Seat<K, V>> {
    type Place = Ranks;

    // Other ranks have other shares. And they grow while they are loaded: by a factor of a file that may be made up.
    const KEEPS_GROWTH: bool = false;

    fn build(settings: MapBuilder<K, V, Ranks>) -> Result<Self> {
        Self::new(&settings.place, |rank| {
            let shard = Shard::with(rank, settings.owner_seed, |own, share| {
                let mut of_rank = settings.at(own.place, share);
                of_rank.seed = of_rank.seed.or(own.seed);
                of_rank
            });
            shard.map(Seat::new)
        })
    }

    fn place(&self) -> &Ranks {
        self.ranks()
    }

    /// Batches and outputs are of the host.
    fn execute<A>(&self, op: Op<'_, K, V, A>) -> Result<A> {
        self.execute(RECEIVER, op, |rank, seat, batch, outputs| {
            seat.with(|shard| shard.run(rank, batch, outputs))
        })
    }

    fn len(&self) -> usize {
        self.lens().iter().sum()
    }

    fn capacity(&self) -> usize {
        self.each(|seat| seat.map().capacity()).iter().sum()
    }

    fn is_fixed(&self) -> bool {
        self.iter().any(|seat| seat.map().is_fixed())
    }

    fn reserve(&self, more: usize) -> Result<()> {
        self.of_each(|rank, shard| shard.reserve(rank, more))
            .map(drop)
    }

    fn shrink_to_fit(&self) -> Result<()> {
        self.of_each(|rank, shard| shard.shrink_to_fit(rank))
            .map(drop)
    }

    /// Of a rank that is at work, only the memory of its map.
    fn trim(&self) {
        for seat in self.iter() {
            // This thread may be one of those that work.
            match seat.shard.try_lock() {
                Some(mut shard) => shard.trim(),
                None => seat.map().trim(),
            }
        }
    }

    fn clear(&self) -> Result<()> {
        self.of_each(|rank, shard| shard.clear(rank)).map(drop)
    }

    fn retain_where(&self, keys: Test<u64>, values: Test<u64>) -> Result<usize> {
        let removed = self.of_each(|_, shard| shard.local().held.retain_where(keys, values))?;
        Ok(removed.into_iter().sum())
    }

    fn retain_keys(&self, keys: Source<'_, K>) -> Result<usize> {
        let Source::Host(keys) = keys else {
            return Err(of_device("retain_keys"));
        };
        let _alone = self.alone()?;
        self.split(keys, |rank, seat, keys| {
            seat.with(|shard| shard.retain_keys(rank, keys))
        })
    }

    /// First the pairs of rank 0, then those of rank 1, and so on.
    fn retrieve_all(&self) -> Result<(Vec<K>, Vec<V>)> {
        let _shared = self.shared()?;
        self.dump(&self.lens(), |_, seat, keys, values| {
            seat.map().retrieve_all_into(keys, values)
        })
    }

    fn retrieve_all_into(
        &self,
        keys: &mut (impl Output<K> + ?Sized),
        values: &mut (impl Output<V> + ?Sized),
    ) -> Result<usize> {
        let (Sink::Host(keys), Sink::Host(values)) = (keys.sink(), values.sink()) else {
            return Err(of_device("retrieve_all"));
        };
        let _shared = self.shared()?;
        self.dump_into(&self.lens(), (keys, values), |_, seat, keys, values| {
            seat.map().retrieve_all_into(keys, values)
        })
    }

    fn drain(&self) -> Result<(Vec<K>, Vec<V>)> {
        let _alone = self.alone()?;
        self.dump(&self.lens(), |rank, seat, keys, values| {
            seat.with(|shard| shard.drain_into(rank, keys, values))
        })
    }

    fn header(&self) -> Header {
        let pairs = self.len() as u64;
        // The ranks were given the same settings.
        let Some(map) = self.iter().next().map(Seat::map) else {
            return Header::new::<K, V>(pairs);
        };
        let header = map.held.header();
        let capacity = match Map::<K, V>::LAYOUT {
            Layout::Rows => header.capacity,
            _ => self.capacity() as u64,
        };
        Header {
            pairs,
            capacity,
            ..header
        }
    }

    fn give_chunks(
        &self,
        pairs: usize,
        give: &mut dyn FnMut(&Chunk<K, V>) -> Result<()>,
    ) -> Result<()> {
        let mut maps = self.iter().map(Seat::map);
        let mut give_all = || maps.try_for_each(|map| map.held.give_chunks(pairs, give));
        if matches!(Map::<K, V>::LAYOUT, Layout::Rows) {
            let shared = self.shared_in_turn()?;
            let _callback = shared.callback();
            return give_all();
        }
        give_all()
    }
}

impl<K: Key, V: Value> Seats<Seat<K, V>> {
    /// How many pairs each rank has.
    fn lens(&self) -> Vec<usize> {
        self.each(|seat| seat.map().len())
    }

    /// Runs work on every rank with its shard.
    fn of_each<R: Send>(
        &self,
        work: impl Fn(&mut Rank, &mut Shard<K, V>) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        self.run(|rank, seat| seat.with(|shard| work(rank, shard)))
    }
}

/// # Group
impl<K: Key, V: Value> Map<K, V, Ranks> {
    /// The group.
    pub fn ranks(&self) -> &Ranks {
        self.held.ranks()
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
        self.held.of_each(work)
    }

    /// The pairs that a rank has, on its device; see [`Shard::local`].
    ///
    /// # Errors
    /// [`Error::Group`] if there is no such rank.
    pub fn local(&self, rank: usize) -> Result<Arc<Map<K, V>>> {
        self.held.at(rank).map(Seat::map)
    }

    /// The rank that has a key, if any rank has it.
    pub fn owner(&self, key: K) -> usize {
        self.held.owner(|seat| seat.owner(&key))
    }

    /// How many pairs each rank has.
    pub fn lens(&self) -> Vec<usize> {
        self.held.lens()
    }
}

/// # Remove
impl<K: Key, V: Value> Map<K, V, Ranks> {
    /// Keeps the pairs for which `keep` says so, and removes all others: as [`Map::retain`]. Returns how many were removed. The pairs
    /// of each rank are streamed to a thread of the host, which calls `keep`: there all calls over the group are [`GroupError::Nested`](crate::sharded::GroupError::Nested).
    ///
    /// ```
    /// use gpumap::ShardedMap;
    /// use gpumap::sharded::{Ranks, devices};
    ///
    /// let map = ShardedMap::<u128, u32>::new(&Ranks::new(&devices("cpu,cpu")?)?)?;
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
}

/// # Settings of a group
impl<K: Key, V: Value> MapBuilder<K, V, Ranks> {
    /// The seed that the owners of keys follow from. By default each map has a random one. That of [the
    /// hashes](Self::hash_seed) should be another: maps are slower where they are the same.
    ///
    /// ```
    /// use gpumap::{Growth, ShardedMap};
    /// use gpumap::sharded::{Ranks, devices};
    ///
    /// let ranks = Ranks::new(&devices("cpu,cpu")?)?;
    /// let map = ShardedMap::<u64, u64>::builder(&ranks)
    ///     .capacity(1_000)
    ///     .growth(Growth::Fixed)
    ///     .owner_seed(7)
    ///     .hash_seed(8)
    ///     .build()?;
    /// assert!(map.capacity() >= 1_000);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    #[must_use]
    pub fn owner_seed(mut self, seed: u64) -> Self {
        self.owner_seed = Some(seed);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use crate::file::{Kind, Writer};
    use crate::map::{Growth, Map};
    use crate::sharded::devices;

    #[test]
    fn a_large_fixed_map_that_is_nearly_empty_is_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map");
        let ranks = Ranks::new(&devices("cpu,cpu").unwrap()).unwrap();
        for pairs in [0, 1] {
            let map = ShardedMap::<u64, u64>::builder(&ranks).capacity(2_000_000);
            let map = map.growth(Growth::Fixed).build().unwrap();
            map.insert(&vec![1; pairs], &vec![2; pairs]).unwrap();
            map.save(&path).unwrap();
            assert!(Map::<u64, u64>::load(&Device::cpu(), &path).is_err());
            let back = ShardedMap::<u64, u64>::load(&ranks, &path).unwrap();
            assert_eq!(
                (back.len(), back.held.header().growth),
                (pairs, Growth::default())
            );
            assert!(back.capacity() < 100_000, "{}", back.capacity());
        }
    }

    #[test]
    fn a_file_says_of_what_kind_keys_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map");
        let ranks = Ranks::new(&devices("cpu,cpu").unwrap()).unwrap();
        let [signed, float] = [Kind::of::<i32>(), Kind::of::<f32>()];
        let builder = || ShardedMap::<[u32; 3], u32>::builder(&ranks);
        let map = builder().key_kind(signed).build().unwrap();
        map.insert(&[[1, 2, 3]], &[4]).unwrap();
        map.save(&path).unwrap();
        assert!(Map::<[i32; 3], u32>::load(&Device::cpu(), &path).is_ok());
        assert!(ShardedMap::<[u32; 3], u32>::load(&ranks, &path).is_err());
        let load = |kind| builder().key_kind(kind).load_saved(&path);
        assert!(load(float).is_err());
        assert_eq!(load(signed).unwrap().held.header().key_kind, Some(signed));
    }

    #[test]
    fn the_growth_of_a_header_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map");
        let ranks = Ranks::new(&devices("cpu,cpu").unwrap()).unwrap();
        for growth in [Growth::By(64.0), Growth::Fixed] {
            let mut header = Header::new::<u32, u32>(1);
            header.growth = growth;
            let file = std::fs::File::create(&path).unwrap();
            let mut writer = Writer::<u32, u32, _>::new(file, &header).unwrap();
            writer.write(&[1, 2], &[3, 4]).unwrap();
            writer.finish().unwrap();
            let map = ShardedMap::<u32, u32>::load(&ranks, &path).unwrap();
            assert_eq!(map.held.header().growth, Growth::default());
            assert_eq!(map.get(&[1, 2]).unwrap(), [Some(3), Some(4)]);
        }
    }
}
