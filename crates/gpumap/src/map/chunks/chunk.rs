//! [`Chunk`]: one part of a map on the host, and where its memory comes from and goes to.

use std::borrow::Borrow;
use std::sync::Arc;

use bytemuck::Pod;
use parking_lot::Mutex;

use crate::buffer::PinnedBuffer;
use crate::device::Device;
use crate::error::Result;
use crate::map::{Key, Value};
use crate::rows::RowKey;

/// One part on its way, one in the hands of the caller, one to spare.
const KEPT: usize = 3;

/// Host memory for one part.
pub(super) struct Pinned<K, V> {
    pub keys: PinnedBuffer<K>,
    pub values: PinnedBuffer<V>,
}

/// Host memory that no part uses now.
pub(super) struct Shelf<K, V>(Mutex<Vec<Pinned<K, V>>>);

impl<K: Pod, V: Pod> Shelf<K, V> {
    pub fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Vec::new())))
    }

    /// Memory for `room` pairs, which is the same each time.
    pub fn take(&self, device: &Device, room: usize) -> Result<Pinned<K, V>> {
        if let Some(pinned) = self.0.lock().pop() {
            return Ok(pinned);
        }
        Ok(Pinned {
            keys: PinnedBuffer::zeroed(device, room)?,
            values: PinnedBuffer::zeroed(device, room)?,
        })
    }

    fn give_back(&self, pinned: Pinned<K, V>) {
        let mut kept = self.0.lock();
        if kept.len() < KEPT {
            kept.push(pinned);
        }
    }
}

/// Pairs of a map on the host, at least one; an item of [`Chunks`](super::Chunks), and of what other maps give out in chunks.
///
/// Its memory may be used again for later items once it is dropped.
pub struct Chunk<K: RowKey + ?Sized, V: Pod> {
    memory: Memory<K, V>,
    len: usize,
}

/// Where pairs are.
enum Memory<K: RowKey + ?Sized, V: Pod> {
    Kept(Box<dyn Part<K::Slice, V> + Send + Sync>),
    Own(K::Column, Vec<V>),
}

/// Memory of pairs.
trait Part<S: ?Sized, V> {
    fn keys(&self) -> &S;
    fn values(&self) -> &[V];
}

/// The first pairs of memory of a shelf; goes back on drop.
struct Shelved<K: Pod, V: Pod> {
    // Always there until the drop.
    pinned: Option<Pinned<K, V>>,
    len: usize,
    shelf: Arc<Shelf<K, V>>,
}

impl<K: Pod, V: Pod> Part<[K], V> for Shelved<K, V> {
    fn keys(&self) -> &[K] {
        let pinned = self.pinned.as_ref();
        pinned.map_or(&[], |pinned| &pinned.keys[..self.len])
    }

    fn values(&self) -> &[V] {
        let pinned = self.pinned.as_ref();
        pinned.map_or(&[], |pinned| &pinned.values[..self.len])
    }
}

impl<K: Key, V: Value> Chunk<K, V> {
    /// The first `len` pairs of some memory of the shelf.
    pub(super) fn new(pinned: Pinned<K, V>, len: usize, shelf: Arc<Shelf<K, V>>) -> Self {
        let pinned = Some(pinned);
        Self {
            memory: Memory::Kept(Box::new(Shelved { pinned, len, shelf })),
            len,
        }
    }
}

impl<K: RowKey + ?Sized, V: Pod> Chunk<K, V> {
    /// As many keys as values.
    pub(crate) fn of((keys, values): (K::Column, Vec<V>)) -> Self {
        let len = values.len();
        Self {
            memory: Memory::Own(keys, values),
            len,
        }
    }

    /// The keys, each once if the map has each once: a slice of them, or [`Strings`](crate::strings::Strings).
    pub fn keys(&self) -> &K::Slice {
        match &self.memory {
            Memory::Kept(part) => part.keys(),
            Memory::Own(keys, _) => keys.borrow(),
        }
    }

    /// The values, each at the place of its key.
    pub fn values(&self) -> &[V] {
        match &self.memory {
            Memory::Kept(part) => part.values(),
            Memory::Own(_, values) => values,
        }
    }

    /// How many pairs there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none. Never true of an item of [`Chunks`](super::Chunks).
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<K: Pod, V: Pod> Chunk<K, V> {
    /// The pairs, one by one.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (K, V)> + '_ {
        let pairs = self.keys().iter().zip(self.values());
        pairs.map(|(&key, &value)| (key, value))
    }
}

impl<K: Pod, V: Pod> Drop for Shelved<K, V> {
    fn drop(&mut self) {
        if let Some(pinned) = self.pinned.take() {
            self.shelf.give_back(pinned);
        }
    }
}

impl<K: RowKey + ?Sized, V: Pod> std::fmt::Debug for Chunk<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chunk")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}
