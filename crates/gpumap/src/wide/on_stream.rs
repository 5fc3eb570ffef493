//! A [`WideMap`] on a stream: lookups are queued, and all else waits, since the host counts rows.

use std::sync::Arc;

use bytemuck::Pod;

use super::WideMap;
use super::core::Core;
use crate::device::Device;
use crate::error::Result;
use crate::map::{
    Batch, Graph, MapMemory, MapState, OnStream, Outputs, Pair, Receiver, StreamReceiver, Value,
};
use crate::scratch::{ScratchPool, Workspace};
use crate::stream::Stream;

/// # Streams
impl<K: Pod, V: Value> WideMap<K, V> {
    /// The same verbs, in the order of a stream: lookups return before the device is done, and
    /// [all others wait](OnStream#what-is-queued-and-what-waits) for the stream.
    ///
    /// ```
    /// use gpumap::{Buffer, Device, Merge, Stream, WideMap};
    ///
    /// let stream = Stream::new(&Device::best()?)?;
    /// let visits = WideMap::<u128, u64>::new(stream.device())?;
    /// let keys = Buffer::from_slice(&stream, &[1u128 << 100, 7, 1 << 100])?;
    /// let (mut before, mut found) = (Buffer::zeroed(&stream, 3)?, Buffer::zeroed(&stream, 3)?);
    ///
    /// let on = visits.on(&stream);
    /// assert_eq!(on.merge(&keys, 1, Merge::Add)?.wait()?, 2);
    /// let _ = on.get_into(&keys, &mut before, &mut found)?; // not waited for
    /// let _ = on.merge(&keys, 10, Merge::Add)?;
    /// assert_eq!(before.to_vec()?, [2, 1, 2]);
    /// assert_eq!(visits.get(&[7])?, [Some(11)]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    pub fn on(&self, stream: &Stream) -> OnStream<'_, K, V> {
        OnStream::of(&self.core, stream)
    }
}

/// # Graphs
impl<K: Pod, V: Value> WideMap<K, V> {
    /// Verbs that are launched together, in the order of a stream: lookups as one [`Graph`], and launches with others
    /// [one by one](Graph#launches).
    ///
    /// ```
    /// use gpumap::{Buffer, Device, Stream, WideMap};
    ///
    /// let stream = Stream::new(&Device::best()?)?;
    /// let map = WideMap::<[i32; 3], u32>::new(stream.device())?;
    /// map.insert(&[[0, 0, 0], [5, -1, 2]], &[10, 20])?;
    /// let mut keys = Buffer::zeroed(&stream, 2)?;
    /// let mut values = Buffer::zeroed(&stream, 2)?;
    ///
    /// let mut graph = map.graph(&stream);
    /// for (key, value) in [([5, -1, 2], 20), ([1, 1, 1], 7)] {
    ///     keys.copy_from_slice(&[[0; 3], key])?;
    ///     let mut verbs = graph.record();
    ///     verbs.get_or_into(&keys, 7, &mut values)?;
    ///     let _ = verbs.launch()?; // not waited for
    ///     assert_eq!(values.to_vec()?, [10, value]);
    /// }
    /// assert_eq!(graph.captures(), 1);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    pub fn graph(&self, stream: &Stream) -> Graph<'_, K, V> {
        Graph::of(&self.core, stream)
    }
}

impl StreamReceiver for Core {
    fn receiver(&self) -> Receiver {
        Receiver::Wide
    }

    fn device(&self) -> &Device {
        self.device()
    }

    fn state(&self) -> &Arc<MapState> {
        self.state()
    }

    fn scratch(&self) -> &ScratchPool {
        self.scratch()
    }

    fn pair(&self) -> Pair {
        self.pair()
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn expect_no_callback(&self) -> Result<()> {
        self.expect_no_callback()
    }

    fn memory(&self) -> Result<Box<dyn MapMemory + '_>> {
        self.memory()
    }

    fn run(&self, batch: Batch<'_>, outputs: Outputs<'_>) -> Result<usize> {
        self.run(&batch, outputs)
    }

    fn write_pairs(
        &self,
        scratch: &mut Workspace,
        [keys, values]: [*mut u8; 2],
        room: usize,
    ) -> Result<usize> {
        self.dump_into(scratch, keys, values, room)
    }
}
