//! Chunks of pairs on the host, saving to a file, and loading.

use std::io::{Read, Write};
use std::path::Path;

use super::super::Ranks;
use super::{Seat, ShardedMap};
use crate::error::Result;
use crate::file::{Header, Kinds};
use crate::map::{Chunk, Key, Layout, Map, MapBuilder, Value};
use crate::persist::{self, Stored};

/// # Dump in chunks
impl<K: Key, V: Value> ShardedMap<K, V> {
    /// Streams all pairs to the host, rank by rank: about `pairs` of them at a time are given to `give`, until that fails.
    /// What [`Map::chunks`] says of a map that changes meanwhile holds for the pairs of each rank from its first chunk to
    /// its last.
    ///
    /// ```
    /// use gpumap::ShardedMap;
    /// use gpumap::sharded::{Ranks, devices};
    ///
    /// let map = ShardedMap::<u32, u32>::new(&Ranks::new(&devices("cpu,cpu")?)?)?;
    /// map.insert(&[1, 2, 3], &[10, 20, 30])?;
    /// let mut seen = 0;
    /// map.for_each_chunk(4_096, |chunk| {
    ///     assert!(chunk.iter().all(|(key, value)| value == 10 * key));
    ///     seen += chunk.len();
    ///     Ok(())
    /// })?;
    /// assert_eq!(seen, 3);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Map::chunks`], of any rank; those of `give`.
    pub fn for_each_chunk(
        &self,
        pairs: usize,
        mut give: impl FnMut(&Chunk<K, V>) -> Result<()>,
    ) -> Result<()> {
        self.give_chunks(pairs, &mut give)
    }
}

/// # Save and load
impl<K: Key, V: Value> ShardedMap<K, V> {
    /// Saves the pairs of all ranks to one file, and returns how many; see [`Map::save`]. A [`Map`] and a group of any size
    /// load it.
    ///
    /// ```
    /// use gpumap::sharded::{Ranks, devices};
    /// use gpumap::{Device, Map, ShardedMap};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("map.gpumap");
    /// let ranks = Ranks::new(&devices("cpu,cpu")?)?;
    /// let map = ShardedMap::<u32, u32>::new(&ranks)?;
    /// map.insert(&[1, 2, 3], &[10, 20, 30])?;
    /// assert_eq!(map.save(&path)?, 3);
    ///
    /// let back = ShardedMap::<u32, u32>::load(&ranks, &path)?;
    /// assert_eq!(back.get(&[3, 4])?, [Some(30), None]);
    /// assert_eq!(Map::<u32, u32>::load(&Device::cpu(), &path)?.len(), 3);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Map::save`], of any rank.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<u64> {
        persist::save(self, path.as_ref())
    }

    /// As [`save`](Self::save), to anything that takes bytes; see [`Map::save_to`].
    ///
    /// # Errors
    /// As for [`Map::save_to`], of any rank.
    pub fn save_to(&self, writer: impl Write) -> Result<u64> {
        persist::save_to(self, writer)
    }

    /// Makes a map over a group of the pairs in a file, which any kind of map with one pair per key may have saved; see
    /// [`Map::load`]. The load factor and the submaps are those of the file. The map grows by the usual factor, also if the one
    /// that was saved had a fixed capacity: other ranks have other shares.
    ///
    /// # Errors
    /// As for [`Map::load`]; as for [`with`](Self::with).
    pub fn load(ranks: &Ranks, path: impl AsRef<Path>) -> Result<Self> {
        Self::load_with(ranks, path, |builder, _| builder)
    }

    /// As [`load`](Self::load), with settings beside those of the file; see [`with`](Self::with).
    ///
    /// # Errors
    /// As for [`load`](Self::load), [`with`](Self::with).
    pub fn load_with(
        ranks: &Ranks,
        path: impl AsRef<Path>,
        configure: impl Fn(MapBuilder<K, V>, &dyn Fn(usize) -> usize) -> MapBuilder<K, V> + Sync,
    ) -> Result<Self> {
        let path = path.as_ref();
        // The file is checked by them before the map is made.
        let kinds = configure(Map::builder(&ranks.devices()[0]), &|pairs| pairs).kinds;
        let make = |header: Option<&Header>, pairs| {
            Self::with(ranks, None, |mut builder, share| {
                if let Some(header) = header {
                    builder = builder.settings_of(header);
                }
                configure(builder.capacity(share(pairs)), share)
            })
        };
        if Self::HOLDS_LOCK {
            return persist::load_pairs(path, kinds, |pairs| make(None, pairs));
        }
        let make = |header: &Header, pairs| make(Some(header), pairs);
        persist::load(path, kinds, make, |_, _| Ok(()))
    }

    /// As [`load`](Self::load), from anything that gives bytes, with the usual settings; see [`MapBuilder::load_from`].
    ///
    /// # Errors
    /// As for [`load`](Self::load).
    pub fn load_from(ranks: &Ranks, reader: impl Read) -> Result<Self> {
        let kinds = Kinds::of::<K, V>();
        persist::load_from(reader, kinds, |pairs| Self::with_capacity(ranks, pairs))
    }
}

impl<K: Key, V: Value> Stored<K, V> for ShardedMap<K, V> {
    const HOLDS_LOCK: bool = matches!(Map::<K, V>::LAYOUT, Layout::Rows);

    // Other ranks have other shares. And they grow while they are loaded: by a factor of a file that may be made up.
    const KEEPS_GROWTH: bool = false;

    fn header(&self) -> Header {
        let pairs = self.len() as u64;
        // The ranks were given the same settings.
        let Some(map) = self.seats.iter().next().map(Seat::map) else {
            return Header::new::<K, V>(pairs);
        };
        let header = Header::of_kinds::<K, V>(map.kinds, pairs);
        if Self::HOLDS_LOCK {
            return header;
        }
        let header = map.storage().settings_in(header);
        let capacity = self.capacity() as u64;
        Header { capacity, ..header }
    }

    fn give_chunks(
        &self,
        pairs: usize,
        give: &mut dyn FnMut(&Chunk<K, V>) -> Result<()>,
    ) -> Result<()> {
        let mut maps = self.seats.iter().map(Seat::map);
        if Self::HOLDS_LOCK {
            let shared = self.seats.shared_in_turn()?;
            let _callback = shared.callback();
            return maps.try_for_each(|map| map.give_chunks(pairs, give));
        }
        maps.try_for_each(|map| map.give_chunks(pairs, give))
    }

    fn pairs(&self) -> usize {
        self.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use crate::file::{Kind, Writer};
    use crate::map::{Growth, Map};
    use crate::sharded::devices;

    #[test]
    fn a_large_fixed_map_that_is_nearly_empty_is_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map");
        let ranks = Ranks::new(&devices("cpu,cpu").unwrap()).unwrap();
        for pairs in [0, 1] {
            let map = ShardedMap::<u64, u64>::with(&ranks, None, |builder, share| {
                builder.capacity(share(2_000_000)).growth(Growth::Fixed)
            });
            let map = map.unwrap();
            map.insert(&vec![1; pairs], &vec![2; pairs]).unwrap();
            map.save(&path).unwrap();
            assert!(Map::<u64, u64>::load(&Device::cpu(), &path).is_err());
            let back = ShardedMap::<u64, u64>::load(&ranks, &path).unwrap();
            assert_eq!(
                (back.len(), back.header().growth),
                (pairs, Growth::default())
            );
            assert!(back.capacity() < 100_000, "{}", back.capacity());
        }
    }

    #[test]
    fn a_file_says_of_what_kind_keys_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map");
        let ranks = Ranks::new(&devices("cpu,cpu").unwrap()).unwrap();
        let [signed, float] = [Kind::of::<i32>(), Kind::of::<f32>()];
        let map =
            ShardedMap::<[u32; 3], u32>::with(&ranks, None, |builder, _| builder.key_kind(signed));
        let map = map.unwrap();
        map.insert(&[[1, 2, 3]], &[4]).unwrap();
        map.save(&path).unwrap();
        assert!(Map::<[i32; 3], u32>::load(&Device::cpu(), &path).is_ok());
        assert!(ShardedMap::<[u32; 3], u32>::load(&ranks, &path).is_err());
        let load = |kind| {
            ShardedMap::<[u32; 3], u32>::load_with(&ranks, &path, |builder, _| {
                builder.key_kind(kind)
            })
        };
        assert!(load(float).is_err());
        assert_eq!(load(signed).unwrap().header().key_kind, Some(signed));
    }

    #[test]
    fn the_growth_of_a_header_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map");
        let ranks = Ranks::new(&devices("cpu,cpu").unwrap()).unwrap();
        for growth in [Growth::By(64.0), Growth::Fixed] {
            let mut header = Header::new::<u32, u32>(1);
            header.growth = growth;
            let file = std::fs::File::create(&path).unwrap();
            let mut writer = Writer::<u32, u32, _>::new(file, &header).unwrap();
            writer.write(&[1, 2], &[3, 4]).unwrap();
            writer.finish().unwrap();
            let map = ShardedMap::<u32, u32>::load(&ranks, &path).unwrap();
            assert_eq!(map.header().growth, Growth::default());
            assert_eq!(map.get(&[1, 2]).unwrap(), [Some(3), Some(4)]);
        }
    }
}
