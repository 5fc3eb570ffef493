//! A [`MultiMap`] on a stream: lookups and removals are queued. What stores waits, since the host stores once more what
//! found no slab for a moment.

use super::{MultiMap, Word, WordKey};
use crate::map::{Graph, OnStream};
use crate::stream::Stream;

/// # Streams
impl<K: WordKey, V: Word<Bits = K::Bits>> MultiMap<K, V> {
    /// The same verbs, in the order of a stream: lookups and removals return before the device is done, and
    /// [all others wait](OnStream#what-is-queued-and-what-waits) for the stream.
    ///
    /// ```
    /// use gpumap::{Buffer, Device, MultiMap, Stream};
    ///
    /// let stream = Stream::new(&Device::best()?)?;
    /// let map = MultiMap::<u32, u32>::with_capacity(stream.device(), 100)?;
    /// map.append(&[1, 1, 2], &[10, 11, 20])?;
    /// let keys = Buffer::from_slice(&stream, &[1u32, 2])?;
    /// let (mut values, mut found) = (Buffer::zeroed(&stream, 2)?, Buffer::zeroed(&stream, 2)?);
    ///
    /// let on = map.on(&stream);
    /// let removed = on.remove(&keys)?; // the first pair of each key
    /// let _ = on.get_into(&keys, &mut values, &mut found)?;
    /// assert_eq!((values.to_vec()?, found.to_vec()?), (vec![11, 0], vec![1, 0]));
    /// assert_eq!(removed.wait()?, 2);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    pub fn on(&self, stream: &Stream) -> OnStream<'_, K, V> {
        OnStream::of(&self.core, stream)
    }
}

/// # Graphs
impl<K: WordKey, V: Word<Bits = K::Bits>> MultiMap<K, V> {
    /// Verbs that are launched together, in the order of a stream: lookups and removals as one [`Graph`], and launches with
    /// others [one by one](Graph#launches).
    ///
    /// ```
    /// use gpumap::{Buffer, Device, MultiMap, Stream};
    ///
    /// let stream = Stream::new(&Device::best()?)?;
    /// let map = MultiMap::<u32, u32>::with_capacity(stream.device(), 100)?;
    /// map.append(&[1, 1, 2], &[10, 11, 20])?;
    /// let keys = Buffer::from_slice(&stream, &[1u32, 2])?;
    /// let (mut values, mut found) = (Buffer::zeroed(&stream, 2)?, Buffer::zeroed(&stream, 2)?);
    ///
    /// let mut graph = map.graph(&stream);
    /// let mut next = || {
    ///     let mut verbs = graph.record();
    ///     verbs.get_into(&keys, &mut values, &mut found)?;
    ///     verbs.remove(&keys)?; // the first pair of each key
    ///     let counts = verbs.launch()?.wait()?;
    ///     Ok::<_, gpumap::Error>((values.to_vec()?, counts[1]))
    /// };
    /// assert_eq!(next()?, (vec![10, 20], 2));
    /// assert_eq!(next()?, (vec![11, 0], 1));
    /// assert_eq!(graph.captures(), 1);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    pub fn graph(&self, stream: &Stream) -> Graph<'_, K, V> {
        Graph::of(&self.core, stream)
    }
}
