//! The two streams of an iterator over chunks, and what is on them.

use std::sync::Arc;

use gpumap_kernels::chunk::{CHUNK_SLABS, Chunks};

use super::chunk::{Chunk, Pinned, Shelf};
use crate::buffer::Buffer;
use crate::error::Result;
use crate::event::{Event, Timing};
use crate::map::retrieve::Dump;
use crate::map::table::Table;
use crate::map::{Core, Key, Value};
use crate::primitives::Order;
use crate::scratch::Scratch;
use crate::stream::Stream;

/// A dump part by part, each copied while the next is made.
pub(super) struct Pipeline<'m, K: Key, V: Value> {
    /// Shares the slabs that the map had at the start.
    table: Table,
    /// Dumps run on its stream.
    scratch: Scratch<'m>,
    /// Copies run on this one; the buffers are ordered by it.
    copies: Stream,
    /// Dumps go to them in turn.
    buffers: [(Buffer<K>, Buffer<V>); 2],
    turn: usize,
    /// The chunk after the last one dumped.
    next: u32,
    /// Chunks of the table.
    chunks: u32,
    /// Chunks of a part.
    step: u32,
    /// Pairs that each buffer has room for: all slots of a part.
    room: usize,
    shelf: Arc<Shelf<K, V>>,
    /// The part that is being copied.
    copying: Option<Copying<K, V>>,
}

/// A copy that was queued.
struct Copying<K, V> {
    pinned: Pinned<K, V>,
    len: usize,
    done: Event,
}

impl<'m, K: Key, V: Value> Pipeline<'m, K, V> {
    pub fn new(map: &'m Core, pairs: usize) -> Result<Self> {
        let scratch = map.scratch.take()?;
        let copies = Stream::of_calls(map.device())?;
        let table = map.table.read().share(&copies)?;
        let (_, chunks) = table.chunks()?;
        let chunk_slots = (CHUNK_SLABS * table.shape.slab_slots) as usize;
        let step = u32::try_from(pairs / chunk_slots)
            .unwrap_or(u32::MAX)
            .clamp(1, chunks);
        let room = step as usize * chunk_slots;
        let buffers = || -> Result<_> {
            Ok((
                Buffer::unwritten(&copies, room)?,
                Buffer::unwritten(&copies, room)?,
            ))
        };
        let buffers = [buffers()?, buffers()?];
        scratch.stream().wait_stream(&copies)?;
        Ok(Self {
            table,
            scratch,
            copies,
            buffers,
            turn: 0,
            next: 0,
            chunks,
            step,
            room,
            shelf: Shelf::new(),
            copying: None,
        })
    }

    /// The next part, once it has arrived. The one after it is on its way then.
    pub fn advance(&mut self, map: &'m Core) -> Result<Option<Chunk<K, V>>> {
        if self.copying.is_none() {
            self.copying = self.launch(map)?;
        }
        let following = self.launch(map)?;
        let Some(copying) = std::mem::replace(&mut self.copying, following) else {
            return Ok(None);
        };
        if let Err(error) = copying.done.synchronize() {
            // Its memory must not be freed before the copy has ended, and that is not known.
            std::mem::forget(copying);
            return Err(error);
        }
        let Copying { pinned, len, .. } = copying;
        Ok(Some(Chunk::new(pinned, len, Arc::clone(&self.shelf))))
    }

    /// Dumps the next part that is not empty and queues its copy; none at the end of the table.
    fn launch(&mut self, map: &Core) -> Result<Option<Copying<K, V>>> {
        let len = loop {
            if self.next == self.chunks {
                return Ok(None);
            }
            let len = self.dump(map)?;
            if len != 0 {
                break len;
            }
        };
        let mut pinned = self.shelf.take(map.device(), self.room)?;
        let (keys, values) = &self.buffers[self.turn];
        self.turn = 1 - self.turn;
        let done = Event::with_timing(map.device(), Timing::Off)?;
        let (keys, values) = (keys.slice(..len)?, values.slice(..len)?);
        // SAFETY: the memory stays in the copying, untouched, until `done`, which is waited for
        // before it is used, and in `drop`; if that cannot be said, below, until all has ended.
        let queued = unsafe {
            keys.copy_to_pinned_async(&mut pinned.keys)
                .and_then(|()| values.copy_to_pinned_async(&mut pinned.values))
        };
        if let Err(error) = queued.and_then(|()| done.record(&self.copies)) {
            if self.copies.synchronize().is_err() {
                std::mem::forget(pinned);
            }
            return Err(error);
        }
        Ok(Some(Copying { pinned, len, done }))
    }

    /// Dumps the next part into the buffers whose turn it is, and waits. Returns how many pairs it
    /// has. The copy of what was in the buffers before has ended: its part went to the caller.
    fn dump(&mut self, map: &Core) -> Result<usize> {
        let (chunks, _) = self.table.chunks()?;
        let first = u64::from(self.next);
        let count = self.step.min(self.chunks - self.next);
        let (keys, values) = &mut self.buffers[self.turn];
        let (keys, values) = (keys.as_mut_ptr().cast(), values.as_mut_ptr().cast());
        // Keeps away what empties or frees slabs.
        let _lock = map.table.read();
        let dump = Dump {
            chunks: Chunks { first, ..chunks },
            count,
            order: Order::Any,
            keys,
            values,
            room: self.room,
        };
        let pairs = map.dump(&dump, &mut self.scratch)?;
        self.next += count;
        Ok(pairs)
    }
}

impl<K: Key, V: Value> Drop for Pipeline<'_, K, V> {
    fn drop(&mut self) {
        // A copy may be on its way to memory that is freed now.
        if let Some(copying) = self.copying.take()
            && self.copies.synchronize().is_err()
        {
            std::mem::forget(copying);
        }
    }
}
