//! [`PageFile`]: a Parquet file of which no page is read that is too large, or that claims to become larger
//! than its bytes can.
//!
//! The library allocates what a page header says before it looks at the page. It reads the header through
//! [`ChunkReader::get_read`], and then the page by [`ChunkReader::get_bytes`]: between the two the header is looked
//! at here.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

/// Bytes of a page header at most; the statistics in it are a few numbers.
const MOST_HEADER: usize = 1 << 20;

/// Bytes that Snappy makes of one at most: it copies 64 bytes by three.
const MOST_RATIO: u64 = 22;
/// And of none.
const SPARE: u64 = 64;

/// Structures inside each other at most.
const MOST_DEPTH: u32 = 8;

type Header = Arc<Mutex<Vec<u8>>>;

/// The pages of a column of a file.
pub struct PageFile {
    file: File,
    /// Bytes of a page at most.
    most: u64,
    /// Whether a page is at most [`MOST_RATIO`] times as large as its bytes in the file.
    is_bounded: bool,
    /// What was read since the last page: its header.
    header: Header,
}

impl PageFile {
    /// A file whose pages have at most so many bytes. Those of a compression without a bound are not unpacked by the
    /// library, which then does not use their sizes.
    pub fn new(file: File, most: u64, is_bounded: bool) -> Self {
        let header = Header::default();
        Self {
            file,
            most,
            is_bounded,
            header,
        }
    }
}

/// A page with more bytes than allowed.
#[derive(Debug)]
pub struct PageTooLarge {
    /// Bytes that it has, or takes.
    pub bytes: u64,
}

impl fmt::Display for PageTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a page takes {} bytes", self.bytes)
    }
}

impl std::error::Error for PageTooLarge {}

impl Length for PageFile {
    fn len(&self) -> u64 {
        self.file.len()
    }
}

impl ChunkReader for PageFile {
    type T = HeaderReader;

    fn get_read(&self, start: u64) -> Result<HeaderReader, ParquetError> {
        Ok(HeaderReader {
            reader: self.file.get_read(start)?,
            header: Arc::clone(&self.header),
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let header = std::mem::take(&mut *lock(&self.header));
        let length_of_page = length as u64;
        let end = start.checked_add(length_of_page);
        if end.is_none_or(|end| end > self.len()) {
            return Err(ParquetError::EOF("a page ends behind the file".to_owned()));
        }
        let claimed = Claims::of(&header).ok_or_else(damaged)?;
        let bytes = claimed.bytes.max(length_of_page);
        if bytes > self.most {
            return Err(ParquetError::External(Box::new(PageTooLarge { bytes })));
        }
        let possible = length_of_page.saturating_mul(MOST_RATIO) + SPARE;
        // A value of a dictionary has four bytes at least.
        if self.is_bounded && (claimed.bytes > possible || claimed.dictionary > possible / 4) {
            return Err(damaged());
        }
        self.file.get_bytes(start, length)
    }
}

fn damaged() -> ParquetError {
    ParquetError::General("a page header claims what its page cannot hold".to_owned())
}

fn lock(header: &Header) -> std::sync::MutexGuard<'_, Vec<u8>> {
    header.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads a page header, and keeps what was read.
pub struct HeaderReader {
    reader: BufReader<File>,
    header: Header,
}

impl Read for HeaderReader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(bytes)?;
        let mut header = lock(&self.header);
        if header.len() + read > MOST_HEADER {
            return Err(io::Error::other("a page header is too long"));
        }
        header.extend_from_slice(&bytes[..read]);
        Ok(read)
    }
}

/// What page headers claim: numbers that the library allocates memory for.
#[derive(Debug, Default, PartialEq)]
struct Claims {
    /// Bytes of the page when it is no longer compressed.
    bytes: u64,
    /// Values of a dictionary.
    dictionary: u64,
}

impl Claims {
    /// The largest claims of some headers; none if they are damaged.
    fn of(headers: &[u8]) -> Option<Self> {
        let mut claims = Self::default();
        let mut compact = Compact(headers);
        while !compact.0.is_empty() {
            // `PageHeader` of the format: 2 is `uncompressed_page_size`, 7 `dictionary_page_header`, and
            // in that 1 is `num_values`.
            compact.structure(MOST_DEPTH, 0, &mut |outer, field, number| {
                // The library takes the lower half, whatever the upper one is.
                let number = number.max(i64::from(number as i32));
                let number = u64::try_from(number).unwrap_or(0);
                match (outer, field) {
                    (0, 2) => claims.bytes = claims.bytes.max(number),
                    (7, 1) => claims.dictionary = claims.dictionary.max(number),
                    _ => {}
                }
            })?;
        }
        Some(claims)
    }
}

/// Thrift's compact protocol, as far as page headers need it.
struct Compact<'a>(&'a [u8]);

impl Compact<'_> {
    fn skip(&mut self, bytes: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(bytes).ok()?..)?;
        Some(())
    }

    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    fn unsigned(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let number = self.unsigned()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// Reports the integers of a structure, and structures in it: the field of the structure that they are in, or
    /// 0, and their own.
    fn structure(
        &mut self,
        depth: u32,
        outer: i64,
        tell: &mut impl FnMut(i64, i64, i64),
    ) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        let mut field = 0;
        loop {
            let begin = self.byte()?;
            if begin == 0 {
                return Some(());
            }
            field = match begin >> 4 {
                0 => self.signed()?,
                ahead => field + i64::from(ahead),
            };
            match begin & 0xf {
                // The boolean itself.
                1 | 2 => {}
                3 => self.skip(1)?,
                4..=6 => tell(outer, field, self.signed()?),
                7 => self.skip(8)?,
                8 => {
                    let bytes = self.unsigned()?;
                    self.skip(bytes)?;
                }
                12 => self.structure(depth, field, tell)?,
                // Lists, sets and maps: no page header has any.
                _ => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_found_wherever_they_are() {
        let claims = |bytes, dictionary| Some(Claims { bytes, dictionary });
        // A data page of 800 bytes with statistics that are a text of five bytes, and a dictionary.
        let data = b"\x15\0\x15\xc0\x0c\x15\x50\x2c\x15\x0a\x15\0\x15\0\x1c\x58\x05hello\0\0\0";
        let dictionary = b"\x15\x04\x15\x20\x15\x20\x4c\x15\x06\x15\x04\x12\0\0";
        assert_eq!(Claims::of(data), claims(800, 0));
        assert_eq!(Claims::of(dictionary), claims(16, 3));
        assert_eq!(
            Claims::of(&[&data[..], dictionary].concat()),
            claims(800, 3)
        );
        assert_eq!(Claims::of(b""), claims(0, 0));
        // By its number, after others, and twice.
        assert_eq!(
            Claims::of(b"\x05\x06\x02\x05\x04\x64\x05\x04\x02\0"),
            claims(50, 0)
        );
        // 2^32 + 3 is 3 to the library, and its opposite is 2^32 - 3.
        assert_eq!(
            Claims::of(b"\x25\x86\x80\x80\x80\x20\0"),
            claims((1 << 32) + 3, 0)
        );
        assert_eq!(
            Claims::of(b"\x25\x81\x80\x80\x80\x10\0"),
            claims(i32::MAX as u64, 0)
        );
    }

    #[test]
    fn headers_that_are_damaged_are_none() {
        let data = b"\x15\0\x15\xc0\x0c\x15\x50\x2c\x15\x0a\x15\0\x15\0\0\0";
        for len in 1..data.len() {
            assert_eq!(Claims::of(&data[..len]), None, "{len}");
        }
        let deep = [vec![0x1c; 100], vec![0; 101]].concat();
        assert_eq!(Claims::of(&deep), None);
        assert_eq!(Claims::of(b"\x19\x25\0\0"), None);
        assert_eq!(Claims::of(&[0x15; 1].repeat(3)), None);
        assert_eq!(Claims::of(&[b"\x15" as &[u8], &[0xff; 11]].concat()), None);
    }
}
