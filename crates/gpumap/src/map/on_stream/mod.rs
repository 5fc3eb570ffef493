//! [`OnStream`]: the verbs in the order of a stream, without waiting for the device where that can be.
//!
//! A map of any kind is a [`StreamReceiver`] here. What it queues, [`Receiver::queues`] says. Its [`MapMemory`] launches that, on
//! a stream or for a [graph](super::graph).

mod of_map;
mod queue;
mod receiver;
mod staged;
#[cfg(test)]
mod tests;

use std::fmt;
use std::marker::PhantomData;

use bytemuck::Pod;

use super::command::{Arrays, Receiver};
use super::merge::Merge;
use super::operand::Operand;
use super::pending::Pending;
use super::{Key, Map, Numeric, Value};
#[cfg(doc)]
use crate::buffer::Buffer;
use crate::buffer::BufferViewMut;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::input::Input;
use crate::op::{self, Answer, Execute, Op};
use crate::stream::Stream;
pub(crate) use of_map::TableMemory;
pub(crate) use queue::Queue;
pub(crate) use receiver::{MapMemory, StreamReceiver, addresses};

/// The verbs of a map on a stream; made by [`Map::on`] and [`MultiMap::on`](crate::MultiMap::on).
///
/// | group | operations |
/// |---|---|
/// | Insert and update | [`insert`](Self::insert), [`upsert`](Self::upsert), [`merge`](Self::merge), [`get_or_insert_into`](Self::get_or_insert_into) |
/// | Update if present | [`update`](Self::update), [`update_with`](Self::update_with) |
/// | Look up | [`get_into`](Self::get_into), [`get_or_into`](Self::get_or_into), [`contains_into`](Self::contains_into) |
/// | Remove | [`remove`](Self::remove) |
/// | Dump | [`retrieve_all_into`](Self::retrieve_all_into) |
/// | Sets | [`insert_keys`](Self::insert_keys) |
///
/// They take effect in the order of the stream, after what was queued on it before and after what
/// was queued on the streams of their buffers. What is
/// queued on a buffer's own stream after the call, its freeing too, comes after the call on the
/// device.
///
/// # What is queued, and what waits
/// | | queued: the call returns before the device is done | waits: the call returns with the answer |
/// |---|---|---|
/// | [`Map`] of the layout [`Inline`](crate::Layout::Inline) | all but [`take`](op::take) | `take`; a batch that may not fit, which makes the map grow |
/// | [`Map`] of the layouts [`Cells`](crate::Layout::Cells) and [`Rows`](crate::Layout::Rows) | lookups | all else: the host gives out cells, or rows |
/// | [`MultiMap`](crate::MultiMap) | lookups, [`remove`](Self::remove), `take` | [`insert`](Self::insert), [`get_or_insert`](op::get_or_insert), dumps |
///
/// A call that waits does so for all that was queued on the stream before, and does then what the map does without a
/// stream. Any call waits if an output is an array of the host.
///
/// With device [`Buffer`]s as inputs a queued call returns at once, and and allocates nothing; with the
/// layouts [`Cells`](crate::Layout::Cells) and [`Rows`](crate::Layout::Rows) it takes 4 bytes for each key in the
/// order of the stream. Inputs of the host are copied first, which is waited for.
///
/// An operation that the map does not run is refused with [`Error::Unsupported`].
///
/// Whatever frees or moves memory of the map, also its drop, waits for the calls that are queued; so do calls without a
/// stream that run alone.
///
/// A [`ShardedMap`](crate::ShardedMap) has no streams of this kind: its pairs are on several devices, and a stream is of one.
/// In work of its group each rank has [`Shard`](crate::sharded::Shard)s of its own.
#[derive(Clone)]
pub struct OnStream<'m, K, V> {
    queue: Queue<'m>,
    _pair: PhantomData<fn(K) -> V>,
}

impl<'m, K, V> OnStream<'m, K, V> {
    /// A map of such pairs on a stream.
    pub(crate) fn of(receiver: &'m dyn StreamReceiver, stream: &Stream) -> Self {
        Self {
            queue: Queue::new(receiver, stream),
            _pair: PhantomData,
        }
    }

    fn receiver(&self) -> Receiver {
        self.queue.receiver.receiver()
    }
}

impl<K, V> fmt::Debug for OnStream<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnStream")
            .field("map", &self.receiver().name())
            .field("stream", &self.queue.stream)
            .finish_non_exhaustive()
    }
}

/// # Streams
impl<K: Key, V: Value> Map<K, V> {
    /// The same verbs, in the order of a stream: they return before the device is done.
    ///
    /// ```
    /// use gpumap::{Buffer, Device, Map, Merge, Stream};
    ///
    /// let device = Device::best()?;
    /// let stream = Stream::new(&device)?;
    /// let map = Map::<u32, u32>::with_capacity(&device, 1_000)?;
    /// let keys = Buffer::from_slice(&stream, &[1u32, 2, 3])?;
    /// let values = Buffer::from_slice(&stream, &[10u32, 20, 30])?;
    /// let mut found = Buffer::zeroed(&stream, 3)?;
    ///
    /// let on = map.on(&stream);
    /// let new = on.insert(&keys, &values)?;
    /// let _ = on.merge(&keys, &values, Merge::Add)?; // its answer is of no interest
    /// on.get_or_into(&keys, 0, &mut found)?.wait()?;
    /// assert_eq!(new.wait()?, 3);
    /// assert_eq!(found.to_vec()?, [20, 40, 60]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    pub fn on(&self, stream: &Stream) -> OnStream<'_, K, V> {
        OnStream::of(self.storage(), stream)
    }
}

/// # Operations
impl<K, V> OnStream<'_, K, V> {
    /// Runs an [operation](crate::op) in the order of the stream: [queued, or waiting](Self#what-is-queued-and-what-waits).
    /// Its answer is pending, or ready. One that is neither a count nor in [`Buffer`]s of the caller is copied from the
    /// device when it is waited for.
    ///
    /// ```
    /// use gpumap::{Device, Map, Stream, op};
    ///
    /// let stream = Stream::new(&Device::cpu())?;
    /// let map = Map::<u32, u32>::with_capacity(stream.device(), 100)?;
    /// let on = map.on(&stream);
    /// let new = on.submit(op::insert(&[1, 2, 1], &[10, 20, 10]).each())?;
    /// let values = on.submit(op::get(&[2, 3]))?;
    /// assert_eq!(values.wait()?, [Some(20), None]);
    /// assert_eq!(new.wait()?.into_iter().filter(|&new| new).count(), 2);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`op`]; [`Error::WrongDevice`] also for the stream. Keys that were made to collide give [`Error::Full`] with
    /// `partial` when the answer is waited for.
    pub fn submit<A: 'static>(&self, op: Op<'_, K, V, A>) -> Result<Pending<A>> {
        op.check(self.receiver())?;
        let Op {
            batch,
            outputs,
            answer,
            ..
        } = op;
        match answer {
            Answer::Count(answer) => self.queue.counted(batch, outputs, answer),
            Answer::Each(wanted, make) => {
                self.queue.answered(batch, (wanted, size_of::<V>()), make)
            }
        }
    }
}

/// Each operation is submitted and waited for.
impl<K, V> Execute<K, V> for OnStream<'_, K, V> {
    fn execute<A>(&self, op: Op<'_, K, V, A>) -> Result<A> {
        op.run(self.receiver(), |batch, outputs| {
            let count =
                |outputs: Arrays<'_>| self.queue.counted(*batch, outputs, |count| count)?.wait();
            outputs.through_arrays(batch.keys.len(), count)
        })
    }
}

/// # Insert and update
impl<K: Pod, V: Pod> OnStream<'_, K, V> {
    /// Keeps the present value, unlike `HashMap::insert`: as [`Map::insert`], on the stream.
    ///
    /// # Errors
    /// As for [`Map::insert`]; [`Error::WrongDevice`] also for the stream. Keys that were made to
    /// collide give [`Error::Full`] with `partial` when the answer is waited for.
    pub fn insert(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
    ) -> Result<Pending<usize>> {
        self.submit(op::insert(keys, values))
    }

    /// [`Map::upsert`] on the stream.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn upsert(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
    ) -> Result<Pending<usize>> {
        self.submit(op::upsert(keys, values))
    }

    /// [`Map::merge`] on the stream.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn merge<Form>(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: impl Operand<V, Form>,
        merge: Merge,
    ) -> Result<Pending<usize>>
    where
        V: Numeric,
    {
        self.submit(op::merge(keys, values, merge))
    }

    /// [`Map::get_or_insert_into`] on the stream.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert); [`Error::OutputTooSmall`].
    pub fn get_or_insert_into<'a>(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
        held: impl Into<BufferViewMut<'a, V>>,
    ) -> Result<Pending<usize>> {
        let mut held = held.into();
        self.submit(op::get_or_insert(keys, values).into(&mut held).count())
    }

    /// [`Map::update`] on the stream.
    ///
    /// # Errors
    /// As for [`Map::update`]; [`Error::WrongDevice`] also for the stream.
    pub fn update(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &(impl Input<V> + ?Sized),
    ) -> Result<Pending<usize>> {
        self.submit(op::update(keys, values))
    }

    /// [`Map::update_with`] on the stream.
    ///
    /// # Errors
    /// As for [`update`](Self::update).
    pub fn update_with<Form>(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: impl Operand<V, Form>,
        merge: Merge,
    ) -> Result<Pending<usize>>
    where
        V: Numeric,
    {
        self.submit(op::update_with(keys, values, merge))
    }
}

/// # Remove
impl<K: Pod, V: Pod> OnStream<'_, K, V> {
    /// [`Map::remove`] on the stream.
    ///
    /// # Errors
    /// As for [`Map::remove`]; [`Error::WrongDevice`] also for the stream.
    pub fn remove(&self, keys: &(impl Input<K> + ?Sized)) -> Result<Pending<usize>> {
        self.submit(op::remove(keys))
    }
}

/// # Look up
impl<K: Pod, V: Pod> OnStream<'_, K, V> {
    /// [`Map::get_into`] on the stream.
    ///
    /// ```
    /// use gpumap::{Buffer, Device, Map, Stream};
    ///
    /// let stream = Stream::new(&Device::cpu())?;
    /// let map: Map<u32, u32> = Map::from_pairs(stream.device(), [(1, 10), (2, 20), (3, 30)])?;
    /// let keys = Buffer::from_slice(&stream, &[1u32, 2, 3, 4])?;
    /// let (mut values, mut found) = (Buffer::zeroed(&stream, 4)?, Buffer::zeroed(&stream, 4)?);
    /// for part in [0..2, 2..4] {
    ///     let keys = keys.slice(part.clone())?;
    ///     let (values, found) = (values.slice_mut(part.clone())?, found.slice_mut(part)?);
    ///     // An answer that is not waited for.
    ///     let _ = map.on(&stream).get_into(&keys, values, found)?;
    /// }
    /// assert_eq!(values.to_vec()?, [10, 20, 30, 0]);
    /// assert_eq!(found.to_vec()?, [1, 1, 1, 0]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Map::get_into`]; [`Error::WrongDevice`] also for the stream.
    pub fn get_into<'a>(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: impl Into<BufferViewMut<'a, V>>,
        found: impl Into<BufferViewMut<'a, u8>>,
    ) -> Result<Pending<()>> {
        let (mut values, mut found) = (values.into(), found.into());
        self.submit(op::get(keys).into(&mut values).found(&mut found))
    }

    /// [`Map::get_or_into`] on the stream.
    ///
    /// # Errors
    /// As for [`Map::get_or_into`]; [`Error::WrongDevice`] also for the stream.
    pub fn get_or_into<'a>(
        &self,
        keys: &(impl Input<K> + ?Sized),
        default: V,
        values: impl Into<BufferViewMut<'a, V>>,
    ) -> Result<Pending<()>>
    where
        V: Value,
    {
        let mut values = values.into();
        self.submit(op::get(keys).or(default).into(&mut values))
    }

    /// [`Map::contains_into`] on the stream.
    ///
    /// # Errors
    /// As for [`Map::contains_into`]; [`Error::WrongDevice`] also for the stream.
    pub fn contains_into<'a>(
        &self,
        keys: &(impl Input<K> + ?Sized),
        found: impl Into<BufferViewMut<'a, u8>>,
    ) -> Result<Pending<()>> {
        let mut found = found.into();
        self.submit(op::contains(keys).found(&mut found))
    }
}

/// # Dump
impl<K: Pod, V: Pod> OnStream<'_, K, V> {
    /// [`Map::retrieve_all_into`] on the stream: every pair that is there when the stream reaches
    /// it. What is stored beside it may or may not be among them.
    ///
    /// ```
    /// use gpumap::{Buffer, Device, Map, Stream};
    ///
    /// let device = Device::cpu();
    /// let stream = Stream::new(&device)?;
    /// let map = Map::<u32, u32>::with_capacity(&device, 100)?;
    /// let (mut keys, mut values) = (Buffer::zeroed(&stream, 5)?, Buffer::zeroed(&stream, 5)?);
    /// let on = map.on(&stream);
    /// let _ = on.insert(&[1, 2], &[10, 20])?;
    /// let pairs = on.retrieve_all_into(&mut keys, &mut values)?.wait()?;
    /// assert_eq!(pairs, 2);
    /// assert_eq!(values.to_vec()?[..2].iter().sum::<u32>(), 30);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Map::retrieve_all_into`], but [`Error::OutputTooSmall`] when the answer is waited
    /// for: then the outputs are full of pairs, and there are more. Maps of other kinds, which wait, return it at once.
    /// [`Error::WrongDevice`] also for the stream.
    pub fn retrieve_all_into<'a>(
        &self,
        keys: impl Into<BufferViewMut<'a, K>>,
        values: impl Into<BufferViewMut<'a, V>>,
    ) -> Result<Pending<usize>> {
        let (keys, values) = (keys.into(), values.into());
        let room = keys.len().min(values.len());
        self.queue
            .dump(keys.into_bytes(), values.into_bytes(), room)
    }
}
