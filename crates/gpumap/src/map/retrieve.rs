//! Dumping all pairs.

use std::ops::Deref;
use std::ptr;

use gpumap_kernels::chunk::Chunks;
use gpumap_kernels::count::Counters;
use gpumap_kernels::primitives::CONTROL_THREADS;
use gpumap_kernels::retrieve_all::{MAX_WORKERS, RetrieveAllArgs, shared_bytes};
use gpumap_kernels::slot::RESERVED_WORDS;
use gpumap_simt::kernel::{Grid, Kernel, Launcher};
use gpumap_simt::warp;

use super::table::Table;
use super::{Core, Held, HeldPairs, Key, Map, Place, Value};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::output::Output;
use crate::primitives::{Order, empty_tiles, tile_blocks};
use crate::scratch::Workspace;

/// The most working threads of a dump that a multiprocessor has: two tiles on their way at a time
/// were measured to keep the memory busy.
const WORKERS: u32 = 2 * MAX_WORKERS;

/// What is dumped, and where it goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dump {
    /// The chunks of a table.
    pub chunks: Chunks,
    /// How many they are.
    pub count: u32,
    /// The order of the pairs: any, or that of the table.
    pub order: Order,
    /// Where keys go.
    pub keys: *mut u8,
    /// Where values go.
    pub values: *mut u8,
    /// How many of each fit.
    pub room: usize,
}

/// The part of a chunk that a single warp works on, as a power of two.
const SMALLEST: u32 = (MAX_WORKERS / warp::SIZE).ilog2();

/// The largest part of a chunk that a block's shared memory has room for, as a power of two: 0 for all of it.
fn parts_log2(device: &Device) -> u32 {
    let fits = |&log2: &u32| shared_bytes(MAX_WORKERS >> log2) <= device.shared_memory();
    (0..SMALLEST).find(fits).unwrap_or(SMALLEST)
}

impl Dump {
    /// All of a table.
    pub fn of<K, V>(
        table: &Table,
        order: Order,
        keys: *mut K,
        values: *mut V,
        room: usize,
    ) -> Result<Self> {
        let (chunks, count) = table.chunks()?;
        Ok(Self {
            chunks,
            count,
            order,
            keys: keys.cast(),
            values: values.cast(),
            room,
        })
    }

    /// Queues the kernel, or records that. `tiles` are the header and status words of an ordered dump, else null.
    ///
    /// # Safety
    /// The kernel fits the map's types; the table stays as long as the launch lasts, and both outputs
    /// have `room` elements on its device.
    pub unsafe fn queue(
        &self,
        kernel: &'static Kernel<RetrieveAllArgs<u8, u8>>,
        on: &impl Launcher<Error = Error>,
        device: &Device,
        pairs: Counters,
        tiles: *mut u8,
    ) -> Result<()> {
        let parts_log2 = parts_log2(device);
        let workers = MAX_WORKERS >> parts_log2;
        let side_by_side = device.shared_memory() / shared_bytes(workers);
        let blocks = tile_blocks(device, side_by_side.clamp(1, WORKERS / workers));
        let all = u64::from(self.count) << parts_log2;
        let args = RetrieveAllArgs {
            chunks: self.chunks,
            count: self.count,
            parts_log2,
            keys: self.keys,
            values: self.values,
            room: self.room as u64,
            pairs,
            tiles,
        };
        let grid = Grid {
            shared_bytes: shared_bytes(workers),
            ..Grid::new(all.min(u64::from(blocks)) as u32, workers + CONTROL_THREADS)
        };
        // SAFETY: passed on.
        unsafe { kernel.launch(on, grid, args) }
    }
}

/// # Dump
impl<K: Key, V: Value, P: Place> Map<K, V, P> {
    /// Every pair: `values[i]` belongs to `keys[i]`, in no order.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, u32>::new(&Device::cpu())?;
    /// map.insert(&[1, 2, 3], &[10, 20, 30])?;
    /// let (keys, values) = map.retrieve_all()?;
    /// assert_eq!(keys.len(), 3);
    /// assert!(keys.into_iter().zip(values).all(|(key, value)| value == 10 * key));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory), [`Error::Poisoned`](crate::Error::Poisoned),
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn retrieve_all(&self) -> Result<(Vec<K>, Vec<V>)> {
        self.held.retrieve_all()
    }

    /// Every pair, into memory of the host or of the device: `values[i]` belongs to `keys[i]`, in no
    /// order. Returns how many there are.
    ///
    /// ```
    /// use gpumap::{Buffer, Device, Map, Stream};
    /// let device = Device::cpu();
    /// let map = Map::<u32, u32>::with_capacity(&device, 100)?;
    /// map.insert(&[1, 2], &[10, 20])?;
    /// let stream = Stream::new(&device)?;
    /// let mut keys = Buffer::zeroed(&stream, map.len())?;
    /// let mut values = Buffer::zeroed(&stream, map.len())?;
    /// assert_eq!(map.retrieve_all_into(&mut keys, &mut values)?, 2);
    /// let values = values.to_vec()?;
    /// assert!(keys.to_vec()?.iter().zip(values).all(|(&k, v)| v == 10 * k));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`](crate::Error::OutputTooSmall) if the pairs do not fit: before
    /// anything is written, unless other calls are storing pairs at the same time.
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory), [`Error::WrongDevice`](crate::Error::WrongDevice),
    /// [`Error::Poisoned`](crate::Error::Poisoned), [`Error::Driver`](crate::Error::Driver).
    pub fn retrieve_all_into(
        &self,
        keys: &mut (impl Output<K> + ?Sized),
        values: &mut (impl Output<V> + ?Sized),
    ) -> Result<usize> {
        self.held.retrieve_all_into(keys, values)
    }
}

/// # Dump
impl<K: Key, V: Value> Map<K, V> {
    /// Every pair in the order of the table, which stays the same until the map grows, shrinks or is
    /// rebuilt: `values[i]` belongs to `keys[i]`. Two calls between which nothing is stored or removed
    /// return the same, and one after which pairs were removed returns the others in the order
    /// that they had. Costs a few per cent more than [`retrieve_all`](Self::retrieve_all).
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map: Map<u32, u32> = Map::from_pairs(&Device::cpu(), (0..1_000).map(|i| (i, 2 * i)))?;
    /// let (keys, values) = map.retrieve_all_stable()?;
    /// assert_eq!(map.retrieve_all_stable()?, (keys.clone(), values));
    ///
    /// map.remove(&keys[..10])?;
    /// assert_eq!(map.retrieve_all_stable()?.0, keys[10..]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory), [`Error::Poisoned`](crate::Error::Poisoned),
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn retrieve_all_stable(&self) -> Result<(Vec<K>, Vec<V>)> {
        self.storage().retrieve_all(Order::Stable)
    }

    /// Every pair in the order of the table, as of [`retrieve_all_stable`](Self::retrieve_all_stable),
    /// into memory of the host or of the device. Returns how many there are.
    ///
    /// # Errors
    /// Those of [`retrieve_all_into`](Self::retrieve_all_into), and
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) for a word per 512 slabs.
    pub fn retrieve_all_stable_into(
        &self,
        keys: &mut (impl Output<K> + ?Sized),
        values: &mut (impl Output<V> + ?Sized),
    ) -> Result<usize> {
        self.storage().retrieve_into(Order::Stable, keys, values)
    }
}

/// A table under its lock.
pub(super) struct HeldTable<'c, G> {
    pub core: &'c Core,
    pub table: G,
}

impl<G: Deref<Target = Table>> HeldPairs for HeldTable<'_, G> {
    fn most(&self) -> usize {
        self.core.slots() + RESERVED_WORDS as usize
    }

    fn write(
        &self,
        scratch: &mut Workspace,
        order: Order,
        [keys, values]: [*mut u8; 2],
        room: usize,
    ) -> Result<usize> {
        let dump = Dump::of(&self.table, order, keys, values, room)?;
        self.core.dump(&dump, scratch)
    }
}

impl Core {
    /// Writes the pairs, waits, and returns how many there are, also if there is room for fewer. The
    /// caller holds the lock of the table.
    pub(super) fn dump(&self, dump: &Dump, scratch: &mut Workspace) -> Result<usize> {
        let tiles = match dump.order {
            Order::Any => ptr::null_mut(),
            Order::Stable => {
                let tiles = (dump.count as usize) << parts_log2(&self.device);
                empty_tiles(scratch, tiles, size_of::<u64>())?
            }
        };
        self.expect_sound()?;
        let pairs = scratch.counting()?;
        // SAFETY: the kernel set fits the map's types, and both outputs have `room` elements; the
        // caller holds the table's lock until the counter has been read.
        unsafe {
            let (kernel, stream) = (self.kernels.retrieve_all, scratch.stream());
            dump.queue(kernel, stream, &self.device, pairs, tiles)
        }?;
        let [pairs, _] = scratch.counted()?;
        Ok(pairs as usize)
    }
}
