//! [`Recording`]: the verbs of one launch of a graph.

use std::marker::PhantomData;
use std::{fmt, ptr};

use bytemuck::Pod;
use gpumap_simt::atomic::part::Update;

use super::{Graph, Launches};
use crate::array::{Array, ArrayMut};
use crate::buffer::{BufferView, BufferViewMut};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::input::Source;
use crate::map::command::{Arrays, Batch, Command, Kind, Receiver};
use crate::map::merge::Merge;
use crate::map::operand::Operands;
use crate::map::pending::Pending;
use crate::map::{Key, Value, bits};
use crate::op::{FLAGS, InPlace, Op, VALUES};
use crate::output::Sink;
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
    steps: Steps<'b, 'm>,
    _pair: PhantomData<fn(K) -> V>,
}

/// # Operations
impl<'b, 'm, K: Key, V: Value> Recording<'b, 'm, K, V> {
    pub(super) fn new(graph: &'b mut Graph<'m, K, V>) -> Self {
        Self {
            steps: Steps {
                launches: &mut graph.launches,
                commands: Vec::new(),
                streams: Vec::new(),
            },
            _pair: PhantomData,
        }
    }

    /// Notes an [operation](crate::op) on buffers, to be launched. Its count is that which it answers, or 0.
    ///
    /// ```
    /// use gpumap::{Buffer, Device, Map, Merge, Stream, op};
    ///
    /// let stream = Stream::new(&Device::cpu())?;
    /// let map = Map::<u32, u32>::with_capacity(stream.device(), 100)?;
    /// let keys = Buffer::from_slice(&stream, &[1u32, 2])?;
    /// let mut values = Buffer::zeroed(&stream, 2)?;
    /// let mut graph = map.graph(&stream);
    /// let mut recording = graph.record();
    /// recording.add(op::merge(&keys, 1, Merge::Add))?;
    /// recording.add(op::get(&keys).into(&mut values))?;
    /// assert_eq!(recording.launch()?.wait()?, [2, 0]);
    /// assert_eq!(values.to_vec()?, [1, 1]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`op`](crate::op); [`Error::Unsupported`] if an array is of the host; [`Error::WrongDevice`] also for the
    /// stream of the graph.
    pub fn add<A: InPlace>(&mut self, op: Op<'b, K, V, A>) -> Result<()> {
        op.check(Receiver::Graph)?;
        self.steps.add(op.batch, op.outputs)
    }
}

/// # Insert and update
impl<'b, 'm, K: Key, V: Value> Recording<'b, 'm, K, V> {
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
        self.add_pairs(Kind::Insert, keys.into(), values.into(), None)
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
        let kind = Kind::Merge(Update::Replace);
        self.add_pairs(kind, keys.into(), values.into(), None)
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
        let kind = Kind::Merge(merge.update::<V>());
        self.add_pairs(kind, keys.into(), values.into(), None)
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
        let held = Some(held.into());
        self.add_pairs(Kind::GetOrInsert, keys.into(), values.into(), held)
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
        let kind = Kind::Update(Update::Replace);
        self.add_pairs(kind, keys.into(), values.into(), None)
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
        let kind = Kind::Update(merge.update::<V>());
        self.add_pairs(kind, keys.into(), values.into(), None)
    }
}

/// # Remove
impl<'b, 'm, K: Key, V: Value> Recording<'b, 'm, K, V> {
    /// [`Map::remove`](crate::Map::remove), to be launched. Its count is that of removed pairs.
    ///
    /// # Errors
    /// [`Error::WrongDevice`], also for the stream of the graph.
    pub fn remove(&mut self, keys: impl Into<BufferView<'b, K>>) -> Result<()> {
        let keys = Source::Device(keys.into());
        self.add(Op::of(Kind::Remove, keys, Operands::NONE))
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
        let (keys, values) = (keys.into(), values.into());
        let room = keys.len().min(values.len());
        self.steps
            .add_dump(keys.into_bytes(), values.into_bytes(), room)
    }
}

/// # Launch
impl<'b, 'm, K: Key, V: Value> Recording<'b, 'm, K, V> {
    /// Launches all verbs, in the order of the graph's stream, after what was queued before on the
    /// streams of their buffers, which are ordered after the launch. Returns before the device is
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
        self.steps.launch()
    }

    /// Notes an operation on pairs.
    fn add_pairs(
        &mut self,
        kind: Kind,
        keys: BufferView<'b, K>,
        values: BufferView<'b, V>,
        held: Option<BufferViewMut<'b, V>>,
    ) -> Result<()> {
        let values = Operands::Each(Source::Device(values).into());
        let op = Op::of(kind, Source::Device(keys), values);
        self.add(op.with_array(VALUES, held.map(array)))
    }

    /// Notes a lookup.
    fn look_up(
        &mut self,
        keys: BufferView<'b, K>,
        values: Option<BufferViewMut<'b, V>>,
        found: Option<BufferViewMut<'b, u8>>,
        default: V,
    ) -> Result<()> {
        let mut op = Op::of(Kind::Get, Source::Device(keys), Operands::NONE);
        op.batch.default = bits(default);
        let op = op.with_array(VALUES, values.map(array));
        self.add(op.with_array(FLAGS, found.map(array)))
    }
}

/// A buffer as an output.
fn array<'b, T: Pod>(view: BufferViewMut<'b, T>) -> ArrayMut<'b> {
    Sink::Device(view).into()
}

/// What a [`Recording`] has noted, without its types.
struct Steps<'b, 'm> {
    launches: &'b mut Launches<'m>,
    commands: Vec<Command>,
    /// Of buffers, except that of the graph; each once.
    streams: Vec<&'b Stream>,
}

impl<'b> Steps<'b, '_> {
    /// Notes an operation that has been checked.
    fn add(&mut self, batch: Batch<'b>, outputs: Arrays<'b>) -> Result<()> {
        let on_host = || batch.unsupported(" with arrays of the host", Receiver::Graph);
        let view = |array: Array<'b>| match array.bytes() {
            Source::Device(view) => Ok(Some(view)),
            // The values of a set, or the same for all keys.
            Source::Host([]) => Ok(None),
            Source::Host(_) => Err(on_host()),
        };
        let takes_values = batch.kind.traits().takes_values;
        let keys = view(batch.keys)?;
        let values = view(batch.values.each())?.filter(|_| takes_values);
        let mut views = [None, None];
        for (view, output) in views.iter_mut().zip(outputs) {
            *view = match output.map(ArrayMut::into_bytes) {
                Some(Sink::Device(view)) => Some(view),
                Some(Sink::Host(_)) => return Err(on_host()),
                None => None,
            };
        }
        for stream in [&keys, &values]
            .into_iter()
            .flatten()
            .map(BufferView::stream)
        {
            self.order(stream)?;
        }
        for output in views.iter().flatten() {
            self.order(output.stream())?;
        }
        let [out_values, out_flags] =
            views.map(|view| view.map_or(ptr::null_mut(), |mut view| view.as_mut_ptr()));
        let address =
            |view: Option<BufferView<'b, u8>>| view.map_or(ptr::null(), |view| view.as_ptr());
        self.commands.push(Command {
            keys: address(keys),
            values: address(values),
            value: batch.values.same(),
            default: batch.default,
            out_values,
            out_flags,
            ..Command::of(batch.kind, self.launches.map.pair, batch.keys.len())
        });
        Ok(())
    }

    /// Notes a dump into outputs that have room for so many pairs.
    fn add_dump(
        &mut self,
        mut keys: BufferViewMut<'b, u8>,
        mut values: BufferViewMut<'b, u8>,
        room: usize,
    ) -> Result<()> {
        self.order(keys.stream())?;
        self.order(values.stream())?;
        self.commands.push(Command {
            keys: keys.as_mut_ptr(),
            values: values.as_mut_ptr(),
            ..Command::of(Kind::Dump, self.launches.map.pair, room)
        });
        Ok(())
    }

    /// Notes the stream of a buffer, which has to be of the map's device, as the graph's.
    fn order(&mut self, stream: &'b Stream) -> Result<()> {
        let here = &self.launches.map.device;
        here.expect_same(self.launches.stream.device())?;
        here.expect_same(stream.device())?;
        let mut known = self.streams.iter().copied().chain([&self.launches.stream]);
        if !known.any(|known| known.is_same_as(stream)) {
            self.streams.push(stream);
        }
        Ok(())
    }

    /// See [`Recording::launch`].
    fn launch(self) -> Result<Pending<Vec<usize>>> {
        let Self {
            launches,
            commands,
            streams,
        } = self;
        streams
            .iter()
            .try_for_each(|stream| launches.stream.wait_stream(stream))?;
        // SAFETY: each command was made of buffers of the map's device that are borrowed until now;
        // they are neither freed nor used by others before their streams reach the end of the
        // launch.
        let launched = unsafe { launches.launch(commands) }?;
        if let Some(op) = &launched.op {
            let in_flight = &launches.map.state.in_flight;
            let mut behind = streams.iter();
            if let Err(error) = behind.try_for_each(|stream| in_flight.let_wait(stream, op)) {
                // The caller must be able to free the buffers.
                let _ = launches.stream.synchronize();
                return Err(error);
            }
        }
        Ok(launched.pending)
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
        let keys = Source::Device(keys.into());
        self.add(Op::of(Kind::Insert, keys, Operands::Same(0)))
    }
}

impl<K: Key, V: Value> fmt::Debug for Recording<'_, '_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording")
            .field("map", &self.steps.launches.map)
            .field("stream", &self.steps.launches.stream)
            .field("operations", &self.steps.commands.len())
            .finish_non_exhaustive()
    }
}
