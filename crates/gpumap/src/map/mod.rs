//! [`Map`]: the concurrent key-value map.

mod builder;
mod key;
mod launch;
mod retrieve;
mod shape;
mod store;
mod table;

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use gpumap_kernels::kernels::{Encoding, GetArgs, KernelSet, KeyBits};
use parking_lot::RwLock;

pub use builder::{DEFAULT_MAX_LOAD_FACTOR, MapBuilder};
pub use key::{Key, Value};

use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::{Error, Result, expect_room};
use crate::input::{Input, Source};
use crate::scratch::{Output, ScratchPool, Slot, Workspace};
use crate::stream::Stream;
use shape::{Shape, Wish};
use table::Table;

/// A map from keys to values in the memory of a device.
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
/// # Concurrency
/// `Map` is [`Send`] and [`Sync`], and every verb takes `&self`. [`insert`](Self::insert),
/// [`add`](Self::add), [`get`](Self::get) and [`contains`](Self::contains) may run from any
/// number of threads at once; on a GPU each call has a stream of its own, so they overlap. Each
/// key is linearizable: every operation on it takes effect at one moment between call and
/// return. A key is never stored twice, and no reader sees a torn value or one of another key.
/// [`retrieve_all`](Self::retrieve_all) beside writers reports every pair that was there
/// throughout exactly once. [`clear`](Self::clear), and a batch that may not fit, wait for the
/// calls in flight and hold new ones back.
///
/// # Capacity
/// A map has a fixed capacity for now. Batches are taken as long as there is room, also beyond
/// [`capacity`](Self::capacity); one that does not fit is refused as a whole with
/// [`Error::Full`], the map as it was. (The exception needs thousands of keys that collide under
/// the map's seed; the error says so.) A batch that might not fit runs alone: it waits for the
/// calls in flight, and present keys count as if they were new. So a map that is updated by many
/// threads at once is best built with room for a batch or two beyond its pairs.
pub struct Map<K: Key, V: Value> {
    device: Device,
    kernels: &'static KernelSet<K::Bits, V::Bits>,
    scratch: ScratchPool,
    /// Shared by the verbs; exclusive for what must run alone.
    table: RwLock<Table>,
    shape: Shape,
    /// Pairs in the map, when no call is in flight.
    len: AtomicUsize,
    /// Pairs in the map and those that calls in flight may add: an upper bound of `len`.
    promised: AtomicUsize,
    /// Whether a write failed half-way.
    poisoned: AtomicBool,
    _pair: PhantomData<fn(K) -> V>,
}

impl<K: Key, V: Value> Map<K, V> {
    /// The smallest map on a device.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Driver`].
    pub fn new(device: &Device) -> Result<Self> {
        Self::builder(device).build()
    }

    /// A map that has room for this many pairs.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::CapacityOverflow`], [`Error::Driver`].
    pub fn with_capacity(device: &Device, pairs: usize) -> Result<Self> {
        Self::builder(device).capacity(pairs).build()
    }

    /// A map with settings.
    pub fn builder(device: &Device) -> MapBuilder<K, V> {
        MapBuilder::new(device)
    }

    fn build(device: &Device, wish: &Wish, seed: u64, encoding: Encoding) -> Result<Self> {
        let kernels = K::Bits::kernels::<V::Bits>(encoding);
        let shape = Shape::new(wish, kernels.slot_bytes)?;
        let table = Table::new(&Stream::new(device)?, shape.clone(), seed)?;
        Ok(Self {
            device: device.clone(),
            kernels,
            scratch: ScratchPool::new(device),
            table: RwLock::new(table),
            shape,
            len: AtomicUsize::new(0),
            promised: AtomicUsize::new(0),
            poisoned: AtomicBool::new(false),
            _pair: PhantomData,
        })
    }

    /// The device it lives on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// How many pairs it holds. Exact when no call is in flight; else every call that has
    /// returned is counted. Costs nothing.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Whether it holds no pair.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many pairs surely fit: at least what it was built for.
    pub fn capacity(&self) -> usize {
        self.shape.capacity
    }

    /// How many slots it has, beside the few for keys whose bits mean a state of a slot.
    pub fn slots(&self) -> usize {
        self.shape.slots()
    }

    /// How many submaps it has.
    pub fn submaps(&self) -> usize {
        self.shape.pages.len()
    }

    /// Pairs per slot.
    pub fn load_factor(&self) -> f64 {
        self.len() as f64 / self.slots() as f64
    }

    /// Removes every pair. Waits for the calls in flight.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn clear(&self) -> Result<()> {
        let mut table = self.table.write();
        // Half-way through it holds neither what it held nor nothing.
        self.poisoned.store(true, Ordering::Release);
        table.clear()?;
        self.len.store(0, Ordering::Release);
        self.promised.store(0, Ordering::Release);
        self.poisoned.store(false, Ordering::Release);
        Ok(())
    }

    /// Frees the scratch memory that no call is using: what staged batches and results of host
    /// calls were copied through. Later calls allocate it again as they need it.
    pub fn trim(&self) {
        self.scratch.trim();
    }

    /// Looks keys up: for each its value, or none.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::WrongDevice`], [`Error::Driver`].
    pub fn get(&self, keys: &(impl Input<K> + ?Sized)) -> Result<Vec<Option<V>>> {
        let keys = keys.source();
        let mut scratch = self.scratch.take()?;
        let mut values = scratch.output::<V>(Slot::FirstOutput, keys.len())?;
        let mut found = scratch.output::<u8>(Slot::SecondOutput, keys.len())?;
        self.look_up(
            &mut scratch,
            keys,
            values.as_mut_ptr(),
            found.as_mut_ptr(),
            V::zeroed(),
        )?;
        let values = scratch.fetch(values, keys.len())?;
        let found = scratch.fetch(found, keys.len())?;
        let answer = |(value, found)| (found != 0).then_some(value);
        Ok(values.into_iter().zip(found).map(answer).collect())
    }

    /// Looks keys up into buffers of the device: `values[i]` is the value of `keys[i]`, or
    /// `default` where it is absent.
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`] if `values` is shorter than `keys`; [`Error::WrongDevice`],
    /// [`Error::Driver`].
    pub fn get_or_into(
        &self,
        keys: &(impl Input<K> + ?Sized),
        default: V,
        values: &mut Buffer<V>,
    ) -> Result<()> {
        let keys = keys.source();
        expect_room(keys.len(), values.len())?;
        let mut scratch = self.scratch.take()?;
        let values = scratch.target(values)?;
        self.look_up(&mut scratch, keys, values, std::ptr::null_mut(), default)?;
        scratch.stream().synchronize()
    }

    /// Looks keys up into buffers of the device: `found[i]` is 1 and `values[i]` the value of
    /// `keys[i]`, or both are 0 where it is absent.
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`] if an output is shorter than `keys`; [`Error::WrongDevice`],
    /// [`Error::Driver`].
    pub fn get_into(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &mut Buffer<V>,
        found: &mut Buffer<u8>,
    ) -> Result<()> {
        let keys = keys.source();
        expect_room(keys.len(), values.len().min(found.len()))?;
        let mut scratch = self.scratch.take()?;
        let values = scratch.target(values)?;
        let found = scratch.target(found)?;
        self.look_up(&mut scratch, keys, values, found, V::zeroed())?;
        scratch.stream().synchronize()
    }

    /// For each key whether it is present.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::WrongDevice`], [`Error::Driver`].
    pub fn contains(&self, keys: &(impl Input<K> + ?Sized)) -> Result<Vec<bool>> {
        let keys = keys.source();
        let mut scratch = self.scratch.take()?;
        let mut found: Output<u8> = scratch.output(Slot::FirstOutput, keys.len())?;
        let found_at = found.as_mut_ptr();
        self.look_up(
            &mut scratch,
            keys,
            std::ptr::null_mut(),
            found_at,
            V::zeroed(),
        )?;
        let found = scratch.fetch(found, keys.len())?;
        Ok(found.into_iter().map(|found| found != 0).collect())
    }

    /// Queues a lookup on the workspace's stream.
    fn look_up(
        &self,
        scratch: &mut Workspace,
        keys: Source<'_, K>,
        values: *mut V,
        found: *mut u8,
        default: V,
    ) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        // SAFETY: the callers wait for the workspace while they hold `keys`.
        let staged = unsafe { scratch.stage(Slot::Keys, keys) }?;
        let table = self.table.read();
        self.expect_sound()?;
        let (grid, batch) = self.share_out(staged, std::ptr::null(), keys.len());
        let args = GetArgs {
            view: table.view(),
            batch,
            values: values.cast(),
            found,
            default: bytemuck::cast(default),
        };
        // SAFETY: the kernel set fits the map's types, the inputs are staged and the outputs are
        // as long as the batch; the table outlives the launch, because whatever would free or
        // empty it waits for the lock, and the wait below is inside it.
        unsafe { self.kernels.get.launch(scratch.stream(), grid, args) }?;
        scratch.stream().synchronize()
    }

    /// Refuses to touch a map whose contents are not known.
    fn expect_sound(&self) -> Result<()> {
        if self.poisoned.load(Ordering::Acquire) {
            return Err(Error::Poisoned);
        }
        Ok(())
    }

    /// Queues writes to the table and waits for them. If that fails, part of them may have
    /// happened, and the map is not used again until it is cleared.
    ///
    /// To be called, and to return, under the table's lock: the device is done with the table
    /// then, also after a failure.
    fn or_poison<T>(
        &self,
        scratch: &mut Workspace,
        work: impl FnOnce(&mut Workspace) -> Result<T>,
    ) -> Result<T> {
        let outcome = work(scratch);
        if outcome.is_err() {
            self.poisoned.store(true, Ordering::Release);
            // The first error says more than one of this wait could.
            let _ = scratch.stream().synchronize();
        }
        outcome
    }
}

impl<K: Key, V: Value> fmt::Debug for Map<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map")
            .field("device", &self.device)
            .field("len", &self.len())
            .field("slots", &self.slots())
            .field("submaps", &self.submaps())
            .finish_non_exhaustive()
    }
}
