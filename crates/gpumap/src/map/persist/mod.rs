//! Saving a map to a file, and loading it.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::{Growth, Key, Map, MapBuilder, Value};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::file::{AtomicFile, Block, FileError, Frame, Header, MAX_BLOCK_PAIRS, Reader, Writer};

#[cfg(test)]
mod tests;

/// Pairs that a table is made for on the word of a header alone.
const TRUSTED: u64 = 1 << 16;

/// Pairs of a block that one thread makes: enough blocks of a chunk for all threads.
const BLOCK_PAIRS: usize = 1 << 15;

/// Slots that [`Map::load`] makes at most for each pair of a file, or for each of [`TRUSTED`] pairs if
/// the file has fewer, whatever settings the header has.
const SLOTS_PER_PAIR: f64 = 16.0;

/// # Save and load
impl<K: Key, V: Value> Map<K, V> {
    /// Saves all pairs to a file, and returns how many. [`load`](Self::load) reads it, on any
    /// device; the guide describes the format.
    ///
    /// The file is written under another name in the same folder and takes the place of an earlier
    /// one when it is complete and on the disk: if the process or the machine stops before, the
    /// earlier one is there ([`AtomicFile`]). The pairs are streamed as by [`chunks`](Self::chunks), whose contract
    /// this has beside calls that change the map; of a map that is left alone the file has exactly
    /// its pairs. The settings of the map are saved, apart from the hash seed. The threads of rayon's pool make the
    /// checksums and write.
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
        let path = path.as_ref();
        let in_file = |error| with_path(error, path);
        let failed = |error| in_file(FileError::from(error).into());
        let mut file = AtomicFile::create(path).map_err(failed)?;
        let pairs = match file.target() {
            Some(_) => self.save_by_parts(&file),
            None => self.save_to(&mut file),
        };
        let pairs = pairs.map_err(in_file)?;
        file.commit().map_err(failed)?;
        Ok(pairs)
    }

    /// As [`save_to`](Self::save_to), by several threads.
    fn save_by_parts(&self, file: &AtomicFile) -> Result<u64> {
        let (mut frame, header) = Frame::begin(&self.header());
        file.write_all_at(&header, 0).map_err(FileError::from)?;
        let mut at = header.len() as u64;
        let mut pairs = 0;
        for chunk in self.chunks(MAX_BLOCK_PAIRS) {
            let chunk = chunk?;
            let (keys, values) = (chunk.keys(), chunk.values());
            let columns = keys
                .par_chunks(BLOCK_PAIRS)
                .zip(values.par_chunks(BLOCK_PAIRS));
            let blocks = columns.map(|(keys, values)| Block::of(keys, values));
            let blocks: Vec<Block> = blocks.collect::<Result<_>>()?;
            let starts: Vec<_> = blocks.iter().map(Block::start).collect();
            let mut parts: Vec<&[u8]> = Vec::with_capacity(3 * blocks.len());
            let columns = keys.chunks(BLOCK_PAIRS).zip(values.chunks(BLOCK_PAIRS));
            for (start, (keys, values)) in starts.iter().zip(columns) {
                parts.extend([
                    &start[..],
                    bytemuck::cast_slice(keys),
                    bytemuck::cast_slice(values),
                ]);
            }
            file.append_parts(&parts, at).map_err(FileError::from)?;
            at += parts.iter().map(|part| part.len() as u64).sum::<u64>();
            pairs += chunk.len() as u64;
            blocks.iter().for_each(|block| frame.add(block));
        }
        file.write_all_at(&frame.end(), at)
            .map_err(FileError::from)?;
        Ok(pairs)
    }

    /// As [`save`](Self::save), to anything that takes bytes. Nothing is buffered, and nothing
    /// synchronised with a disk.
    ///
    /// # Errors
    /// [`Error::File`], and those of [`chunks`](Self::chunks).
    pub fn save_to(&self, writer: impl Write) -> Result<u64> {
        let mut writer = Writer::<K, V, _>::new(writer, &self.header())?;
        for chunk in self.chunks(MAX_BLOCK_PAIRS) {
            let chunk = chunk?;
            writer.write(chunk.keys(), chunk.values())?;
        }
        let pairs = writer.pairs();
        writer.finish()?;
        Ok(pairs)
    }

    /// Makes a map of the pairs and the settings in a file that [`save`](Self::save) wrote, with
    /// a hash seed of its own. [`MapBuilder::load`] takes other settings.
    ///
    /// The types must have the sizes of those that were saved. A file that is altered, cut off,
    /// or of a newer version is an error, and there is no map.
    ///
    /// The length of the file bounds the memory, whatever the header says. The table has room for the
    /// pairs of the file. Only a map of a [fixed](Growth::Fixed) capacity gets the capacity in the header,
    /// once all of the file has been read and found right. A header that asks for more than 16 slots for each
    /// pair in the file and for more than 1,048,576 slots (16 for each of 65,536 pairs), by its
    /// capacity or by a load factor below 1/16, is refused with [`FileError::Slots`]. So a large fixed
    /// map that was saved nearly empty is loaded by [`MapBuilder::load`], with the settings of the builder.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::OutOfMemory`], [`Error::Driver`]; [`Error::Setting`] for a file
    /// that was made up.
    pub fn load(device: &Device, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let (reader, most) = open::<K, V>(path).map_err(|error| with_path(error, path))?;
        let loaded = Reader::new(reader).and_then(|mut reader| {
            let header = reader.header().clone();
            // Of a stream only the load factor is checked here; the capacity when the pairs are counted.
            let enough = header.pairs.max(fixed_capacity(&header));
            expect_slots(&header, most.unwrap_or(enough))?;
            let mut builder = Self::builder(device)
                .max_load_factor(header.max_load_factor)
                .growth(header.growth);
            builder.wish.submaps = header.submaps;
            let map = builder.load_blocks(&mut reader, most)?;
            expect_slots(&header, map.len() as u64)?;
            if fixed_capacity(&header) > map.capacity() as u64 {
                let capacity = usize::try_from(header.capacity).unwrap_or(usize::MAX);
                map.reserve(capacity.saturating_sub(map.len()))?;
            }
            Ok(map)
        });
        loaded.map_err(|error| with_path(error, path))
    }

    /// What is saved about the map.
    pub(crate) fn header(&self) -> Header {
        let mut header = Header::new::<K, V>(self.len() as u64);
        header.capacity = self.capacity() as u64;
        header.max_load_factor = self.core.wish.max_load_factor;
        header.growth = self.core.growth;
        header.submaps = self.core.wish.submaps;
        header
    }
}

impl<K: Key, V: Value> MapBuilder<K, V> {
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
    pub fn load(self, path: impl AsRef<Path>) -> Result<Map<K, V>> {
        let path = path.as_ref();
        let loaded = open::<K, V>(path)
            .and_then(|(reader, most)| self.load_blocks(&mut Reader::new(reader)?, most));
        loaded.map_err(|error| with_path(error, path))
    }

    /// As [`load`](Self::load), from anything that gives bytes. Room for more than 65,536 pairs
    /// is made as they come, unless the [`capacity`](Self::capacity) says how many there are.
    ///
    /// # Errors
    /// As for [`load`](Self::load).
    pub fn load_from(self, reader: impl Read) -> Result<Map<K, V>> {
        self.load_blocks(&mut Reader::new(reader)?, None)
    }

    /// Makes room for as many pairs as the header says, but no more than `most`, and stores them.
    fn load_blocks(
        mut self,
        reader: &mut Reader<K, V, impl Read>,
        most: Option<u64>,
    ) -> Result<Map<K, V>> {
        let pairs = reader.header().pairs.min(most.unwrap_or(TRUSTED));
        let pairs = usize::try_from(pairs).unwrap_or(usize::MAX);
        self.wish.capacity = self.wish.capacity.max(pairs);
        self.check()?;
        // While it is loaded it may grow in any case: the header may be wrong.
        let growth = std::mem::take(&mut self.growth);
        let mut map = self.build()?;
        while let Some((keys, values)) = reader.next_block()? {
            map.upsert(keys, values)?;
        }
        map.core.growth = growth;
        Ok(map)
    }
}

/// The capacity that a loaded map must have whatever its pairs take.
fn fixed_capacity(header: &Header) -> u64 {
    match header.growth {
        Growth::Fixed => header.capacity,
        Growth::By(_) => 0,
    }
}

/// An error if the settings of a header ask for more slots than so many pairs justify.
fn expect_slots(header: &Header, pairs: u64) -> Result<(), FileError> {
    let counted = pairs.max(TRUSTED);
    let capacity = fixed_capacity(header).max(counted);
    let slots = capacity as f64 / header.max_load_factor;
    let most = SLOTS_PER_PAIR * counted as f64;
    // One that is NaN or negative is refused as a setting.
    if slots > most {
        let (slots, most) = (slots as u64, most as u64);
        return Err(FileError::Slots { slots, pairs, most });
    }
    Ok(())
}

/// Opens a file, and says how many pairs its length has room for, if it has a length.
fn open<K: Key, V: Value>(path: &Path) -> Result<(BufReader<File>, Option<u64>)> {
    let file = File::open(path).map_err(FileError::from)?;
    let metadata = file.metadata().map_err(FileError::from)?;
    let pair = (size_of::<K>() + size_of::<V>()) as u64;
    let most = metadata.is_file().then(|| metadata.len() / pair);
    Ok((BufReader::with_capacity(1 << 16, file), most))
}

/// Says which file an error is about.
fn with_path(error: Error, path: &Path) -> Error {
    match error {
        Error::File { path: None, cause } => Error::File {
            path: Some(PathBuf::from(path)),
            cause,
        },
        other => other,
    }
}
