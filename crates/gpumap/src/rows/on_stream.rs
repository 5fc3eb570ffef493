//! [`RowsOnStream`]: the rows of keys in the order of a stream.

use std::sync::Arc;
use std::{fmt, ptr};

use bytemuck::Pod;
use gpumap_kernels::count::Counters;
use gpumap_kernels::rows::StringRef;

use super::core::Core;
use super::table::Table;
use super::{Keys, NO_ROW, RowBatch, RowInput, RowKey, RowMap, RowStore, insert};
use crate::array::ArrayMut;
use crate::buffer::BufferViewMut;
use crate::device::Device;
#[cfg(doc)]
use crate::error::Error;
use crate::error::{Result, expect_room};
use crate::lock::ReadGuard;
use crate::map::{
    Batch, Command, Kind, MapMemory, MapState, Outputs, Pair, Pending, Queue, Receiver,
    StreamReceiver, Wanted,
};
use crate::memory::host_collect;
#[cfg(doc)]
use crate::op::Make;
use crate::op::{self, Collector};
use crate::output::Output;
use crate::scratch::{ScratchPool, Workspace};
use crate::stream::{LaunchOn, Stream};

/// The verbs of a [`RowMap`] on a stream; made by [`RowMap::on`].
///
/// | | |
/// |---|---|
/// | queued: the call returns before the device is done | [`get`](Self::get), [`get_into`](Self::get_into) |
/// | waits for the stream, and returns with the answer | [`insert`](Self::insert), [`insert_into`](Self::insert_into), [`remove`](Self::remove), [`retrieve_all_into`](Self::retrieve_all_into): the host counts rows |
///
/// They take effect in the order of the stream, after what was queued on the streams of their buffers. What is queued on a
/// buffer's own stream after the call, its freeing too, comes after the call on the device. With keys in a
/// [`Buffer`](crate::Buffer) a queued call returns at once; keys of the host are copied first, which is waited for.
///
/// **Offsets of strings are checked by the device.** If some are wrong, it is the pending answer of a lookup that is an error when it is
/// waited for, and not the call; the rows that were written are of no use.
///
/// What changes the map, or frees it, waits for the lookups that are queued.
pub struct RowsOnStream<'m, K: RowKey + ?Sized> {
    store: &'m K::Store,
    queue: Queue<'m>,
}

/// # Streams
impl<K: RowKey + ?Sized> RowMap<K> {
    /// The same verbs, in the order of a stream.
    ///
    /// ```
    /// use gpumap::{Buffer, Device, RowMap, Stream};
    ///
    /// let stream = Stream::new(&Device::best()?)?;
    /// let map = RowMap::<u128>::new(stream.device())?;
    /// let keys = Buffer::from_slice(&stream, &[3u128 << 100, 1, 3 << 100])?;
    /// let mut rows = Buffer::zeroed(&stream, 3)?;
    ///
    /// let on = map.on(&stream);
    /// assert_eq!(on.insert(&[1, 2])?.wait()?, [0, 1]);
    /// let found = on.get_into(&keys, &mut rows)?; // not waited for
    /// assert_eq!(on.insert(&keys)?.wait()?, [2, 0, 2]);
    /// found.wait()?;
    /// assert_eq!(rows.to_vec()?, [gpumap::rows::NO_ROW, 0, gpumap::rows::NO_ROW]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    pub fn on(&self, stream: &Stream) -> RowsOnStream<'_, K> {
        RowsOnStream {
            store: &self.store,
            queue: Queue::new(self.core(), stream),
        }
    }
}

/// # Insert
impl<K: RowKey + ?Sized> RowsOnStream<'_, K> {
    /// [`RowMap::insert`] on the stream, for which it waits.
    ///
    /// # Errors
    /// As for [`RowMap::insert`]; [`Error::WrongDevice`] also for the stream.
    pub fn insert(&self, keys: &(impl RowInput<K> + ?Sized)) -> Result<Pending<Vec<u32>>> {
        let run = || keys.with_keys(|keys| insert::<K>(self.store, keys));
        self.queue.waited(run)
    }

    /// [`RowMap::insert_into`] on the stream, for which it waits.
    ///
    /// # Errors
    /// As for [`RowMap::insert_into`]; [`Error::WrongDevice`] also for the stream.
    pub fn insert_into<'a>(
        &self,
        keys: &(impl RowInput<K> + ?Sized),
        rows: impl Into<BufferViewMut<'a, u32>>,
    ) -> Result<Pending<usize>> {
        let mut rows = rows.into();
        let places = Some(ArrayMut::from(rows.sink()));
        let run = || keys.with_keys(|keys| self.store.insert(keys, [places, None]));
        self.queue.waited(run)
    }
}

/// # Look up
impl<K: RowKey + ?Sized> RowsOnStream<'_, K> {
    /// [`RowMap::get`] on the stream. The rows are copied from the device when the answer is waited for.
    ///
    /// # Errors
    /// As for [`RowMap::get`]; [`Error::WrongDevice`] also for the stream.
    pub fn get(&self, keys: &(impl RowInput<K> + ?Sized)) -> Result<Pending<Vec<Option<u32>>>> {
        let rows = (Wanted::VALUES, size_of::<u32>());
        keys.with_keys(|keys| self.queue.answered(keys.lookup(), rows, or_none))
    }

    /// [`RowMap::get_into`] on the stream.
    ///
    /// # Errors
    /// As for [`RowMap::get_into`]; [`Error::WrongDevice`] also for the stream.
    pub fn get_into<'a>(
        &self,
        keys: &(impl RowInput<K> + ?Sized),
        rows: impl Into<BufferViewMut<'a, u32>>,
    ) -> Result<Pending<()>> {
        let mut rows = rows.into();
        keys.with_keys(|keys| {
            expect_room(keys.count(), rows.len())?;
            let places = Some(ArrayMut::from(rows.sink()));
            self.queue.counted(keys.lookup(), [places, None], drop)
        })
    }
}

/// # Dump
impl<K: Pod> RowsOnStream<'_, K> {
    /// [`RowMap::retrieve_all_into`] on the stream, for which it waits.
    ///
    /// # Errors
    /// As for [`RowMap::retrieve_all_into`]; [`Error::WrongDevice`] also for the stream.
    pub fn retrieve_all_into<'a>(
        &self,
        keys: impl Into<BufferViewMut<'a, K>>,
        rows: impl Into<BufferViewMut<'a, u32>>,
    ) -> Result<Pending<usize>> {
        let (keys, rows) = (keys.into(), rows.into());
        let room = keys.len().min(rows.len());
        self.queue.dump(keys.into_bytes(), rows.into_bytes(), room)
    }
}

/// # Remove
impl<K: RowKey + ?Sized> RowsOnStream<'_, K> {
    /// [`RowMap::remove`] on the stream, for which it waits.
    ///
    /// # Errors
    /// As for [`RowMap::remove`]; [`Error::WrongDevice`] also for the stream.
    pub fn remove(&self, keys: &(impl RowInput<K> + ?Sized)) -> Result<Pending<usize>> {
        let run = || keys.with_keys(|keys| self.store.remove(keys));
        self.queue.waited(run)
    }
}

/// [`Make`] of rows, or none.
fn or_none(len: usize, collect: Collector<'_>) -> Result<Vec<Option<u32>>> {
    let there = |row| (row != NO_ROW).then_some(row);
    host_collect(op::values(len, collect)?.into_iter().map(there))
}

/// The values of keys are their rows.
impl StreamReceiver for Core {
    fn receiver(&self) -> Receiver {
        Receiver::Rows
    }

    fn device(&self) -> &Device {
        &self.device
    }

    fn state(&self) -> &Arc<MapState> {
        self.state()
    }

    fn scratch(&self) -> &ScratchPool {
        &self.scratch
    }

    fn pair(&self) -> Pair {
        Pair {
            key: self.key_bytes,
            value: size_of::<u32>(),
        }
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn expect_no_callback(&self) -> Result<()> {
        self.expect_no_callback()
    }

    fn memory(&self) -> Result<Box<dyn MapMemory + '_>> {
        Ok(Box::new(RowMemory::of(self)?))
    }

    /// Lookups of plain data; those of strings are queued always.
    fn run(&self, batch: &Batch<'_>, outputs: Outputs<'_>) -> Result<usize> {
        outputs.through_arrays(batch.keys.len(), |outputs| {
            self.get(batch.keys, outputs).map(|()| 0)
        })
    }

    fn write_pairs(
        &self,
        scratch: &mut Workspace,
        [keys, rows]: [*mut u8; 2],
        room: usize,
    ) -> Result<usize> {
        self.dump_into(scratch, keys, rows.cast(), room)
    }
}

/// The table of a row map.
pub(crate) struct RowMemory<'m> {
    map: &'m Core,
    table: ReadGuard<'m, Table>,
}

impl<'m> RowMemory<'m> {
    pub fn of(map: &'m Core) -> Result<Self> {
        let table = map.shared()?;
        Ok(Self { map, table })
    }
}

impl MapMemory for RowMemory<'_> {
    fn sight(&self) -> Vec<u64> {
        self.table.sight()
    }

    /// References of strings.
    fn hands_on(&self, command: &Command) -> usize {
        match command.kind {
            Kind::GetStrings(_) => StringRef::BYTES,
            _ => 0,
        }
    }

    unsafe fn launch(
        &self,
        on: LaunchOn<'_>,
        command: &Command,
        counters: Counters,
        refs: *mut u8,
    ) -> Result<()> {
        let keys = match command.kind {
            Kind::GetStrings(layout) => {
                let strings = [command.keys, command.values];
                let refs = (refs.cast(), command.len);
                let seed = self.table.view().seed;
                // SAFETY: passed on, with a place for each reference.
                unsafe { Keys::of_strings(&on, strings, layout, refs, seed, counters) }?
            }
            _ => Keys::at(command.keys, command.len, self.table.form())?,
        };
        let rows = command.out_values.cast();
        self.map
            .launch_get(&on, &self.table, keys, rows, ptr::null_mut())
    }
}

impl<K: RowKey + ?Sized> Clone for RowsOnStream<'_, K> {
    fn clone(&self) -> Self {
        Self {
            store: self.store,
            queue: self.queue.clone(),
        }
    }
}

impl<K: RowKey + ?Sized> fmt::Debug for RowsOnStream<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowsOnStream")
            .field("stream", &self.queue.stream)
            .finish_non_exhaustive()
    }
}
