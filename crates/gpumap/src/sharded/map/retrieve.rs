//! Dumps of all pairs.

#[cfg(doc)]
use super::super::Shard;
use super::super::host_chunks::HostChunks;
use super::ShardedMap;
#[cfg(doc)]
use crate::error::Error;
use crate::error::{Result, expect_room};
#[cfg(doc)]
use crate::map::Map;
use crate::map::{Key, Value};
use crate::memory::host_zeroed;
use crate::sharded::Rank;

/// # Dump
impl<K: Key, V: Value> ShardedMap<K, V> {
    /// Every pair, in no order: first those of rank 0, then those of rank 1, and so on. For each rank's own,
    /// on its device, there is [`Map::retrieve_all_into`](Map::retrieve_all_into) of
    /// [`Shard::local`].
    ///
    /// # Errors
    /// As for [`Map::retrieve_all`](Map::retrieve_all); [`Error::Group`].
    pub fn retrieve_all(&self) -> Result<(Vec<K>, Vec<V>)> {
        let _alone = self.alone()?;
        self.all()
    }

    /// Every pair, as [`retrieve_all`](Self::retrieve_all) has them, into memory of the host. Returns how many
    /// there are.
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`] if the pairs do not fit, before anything is written; as for
    /// [`retrieve_all`](Self::retrieve_all).
    pub fn retrieve_all_into(&self, keys: &mut [K], values: &mut [V]) -> Result<usize> {
        let _alone = self.alone()?;
        let lens = self.lens();
        let total = lens.iter().sum();
        expect_room(total, keys.len().min(values.len()))?;
        self.dump(&lens, keys, values)?;
        Ok(total)
    }

    /// Every pair, in new vectors. No other call is in flight.
    pub(super) fn all(&self) -> Result<(Vec<K>, Vec<V>)> {
        let lens = self.lens();
        let total = lens.iter().sum();
        let (mut keys, mut values) = (host_zeroed(total)?, host_zeroed(total)?);
        self.dump(&lens, &mut keys, &mut values)?;
        Ok((keys, values))
    }

    /// Every pair; of each rank as many as it has. No other call is in flight.
    fn dump(&self, lens: &[usize], keys: &mut [K], values: &mut [V]) -> Result<()> {
        let keys = HostChunks::new(keys, lens.iter().copied());
        let values = HostChunks::new(values, lens.iter().copied());
        let of_rank = |rank: &mut Rank| {
            let (keys, values) = (keys.take(rank.index()), values.take(rank.index()));
            let map = self.seats[rank.index()].map();
            map.retrieve_all_into(keys, values)
        };
        self.ranks.run(of_rank).map(drop)
    }
}
