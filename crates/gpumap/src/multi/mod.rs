//! [`MultiMap`]: the classical slab hash, for kernels that insert and cannot stop to grow.
//!
//! A [`Map`](crate::Map) grows by moving its pairs, so a kernel that runs out of room has to end
//! first. A multimap has a fixed number of buckets, each a chain of slabs, and a pool that warps
//! take slabs from while they run. It also may hold several pairs with one key.
//!
//! | | [`Map`](crate::Map) | [`MultiMap`] |
//! |---|---|---|
//! | pairs with one key | one | one by [`insert`](MultiMap::insert), any number by [`append`](MultiMap::append) |
//! | key, value | 4 or 8 bytes each | 4 + 4 or 8 + 8 bytes |
//! | kernels of your own | room is made before the launch | room is taken while they run |
//! | grows by | moving pairs, submap by submap | adding slabs to the pool; nothing moves |
//! | a lookup reads | about one slab of 64 bytes | the chain, in slabs of 128 bytes: longer if there are more pairs than the buckets were made for |
//!
//! Without such kernels and without several pairs per key, a `Map` is faster and smaller.
//!
//! The source of the idea is Ashkiani, Farach-Colton and Owens, *A Dynamic Hash Table for the GPU*
//! (2018). [`chained_ref`] is what kernels of your own work with.

mod all_values;
mod apply;
mod builder;
mod chains;
mod get_all;
mod grow;
mod lend;
mod look_up;
mod on_stream;
mod persist;
mod remove;
mod replay;
mod retrieve;
mod run;
mod stats;
mod store;

use std::fmt;
use std::marker::PhantomData;

use gpumap_kernels::chained::kernels::ChainedKernels;

pub use all_values::{AllValues, Rows};
pub use apply::{Answer, Operation};
pub use builder::{MultiMapBuilder, PAIRS_PER_SLOT};
/// What kernels of your own work on a multimap with; they lend it by
/// [`MultiMap::launch_with`].
pub use gpumap_kernels::chained::chained_ref;
pub use stats::MultiStats;

use crate::device::Device;
use crate::error::{Error, Result};
use crate::lock::{Lock, ReadGuard, WriteGuard};
use crate::map::{OwnState, Pair, Receiver, StreamReceiver, Word, WordKey};
use crate::op::{Execute, Op};
use crate::poison;
use crate::scratch::ScratchPool;
use chains::Chains;

/// A value of a [`MultiMap`] with keys `K`: a [`Word`] of as many bytes. It is what the compiler tells about pairs of other sizes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a value of a multimap with keys of type `{K}`: both have one size",
    label = "not a number of as many bytes as `{K}`",
    note = "use numbers of one size, as in `MultiMap<u64, f64>` or `MultiMap<u32, i32>`; a type of your own with such bits needs `unsafe impl gpumap::Word`"
)]
pub trait MultiValue<K: WordKey>: Word<Bits = K::Bits> {}

#[diagnostic::do_not_recommend]
impl<K: WordKey, V: Word<Bits = K::Bits>> MultiValue<K> for V {}

/// A map of buckets that are chains of slabs, in the memory of a device. Keys and values have the same
/// size, 4 or 8 bytes.
///
/// | group | operations |
/// |---|---|
/// | Create | [`with_capacity`](Self::with_capacity), [`builder`](Self::builder) |
/// | Insert and append | [`insert`](Self::insert), [`append`](Self::append) |
/// | Look up | [`get`](Self::get), [`get_into`](Self::get_into), [`get_all`](Self::get_all), [`get_all_into`](Self::get_all_into), [`contains`](Self::contains), [`count`](Self::count), [`count_into`](Self::count_into) |
/// | Mixed batches | [`apply`](Self::apply) |
/// | Remove | [`remove`](Self::remove), [`retain_where`](Self::retain_where), [`clear`](Self::clear) |
/// | Dump | [`retrieve_all`](Self::retrieve_all), [`retrieve_all_into`](Self::retrieve_all_into), [`chunks`](Self::chunks), [`for_each_chunk`](Self::for_each_chunk) |
/// | Save and load | [`save`](Self::save), [`save_to`](Self::save_to), [`load`](Self::load) |
/// | Streams, graphs, kernels | [`on`](Self::on), [`graph`](Self::graph), [`launch_with`](Self::launch_with), [`launch_unbounded`](Self::launch_unbounded) |
/// | Size and state | [`len`](Self::len), [`is_empty`](Self::is_empty), [`device`](Self::device), [`stats`](Self::stats) |
/// | Capacity and memory | [`capacity`](Self::capacity), [`reserve`](Self::reserve), [`compact`](Self::compact), [`trim`](Self::trim) |
///
/// All verbs take batches, as those of [`Map`](crate::Map) do, and return when the device is done.
///
/// ```
/// use gpumap::{Device, MultiMap};
///
/// let device = Device::best()?; // a GPU, or the CPU where there is none
/// let map: MultiMap<u64, u64> = MultiMap::with_capacity(&device, 1_000)?;
/// assert_eq!(map.insert(&[1, 2, 3], &[10, 20, 30])?, 3); // how many keys were new
/// map.append(&[3, 4], &[33, 40])?; // stored whatever is there
/// assert_eq!(map.get(&[3, 4, 5])?, [Some(30), Some(40), None]); // the first that came
/// assert_eq!(map.count(&[3, 4, 5])?, [2, 1, 0]);
/// assert_eq!(map.get_all(&[3])?[0], [30, 33]); // all of them, the first first
///
/// assert_eq!(map.remove(&[3])?, 1); // the first that came goes first
/// assert_eq!(map.get(&[3])?, [Some(33)]);
/// # Ok::<(), gpumap::Error>(())
/// ```
///
/// Keys and values of different sizes do not compile, with a message that says which do:
///
/// ```compile_fail,E0277
/// # use gpumap::{Device, MultiMap};
/// let map = MultiMap::<u32, u64>::with_capacity(&Device::cpu(), 10);
/// ```
///
/// # Concurrency
/// `MultiMap` is [`Send`] and [`Sync`], and every verb takes `&self`.
///
/// | | |
/// |---|---|
/// | run side by side | [`insert`](Self::insert), [`append`](Self::append), [`get`](Self::get), [`contains`](Self::contains), [`count`](Self::count), [`get_all`](Self::get_all), [`remove`](Self::remove), [`apply`](Self::apply), [`retrieve_all`](Self::retrieve_all), [`save`](Self::save), [`stats`](Self::stats), [`launch_with`](Self::launch_with) |
/// | wait for the calls in flight, and hold new ones back | [`compact`](Self::compact), [`reserve`](Self::reserve), [`clear`](Self::clear), [`retain_where`](Self::retain_where), [`launch_unbounded`](Self::launch_unbounded), and batches that may not fit in the pool as it is; `get_all` of a key of which pairs are removed just then |
///
/// Keys that are only ever stored by `insert` are linearizable: every operation on one takes effect at
/// one moment between call and return, and a key is never stored twice. Where a key may have several
/// pairs, `get`, `get_all`, `remove` and `count` see every pair that is there throughout, and those that come or
/// go meanwhile or not. `retrieve_all` reports every pair that is there throughout exactly once. No
/// reader sees a torn value, or one of another key.
///
/// # Room
/// The host's verbs never lose a pair: before a batch runs, the pool has a slab for every one that it
/// may fill. If that takes more, the map [compacts](Self::compact) itself or adds slabs; if there is no
/// memory, or the pool was [fixed](MultiMapBuilder::pool_slabs), the batch is refused with
/// [`Error::OutOfMemory`] or [`Error::Full`], and the map holds what it held.
///
/// Buckets stay as they are: with many more pairs than the map was built for, chains become long.
pub struct MultiMap<K: WordKey, V: MultiValue<K>> {
    core: Core,
    _pair: PhantomData<fn(K) -> V>,
}

/// A multimap without the types of its keys and values.
struct Core {
    device: Device,
    kernels: &'static ChainedKernels,
    pair: Pair,
    scratch: ScratchPool,
    /// Before the chains: dropped first, after waiting for calls in flight. Its occupancy counts pairs, and the slots that are
    /// not empty; its capacity are the pool's slots.
    state: OwnState,
    /// Shared by the verbs; exclusive for what must run alone.
    chains: Lock<Chains>,
    /// Whether the pool keeps its size.
    fixed: bool,
}

/// # Create
impl<K: WordKey, V: Word<Bits = K::Bits>> MultiMap<K, V> {
    /// A map with buckets and a pool for this many pairs.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::CapacityOverflow`], [`Error::Driver`].
    pub fn with_capacity(device: &Device, pairs: usize) -> Result<Self> {
        Self::builder(device).capacity(pairs).build()
    }

    /// A map with settings.
    pub fn builder(device: &Device) -> MultiMapBuilder<K, V> {
        MultiMapBuilder::new(device)
    }
}

impl<K: WordKey, V: Word<Bits = K::Bits>> Execute<K, V> for MultiMap<K, V> {
    fn execute<A>(&self, op: Op<'_, K, V, A>) -> Result<A> {
        op.run(Receiver::Multi, |batch, outputs| {
            self.core.run(batch, outputs)
        })
    }
}

/// # Size and state
impl<K: WordKey, V: Word<Bits = K::Bits>> MultiMap<K, V> {
    /// The device it lives on.
    pub fn device(&self) -> &Device {
        &self.core.device
    }

    /// How many pairs it holds. Exact when no call is in flight; else every call that has returned is
    /// counted, on a stream every one that has ended. Costs nothing.
    pub fn len(&self) -> usize {
        self.core.len()
    }

    /// Whether it holds no pair.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many pairs fit in the pool whatever their keys, those that it holds included; slots of
    /// removed pairs count until they are [compacted](Self::compact). Never less than [`len`](Self::len).
    pub fn capacity(&self) -> usize {
        self.core.pool_capacity().max(self.len())
    }

    /// Frees the scratch memory that no call is using; see [`Map::trim`](crate::Map::trim).
    pub fn trim(&self) {
        self.core.scratch.trim();
    }
}

impl Core {
    /// Pairs that the pool was made for.
    fn pool_capacity(&self) -> usize {
        self.state.occupancy.capacity()
    }

    /// Slots per slab.
    fn slab_slots(&self) -> usize {
        self.kernels.slab_slots as usize
    }

    /// The chains, beside other calls.
    fn shared(&self) -> Result<ReadGuard<'_, Chains>> {
        let chains = self.chains.read();
        self.expect_sound()?;
        Ok(chains)
    }

    /// The same, for a call that runs callbacks; see [`Lock::read_in_turn`].
    fn shared_in_turn(&self) -> Result<ReadGuard<'_, Chains>> {
        let chains = self.chains.read_in_turn();
        self.expect_sound()?;
        Ok(chains)
    }

    /// The same, for a call that changes pairs.
    ///
    /// # Errors
    /// [`Error::Nested`], [`Error::Poisoned`].
    fn shared_to_change(&self) -> Result<ReadGuard<'_, Chains>> {
        self.chains.expect_no_callback()?;
        self.shared()
    }

    /// The chains alone: no call is in flight, and none begins.
    fn exclusive(&self) -> Result<WriteGuard<'_, Chains>> {
        let chains = self.state.alone(&self.chains)?;
        self.expect_sound()?;
        Ok(chains)
    }

    /// See [`poison::expect_sound`].
    fn expect_sound(&self) -> Result<()> {
        poison::expect_sound(&self.state.poisoned)
    }

    fn full(&self, batch: usize, unplaced: usize, partial: bool) -> Error {
        Error::Full {
            len: self.len(),
            slots: self.pool_capacity(),
            batch,
            unplaced,
            partial,
            growth: None,
        }
    }
}

impl<K: WordKey, V: Word<Bits = K::Bits>> fmt::Debug for MultiMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiMap")
            .field("device", self.device())
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}
