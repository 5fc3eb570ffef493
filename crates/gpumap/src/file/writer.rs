//! [`Writer`]: pairs to bytes.

use std::io::Write;
use std::marker::PhantomData;

use crc32fast::Hasher;

use super::{END, FileError, Header, MAX_BLOCK_PAIRS};
#[cfg(doc)]
use crate::error::Error;
use crate::error::{Result, expect_same_len};
use crate::map::{Key, Value};

/// Writes pairs as a saved map.
///
/// Nothing is buffered: blocks go to `W` as they come, in one write for the keys and one for the
/// values. What was written is a saved map only after [`finish`](Self::finish).
#[derive(Debug)]
pub struct Writer<K: Key, V: Value, W: Write> {
    writer: W,
    /// Of all bytes so far.
    whole: Hasher,
    pairs: u64,
    _pair: PhantomData<fn(K) -> V>,
}

impl<K: Key, V: Value, W: Write> Writer<K, V, W> {
    /// Begins with the header, which must be of these types.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn new(writer: W, header: &Header) -> Result<Self> {
        header.expect::<K, V>()?;
        let mut this = Self {
            writer,
            whole: Hasher::new(),
            pairs: 0,
            _pair: PhantomData,
        };
        this.put(&header.encode())?;
        Ok(this)
    }

    /// Adds pairs, as many as one likes. No key should come twice in a file.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`], [`Error::File`].
    pub fn write(&mut self, keys: &[K], values: &[V]) -> Result<()> {
        expect_same_len(keys.len(), values.len())?;
        let blocks = keys
            .chunks(MAX_BLOCK_PAIRS)
            .zip(values.chunks(MAX_BLOCK_PAIRS));
        for (keys, values) in blocks {
            self.write_block(keys, values)?;
        }
        Ok(())
    }

    fn write_block(&mut self, keys: &[K], values: &[V]) -> Result<(), FileError> {
        let pairs = (keys.len() as u32).to_le_bytes();
        let (keys, values) = (bytemuck::cast_slice(keys), bytemuck::cast_slice(values));
        let mut of_pairs = Hasher::new();
        of_pairs.update(keys);
        of_pairs.update(values);
        self.put(&pairs)?;
        self.put(&of_pairs.clone().finalize().to_le_bytes())?;
        self.writer.write_all(keys)?;
        self.writer.write_all(values)?;
        // So that every byte is looked at once, and not twice.
        self.whole.combine(&of_pairs);
        self.pairs += u64::from(u32::from_le_bytes(pairs));
        Ok(())
    }

    /// Ends with the end record, and gives back what was written to, flushed.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn finish(mut self) -> Result<W> {
        let mut end = [0; END];
        end[4..8].copy_from_slice(&self.whole.clone().finalize().to_le_bytes());
        end[8..16].copy_from_slice(&self.pairs.to_le_bytes());
        let checksum = crc32fast::hash(&end[..16]);
        end[16..].copy_from_slice(&checksum.to_le_bytes());
        self.put(&end)?;
        self.writer.flush().map_err(FileError::Io)?;
        Ok(self.writer)
    }

    /// How many pairs were written.
    pub fn pairs(&self) -> u64 {
        self.pairs
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        self.whole.update(bytes);
        Ok(self.writer.write_all(bytes)?)
    }
}
