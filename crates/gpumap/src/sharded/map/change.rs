//! The verbs that store, change and take away.

#[cfg(doc)]
use super::super::Shard;
use super::super::exchange::of_all;
use super::ShardedMap;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
#[cfg(doc)]
use crate::map::Map;
use crate::map::{Key, Merge, Numeric, Operand, Value};
use crate::op::{self, Execute};
use crate::primitives::{Element, Predicate};

/// # Insert and update
impl<K: Key, V: Value> ShardedMap<K, V> {
    /// Keeps the present value, unlike `HashMap::insert`: as [`Map::insert`](Map::insert).
    ///
    /// # Errors
    /// [`Error::LengthMismatch`]; as for [`Shard::insert`].
    pub fn insert(&self, keys: &[K], values: &[V]) -> Result<usize> {
        self.execute(op::insert(keys, values))
    }

    /// As [`Map::upsert`](Map::upsert).
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn upsert(&self, keys: &[K], values: &[V]) -> Result<usize> {
        self.execute(op::upsert(keys, values))
    }

    /// As [`Map::merge`](Map::merge). Of several ranks, each key takes a copy of a common value along.
    ///
    /// ```
    /// use gpumap::sharded::{Ranks, devices};
    /// use gpumap::{Merge, ShardedMap};
    ///
    /// let counts = ShardedMap::<u32, u64>::new(&Ranks::new(&devices("cpu,cpu")?)?)?;
    /// assert_eq!(counts.merge(&[7, 8, 7, 9], &[1, 2, 3, 4], Merge::Add)?, 3);
    /// assert_eq!(counts.merge(&[7, 7, 10], 1, Merge::Add)?, 1);
    /// assert_eq!(counts.update_with(&[8, 11], 5, Merge::Max)?, 1);
    /// assert_eq!(counts.get(&[7, 8, 9, 10, 11])?, [Some(6), Some(5), Some(4), Some(1), None]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn merge<Form>(
        &self,
        keys: &[K],
        values: impl Operand<V, Form>,
        merge: Merge,
    ) -> Result<usize>
    where
        V: Numeric,
    {
        self.execute(op::merge(keys, values, merge))
    }

    /// As [`Map::get_or_insert`](Map::get_or_insert): what the map has for each key afterwards.
    ///
    /// ```
    /// use gpumap::ShardedMap;
    /// use gpumap::sharded::{Ranks, devices};
    ///
    /// let map = ShardedMap::<u32, u32>::new(&Ranks::new(&devices("cpu,cpu")?)?)?;
    /// map.insert(&[1], &[10])?;
    /// assert_eq!(map.get_or_insert(&[2, 1], &[21, 11])?, [21, 10]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn get_or_insert(&self, keys: &[K], values: &[V]) -> Result<Vec<V>> {
        self.execute(op::get_or_insert(keys, values))
    }

    /// As [`Map::update`](Map::update).
    ///
    /// ```
    /// use gpumap::ShardedMap;
    /// use gpumap::sharded::{Ranks, devices};
    ///
    /// let map = ShardedMap::<u32, u32>::new(&Ranks::new(&devices("cpu,cpu")?)?)?;
    /// map.insert(&[1, 2], &[10, 20])?;
    /// assert_eq!(map.update(&[2, 3], &[99, 30])?, 1);
    /// assert_eq!(map.get(&[1, 2, 3])?, [Some(10), Some(99), None]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::LengthMismatch`]; as for [`Shard::update`].
    pub fn update(&self, keys: &[K], values: &[V]) -> Result<usize> {
        self.execute(op::update(keys, values))
    }

    /// As [`Map::update_with`](Map::update_with).
    ///
    /// # Errors
    /// As for [`update`](Self::update).
    pub fn update_with<Form>(
        &self,
        keys: &[K],
        values: impl Operand<V, Form>,
        merge: Merge,
    ) -> Result<usize>
    where
        V: Numeric,
    {
        self.execute(op::update_with(keys, values, merge))
    }
}

/// # Remove
impl<K: Key, V: Value> ShardedMap<K, V> {
    /// As [`Map::remove`](Map::remove).
    ///
    /// # Errors
    /// As for [`Shard::remove`].
    pub fn remove(&self, keys: &[K]) -> Result<usize> {
        self.execute(op::remove(keys))
    }

    /// As [`Map::take`](Map::take).
    ///
    /// ```
    /// use gpumap::ShardedMap;
    /// use gpumap::sharded::{Ranks, devices};
    ///
    /// let map = ShardedMap::<u32, u32>::new(&Ranks::new(&devices("cpu,cpu")?)?)?;
    /// map.insert(&[1, 2], &[10, 20])?;
    /// assert_eq!(map.take(&[3, 2])?, [None, Some(20)]);
    /// assert_eq!(map.len(), 1);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Shard::remove`].
    pub fn take(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        self.execute(op::take(keys))
    }

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

    /// As [`Map::retain_keys`](Map::retain_keys): keeps the pairs whose key is in the batch, and returns how many others were removed.
    ///
    /// ```
    /// use gpumap::ShardedMap;
    /// use gpumap::sharded::{Ranks, devices};
    ///
    /// let map = ShardedMap::<u32, u32>::new(&Ranks::new(&devices("cpu,cpu")?)?)?;
    /// map.insert(&[1, 2, 3], &[10, 20, 30])?;
    /// assert_eq!(map.retain_keys(&[3, 4])?, 2);
    /// assert_eq!(map.retrieve_all()?, (vec![3], vec![30]));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Shard::retain_keys`].
    pub fn retain_keys(&self, keys: &[K]) -> Result<usize> {
        let _alone = self.seats.alone()?;
        self.seats.split(keys, |rank, seat, keys| {
            seat.with(|shard| shard.retain_keys(rank, keys))
        })
    }

    /// As [`Map::clear`](Map::clear).
    ///
    /// # Errors
    /// As for [`Shard::clear`].
    pub fn clear(&self) -> Result<()> {
        self.run(|rank, shard| shard.clear(rank)).map(drop)
    }

    /// Removes every pair and returns all of them, as [`retrieve_all`](Self::retrieve_all) has them. No other
    /// call comes in between.
    ///
    /// ```
    /// use gpumap::ShardedMap;
    /// use gpumap::sharded::{Ranks, devices};
    ///
    /// let map = ShardedMap::<u32, u32>::new(&Ranks::new(&devices("cpu,cpu")?)?)?;
    /// map.insert(&[1], &[10])?;
    /// assert_eq!(map.drain()?, (vec![1], vec![10]));
    /// assert!(map.is_empty());
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`retrieve_all`](Self::retrieve_all), before anything is removed; as for [`Shard::clear`].
    pub fn drain(&self) -> Result<(Vec<K>, Vec<V>)> {
        let _alone = self.seats.alone()?;
        self.seats.dump(&self.lens(), |rank, seat, keys, values| {
            seat.with(|shard| shard.drain_into(rank, keys, values))
        })
    }
}

/// # Capacity and memory
impl<K: Key, V: Value> ShardedMap<K, V> {
    /// Makes room for `more` pairs beyond those it has.
    ///
    /// # Errors
    /// As for [`Shard::reserve`].
    pub fn reserve(&self, more: usize) -> Result<()> {
        self.run(|rank, shard| shard.reserve(rank, more)).map(drop)
    }

    /// Gives back the memory that the pairs of each rank do not need, as [`Map::shrink_to_fit`](Map::shrink_to_fit).
    ///
    /// ```
    /// use gpumap::ShardedMap;
    /// use gpumap::sharded::{Ranks, devices};
    ///
    /// let ranks = Ranks::new(&devices("cpu,cpu")?)?;
    /// let map = ShardedMap::<u32, u32>::with_capacity(&ranks, 100_000)?;
    /// map.insert(&[1, 2], &[10, 20])?;
    /// map.shrink_to_fit()?;
    /// assert!(map.capacity() < 10_000 && map.len() == 2);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Shard::shrink_to_fit`].
    pub fn shrink_to_fit(&self) -> Result<()> {
        self.run(|rank, shard| shard.shrink_to_fit(rank)).map(drop)
    }

    /// Frees the memory that no call is using: of a rank that is at work, only its map's; see [`Shard::trim`].
    pub fn trim(&self) {
        for seat in self.seats.iter() {
            // This thread may be one of those that work.
            match seat.shard.try_lock() {
                Some(mut shard) => shard.trim(),
                None => seat.map().trim(),
            }
        }
    }
}

/// # Remove by predicate
impl<K: Key + Element, V: Value + Element> ShardedMap<K, V> {
    /// As [`Map::retain_where`], over the pairs of all ranks. No other call is in flight meanwhile.
    ///
    /// ```
    /// use gpumap::ShardedMap;
    /// use gpumap::primitives::Predicate;
    /// use gpumap::sharded::{Ranks, devices};
    ///
    /// let map = ShardedMap::<u32, i32>::new(&Ranks::new(&devices("cpu,cpu")?)?)?;
    /// map.insert(&[1, 2, 3], &[-10, 20, 30])?;
    /// assert_eq!(map.retain_where(Predicate::LessOrEqual(2), Predicate::Greater(0))?, 2);
    /// assert_eq!(map.retrieve_all()?, (vec![2], vec![20]));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Map::retain_where`], of any rank; [`Error::Group`].
    pub fn retain_where(&self, keys: Predicate<K>, values: Predicate<V>) -> Result<usize> {
        let _alone = self.seats.alone()?;
        let removed = self
            .seats
            .run_held(|_, seat| seat.with(|shard| shard.local().retain_where(keys, values)))?;
        Ok(removed.into_iter().sum())
    }
}
