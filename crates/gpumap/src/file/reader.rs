//! [`Reader`]: bytes to pairs, with nothing believed that was not checked.

use std::io::{self, Read};

use bytemuck::Pod;
use crc32fast::Hasher;

use super::header;
use super::{BLOCK_START, END, FileError, FilePart, Header, Kinds, MAX_BLOCK_PAIRS};
use crate::error::Result;
use crate::memory::host_zeroed;

/// Reads the pairs of a saved map, block by block.
///
/// It needs memory for one block, at most [`MAX_BLOCK_PAIRS`] pairs, whatever the file claims. A
/// block is given out after its checksum was found right. That nothing is missing or doubled is
/// known at the end: pairs are to be trusted when [`next_block`](Self::next_block) has returned
/// `None`.
#[derive(Debug)]
pub struct Reader<K: Pod, V: Pod, R: Read> {
    blocks: Blocks<R>,
    header: Header,
    keys: Vec<K>,
    values: Vec<V>,
}

impl<K: Pod, V: Pod, R: Read> Reader<K, V, R> {
    /// Reads the header. Reads are small and large: a file should be in a
    /// [`BufReader`](std::io::BufReader).
    ///
    /// # Errors
    /// [`Error::File`](crate::Error::File), also for a file of other types.
    pub fn new(mut reader: R) -> Result<Self> {
        let header = Header::read(&mut reader)?;
        Self::after_header(reader, header)
    }

    /// Goes on after a header that [`Header::read`] has read.
    ///
    /// # Errors
    /// [`Error::File`](crate::Error::File) for a file of other types.
    pub fn after_header(reader: R, header: Header) -> Result<Self> {
        Self::of_kinds(reader, header, Kinds::of::<K, V>())
    }

    /// The same, for a map of these kinds. Warns if the file does not say its own.
    pub(crate) fn of_kinds(reader: R, header: Header, kinds: Kinds) -> Result<Self> {
        Self::of_part(reader, header, kinds, 0, false)
    }

    /// The same, of a part that began after so many bytes, and behind which another one comes or not.
    pub(crate) fn of_part(
        reader: R,
        header: Header,
        kinds: Kinds,
        at: u64,
        goes_on: bool,
    ) -> Result<Self> {
        header.expect::<K, V>(kinds)?;
        if at == 0 {
            header.warn_of_unknown_kinds(kinds);
        }
        Ok(Self {
            blocks: Blocks::of_part(reader, &header, at, goes_on),
            header,
            keys: Vec::new(),
            values: Vec::new(),
        })
    }

    /// Bytes that were read, of all parts.
    pub(crate) fn position(&self) -> u64 {
        self.blocks.bytes.at
    }

    /// What the file says about itself.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The keys and the values of the next block, as many of each; none at the end, where the file
    /// is known to be whole. After an error there is no more.
    ///
    /// # Errors
    /// [`Error::File`](crate::Error::File), [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub fn next_block(&mut self) -> Result<Option<(&[K], &[V])>> {
        let Self { keys, values, .. } = self;
        let read = self.blocks.next(|bytes, len, of_pairs| {
            if keys.len() < len {
                *keys = host_zeroed(len)?;
                *values = host_zeroed(len)?;
            }
            bytes.fill_pod(&mut keys[..len], of_pairs)?;
            Ok(bytes.fill_pod(&mut values[..len], of_pairs)?)
        })?;
        Ok(read.map(|len| (&keys[..len], &values[..len])))
    }
}

/// The blocks of a file, and what is around them.
#[derive(Debug)]
pub(super) struct Blocks<R> {
    bytes: Bytes<R>,
    /// Of all bytes so far.
    whole: Hasher,
    pairs: u64,
    blocks: u64,
    is_done: bool,
    /// Whether another part comes behind it.
    goes_on: bool,
}

impl<R: Read> Blocks<R> {
    /// Those after a header.
    pub fn after_header(reader: R, header: &Header) -> Self {
        Self::of_part(reader, header, 0, false)
    }

    /// The same, of a part that began after so many bytes, and behind which another one comes or not.
    fn of_part(reader: R, header: &Header, at: u64, goes_on: bool) -> Self {
        let mut whole = Hasher::new();
        whole.update(&header.encode());
        Self {
            bytes: Bytes::new(reader, at + header::LEN as u64),
            whole,
            pairs: 0,
            blocks: 0,
            is_done: false,
            goes_on,
        }
    }

    /// Has `read` read the pairs of the next block, of which it is told the number, and their checksum. Returns that number; none
    /// at the end, where the file is known to be whole. After an error there is no more.
    pub fn next(
        &mut self,
        read: impl FnOnce(&mut Bytes<R>, usize, &mut Hasher) -> Result<()>,
    ) -> Result<Option<usize>> {
        if std::mem::replace(&mut self.is_done, true) {
            return Ok(None);
        }
        let mut start = [0; BLOCK_START];
        self.bytes.fill(&mut start)?;
        let (pairs, checksum) = two_words(start);
        if pairs == 0 {
            self.end(start)?;
            return Ok(None);
        }
        let (block, most) = (self.blocks, MAX_BLOCK_PAIRS as u32);
        if pairs > most {
            return Err(FileError::BlockSize { block, pairs, most }.into());
        }
        let mut of_pairs = Hasher::new();
        read(&mut self.bytes, pairs as usize, &mut of_pairs)?;
        if of_pairs.clone().finalize() != checksum {
            let part = FilePart::Block(block);
            return Err(FileError::Checksum { part }.into());
        }
        self.whole.update(&start);
        self.whole.combine(&of_pairs);
        self.blocks += 1;
        self.pairs += u64::from(pairs);
        self.is_done = false;
        Ok(Some(pairs as usize))
    }

    /// Checks the end record, of which the start was read.
    fn end(&mut self, start: [u8; BLOCK_START]) -> Result<(), FileError> {
        let (_, whole) = two_words(start);
        let mut pairs = [0; 8];
        self.bytes.fill(&mut pairs)?;
        let mut checksum = [0; END - BLOCK_START - 8];
        self.bytes.fill(&mut checksum)?;
        let mut of_end = Hasher::new();
        of_end.update(&start);
        of_end.update(&pairs);
        let part = if of_end.finalize().to_le_bytes() != checksum {
            FilePart::End
        } else if self.whole.clone().finalize() != whole {
            FilePart::Whole
        } else {
            let (found, expected) = (self.pairs, u64::from_le_bytes(pairs));
            if found != expected {
                return Err(FileError::Pairs { found, expected });
            }
            return match self.goes_on {
                true => Ok(()),
                false => self.bytes.expect_end(),
            };
        };
        Err(FileError::Checksum { part })
    }
}

/// The two words that begin a block.
fn two_words(bytes: [u8; BLOCK_START]) -> (u32, u32) {
    let both = u64::from_le_bytes(bytes);
    (both as u32, (both >> 32) as u32)
}

/// A reader that knows where it is.
#[derive(Debug)]
pub(super) struct Bytes<R> {
    reader: R,
    at: u64,
}

impl<R: Read> Bytes<R> {
    pub fn new(reader: R, at: u64) -> Self {
        Self { reader, at }
    }

    /// Reads as many bytes, all of them.
    pub fn fill(&mut self, mut bytes: &mut [u8]) -> Result<(), FileError> {
        while !bytes.is_empty() {
            let read = self.read(bytes)?;
            if read == 0 {
                return Err(FileError::Truncated { bytes: self.at });
            }
            bytes = &mut bytes[read..];
        }
        Ok(())
    }

    /// Reads as many elements, and adds them to a checksum.
    pub fn fill_pod<T: Pod>(
        &mut self,
        elements: &mut [T],
        checksum: &mut Hasher,
    ) -> Result<(), FileError> {
        let bytes = bytemuck::cast_slice_mut(elements);
        self.fill(bytes)?;
        checksum.update(bytes);
        Ok(())
    }

    fn expect_end(&mut self) -> Result<(), FileError> {
        let at = self.at;
        match self.read(&mut [0])? {
            0 => Ok(()),
            _ => Err(FileError::TrailingBytes { at }),
        }
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.reader.read(bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The code of `R` is foreign, and no number of it is believed either.
                Ok(read) if read > bytes.len() => {
                    return Err(io::Error::other(
                        "the reader says that it read more than it may",
                    ));
                }
                Ok(read) => {
                    self.at += read as u64;
                    return Ok(read);
                }
                failed => return failed,
            }
        }
    }
}
