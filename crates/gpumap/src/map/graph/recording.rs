//! [`Recording`]: the verbs of one launch of a graph.

use std::{fmt, ptr};

use bytemuck::Pod;
use gpumap_simt::atomic::part::Update;

use super::Graph;
use crate::buffer::{BufferView, BufferViewMut};
use crate::device::Device;
#[cfg(doc)]
use crate::error::Error;
use crate::error::{Result, expect_room, expect_same_len};
use crate::map::assign::Assignment;
use crate::map::look_up::{LookUp, Outputs};
use crate::map::merge::Merge;
use crate::map::pending::Pending;
use crate::map::step::Step;
use crate::map::store::{Job, Verb};
use crate::map::{Key, Pair, Value, bits};
use crate::stream::Stream;

/// The verbs of one launch of a [`Graph`], in the order in which they take effect; made by
/// [`Graph::record`].
///
/// | group | operations |
/// |---|---|
/// | Insert and update | [`insert`](Self::insert), [`upsert`](Self::upsert), [`merge`](Self::merge), [`get_or_insert_into`](Self::get_or_insert_into) |
/// | Update if present | [`assign`](Self::assign), [`merge_present`](Self::merge_present) |
/// | Look up | [`get_into`](Self::get_into), [`get_or_into`](Self::get_or_into), [`contains_into`](Self::contains_into) |
/// | Remove | [`remove`](Self::remove) |
/// | Dump | [`retrieve_all_into`](Self::retrieve_all_into) |
/// | Sets | [`insert_keys`](Self::insert_keys) |
/// | Launch | [`launch`](Self::launch) |
///
/// They take [`Buffer`](crate::Buffer)s of the device, or parts of them, and borrow them until the
/// recording is [launched](Self::launch) or dropped. So an input may be that of several verbs, but
/// not an output of another one. A verb that returns an error is not recorded.
#[must_use = "verbs take effect when they are launched"]
pub struct Recording<'b, 'm, K: Key, V: Value> {
    graph: &'b mut Graph<'m, K, V>,
    steps: Vec<Step>,
    /// Those of the buffers, once each.
    streams: Vec<&'b Stream>,
}

/// # Insert and update
impl<'b, 'm, K: Key, V: Value> Recording<'b, 'm, K, V> {
    pub(super) fn new(graph: &'b mut Graph<'m, K, V>) -> Self {
        Self {
            graph,
            steps: Vec::new(),
            streams: Vec::new(),
        }
    }

    /// Keeps the present value, unlike `HashMap::insert`: as [`Map::insert`](crate::Map::insert),
    /// to be launched. Its count is that of new keys.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`]; [`Error::WrongDevice`], also for the stream of the graph.
    pub fn insert(
        &mut self,
        keys: impl Into<BufferView<'b, K>>,
        values: impl Into<BufferView<'b, V>>,
    ) -> Result<()> {
        self.store(Verb::Insert, keys.into(), values.into(), None)
    }

    /// [`Map::upsert`](crate::Map::upsert), to be launched. Its count is that of new keys.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn upsert(
        &mut self,
        keys: impl Into<BufferView<'b, K>>,
        values: impl Into<BufferView<'b, V>>,
    ) -> Result<()> {
        let verb = Verb::Merge(Update::Replace);
        self.store(verb, keys.into(), values.into(), None)
    }

    /// [`Map::merge`](crate::Map::merge), to be launched. Its count is that of new keys.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn merge(
        &mut self,
        keys: impl Into<BufferView<'b, K>>,
        values: impl Into<BufferView<'b, V>>,
        merge: Merge,
    ) -> Result<()> {
        let verb = Verb::Merge(merge.update::<V>());
        self.store(verb, keys.into(), values.into(), None)
    }

    /// [`Map::get_or_insert_into`](crate::Map::get_or_insert_into), to be launched. Its count is
    /// that of new keys.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert); [`Error::OutputTooSmall`].
    pub fn get_or_insert_into(
        &mut self,
        keys: impl Into<BufferView<'b, K>>,
        values: impl Into<BufferView<'b, V>>,
        held: impl Into<BufferViewMut<'b, V>>,
    ) -> Result<()> {
        let (keys, values, held) = (keys.into(), values.into(), held.into());
        expect_room(keys.len(), held.len())?;
        self.store(Verb::GetOrInsert, keys, values, Some(held))
    }

    /// [`Map::assign`](crate::Map::assign), to be launched. Its count is that of keys that were
    /// present.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn assign(
        &mut self,
        keys: impl Into<BufferView<'b, K>>,
        values: impl Into<BufferView<'b, V>>,
    ) -> Result<()> {
        self.assign_all(Update::Replace, keys.into(), values.into())
    }

    /// [`Map::merge_present`](crate::Map::merge_present), to be launched. Its count is that of keys
    /// that were present.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn merge_present(
        &mut self,
        keys: impl Into<BufferView<'b, K>>,
        values: impl Into<BufferView<'b, V>>,
        merge: Merge,
    ) -> Result<()> {
        self.assign_all(merge.update::<V>(), keys.into(), values.into())
    }
}

/// # Remove
impl<'b, 'm, K: Key, V: Value> Recording<'b, 'm, K, V> {
    /// [`Map::remove`](crate::Map::remove), to be launched. Its count is that of removed pairs.
    ///
    /// # Errors
    /// [`Error::WrongDevice`], also for the stream of the graph.
    pub fn remove(&mut self, keys: impl Into<BufferView<'b, K>>) -> Result<()> {
        let keys = keys.into();
        self.expect_here([keys.device()])?;
        self.order(keys.stream());
        self.steps.push(Step::Remove {
            keys: keys.as_ptr().cast(),
            len: keys.len(),
        });
        Ok(())
    }
}

/// # Look up
impl<'b, 'm, K: Key, V: Value> Recording<'b, 'm, K, V> {
    /// [`Map::get_into`](crate::Map::get_into), to be launched. Its count is 0.
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`]; [`Error::WrongDevice`], also for the stream of the graph.
    pub fn get_into(
        &mut self,
        keys: impl Into<BufferView<'b, K>>,
        values: impl Into<BufferViewMut<'b, V>>,
        found: impl Into<BufferViewMut<'b, u8>>,
    ) -> Result<()> {
        let (values, found) = (Some(values.into()), Some(found.into()));
        self.look_up(keys.into(), values, found, V::zeroed())
    }

    /// [`Map::get_or_into`](crate::Map::get_or_into), to be launched. Its count is 0.
    ///
    /// # Errors
    /// As for [`get_into`](Self::get_into).
    pub fn get_or_into(
        &mut self,
        keys: impl Into<BufferView<'b, K>>,
        default: V,
        values: impl Into<BufferViewMut<'b, V>>,
    ) -> Result<()> {
        self.look_up(keys.into(), Some(values.into()), None, default)
    }

    /// [`Map::contains_into`](crate::Map::contains_into), to be launched. Its count is 0.
    ///
    /// # Errors
    /// As for [`get_into`](Self::get_into).
    pub fn contains_into(
        &mut self,
        keys: impl Into<BufferView<'b, K>>,
        found: impl Into<BufferViewMut<'b, u8>>,
    ) -> Result<()> {
        self.look_up(keys.into(), None, Some(found.into()), V::zeroed())
    }
}

/// # Dump
impl<'b, 'm, K: Key, V: Value> Recording<'b, 'm, K, V> {
    /// [`OnStream::retrieve_all_into`](crate::OnStream::retrieve_all_into), to be launched. Its
    /// count is that of the pairs; [`Error::OutputTooSmall`] shows when the answer is waited for.
    ///
    /// # Errors
    /// [`Error::WrongDevice`], also for the stream of the graph.
    pub fn retrieve_all_into(
        &mut self,
        keys: impl Into<BufferViewMut<'b, K>>,
        values: impl Into<BufferViewMut<'b, V>>,
    ) -> Result<()> {
        let (mut keys, mut values) = (keys.into(), values.into());
        self.expect_here([keys.device(), values.device()])?;
        self.order(keys.stream());
        self.order(values.stream());
        self.steps.push(Step::Dump {
            keys: keys.as_mut_ptr().cast(),
            values: values.as_mut_ptr().cast(),
            room: keys.len().min(values.len()),
        });
        Ok(())
    }
}

/// # Launch
impl<'b, 'm, K: Key, V: Value> Recording<'b, 'm, K, V> {
    /// Launches all verbs, in the order of the graph's stream, after what was queued before on the
    /// streams of their buffers, which are ordered behind the launch. Returns before the device is
    /// done. The answer has a count for each verb, in their order.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; [`Error::Full`] if the map does not grow; [`Error::Poisoned`],
    /// [`Error::Driver`]. Nothing has been done, unless there may not have been room for all verbs
    /// together, so that they were called one by one: then those before the one that failed have
    /// taken effect, and those after it have not.
    ///
    /// When the answer is waited for, also [`Error::Full`] with `partial`, for keys that were made
    /// to collide, and [`Error::OutputTooSmall`] for a dump: those of the first verb that has one.
    /// All other verbs have taken effect.
    pub fn launch(self) -> Result<Pending<Vec<usize>>> {
        let Self {
            graph,
            steps,
            streams,
        } = self;
        streams
            .iter()
            .try_for_each(|stream| graph.launches.stream.wait_stream(stream))?;
        // SAFETY: each step was made of buffers of the map's device that are borrowed until now;
        // they are neither freed nor used by others before their streams come to the end of the
        // launch.
        let launched = unsafe { graph.launches.launch(steps) }?;
        if let Some(op) = &launched.op {
            let in_flight = &graph.launches.map.state.in_flight;
            let mut behind = streams.iter();
            if let Err(error) = behind.try_for_each(|stream| in_flight.let_wait(stream, op)) {
                // The caller must be able to free the buffers.
                let _ = graph.launches.stream.synchronize();
                return Err(error);
            }
        }
        Ok(launched.pending)
    }

    /// Takes keys and values as inputs of the next step.
    fn take_pairs(&mut self, keys: BufferView<'b, K>, values: BufferView<'b, V>) -> Result<()> {
        expect_same_len(keys.len(), values.len())?;
        self.expect_here([keys.device(), values.device()])?;
        self.order(keys.stream());
        self.order(values.stream());
        Ok(())
    }

    fn store(
        &mut self,
        verb: Verb,
        keys: BufferView<'b, K>,
        values: BufferView<'b, V>,
        held: Option<BufferViewMut<'b, V>>,
    ) -> Result<()> {
        self.take_pairs(keys, values)?;
        let held = self.output(held)?;
        self.steps.push(Step::Store(Job {
            verb,
            keys: keys.as_ptr().cast(),
            values: values.as_ptr().cast(),
            held,
            ..Job::insert(Pair::of::<K, V>(), keys.len())
        }));
        Ok(())
    }

    fn assign_all(
        &mut self,
        update: Update,
        keys: BufferView<'b, K>,
        values: BufferView<'b, V>,
    ) -> Result<()> {
        self.take_pairs(keys, values)?;
        self.steps.push(Step::Assign(Assignment {
            keys: keys.as_ptr().cast(),
            values: values.as_ptr().cast(),
            value: 0,
            len: keys.len(),
            update,
        }));
        Ok(())
    }

    fn look_up(
        &mut self,
        keys: BufferView<'b, K>,
        values: Option<BufferViewMut<'b, V>>,
        found: Option<BufferViewMut<'b, u8>>,
        default: V,
    ) -> Result<()> {
        let room = [
            values.as_ref().map(BufferViewMut::len),
            found.as_ref().map(BufferViewMut::len),
        ];
        let least = room.into_iter().flatten().min();
        expect_room(keys.len(), least.unwrap_or(keys.len()))?;
        self.expect_here([keys.device()])?;
        let outputs = Outputs {
            values: self.output(values)?,
            found: self.output(found)?,
            default: bits(default),
        };
        self.order(keys.stream());
        self.steps.push(Step::LookUp(LookUp {
            keys: keys.as_ptr().cast(),
            len: keys.len(),
            outputs,
        }));
        Ok(())
    }

    /// Where an output is; null if it is not wanted.
    fn output<T: Pod>(&mut self, output: Option<BufferViewMut<'b, T>>) -> Result<*mut u8> {
        let Some(mut output) = output else {
            return Ok(ptr::null_mut());
        };
        self.expect_here([output.device()])?;
        self.order(output.stream());
        Ok(output.as_mut_ptr().cast())
    }

    /// Whether buffers are of the map's device, and the graph's stream as well.
    fn expect_here<const N: usize>(&self, devices: [&Device; N]) -> Result<()> {
        let here = &self.graph.launches.map.device;
        here.expect_same(self.graph.launches.stream.device())?;
        devices
            .into_iter()
            .try_for_each(|device| here.expect_same(device))
    }

    /// Notes the stream of a buffer.
    fn order(&mut self, stream: &'b Stream) {
        let mut known = self
            .streams
            .iter()
            .copied()
            .chain([&self.graph.launches.stream]);
        if !known.any(|known| known.is_same_as(stream)) {
            self.streams.push(stream);
        }
    }
}

/// # Sets
impl<'b, K: Key> Recording<'b, '_, K, ()> {
    /// [`Map::insert_keys`](crate::Map::insert_keys), to be launched. Its count is that of new
    /// keys.
    ///
    /// # Errors
    /// [`Error::WrongDevice`], also for the stream of the graph.
    pub fn insert_keys(&mut self, keys: impl Into<BufferView<'b, K>>) -> Result<()> {
        let keys = keys.into();
        self.expect_here([keys.device()])?;
        self.order(keys.stream());
        self.steps.push(Step::Store(Job {
            keys: keys.as_ptr().cast(),
            values: ptr::dangling(),
            ..Job::insert(Pair::of::<K, ()>(), keys.len())
        }));
        Ok(())
    }
}

impl<K: Key, V: Value> fmt::Debug for Recording<'_, '_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording")
            .field("graph", &self.graph)
            .field("verbs", &self.steps.len())
            .finish_non_exhaustive()
    }
}
