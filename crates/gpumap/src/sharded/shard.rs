//! [`Shard`]: what one rank has of a map, and the verbs that store and take away.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::Rank;
use super::error::GroupError;
use super::exchange::total;
use super::keyed::all_or_none;
use super::keys::Keys;
use super::spread::Spread;
use super::step::Call;
use super::words::Words;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::input::Input;
use crate::map::{
    Batch, Key, Layout, Map, MapBuilder, Merge, Numeric, Operand, Outputs, Value, has_words,
};
use crate::op::{self, Op};
use crate::output::Output;

/// One rank's part of a map that is spread over a group.
///
/// | group | operations |
/// |---|---|
/// | Create | [`new`](Self::new), [`with_capacity`](Self::with_capacity), [`with`](Self::with) |
/// | Insert and update | [`insert`](Self::insert), [`upsert`](Self::upsert), [`merge`](Self::merge), [`get_or_insert`](Self::get_or_insert) |
/// | Update if present | [`update`](Self::update), [`update_with`](Self::update_with) |
/// | Look up | [`get`](Self::get), [`get_or`](Self::get_or), [`get_into`](Self::get_into), [`get_or_into`](Self::get_or_into), [`contains`](Self::contains), [`contains_into`](Self::contains_into) |
/// | Remove | [`remove`](Self::remove), [`take`](Self::take), [`retain`](Self::retain), [`retain_keys`](Self::retain_keys), [`clear`](Self::clear), [`drain`](Self::drain) |
/// | All operations | [`execute`](Self::execute) |
/// | Parts of the map | [`local`](Self::local), [`owner`](Self::owner) |
/// | Size, capacity and memory | [`len`](Self::len), [`is_empty`](Self::is_empty), [`reserve`](Self::reserve), [`shrink_to_fit`](Self::shrink_to_fit), [`trim`](Self::trim) |
///
/// Its verbs are *collectives*: every rank of the group calls them in the same order, each with a
/// batch of its own, which may be empty. Batches are of the host or of the rank's device. What is
/// stored once is found from every rank. The pairs themselves are in [`local`](Self::local).
///
/// ```
/// use gpumap::Merge;
/// use gpumap::sharded::{Ranks, Shard, devices};
///
/// let ranks = Ranks::new(&devices("cpu,cpu")?)?;
/// let found = ranks.run(|rank| {
///     let mut shard = Shard::<u32, u64>::new(rank)?;
///     // Each rank counts the same three words.
///     shard.merge(rank, &[7, 8, 9], &[1, 1, 1], Merge::Add)?;
///     assert_eq!(shard.len(rank)?, 3);
///     shard.get(rank, &[9, 10 + rank.index() as u32])
/// })?;
/// assert_eq!(found, [[Some(2), None], [Some(2), None]]);
/// # Ok::<(), gpumap::Error>(())
/// ```
///
/// # Equal keys
/// Of several pairs with one key, in the batch of one rank or of several, [`insert`](Self::insert) stores one: with the layout
/// [`Rows`](Layout::Rows) the first, that of the lowest rank, and there of the lowest place. After [`upsert`](Self::upsert) and
/// [`update`](Self::update) the value of one is there. [`merge`](Self::merge) and [`update_with`](Self::update_with) merge all.
///
/// # Refusals
/// With the layout [`Rows`](Layout::Rows) a batch that one rank refuses, because it has no memory or no room
/// ([`Error::OutOfMemory`], [`Error::Full`]), changes nothing on any rank. Else, and after [`Error::Driver`], some ranks may have done
/// their part.
///
/// A map whose values lie in [`Cells`](Layout::Cells) has no shards: this does not compile.
///
/// ```compile_fail,E0080
/// # use gpumap::ShardedMap;
/// # use gpumap::sharded::{Ranks, devices};
/// let map = ShardedMap::<u64, [f32; 8]>::new(&Ranks::new(&devices("cpu,cpu")?)?)?;
/// # Ok::<(), gpumap::Error>(())
/// ```
pub struct Shard<K: Key, V: Value>(Of<K, V>);

/// What the layout of the map makes of it.
enum Of<K: Key, V: Value> {
    Words(Words<K, V>),
    Keys(Keys<K, V>),
}

/// # Create
impl<K: Key, V: Value> Shard<K, V> {
    /// An empty map over the group. A collective.
    ///
    /// # Errors
    /// As for [`Map::new`]; [`Error::Group`].
    pub fn new(rank: &mut Rank) -> Result<Self> {
        Self::with(rank, None, |builder, _| builder)
    }

    /// A map with room for so many pairs over the whole group. A collective.
    ///
    /// # Errors
    /// As for [`Map::with_capacity`]; [`Error::Group`].
    pub fn with_capacity(rank: &mut Rank, pairs: usize) -> Result<Self> {
        Self::with(rank, None, |builder, share| builder.capacity(share(pairs)))
    }

    /// A map with settings: `configure` gets the builder of this rank's part, and what makes of a
    /// number of pairs of the whole group the room that one rank needs for its share. The seed is
    /// that of the owners; without one, rank 0 draws it. So does it the seed of the hashes, unless
    /// `configure` sets one. Ranks whose maps have different ones are slower, and so are those
    /// whose owners have the same. A collective.
    ///
    /// # Errors
    /// As for [`MapBuilder::build`]; [`Error::Group`].
    pub fn with(
        rank: &mut Rank,
        owner_seed: Option<u64>,
        configure: impl FnOnce(MapBuilder<K, V>, &dyn Fn(usize) -> usize) -> MapBuilder<K, V>,
    ) -> Result<Self> {
        const {
            assert!(
                has_words::<V>(),
                "a map over several devices has values of 0, 4 or 8 bytes, aligned as u32 or u64"
            );
        }
        let of = match Map::<K, V>::LAYOUT {
            Layout::Rows => Of::Keys(Keys::new(rank, owner_seed, |device, share| {
                configure(Map::builder(device), share).build()
            })?),
            _ => Of::Words(Words::new(rank, owner_seed, |rank, share, hash_seed| {
                let builder = Map::builder(rank.device()).hash_seed(hash_seed);
                configure(builder, share).build()
            })?),
        };
        Ok(Self(of))
    }

    /// The map of this rank.
    pub(super) fn map(&self) -> &Arc<Map<K, V>> {
        match &self.0 {
            Of::Words(words) => &words.map,
            Of::Keys(keys) => &keys.map,
        }
    }

    pub(super) fn spread(&self) -> &Spread {
        match &self.0 {
            Of::Words(words) => &words.spread,
            Of::Keys(keys) => &keys.keyed.spread,
        }
    }

    /// Runs a part of an operation over the group, which has been checked.
    pub(super) fn run(
        &mut self,
        rank: &mut Rank,
        batch: Batch<'_>,
        outputs: Outputs<'_>,
    ) -> Result<usize> {
        match &mut self.0 {
            Of::Words(words) => words.run(rank, batch, outputs, Ok(())),
            Of::Keys(keys) => keys.run(rank, &batch, outputs, Ok(())),
        }
    }

    /// That of a map of words.
    #[cfg(test)]
    pub(super) fn words(&mut self) -> &mut Words<K, V> {
        match &mut self.0 {
            Of::Words(words) => words,
            Of::Keys(_) => panic!("a map of rows"),
        }
    }
}

/// # Parts of the map
impl<K: Key, V: Value> Shard<K, V> {
    /// The pairs that this rank has. Operations on it concern them alone; pairs that
    /// are stored in it directly may be of another's keys, and are then not found.
    pub fn local(&self) -> &Map<K, V> {
        self.map()
    }

    /// The rank that has a key, if any rank has it.
    pub fn owner(&self, key: K) -> usize {
        self.spread().owner_of(&key)
    }
}

/// # Operations
impl<K: Key, V: Value> Shard<K, V> {
    /// Runs an [operation](crate::op) over the group: on the keys of all ranks, each of which brings a batch of its own,
    /// on the host or on its device. Counts are of all ranks together. What [absent keys get](Op::or) is each rank's own. A collective.
    ///
    /// ```
    /// use gpumap::sharded::{Ranks, Shard, devices};
    /// use gpumap::{Merge, op};
    ///
    /// let ranks = Ranks::new(&devices("cpu,cpu")?)?;
    /// ranks.run(|rank| {
    ///     let mut shard = Shard::<u32, u64>::new(rank)?;
    ///     assert_eq!(shard.execute(rank, op::merge(&[7, 8, 9], 1, Merge::Add))?, 3);
    ///     assert_eq!(shard.execute(rank, op::get(&[9, 10]))?, [Some(2), None]);
    ///     let taken = shard.execute(rank, op::take(&[7 + rank.index() as u32]))?;
    ///     assert_eq!(taken, [Some(2)]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`op`](crate::op), of any rank, and [`Error::Group`]. Of a batch that is refused, some ranks may have done what
    /// concerns their part.
    pub fn execute<A>(&mut self, rank: &mut Rank, op: Op<'_, K, V, A>) -> Result<A> {
        match &mut self.0 {
            Of::Words(words) => words.execute(rank, op),
            Of::Keys(keys) => keys.execute(rank, op),
        }
    }
}

/// # Insert and update
impl<K: Key, V: Value> Shard<K, V> {
    /// Keeps the present value, unlike `HashMap::insert`: as [`Map::insert`], over the group. Returns how many keys were new, of all ranks together.
    ///
    /// # Errors
    /// As for [`Map::insert`], of any rank, and [`Error::Group`]. Of a batch that is refused, some
    /// ranks may have stored what they own.
    pub fn insert(
        &mut self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
    ) -> Result<usize> {
        self.execute(rank, op::insert(keys, values))
    }

    /// [`Map::upsert`] over the group: returns how many keys were new, of all ranks together.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn upsert(
        &mut self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
    ) -> Result<usize> {
        self.execute(rank, op::upsert(keys, values))
    }

    /// [`Map::merge`] over the group: returns how many keys were new, of all ranks together.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn merge<Form>(
        &mut self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
        values: impl Operand<V, Form>,
        merge: Merge,
    ) -> Result<usize>
    where
        V: Numeric,
    {
        self.execute(rank, op::merge(keys, values, merge))
    }

    /// [`Map::get_or_insert`] over the group: what the map has for each key of this rank's batch afterwards.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn get_or_insert(
        &mut self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
    ) -> Result<Vec<V>> {
        self.execute(rank, op::get_or_insert(keys, values))
    }

    /// [`Map::update`] over the group: returns how many keys were present, of all ranks together.
    ///
    /// # Errors
    /// As for [`Map::update`], of any rank, and [`Error::Group`]. Of a batch that is refused, some
    /// ranks may have changed what they own.
    pub fn update(
        &mut self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
    ) -> Result<usize> {
        self.execute(rank, op::update(keys, values))
    }

    /// [`Map::update_with`] over the group: returns how many keys were present, of all ranks
    /// together.
    ///
    /// # Errors
    /// As for [`update`](Self::update).
    pub fn update_with<Form>(
        &mut self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
        values: impl Operand<V, Form>,
        merge: Merge,
    ) -> Result<usize>
    where
        V: Numeric,
    {
        self.execute(rank, op::update_with(keys, values, merge))
    }
}

/// # Look up
impl<K: Key, V: Value> Shard<K, V> {
    /// [`Map::get`] over the group: the value of each key of this rank's batch, on whichever rank it is.
    ///
    /// # Errors
    /// As for [`Map::get`], of any rank, and [`Error::Group`].
    pub fn get(
        &mut self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
    ) -> Result<Vec<Option<V>>> {
        self.execute(rank, op::get(keys))
    }

    /// [`Map::get_or`] over the group: the value of each key of this rank's batch, or `default` where it is absent. Large batches
    /// go over peer memory only where all ranks have the same default.
    ///
    /// ```
    /// use gpumap::sharded::{Ranks, Shard, devices};
    ///
    /// let ranks = Ranks::new(&devices("cpu,cpu")?)?;
    /// let values = ranks.run(|rank| {
    ///     let mut shard = Shard::<u32, u32>::new(rank)?;
    ///     shard.insert(rank, &[1], &[10])?;
    ///     let default = 100 + rank.index() as u32;
    ///     shard.get_or(rank, &[1, 2], default)
    /// })?;
    /// assert_eq!(values, [[10, 100], [10, 101]]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub fn get_or(
        &mut self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
        default: V,
    ) -> Result<Vec<V>> {
        self.execute(rank, op::get(keys).or(default))
    }

    /// As [`get_or`](Self::get_or), into memory of the host or of the rank's device.
    ///
    /// # Errors
    /// As for [`get_into`](Self::get_into).
    pub fn get_or_into(
        &mut self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
        default: V,
        values: &mut (impl Output<V> + ?Sized),
    ) -> Result<()> {
        self.execute(rank, op::get(keys).or(default).into(values))
    }

    /// [`Map::contains`] over the group.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub fn contains(
        &mut self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
    ) -> Result<Vec<bool>> {
        self.execute(rank, op::contains(keys))
    }

    /// [`Map::get_into`] over the group, into memory of the host or of the rank's device: `found[i]` is 1 and
    /// `values[i]` the value of `keys[i]`, or both are 0 where it is absent.
    ///
    /// # Errors
    /// As for [`get`](Self::get), and [`Error::OutputTooSmall`] if an output is shorter than `keys`.
    pub fn get_into(
        &mut self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
        values: &mut (impl Output<V> + ?Sized),
        found: &mut (impl Output<u8> + ?Sized),
    ) -> Result<()> {
        self.execute(rank, op::get(keys).into(values).found(found))
    }

    /// [`Map::contains_into`] over the group, into memory of the host or of the rank's device: `found[i]` is 1
    /// if `keys[i]` is present, or 0.
    ///
    /// # Errors
    /// As for [`get_into`](Self::get_into).
    pub fn contains_into(
        &mut self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
        found: &mut (impl Output<u8> + ?Sized),
    ) -> Result<()> {
        self.execute(rank, op::contains(keys).found(found))
    }
}

/// # Remove
impl<K: Key, V: Value> Shard<K, V> {
    /// [`Map::remove`] over the group: returns how many keys were present, of all ranks together.
    ///
    /// # Errors
    /// As for [`Map::remove`], of any rank, and [`Error::Group`].
    pub fn remove(&mut self, rank: &mut Rank, keys: &(impl Input<K> + ?Sized)) -> Result<usize> {
        self.execute(rank, op::remove(keys))
    }

    /// [`Map::take`] over the group: removes keys, and returns the values of those of this rank's batch. Of several equal
    /// keys, in the batch of one rank or of several, one gets it.
    ///
    /// # Errors
    /// As for [`remove`](Self::remove).
    pub fn take(
        &mut self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
    ) -> Result<Vec<Option<V>>> {
        self.execute(rank, op::take(keys))
    }

    /// Keeps the pairs for which `keep` says so, and removes all others: [`Map::retain`] over the group. Each rank brings what is
    /// called for its own pairs. Returns how many were removed, of all ranks together. A collective.
    ///
    /// ```
    /// use gpumap::sharded::{Ranks, Shard, devices};
    ///
    /// let ranks = Ranks::new(&devices("cpu,cpu")?)?;
    /// let removed = ranks.run(|rank| {
    ///     let mut shard = Shard::<u128, u32>::new(rank)?;
    ///     shard.insert(rank, &[1, 2, 3], &[10, 20, 30])?;
    ///     shard.retain(rank, |key, value| key != 3 && *value > 10)
    /// })?;
    /// assert_eq!(removed, [2, 2]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Map::retain`], of any rank, and [`Error::Group`]: [`GroupError::Predicate`] if `keep` panics. See also
    /// [refusals](Self#refusals).
    pub fn retain(
        &mut self,
        rank: &mut Rank,
        mut keep: impl FnMut(K, &V) -> bool,
    ) -> Result<usize> {
        let index = rank.index();
        // The other ranks wait for what this one says.
        let keep = |key, value: &V| {
            let kept = catch_unwind(AssertUnwindSafe(|| keep(key, value)));
            kept.map_err(|_| GroupError::Predicate { rank: index }.into())
        };
        self.spread().together(rank, Call::Retain, || Ok(()))?;
        let removed = all_or_none(rank, |ready| self.map().try_retain(keep, ready))?;
        total(rank, removed)
    }

    /// [`Map::retain_keys`] over the group: keeps the pairs whose key is in the batch of any rank, and removes all others. Returns how
    /// many were removed, of all ranks together. A collective.
    ///
    /// ```
    /// use gpumap::sharded::{Ranks, Shard, devices};
    ///
    /// let ranks = Ranks::new(&devices("cpu,cpu")?)?;
    /// let removed = ranks.run(|rank| {
    ///     let mut shard = Shard::<u32, u32>::new(rank)?;
    ///     shard.insert(rank, &[1, 2, 3], &[10, 20, 30])?;
    ///     shard.retain_keys(rank, &[1 + rank.index() as u32])
    /// })?;
    /// assert_eq!(removed, [1, 1]); // 3, which no rank has in its batch
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Map::retain_keys`], of any rank, and [`Error::Group`]. Some ranks may have removed theirs then.
    pub fn retain_keys(
        &mut self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
    ) -> Result<usize> {
        match &mut self.0 {
            Of::Words(words) => words.retain_keys(rank, keys.source()),
            Of::Keys(of_keys) => of_keys.retain_keys(rank, keys.source()),
        }
    }
}

/// # Drain
impl<K: Key, V: Value> Shard<K, V> {
    /// Removes all pairs of all ranks, and returns those of this rank: [`Map::drain`] over the group. A collective.
    ///
    /// ```
    /// use gpumap::sharded::{Ranks, Shard, devices};
    ///
    /// let ranks = Ranks::new(&devices("cpu,cpu")?)?;
    /// let drained = ranks.run(|rank| {
    ///     let mut shard = Shard::<u128, u32>::new(rank)?;
    ///     shard.insert(rank, &[1, 2, 3], &[10, 20, 30])?;
    ///     let (keys, _) = shard.drain(rank)?;
    ///     assert!(shard.is_empty(rank)? && keys.iter().all(|&key| shard.owner(key) == rank.index()));
    ///     Ok(keys.len())
    /// })?;
    /// assert_eq!(drained.iter().sum::<usize>(), 3);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Map::drain`], of any rank, before any pair is removed, and [`Error::Group`]. After [`Error::Driver`] on one rank the
    /// others may have returned theirs.
    pub fn drain(&mut self, rank: &mut Rank) -> Result<(Vec<K>, Vec<V>)> {
        self.spread().together(rank, Call::Drain, || Ok(()))?;
        all_or_none(rank, |ready| self.map().storage().drain_pairs(ready))?
    }

    /// As [`drain`](Self::drain), into memory of the host. Returns how many pairs this rank had.
    pub(super) fn drain_into(
        &mut self,
        rank: &mut Rank,
        to_keys: &mut [K],
        to_values: &mut [V],
    ) -> Result<usize> {
        self.spread().together(rank, Call::Drain, || Ok(()))?;
        all_or_none(rank, |ready| {
            let storage = self.map().storage();
            storage.drain_into(to_keys, to_values, ready)
        })?
    }
}

/// # Size and state
impl<K: Key, V: Value> Shard<K, V> {
    /// How many pairs all ranks have together. A collective.
    ///
    /// # Errors
    /// [`Error::Group`].
    pub fn len(&self, rank: &mut Rank) -> Result<usize> {
        self.spread().len(rank, self.map().len())
    }

    /// Whether no rank has any pair. A collective.
    ///
    /// # Errors
    /// [`Error::Group`].
    pub fn is_empty(&self, rank: &mut Rank) -> Result<bool> {
        self.len(rank).map(|len| len == 0)
    }
}

/// # Clear, capacity and memory
impl<K: Key, V: Value> Shard<K, V> {
    /// Takes all pairs away. A collective.
    ///
    /// # Errors
    /// As for [`Map::clear`], of any rank, and [`Error::Group`].
    pub fn clear(&self, rank: &mut Rank) -> Result<()> {
        self.spread()
            .together(rank, Call::Clear, || self.map().clear())
    }

    /// Makes room for so many pairs more, over the whole group. A collective.
    ///
    /// # Errors
    /// As for [`Map::reserve`], of any rank, and [`Error::Group`].
    pub fn reserve(&self, rank: &mut Rank, more: usize) -> Result<()> {
        let share = self.spread().owners.share(more);
        self.spread()
            .together(rank, Call::Reserve, || self.map().reserve(share))
    }

    /// Has each rank give back the memory that its pairs do not need. A collective.
    ///
    /// # Errors
    /// As for [`Map::shrink_to_fit`], of any rank, which leaves the others smaller, and [`Error::Group`].
    pub fn shrink_to_fit(&self, rank: &mut Rank) -> Result<()> {
        self.spread()
            .together(rank, Call::ShrinkToFit, || self.map().shrink_to_fit())
    }

    /// Frees the buffers that calls went through; those that others write to when all ranks have
    /// done so. Later ones allocate them again as they need them.
    pub fn trim(&mut self) {
        match &mut self.0 {
            Of::Words(words) => words.trim(),
            Of::Keys(keys) => {
                keys.keyed.trim();
                keys.map.trim();
            }
        }
    }
}

impl<K: Key, V: Value> std::fmt::Debug for Shard<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shard")
            .field("map", self.map())
            .field("owners", &self.spread().owners)
            .finish_non_exhaustive()
    }
}
