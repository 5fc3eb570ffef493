//! Maps from iterators, and iterators into maps.

use std::collections::HashMap;

use super::{Key, Map, Place, Value};
use crate::device::Device;
use crate::error::Result;
use crate::memory::{fallible, host_collect, host_is_full, host_push, retain_at};

/// Pairs that are collected on the host before they go to the device together.
const TOGETHER: usize = 1 << 16;

/// # Iterators
impl<K: Key, V: Value, P: Place> Map<K, V, P> {
    /// A map on a device, or over a group, that has the pairs of an iterator; of several pairs with one key the last
    /// one counts, as in a [`HashMap`](std::collections::HashMap).
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map: Map<u32, u32> = Map::from_pairs(&Device::cpu(), (0..100).map(|i| (i, i * i)))?;
    /// assert_eq!(map.get(&[9])?, [Some(81)]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory), [`Error::Driver`](crate::Error::Driver).
    pub fn from_pairs(place: &P, pairs: impl IntoIterator<Item = (K, V)>) -> Result<Self> {
        let pairs = pairs.into_iter();
        let map = Self::with_capacity(place, pairs.size_hint().0)?;
        map.try_extend(pairs)?;
        Ok(map)
    }

    /// Stores the pairs of an iterator; present keys get the new value. Of several pairs with one
    /// key the last one counts. What [`Extend`] does, with an error instead of a panic; pairs
    /// that came before it are in the map.
    ///
    /// # Errors
    /// As for [`upsert`](Self::upsert).
    pub fn try_extend(&self, pairs: impl IntoIterator<Item = (K, V)>) -> Result<()> {
        let mut pairs = pairs.into_iter().peekable();
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        while pairs.peek().is_some() {
            for (key, value) in pairs.by_ref().take(TOGETHER) {
                host_push(&mut keys, key)?;
                host_push(&mut values, value)?;
            }
            self.upsert_in_order(&mut keys, &mut values)?;
            keys.clear();
            values.clear();
        }
        Ok(())
    }

    /// Upserts a batch so that the last pair with a key wins.
    fn upsert_in_order(&self, keys: &mut Vec<K>, values: &mut Vec<V>) -> Result<()> {
        // Keys are compared by their bits.
        let mut last: HashMap<&[u8], usize> = HashMap::new();
        fallible(|| last.try_reserve(keys.len()))
            .map_err(|_| host_is_full(keys.len() * size_of::<(&[u8], usize)>()))?;
        last.extend(keys.iter().map(bytemuck::bytes_of).zip(0..));
        if last.len() < keys.len() {
            let is_last = |(place, key): (usize, &K)| last[bytemuck::bytes_of(key)] == place;
            let stays = host_collect(keys.iter().enumerate().map(is_last))?;
            retain_at(keys, |at| stays[at]);
            retain_at(values, |at| stays[at]);
        }
        self.upsert(keys, values).map(drop)
    }
}

/// Of several pairs with one key the last one counts; see [`Map::try_extend`].
///
/// # Panics
/// If the device fails or has no memory left.
impl<K: Key, V: Value, P: Place> Extend<(K, V)> for Map<K, V, P> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, pairs: I) {
        if let Err(error) = self.try_extend(pairs) {
            panic!("cannot extend the map: {error}");
        }
    }
}

/// A map on [`Device::best`]; of several pairs with one key the last one counts. See
/// [`Map::from_pairs`], which takes a device and returns errors.
///
/// # Panics
/// If the device fails or has no memory left.
impl<K: Key, V: Value> FromIterator<(K, V)> for Map<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        match Device::best().and_then(|device| Self::from_pairs(&device, pairs)) {
            Ok(map) => map,
            Err(error) => panic!("cannot make the map: {error}"),
        }
    }
}
