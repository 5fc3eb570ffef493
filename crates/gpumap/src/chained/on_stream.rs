//! A [`ChainedMap`] on a stream: lookups and removals are queued. What stores waits, since the host stores once more what
//! found no slab for a moment.

use std::sync::Arc;

use gpumap_kernels::chained::retrieve_all::blocks;

use super::run::Job;
use super::{ChainedMap, Key, Value};
use crate::buffer::BufferViewMut;
use crate::device::Device;
use crate::error::{Result, expect_room};
use crate::map::{
    Arrays, Batch, Call, Effect, Kind, MapState, OnStream, Outputs, PendingOp, Receiver, Staged,
    StreamReceiver, addresses,
};
use crate::stream::Stream;

/// # Streams
impl<K: Key, V: Value<Bits = K::Bits>> ChainedMap<K, V> {
    /// The same verbs, in the order of a stream: lookups and removals return before the device is done, and
    /// [all others wait](OnStream#what-is-queued-and-what-waits) for the stream.
    ///
    /// ```
    /// use gpumap::{Buffer, ChainedMap, Device, Stream};
    ///
    /// let stream = Stream::new(&Device::best()?)?;
    /// let map = ChainedMap::<u32, u32>::with_capacity(stream.device(), 100)?;
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
        OnStream::of(self, Receiver::Chained, stream)
    }
}

impl<K: Key, V: Value<Bits = K::Bits>> StreamReceiver for ChainedMap<K, V> {
    fn device(&self) -> &Device {
        &self.device
    }

    fn state(&self) -> &Arc<MapState> {
        &self.state
    }

    fn queues(&self, kind: Kind) -> bool {
        Receiver::Chained.queues(kind)
    }

    fn queue(
        &self,
        stream: &Stream,
        batch: &Batch<'_>,
        outputs: &mut Arrays<'_>,
    ) -> Result<Option<Arc<PendingOp>>> {
        let len = batch.keys.len();
        let keys = Staged::on(stream, batch.keys)?;
        let [values, flags] = addresses(outputs);
        let job = Job::of_keys(keys.elements().cast(), len);
        let chains = self.shared()?;
        if !batch.kind.traits().removes {
            let look_up = (self.kernels.get, Effect::Read);
            let job = Job {
                found: values.cast(),
                // The codes of the two outcomes are 0 and 1.
                outcomes: flags,
                ..job
            };
            return self.submit(&chains, stream, look_up, job).map(Some);
        }
        if !values.is_null() {
            // SAFETY: there is a place for each key. The kernel writes to those of present keys.
            unsafe { stream.fill(values, 0, len * size_of::<V>()) }?;
        }
        let job = Job {
            found: values.cast(),
            flags,
            ..job
        };
        let remove = (self.kernels.remove, Effect::Remove);
        self.submit(&chains, stream, remove, job).map(Some)
    }

    fn run(&self, batch: Batch<'_>, outputs: Outputs<'_>) -> Result<usize> {
        self.run(batch, outputs)
    }

    fn dump(
        &self,
        stream: &Stream,
        keys: &mut BufferViewMut<'_, u8>,
        values: &mut BufferViewMut<'_, u8>,
        room: usize,
    ) -> Result<Call> {
        stream.synchronize()?;
        let to = (keys.as_mut_ptr().cast(), values.as_mut_ptr().cast());
        let mut scratch = self.scratch.take()?;
        let chains = self.shared()?;
        expect_room(self.len(), room)?;
        let all = 0..blocks(&chains.view());
        let pairs = self.dump(&chains, all, &mut scratch, to, room)?;
        expect_room(pairs, room)?;
        Ok(Call::Done(pairs))
    }
}
