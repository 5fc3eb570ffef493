//! The verbs that look keys up.

#[cfg(doc)]
use super::super::Shard;
use super::ShardedMap;
use crate::error::Result;
#[cfg(doc)]
use crate::map::Map;
use crate::map::{Key, Value};
use crate::op::{self, Execute};

/// # Look up
impl<K: Key, V: Value> ShardedMap<K, V> {
    /// As [`Map::get`](Map::get).
    ///
    /// # Errors
    /// As for [`Shard::get`].
    pub fn get(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        self.execute(op::get(keys))
    }

    /// As [`Map::get_or`](Map::get_or).
    ///
    /// ```
    /// use gpumap::ShardedMap;
    /// use gpumap::sharded::{Ranks, devices};
    ///
    /// let map = ShardedMap::<u32, u32>::new(&Ranks::new(&devices("cpu,cpu")?)?)?;
    /// map.insert(&[1, 2], &[10, 20])?;
    /// assert_eq!(map.get_or(&[2, 3], 7)?, [20, 7]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Shard::get_or`].
    pub fn get_or(&self, keys: &[K], default: V) -> Result<Vec<V>> {
        self.execute(op::get(keys).or(default))
    }

    /// As [`Map::get_or_into`](Map::get_or_into), into memory of the host.
    ///
    /// # Errors
    /// As for [`Shard::get_or_into`].
    pub fn get_or_into(&self, keys: &[K], default: V, values: &mut [V]) -> Result<()> {
        self.execute(op::get(keys).or(default).into(values))
    }

    /// As [`Map::get_into`](Map::get_into), into memory of the host.
    ///
    /// ```
    /// use gpumap::ShardedMap;
    /// use gpumap::sharded::{Ranks, devices};
    ///
    /// let map = ShardedMap::<u32, u32>::new(&Ranks::new(&devices("cpu,cpu")?)?)?;
    /// map.insert(&[1, 2], &[10, 20])?;
    /// let (mut values, mut found) = ([9; 3], [9; 3]);
    /// map.get_into(&[2, 3, 1], &mut values, &mut found)?;
    /// assert_eq!((values, found), ([20, 0, 10], [1, 0, 1]));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Shard::get_into`].
    pub fn get_into(&self, keys: &[K], values: &mut [V], found: &mut [u8]) -> Result<()> {
        self.execute(op::get(keys).into(values).found(found))
    }

    /// As [`Map::contains`](Map::contains).
    ///
    /// # Errors
    /// As for [`Shard::contains`].
    pub fn contains(&self, keys: &[K]) -> Result<Vec<bool>> {
        self.execute(op::contains(keys))
    }

    /// As [`Map::contains_into`](Map::contains_into), into memory of the host.
    ///
    /// # Errors
    /// As for [`Shard::contains_into`].
    pub fn contains_into(&self, keys: &[K], found: &mut [u8]) -> Result<()> {
        self.execute(op::contains(keys).found(found))
    }
}
