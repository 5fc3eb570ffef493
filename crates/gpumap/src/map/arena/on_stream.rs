//! An [`ArenaMap`] on a stream: lookups are queued. What stores or removes waits, since cells are given out and taken back by
//! the host.

use std::ptr;
use std::sync::Arc;

use bytemuck::Pod;
use gpumap_kernels::cells::NO_CELL;
use gpumap_kernels::count::Counters;

use super::super::command::{Batch, Command, Outputs, Receiver};
use super::super::graph::Graph;
use super::super::in_flight::MapState;
use super::super::on_stream::{MapMemory, OnStream, StreamReceiver, TableMemory};
use super::super::{Key, Pair};
use super::ArenaMap;
use super::memory::Arena;
use crate::device::Device;
use crate::error::Result;
use crate::lock::ReadGuard;
use crate::scratch::{ScratchPool, Workspace};
use crate::stream::{LaunchOn, Stream};

/// # Streams
impl<K: Key, V: Pod + Send + Sync> ArenaMap<K, V> {
    /// The same verbs, in the order of a stream: lookups return before the device is done, and
    /// [all others wait](OnStream#what-is-queued-and-what-waits) for the stream.
    ///
    /// ```
    /// use gpumap::{ArenaMap, Buffer, Device, Stream};
    ///
    /// let stream = Stream::new(&Device::best()?)?;
    /// let map = ArenaMap::<u32, [u32; 5]>::new(stream.device())?;
    /// let keys = Buffer::from_slice(&stream, &[1u32, 2])?;
    /// let (mut values, mut found) = (Buffer::zeroed(&stream, 2)?, Buffer::zeroed(&stream, 2)?);
    ///
    /// let on = map.on(&stream);
    /// assert_eq!(on.insert(&[1], &[[10; 5]])?.wait()?, 1);
    /// let _ = on.get_into(&keys, &mut values, &mut found)?; // not waited for
    /// let _ = on.remove(&keys)?;
    /// assert_eq!((values.to_vec()?, found.to_vec()?), (vec![[10; 5], [0; 5]], vec![1, 0]));
    /// assert!(map.is_empty());
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    pub fn on(&self, stream: &Stream) -> OnStream<'_, K, V> {
        OnStream::of(self, stream)
    }
}

/// # Graphs
impl<K: Key, V: Pod + Send + Sync> ArenaMap<K, V> {
    /// Verbs that are launched together, in the order of a stream: lookups as one [`Graph`], and launches with others
    /// [one by one](Graph#launches).
    ///
    /// ```
    /// use gpumap::{ArenaMap, Buffer, Device, Stream};
    ///
    /// let stream = Stream::new(&Device::best()?)?;
    /// let map = ArenaMap::<u32, [u32; 5]>::new(stream.device())?;
    /// map.insert(&[1, 2], &[[10; 5], [20; 5]])?;
    /// let mut keys = Buffer::zeroed(&stream, 2)?;
    /// let (mut values, mut found) = (Buffer::zeroed(&stream, 2)?, Buffer::zeroed(&stream, 2)?);
    ///
    /// let mut graph = map.graph(&stream);
    /// for key in [0, 1] {
    ///     keys.copy_from_slice(&[key, key + 1])?;
    ///     let mut verbs = graph.record();
    ///     verbs.get_into(&keys, &mut values, &mut found)?;
    ///     let _ = verbs.launch()?; // not waited for
    ///     assert_eq!(values.to_vec()?, [[10 * key; 5], [10 * key + 10; 5]]);
    /// }
    /// assert_eq!(graph.captures(), 1);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    pub fn graph(&self, stream: &Stream) -> Graph<'_, K, V> {
        Graph::of(self, stream)
    }
}

impl<K: Key, V: Pod + Send + Sync> StreamReceiver for ArenaMap<K, V> {
    fn receiver(&self) -> Receiver {
        Receiver::Arena
    }

    fn device(&self) -> &Device {
        self.device()
    }

    fn state(&self) -> &Arc<MapState> {
        &self.ids.core().state
    }

    fn scratch(&self) -> &ScratchPool {
        &self.ids.core().scratch
    }

    fn pair(&self) -> Pair {
        Pair {
            key: size_of::<K>(),
            value: Self::SIZE,
        }
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn expect_no_callback(&self) -> Result<()> {
        self.arena.expect_no_callback()
    }

    fn memory(&self) -> Result<Box<dyn MapMemory + '_>> {
        Ok(Box::new(ArenaMemory {
            map: self,
            arena: self.arena.read(),
            ids: TableMemory::of(self.ids.core())?,
        }))
    }

    fn run(&self, batch: Batch<'_>, outputs: Outputs<'_>) -> Result<usize> {
        self.run(batch, outputs)
    }

    fn write_pairs(
        &self,
        scratch: &mut Workspace,
        [keys, values]: [*mut u8; 2],
        room: usize,
    ) -> Result<usize> {
        let to = (keys.cast(), values.cast());
        self.write_pairs(&self.arena.read(), scratch, to, room)
    }
}

/// Cells, and the table that has their ids.
struct ArenaMemory<'m, K: Key, V> {
    map: &'m ArenaMap<K, V>,
    arena: ReadGuard<'m, Arena>,
    ids: TableMemory<'m>,
}

impl<K: Key, V: Pod + Send + Sync> MapMemory for ArenaMemory<'_, K, V> {
    fn sight(&self) -> Vec<u64> {
        let mut sight = self.ids.sight();
        sight.push(self.arena.cells.sight());
        sight
    }

    /// The ids, unless no cell is looked at.
    fn hands_on(&self, command: &Command) -> usize {
        match command.out_values.is_null() {
            true => 0,
            false => size_of::<u32>(),
        }
    }

    unsafe fn launch(
        &self,
        on: LaunchOn<'_>,
        command: &Command,
        counters: Counters,
        ids: *mut u8,
    ) -> Result<()> {
        if self.hands_on(command) == 0 {
            // SAFETY: passed on.
            return unsafe { self.ids.launch(on, command, counters, ids) };
        }
        let find = Command {
            default: u64::from(NO_CELL),
            out_values: ids,
            out_flags: ptr::null_mut(),
            ..*command
        };
        let Command {
            out_values,
            out_flags,
            len,
            ..
        } = *command;
        // SAFETY: passed on, with a place for each id. The ids are found just before; while this call is in flight no cell that
        // it has found is written or freed.
        unsafe {
            self.ids.launch(on, &find, counters, ptr::null_mut())?;
            self.map.order_on(on)?;
            let cells = &self.arena.cells;
            cells.gather(&on, ids.cast(), out_values, out_flags, len)
        }
    }
}
