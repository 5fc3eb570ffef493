//! Saving row maps of strings, and loading them. Strings keep their rows.

use std::io::{Read, Write};
use std::path::Path;

use super::{StringRowMap, StringRowMapBuilder};
use crate::device::Device;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
#[cfg(doc)]
use crate::file::FileError;
use crate::file::{Header, MAX_BLOCK_PAIRS, StringReader, StringWriter};
use crate::persist;
use crate::rows::Filling;

/// Bytes of the strings that are on the host at a time, unless one has more.
pub(super) const CHUNK_BYTES: usize = 16 << 20;

/// What a string takes in a file besides its bytes and its row.
type StringLen = u32;

/// # Save and load
impl StringRowMap {
    /// Saves all strings with their rows to a file, and returns how many. [`load`](Self::load) reads it, on any device; the
    /// guide describes the format.
    ///
    /// The file is written under another name in the same folder, and takes the place of an earlier one when it is complete
    /// and on the disk. It has the strings of one moment: meanwhile lookups run, and whatever changes the map waits.
    ///
    /// ```
    /// use gpumap::{Device, StringRowMap};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("words.gpumap");
    /// let map = StringRowMap::new(&Device::cpu())?;
    /// map.insert(&["to", "be", "or"])?;
    /// map.remove(&["be"])?;
    /// assert_eq!(map.save(&path)?, 2);
    ///
    /// let back = StringRowMap::load(&Device::cpu(), &path)?;
    /// assert_eq!(back.get(&["or", "be"])?, [Some(2), None]);
    /// assert_eq!(back.row_bound(), 3); // no other string has the row of the removed one
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
        let mut held = self.core.rows.hold()?;
        let header = Header::of_strings(held.len as u64, held.rows as u64);
        let mut writer = StringWriter::new(writer, &header)?;
        let most = (MAX_BLOCK_PAIRS, CHUNK_BYTES);
        self.core.give(&mut held, most, &mut |strings, rows| {
            writer.write(strings, rows)
        })?;
        writer.finish()
    }

    /// Makes a map of a file that [`save`](Self::save) wrote, with a hash seed of its own. Each string has its row, and rows of
    /// removed strings have none.
    ///
    /// A file that is altered, cut off, of a newer version or of another kind of map is an error, and there is no map. The
    /// length of the file bounds the memory: a map with rows for more than 16 times its strings, most of which were removed, is
    /// refused with [`FileError::RowBound`], unless [`StringRowMapBuilder::load`] is told the capacity.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::OutOfMemory`], [`Error::Driver`].
    pub fn load(device: &Device, path: impl AsRef<Path>) -> Result<Self> {
        Self::builder(device).load(path)
    }
}

impl StringRowMapBuilder {
    /// Makes the map with the strings of a file that [`StringRowMap::save`] wrote, and room for its rows at least.
    ///
    /// # Errors
    /// As for [`StringRowMap::load`]; those of [`build`](Self::build).
    pub fn load(self, path: impl AsRef<Path>) -> Result<StringRowMap> {
        let path = path.as_ref();
        let loaded =
            persist::open::<StringLen, u32>(path).and_then(|(file, most)| self.fill(file, most));
        loaded.map_err(|error| persist::with_path(error, path))
    }

    /// As [`load`](Self::load), from anything that gives bytes, in small and large reads. Without the length of a file, rows
    /// may be 16 times as many as the strings before them.
    ///
    /// # Errors
    /// As for [`load`](Self::load).
    pub fn load_from(self, reader: impl Read) -> Result<StringRowMap> {
        self.fill(reader, None)
    }

    /// Makes a map of a file, which has at most so many strings if its length is known.
    fn fill(self, mut reader: impl Read, most: Option<u64>) -> Result<StringRowMap> {
        let header = Header::read(&mut reader)?;
        let mut reader = StringReader::after_header(reader, &header)?;
        let trusted = persist::trusted_pairs::<StringLen, u32>().max(self.capacity as u64);
        let map = self.build()?;
        let mut filling = Filling::begin(&map.core.rows, &header, most, trusted)?;
        let mut loading = map.core.load()?;
        while let Some((strings, rows)) = reader.next_block()? {
            let refs = loading.put(&strings)?;
            filling.add(bytemuck::cast_slice(&refs), &rows)?;
        }
        drop(loading);
        filling.finish()?;
        Ok(map)
    }
}
