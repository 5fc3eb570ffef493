//! [`Writer`]: pairs to bytes. [`Block`] and [`Frame`]: the same in parts, for writers of many threads.

use std::io::Write;
use std::marker::PhantomData;

use bytemuck::Pod;
use crc32fast::Hasher;

use super::header::LEN;
use super::{BLOCK_START, END, FileError, Header, Kinds, MAX_BLOCK_PAIRS};
#[cfg(doc)]
use crate::error::Error;
use crate::error::{Result, expect_same_len};

/// Writes pairs as a saved map.
///
/// Nothing is buffered: blocks go to `W` as they come, in one write for the keys and one for the
/// values. What was written is a saved map only after [`finish`](Self::finish).
#[derive(Debug)]
pub struct Writer<K: Pod, V: Pod, W: Write> {
    writer: W,
    frame: Frame,
    _pair: PhantomData<fn(K) -> V>,
}

impl<K: Pod, V: Pod, W: Write> Writer<K, V, W> {
    /// Begins with the header, which must be of these types.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn new(writer: W, header: &Header) -> Result<Self> {
        Self::of_kinds(writer, header, Kinds::of::<K, V>())
    }

    /// The same, of a map of these kinds.
    pub(crate) fn of_kinds(mut writer: W, header: &Header, kinds: Kinds) -> Result<Self> {
        header.expect::<K, V>(kinds)?;
        let (frame, bytes) = Frame::begin(header);
        writer.write_all(&bytes).map_err(FileError::from)?;
        Ok(Self {
            writer,
            frame,
            _pair: PhantomData,
        })
    }

    /// Adds pairs, as many as one likes. No key should come twice in a file, unless its header says that it is of a
    /// [multimap](Header::is_multimap).
    ///
    /// # Errors
    /// [`Error::LengthMismatch`], [`Error::File`].
    pub fn write(&mut self, keys: &[K], values: &[V]) -> Result<()> {
        expect_same_len(keys.len(), values.len())?;
        let blocks = keys
            .chunks(MAX_BLOCK_PAIRS)
            .zip(values.chunks(MAX_BLOCK_PAIRS));
        for (keys, values) in blocks {
            let columns = [bytemuck::cast_slice(keys), bytemuck::cast_slice(values)];
            self.frame.write(&mut self.writer, keys.len(), &columns)?;
        }
        Ok(())
    }

    /// Ends with the end record, and gives back what was written to, flushed.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn finish(mut self) -> Result<W> {
        self.frame.finish(&mut self.writer)?;
        Ok(self.writer)
    }

    /// How many pairs were written.
    pub fn pairs(&self) -> u64 {
        self.frame.pairs()
    }
}

/// What a block of a saved map begins with: the number of its pairs and their checksum, which any thread
/// can make.
///
/// Its [`start`](Self::start), all keys and all values, one after the other, are the block. A [`Frame`]
/// puts blocks together:
///
/// ```
/// use gpumap::file::{Block, Frame, Header, Reader};
///
/// let (keys, values) = ([1_u64, 2, 3], [10_u32, 20, 30]);
/// let (mut frame, header) = Frame::begin(&Header::new::<u64, u32>(3));
/// let mut bytes = header.to_vec();
/// let block = Block::of(&keys, &values)?;
/// bytes.extend(block.start());
/// bytes.extend(keys.iter().flat_map(|key| key.to_ne_bytes()));
/// bytes.extend(values.iter().flat_map(|value| value.to_ne_bytes()));
/// frame.add(&block);
/// bytes.extend(frame.end());
///
/// let mut reader = Reader::<u64, u32, _>::new(&bytes[..])?;
/// assert_eq!(reader.next_block()?, Some((&keys[..], &values[..])));
/// assert_eq!(reader.next_block()?, None);
/// # Ok::<(), gpumap::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Block {
    pairs: u32,
    of_pairs: Hasher,
}

impl Block {
    /// The block of these pairs, one at least and [`MAX_BLOCK_PAIRS`] at most.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`]; [`Error::File`] with [`FileError::BlockSize`] for no pair or too many.
    pub fn of<K: Pod, V: Pod>(keys: &[K], values: &[V]) -> Result<Self> {
        expect_same_len(keys.len(), values.len())?;
        let columns = [bytemuck::cast_slice(keys), bytemuck::cast_slice(values)];
        Self::of_columns(keys.len(), &columns)
    }

    /// The block of so many pairs, which has these columns.
    fn of_columns(len: usize, columns: &[&[u8]]) -> Result<Self> {
        let pairs = u32::try_from(len).unwrap_or(u32::MAX);
        if pairs == 0 || len > MAX_BLOCK_PAIRS {
            let (block, most) = (0, MAX_BLOCK_PAIRS as u32);
            return Err(FileError::BlockSize { block, pairs, most }.into());
        }
        let mut of_pairs = Hasher::new();
        for column in columns {
            of_pairs.update(column);
        }
        Ok(Self { pairs, of_pairs })
    }

    /// The bytes before the pairs.
    pub fn start(&self) -> [u8; BLOCK_START] {
        let mut start = [0; BLOCK_START];
        start[..4].copy_from_slice(&self.pairs.to_le_bytes());
        start[4..].copy_from_slice(&self.of_pairs.clone().finalize().to_le_bytes());
        start
    }
}

/// What is around the blocks of a saved map: the header and the end record.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Of all bytes so far.
    whole: Hasher,
    pairs: u64,
}

impl Frame {
    /// Begins a file; its first bytes are these.
    pub fn begin(header: &Header) -> (Self, [u8; LEN]) {
        let bytes = header.encode();
        let mut whole = Hasher::new();
        whole.update(&bytes);
        (Self { whole, pairs: 0 }, bytes)
    }

    /// Takes note of the block that comes next in the file.
    pub fn add(&mut self, block: &Block) {
        self.whole.update(&block.start());
        // So that every byte is looked at once, and not twice.
        self.whole.combine(&block.of_pairs);
        self.pairs += u64::from(block.pairs);
    }

    /// Writes the block of so many pairs, which has these columns.
    pub(super) fn write(
        &mut self,
        writer: &mut impl Write,
        pairs: usize,
        columns: &[&[u8]],
    ) -> Result<()> {
        let block = Block::of_columns(pairs, columns)?;
        writer.write_all(&block.start()).map_err(FileError::from)?;
        for column in columns {
            writer.write_all(column).map_err(FileError::from)?;
        }
        self.add(&block);
        Ok(())
    }

    /// Writes the end record, and flushes.
    pub(super) fn finish(&self, writer: &mut impl Write) -> Result<()> {
        writer.write_all(&self.end()).map_err(FileError::from)?;
        Ok(writer.flush().map_err(FileError::from)?)
    }

    /// How many pairs the blocks have so far.
    pub(super) fn pairs(&self) -> u64 {
        self.pairs
    }

    /// The bytes after the last block.
    pub fn end(&self) -> [u8; END] {
        let mut end = [0; END];
        end[4..8].copy_from_slice(&self.whole.clone().finalize().to_le_bytes());
        end[8..16].copy_from_slice(&self.pairs.to_le_bytes());
        let checksum = crc32fast::hash(&end[..16]);
        end[16..].copy_from_slice(&checksum.to_le_bytes());
        end
    }
}
