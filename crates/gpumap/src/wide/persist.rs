//! Saving maps with wide keys, and loading them: files of pairs, as all maps have them.

use std::io::{Read, Write};
use std::path::Path;

use bytemuck::Pod;

use super::{WideMap, WideMapBuilder};
use crate::device::Device;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::file::{Header, Kinds};
use crate::map::{Chunk, Growth, Value};
use crate::persist::{self, Stored};
use crate::rows::Growing;

/// # Save and load
impl<K: Pod + Send + Sync, V: Value> WideMap<K, V> {
    /// Saves all pairs to a file, and returns how many; see [`Map::save`](crate::Map::save). Calls that change the map wait
    /// meanwhile.
    ///
    /// ```
    /// use gpumap::{Device, WideMap};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("ids.gpumap");
    /// let ids = WideMap::<u128, u32>::new(&Device::cpu())?;
    /// ids.insert(&[1 << 90, 2], &[10, 20])?;
    /// assert_eq!(ids.save(&path)?, 2);
    ///
    /// let back = WideMap::<u128, u32>::load(&Device::cpu(), &path)?;
    /// assert_eq!(back.get(&[1 << 90, 3])?, [Some(10), None]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::File`], and those of [`retrieve_all`](Self::retrieve_all). An earlier file is as it was.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<u64> {
        persist::save(self, path.as_ref())
    }

    /// As [`save`](Self::save), to anything that takes bytes. Nothing is buffered, and nothing synchronised with a disk.
    ///
    /// # Errors
    /// As for [`save`](Self::save).
    pub fn save_to(&self, writer: impl Write) -> Result<u64> {
        persist::save_to(self, writer)
    }

    /// Makes a map of the pairs in a file, with a hash seed of its own. Keys and values must have the sizes and
    /// [kinds](crate::file::Kind) of those that were saved; the file may also be one that a [`Map`](crate::Map) saved.
    ///
    /// # Errors
    /// [`Error::File`] if the file is altered, cut off, of a newer version or of another kind of map; [`Error::OutOfMemory`],
    /// [`Error::Driver`].
    pub fn load(device: &Device, path: impl AsRef<Path>) -> Result<Self> {
        Self::builder(device).load(path)
    }
}

impl<K: Pod + Send + Sync, V: Value> WideMapBuilder<K, V> {
    /// Makes the map with the pairs of a file that [`WideMap::save`] wrote.
    ///
    /// # Errors
    /// As for [`WideMap::load`].
    pub fn load(self, path: impl AsRef<Path>) -> Result<WideMap<K, V>> {
        let kinds = self.kinds();
        self.filled(|make| persist::load_pairs(path.as_ref(), kinds, make))
    }

    /// As [`load`](Self::load), from anything that gives bytes, in small and large reads.
    ///
    /// # Errors
    /// As for [`WideMap::load`].
    pub fn load_from(self, reader: impl Read) -> Result<WideMap<K, V>> {
        let kinds = self.kinds();
        self.filled(|make| persist::load_from(reader, kinds, make))
    }

    fn kinds(&self) -> Kinds {
        Kinds {
            key: self.key_kind,
            ..Kinds::of_wide::<K, V>()
        }
    }

    /// A map that `fill` makes, with room for as many pairs as that says, and fills. Then, if the capacity is fixed, it is what was
    /// asked for, or as much as the pairs need.
    fn filled(
        mut self,
        fill: impl FnOnce(&dyn Fn(usize) -> Result<WideMap<K, V>>) -> Result<WideMap<K, V>>,
    ) -> Result<WideMap<K, V>> {
        let (capacity, growth) = (self.capacity, self.growth.take());
        growth.map_or(Ok(()), Growth::check)?;
        let mut map = fill(&|pairs| self.clone().capacity(capacity.max(pairs)).build())?;
        let growing = Growing::of(growth, capacity.max(map.len()));
        map.core = map.core.growing(growing);
        Ok(map)
    }
}

impl<K: Pod + Send + Sync, V: Value> Stored<K, V> for WideMap<K, V> {
    const HOLDS_LOCK: bool = true;

    fn header(&self) -> Header {
        let kinds = Kinds {
            key: self.key_kind,
            ..Kinds::of_wide::<K, V>()
        };
        Header::of_kinds::<K, V>(kinds, self.len() as u64)
    }

    fn give_chunks(
        &self,
        pairs: usize,
        give: &mut dyn FnMut(&Chunk<K, V>) -> Result<()>,
    ) -> Result<()> {
        self.core.give_chunks(pairs, give)
    }

    fn pairs(&self) -> usize {
        self.len()
    }
}
