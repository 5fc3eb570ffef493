//! [`ShardedRowMap`]: a row map over all devices of a group that one process drives.

use bytemuck::Pod;

use super::super::host_chunks::{HostChunks, chunk};
use super::super::seats::{Seat, Seats};
use super::super::{Rank, Ranks};
use super::{RowShard, ShardRow, present};
#[cfg(doc)]
use crate::error::Error;
use crate::error::{Result, expect_room};
use crate::memory::{host_vec, host_zeroed};
use crate::rows::{RowMap, RowMapBuilder};
#[cfg(doc)]
use crate::sharded::GroupError;

/// A row map over the devices of a group, driven by one process: each key has a place, which is the rank that owns it and a dense
/// row there.
///
/// Which rank owns a key follows from its hash. The rows of each rank are 0, 1, 2 and so on, in the order in which keys first come,
/// so values are plain arrays of the caller, one on each device, as long as [`row_bounds`](Self::row_bounds) says. Keys are
/// those of a [`RowMap`]: plain data of 4 to 64 bytes, a multiple of 4, with every bit pattern allowed.
///
/// | group | operations |
/// |---|---|
/// | Create | [`new`](Self::new), [`with_capacity`](Self::with_capacity), [`with`](Self::with) |
/// | Insert | [`insert`](Self::insert), [`insert_into`](Self::insert_into), [`insert_with_outcome_into`](Self::insert_with_outcome_into) |
/// | Look up | [`get`](Self::get), [`get_into`](Self::get_into) |
/// | Dump | [`retrieve_all`](Self::retrieve_all), [`for_each_chunk`](Self::for_each_chunk) |
/// | Remove | [`remove`](Self::remove), [`clear`](Self::clear) |
/// | Make rows dense | [`compact`](Self::compact) |
/// | Save and load | [`save`](Self::save), [`save_to`](Self::save_to), [`load`](Self::load), [`load_with`](Self::load_with), [`load_from`](Self::load_from) |
/// | Group | [`ranks`](Self::ranks), [`run`](Self::run), [`local`](Self::local), [`owner`](Self::owner) |
/// | Size and memory | [`len`](Self::len), [`is_empty`](Self::is_empty), [`lens`](Self::lens), [`row_bounds`](Self::row_bounds), [`capacity`](Self::capacity), [`reserve`](Self::reserve), [`trim`](Self::trim) |
///
/// Batches are slices of the host: each rank takes a chunk of them, and places come in their order. Batches that are on the devices
/// already go through the shards themselves, by [`run`](Self::run).
///
/// ```
/// use gpumap::ShardedRowMap;
/// use gpumap::sharded::{Ranks, ShardRow, devices};
///
/// let ranks = Ranks::new(&devices("cpu,cpu")?)?; // or "cuda:0,cuda:1"
/// let voxels = ShardedRowMap::<[i32; 3]>::new(&ranks)?;
/// let points = [[0, 0, 0], [5, -1, 2], [0, 0, 0], [7, 7, 7]];
/// let places = voxels.insert(&points)?;
/// assert_eq!(places[0], places[2]);
/// assert_eq!(voxels.len(), 3);
///
/// // A weight for each key, on the rank that has it.
/// let mut weights: Vec<Vec<f32>> = voxels.row_bounds().iter().map(|&rows| vec![0.0; rows]).collect();
/// for ShardRow { rank, row } in places {
///     weights[rank as usize][row as usize] += 1.0;
/// }
/// let place = voxels.get(&[[0, 0, 0], [9, 9, 9]])?;
/// assert_eq!(place[1], None);
/// assert_eq!(place[0].map(|at| weights[at.rank as usize][at.row as usize]), Some(2.0));
/// # Ok::<(), gpumap::Error>(())
/// ```
///
/// # Rows
/// Rows of a rank follow the order of batches, and of first occurrences in them, as those of a [`RowMap`]: with one seed of the owners
/// they are the same on every kind of device. Removed keys leave their rows, and no other key gets these before
/// [`compact`](Self::compact) or [`clear`](Self::clear).
///
/// # Concurrency
/// [`Send`] and [`Sync`]; the verbs may be called from any number of threads and run one after the other, each over the whole group.
/// In [work of the group](Self::run) they are [`GroupError::Nested`], since they would wait for it. A batch is not one moment for what
/// looks at one rank alone, by [`local`](Self::local) or [`len`](Self::len): of a call in flight some ranks may have done their part.
///
/// # Room
/// A batch that some rank has no memory for, or no room if its capacity is fixed, is refused by all ranks before any has a new key. The
/// error is that of the rank. After a failure of a device, [`Error::Driver`], other ranks may have stored what they own; its own is
/// [`Error::Poisoned`] until [`clear`](Self::clear).
#[derive(Debug)]
pub struct ShardedRowMap<K: Pod> {
    pub(super) seats: Seats<RowShard<K>>,
}

impl<K: Pod + Send + Sync> Seat for RowShard<K> {
    fn expect_no_callback(&self) -> Result<()> {
        self.local().core().expect_no_callback()
    }

    fn expect_others(&self) -> Result<()> {
        self.local().core().expect_others()
    }
}

/// # Create
impl<K: Pod + Send + Sync> ShardedRowMap<K> {
    /// A map without room over a group, which grows as keys come.
    ///
    /// # Errors
    /// As for [`RowMap::new`]; [`Error::Group`].
    pub fn new(ranks: &Ranks) -> Result<Self> {
        Self::with(ranks, None, |builder, _| builder)
    }

    /// A map with room for so many rows in all.
    ///
    /// # Errors
    /// As for [`RowMap::with_capacity`]; [`Error::Group`].
    pub fn with_capacity(ranks: &Ranks, rows: usize) -> Result<Self> {
        Self::with(ranks, None, |builder, share| builder.capacity(share(rows)))
    }

    /// A map with settings; see [`RowShard::with`].
    ///
    /// ```
    /// use gpumap::sharded::{Ranks, devices};
    /// use gpumap::{Growth, ShardedRowMap};
    ///
    /// let ranks = Ranks::new(&devices("cpu,cpu")?)?;
    /// let map = ShardedRowMap::<u128>::with(&ranks, Some(7), |builder, share| {
    ///     builder.capacity(share(1_000)).growth(Growth::Fixed)
    /// })?;
    /// assert!(map.capacity() >= 1_000);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`RowMapBuilder::build`]; [`Error::Group`].
    pub fn with(
        ranks: &Ranks,
        owner_seed: Option<u64>,
        configure: impl Fn(RowMapBuilder<K>, &dyn Fn(usize) -> usize) -> RowMapBuilder<K> + Sync,
    ) -> Result<Self> {
        let seats = Seats::new(ranks, |rank| RowShard::with(rank, owner_seed, &configure))?;
        Ok(Self { seats })
    }
}

/// # Group
impl<K: Pod + Send + Sync> ShardedRowMap<K> {
    /// The group.
    pub fn ranks(&self) -> &Ranks {
        self.seats.ranks()
    }

    /// Runs work on every rank with its shard, and returns the result of each: for batches that are on the devices. As [`Ranks::run`].
    ///
    /// ```
    /// use gpumap::sharded::{Ranks, ShardRow, devices};
    /// use gpumap::{Buffer, ShardedRowMap, Stream};
    ///
    /// let ranks = Ranks::new(&devices("cpu,cpu")?)?;
    /// let map = ShardedRowMap::<u128>::new(&ranks)?;
    /// let new = map.run(|rank, shard| {
    ///     let stream = Stream::new(rank.device())?;
    ///     let first = 100 * rank.index() as u128;
    ///     let keys: Vec<u128> = (first..first + 150).collect();
    ///     let keys = Buffer::from_slice(&stream, &keys)?; // made on the device, most often
    ///     let mut places = Buffer::<ShardRow>::zeroed(&stream, 150)?;
    ///     shard.insert_into(rank, &keys, &mut places)
    /// })?;
    /// assert_eq!(new, [250, 250]); // each returns the count of all ranks
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of the work, and [`Error::Group`].
    pub fn run<R: Send>(
        &self,
        work: impl Fn(&mut Rank, &RowShard<K>) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        self.seats.run(work)
    }

    /// The keys and rows of one rank, on its device. See [`RowShard::local`].
    ///
    /// ```
    /// use gpumap::ShardedRowMap;
    /// use gpumap::sharded::{Ranks, devices};
    ///
    /// let map = ShardedRowMap::<u64>::new(&Ranks::new(&devices("cpu,cpu")?)?)?;
    /// let place = map.insert(&[7])?[0];
    /// assert_eq!(map.local(place.rank as usize)?.keys()?, [7]);
    /// assert!(map.local(2).is_err());
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// While a closure or an iterator keeps it from changing ([`RowMap::launch_with`], [`RowMap::for_each_chunk`]), call none of another
    /// rank: an insert holds all of them until the ranks agree.
    ///
    /// # Errors
    /// [`GroupError::NoSuchRank`].
    pub fn local(&self, rank: usize) -> Result<&RowMap<K>> {
        self.seats.at(rank).map(RowShard::local)
    }

    /// The rank that has a key, if any rank has it.
    pub fn owner(&self, key: K) -> usize {
        self.seats.owner(|shard| shard.owner(key))
    }
}

/// # Insert
impl<K: Pod + Send + Sync> ShardedRowMap<K> {
    /// The place of each key. Keys that are absent get the next rows of their ranks.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::CapacityOverflow`], or [`Error::Full`] if the map does not grow: it is as it was, on all ranks.
    /// [`Error::Poisoned`], [`Error::Driver`], [`Error::Group`].
    pub fn insert(&self, keys: &[K]) -> Result<Vec<ShardRow>> {
        let mut places = host_zeroed(keys.len())?;
        self.insert_into(keys, &mut places)?;
        Ok(places)
    }

    /// As [`insert`](Self::insert), into memory of the host: `places[i]` is that of `keys[i]`. Returns how many keys were new.
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`] if there are fewer places than keys; else as for [`insert`](Self::insert).
    pub fn insert_into(&self, keys: &[K], places: &mut [ShardRow]) -> Result<usize> {
        expect_room(keys.len(), places.len())?;
        let _alone = self.seats.alone()?;
        self.split(keys, places, |rank, shard, keys, places| {
            shard.insert_into(rank, keys, places)
        })
    }

    /// As [`insert_into`](Self::insert_into), and says which keys were new: `new[i]` is 1 at the first occurrence of a key that was
    /// absent, and 0 everywhere else.
    ///
    /// ```
    /// use gpumap::ShardedRowMap;
    /// use gpumap::sharded::{Ranks, ShardRow, devices};
    ///
    /// let map = ShardedRowMap::<u64>::new(&Ranks::new(&devices("cpu,cpu")?)?)?;
    /// map.insert(&[8])?;
    /// let (mut places, mut new) = ([ShardRow::NONE; 4], [9; 4]);
    /// assert_eq!(map.insert_with_outcome_into(&[7, 8, 7, 9], &mut places, &mut new)?, 2);
    /// assert_eq!(new, [1, 0, 0, 1]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`insert_into`](Self::insert_into).
    pub fn insert_with_outcome_into(
        &self,
        keys: &[K],
        places: &mut [ShardRow],
        new: &mut [u8],
    ) -> Result<usize> {
        expect_room(keys.len(), places.len().min(new.len()))?;
        let _alone = self.seats.alone()?;
        let new = self.chunks(keys.len(), new);
        self.split(keys, places, |rank, shard, keys, places| {
            let new = new.take(rank.index());
            shard.insert_with_outcome_into(rank, keys, places, new)
        })
    }
}

/// # Look up
impl<K: Pod + Send + Sync> ShardedRowMap<K> {
    /// The place of each key, or none.
    ///
    /// # Errors
    /// As for [`RowMap::get`], of any rank; [`Error::Group`].
    pub fn get(&self, keys: &[K]) -> Result<Vec<Option<ShardRow>>> {
        let mut places = host_zeroed(keys.len())?;
        self.get_into(keys, &mut places)?;
        present(places)
    }

    /// As [`get`](Self::get), into memory of the host, with [`ShardRow::NONE`] where a key is absent.
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`] if there are fewer places than keys; else as for [`get`](Self::get).
    pub fn get_into(&self, keys: &[K], places: &mut [ShardRow]) -> Result<()> {
        expect_room(keys.len(), places.len())?;
        let get = |rank: &mut Rank, shard: &RowShard<K>, keys: &[K], places: &mut [ShardRow]| {
            shard.get_into(rank, keys, places).map(|()| 0)
        };
        let _shared = self.seats.shared()?;
        self.split(keys, places, get).map(drop)
    }
}

/// # Remove
impl<K: Pod + Send + Sync> ShardedRowMap<K> {
    /// Removes keys. Returns how many were present; one that is repeated counts once. Their rows have no key any more, and no other
    /// key gets them before [`compact`](Self::compact).
    ///
    /// # Errors
    /// As for [`RowShard::remove`].
    pub fn remove(&self, keys: &[K]) -> Result<usize> {
        let _alone = self.seats.alone()?;
        self.split(keys, &mut [], |rank, shard, keys, _| {
            shard.remove(rank, keys)
        })
    }
}

/// # Clear, compact and reserve
impl<K: Pod + Send + Sync> ShardedRowMap<K> {
    /// Removes all keys. The map keeps its room, and is sound again if it was [poisoned](Error::Poisoned).
    ///
    /// # Errors
    /// [`Error::Driver`], [`Error::Group`].
    pub fn clear(&self) -> Result<()> {
        self.run(|rank, shard| shard.clear(rank)).map(drop)
    }

    /// Gives the keys of each rank the rows 0, 1, 2 and so on, in the order of the rows that they had. Returns these, for each rank:
    /// the key of row `i` had row `old[rank][i]`. No key changes its rank.
    ///
    /// ```
    /// use gpumap::ShardedRowMap;
    /// use gpumap::sharded::{Ranks, devices};
    ///
    /// let map = ShardedRowMap::<u64>::new(&Ranks::new(&devices("cpu,cpu")?)?)?;
    /// let places = map.insert(&[50, 60, 70])?;
    /// map.remove(&[50])?;
    /// let old = map.compact()?;
    /// for (before, now) in places[1..].iter().zip(map.get(&[60, 70])?) {
    ///     let now = now.expect("it is there");
    ///     assert_eq!(before.rank, now.rank);
    ///     assert_eq!(old[now.rank as usize][now.row as usize], before.row);
    /// }
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`RowMap::compact`], of any rank, and [`Error::Group`]: no rank has other rows than before.
    pub fn compact(&self) -> Result<Vec<Vec<u32>>> {
        self.run(|rank, shard| shard.compact(rank))
    }

    /// Makes room for `more` rows in all beyond those that were given out.
    ///
    /// # Errors
    /// As for [`RowMap::reserve`], of any rank, which leaves the room that other ranks have made; [`Error::Group`].
    pub fn reserve(&self, more: usize) -> Result<()> {
        self.run(|rank, shard| shard.reserve(rank, more)).map(drop)
    }

    /// Gives back the memory that the rows of each rank do not need, as [`RowMap::shrink_to_fit`].
    ///
    /// # Errors
    /// As for [`RowShard::shrink_to_fit`].
    pub fn shrink_to_fit(&self) -> Result<()> {
        self.run(|rank, shard| shard.shrink_to_fit(rank)).map(drop)
    }

    /// Frees the memory that no call is using; see [`RowShard::trim`].
    pub fn trim(&self) {
        self.seats.iter().for_each(RowShard::trim);
    }
}

/// # Dump
impl<K: Pod + Send + Sync> ShardedRowMap<K> {
    /// All keys and their places, in the order of these. For each rank's own, on its device, there is
    /// [`RowMap::retrieve_all_into`] of [`local`](Self::local).
    ///
    /// # Errors
    /// As for [`RowMap::retrieve_all`], of any rank; [`Error::Group`].
    pub fn retrieve_all(&self) -> Result<(Vec<K>, Vec<ShardRow>)> {
        let of_ranks = self.seats.look(|_, shard| shard.local().retrieve_all())?;
        let len = of_ranks.iter().map(|(keys, _)| keys.len()).sum();
        let (mut keys, mut places) = (host_vec(len)?, host_vec(len)?);
        for (rank, (of_rank, rows)) in (0..).zip(of_ranks) {
            keys.extend(of_rank);
            places.extend(rows.into_iter().map(|row| ShardRow::new(rank, row)));
        }
        Ok((keys, places))
    }
}

/// # Size
impl<K: Pod + Send + Sync> ShardedRowMap<K> {
    /// How many keys there are. Waits for nothing: of a call in flight a part may be counted.
    pub fn len(&self) -> usize {
        self.lens().iter().sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many keys each rank has.
    pub fn lens(&self) -> Vec<usize> {
        self.of_ranks(RowMap::len)
    }

    /// How many places the arrays of each rank need: see [`RowMap::row_bound`].
    pub fn row_bounds(&self) -> Vec<usize> {
        self.of_ranks(RowMap::row_bound)
    }

    /// How many rows fit before some rank grows, if they are spread evenly.
    pub fn capacity(&self) -> usize {
        self.of_ranks(RowMap::capacity).iter().sum()
    }

    fn of_ranks(&self, of: impl Fn(&RowMap<K>) -> usize) -> Vec<usize> {
        self.seats.each(|shard| of(shard.local()))
    }
}

impl<K: Pod + Send + Sync> ShardedRowMap<K> {
    /// Has each rank do its part of a batch: it takes a chunk of the keys, and of their places if there are any. For callers that hold
    /// the calls. Returns the count of all ranks, which each of them returns.
    fn split(
        &self,
        keys: &[K],
        places: &mut [ShardRow],
        work: impl Fn(&mut Rank, &RowShard<K>, &[K], &mut [ShardRow]) -> Result<usize> + Sync,
    ) -> Result<usize> {
        let places = self.chunks(keys.len().min(places.len()), places);
        self.seats.split(keys, |rank, shard, keys| {
            let places = places.take(rank.index());
            work(rank, shard, keys, places)
        })
    }

    /// The parts of an output that ranks write to.
    fn chunks<'a, T>(&self, len: usize, output: &'a mut [T]) -> HostChunks<'a, T> {
        let ranks = self.ranks().len();
        HostChunks::new(output, (0..ranks).map(|rank| chunk(len, rank, ranks).len()))
    }
}
