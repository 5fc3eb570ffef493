//! Dumps of all pairs.

#[cfg(doc)]
use super::super::Shard;
use super::ShardedMap;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
#[cfg(doc)]
use crate::map::Map;
use crate::map::{Key, Value};

/// # Dump
impl<K: Key, V: Value> ShardedMap<K, V> {
    /// Every pair, in no order: first those of rank 0, then those of rank 1, and so on. For each rank's own,
    /// on its device, there is [`Map::retrieve_all_into`](Map::retrieve_all_into) of
    /// [`Shard::local`].
    ///
    /// # Errors
    /// As for [`Map::retrieve_all`](Map::retrieve_all); [`Error::Group`].
    pub fn retrieve_all(&self) -> Result<(Vec<K>, Vec<V>)> {
        let _shared = self.seats.shared()?;
        self.seats.dump(&self.lens(), |_, seat, keys, values| {
            seat.map().retrieve_all_into(keys, values)
        })
    }

    /// Every pair, as [`retrieve_all`](Self::retrieve_all) has them, into memory of the host. Returns how many
    /// there are.
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`] if the pairs do not fit, before anything is written; as for
    /// [`retrieve_all`](Self::retrieve_all).
    pub fn retrieve_all_into(&self, keys: &mut [K], values: &mut [V]) -> Result<usize> {
        let _shared = self.seats.shared()?;
        self.seats
            .dump_into(&self.lens(), (keys, values), |_, seat, keys, values| {
                seat.map().retrieve_all_into(keys, values)
            })
    }
}
