//! Saving row maps, and loading them. Keys keep their rows. [`Filling`] is what loading any kind of key has in common.

use std::io::{Read, Write};
use std::path::Path;

use bytemuck::Pod;

use super::core::{Core, Loading};
use super::{RowKey, RowMap, RowMapBuilder, RowStore};
use crate::device::Device;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::file::{FileError, GroupPart, Header, Kind, Kinds, Reader};
use crate::persist;

/// # Save and load
impl<K: RowKey + ?Sized> RowMap<K> {
    /// Saves all keys with their rows to a file, and returns how many. [`load`](Self::load) reads it, on any device; the
    /// guide describes the format.
    ///
    /// The file is written under another name in the same folder, and takes the place of an earlier one when it is complete
    /// and on the disk. It has the keys of one moment: meanwhile lookups run, and whatever changes the map waits.
    ///
    /// ```
    /// use gpumap::{Device, RowMap};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("voxels.gpumap");
    /// let map: RowMap<[i32; 3]> = RowMap::new(&Device::cpu())?;
    /// map.insert(&[[0, 0, 0], [5, -1, 2], [7, 7, 7]])?;
    /// map.remove(&[[5, -1, 2]])?;
    /// assert_eq!(map.save(&path)?, 2);
    ///
    /// let back = RowMap::<[i32; 3]>::load(&Device::cpu(), &path)?;
    /// assert_eq!(back.get(&[[7, 7, 7], [5, -1, 2]])?, [Some(2), None]);
    /// assert_eq!(back.row_bound(), 3); // no other key has the row of the removed one
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::File`], and those of [`keys`](Self::keys). An earlier file is as it was.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<u64> {
        persist::save_with(path.as_ref(), |file| self.save_to(file))
    }

    /// As [`save`](Self::save), to anything that takes bytes. Nothing is buffered, and nothing synchronised with a disk.
    ///
    /// # Errors
    /// [`Error::File`], and those of [`keys`](Self::keys).
    pub fn save_to(&self, writer: impl Write) -> Result<u64> {
        self.write(None, writer)
    }

    /// Writes all of it, as a file of its own or as that of a rank.
    pub(crate) fn write(&self, part: Option<GroupPart>, writer: impl Write) -> Result<u64> {
        self.store.write(self.key_kind, part, writer)
    }

    /// Makes a map of a file that [`save`](Self::save) wrote, with a hash seed of its own. Each key has its row, and rows of
    /// removed keys have none.
    ///
    /// The keys must have the size and the [kind](Kind) of those that were saved. A file that is altered, cut off, of a newer version or of
    /// another kind of map is an error, and there is no map. The length of the file bounds the memory: a map with rows for
    /// more than 16 times its keys, most of which were removed, is refused with [`FileError::RowBound`], unless
    /// [`RowMapBuilder::load`] is told the capacity.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::OutOfMemory`], [`Error::Driver`].
    pub fn load(device: &Device, path: impl AsRef<Path>) -> Result<Self> {
        Self::builder(device).load(path)
    }
}

impl<K: RowKey + ?Sized> RowMapBuilder<K> {
    /// Makes the map with the keys of a file that [`RowMap::save`] wrote, and room for its rows at least.
    ///
    /// # Errors
    /// As for [`RowMap::load`]; those of [`build`](Self::build).
    pub fn load(self, path: impl AsRef<Path>) -> Result<RowMap<K>> {
        let path = path.as_ref();
        let opened = persist::open_of(path, K::Store::LEAST_BYTES);
        let loaded = opened.and_then(|(reader, most)| self.fill(reader, most));
        loaded.map_err(|error| persist::with_path(error, path))
    }

    /// As [`load`](Self::load), from anything that gives bytes, in small and large reads. Without the length of a file, rows
    /// may be 16 times as many as the keys before them.
    ///
    /// # Errors
    /// As for [`load`](Self::load).
    pub fn load_from(self, reader: impl Read) -> Result<RowMap<K>> {
        self.fill(reader, None)
    }

    /// Makes a map of a file, which has at most so many pairs if its length is known.
    fn fill(self, mut reader: impl Read, most: Option<u64>) -> Result<RowMap<K>> {
        let header = Header::read(&mut reader)?;
        K::Store::fill(self, header, reader, most)
    }
}

/// What a file of rows has.
pub(crate) fn row_kinds(key: Kind) -> Kinds {
    Kinds {
        key,
        value: Kind::of::<u32>(),
    }
}

/// An error unless a header is of the rows of this rank. A map alone has those of a group of one.
pub(crate) fn expect_part(header: &Header, rank: usize, ranks: usize) -> Result<(), FileError> {
    if !header.is_rows {
        return Err(FileError::NoRows);
    }
    if header.has_strings {
        return Err(FileError::Strings);
    }
    let (of, all) = header.part.map_or((0, 1), |part| (part.rank, part.ranks));
    match (usize::from(of), usize::from(all)) == (rank, ranks) {
        true => Ok(()),
        false => Err(FileError::Group {
            rank: of,
            ranks: all,
            wanted: rank,
            wanted_ranks: ranks,
        }),
    }
}

impl<K: Pod> RowMap<K> {
    /// Fills a map that has no keys, from a file or a part of one, which has at most so many pairs if its length is known. Each key
    /// has to be one that belongs here.
    pub(crate) fn read(
        &self,
        reader: &mut Reader<K, u32, impl Read>,
        most: Option<u64>,
        belongs: impl Fn(&K) -> bool,
    ) -> Result<()> {
        let trusted = persist::trusted_pairs::<K, u32>().max(self.capacity() as u64);
        let mut filling = Filling::begin(self.core(), reader.header(), most, trusted)?;
        while let Some((keys, rows)) = reader.next_block()? {
            if let Some((_, &row)) = keys.iter().zip(rows).find(|(key, _)| !belongs(key)) {
                return Err(FileError::Row { row }.into());
            }
            filling.add(bytemuck::cast_slice(keys), rows)?;
        }
        filling.finish()
    }
}

/// An empty map that gets the rows of a file, and no more memory than its keys justify.
#[derive(Debug)]
pub(crate) struct Filling<'c> {
    loading: Loading<'c>,
    key_bytes: usize,
    /// What all rows are below, as the header says.
    bound: u64,
    /// Rows that there may be, however few keys there are.
    trusted: u64,
    /// Whether nothing but the keys so far says how many there may be.
    is_stream: bool,
    /// Keys so far.
    found: u64,
}

impl<'c> Filling<'c> {
    /// Begins with what a header says, of a file with at most so many pairs if its length is known.
    pub fn begin(core: &'c Core, header: &Header, most: Option<u64>, trusted: u64) -> Result<Self> {
        let mut filling = Self {
            loading: Loading::new(core)?,
            key_bytes: core.key_bytes,
            bound: header.capacity,
            trusted,
            is_stream: most.is_none(),
            found: 0,
        };
        if let Some(most) = most {
            filling.expect_rows(filling.bound, header.pairs.min(most))?;
            filling.loading.reserve(filling.bound)?;
        }
        Ok(filling)
    }

    /// An error if there are more rows than so many keys justify.
    fn expect_rows(&self, rows: u64, keys: u64) -> Result<(), FileError> {
        let most = (persist::SLOTS_PER_PAIR as u64).saturating_mul(keys);
        let most = most.max(self.trusted);
        match rows <= most {
            true => Ok(()),
            false => Err(FileError::RowBound { rows, most }),
        }
    }

    /// Takes the keys of a block, and their rows.
    pub fn add(&mut self, keys: &[u8], rows: &[u32]) -> Result<()> {
        self.found += rows.len() as u64;
        for (key, &row) in keys.chunks_exact(self.key_bytes).zip(rows) {
            if u64::from(row) < self.loading.next() || u64::from(row) >= self.bound {
                return Err(FileError::Row { row }.into());
            }
            if self.is_stream {
                self.expect_rows(u64::from(row) + 1, self.found)?;
            }
            self.loading.put(key, row)?;
        }
        Ok(())
    }

    /// Makes the map, when the file is known to be whole.
    pub fn finish(self) -> Result<()> {
        self.expect_rows(self.bound, self.found)?;
        self.loading.finish(self.bound)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::error::Error;
    use crate::file::Writer;
    use crate::map::Map;
    use crate::testing::on_every_device;

    fn cause<T>(outcome: Result<T>) -> FileError {
        match outcome {
            Err(Error::File { cause, .. }) => cause,
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("it was loaded"),
        }
    }

    /// Panics unless two maps have the same rows, and give the next key the same one.
    fn assert_same<K: Pod + PartialEq + std::fmt::Debug>(
        map: &RowMap<K>,
        back: &RowMap<K>,
        next: K,
    ) {
        assert_eq!(back.retrieve_all().unwrap(), map.retrieve_all().unwrap());
        assert_eq!((back.len(), back.row_bound()), (map.len(), map.row_bound()));
        let keys = map.keys().unwrap();
        assert_eq!(back.get(&keys).unwrap(), map.get(&keys).unwrap());
        assert_eq!(back.insert(&[next]).unwrap(), [map.row_bound() as u32]);
        assert_eq!(back.remove(&keys).unwrap(), keys.len());
        assert_eq!(back.compact().unwrap(), [map.row_bound() as u32]);
    }

    #[test]
    fn rows_come_back() {
        fn body<K: Pod + PartialEq + std::fmt::Debug>(device: &Device, key: fn(u32) -> K) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("rows");
            let keys = |numbers: std::ops::Range<u32>| numbers.map(key).collect::<Vec<K>>();
            for (rows, removed) in [
                (0, 0..0),
                (1, 0..0),
                (1, 0..1),
                (100, 0..0),
                (100, 0..99),
                (96, 40..96),
                (3_000, 30..1_700),
                (3_000, 0..3_000),
            ] {
                let map = RowMap::<K>::new(device).unwrap();
                map.insert(&keys(0..rows)).unwrap();
                map.remove(&keys(removed.clone())).unwrap();
                let kept = u64::from(rows) - removed.len() as u64;
                assert_eq!(map.save(&path).unwrap(), kept);
                let mut bytes = Vec::new();
                assert_eq!(map.save_to(&mut bytes).unwrap(), kept);
                assert_eq!(fs::read(&path).unwrap(), bytes);
                let next = key(1 << 20);
                assert_same(&map, &RowMap::load(device, &path).unwrap(), next);
                assert_same(
                    &map,
                    &RowMap::builder(device).load_from(&bytes[..]).unwrap(),
                    next,
                );
            }
        }
        on_every_device(|device| {
            body::<u32>(device, |i| i);
            body::<[u32; 3]>(device, |i| [7, !i, i]);
            body::<[u8; 16]>(device, |i| u128::from(i).to_le_bytes());
            body::<[u64; 8]>(device, |i| [u64::from(i); 8]);
        });
    }

    /// Several blocks, and several pieces on their way to the device, of which a gap is longer than one.
    #[test]
    fn rows_of_many_blocks_come_back() {
        let device = Device::cpu();
        let keys: Vec<[u64; 8]> = (0..900_000).map(|i| [i; 8]).collect();
        let map = RowMap::new(&device).unwrap();
        map.insert(&keys).unwrap();
        map.remove(&keys[200_000..800_000]).unwrap();
        let mut bytes = Vec::new();
        map.save_to(&mut bytes).unwrap();
        assert_same(
            &map,
            &RowMap::builder(&device).load_from(&bytes[..]).unwrap(),
            [!0; 8],
        );
    }

    #[test]
    fn files_of_other_maps_are_refused() {
        let device = Device::cpu();
        let mut pairs = Vec::new();
        Map::<u64, u32>::from_pairs(&device, [(1, 0), (2, 1)])
            .unwrap()
            .save_to(&mut pairs)
            .unwrap();
        let refused = cause(RowMap::<u64>::builder(&device).load_from(&pairs[..]));
        assert!(matches!(refused, FileError::NoRows));

        let map = RowMap::<u64>::new(&device).unwrap();
        map.insert(&[7, 8]).unwrap();
        let mut rows = Vec::new();
        map.save_to(&mut rows).unwrap();
        let refused = cause(Map::<u64, u32>::builder(&device).load_from(&rows[..]));
        assert!(matches!(refused, FileError::Rows));
        let refused = cause(RowMap::<[u32; 3]>::builder(&device).load_from(&rows[..]));
        assert!(matches!(
            refused,
            FileError::KeySize {
                found: 8,
                expected: 12
            }
        ));
        let refused = cause(RowMap::<[i32; 2]>::builder(&device).load_from(&rows[..]));
        assert!(matches!(refused, FileError::KeyType { bytes: 8, .. }));
        // An unsigned integer may be taken as its parts.
        assert!(
            RowMap::<[u32; 2]>::builder(&device)
                .load_from(&rows[..])
                .is_ok()
        );
    }

    /// A file with right checksums.
    fn file(bound: u64, blocks: &[(&[u64], &[u32])]) -> Vec<u8> {
        let header = Header::of_rows::<u64>(2, bound);
        let mut writer = Writer::<u64, u32, _>::new(Vec::new(), &header).unwrap();
        for (keys, rows) in blocks {
            writer.write(keys, rows).unwrap();
        }
        writer.finish().unwrap()
    }

    #[test]
    fn rows_that_cannot_be_are_refused() {
        on_every_device(|device| {
            let load = |bytes: &[u8]| RowMap::<u64>::builder(device).load_from(bytes);
            assert_eq!(load(&file(9, &[(&[5, 6], &[0, 8])])).unwrap().len(), 2);
            for (blocks, wrong) in [
                (&[(&[5, 6][..], &[3, 3][..])][..], 3),
                (&[(&[5, 6], &[3, 2])], 2),
                (&[(&[5], &[3]), (&[6], &[3])], 3),
                (&[(&[5, 6], &[3, 9])], 9),
            ] {
                let refused = cause(load(&file(9, blocks)));
                assert!(
                    matches!(refused, FileError::Row { row } if row == wrong),
                    "{refused}"
                );
            }
            // One key with two rows: which of them a search finds is not said.
            let twice = file(9, &[(&[5, 6], &[0, 1]), (&[5], &[4])]);
            assert!(matches!(cause(load(&twice)), FileError::Row { row: 0 | 4 }));
        });
    }

    #[test]
    fn rows_are_not_believed_without_keys() {
        let device = Device::cpu().with_memory_budget(64 << 20);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows");
        let far = file(1 << 30, &[(&[5, 6], &[0, (1 << 30) - 1])]);
        fs::write(&path, &far).unwrap();
        for refused in [
            cause(RowMap::<u64>::load(&device, &path)),
            cause(RowMap::<u64>::builder(&device).load_from(&far[..])),
        ] {
            assert!(matches!(refused, FileError::RowBound { .. }), "{refused}");
        }
        // Of 100,000 rows two are left: the builder says that there may be so many.
        let map = RowMap::<u64>::new(&device).unwrap();
        let keys: Vec<u64> = (0..100_000).collect();
        map.insert(&keys).unwrap();
        map.remove(&keys[1..99_999]).unwrap();
        map.save(&path).unwrap();
        let refused = cause(RowMap::<u64>::load(&device, &path));
        assert!(matches!(refused, FileError::RowBound { rows: 100_000, .. }));
        let builder = RowMap::<u64>::builder(&device).capacity(100_000);
        assert_same(&map, &builder.load(&path).unwrap(), !0);
    }

    #[test]
    fn every_damage_is_found() {
        let device = Device::cpu();
        let good = file(40, &[(&[5, 6], &[0, 8]), (&[7], &[33])]);
        for len in 0..good.len() {
            assert!(
                RowMap::<u64>::builder(&device)
                    .load_from(&good[..len])
                    .is_err(),
                "{len}"
            );
        }
        for at in 0..good.len() {
            let mut bytes = good.clone();
            bytes[at] ^= 1 << (at % 8);
            assert!(
                RowMap::<u64>::builder(&device)
                    .load_from(&bytes[..])
                    .is_err(),
                "{at}"
            );
        }
        let longer = [&good[..], &[0]].concat();
        assert!(
            RowMap::<u64>::builder(&device)
                .load_from(&longer[..])
                .is_err()
        );
    }
}
