//! Chunks of pairs on the host, saving to a file, and loading.

use std::io::{Read, Write};
use std::iter::FusedIterator;
use std::path::Path;

use bytemuck::Pod;
use gpumap_kernels::chained::allocator::UNITS;

use super::chains::Chains;
use super::retrieve::Part;
use super::{Core, MultiMap, MultiMapBuilder, Word, WordKey};
use crate::device::Device;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::file::{Header, Kinds};
use crate::map::{Chunk, HeldPairs};
#[cfg(doc)]
use crate::map::{Map, MapBuilder};
use crate::persist::{self, Stored};
use crate::primitives::Order;
use crate::scratch::Scratch;

/// All pairs of a map in parts, of some blocks of the dump each. No pair may move from the first part to the last.
struct Parts<'m> {
    core: &'m Core,
    scratch: Scratch<'m>,
    /// The block after the last one dumped, and how many there are.
    next: u64,
    blocks: u64,
    /// Blocks of a part.
    step: u64,
    /// Pairs that there are in a part, except keys whose bits mean a state: these have a block for all their pairs.
    room: usize,
}

impl<'m> Parts<'m> {
    /// In parts of about so many pairs.
    fn new(core: &'m Core, chains: &Chains, pairs: usize) -> Result<Self> {
        let scratch = core.scratch.take()?;
        let blocks = chains.blocks();
        let of_block = UNITS as usize * core.slab_slots();
        let step = ((pairs / of_block) as u64).clamp(1, blocks);
        Ok(Self {
            core,
            scratch,
            next: 0,
            blocks,
            step,
            room: step as usize * of_block,
        })
    }

    /// The next part that has pairs.
    fn next<K: Pod, V: Pod>(&mut self, chains: &Chains) -> Result<Option<Chunk<K, V>>> {
        while self.next < self.blocks {
            let blocks = self.next..self.blocks.min(self.next + self.step);
            self.next = blocks.end;
            let part: &dyn HeldPairs = &Part {
                core: self.core,
                chains,
                blocks,
            };
            let room = self.room.min(part.most());
            let pairs = part.collect(room, Order::Any, &mut self.scratch)?;
            if !pairs.0.is_empty() {
                return Ok(Some(Chunk::of(pairs)));
            }
        }
        Ok(None)
    }
}

/// # Dump in chunks
impl<K: WordKey, V: Word<Bits = K::Bits>> MultiMap<K, V> {
    /// Streams all pairs to the host, about `pairs` of them per item: none is empty, and they come in no order. A block of the
    /// pool is dumped as a whole, so an item may have up to 15,360 pairs if fewer are asked for, and the three keys of
    /// the highest bits come with all their pairs.
    ///
    /// Takes the map for itself: it must not compact or grow between two items.
    ///
    /// ```
    /// use gpumap::{Device, MultiMap};
    /// let mut map = MultiMap::<u32, u32>::with_capacity(&Device::cpu(), 100)?;
    /// map.append(&[1, 2, 2], &[10, 20, 20])?;
    /// let mut seen = 0;
    /// for chunk in map.chunks(4_096) {
    ///     let chunk = chunk?;
    ///     assert!(chunk.iter().all(|(key, value)| value == 10 * key));
    ///     seen += chunk.len();
    /// }
    /// assert_eq!(seen, 3);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// From `next`: [`Error::OutOfMemory`], [`Error::Poisoned`], [`Error::Driver`]; nothing comes after an error.
    pub fn chunks(&mut self, pairs: usize) -> impl FusedIterator<Item = Result<Chunk<K, V>>> {
        let core = &self.core;
        let mut parts = None;
        // The lock is not held between two items: an iterator that is forgotten would keep it.
        persist::until_error(move || {
            let chains = core.shared()?;
            let parts = match &mut parts {
                Some(parts) => parts,
                none => none.insert(Parts::new(core, &chains, pairs)?),
            };
            parts.next(&chains)
        })
    }

    /// Hands all pairs to `take`, until that fails, in the chunks of [`chunks`](Self::chunks).
    ///
    /// ```
    /// use gpumap::{Device, MultiMap};
    /// let mut map = MultiMap::<u32, u32>::with_capacity(&Device::cpu(), 100)?;
    /// map.append(&[1, 2, 2], &[10, 20, 21])?;
    /// let mut sum = 0;
    /// map.for_each_chunk(4_096, |chunk| {
    ///     sum += chunk.iter().map(|(key, value)| key + value).sum::<u32>();
    ///     Ok(())
    /// })?;
    /// assert_eq!(sum, 56);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`chunks`](Self::chunks), and those of `take`.
    pub fn for_each_chunk(
        &mut self,
        pairs: usize,
        mut take: impl FnMut(&Chunk<K, V>) -> Result<()>,
    ) -> Result<()> {
        self.chunks(pairs).try_for_each(|chunk| take(&chunk?))
    }
}

/// # Save and load
impl<K: WordKey, V: Word<Bits = K::Bits>> MultiMap<K, V> {
    /// Saves all pairs to a file, and returns how many; see [`Map::save`]. Beside calls that change the map it has what a
    /// dump has; those that compact or grow it wait, since no pair may move meanwhile. Hence the calling thread alone writes
    /// the file: the threads of rayon's pool may be in such calls.
    ///
    /// ```
    /// use gpumap::{Device, MultiMap};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("pairs.gpumap");
    /// let map = MultiMap::<u32, u32>::with_capacity(&Device::cpu(), 100)?;
    /// map.append(&[1, 2, 2], &[10, 20, 21])?;
    /// assert_eq!(map.save(&path)?, 3);
    ///
    /// let back = MultiMap::<u32, u32>::load(&Device::cpu(), &path)?;
    /// assert_eq!(back.count(&[1, 2, 3])?, [1, 2, 0]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Map::save`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<u64> {
        persist::save(self, path.as_ref())
    }

    /// As [`save`](Self::save), to anything that takes bytes; see [`Map::save_to`].
    ///
    /// # Errors
    /// As for [`Map::save_to`].
    pub fn save_to(&self, writer: impl Write) -> Result<u64> {
        persist::save_to(self, writer)
    }

    /// Makes a map of the pairs in a file, which a map of another kind may have saved; see [`Map::load`]. Those of a
    /// `MultiMap` are all [appended](Self::append): of several pairs with one key, another one may be the first. Of other
    /// maps one pair of each key is stored. The buckets and the pool are
    /// those of a map that was made for as many pairs; [`MultiMapBuilder::load`] takes other settings.
    ///
    /// # Errors
    /// As for [`Map::load`].
    pub fn load(device: &Device, path: impl AsRef<Path>) -> Result<Self> {
        Self::builder(device).load(path)
    }
}

impl<K: WordKey, V: Word<Bits = K::Bits>> MultiMapBuilder<K, V> {
    /// Makes the map with the pairs of a file, as [`MapBuilder::load`] does. The settings are the builder's; the
    /// capacity is enough for the pairs at least, unless the [pool](Self::pool_slabs) is fixed.
    ///
    /// # Errors
    /// As for [`MapBuilder::load`]; [`Error::Full`] if the pairs do not fit in a fixed pool.
    pub fn load(self, path: impl AsRef<Path>) -> Result<MultiMap<K, V>> {
        let kinds = Kinds::of::<K, V>();
        persist::load_pairs(path.as_ref(), kinds, |pairs| self.for_pairs(pairs))
    }

    /// As [`load`](Self::load), from anything that gives bytes; see [`MapBuilder::load_from`].
    ///
    /// # Errors
    /// As for [`load`](Self::load).
    pub fn load_from(self, reader: impl Read) -> Result<MultiMap<K, V>> {
        let kinds = Kinds::of::<K, V>();
        persist::load_from(reader, kinds, |pairs| self.for_pairs(pairs))
    }
}

impl<K: WordKey, V: Word<Bits = K::Bits>> Stored<K, V> for MultiMap<K, V> {
    const IS_MULTIMAP: bool = true;
    // No pair may move between two parts.
    const HOLDS_LOCK: bool = true;

    fn header(&self) -> Header {
        let mut header = Header::new::<K, V>(self.len() as u64);
        header.is_multimap = true;
        header.capacity = self.core.pool_capacity() as u64;
        header
    }

    fn give_chunks(
        &self,
        pairs: usize,
        give: &mut dyn FnMut(&Chunk<K, V>) -> Result<()>,
    ) -> Result<()> {
        let chains = self.core.shared_in_turn()?;
        let mut parts = Parts::new(&self.core, &chains, pairs)?;
        while let Some(chunk) = parts.next(&chains)? {
            let _callback = chains.callback();
            give(&chunk)?;
        }
        Ok(())
    }

    fn store_block(&self, keys: &[K], values: &[V], is_multimap: bool) -> Result<()> {
        match is_multimap {
            true => self.append(keys, values),
            // A key that was removed and stored again while its map was saved may come twice.
            false => self.insert(keys, values).map(drop),
        }
    }

    fn pairs(&self) -> usize {
        self.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgotten_chunks_do_not_hold_the_map() {
        let mut map = MultiMap::<u32, u32>::with_capacity(&Device::cpu(), 100).unwrap();
        map.append(&[1, 2, 2], &[1, 2, 2]).unwrap();
        let mut chunks = map.chunks(1);
        assert!(chunks.next().unwrap().is_ok());
        std::mem::forget(chunks);
        assert!(map.core.chains.try_write().is_some());
    }

    /// As if a key had more pairs than there is room for in a part.
    #[test]
    fn a_part_with_more_pairs_than_room_is_whole() {
        let map = MultiMap::<u32, u32>::with_capacity(&Device::cpu(), 2_000).unwrap();
        let keys: Vec<u32> = (0..2_000).chain([u32::MAX; 50]).collect();
        map.append(&keys, &keys).unwrap();
        let chains = map.core.shared().unwrap();
        let mut parts = Parts::new(&map.core, &chains, 1).unwrap();
        parts.room = 1;
        let mut seen = Vec::new();
        while let Some(chunk) = parts.next::<u32, u32>(&chains).unwrap() {
            assert!(chunk.iter().all(|(key, value)| key == value));
            seen.extend_from_slice(chunk.keys());
        }
        seen.sort_unstable();
        assert_eq!(seen, keys);
    }
}
