//! [`Map`]: the concurrent key-value map.

mod apply;
mod arena;
mod at_once;

mod builder;
mod bulk;
mod chunked;
mod chunks;
mod collect;
mod command;
mod give_back;
mod graph;
mod grow;
mod in_flight;
mod key;
mod launch;
mod lend;
mod look_up;
mod merge;
mod on_stream;
mod operand;
#[cfg(test)]
mod order;
mod pending;
mod persist;
mod place;
mod plan;
#[cfg(test)]
mod refusals;
mod remove;
mod retain;
mod retain_keys;
mod retrieve;
mod set;
mod shape;
mod stats;
mod storage;
mod store;
mod submit;
mod table;
mod tuning;
mod update;
mod wakers;

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytemuck::Pod;
use gpumap_kernels::build::pair::are_side_by_side;
use gpumap_kernels::kernels::{Encoding, KernelSet, kernels_of};

pub use apply::{Answer, Applied, Operation};
#[cfg(feature = "unstable-testing")]
#[doc(hidden)]
pub use arena::Audit;
pub(crate) use arena::Copying;
pub use builder::{DEFAULT_MAX_LOAD_FACTOR, Growth, MapBuilder};
pub(crate) use builder::{encoding_of, random_seed};
pub(crate) use bulk::{Arrival, Grains, InBins, SendKernels, collect};
pub(crate) use chunks::TableChunks;
pub use chunks::{Chunk, Chunks};
pub(crate) use command::{
    Arrays, Batch, Collect, Command, KEY_ALIGN, Kind, Outputs, Receiver, StringLayout, Wanted, told,
};
pub use graph::{Graph, Recording};
pub(crate) use graph::{Launches, Steps};
pub(crate) use in_flight::{MapState, OwnState};
pub use key::{Key, Layout, Numeric, Value, Word, WordKey};
pub(crate) use key::{has_words, is_word};
pub(crate) use launch::{grid, share_out};
pub use merge::{Merge, Number};
pub use on_stream::OnStream;
pub(crate) use on_stream::{MapMemory, Queue, StreamReceiver};
pub(crate) use operand::Operands;
pub use operand::{ForAll, ForEach, Operand, Values};
pub use pending::Pending;
pub(crate) use place::Held;
pub use place::Place;
pub(crate) use retain::stay;
pub use stats::{CellStats, Stats};
pub(crate) use storage::{HeldPairs, ReadPairs, Ready, Storage};
pub use store::Outcome;

#[cfg(doc)]
use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::lock::{Lock, WriteGuard};
use crate::op::{Execute, Op};
use crate::poison;
use crate::scratch::{Chunking, ScratchPool, Workspace};
#[cfg(doc)]
use crate::sharded::{GroupError, Shard};
use crate::stream::Stream;
use crate::wide;
use shape::{Shape, Wish};
use table::Table;
use tuning::Tuning;

/// A map from keys to values in the memory of a device, or over several, which compares keys by their bits.
///
/// | group | operations |
/// |---|---|
/// | Create | [`new`](Self::new), [`with_capacity`](Self::with_capacity), [`builder`](Self::builder), [`from_pairs`](Self::from_pairs), [`load`](Self::load) |
/// | Insert and update | [`insert`](Self::insert), [`insert_with_outcome`](Self::insert_with_outcome), [`upsert`](Self::upsert), [`upsert_with_outcome`](Self::upsert_with_outcome), [`merge`](Self::merge), [`get_or_insert`](Self::get_or_insert), [`get_or_insert_into`](Self::get_or_insert_into), [`try_extend`](Self::try_extend) |
/// | Update if present | [`update`](Self::update), [`update_with`](Self::update_with) |
/// | Look up | [`get`](Self::get), [`get_into`](Self::get_into), [`get_or`](Self::get_or), [`get_or_into`](Self::get_or_into), [`contains`](Self::contains), [`contains_into`](Self::contains_into) |
/// | Mixed batches | [`apply`](Self::apply), [`apply_into`](Self::apply_into) |
/// | Remove | [`remove`](Self::remove), [`remove_with_outcome`](Self::remove_with_outcome), [`take`](Self::take), [`clear`](Self::clear), [`drain`](Self::drain), [`retain`](#method.retain), [`retain_keys`](Self::retain_keys), [`retain_where`](#method.retain_where) |
/// | Dump | [`retrieve_all`](Self::retrieve_all), [`retrieve_all_into`](Self::retrieve_all_into), [`retrieve_all_stable`](Self::retrieve_all_stable), [`retrieve_all_stable_into`](Self::retrieve_all_stable_into), [`chunks`](Self::chunks), [`for_each_chunk`](Self::for_each_chunk) |
/// | Save | [`save`](Self::save), [`save_to`](Self::save_to) |
/// | Sets | [`from_keys`](Self::from_keys), [`insert_keys`](Self::insert_keys), [`insert_keys_with_outcome`](Self::insert_keys_with_outcome), [`keys`](Self::keys), [`keys_into`](Self::keys_into), [`drain_keys`](Self::drain_keys), [`try_extend_keys`](Self::try_extend_keys) |
/// | On one device: streams, graphs, kernels | [`on`](Self::on), [`graph`](Self::graph), [`launch_with`](Self::launch_with), [`launch_unbounded`](Self::launch_unbounded), [`launch_with_rows`](Self::launch_with_rows) |
/// | Over a [group](#places) | [`ranks`](Self::ranks), [`run`](Self::run), [`local`](Self::local), [`owner`](Self::owner), [`lens`](Self::lens) |
/// | Size and state | [`len`](Self::len), [`is_empty`](Self::is_empty), [`device`](Self::device), [`slots`](Self::slots), [`submaps`](Self::submaps), [`load_factor`](Self::load_factor), [`stats`](Self::stats) |
/// | Capacity and memory | [`capacity`](Self::capacity), [`is_fixed`](Self::is_fixed), [`reserve`](Self::reserve), [`shrink_to_fit`](Self::shrink_to_fit), [`trim`](Self::trim), [`preload`](Self::preload) |
///
/// All verbs take batches: slices, vectors or arrays of the host, which are copied to the
/// device, or [`Buffer`]s, which are used where they are. They return when the device is done.
///
/// ```
/// use gpumap::{Device, Map};
///
/// let device = Device::best()?; // a GPU, or the CPU where there is none
/// let map: Map<u64, u32> = Map::with_capacity(&device, 1_000)?;
/// assert_eq!(map.insert(&[1, 2, 3], &[10, 20, 30])?, 3); // how many keys were new
/// assert_eq!(map.insert(&[3, 4], &[33, 40])?, 1); // a present key keeps its value
/// assert_eq!(map.get(&[3, 4, 5])?, [Some(30), Some(40), None]);
///
/// let (mut keys, values) = map.retrieve_all()?; // every pair, in no order
/// assert_eq!(values.len(), 4);
/// keys.sort();
/// assert_eq!(keys, [1, 2, 3, 4]);
/// # Ok::<(), gpumap::Error>(())
/// ```
///
/// # Sets
/// `Map<K, ()>` is a set of keys. It stores no values: a slot has 8 bytes, so that a set of 8-byte
/// keys takes half the memory of a map to 4- or 8-byte values. There are shorter verbs for it, such
/// as [`insert_keys`](Self::insert_keys) and [`keys`](Self::keys). Those of all
/// maps are there too, with `()` for each value: as two values never differ, `upsert`, `merge` and
/// `get_or_insert` are `insert`.
///
/// ```
/// use gpumap::{Device, Map};
///
/// let seen: Map<u64, ()> = Map::new(&Device::best()?)?;
/// assert_eq!(seen.insert_keys(&[3, 1, 3])?, 2); // how many keys were new
/// assert_eq!(seen.contains(&[1, 2])?, [true, false]);
/// assert_eq!(seen.get(&[1, 2])?, [Some(()), None]); // the same, as of any map
/// # Ok::<(), gpumap::Error>(())
/// ```
///
/// # Layouts
/// The types of keys and values choose how a map holds its pairs; [`LAYOUT`](Self::LAYOUT), `Debug` and [`stats`](Self::stats) say it:
///
/// | layout | types | a lookup reads | most pairs |
/// |---|---|---|---|
/// | [`Inline`](Layout::Inline) | keys of 4 or 8 bytes, values of 0, 4 or 8, aligned as `u32` or `u64` | a slot | that fit in memory |
/// | [`Cells`](Layout::Cells) | such keys, other values of up to 256 bytes | a slot, a cell | 2^32 |
/// | [`Rows`](Layout::Rows) | other keys of 4 to 64 bytes, a multiple of 4; values of up to 256 bytes | a slot, a key, a value | 2^31 |
///
/// ```
/// use gpumap::{Device, Layout, Map, Merge};
///
/// #[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(C)]
/// struct Particle {
///     position: [f32; 3],
///     velocity: [f32; 3],
/// }
/// let at = |x| Particle { position: [x; 3], velocity: [0.0; 3] };
///
/// let device = Device::best()?;
/// let particles: Map<u64, Particle> = Map::with_capacity(&device, 1_000)?;
/// particles.upsert(&[1, 2], &[at(1.0), at(2.0)])?;
/// assert_eq!(particles.get(&[2, 4])?, [Some(at(2.0)), None]);
///
/// let visits: Map<u128, u64> = Map::new(&device)?;
/// assert_eq!(visits.merge(&[1 << 100, 7, 1 << 100], 1, Merge::Add)?, 2); // how many keys were new
/// assert_eq!(visits.retrieve_all()?, (vec![1 << 100, 7], vec![2, 1]));
/// # Ok::<(), gpumap::Error>(())
/// ```
///
/// What only some layouts have does not compile for the others, with a sentence that says so: [`apply`](Self::apply),
/// [`retain_where`](#method.retain_where), [`launch_with`](Self::launch_with) are of `Inline`, [`chunks`](Self::chunks) of `Inline` and
/// `Cells`, [`launch_with_rows`](Self::launch_with_rows) of `Rows`. Values other than those of `Inline` are bytes and no
/// numbers, in `Rows` too: merges of them are [`Error::Unsupported`], as is a default other than zeros.
///
/// # Places
/// A `Map<K, V>` is on a [`Device`]. A `Map<K, V, Ranks>`, or [`ShardedMap<K, V>`](crate::ShardedMap), is over the
/// [`Ranks`](crate::sharded::Ranks) of a group of devices: each rank has a [`Shard`], with the pairs of the keys that it owns. What the map
/// holds, counts and finds is the same.
///
/// ```
/// use gpumap::sharded::{Ranks, devices};
/// use gpumap::{Merge, ShardedMap};
///
/// let ranks = Ranks::new(&devices("cpu,cpu,cpu")?)?;
/// let counts = ShardedMap::<u32, u32>::new(&ranks)?;
/// let words: Vec<u32> = (0..3_000).map(|i| i % 1_000).collect();
/// assert_eq!(counts.merge(&words, 1, Merge::Add)?, 1_000);
/// assert_eq!(counts.get(&[999, 1_000])?, [Some(3), None]);
/// assert_eq!(counts.remove(&[0, 5, 5_000])?, 2);
/// assert_eq!(counts.retrieve_all()?.0.len(), 998);
/// # Ok::<(), gpumap::Error>(())
/// ```
///
/// | | over a group |
/// |---|---|
/// | batches and outputs | of the host, else [`Error::Unsupported`]: each rank takes a chunk of them. Batches of the devices go through the shards, in [`run`](Self::run) |
/// | errors | those of any rank, and [`Error::Group`]. What a refused batch leaves: see [`Shard`](Shard#refusals) |
/// | several calls | run one after the other, each over the whole group. In [work of the group](Self::run) they are [`GroupError::Nested`], but [`len`](Self::len), [`lens`](Self::lens) and [`capacity`](Self::capacity), which may count a part of what is under way |
/// | dumps | the pairs of rank 0, then those of rank 1, and so on |
/// | [`capacity`](Self::capacity) | of all ranks, among which pairs are spread evenly |
/// | [`load`](Self::load) | the load factor and the submaps of the file; it grows by the usual factor, or as a builder says while it is loaded |
/// | [`trim`](Self::trim) | of a rank that is at work, only its map's memory |
/// | layouts | `Inline`, and `Rows` with values of 0, 4 or 8 bytes |
/// | not there | streams, graphs and [`stats`](Self::stats), [`retrieve_all_stable`](Self::retrieve_all_stable), [`launch_with`](Self::launch_with), which each rank's [`local`](Self::local) has; [`apply`](Self::apply), [`chunks`](Self::chunks) |
///
/// # Concurrency
/// `Map` is [`Send`] and [`Sync`], and every verb takes `&self`. Each key is linearizable: every operation on it takes
/// effect at one moment between call and return. A key is never stored twice, and no reader sees a
/// torn value or one of another key.
///
/// | layout | side by side, from any number of threads | wait for the calls in flight, and hold new ones back |
/// |---|---|---|
/// | `Inline` | [`insert`](Self::insert), [`upsert`](Self::upsert), [`merge`](Self::merge), [`get_or_insert`](Self::get_or_insert), [`update`](Self::update), [`remove`](Self::remove), [`get`](Self::get), [`contains`](Self::contains), dumps | all other verbs that change the map, and growing; a large `insert`, `upsert` or `merge` that finds no call in flight, while it builds pages |
/// | `Cells` | the same; but `upsert` and `update` wait for [`remove`](Self::remove) and [`take`](Self::take), and these for them | all other verbs that change the map, and growing |
/// | `Rows` | [`get`](Self::get), [`contains`](Self::contains), dumps | every call that changes the map: others see all of its batch or nothing |
///
/// On a GPU each call has a stream of its own, so they overlap. [`retrieve_all`](Self::retrieve_all) beside writers reports
/// every pair that was there throughout exactly once.
///
/// # Growth
/// A batch that may not fit makes the map grow, one submap after the other, so that at no time
/// more memory is needed than for the map and one submap; an operation never looks in more than
/// one submap. What removed pairs leave behind is cleared away in the same manner. If memory does
/// not suffice, the batch is refused with [`Error::OutOfMemory`], which says how much all of it needs; the map holds
/// what it held, and gives back the memory that it had grown by, unless keys collide in the smaller table.
/// [`MapBuilder`] has the settings; with [`Growth::Fixed`] a batch that does not fit is refused
/// with [`Error::Full`].
///
/// # Memory
/// | layout | bytes |
/// |---|---|
/// | `Inline` | a slot: 8 for keys of 4 bytes with values of 0 or 4, and for sets of keys of 8; else 16 |
/// | `Cells` | a slot: 8 for keys of 4 bytes, 16 for keys of 8; a cell, the value rounded up to a multiple of 4; 8 for the lists of free cells |
/// | `Rows` | 8 for a slot of a tag and a row, of which at most 7 of 10 are taken; the key; the value; 4 if values are bytes and a batch replaced some |
///
/// `Cells`: a call that stores takes a cell for each pair of its batch before it changes anything; those that it
/// had no use for are given back. An upsert of a present key writes one cell and exchanges one number:
/// the old cell is idle until the next moment at which no call is in flight, which a call that finds too
/// few cells waits for. So a map that is upserted over and over needs cells for what it holds and for
/// the batches on their way, not more.
///
/// `Rows`: where values are bytes, a batch that replaces some elects one of the pairs with each key, and copies its value. A dump has
/// the pairs in the order in which their keys first came, and is a copy unless keys were removed. Rows of removed keys are used again
/// when a batch would make the map grow otherwise and they are at least half of all.
pub struct Map<K: Key, V: Value, P: Place = Device> {
    pub(crate) held: P::Map<K, V>,
}

/// The memory of a [`Map`] of the layout [`Inline`](Layout::Inline), without the types of its keys and values: all that it does is done
/// here, and compiled once.
///
/// Keys and values are bytes, of sizes that it knows. Its callers see to it that what they hand it are keys and values of
/// these sizes.
pub(crate) struct Core {
    device: Device,
    kernels: &'static KernelSet,
    pair: Pair,
    scratch: ScratchPool,
    /// Before the table: dropped first, after waiting for calls in flight.
    state: OwnState,
    /// Shared by the verbs; exclusive for what must run alone.
    table: Lock<Table>,
    /// What it is meant to be when it grows.
    wish: Wish,
    growth: Growth,
    /// When batches are sorted.
    tuning: Tuning,
    seed: u64,
    submaps: AtomicUsize,
}

/// What a map is made with.
struct Config {
    wish: Wish,
    growth: Growth,
    tuning: Option<Tuning>,
    chunking: Option<Chunking>,
    seed: u64,
    encoding: Encoding,
}

/// How many bytes the keys and the values of a map have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    /// 4 or 8; more in maps with wide keys.
    pub key: usize,
    /// 0, 4 or 8; more in arenas.
    pub value: usize,
}

impl Pair {
    /// Those of these types.
    pub const fn of<K, V>() -> Self {
        Self {
            key: size_of::<K>(),
            value: size_of::<V>(),
        }
    }

    /// Bytes of a key and its value.
    pub const fn bytes(self) -> usize {
        self.key + self.value
    }

    /// The same as kernels take them.
    pub const fn sizes(self) -> [u32; 2] {
        [self.key as u32, self.value as u32]
    }

    /// Whether large batches of such pairs lie in bins with each value beside its key.
    pub const fn side_by_side(self) -> bool {
        are_side_by_side(self.key, self.value)
    }
}

/// # Create
impl<K: Key, V: Value, P: Place> Map<K, V, P> {
    /// The smallest map on a device, or over a group.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Driver`].
    pub fn new(place: &P) -> Result<Self> {
        Self::builder(place).build()
    }

    /// A map that has room for this many pairs.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::CapacityOverflow`], [`Error::Driver`].
    pub fn with_capacity(place: &P, pairs: usize) -> Result<Self> {
        Self::builder(place).capacity(pairs).build()
    }

    /// A map with settings; over a group the capacity is that of all ranks together.
    ///
    /// ```
    /// use gpumap::sharded::{Ranks, devices};
    /// use gpumap::{Growth, Map};
    ///
    /// let ranks = Ranks::new(&devices("cpu,cpu")?)?;
    /// let map: Map<u64, u64, _> = Map::builder(&ranks).capacity(1_000).growth(Growth::Fixed).build()?;
    /// assert!(map.capacity() >= 1_000);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    pub fn builder(place: &P) -> MapBuilder<K, V, P> {
        MapBuilder::new(place)
    }
}

/// # Layout
impl<K: Key, V: Value> Map<K, V> {
    /// How maps of these types hold their pairs.
    pub const LAYOUT: Layout = Layout::of::<K, V>();

    /// What all layouts do.
    #[inline]
    pub(crate) fn storage(&self) -> &dyn Storage {
        self.held.storage()
    }

    /// Does not compile for another layout than [`Inline`](Layout::Inline).
    const EXPECT_INLINE: () = assert!(
        matches!(Self::LAYOUT, Layout::Inline),
        "only maps of the layout `Inline` do this: of keys with 4 or 8 bytes and values with 0, 4 or 8, aligned as u32 or u64"
    );

    /// Does not compile for another layout than [`Rows`](Layout::Rows).
    const EXPECT_ROWS: () = assert!(
        matches!(Self::LAYOUT, Layout::Rows),
        "only maps of the layout `Rows` do this: of keys with other than 4 or 8 bytes, aligned as u32 or u64"
    );

    /// Its table. The layout is [`Inline`](Layout::Inline).
    pub(crate) fn inline(&self) -> &Core {
        self.held.inline()
    }

    /// Its rows. The layout is [`Rows`](Layout::Rows).
    pub(crate) fn rows(&self) -> &wide::Core {
        self.held.rows()
    }
}

impl<K: Key, V: Value, P: Place> Execute<K, V> for Map<K, V, P> {
    #[inline]
    fn execute<A>(&self, op: Op<'_, K, V, A>) -> Result<A> {
        self.held.execute(op)
    }
}

/// # Size and state
impl<K: Key, V: Value, P: Place> Map<K, V, P> {
    /// How many pairs it holds. Exact when no call is in flight; else every call that has
    /// returned is counted, on a stream every one that has ended. Costs nothing.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether it holds no pair.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many pairs fit for sure, whatever their keys, before it grows: at least what it was built for, and never less than
    /// [`len`](Self::len).
    ///
    /// As of a `HashMap`, it is a lower bound: calls without a stream fill a map of a [fixed](Growth::Fixed) capacity beyond it,
    /// down to its last [slot](Self::slots), and then it is the number of pairs.
    ///
    /// ```
    /// use gpumap::{Device, Growth, Map};
    /// let map = Map::<u64, u64>::builder(&Device::cpu()).capacity(100).growth(Growth::Fixed).build()?;
    /// assert!(map.capacity() >= 100);
    /// let refused = (0..).find(|&key| map.insert(&[key], &[0]).is_err());
    /// assert_eq!(refused, Some(map.slots() as u64));
    /// assert_eq!(map.capacity() - map.len(), 0);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    pub fn capacity(&self) -> usize {
        self.held.capacity()
    }

    /// Whether it refuses what does not fit, as with [`Growth::Fixed`]. A map that was loaded may be, if that was saved.
    ///
    /// ```
    /// use gpumap::{Device, Growth, Map};
    /// let map = Map::<u64, u64>::builder(&Device::cpu()).growth(Growth::Fixed).build()?;
    /// assert!(map.is_fixed() && !Map::<u64, u64>::new(&Device::cpu())?.is_fixed());
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    pub fn is_fixed(&self) -> bool {
        self.held.is_fixed()
    }

    /// Frees the scratch memory that no call is using: what staged batches and results of host
    /// calls were copied through. Later calls allocate it again as they need it. A batch that is refused for want of
    /// memory does the same.
    pub fn trim(&self) {
        self.held.trim();
    }
}

/// # Size and state
impl<K: Key, V: Value> Map<K, V> {
    /// The device it lives on.
    pub fn device(&self) -> &Device {
        self.held.place()
    }

    /// How many slots it has, beside the few for keys whose bits mean a state of a slot.
    pub fn slots(&self) -> usize {
        self.storage().slots()
    }

    /// How many submaps it has.
    pub fn submaps(&self) -> usize {
        self.storage().submaps()
    }

    /// Pairs per slot.
    pub fn load_factor(&self) -> f64 {
        self.len() as f64 / self.slots() as f64
    }
}

/// # Preparation
impl<K: Key, V: Value> Map<K, V> {
    /// Compiles and loads all kernels that the map's operations launch, some 40 ms each the first time on a
    /// machine. Else the driver does that when an operation first needs one, beside what the operation
    /// does; an operation that gets no memory for it is refused, and the map is as it was. On the CPU
    /// there is nothing to do.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    ///
    /// let map: Map<u32, u32> = Map::with_capacity(&Device::best()?, 1_000)?;
    /// map.preload()?; // from now on no call waits for a compiler
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Driver`].
    pub fn preload(&self) -> Result<()> {
        self.storage().preload()
    }
}

impl Core {
    fn build(device: &Device, pair: Pair, config: Config) -> Result<Self> {
        let Config {
            wish,
            growth,
            tuning,
            chunking,
            seed,
            encoding,
        } = config;
        let kernels = kernels_of(pair.sizes(), encoding);
        let shape = Shape::new(&wish, kernels.slot_bytes)?;
        let (needed, available) = (Table::bytes(&shape), device.available_bytes()?);
        if needed > available {
            return Err(Error::OutOfMemory { needed, available });
        }
        let submaps = shape.pages.len().into();
        let state = OwnState::new(device, shape.capacity, shape.slots());
        let table = Table::new(&Stream::of_calls(device)?, shape, seed)?;
        Ok(Self {
            device: device.clone(),
            kernels,
            pair,
            scratch: match chunking {
                Some(chunking) => ScratchPool::with_chunking(device, chunking),
                None => ScratchPool::new(device),
            },
            state,
            table: Lock::new(table),
            wish,
            growth,
            tuning: tuning.unwrap_or_else(|| Tuning::of(device, kernels.slot_bytes)),
            seed,
            submaps,
        })
    }

    /// See [`Map::len`].
    pub(crate) fn len(&self) -> usize {
        self.state.retire_ended();
        self.state.occupancy.len()
    }

    /// See [`Map::capacity`].
    pub(crate) fn capacity(&self) -> usize {
        self.state.occupancy.capacity()
    }

    /// See [`Map::slots`].
    fn slots(&self) -> usize {
        self.state.slots.load(Ordering::Acquire)
    }

    /// The device it lives on.
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// The table alone: no call is in flight, and none begins.
    ///
    /// # Errors
    /// [`Error::Driver`] if the driver refuses to wait for calls in flight.
    fn exclusive(&self) -> Result<WriteGuard<'_, Table>> {
        self.state.alone(&self.table)
    }

    /// See [`Lock::expect_no_callback`].
    pub(crate) fn expect_no_callback(&self) -> Result<()> {
        self.table.expect_no_callback()
    }

    /// See [`Lock::expect_others`].
    pub(crate) fn expect_others(&self) -> Result<()> {
        self.table.expect_others()
    }

    /// See [`poison::expect_sound`].
    fn expect_sound(&self) -> Result<()> {
        poison::expect_sound(&self.state.poisoned)
    }

    /// Notes that the map's contents are unknown.
    fn poison(&self) {
        self.state.poisoned.store(true, Ordering::Release);
    }

    /// See [`poison::or_poison`].
    fn or_poison<T>(
        &self,
        scratch: &mut Workspace,
        work: impl FnOnce(&mut Workspace) -> Result<T>,
    ) -> Result<T> {
        poison::or_poison(&self.state.poisoned, scratch, work)
    }

    /// See [`poison::or_poison_if_launched`].
    fn or_poison_if_launched<T>(
        &self,
        scratch: &mut Workspace,
        work: impl FnOnce(&mut Workspace) -> Result<T>,
    ) -> Result<T> {
        poison::or_poison_if_launched(&self.state.poisoned, scratch, work)
    }
}

/// The bits of a value, as the core of a map takes them.
///
/// Of a value of more than 8 bytes, which comes from no core: whether it is other than zeros.
pub(crate) fn bits<V: Pod>(value: V) -> u64 {
    let bytes = bytemuck::bytes_of(&value);
    let mut bits = [0; size_of::<u64>()];
    match bits.get_mut(..bytes.len()) {
        Some(lowest) => {
            lowest.copy_from_slice(bytes);
            u64::from_le_bytes(bits)
        }
        None => u64::from(bytes.iter().any(|&byte| byte != 0)),
    }
}

/// The value with such bits, of at most 8 bytes.
pub(crate) fn value_of<V: Pod>(bits: u64) -> V {
    bytemuck::pod_read_unaligned(&bits.to_le_bytes()[..size_of::<V>()])
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map")
            .field("device", self.device())
            .field("len", &self.len())
            .field("slots", &self.slots())
            .field("submaps", &self.submaps.load(Ordering::Acquire))
            .finish_non_exhaustive()
    }
}

impl<K: Key, V: Value, P: Place> fmt::Debug for Map<K, V, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map")
            .field("layout", &Layout::of::<K, V>())
            .field("place", self.held.place())
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}
