//! [`Chunks`]: all pairs of a map, streamed to the host part by part.
//!
//! The table is cut into chunks of 512 slabs; a part is a range of them. While one part is on its
//! way to the host, the next one is dumped on the device:
//!
//! | | first call of `next` | second | third |
//! |---|---|---|---|
//! | dump, on one stream | part 0, part 1 | part 2 | part 3 |
//! | copy, on another | part 0 | part 1 | part 2 |
//! | the caller has | | part 0 | part 1 |
//!
//! Invariant: a dump runs under the shared lock of the table, and has ended when `next` returns; a
//! copy touches nothing but buffers of the iterator. So between two calls nothing keeps the map
//! from being changed. The iterator shares the slabs that it began with, in which no pair ever
//! moves: a map that grows meanwhile gets new ones, and the iterator finishes the old ones as they
//! were then.

mod chunk;
mod pipeline;
#[cfg(test)]
mod tests;

use std::fmt;
use std::iter::FusedIterator;

pub use chunk::Chunk;
use pipeline::Pipeline;

use super::storage::Store;
use super::{Core, Held, Key, Layout, Map, Place, Value, arena};
use crate::error::Result;

/// # Dump in chunks
impl<K: Key, V: Value> Map<K, V> {
    /// Streams all pairs to the host: at most about `pairs` of them per item, so that neither the
    /// host nor the device has to hold a second copy of the map. The device dumps the next part
    /// while the one before is being copied.
    ///
    /// An item has no more than `pairs` pairs, or than 4,096 where that is less, and some are much
    /// shorter: it is a piece of the table. None is empty, and they come in no order. Two parts of
    /// this size are kept on the device, and three in pinned memory of the host. Nothing is done
    /// before the first call of `next`, and nothing comes after an error.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map: Map<u32, u32> = Map::from_pairs(&Device::cpu(), (0..10_000).map(|i| (i, 2 * i)))?;
    /// let mut seen = 0;
    /// for chunk in map.chunks(4_096) {
    ///     let chunk = chunk?;
    ///     assert!(chunk.iter().all(|(key, value)| value == 2 * key));
    ///     seen += chunk.len();
    /// }
    /// assert_eq!(seen, 10_000);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # While the map changes
    /// The iterator holds no lock between calls: the thread that has it, and any other, may use
    /// all verbs, also those that make the map grow or shrink. A pair that is there from the first
    /// call to the last is reported **exactly once**, with a value that it had meanwhile. Of other
    /// keys:
    /// - one that is stored after the first call may be reported or not; once the map has grown,
    ///   compacted or shrunk, it is not;
    /// - one that is removed may be reported or not, and if it is inserted again may be reported
    ///   for each time.
    ///
    /// An iterator that has begun keeps the memory of the table that it began with. A map that
    /// grows meanwhile needs memory for both.
    ///
    /// # Errors
    /// From `next`: [`Error::OutOfMemory`](crate::Error::OutOfMemory),
    /// [`Error::Poisoned`](crate::Error::Poisoned), [`Error::Driver`](crate::Error::Driver).
    pub fn chunks(&self, pairs: usize) -> Chunks<'_, K, V> {
        const {
            assert!(
                !matches!(Layout::of::<K, V>(), Layout::Rows),
                "maps of the layout `Rows` have no `chunks`, which hold no lock between two of them: use `for_each_chunk`"
            );
        }
        let of = match self.held.store() {
            Store::Inline(core) => Of::Inline(TableChunks::of(core, pairs)),
            Store::Cells(core) => Of::Cells(core, TableChunks::of(&core.ids, pairs)),
            Store::Rows(_) => unreachable!("the types choose the layout"),
        };
        Chunks { of }
    }
}

/// # Dump in chunks
impl<K: Key, V: Value, P: Place> Map<K, V, P> {
    /// Hands all pairs to `take` in chunks of about `pairs`, until that fails: the form of [`chunks`](Self::chunks) that every map
    /// has, with the same contract while the map changes. `take` may use all verbs.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map: Map<u32, u32> = Map::from_pairs(&Device::cpu(), [(1, 10), (2, 20)])?;
    /// let mut sum = 0;
    /// map.for_each_chunk(4_096, |chunk| {
    ///     sum += chunk.values().iter().sum::<u32>();
    ///     Ok(())
    /// })?;
    /// assert_eq!(sum, 30);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`chunks`](Self::chunks), and those of `take`.
    pub fn for_each_chunk(
        &self,
        pairs: usize,
        mut take: impl FnMut(&Chunk<K, V>) -> Result<()>,
    ) -> Result<()> {
        self.held.give_chunks(pairs, &mut take)
    }
}

/// All pairs of a map, part by part; made by [`Map::chunks`].
pub struct Chunks<'m, K: Key, V: Value> {
    of: Of<'m, K, V>,
}

enum Of<'m, K: Key, V: Value> {
    Inline(TableChunks<'m, K, V>),
    Cells(&'m arena::Core, TableChunks<'m, K, u32>),
}

impl<K: Key, V: Value> Iterator for Chunks<'_, K, V> {
    type Item = Result<Chunk<K, V>>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.of {
            Of::Inline(chunks) => chunks.next(),
            Of::Cells(core, ids) => core.next_chunk(ids).transpose(),
        }
    }
}

impl<K: Key, V: Value> FusedIterator for Chunks<'_, K, V> {}

impl<K: Key, V: Value> fmt::Debug for Chunks<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tuple = f.debug_tuple("Chunks");
        match &self.of {
            Of::Inline(chunks) => tuple.field(chunks),
            Of::Cells(_, ids) => tuple.field(ids),
        };
        tuple.finish()
    }
}

/// [`Chunks`] of a table.
pub(crate) struct TableChunks<'m, K: Key, V: Value> {
    map: &'m Core,
    state: State<'m, K, V>,
}

enum State<'m, K: Key, V: Value> {
    /// To be cut into parts of this size.
    New {
        pairs: usize,
    },
    Running(Box<Pipeline<'m, K, V>>),
    Done,
}

impl<'m, K: Key, V: Value> TableChunks<'m, K, V> {
    /// Those of a table with such keys and values.
    pub(crate) fn of(map: &'m Core, pairs: usize) -> Self {
        Self {
            map,
            state: State::New { pairs },
        }
    }

    fn advance(&mut self) -> Result<Option<Chunk<K, V>>> {
        if let State::New { pairs } = self.state {
            self.state = State::Running(Box::new(Pipeline::new(self.map, pairs)?));
        }
        match &mut self.state {
            State::Running(pipeline) => pipeline.advance(self.map),
            State::New { .. } | State::Done => Ok(None),
        }
    }
}

impl<K: Key, V: Value> Iterator for TableChunks<'_, K, V> {
    type Item = Result<Chunk<K, V>>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.advance().transpose();
        if !matches!(item, Some(Ok(_))) {
            self.state = State::Done;
        }
        item
    }
}

impl<K: Key, V: Value> FusedIterator for TableChunks<'_, K, V> {}

impl<K: Key, V: Value> fmt::Debug for TableChunks<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::New { .. } => "new",
            State::Running(_) => "running",
            State::Done => "done",
        };
        f.debug_struct("TableChunks")
            .field("map", self.map)
            .field("state", &state)
            .finish()
    }
}
