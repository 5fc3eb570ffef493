//! Saving maps with wide keys of several devices to one file, and loading them.

use std::io::{Read, Write};
use std::path::Path;

use bytemuck::Pod;

use super::super::Ranks;
use super::ShardedWideMap;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::file::{Header, Kinds};
use crate::map::{Chunk, Value};
use crate::persist::{self, Stored};
#[cfg(doc)]
use crate::wide::WideMap;

/// # Save and load
impl<K: Pod + Send + Sync, V: Value> ShardedWideMap<K, V> {
    /// Saves the pairs of all ranks to one file, and returns how many; see [`WideMap::save`]. A [`WideMap`] and a group of any size load
    /// it. Calls that change the map wait meanwhile.
    ///
    /// ```
    /// use gpumap::sharded::{Ranks, devices};
    /// use gpumap::{Device, ShardedWideMap, WideMap};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("ids.gpumap");
    /// let ranks = Ranks::new(&devices("cpu,cpu")?)?;
    /// let ids = ShardedWideMap::<u128, u32>::new(&ranks)?;
    /// ids.insert(&[1 << 90, 2], &[10, 20])?;
    /// assert_eq!(ids.save(&path)?, 2);
    ///
    /// let back = ShardedWideMap::<u128, u32>::load(&ranks, &path)?;
    /// assert_eq!(back.get(&[1 << 90, 3])?, [Some(10), None]);
    /// assert_eq!(WideMap::<u128, u32>::load(&Device::cpu(), &path)?.len(), 2);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`WideMap::save`], of any rank. An earlier file is as it was.
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

    /// Makes a map over a group of the pairs in a file, which any kind of map with one pair per key may have saved; see
    /// [`WideMap::load`].
    ///
    /// # Errors
    /// As for [`WideMap::load`]; [`Error::Group`].
    pub fn load(ranks: &Ranks, path: impl AsRef<Path>) -> Result<Self> {
        let kinds = Kinds::of_wide::<K, V>();
        persist::load_pairs(path.as_ref(), kinds, |pairs| {
            Self::with_capacity(ranks, pairs)
        })
    }

    /// As [`load`](Self::load), from anything that gives bytes, in small and large reads.
    ///
    /// # Errors
    /// As for [`load`](Self::load).
    pub fn load_from(ranks: &Ranks, reader: impl Read) -> Result<Self> {
        let kinds = Kinds::of_wide::<K, V>();
        persist::load_from(reader, kinds, |pairs| Self::with_capacity(ranks, pairs))
    }
}

impl<K: Pod + Send + Sync, V: Value> Stored<K, V> for ShardedWideMap<K, V> {
    const HOLDS_LOCK: bool = true;

    fn header(&self) -> Header {
        Header::of_kinds::<K, V>(Kinds::of_wide::<K, V>(), self.len() as u64)
    }

    fn give_chunks(
        &self,
        pairs: usize,
        give: &mut dyn FnMut(&Chunk<K, V>) -> Result<()>,
    ) -> Result<()> {
        self.give_all_chunks(pairs, give)
    }

    fn pairs(&self) -> usize {
        self.len()
    }
}
