//! Wide maps over several devices: [`ShardedWideMap`], and the [`WideShard`] of each rank.

mod map;
mod part;
mod persist;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytemuck::Pod;

pub use map::ShardedWideMap;

use super::Rank;
use super::error::GroupError;
use super::exchange::total;
use super::keyed::{Keyed, Ready};
use super::step::{Call, Step};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::input::Input;
use crate::map::{Batch, Kind, Merge, Operand, Operands, Outputs, Receiver, Value};
use crate::op::{self, Op};
use crate::output::Output;
use crate::wide::{WideMap, WideMapBuilder};
use part::KeepsKeys;

/// One rank's part of a map with wide keys that is spread over a group.
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
/// | Size and memory | [`len`](Self::len), [`is_empty`](Self::is_empty), [`reserve`](Self::reserve), [`trim`](Self::trim) |
///
/// Its verbs are *collectives*: every rank of the group calls them in the same order, each with a batch of its own, which may be
/// empty. Batches and outputs are of the host or of the rank's device. Pairs that this rank has are in [`local`](Self::local).
///
/// ```
/// use gpumap::Merge;
/// use gpumap::sharded::{Ranks, WideShard, devices};
///
/// let ranks = Ranks::new(&devices("cpu,cpu")?)?;
/// let found = ranks.run(|rank| {
///     let shard = WideShard::<u128, u64>::new(rank)?;
///     // Each rank counts the same three keys.
///     shard.merge(rank, &[7 << 100, 8, 9], 1, Merge::Add)?;
///     assert_eq!(shard.len(rank)?, 3);
///     shard.get(rank, &[7 << 100, 10 + rank.index() as u128])
/// })?;
/// assert_eq!(found, [[Some(2), None], [Some(2), None]]);
/// # Ok::<(), gpumap::Error>(())
/// ```
///
/// # Equal keys
/// Of several pairs with one key, in the batch of one rank or of several, [`insert`](Self::insert) stores the first: that of the lowest
/// rank, and there of the lowest place. After [`upsert`](Self::upsert) and [`update`](Self::update) the value of one is there.
/// [`merge`](Self::merge) and [`update_with`](Self::update_with) merge all.
///
/// # Refusals
/// A batch that one rank refuses, because it has no memory or no room ([`Error::OutOfMemory`], [`Error::Full`]), changes nothing on any
/// rank. After [`Error::Driver`] some ranks may have done their part.
pub struct WideShard<K: Pod, V: Value> {
    map: WideMap<K, V>,
    keyed: Keyed<K, V, V>,
}

/// # Create
impl<K: Pod, V: Value> WideShard<K, V> {
    /// An empty map over the group. A collective.
    ///
    /// # Errors
    /// As for [`WideMap::new`]; [`Error::Group`].
    pub fn new(rank: &mut Rank) -> Result<Self> {
        Self::with(rank, None, |builder, _| builder)
    }

    /// A map with room for so many pairs over the whole group. A collective.
    ///
    /// # Errors
    /// As for [`WideMap::with_capacity`]; [`Error::Group`].
    pub fn with_capacity(rank: &mut Rank, pairs: usize) -> Result<Self> {
        Self::with(rank, None, |builder, share| builder.capacity(share(pairs)))
    }

    /// A map with settings: `configure` gets the builder of this rank's part, and what makes of a number of pairs of the whole group
    /// the room that one rank needs for its share. The seed is that of the owners; without one, rank 0 draws it. A collective.
    ///
    /// # Errors
    /// As for [`WideMapBuilder::build`]; [`Error::Group`].
    pub fn with(
        rank: &mut Rank,
        owner_seed: Option<u64>,
        configure: impl FnOnce(WideMapBuilder<K, V>, &dyn Fn(usize) -> usize) -> WideMapBuilder<K, V>,
    ) -> Result<Self> {
        let new = Step::NewWide {
            key: size_of::<K>(),
            value: size_of::<V>(),
        };
        let (keyed, map) = Keyed::new(rank, new, owner_seed, |device, share| {
            configure(WideMap::builder(device), share).build()
        })?;
        Ok(Self { map, keyed })
    }
}

/// # Parts of the map
impl<K: Pod, V: Value> WideShard<K, V> {
    /// The pairs that this rank has. Operations on it concern them alone; pairs that are stored in it directly may be of another rank's
    /// keys, and are then not found.
    pub fn local(&self) -> &WideMap<K, V> {
        &self.map
    }

    /// The rank that has a key, if any rank has it.
    pub fn owner(&self, key: K) -> usize {
        self.keyed.owner(&key)
    }
}

/// # Operations
impl<K: Pod, V: Value> WideShard<K, V> {
    /// Runs an [operation](crate::op) over the group: on the keys of all ranks, each of which brings a batch of its own, on the host or on
    /// its device. Counts are of all ranks together. What [absent keys get](Op::or) is each rank's own. A collective.
    ///
    /// ```
    /// use gpumap::op;
    /// use gpumap::sharded::{Ranks, WideShard, devices};
    ///
    /// let ranks = Ranks::new(&devices("cpu,cpu")?)?;
    /// ranks.run(|rank| {
    ///     let shard = WideShard::<[u32; 3], u64>::new(rank)?;
    ///     let key = [rank.index() as u32; 3];
    ///     assert_eq!(shard.execute(rank, op::insert(&[key], &[5]))?, 2);
    ///     assert_eq!(shard.execute(rank, op::take(&[key, [9; 3]]))?, [Some(5), None]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`op`](crate::op), of any rank, and [`Error::Group`]. See also [refusals](Self#refusals).
    pub fn execute<A>(&self, rank: &mut Rank, op: Op<'_, K, V, A>) -> Result<A> {
        let checked = op.check(Receiver::ShardedWide);
        let call = Call::Run {
            kind: op.batch.kind,
            told: op.told(),
        };
        let mut has_come = false;
        let done = op.run_checked(|batch, outputs| {
            has_come = true;
            self.run(rank, &batch, outputs, checked)
        });
        match done {
            Err(error) if !has_come => self.keyed.refuse(rank, call, error),
            done => done,
        }
    }

    /// Runs a part of an operation over the group. An error of this rank's own before it is one on all ranks.
    fn run(
        &self,
        rank: &mut Rank,
        batch: &Batch<'_>,
        outputs: Outputs<'_>,
        checked: Result<()>,
    ) -> Result<usize> {
        let (kind, told) = (batch.kind, outputs.told());
        let mut has_come = false;
        let done = outputs.through_arrays(batch.keys.len(), |arrays| {
            has_come = true;
            self.keyed
                .run(rank, self.map.core(), batch, arrays, checked)
        });
        match done {
            Err(error) if !has_come => self.keyed.refuse(rank, Call::Run { kind, told }, error),
            done => done,
        }
    }
}

/// # Insert and update
impl<K: Pod, V: Value> WideShard<K, V> {
    /// Keeps the present value, unlike `HashMap::insert`: as [`WideMap::insert`], over the group. Returns how many keys were new, of all
    /// ranks together. A collective.
    ///
    /// # Errors
    /// As for [`WideMap::insert`], of any rank, and [`Error::Group`]. See also [refusals](Self#refusals).
    pub fn insert(
        &self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
    ) -> Result<usize> {
        self.execute(rank, op::insert(keys, values))
    }

    /// [`WideMap::upsert`] over the group: returns how many keys were new, of all ranks together. A collective.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn upsert(
        &self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
    ) -> Result<usize> {
        self.execute(rank, op::upsert(keys, values))
    }

    /// [`WideMap::merge`] over the group: returns how many keys were new, of all ranks together. One value for all keys does not travel
    /// if all ranks bring the same. A collective.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn merge<Form>(
        &self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
        values: impl Operand<V, Form>,
        merge: Merge,
    ) -> Result<usize> {
        self.execute(rank, op::merge(keys, values, merge))
    }

    /// [`WideMap::get_or_insert`] over the group: what the map has for each key of this rank's batch afterwards, which is the first value
    /// of the key if it was absent. A collective.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn get_or_insert(
        &self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
    ) -> Result<Vec<V>> {
        self.execute(rank, op::get_or_insert(keys, values))
    }
}

/// # Update if present
impl<K: Pod, V: Value> WideShard<K, V> {
    /// [`WideMap::update`] over the group: returns how many keys were present, of all ranks together. A collective.
    ///
    /// # Errors
    /// As for [`WideMap::update`], of any rank, and [`Error::Group`]. See also [refusals](Self#refusals).
    pub fn update(
        &self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
    ) -> Result<usize> {
        self.execute(rank, op::update(keys, values))
    }

    /// [`WideMap::update_with`] over the group: returns how many keys were present, of all ranks together. A collective.
    ///
    /// # Errors
    /// As for [`update`](Self::update).
    pub fn update_with<Form>(
        &self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
        values: impl Operand<V, Form>,
        merge: Merge,
    ) -> Result<usize> {
        self.execute(rank, op::update_with(keys, values, merge))
    }
}

/// # Look up
impl<K: Pod, V: Value> WideShard<K, V> {
    /// The value of each key of this rank's batch, or none: [`WideMap::get`] over the group. A collective.
    ///
    /// # Errors
    /// As for [`WideMap::get`], of any rank, and [`Error::Group`].
    pub fn get(&self, rank: &mut Rank, keys: &(impl Input<K> + ?Sized)) -> Result<Vec<Option<V>>> {
        self.execute(rank, op::get(keys))
    }

    /// The value of each key of this rank's batch, or `default` where it is absent: [`WideMap::get_or`] over the group. A collective.
    ///
    /// ```
    /// use gpumap::sharded::{Ranks, WideShard, devices};
    ///
    /// let ranks = Ranks::new(&devices("cpu,cpu")?)?;
    /// let values = ranks.run(|rank| {
    ///     let shard = WideShard::<u128, u32>::new(rank)?;
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
        &self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
        default: V,
    ) -> Result<Vec<V>> {
        self.execute(rank, op::get(keys).or(default))
    }

    /// As [`get_or`](Self::get_or), into memory of the host or of the rank's device. A collective.
    ///
    /// # Errors
    /// As for [`get_into`](Self::get_into).
    pub fn get_or_into(
        &self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
        default: V,
        values: &mut (impl Output<V> + ?Sized),
    ) -> Result<()> {
        self.execute(rank, op::get(keys).or(default).into(values))
    }

    /// As [`get`](Self::get), into memory of the host or of the rank's device: `found[i]` is 1 and `values[i]` the value of `keys[i]`, or
    /// both are 0 where it is absent. A collective.
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`] if an output is shorter than `keys`; else as for [`get`](Self::get).
    pub fn get_into(
        &self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
        values: &mut (impl Output<V> + ?Sized),
        found: &mut (impl Output<u8> + ?Sized),
    ) -> Result<()> {
        self.execute(rank, op::get(keys).into(values).found(found))
    }

    /// For each key of this rank's batch whether it is present. A collective.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub fn contains(&self, rank: &mut Rank, keys: &(impl Input<K> + ?Sized)) -> Result<Vec<bool>> {
        self.execute(rank, op::contains(keys))
    }

    /// As [`contains`](Self::contains), into memory of the host or of the rank's device: `found[i]` is 1 if `keys[i]` is present, or 0. A
    /// collective.
    ///
    /// # Errors
    /// As for [`get_into`](Self::get_into).
    pub fn contains_into(
        &self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
        found: &mut (impl Output<u8> + ?Sized),
    ) -> Result<()> {
        self.execute(rank, op::contains(keys).found(found))
    }
}

/// # Remove
impl<K: Pod, V: Value> WideShard<K, V> {
    /// [`WideMap::remove`] over the group: returns how many keys were present, of all ranks together. A collective.
    ///
    /// # Errors
    /// As for [`WideMap::remove`], of any rank, and [`Error::Group`]. See also [refusals](Self#refusals).
    pub fn remove(&self, rank: &mut Rank, keys: &(impl Input<K> + ?Sized)) -> Result<usize> {
        self.execute(rank, op::remove(keys))
    }

    /// [`WideMap::take`] over the group: removes keys, and returns the values of those of this rank's batch. Of several equal
    /// keys, in the batch of one rank or of several, one gets it. A collective.
    ///
    /// # Errors
    /// As for [`remove`](Self::remove).
    pub fn take(&self, rank: &mut Rank, keys: &(impl Input<K> + ?Sized)) -> Result<Vec<Option<V>>> {
        self.execute(rank, op::take(keys))
    }

    /// Keeps the pairs for which `keep` says so, and removes all others: [`WideMap::retain`] over the group. Each rank brings what is
    /// called for its own pairs. Returns how many were removed, of all ranks together. A collective.
    ///
    /// ```
    /// use gpumap::sharded::{Ranks, WideShard, devices};
    ///
    /// let ranks = Ranks::new(&devices("cpu,cpu")?)?;
    /// let removed = ranks.run(|rank| {
    ///     let shard = WideShard::<u128, u32>::new(rank)?;
    ///     shard.insert(rank, &[1, 2, 3], &[10, 20, 30])?;
    ///     shard.retain(rank, |key, value| key != 3 && *value > 10)
    /// })?;
    /// assert_eq!(removed, [2, 2]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`WideMap::retain`], of any rank, and [`Error::Group`]: [`GroupError::Predicate`] if `keep` panics. See also
    /// [refusals](Self#refusals).
    pub fn retain(&self, rank: &mut Rank, mut keep: impl FnMut(K, &V) -> bool) -> Result<usize> {
        let index = rank.index();
        // The other ranks wait for what this one says.
        let keep = |key, value: &V| {
            let kept = catch_unwind(AssertUnwindSafe(|| keep(key, value)));
            kept.map_err(|_| GroupError::Predicate { rank: index }.into())
        };
        let retain = |ready: Ready<'_>| self.map.core().retain(keep, ready);
        let removed = self.keyed.change_own(rank, Call::Retain, retain)?;
        total(rank, removed)
    }

    /// Keeps the pairs whose key is in the batch of any rank, and removes all others: [`WideMap::retain_keys`] over the group. Returns
    /// how many were removed, of all ranks together. A collective.
    ///
    /// # Errors
    /// As for [`WideMap::retain_keys`], of any rank, and [`Error::Group`]. See also [refusals](Self#refusals).
    pub fn retain_keys(&self, rank: &mut Rank, keys: &(impl Input<K> + ?Sized)) -> Result<usize> {
        let part = KeepsKeys::<K, V>::of(self.map.core());
        // The keys travel as those of removals do.
        let batch = Batch {
            kind: Kind::Remove,
            keys: keys.source().into(),
            values: Operands::NONE,
            default: 0,
        };
        let (call, none) = (Call::RetainKeys, [None, None]);
        self.keyed.run_as(rank, call, &part, &batch, none, Ok(()))
    }

    /// Removes all pairs of all ranks, and returns those of this rank: [`WideMap::drain`] over the group. A collective.
    ///
    /// ```
    /// use gpumap::sharded::{Ranks, WideShard, devices};
    ///
    /// let ranks = Ranks::new(&devices("cpu,cpu")?)?;
    /// let drained = ranks.run(|rank| {
    ///     let shard = WideShard::<u128, u32>::new(rank)?;
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
    /// As for [`WideMap::drain`], of any rank, before any pair is removed, and [`Error::Group`]. After [`Error::Driver`] on one rank the
    /// others may have returned theirs.
    pub fn drain(&self, rank: &mut Rank) -> Result<(Vec<K>, Vec<V>)> {
        let drain = |ready: Ready<'_>| self.map.core().drain(ready);
        self.keyed.change_own(rank, Call::Drain, drain)?
    }

    /// As [`drain`](Self::drain), into memory of the host. Returns how many pairs this rank had.
    fn drain_into(&self, rank: &mut Rank, keys: &mut [K], values: &mut [V]) -> Result<usize> {
        let drain = |ready: Ready<'_>| self.map.core().drain_into(keys, values, ready);
        self.keyed.change_own(rank, Call::Drain, drain)?
    }

    /// Removes all pairs of all ranks. A collective.
    ///
    /// # Errors
    /// As for [`WideMap::clear`], of any rank, and [`Error::Group`].
    pub fn clear(&self, rank: &mut Rank) -> Result<()> {
        self.keyed
            .spread
            .together(rank, Call::Clear, || self.map.clear())
    }
}

/// # Size and memory
impl<K: Pod, V: Value> WideShard<K, V> {
    /// How many pairs all ranks have together. A collective.
    ///
    /// # Errors
    /// [`Error::Group`].
    pub fn len(&self, rank: &mut Rank) -> Result<usize> {
        self.keyed.spread.len(rank, self.map.len())
    }

    /// Whether no rank has any pair. A collective.
    ///
    /// # Errors
    /// [`Error::Group`].
    pub fn is_empty(&self, rank: &mut Rank) -> Result<bool> {
        self.len(rank).map(|len| len == 0)
    }

    /// Makes room for so many pairs more, over the whole group. A collective.
    ///
    /// # Errors
    /// As for [`WideMap::reserve`], of any rank, which leaves the room that other ranks have made, and [`Error::Group`].
    pub fn reserve(&self, rank: &mut Rank, more: usize) -> Result<()> {
        let spread = &self.keyed.spread;
        let share = spread.owners.share(more);
        spread.together(rank, Call::Reserve, || self.map.reserve(share))
    }

    /// Frees the buffers that calls went through, unless one is using them. Later ones allocate them again as they need them.
    pub fn trim(&self) {
        self.keyed.trim();
        self.map.trim();
    }
}

impl<K: Pod, V: Value> fmt::Debug for WideShard<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WideShard")
            .field("map", &self.map)
            .field("owners", &self.keyed.spread.owners)
            .finish_non_exhaustive()
    }
}
