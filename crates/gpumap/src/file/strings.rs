//! [`StringWriter`] and [`StringReader`]: strings and their rows to bytes, and back.
//!
//! Blocks have the lengths of strings in front of rows and bytes. Memory grows with the bytes that come, whatever lengths say.

use std::io::{Read, Write};

use super::reader::{Blocks, Bytes};
use super::{FileError, Frame, Header};
use crate::error::{Result, expect_same_len};
use crate::memory::{fallible, host_collect, host_is_full, host_vec, host_zeroed};
use crate::strings::Strings;

use crc32fast::Hasher;

/// Bytes of strings that are made room for before any of them has come.
const STEP_BYTES: usize = 1 << 20;

/// Writes strings with their rows.
#[derive(Debug)]
pub(crate) struct StringWriter<W: Write> {
    writer: W,
    frame: Frame,
}

impl<W: Write> StringWriter<W> {
    /// Begins with the header, which must be of strings.
    pub fn new(mut writer: W, header: &Header) -> Result<Self> {
        header.expect_strings()?;
        let (frame, bytes) = Frame::begin(header);
        writer.write_all(&bytes).map_err(FileError::from)?;
        Ok(Self { writer, frame })
    }

    /// Writes a block of strings, one at least and [`MAX_BLOCK_PAIRS`](super::MAX_BLOCK_PAIRS) at most.
    pub fn write(&mut self, strings: &Strings, rows: &[u32]) -> Result<()> {
        expect_same_len(strings.len(), rows.len())?;
        // No string of a map is longer.
        let lens: Vec<u32> = host_collect(strings.iter().map(|string| string.len() as u32))?;
        let (lens, rows) = (bytemuck::cast_slice(&lens), bytemuck::cast_slice(rows));
        let columns = [lens, rows, strings.bytes()];
        self.frame.write(&mut self.writer, strings.len(), &columns)
    }

    /// Ends with the end record. Returns how many strings were written.
    pub fn finish(mut self) -> Result<u64> {
        self.frame.finish(&mut self.writer)?;
        Ok(self.frame.pairs())
    }
}

/// Reads strings with their rows, block by block, as a [`Reader`](super::Reader) reads pairs.
#[derive(Debug)]
pub(crate) struct StringReader<R: Read> {
    blocks: Blocks<R>,
}

impl<R: Read> StringReader<R> {
    /// Goes on after a header that [`Header::read`] has read.
    pub fn after_header(reader: R, header: &Header) -> Result<Self> {
        header.expect_strings()?;
        Ok(Self {
            blocks: Blocks::after_header(reader, header),
        })
    }

    /// The strings of the next block and their rows; none at the end, where the file is known to be whole. After an error there is
    /// no more.
    pub fn next_block(&mut self) -> Result<Option<(Strings, Vec<u32>)>> {
        let mut block = None;
        self.blocks.next(|bytes, len, checksum| {
            let (mut lens, mut rows) = (host_zeroed::<u32>(len)?, host_zeroed(len)?);
            bytes.fill_pod(&mut lens, checksum)?;
            bytes.fill_pod(&mut rows, checksum)?;
            let mut offsets = host_vec(len + 1)?;
            offsets.push(0);
            // 2^20 strings of less than 2^32 bytes.
            let mut end = 0;
            offsets.extend(lens.iter().map(|&len| {
                end += i64::from(len);
                end
            }));
            let strings = Strings::of(offsets, bytes_of(bytes, end as u64, checksum)?);
            block = Some((strings, rows));
            Ok(())
        })?;
        Ok(block)
    }
}

/// Reads so many bytes, and adds them to a checksum. Makes room for twice of what has come at most, or for a first step.
fn bytes_of(from: &mut Bytes<impl Read>, len: u64, checksum: &mut Hasher) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    while (all.len() as u64) < len {
        let there = all.len();
        let left = usize::try_from(len - there as u64).unwrap_or(usize::MAX);
        let end = there + left.min(there.max(STEP_BYTES));
        let room = fallible(|| all.try_reserve_exact(end - there));
        room.map_err(|_| host_is_full(end))?;
        all.resize(end, 0);
        from.fill_pod(&mut all[there..], checksum)?;
    }
    Ok(all)
}
