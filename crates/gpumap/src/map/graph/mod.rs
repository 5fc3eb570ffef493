//! [`Graph`]: several verbs on a stream that the device is given by one call of the driver.
//!
//! A graph keeps *captures*: executable graphs of the driver with the steps and the sight of the
//! map's memory that they were made for. Each launch records its verbs anew and takes a capture that was
//! made for the same ones, or makes one. So nothing is borrowed between launches, and nothing that
//! was captured can be out of date: pointers are compared before they are used again.
//!
//! What a map of any kind queues on a [stream](super::on_stream) is captured, by the same [`StreamReceiver`].

mod capture;
mod recording;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

pub use recording::Recording;
pub(crate) use recording::Steps;

use super::command::{Command, KEY_ALIGN};
use super::in_flight::{Completion, MapState, PendingOp};
use super::on_stream::{Queue, StreamReceiver};
use super::{Key, Map, Value};
#[cfg(doc)]
use crate::buffer::Buffer;
use crate::error::Result;
use crate::stream::Stream;
use capture::Capture;

/// How many launches may be in flight at once, and how many captures are kept. A few, so that the
/// device finds the next one there when it is done with one.
const MOST: usize = 8;

/// Several verbs of a map on a stream, launched together: made by [`Map::graph`],
/// [`Map::graph`](crate::Map::graph), [`Map::graph`](crate::Map::graph) and
/// [`MultiMap::graph`](crate::MultiMap::graph).
///
/// A call of few keys costs what its calls of the driver cost, not its kernel. A graph has one such
/// call for all of its verbs together. They are [recorded](Self::record) each time, which costs
/// next to nothing, and launched as a CUDA graph. That is captured when verbs, buffers, or lengths
/// are others than in the launches before, and when the map has grown, been rebuilt, or was stored
/// to for the first time since it was built by a large batch; else the one from before is launched.
/// On the CPU the same is done without a driver.
///
/// # Buffers
/// A [`Recording`] borrows the buffers of its verbs until it is launched, like the verbs of
/// [`Map::on`]. Between launches they are yours: to be filled anew, read, passed to other verbs and
/// other graphs, or dropped. What is queued on a buffer's stream comes before the next launch, and
/// after the one before. The captures of lookups of a [`Map`](crate::Map) of the layouts
/// [`Cells`](crate::Layout::Cells) and [`Rows`](crate::Layout::Rows) have memory of their own: 4 bytes for each key of the largest one.
///
/// # Launches
/// The verbs take effect one after the other, in the order of the stream, exactly as those of
/// [`Map::on`]. Up to eight launches are in flight; another waits for the first of them.
///
/// Captured is what a stream [queues](crate::OnStream#what-is-queued-and-what-waits), except operations that store with
/// [outcomes](crate::op::Op::outcomes) and [`take`](crate::op::take), whose outputs are zeroed first. If all verbs of a launch are
/// captured, they get room for the sum of their batches together. If that may not be there, or a verb is not captured, **all
/// of them are called one by one**, waiting for the device each time: as without a graph, and in the same order. A map that
/// has grown by that has one call for the next launch again. So a program that is generic over maps has one way, and gains by
/// a graph where all that it records is captured.
///
/// ```
/// use gpumap::{Buffer, Device, Map, Stream};
///
/// let device = Device::best()?;
/// let stream = Stream::new(&device)?;
/// let map = Map::<u32, u32>::with_capacity(&device, 1_000)?;
/// let mut keys = Buffer::zeroed(&stream, 3)?;
/// let mut values = Buffer::zeroed(&stream, 3)?;
/// let mut found = Buffer::zeroed(&stream, 3)?;
///
/// let mut graph = map.graph(&stream);
/// for round in 0..4u32 {
///     keys.copy_from_slice(&[round, round + 1, round + 2])?;
///     let mut verbs = graph.record();
///     verbs.insert(&keys, &keys)?;
///     verbs.get_or_into(&keys, 0, &mut values)?;
///     verbs.remove(keys.slice(..1)?)?;
///     verbs.contains_into(&keys, &mut found)?;
///     let counts = verbs.launch()?.wait()?; // one for each verb; lookups count nothing
///     assert_eq!(counts, [if round == 0 { 3 } else { 1 }, 0, 1, 0]);
///     assert_eq!(values.to_vec()?, [round, round + 1, round + 2]);
///     assert_eq!(found.to_vec()?, [0, 1, 1]);
/// }
/// assert_eq!(graph.captures(), 1);
/// # Ok::<(), gpumap::Error>(())
/// ```
pub struct Graph<'m, K, V> {
    launches: Launches<'m>,
    _pair: PhantomData<fn(K) -> V>,
}

/// # Graphs
impl<K: Key, V: Value> Map<K, V> {
    /// Verbs that are launched together, in the order of a stream. See [`Graph`].
    pub fn graph(&self, stream: &Stream) -> Graph<'_, K, V> {
        Graph::of(self.storage(), stream)
    }
}

impl<'m, K, V> Graph<'m, K, V> {
    /// The graphs of a map of such pairs on a stream.
    pub(crate) fn of(receiver: &'m dyn StreamReceiver, stream: &Stream) -> Self {
        Self {
            launches: Launches::new(receiver, stream),
            _pair: PhantomData,
        }
    }

    /// Begins to record the verbs of one launch.
    pub fn record<'b>(&'b mut self) -> Recording<'b, 'm, K, V> {
        Recording::new(&mut self.launches)
    }

    /// How often verbs have been captured. It stays the same from launch to launch if verbs,
    /// buffers and lengths do, once there are as many captures as launches in flight. A launch whose verbs are
    /// [called one by one](Self#launches) adds none.
    pub fn captures(&self) -> usize {
        self.launches.captures
    }
}

/// A graph without its types.
pub(crate) struct Launches<'m> {
    queue: Queue<'m>,
    /// In the order in which they were last launched.
    kept: VecDeque<Capture>,
    /// Of captures to come.
    completions: Vec<Arc<Completion>>,
    pub captures: usize,
}

impl<'m> Launches<'m> {
    pub fn new(receiver: &'m dyn StreamReceiver, stream: &Stream) -> Self {
        Self {
            queue: Queue::new(receiver, stream),
            kept: VecDeque::new(),
            completions: Vec::new(),
            captures: 0,
        }
    }

    fn state(&self) -> &'m Arc<MapState> {
        self.queue.receiver.state()
    }

    /// Whether a step can be captured: its map queues it, and it takes nothing but kernels.
    fn captures(&self, step: &Command) -> bool {
        let is_queued = self.queue.receiver.receiver().queues(step.kind);
        let has_keys = step.keys.addr().is_multiple_of(KEY_ALIGN);
        step.is_empty() || is_queued && has_keys && step.zeroed().is_none()
    }

    /// Launches steps that can be captured, in the order of the stream. Returns none, with nothing launched, if there may not
    /// be room for what they store.
    ///
    /// # Safety
    /// The addresses lead to as many elements as the steps say, which are valid on the map's device
    /// until the call has ended.
    unsafe fn launch(&mut self, steps: Vec<Command>) -> Result<Option<Arc<PendingOp>>> {
        let mut stores = 0usize;
        for step in &steps {
            stores = stores.saturating_add(step.stores());
        }
        // Else a capture would be lost, and its memory, which cannot be freed on such a stream.
        self.queue.stream.expect_not_captured()?;
        // Before the lock: it may wait for a launch.
        let kept = self.idle(&steps)?;
        let memory = self.queue.receiver.memory()?;
        let Some(reservation) = self.state().reserve_pairs(stores) else {
            self.kept.extend(kept);
            return Ok(None);
        };
        let capture = match kept {
            Some(kept) if kept.is_of(&steps, &*memory) => kept,
            kept => {
                let completion = self.completion(kept.map(Capture::into_ticket), steps.len())?;
                // SAFETY: launched only while its steps are those that the caller vouches for.
                let capture = unsafe { Capture::of(&self.queue, &*memory, steps, completion) }?;
                self.captures += 1;
                capture
            }
        };
        if stores != 0 {
            memory.note_stores();
        }
        // SAFETY: the caller vouches for the buffers; the capture is of this very memory, and a
        // call that frees or replaces it first waits for all pending calls.
        let (capture, op) = unsafe { capture.launch(&self.queue) }?;
        // The pending call keeps it from now on.
        reservation.keep_in_flight();
        drop(memory);
        self.kept.push_back(capture);
        Ok(Some(op))
    }

    /// Takes out a capture that no launch is using: one of the same steps if there is, or one that
    /// is to be made again if there are enough of them.
    fn idle(&mut self, steps: &[Command]) -> Result<Option<Capture>> {
        // They end in the order in which they were launched: the first is that which ends first.
        let first = self.kept.iter().position(|kept| kept.steps() == steps);
        let may_wait = self.kept.len() == MOST;
        let taken = match first {
            Some(i) if may_wait || self.kept[i].has_ended() => i,
            _ if may_wait => 0,
            _ => return Ok(None),
        };
        self.kept[taken].retire(self.state())?;
        Ok(self.kept.remove(taken))
    }

    /// A completion for so many verbs: that of a capture which is not needed any more, if it will do.
    fn completion(
        &mut self,
        unused: Option<Arc<Completion>>,
        verbs: usize,
    ) -> Result<Arc<Completion>> {
        self.completions.extend(unused);
        self.completions
            .retain(|completion| completion.verbs() >= verbs);
        if let Some(completion) = self.completions.pop() {
            return Ok(completion);
        }
        // All at once: page-locked memory is slow to get, and getting it may wait for the device.
        let completions = self.state().in_flight.completions(MOST, verbs)?;
        self.completions
            .extend(completions.into_iter().map(Arc::new));
        self.completions
            .pop()
            .map_or_else(|| self.completion(None, verbs), Ok)
    }
}

impl fmt::Debug for Launches<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launches")
            .field("map", &self.queue.receiver.receiver().name())
            .field("stream", &self.queue.stream)
            .field("captures", &self.captures)
            .finish_non_exhaustive()
    }
}

impl<K, V> fmt::Debug for Graph<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Graph").field(&self.launches).finish()
    }
}
