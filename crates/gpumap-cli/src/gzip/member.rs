//! The parts of a gzip stream (RFC 1952), and the members that are read piece by piece.

use std::io::{self, Read};

use flate2::{Crc, Decompress, FlushDecompress, Status};

use super::GzipError;

/// Bytes behind the body of a member.
pub const TRAILER: usize = 8;

/// Bytes of a header at most: the field has 64 KiB at most, and the name and the comment of a file are short.
const MOST_HEADER: usize = 1 << 20;

/// Bytes that are read at once.
const BUFFER: usize = 1 << 18;

/// The header of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the header.
    pub len: usize,
    /// Bytes of the whole member, if a field says that.
    pub block: Option<usize>,
}

/// The header that `bytes` begin with; `None` if it goes on behind them.
pub fn header_of(bytes: &[u8]) -> Result<Option<Header>, GzipError> {
    const CHECKSUM: u8 = 2;
    const EXTRA: u8 = 4;
    const NAME: u8 = 8;
    const COMMENT: u8 = 16;
    const RESERVED: u8 = 0xe0;
    let magic = [0x1f, 0x8b, 8];
    let seen = bytes.len().min(magic.len());
    if bytes[..seen] != magic[..seen] {
        return Err(GzipError::Header);
    }
    let Some(&flags) = bytes.get(3) else {
        return Ok(None);
    };
    if flags & RESERVED != 0 {
        return Err(GzipError::Header);
    }
    let mut len = 10;
    let mut block = None;
    if flags & EXTRA != 0 {
        let Some(field) = bytes.get(len..len + 2) else {
            return Ok(None);
        };
        let end = len + 2 + usize::from(u16::from_le_bytes([field[0], field[1]]));
        let Some(field) = bytes.get(len + 2..end) else {
            return Ok(None);
        };
        block = block_of(field);
        len = end;
    }
    for text in [NAME, COMMENT] {
        if flags & text != 0 {
            let end = bytes.get(len..).and_then(|rest| memchr::memchr(0, rest));
            let Some(end) = end else {
                return Ok(None);
            };
            len += end + 1;
        }
    }
    if flags & CHECKSUM != 0 {
        let Some(checksum) = bytes.get(len..len + 2) else {
            return Ok(None);
        };
        let mut crc = Crc::new();
        crc.update(&bytes[..len]);
        if crc.sum() as u16 != u16::from_le_bytes([checksum[0], checksum[1]]) {
            return Err(GzipError::Header);
        }
        len += 2;
    }
    Ok((len <= bytes.len()).then_some(Header { len, block }))
}

/// Bytes of a block by the subfields of its header: the one of two bytes that is named BC says it, wherever it stands.
fn block_of(mut field: &[u8]) -> Option<usize> {
    while let [first, second, low, high, rest @ ..] = field {
        let len = usize::from(u16::from_le_bytes([*low, *high]));
        let value = rest.get(..len)?;
        if let ([b'B', b'C'], [low, high]) = ([*first, *second], value) {
            return Some(usize::from(u16::from_le_bytes([*low, *high])) + 1);
        }
        field = &rest[len..];
    }
    None
}

/// The checksum and the length, modulo 2^32, of what a member holds.
pub fn trailer_of(bytes: [u8; TRAILER]) -> (u32, u32) {
    let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    (word(0), word(4))
}

/// The stream, and what has been read of it and not been used.
pub struct Packed<R> {
    reader: R,
    bytes: Vec<u8>,
    at: usize,
    end: usize,
    has_ended: bool,
    /// Whether a member has begun.
    has_begun: bool,
}

impl<R: Read> Packed<R> {
    pub fn new(reader: R) -> Self {
        Self {
            reader,
            bytes: Vec::new(),
            at: 0,
            end: 0,
            has_ended: false,
            has_begun: false,
        }
    }

    /// The bytes that are not used, `least` or more unless the stream ends before.
    pub fn fill(&mut self, least: usize) -> io::Result<&[u8]> {
        self.read_on(least)?;
        Ok(&self.bytes[self.at..self.end])
    }

    fn read_on(&mut self, least: usize) -> io::Result<()> {
        while self.end - self.at < least && !self.has_ended {
            self.bytes.copy_within(self.at..self.end, 0);
            (self.at, self.end) = (0, self.end - self.at);
            if self.bytes.len() < self.end + BUFFER {
                self.bytes.resize(self.end + BUFFER, 0);
            }
            match self.reader.read(&mut self.bytes[self.end..]) {
                Ok(0) => self.has_ended = true,
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Uses so many bytes, which there are.
    pub fn skip(&mut self, bytes: usize) {
        self.at += bytes;
    }

    /// Puts bytes in front of those that are not used.
    pub fn put_back(&mut self, bytes: &[u8]) {
        let rest = &self.bytes[self.at..self.end];
        self.bytes = [bytes, rest].concat();
        (self.at, self.end) = (0, self.bytes.len());
    }

    /// The header that comes next, which is not used; `None` at the end of the stream.
    pub fn header(&mut self) -> io::Result<Option<Header>> {
        let mut least = 1;
        loop {
            self.read_on(least)?;
            let bytes = &self.bytes[self.at..self.end];
            if bytes.is_empty() {
                return Ok(None);
            }
            let known = bytes.len();
            match header_of(bytes) {
                Ok(Some(header)) => {
                    self.has_begun = true;
                    return Ok(Some(header));
                }
                Ok(None) if self.has_ended => return Err(GzipError::CutOff.into()),
                Ok(None) if known > MOST_HEADER => return Err(GzipError::Header.into()),
                Ok(None) => least = known + 1,
                Err(_) if self.has_begun && !bytes.starts_with(&[0x1f, 0x8b]) => {
                    return Err(GzipError::Trailing.into());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether zeros follow a member.
    pub fn is_at_zeros(&mut self) -> io::Result<bool> {
        Ok(self.has_begun && self.fill(1)?.first() == Some(&0))
    }

    /// Uses zeros to the end of the stream: tapes fill their last record with them.
    pub fn skip_zeros(&mut self) -> io::Result<()> {
        loop {
            let bytes = self.fill(1)?;
            let len = bytes.len();
            if bytes.iter().any(|&byte| byte != 0) {
                return Err(GzipError::Trailing.into());
            }
            if len == 0 {
                return Ok(());
            }
            self.skip(len);
        }
    }
}

/// A member behind its header.
pub struct Member {
    header: Header,
    inflate: Decompress,
    crc: Crc,
    has_ended: bool,
}

impl Member {
    /// One that nothing has been read of.
    pub fn new(header: Header) -> Self {
        Self {
            header,
            inflate: Decompress::new(false),
            crc: Crc::new(),
            has_ended: false,
        }
    }

    /// Whether it is a block with something in it, now that it has ended.
    pub fn is_full_block(&self) -> bool {
        let len = self.header.len as u64 + self.inflate.total_in() + TRAILER as u64;
        self.header.block.is_some_and(|block| block as u64 == len) && self.inflate.total_out() > 0
    }

    /// Whether all of it has been read, and is right.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Reads some bytes; none only at its end.
    pub fn read<R: Read>(&mut self, packed: &mut Packed<R>, bytes: &mut [u8]) -> io::Result<usize> {
        while !self.has_ended {
            let body = packed.fill(1)?;
            let is_last = body.is_empty();
            let (taken, made) = (self.inflate.total_in(), self.inflate.total_out());
            let status = self.inflate.decompress(body, bytes, FlushDecompress::None);
            let status = status.map_err(|_| GzipError::Data)?;
            let taken = (self.inflate.total_in() - taken) as usize;
            let made = (self.inflate.total_out() - made) as usize;
            packed.skip(taken);
            self.crc.update(&bytes[..made]);
            if status == Status::StreamEnd {
                self.check(packed)?;
                self.has_ended = true;
            }
            match made {
                0 if self.has_ended => {}
                0 if is_last => return Err(GzipError::CutOff.into()),
                0 if taken == 0 => return Err(GzipError::Data.into()),
                0 => {}
                made => return Ok(made),
            }
        }
        Ok(0)
    }

    /// Compares what was read with what the trailer says.
    fn check<R: Read>(&self, packed: &mut Packed<R>) -> io::Result<()> {
        let trailer = packed.fill(TRAILER)?.first_chunk::<TRAILER>();
        let (checksum, len) = trailer_of(*trailer.ok_or(GzipError::CutOff)?);
        if self.crc.sum() != checksum {
            return Err(GzipError::Checksum.into());
        }
        if self.crc.amount() != len {
            return Err(GzipError::Length.into());
        }
        packed.skip(TRAILER);
        Ok(())
    }
}
