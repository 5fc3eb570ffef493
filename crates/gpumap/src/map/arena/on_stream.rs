//! An [`ArenaMap`] on a stream: lookups are queued. What stores or removes waits, since cells are given out and taken back by
//! the host.

use std::sync::Arc;

use bytemuck::Pod;
use gpumap_kernels::cells::NO_CELL;

use super::super::Key;
use super::super::command::{Arrays, Batch, Command, Kind, Outputs, Receiver};
use super::super::in_flight::{Effect, MapState, PendingOp};
use super::super::launch::Notes;
use super::super::on_stream::{Call, OnStream, Staged, StreamReceiver, addresses};
use super::ArenaMap;
use crate::buffer::BufferViewMut;
use crate::device::Device;
use crate::error::{Result, expect_room};
use crate::memory::{Memory, bytes_of};
use crate::stream::Stream;

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
        OnStream::of(self, Receiver::Arena, stream)
    }
}

impl<K: Key, V: Pod + Send + Sync> StreamReceiver for ArenaMap<K, V> {
    fn device(&self) -> &Device {
        self.device()
    }

    fn state(&self) -> &Arc<MapState> {
        &self.ids.core().state
    }

    fn queues(&self, kind: Kind) -> bool {
        Receiver::Arena.queues(kind)
    }

    fn queue(
        &self,
        stream: &Stream,
        batch: &Batch<'_>,
        outputs: &mut Arrays<'_>,
    ) -> Result<Option<Arc<PendingOp>>> {
        let (core, len) = (self.ids.core(), batch.keys.len());
        let [values, found] = addresses(outputs);
        if values.is_null() {
            // No cell is looked at.
            return core.queue(stream, batch, outputs);
        }
        let keys = Staged::on(stream, batch.keys)?;
        // Freed in the order of the stream, so after the kernels that use it.
        let memory = Memory::new(stream, bytes_of::<u32>(len)?)?;
        let ids: *mut u32 = memory.ptr().cast();
        let command = Command {
            keys: keys.elements(),
            default: u64::from(NO_CELL),
            out_values: ids.cast(),
            ..Command::of(Kind::Get, core.pair, len)
        };
        let arena = self.arena.read();
        let table = core.table.read();
        core.expect_sound()?;
        let look_up = |_| {
            // SAFETY: keys are on the device, and there is a place for each id. What frees or replaces the table waits for
            // this call.
            unsafe { core.launch(&table, stream, &command, Notes::NONE) }?;
            self.order_on(stream)?;
            // SAFETY: the ids are found just before, and outputs are as long; while this call is in flight no cell that it
            // has found is written or freed.
            unsafe { arena.cells.gather(stream, ids, values, found, len) }
        };
        core.state.submit(stream, Effect::Read, look_up).map(Some)
    }

    fn run(&self, batch: Batch<'_>, outputs: Outputs<'_>) -> Result<usize> {
        self.run(batch, outputs)
    }

    fn dump(
        &self,
        stream: &Stream,
        keys: &mut BufferViewMut<'_, u8>,
        values: &mut BufferViewMut<'_, u8>,
        room: usize,
    ) -> Result<Call> {
        stream.synchronize()?;
        let mut scratch = self.ids.core().scratch.take()?;
        expect_room(self.len(), room)?;
        let to = (keys.as_mut_ptr().cast(), values.as_mut_ptr().cast());
        let pairs = self.write_pairs(&self.arena.read(), &mut scratch, to, room)?;
        expect_room(pairs, room)?;
        Ok(Call::Done(pairs))
    }
}
