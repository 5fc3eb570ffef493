//! Chunks of pairs on the host, saving to a file, and loading.

use std::io::{Read, Write};
use std::iter::FusedIterator;
use std::path::Path;

use bytemuck::Pod;

use super::super::{Chunk, Growth, Key, Map};
use super::{ArenaMap, ArenaMapBuilder};
use crate::device::Device;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::file::{Header, Kinds};
#[cfg(doc)]
use crate::map::MapBuilder;
use crate::memory::{host_collect, host_zeroed, retain_at};
use crate::persist::{self, Stored};

/// # Dump in chunks
impl<K: Key, V: Pod + Send + Sync> ArenaMap<K, V> {
    /// Streams all pairs to the host, about `pairs` of them per item, as [`Map::chunks`] does, and with the same contract
    /// while the map changes: a pair that is there from the first call to the last is reported exactly once.
    ///
    /// ```
    /// use gpumap::{ArenaMap, Device};
    /// let map = ArenaMap::<u32, [u32; 3]>::new(&Device::cpu())?;
    /// map.insert(&[1, 2], &[[10; 3], [20; 3]])?;
    /// let mut seen = 0;
    /// for chunk in map.chunks(4_096) {
    ///     let chunk = chunk?;
    ///     assert!(chunk.iter().all(|(key, value)| value == [10 * key; 3]));
    ///     seen += chunk.len();
    /// }
    /// assert_eq!(seen, 2);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Map::chunks`]; nothing comes after an error.
    pub fn chunks(&self, pairs: usize) -> impl FusedIterator<Item = Result<Chunk<K, V>>> {
        let mut ids = self.ids.chunks(pairs);
        persist::until_error(move || {
            while let Some(chunk) = ids.next().transpose()? {
                let chunk = self.present(chunk.keys())?;
                if !chunk.is_empty() {
                    return Ok(Some(chunk));
                }
            }
            Ok(None)
        })
    }

    /// Hands all pairs to `take` in chunks of about `pairs`, until that fails; see [`Map::for_each_chunk`].
    ///
    /// ```
    /// use gpumap::{ArenaMap, Device};
    /// let map = ArenaMap::<u32, [u32; 3]>::new(&Device::cpu())?;
    /// map.insert(&[1, 2], &[[10; 3], [20; 3]])?;
    /// let mut sum = 0;
    /// map.for_each_chunk(4_096, |chunk| {
    ///     sum += chunk.iter().map(|(key, value)| key + value[0]).sum::<u32>();
    ///     Ok(())
    /// })?;
    /// assert_eq!(sum, 33);
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
        self.chunks(pairs).try_for_each(|chunk| take(&chunk?))
    }

    /// The pairs of those keys that are present now. An id that was dumped is of no use: a call that changes the map may
    /// have put another key's value into its cell.
    fn present(&self, keys: &[K]) -> Result<Chunk<K, V>> {
        let mut values: Vec<V> = host_zeroed(keys.len())?;
        let mut found = host_zeroed(keys.len())?;
        self.get_into(keys, &mut values, &mut found)?;
        let mut keys = host_collect(keys.iter().copied())?;
        if found.contains(&0) {
            let kept = |at: usize| found[at] != 0;
            retain_at(&mut keys, kept);
            retain_at(&mut values, kept);
        }
        Ok(Chunk::of((keys, values)))
    }
}

/// # Save and load
impl<K: Key, V: Pod + Send + Sync> ArenaMap<K, V> {
    /// Saves all pairs to a file, and returns how many; see [`Map::save`]. The bytes of values are saved as they are
    /// in memory: [`load`](Self::load) takes them on a machine of the same byte order, into a type of the same size
    /// and [kind](crate::file::Kind).
    ///
    /// ```
    /// use gpumap::{ArenaMap, Device};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("names.gpumap");
    /// let names = ArenaMap::<u32, [u8; 5]>::new(&Device::cpu())?;
    /// names.insert(&[1, 2], &[*b"one  ", *b"two  "])?;
    /// assert_eq!(names.save(&path)?, 2);
    ///
    /// let back = ArenaMap::<u32, [u8; 5]>::load(&Device::cpu(), &path)?;
    /// assert_eq!(back.get(&[2, 3])?, [Some(*b"two  "), None]);
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

    /// Makes a map of the pairs and the settings in a file; see [`Map::load`]. The file may also be one that a [`Map`]
    /// saved, with values of the same size and kind.
    ///
    /// # Errors
    /// As for [`Map::load`].
    pub fn load(device: &Device, path: impl AsRef<Path>) -> Result<Self> {
        persist::load(
            path.as_ref(),
            Kinds::of_arena::<K, V>(),
            |header, pairs| {
                let ids = Map::builder(device).settings_of(header);
                ArenaMapBuilder::of(ids).growing(pairs)
            },
            |header, map| {
                map.growth = header.growth;
                Map::restore(header, &mut map.ids)?;
                match header.growth {
                    // As many cells.
                    Growth::Fixed => map.reserve(map.ids.capacity().saturating_sub(map.len())),
                    Growth::By(_) => Ok(()),
                }
            },
        )
    }
}

impl<K: Key, V: Pod + Send + Sync> ArenaMapBuilder<K, V> {
    /// Makes the map with the pairs of a file, as [`MapBuilder::load`] does. The settings are the builder's.
    ///
    /// # Errors
    /// As for [`MapBuilder::load`].
    pub fn load(self, path: impl AsRef<Path>) -> Result<ArenaMap<K, V>> {
        let growth = self.ids.growth;
        let kinds = Kinds::of_arena::<K, V>();
        let map = persist::load_pairs(path.as_ref(), kinds, |pairs| self.growing(pairs));
        map.map(|map| map.with_growth(growth))
    }

    /// As [`load`](Self::load), from anything that gives bytes; see [`MapBuilder::load_from`].
    ///
    /// # Errors
    /// As for [`load`](Self::load).
    pub fn load_from(self, reader: impl Read) -> Result<ArenaMap<K, V>> {
        let growth = self.ids.growth;
        let kinds = Kinds::of_arena::<K, V>();
        let map = persist::load_from(reader, kinds, |pairs| self.growing(pairs));
        map.map(|map| map.with_growth(growth))
    }

    /// See [`MapBuilder::growing`].
    fn growing(self, pairs: usize) -> Result<ArenaMap<K, V>> {
        ArenaMap::of(self.ids.growing(pairs)?, Growth::default())
    }
}

impl<K: Key, V: Pod + Send + Sync> ArenaMap<K, V> {
    fn with_growth(mut self, growth: Growth) -> Self {
        self.growth = growth;
        self.ids = self.ids.with_growth(growth);
        self
    }
}

impl<K: Key, V: Pod + Send + Sync> Stored<K, V> for ArenaMap<K, V> {
    fn header(&self) -> Header {
        let kinds = Kinds::of_arena::<K, V>();
        let header = Header::of_kinds::<K, V>(kinds, self.len() as u64);
        let header = self.ids.settings_in(header);
        let capacity = self.capacity() as u64;
        Header { capacity, ..header }
    }

    fn give_chunks(
        &self,
        pairs: usize,
        give: &mut dyn FnMut(&Chunk<K, V>) -> Result<()>,
    ) -> Result<()> {
        self.chunks(pairs).try_for_each(|chunk| give(&chunk?))
    }

    fn pairs(&self) -> usize {
        self.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::file::{FileError, Writer};

    type Value = [u64; 32];

    /// A file with this header and no pairs.
    fn file_of(header: &Header) -> Vec<u8> {
        let writer = Writer::<u32, Value, _>::new(Vec::new(), header).unwrap();
        writer.finish().unwrap()
    }

    /// Values of 256 bytes: 65,536 pairs would be 17 MB, and 16 slots for each of them 215 MB of cells.
    #[test]
    fn a_file_without_pairs_takes_no_memory_for_large_values() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map");
        let mut header = Header::of_bytes::<u32, Value>(1 << 50);
        header.growth = Growth::Fixed;
        let device = Device::cpu().with_memory_budget(20 << 20);
        let most = 16 * ((1 << 20) / 260);
        for (capacity, max_load_factor, is_made) in [
            (838_860, 0.8, false),
            (most + 1, 1.0, false),
            (1, 0.06, false),
            (most * 4 / 5, 0.8, true),
        ] {
            header.capacity = capacity;
            header.max_load_factor = max_load_factor;
            let bytes = file_of(&header);
            assert_eq!(bytes.len(), 84);
            std::fs::write(&path, bytes).unwrap();
            match ArenaMap::<u32, Value>::load(&device, &path) {
                Ok(map) => assert!(is_made && map.capacity() as u64 >= capacity),
                Err(Error::File {
                    cause:
                        FileError::Slots {
                            pairs: 0, most: of, ..
                        },
                    ..
                }) => assert!(!is_made && of == most),
                failed => panic!("{capacity}, {max_load_factor}: {failed:?}"),
            }
        }
        let device = Device::cpu().with_memory_budget(4 << 20);
        let builder = ArenaMap::<u32, Value>::builder(&device);
        assert!(builder.load_from(&file_of(&header)[..]).unwrap().is_empty());
    }
}
