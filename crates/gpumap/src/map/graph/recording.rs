//! [`Recording`]: the verbs of one launch of a graph.

use std::marker::PhantomData;
use std::{fmt, ptr};

use bytemuck::Pod;
use gpumap_simt::atomic::part::Update;

#[cfg(doc)]
use super::Graph;
use super::Launches;
use crate::array::{Array, ArrayMut};
use crate::buffer::{BufferView, BufferViewMut};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::input::Source;
use crate::map::command::{Arrays, Batch, Command, Kind};
use crate::map::merge::Merge;
use crate::map::on_stream::{Queue, addresses};
use crate::map::operand::Operands;
use crate::map::pending::Pending;
use crate::map::{Numeric, Value, bits};
use crate::op::{FLAGS, InPlace, Op, VALUES};
use crate::output::Sink;
use crate::stream::Stream;

/// The verbs of one launch of a [`Graph`], in the order in which they take effect; made by
/// [`Graph::record`].
///
/// | group | operations |
/// |---|---|
/// | Insert and update | [`insert`](Self::insert), [`upsert`](Self::upsert), [`merge`](Self::merge), [`get_or_insert_into`](Self::get_or_insert_into) |
/// | Update if present | [`update`](Self::update), [`update_with`](Self::update_with) |
/// | Look up | [`get_into`](Self::get_into), [`get_or_into`](Self::get_or_into), [`contains_into`](Self::contains_into) |
/// | Remove | [`remove`](Self::remove) |
/// | Dump | [`retrieve_all_into`](Self::retrieve_all_into) |
/// | Sets | [`insert_keys`](Self::insert_keys) |
/// | Launch | [`launch`](Self::launch) |
///
/// They take [`Buffer`](crate::Buffer)s of the device, or parts of them, and borrow them until the
/// recording is [launched](Self::launch) or dropped. So an input may be that of several verbs, but
/// not an output of another one. A verb that returns an error is not recorded. One that the map does not run is refused with
/// [`Error::Unsupported`].
#[must_use = "verbs take effect when they are launched"]
pub struct Recording<'b, 'm, K, V> {
    steps: Steps<'b, 'm>,
    _pair: PhantomData<fn(K) -> V>,
}

/// # Operations
impl<'b, 'm, K, V> Recording<'b, 'm, K, V> {
    pub(super) fn new(launches: &'b mut Launches<'m>) -> Self {
        Self {
            steps: Steps::new(launches),
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
        op.check(self.steps.launches.queue.receiver.receiver())?;
        self.steps.add(op.batch, op.outputs)
    }
}

/// # Insert and update
impl<'b, K: Pod, V: Pod> Recording<'b, '_, K, V> {
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
    ) -> Result<()>
    where
        V: Numeric,
    {
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

    /// [`Map::update`](crate::Map::update), to be launched. Its count is that of keys that were
    /// present.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn update(
        &mut self,
        keys: impl Into<BufferView<'b, K>>,
        values: impl Into<BufferView<'b, V>>,
    ) -> Result<()> {
        let kind = Kind::Update(Update::Replace);
        self.add_pairs(kind, keys.into(), values.into(), None)
    }

    /// [`Map::update_with`](crate::Map::update_with), to be launched. Its count is that of keys
    /// that were present.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn update_with(
        &mut self,
        keys: impl Into<BufferView<'b, K>>,
        values: impl Into<BufferView<'b, V>>,
        merge: Merge,
    ) -> Result<()>
    where
        V: Numeric,
    {
        let kind = Kind::Update(merge.update::<V>());
        self.add_pairs(kind, keys.into(), values.into(), None)
    }
}

/// # Remove
impl<'b, K: Pod, V: Pod> Recording<'b, '_, K, V> {
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
impl<'b, K: Pod, V: Pod> Recording<'b, '_, K, V> {
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
        self.look_up(keys.into(), values, found, 0)
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
    ) -> Result<()>
    where
        V: Value,
    {
        self.look_up(keys.into(), Some(values.into()), None, bits(default))
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
        self.look_up(keys.into(), None, Some(found.into()), 0)
    }
}

/// # Dump
impl<'b, K: Pod, V: Pod> Recording<'b, '_, K, V> {
    /// [`OnStream::retrieve_all_into`](crate::OnStream::retrieve_all_into), to be launched. Its
    /// count is that of the pairs; [`Error::OutputTooSmall`] shows when the answer is waited for, or, if the verbs are
    /// [called one by one](Graph#launches), at the [launch](Self::launch).
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
impl<K, V> Recording<'_, '_, K, V> {
    /// Launches all verbs, in the order of the graph's stream, after what was queued before on the
    /// streams of their buffers, which are ordered after the launch. Returns before the device is
    /// done, unless they are [called one by one](Graph#launches). The answer has a count for each verb, in their order.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; [`Error::Full`] if the map does not grow; [`Error::Poisoned`],
    /// [`Error::Driver`], after which the verbs may have taken effect. After the others nothing has been done, unless the verbs were
    /// called one by one: then those before the one that failed have taken effect, and those after it have not; and the errors below
    /// come from here.
    ///
    /// When the answer is waited for, also [`Error::Full`] with `partial`, for keys that were made
    /// to collide, and [`Error::OutputTooSmall`] for a dump: those of the first verb that has one.
    /// All other verbs have taken effect then.
    pub fn launch(self) -> Result<Pending<Vec<usize>>> {
        self.steps.launch(|counts| counts)
    }
}

impl<'b, K: Pod, V: Pod> Recording<'b, '_, K, V> {
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

    /// Notes a lookup, with bits for absent keys.
    fn look_up(
        &mut self,
        keys: BufferView<'b, K>,
        values: Option<BufferViewMut<'b, V>>,
        found: Option<BufferViewMut<'b, u8>>,
        default: u64,
    ) -> Result<()> {
        let mut op = Op::of(Kind::Get, Source::Device(keys), Operands::NONE);
        op.batch.default = default;
        let op = op.with_array(VALUES, values.map(array));
        self.add(op.with_array(FLAGS, found.map(array)))
    }
}

/// A buffer as an output.
fn array<'b, T: Pod>(view: BufferViewMut<'b, T>) -> ArrayMut<'b> {
    Sink::Device(view).into()
}

/// What a recording has noted, without its types.
pub(crate) struct Steps<'b, 'm> {
    launches: &'b mut Launches<'m>,
    /// What is captured,
    commands: Vec<Command>,
    /// and the same, to be called.
    calls: Vec<Step<'b>>,
    /// Of buffers, except that of the graph; each once.
    streams: Vec<&'b Stream>,
}

/// A verb with its buffers.
enum Step<'b> {
    Operation(Batch<'b>, Arrays<'b>),
    Dump([BufferViewMut<'b, u8>; 2], usize),
}

impl<'b, 'm> Steps<'b, 'm> {
    pub fn new(launches: &'b mut Launches<'m>) -> Self {
        Self {
            launches,
            commands: Vec::new(),
            calls: Vec::new(),
            streams: Vec::new(),
        }
    }

    /// Notes an operation that has been checked.
    pub fn add(&mut self, batch: Batch<'b>, mut outputs: Arrays<'b>) -> Result<()> {
        let name = self.launches.queue.receiver.receiver().name();
        let on_host = || batch.unsupported(" with arrays of the host in a graph", name);
        let view = |array: Array<'b>| match array.bytes() {
            Source::Device(view) => Ok(Some(view)),
            // The values of a set, or the same for all keys.
            Source::Host([]) => Ok(None),
            Source::Host(_) => Err(on_host()),
        };
        let takes_values = batch.kind.traits().takes_values;
        let keys = view(batch.keys)?;
        let values = view(batch.values.each())?.filter(|_| takes_values);
        for view in [&keys, &values].into_iter().flatten() {
            self.order(view.stream())?;
        }
        for output in outputs.iter_mut().flatten() {
            let view = output.on_device().ok_or_else(on_host)?;
            self.order(view.stream())?;
        }
        let address =
            |view: Option<BufferView<'b, u8>>| view.map_or(ptr::null(), |view| view.as_ptr());
        let pair = self.launches.queue.receiver.pair();
        self.commands.push(Command {
            keys: address(keys),
            values: address(values),
            ..Command::of_batch(&batch, pair, addresses(&mut outputs))
        });
        self.calls.push(Step::Operation(batch, outputs));
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
        let pair = self.launches.queue.receiver.pair();
        let to = [keys.as_mut_ptr(), values.as_mut_ptr()];
        self.commands.push(Command::of_dump(pair, to, room));
        self.calls.push(Step::Dump([keys, values], room));
        Ok(())
    }

    /// Notes the stream of a buffer, which has to be of the map's device, as the graph's.
    fn order(&mut self, stream: &'b Stream) -> Result<()> {
        let Queue {
            receiver,
            stream: own,
        } = &self.launches.queue;
        receiver.device().expect_same(own.device())?;
        receiver.device().expect_same(stream.device())?;
        let mut known = self.streams.iter().copied().chain([own]);
        if !known.any(|known| known.is_same_as(stream)) {
            self.streams.push(stream);
        }
        Ok(())
    }

    /// See [`Recording::launch`].
    pub fn launch<A: 'static>(self, answer: fn(Vec<usize>) -> A) -> Result<Pending<A>> {
        let finish = move |counts| Ok(answer(counts));
        let Self {
            launches,
            commands,
            calls,
            streams,
        } = self;
        if commands.iter().any(|step| step.kind.changes()) {
            launches.queue.receiver.expect_no_callback()?;
        }
        if commands.iter().all(Command::is_empty) {
            return Ok(Pending::ready(vec![0; commands.len()], finish));
        }
        if commands.iter().all(|step| launches.captures(step)) {
            streams
                .iter()
                .try_for_each(|stream| launches.queue.stream.wait_stream(stream))?;
            // SAFETY: each command was made of buffers of the map's device that are borrowed until now;
            // they are neither freed nor used by others before their streams reach the end of the
            // launch.
            if let Some(op) = unsafe { launches.launch(commands) }? {
                let queue = &launches.queue;
                streams
                    .iter()
                    .try_for_each(|stream| queue.let_wait(&op, stream))?;
                return Ok(Pending::of_op(launches.state(), op, finish));
            }
        }
        let counts = calls.into_iter().map(|call| call.run(&launches.queue));
        Ok(Pending::ready(counts.collect::<Result<_>>()?, finish))
    }
}

impl Step<'_> {
    /// Calls it on the stream, and waits. Returns what it counts.
    fn run(self, queue: &Queue<'_>) -> Result<usize> {
        match self {
            Self::Operation(batch, outputs) => queue.counted(batch, outputs, |count| count),
            Self::Dump([keys, values], room) => queue.dump(keys, values, room),
        }?
        .wait()
    }
}

/// # Sets
impl<'b, K: Pod> Recording<'b, '_, K, ()> {
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

impl fmt::Debug for Steps<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Steps")
            .field("on", &self.launches)
            .field("operations", &self.commands.len())
            .finish_non_exhaustive()
    }
}

impl<K, V> fmt::Debug for Recording<'_, '_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Recording").field(&self.steps).finish()
    }
}
