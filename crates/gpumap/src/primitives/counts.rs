//! How often each key occurs, by way of a map.

use bytemuck::Pod;

use super::Primitives;
use crate::buffer::{Buffer, BufferView};
use crate::error::Result;
use crate::input::{Input, Source};
use crate::map::{Key, Map, Merge, Value};
use crate::stream::Stream;

/// Keys per batch: what is stored beside them takes memory, however many keys there are.
const BATCH: usize = 1 << 24;

impl Primitives {
    /// How many different keys there are.
    ///
    /// Takes memory for a [`Map`] of as many pairs as there are keys.
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
        let map = Map::<K, u32>::with_capacity(&self.device, source.len())?;
        let zeros = self.batch_of(0u32, source.len())?;
        let mut unique = 0;
        each_batch(source, &zeros, |keys, zeros| {
            unique += match keys {
                Source::Host(keys) => map.insert(keys, &zeros)?,
                Source::Device(keys) => map.insert(&keys, &zeros)?,
            };
            Ok(())
        })?;
        Ok(unique)
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
        let ones = self.batch_of(1u64, source.len())?;
        each_batch(source, &ones, |keys, ones| {
            match keys {
                Source::Host(keys) => map.merge(keys, &ones, Merge::Add)?,
                Source::Device(keys) => map.merge(&keys, &ones, Merge::Add)?,
            };
            Ok(())
        })?;
        map.retrieve_all()
    }

    /// One value for each key of the largest batch.
    fn batch_of<V: Value>(&self, value: V, keys: usize) -> Result<Buffer<V>> {
        let stream = Stream::new(&self.device)?;
        let values = vec![value; keys.min(BATCH)];
        Buffer::from_slice(&stream, &values)
    }
}

/// Runs `body` for the keys of each batch, with as many of `values`.
fn each_batch<K: Pod, V: Pod>(
    keys: Source<'_, K>,
    values: &Buffer<V>,
    mut body: impl FnMut(Source<'_, K>, BufferView<'_, V>) -> Result<()>,
) -> Result<()> {
    let mut start = 0;
    while start < keys.len() {
        let end = (start + BATCH).min(keys.len());
        let batch = match keys {
            Source::Host(slice) => Source::Host(&slice[start..end]),
            Source::Device(view) => Source::Device(view.slice(start..end)?),
        };
        body(batch, values.slice(..end - start)?)?;
        start = end;
    }
    Ok(())
}
