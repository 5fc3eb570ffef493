//! Saving row maps of a group, and loading them. Keys keep their places.
//!
//! The rows of each rank are a part, which is the file of a row map with the rank in its header. A [`ShardedRowMap`] has all parts in
//! one file, in the order of the ranks; a [`RowShard`] has its own in a file.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;

use bytemuck::Pod;

use super::super::exchange::total;
use super::super::step::Call;
use super::super::{Rank, Ranks};
use super::{RowShard, ShardRow, ShardedRowMap};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::file::{FileError, GroupPart, Header, Kind, Reader};
use crate::map::{Chunk, random_seed};
use crate::memory::host_collect;
use crate::persist;
#[cfg(doc)]
use crate::rows::RowMap;
use crate::rows::{RowMapBuilder, expect_part, row_kinds};

/// # Dump in chunks
impl<K: Pod + Send + Sync> ShardedRowMap<K> {
    /// Hands all keys with their places to `take`, in the order of these and in chunks of at most `keys`, until that fails. Calls that
    /// change the map wait meanwhile, so it has the keys of one moment, and are [`Error::Nested`] in `take`, which may look keys
    /// up. It must not wait for a call of another thread that changes the map. Takes memory of the host for one chunk.
    ///
    /// ```
    /// use gpumap::ShardedRowMap;
    /// use gpumap::sharded::{Ranks, devices};
    ///
    /// let map = ShardedRowMap::<u64>::new(&Ranks::new(&devices("cpu,cpu")?)?)?;
    /// let places = map.insert(&[50, 60, 70])?;
    /// let mut told = vec![];
    /// map.for_each_chunk(2, |chunk| {
    ///     told.extend(chunk.iter());
    ///     Ok(())
    /// })?;
    /// told.sort_unstable_by_key(|&(key, _)| key);
    /// assert_eq!(told, [(50, places[0]), (60, places[1]), (70, places[2])]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`RowMap::for_each_chunk`], of any rank; those of `take`.
    pub fn for_each_chunk(
        &self,
        keys: usize,
        mut take: impl FnMut(&Chunk<K, ShardRow>) -> Result<()>,
    ) -> Result<()> {
        let shared = self.seats.shared_in_turn()?;
        let _callback = shared.callback();
        (0..).zip(self.seats.iter()).try_for_each(|(rank, shard)| {
            let mut held = shard.local().core().hold()?;
            held.give(keys, &mut |keys, rows| {
                let places = rows.into_iter().map(|row| ShardRow::new(rank, row));
                take(&Chunk::of((keys, host_collect(places)?)))
            })
        })
    }
}

/// # Save and load
impl<K: Pod + Send + Sync> ShardedRowMap<K> {
    /// Saves all keys with their places to one file, and returns how many. [`load`](Self::load) reads it, with as many ranks, on any
    /// devices; the guide describes the format.
    ///
    /// The file is written under another name in the same folder, and takes the place of an earlier one when it is complete
    /// and on the disk. It has the keys of one moment: meanwhile lookups run, and whatever changes the map waits.
    ///
    /// ```
    /// use gpumap::ShardedRowMap;
    /// use gpumap::sharded::{Ranks, devices};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("voxels.gpumap");
    ///
    /// let ranks = Ranks::new(&devices("cpu,cpu")?)?;
    /// let map = ShardedRowMap::<[i32; 3]>::new(&ranks)?;
    /// let voxels = [[0, 0, 0], [5, -1, 2], [7, 7, 7]];
    /// let places = map.insert(&voxels)?;
    /// map.remove(&voxels[1..2])?;
    /// assert_eq!(map.save(&path)?, 2);
    ///
    /// let back = ShardedRowMap::<[i32; 3]>::load(&ranks, &path)?;
    /// assert_eq!(back.get(&voxels)?, [Some(places[0]), None, Some(places[2])]);
    /// assert_eq!(back.row_bounds(), map.row_bounds());
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Group`], and those of [`RowMap::save`], of any rank. An earlier file is as it was.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<u64> {
        persist::save_with(path.as_ref(), |file| self.save_to(file))
    }

    /// As [`save`](Self::save), to anything that takes bytes. Nothing is buffered, and nothing synchronised with a disk.
    ///
    /// # Errors
    /// As for [`save`](Self::save).
    pub fn save_to(&self, mut writer: impl Write) -> Result<u64> {
        let shared = self.seats.shared_in_turn()?;
        let _callback = shared.callback();
        let saved = random_seed();
        let shards = self.seats.iter().enumerate();
        shards
            .map(|(rank, shard)| shard.write(rank, saved, &mut writer))
            .sum()
    }

    /// Makes a map of a file that [`save`](Self::save) wrote, over a group of as many ranks. Each key has its place, and rows of
    /// removed keys have none.
    ///
    /// Places belong to arrays of the caller. So a file of another number of ranks, whose keys would get other places, is refused
    /// with [`FileError::Group`]. A group of that number on the CPU loads it; then [`for_each_chunk`](Self::for_each_chunk) has each
    /// key with its old place, which another map gives a new one.
    ///
    /// The keys must have the size and the [kind](Kind) of those that were saved. A file that is altered, cut off, of a newer version or of another kind of
    /// map is an error, and there is no map. What [`RowMap::load`] says about memory and many removed rows holds for each rank.
    ///
    /// # Errors
    /// [`Error::File`]; as for [`new`](Self::new).
    pub fn load(ranks: &Ranks, path: impl AsRef<Path>) -> Result<Self> {
        Self::load_with(ranks, path, |builder, _| builder)
    }

    /// As [`load`](Self::load), with settings, and room for as many rows as these say; see [`with`](Self::with).
    ///
    /// # Errors
    /// As for [`load`](Self::load), [`with`](Self::with).
    pub fn load_with(
        ranks: &Ranks,
        path: impl AsRef<Path>,
        configure: impl Fn(RowMapBuilder<K>, &dyn Fn(usize) -> usize) -> RowMapBuilder<K> + Sync,
    ) -> Result<Self> {
        let path = path.as_ref();
        let loaded = persist::open::<K, u32>(path)
            .and_then(|(reader, most)| Self::read(ranks, reader, most, configure));
        loaded.map_err(|error| persist::with_path(error, path))
    }

    /// As [`load`](Self::load), from anything that gives bytes, in small and large reads.
    ///
    /// # Errors
    /// As for [`load`](Self::load).
    pub fn load_from(ranks: &Ranks, reader: impl Read) -> Result<Self> {
        Self::read(ranks, reader, None, |builder, _| builder)
    }

    fn read(
        ranks: &Ranks,
        mut reader: impl Read,
        most: Option<u64>,
        configure: impl Fn(RowMapBuilder<K>, &dyn Fn(usize) -> usize) -> RowMapBuilder<K> + Sync,
    ) -> Result<Self> {
        let mut header = Header::read(&mut reader)?;
        expect_part(&header, 0, ranks.len())?;
        let first = header.part;
        let map = Self::with(ranks, first.map(|part| part.owner_seed), configure)?;
        let (last, mut at) = (ranks.len() - 1, 0);
        for (rank, shard) in map.seats.iter().enumerate() {
            if rank > 0 {
                header = Header::read_at(&mut reader, at)?;
                expect_part(&header, rank, ranks.len())?;
                expect_one_moment(first, header.part)?;
            }
            let (kinds, goes_on) = (row_kinds(Kind::of::<K>()), rank < last);
            let mut part = Reader::of_part(&mut reader, header.clone(), kinds, at, goes_on)?;
            shard.fill(rank, &mut part, most)?;
            at = part.position();
        }
        Ok(map)
    }
}

/// # Save and load
impl<K: Pod> RowShard<K> {
    /// Saves the keys of this rank with their rows to a file of its own, and returns how many all ranks have saved. A collective, for
    /// ranks in several processes; [`ShardedRowMap::save`] makes one file.
    ///
    /// No file takes the place of an earlier one before all ranks have written theirs.
    ///
    /// ```
    /// use gpumap::sharded::{Ranks, RowShard, devices};
    /// # let folder = tempfile::tempdir().unwrap();
    ///
    /// let ranks = Ranks::new(&devices("cpu,cpu")?)?;
    /// ranks.run(|rank| {
    ///     let path = folder.path().join(format!("rows-{}.gpumap", rank.index()));
    ///     let shard = RowShard::<u64>::new(rank)?;
    ///     let places = shard.insert(rank, &[7, 8, 9])?;
    ///     assert_eq!(shard.save(rank, &path)?, 3);
    ///
    ///     let back = RowShard::<u64>::load(rank, &path, |builder, _| builder)?;
    ///     assert_eq!(back.get(rank, &[7, 8, 9])?, [Some(places[0]), Some(places[1]), Some(places[2])]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`RowMap::save`], of any rank, and [`Error::Group`]: earlier files are as they were. If only putting a file into its place
    /// fails, other ranks have theirs, and [`load`](Self::load) refuses them together.
    pub fn save(&self, rank: &mut Rank, path: impl AsRef<Path>) -> Result<u64> {
        let saved = self.keyed.draw(rank, Call::Save)?;
        let mut is_written = false;
        let done = persist::save_with(path.as_ref(), |file| {
            is_written = true;
            let written = self.write(rank.index(), saved, file);
            rank.together(written)
        });
        // Without its file, no rank has met the others yet.
        let done = match is_written {
            true => done,
            false => rank.together(done),
        };
        total(rank, done.map(|keys| keys as usize)).map(|keys| keys as u64)
    }

    /// Makes a map of files that [`save`](Self::save) wrote, each rank of its own, with the settings that `configure` makes; see
    /// [`with`](Self::with). Each key has its place. A collective.
    ///
    /// # Errors
    /// As for [`RowMap::load`] and [`with`](Self::with), of any rank, and [`Error::Group`]. [`FileError::Group`] for the file of another
    /// rank, or of a group of another size; [`FileError::Moment`] for files that no one call saved.
    pub fn load(
        rank: &mut Rank,
        path: impl AsRef<Path>,
        configure: impl FnOnce(RowMapBuilder<K>, &dyn Fn(usize) -> usize) -> RowMapBuilder<K>,
    ) -> Result<Self> {
        let path = path.as_ref();
        let in_file = |error| persist::with_path(error, path);
        let opened = Opened::<K>::new(path, rank).map_err(in_file);
        let (mine, opened) = match opened {
            Ok(opened) => (Ok(opened.words()), Some(opened)),
            Err(error) => (Err(error), None),
        };
        let all = rank.agree(mine)?;
        if all.iter().any(|of_one| *of_one != all[0]) {
            return Err(in_file(FileError::Moment.into()));
        }
        let shard = Self::with(rank, Some(all[0][0]), configure)?;
        let filled = opened.map_or(Ok(()), |mut opened| {
            shard.fill(rank.index(), &mut opened.reader, opened.most)
        });
        rank.together(filled.map_err(in_file))?;
        Ok(shard)
    }

    /// Writes the part of this rank. Parts with the same number are of one moment.
    fn write(&self, rank: usize, saved: u64, writer: impl Write) -> Result<u64> {
        let part = GroupPart {
            // There are 512 at most.
            rank: rank as u16,
            ranks: self.keyed.spread.owners.ranks() as u16,
            owner_seed: self.keyed.spread.seed,
            saved,
        };
        self.rows.write(Some(part), writer)
    }

    /// Fills a shard that has no keys from its part.
    fn fill(
        &self,
        rank: usize,
        part: &mut Reader<K, u32, impl Read>,
        most: Option<u64>,
    ) -> Result<()> {
        self.rows.read(part, most, |&key| self.owner(key) == rank)
    }
}

/// The file of a rank, of which the header was read.
struct Opened<K: Pod> {
    reader: Reader<K, u32, BufReader<File>>,
    most: Option<u64>,
}

impl<K: Pod> Opened<K> {
    fn new(path: &Path, rank: &Rank) -> Result<Self> {
        let (mut reader, most) = persist::open::<K, u32>(path)?;
        let header = Header::read(&mut reader)?;
        expect_part(&header, rank.index(), rank.ranks())?;
        let reader = Reader::of_kinds(reader, header, row_kinds(Kind::of::<K>()))?;
        Ok(Self { reader, most })
    }

    /// What the files of all ranks have in common.
    fn words(&self) -> [u64; 2] {
        let part = self.reader.header().part;
        part.map_or([0; 2], |part| [part.owner_seed, part.saved])
    }
}

/// An error unless two parts are of one moment.
fn expect_one_moment(first: Option<GroupPart>, part: Option<GroupPart>) -> Result<(), FileError> {
    let common = |part: GroupPart| (part.owner_seed, part.saved);
    match first.map(common) == part.map(common) {
        true => Ok(()),
        false => Err(FileError::Moment),
    }
}
