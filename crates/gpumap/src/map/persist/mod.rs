//! Saving a map to a file, and loading it.

use std::io::{Read, Write};
use std::path::Path;

use super::{Chunk, Growth, Held, Key, Layout, Map, MapBuilder, Place, Value};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::file::Header;
#[cfg(doc)]
use crate::file::{AtomicFile, FileError, Kind};
use crate::persist::{self, Stored};

#[cfg(test)]
mod tests;

/// # Save and load
impl<K: Key, V: Value, P: Place> Map<K, V, P> {
    /// Saves all pairs to a file, and returns how many. [`load`](Self::load) reads it, on any
    /// device; the guide describes the format.
    ///
    /// The file is written under another name in the same folder and takes the place of an earlier one when
    /// it is complete and on the disk: if the process or the machine stops before, the earlier one is there
    /// ([`AtomicFile`]). The pairs are streamed as by [`chunks`](Self::chunks), whose contract this has
    /// beside calls that change the map; of a map that no call changes meanwhile the file has exactly its
    /// pairs. The settings of the map are saved, apart from the hash seed. The threads of rayon's pool make
    /// the checksums and write.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("squares.gpumap");
    /// let map: Map<u32, u64> = Map::from_pairs(&Device::cpu(), (0..1_000).map(|i| (i, 3)))?;
    /// assert_eq!(map.save(&path)?, 1_000);
    ///
    /// let back = Map::<u32, u64>::load(&Device::cpu(), &path)?;
    /// assert_eq!((back.len(), back.get(&[999])?), (1_000, vec![Some(3)]));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::File`], and those of [`chunks`](Self::chunks). An earlier file is as it was.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<u64> {
        persist::save(self, path.as_ref())
    }

    /// As [`save`](Self::save), to anything that takes bytes. Nothing is buffered, and nothing
    /// synchronised with a disk.
    ///
    /// # Errors
    /// [`Error::File`], and those of [`chunks`](Self::chunks).
    pub fn save_to(&self, writer: impl Write) -> Result<u64> {
        persist::save_to(self, writer)
    }

    /// Makes a map of the pairs and the settings in a file that [`save`](Self::save) wrote, with
    /// a hash seed of its own. [`MapBuilder::load`] takes other settings.
    ///
    /// The types must have the sizes of those that were saved, and be of the same [kind](Kind): a file of `i64` does not load as
    /// `u64`. Types of your own, and arrays of `u8`, are bytes, which fit any kind of that size. Files of version 6 and earlier do not
    /// say the kind of the keys: they load with a warning of [`tracing`]. A file that is altered, cut off,
    /// or of a newer version is an error, and there is no map.
    ///
    /// The length of the file bounds the memory, whatever the header says. The table has room for the
    /// pairs of the file. On a device only a map of a [fixed](Growth::Fixed) capacity gets the capacity in the header,
    /// once all of the file has been read and found right. A header that asks for more than 16 slots for each
    /// pair in the file, and for more than 16 for each of the pairs of 1 MiB, by its capacity or by a load factor below 1/16, is
    /// refused with [`FileError::Slots`]. A pair counts for 16 bytes at least: the pairs of 1 MiB are 65,536, or
    /// fewer of large values. So a large fixed
    /// map that was saved nearly empty is loaded by [`MapBuilder::load`], with the settings of the builder.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::OutOfMemory`], [`Error::Driver`]; [`Error::Setting`] for a file
    /// that was made up.
    pub fn load(place: &P, path: impl AsRef<Path>) -> Result<Self> {
        Self::builder(place).load_saved(path)
    }
}

impl<K: Key, V: Value, P: Place> Stored<K, V> for Map<K, V, P> {
    const HOLDS_LOCK: bool = matches!(Layout::of::<K, V>(), Layout::Rows);

    const KEEPS_GROWTH: bool = P::Map::<K, V>::KEEPS_GROWTH;

    fn header(&self) -> Header {
        self.held.header()
    }

    fn give_chunks(
        &self,
        pairs: usize,
        give: &mut dyn FnMut(&Chunk<K, V>) -> Result<()>,
    ) -> Result<()> {
        self.held.give_chunks(pairs, give)
    }

    fn pairs(&self) -> usize {
        self.len()
    }
}

impl<K: Key, V: Value, P: Place> MapBuilder<K, V, P> {
    /// Makes the map with the pairs of a file that [`Map::save`] wrote. The settings are the
    /// builder's; the capacity is enough for the pairs at least.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("map.gpumap");
    /// # Map::<u32, f32>::from_pairs(&Device::cpu(), [(1, 0.5)])?.save(&path)?;
    /// let map: Map<u32, f32> = Map::builder(&Device::cpu())
    ///     .capacity(1_000) // room for more
    ///     .max_load_factor(0.5)
    ///     .load(&path)?;
    /// # assert!(map.capacity() >= 1_000 && map.len() == 1);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Map::load`] and of [`build`](Self::build).
    pub fn load(self, path: impl AsRef<Path>) -> Result<Map<K, V, P>> {
        let (growth, capacity, kinds) = (self.growth, self.wish.capacity, self.kinds);
        let map = persist::load_pairs(path.as_ref(), kinds, |pairs| self.growing(pairs));
        map.map(|map| map.with_growth(growth, capacity))
    }

    /// As [`load`](Self::load), with the settings of the map that was saved instead of the builder's, as [`Map::load`] has them.
    ///
    /// # Errors
    /// Those of [`Map::load`].
    pub fn load_saved(self, path: impl AsRef<Path>) -> Result<Map<K, V, P>> {
        if matches!(Layout::of::<K, V>(), Layout::Rows) {
            return self.load(path);
        }
        persist::load(
            path.as_ref(),
            self.kinds,
            |header, pairs| self.settings_of(header).growing(pairs),
            |header, map: &mut Map<K, V, P>| {
                let capacity = usize::try_from(persist::fixed_capacity(header));
                let capacity = capacity.unwrap_or(usize::MAX);
                map.held.set_growth(Some(header.growth), capacity);
                match capacity > map.capacity() {
                    true => map.reserve(capacity.saturating_sub(map.len())),
                    false => Ok(()),
                }
            },
        )
    }

    /// As [`load`](Self::load), from anything that gives bytes. Room for more pairs than 1 MiB
    /// of them (65,536, or fewer of large values) is made as they come, unless the [`capacity`](Self::capacity) says how many there are.
    ///
    /// # Errors
    /// As for [`load`](Self::load).
    pub fn load_from(self, reader: impl Read) -> Result<Map<K, V, P>> {
        let (growth, capacity, kinds) = (self.growth, self.wish.capacity, self.kinds);
        let map = persist::load_from(reader, kinds, |pairs| self.growing(pairs));
        map.map(|map| map.with_growth(growth, capacity))
    }

    /// With the settings of a map that was saved.
    pub(crate) fn settings_of(mut self, header: &Header) -> Self {
        self.wish.max_load_factor = header.max_load_factor;
        self.wish.submaps = header.submaps;
        self.growth = Some(header.growth);
        self
    }

    /// An empty map for so many pairs at least, which grows whatever is set: the header of a file may be wrong.
    pub(super) fn growing(mut self, pairs: usize) -> Result<Map<K, V, P>> {
        self.wish.capacity = self.wish.capacity.max(pairs);
        self.check()?;
        if Map::<K, V, P>::KEEPS_GROWTH {
            self.growth = None;
        }
        self.build()
    }
}

impl<K: Key, V: Value, P: Place> Map<K, V, P> {
    fn with_growth(mut self, growth: Option<Growth>, capacity: usize) -> Self {
        self.held.set_growth(growth, capacity);
        self
    }
}
