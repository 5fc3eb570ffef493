//! How many keys there are, and how often each occurs, by way of a set and of a map.

use bytemuck::Pod;

use super::Primitives;
use crate::error::Result;
use crate::input::{Input, Source};
use crate::map::{Key, Map, Merge};

/// Keys per batch: those of the host take memory on the device.
const BATCH: usize = 1 << 24;

impl Primitives {
    /// How many different keys there are.
    ///
    /// Takes memory for a [set](Map#sets) of as many keys.
    ///
    /// ```
    /// use gpumap::{Device, primitives::Primitives};
    ///
    /// let primitives = Primitives::new(&Device::cpu());
    /// assert_eq!(primitives.unique_count(&[3u32, 1, 3, 3, 1])?, 2);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory),
    /// [`Error::WrongDevice`](crate::Error::WrongDevice), [`Error::Driver`](crate::Error::Driver).
    pub fn unique_count<K: Key>(&self, keys: &(impl Input<K> + ?Sized)) -> Result<usize> {
        let source = keys.source();
        let set = Map::<K, ()>::with_capacity(&self.device, source.len())?;
        each_batch(source, |keys| {
            match keys {
                Source::Host(keys) => set.insert_keys(keys)?,
                Source::Device(keys) => set.insert_keys(&keys)?,
            };
            Ok(())
        })?;
        Ok(set.len())
    }

    /// Every different key, in no order, and how often it occurs.
    ///
    /// Takes memory for a [`Map`] of as many pairs as there are keys.
    ///
    /// ```
    /// use gpumap::{Device, primitives::Primitives};
    ///
    /// let primitives = Primitives::new(&Device::cpu());
    /// let (keys, counts) = primitives.count_by_key(&[3u32, 1, 3, 3, 1])?;
    /// let mut pairs: Vec<_> = keys.into_iter().zip(counts).collect();
    /// pairs.sort();
    /// assert_eq!(pairs, [(1, 2), (3, 3)]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`unique_count`](Self::unique_count).
    pub fn count_by_key<K: Key>(
        &self,
        keys: &(impl Input<K> + ?Sized),
    ) -> Result<(Vec<K>, Vec<u64>)> {
        let source = keys.source();
        let map = Map::<K, u64>::with_capacity(&self.device, source.len())?;
        each_batch(source, |keys| {
            match keys {
                Source::Host(keys) => map.merge(keys, 1, Merge::Add)?,
                Source::Device(keys) => map.merge(&keys, 1, Merge::Add)?,
            };
            Ok(())
        })?;
        map.retrieve_all()
    }
}

/// Runs `body` for each batch of the keys.
fn each_batch<K: Pod>(
    keys: Source<'_, K>,
    mut body: impl FnMut(Source<'_, K>) -> Result<()>,
) -> Result<()> {
    let mut start = 0;
    while start < keys.len() {
        let end = (start + BATCH).min(keys.len());
        body(match keys {
            Source::Host(slice) => Source::Host(&slice[start..end]),
            Source::Device(view) => Source::Device(view.slice(start..end)?),
        })?;
        start = end;
    }
    Ok(())
}
