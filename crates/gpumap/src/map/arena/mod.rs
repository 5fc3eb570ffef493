//! [`ArenaMap`]: a map whose values are too large for a slot.
//!
//! | module | idea |
//! |---|---|
//! | `cells` | where values lie: segments that never move |
//! | `ring` | which cells are free: taken at one end, given back at the other |
//! | `memory` | both together, growing and shrinking |
//! | `gate` | upserts and removals do not meet |
//! | `on_stream` | lookups are queued on streams, and captured by graphs |
//!
//! The other modules are the verbs. A [`Map`] beneath has the keys, and for each the id of a cell.
//!
//! # Invariants
//! - Every id is in exactly one of: a slot, the ring, a call in flight. A call that takes an id out of
//!   a slot owns it and appends it to the ring, as does a call whose id reaches no slot.
//! - A cell that a slot has led to is not written until no call is in flight, so every call that found
//!   its id may read it. Lookups on streams are in flight in the state of the map beneath, and what has the arena
//!   [alone](ArenaMap::alone) has waited for them.
//!
//! Locks are taken in this order: the gate, the arena, the table beneath.

mod builder;
mod cells;
mod gate;
mod look_up;
mod memory;
mod on_stream;
mod persist;
mod remove;
mod retrieve;
mod ring;
mod stats;
mod store;
#[cfg(test)]
mod tests;
mod upkeep;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytemuck::Pod;

pub use builder::ArenaMapBuilder;
pub use stats::ArenaStats;
#[cfg(feature = "unstable-testing")]
#[doc(hidden)]
pub use upkeep::Audit;

use super::command::{Batch, Kind, Outputs, Receiver};
use super::{Growth, Key, Map};
use crate::device::Device;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::lock::Lock;
use crate::op::{Execute, Op, VALUES};
use crate::stream::{LaunchOn, Stream};
use gate::Gate;
use memory::Arena;

/// The most bytes that a value may have.
const MOST_BYTES: usize = 256;

/// A map from keys to values of 1 to 256 bytes, any [`Pod`] type, in the memory of a device.
///
/// | group | operations |
/// |---|---|
/// | Create | [`new`](Self::new), [`with_capacity`](Self::with_capacity), [`builder`](Self::builder) |
/// | Insert and update | [`insert`](Self::insert), [`insert_with_outcome`](Self::insert_with_outcome), [`upsert`](Self::upsert), [`get_or_insert`](Self::get_or_insert) |
/// | Update if present | [`update`](Self::update) |
/// | Look up | [`get`](Self::get), [`get_into`](Self::get_into), [`contains`](Self::contains) |
/// | Remove | [`remove`](Self::remove), [`take`](Self::take), [`retain_keys`](Self::retain_keys), [`retain`](Self::retain), [`clear`](Self::clear), [`drain`](Self::drain) |
/// | Dump | [`retrieve_all`](Self::retrieve_all), [`retrieve_all_into`](Self::retrieve_all_into), [`chunks`](Self::chunks), [`for_each_chunk`](Self::for_each_chunk) |
/// | Save and load | [`save`](Self::save), [`save_to`](Self::save_to), [`load`](Self::load) |
/// | Streams, graphs | [`on`](Self::on), [`graph`](Self::graph) |
/// | Size and state | [`len`](Self::len), [`is_empty`](Self::is_empty), [`device`](Self::device), [`stats`](Self::stats) |
/// | Capacity and memory | [`capacity`](Self::capacity), [`reserve`](Self::reserve), [`shrink_to_fit`](Self::shrink_to_fit), [`trim`](Self::trim) |
///
/// For values of 4 and 8 bytes a [`Map`] is the better choice. It also merges values, which are bytes and no numbers here,
/// and has `apply`. A slot has
/// the number of a **cell**, and the value lies there: a lookup costs one trip to memory more.
///
/// ```
/// use gpumap::{ArenaMap, Device};
///
/// #[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(C)]
/// struct Particle {
///     position: [f32; 3],
///     velocity: [f32; 3],
/// }
/// let at = |x| Particle { position: [x; 3], velocity: [0.0; 3] };
///
/// let map: ArenaMap<u64, Particle> = ArenaMap::with_capacity(&Device::best()?, 1_000)?;
/// assert_eq!(map.insert(&[1, 2], &[at(1.0), at(2.0)])?, 2); // how many keys were new
/// assert_eq!(map.upsert(&[2, 3], &[at(2.5), at(3.0)])?, 1); // a present key gets the new value
/// assert_eq!(map.get(&[2, 4])?, [Some(at(2.5)), None]);
/// # Ok::<(), gpumap::Error>(())
/// ```
///
/// Arrays of any length will do as well:
///
/// ```
/// # use gpumap::{ArenaMap, Device};
/// let names: ArenaMap<u32, [u8; 100]> = ArenaMap::new(&Device::cpu())?;
/// names.insert(&[7], &[[b'x'; 100]])?;
/// assert_eq!(names.get(&[7])?, [Some([b'x'; 100])]);
/// # Ok::<(), gpumap::Error>(())
/// ```
///
/// The size is checked when it is compiled:
///
/// ```compile_fail
/// # use gpumap::{ArenaMap, Device};
/// let map = ArenaMap::<u64, [u8; 257]>::new(&Device::cpu());
/// ```
///
/// # Concurrency
/// `ArenaMap` is [`Send`] and [`Sync`], and every verb takes `&self`. [`insert`](Self::insert),
/// [`upsert`](Self::upsert), [`get_or_insert`](Self::get_or_insert), [`get`](Self::get),
/// [`update`](Self::update), [`contains`](Self::contains), [`remove`](Self::remove), [`retrieve_all`](Self::retrieve_all),
/// [`chunks`](Self::chunks) and [`save`](Self::save) may be called from any number of threads at once. They run side by side,
/// apart from removals on one side and upserts and assigns on the other, which wait for those of the other kind. Each key is linearizable, and **no reader sees a value that
/// is half written**: a value is in its cell before any slot leads there, and no cell is written again
/// while a call is in flight that may be reading it. All other verbs, and growing, wait for the calls
/// in flight and hold new ones back.
///
/// # Memory
/// | | bytes |
/// |---|---|
/// | a cell | the value's, rounded up to a multiple of 4 |
/// | beside it | 8, for the lists of cells that are free |
/// | a slot | 8 for keys of 4 bytes, 16 for keys of 8; as for [`Map`] |
///
/// A call that stores takes a cell for each pair of its batch before it changes anything; those that it
/// had no use for are given back. An upsert of a present key writes one cell and exchanges one number:
/// the old cell is idle until the next moment at which no call is in flight, which a call that finds too
/// few cells waits for. So a map that is upserted over and over needs cells for what it holds and for
/// the batches on their way, not more. If they do not suffice even so, the arena grows; if memory does
/// not suffice, the batch is refused with [`Error::OutOfMemory`] and the map holds what it held; slots and cells that
/// were added for the batch are given back, unless other calls have taken some of the cells meanwhile. There
/// are less than 2^32 cells.
pub struct ArenaMap<K: Key, V> {
    /// The keys, and for each the id of its value's cell. Before the arena: dropped first, after waiting for calls in flight.
    ids: Map<K, u32>,
    arena: Lock<Arena>,
    gate: Gate,
    /// How many cells there are, readable without the lock.
    cells: AtomicUsize,
    growth: Growth,
    /// See [`order`](Self::order).
    order: Arc<AtomicU64>,
    _values: PhantomData<fn(V) -> V>,
}

/// # Create
impl<K: Key, V: Pod + Send + Sync> ArenaMap<K, V> {
    const SIZE: usize = {
        let size = size_of::<V>();
        assert!(
            size >= 1 && size <= MOST_BYTES,
            "values have 1 to 256 bytes"
        );
        size
    };

    /// The smallest map on a device.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Driver`].
    pub fn new(device: &Device) -> Result<Self> {
        Self::builder(device).build()
    }

    /// A map that has room for this many pairs, and cells for as many.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::CapacityOverflow`], [`Error::Driver`].
    pub fn with_capacity(device: &Device, pairs: usize) -> Result<Self> {
        Self::builder(device).capacity(pairs).build()
    }

    /// A map with settings.
    pub fn builder(device: &Device) -> ArenaMapBuilder<K, V> {
        ArenaMapBuilder::new(device)
    }

    fn of(ids: Map<K, u32>, growth: Growth) -> Result<Self> {
        let cells = ids.capacity();
        let arena = Arena::new(Stream::of_calls(ids.device())?, Self::SIZE, cells)?;
        Ok(Self {
            ids,
            arena: Lock::new(arena),
            gate: Gate::default(),
            cells: cells.into(),
            growth,
            order: Arc::default(),
            _values: PhantomData,
        })
    }
}

impl<K: Key, V: Pod + Send + Sync> Execute<K, V> for ArenaMap<K, V> {
    fn execute<A>(&self, op: Op<'_, K, V, A>) -> Result<A> {
        op.run(Receiver::Arena, |batch, outputs| self.run(batch, outputs))
    }
}

impl<K: Key, V: Pod + Send + Sync> ArenaMap<K, V> {
    /// Runs an operation that has been checked. Returns what it counts.
    fn run(&self, batch: Batch<'_>, outputs: Outputs<'_>) -> Result<usize> {
        if batch.kind == Kind::Get && !outputs.told()[VALUES] {
            // No cell is looked at.
            return self.ids.core().run(batch, outputs);
        }
        if batch.kind.changes() {
            self.arena.expect_no_callback()?;
        }
        outputs.through_arrays(batch.keys.len(), |arrays| match batch.kind {
            kind if kind.traits().takes_values => self.store(batch, arrays),
            kind if kind.traits().removes => self.take_away(batch.keys, arrays),
            _ => self.look_up(batch.keys, arrays).map(|()| 0),
        })
    }
}

/// # Size and state
impl<K: Key, V: Pod + Send + Sync> ArenaMap<K, V> {
    /// The device it lives on.
    pub fn device(&self) -> &Device {
        self.ids.device()
    }

    /// How many pairs it holds. Exact when no call is in flight; else every call that has returned is
    /// counted. Costs nothing.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether it holds no pair.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// How many pairs fit for sure before slots or cells run out: at least what it was built for, and never less than
    /// [`len`](Self::len); see [`Map::capacity`].
    pub fn capacity(&self) -> usize {
        let cells = self.cells.load(Ordering::Acquire);
        self.ids.capacity().min(cells).max(self.len())
    }

    /// Frees the scratch memory that no call is using; see [`Map::trim`].
    pub fn trim(&self) {
        self.ids.trim();
    }

    /// To be called between writing cells and storing their ids, and between finding ids and reading
    /// their cells.
    ///
    /// On a GPU the ends of kernels put these in order. On the CPU a thread that finds an id in a slot,
    /// by a relaxed load, has not synchronised with the one that wrote the cell. Calls pass here one
    /// after the other: had the reader passed before the writer, then its load would have come before
    /// the store as well, and it could not have found the id.
    fn order(&self) {
        self.order.fetch_add(1, Ordering::AcqRel);
    }

    /// The same between what is launched before, and after.
    fn order_on(&self, on: LaunchOn<'_>) -> Result<()> {
        let order = Arc::clone(&self.order);
        on.then_on_cpu(move || {
            order.fetch_add(1, Ordering::AcqRel);
        })
    }
}

impl<K: Key, V: Pod + Send + Sync> fmt::Debug for ArenaMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArenaMap")
            .field("device", self.device())
            .field("len", &self.len())
            .field("value_bytes", &Self::SIZE)
            .field("cells", &self.cells)
            .finish_non_exhaustive()
    }
}
