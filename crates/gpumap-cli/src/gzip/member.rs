//! The parts of a gzip stream (RFC 1952), and the members that are read piece by piece.

use std::io::{self, Read};

use flate2::{Crc, Decompress, FlushDecompress, Status};

use super::GzipError;
use crate::stream::Packed;

/// Bytes behind the body of a member.
pub const TRAILER: usize = 8;

/// Bytes of a header at most: the field has 64 KiB at most, and the name and the comment of a file are short.
const MOST_HEADER: usize = 1 << 20;

/// A block without bytes of the fixed codes: not the last, and the code of its end.
const FIXED_EMPTY_BLOCK: u128 = 0b010;
const FIXED_EMPTY_BLOCK_BITS: u32 = 10;

/// A block without bytes whose number of bits is odd. It has codes of its own, whose lengths are written in a code of two
/// symbols: 0 stands for the length 1, and 1 for the length 0, as often as the next 7 bits and 11 more say.
const EMPTY_BLOCK: u128 = {
    let codes_of_lengths = 0b10 << 1 | 15 << 13 | 1 << 23 | 1 << 68;
    // 256 letters without a code; the end of the block and a distance have one of one bit.
    codes_of_lengths | (1 | 127 << 1) << 74 | (1 | 107 << 1) << 82
};
const EMPTY_BLOCK_BITS: u32 = 93;

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

/// The header that comes next, which is not used; `None` at the end of the stream. `has_begun` says whether there was a member
/// before.
pub fn next_header<R: Read>(packed: &mut Packed<R>, has_begun: bool) -> io::Result<Option<Header>> {
    let mut least = 1;
    loop {
        let bytes = packed.fill(least)?;
        let known = bytes.len();
        if known == 0 {
            return Ok(None);
        }
        match header_of(bytes) {
            Ok(Some(header)) => return Ok(Some(header)),
            Ok(None) if known < least => return Err(GzipError::CutOff.into()),
            Ok(None) if known > MOST_HEADER => return Err(GzipError::Header.into()),
            Ok(None) => least = known + 1,
            Err(_) if has_begun && !bytes.starts_with(&[0x1f, 0x8b]) => {
                return Err(GzipError::Trailing.into());
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Uses zeros to the end of the stream: tapes fill their last record with them.
pub fn skip_zeros<R: Read>(packed: &mut Packed<R>) -> io::Result<()> {
    loop {
        let bytes = packed.fill(1)?;
        let len = bytes.len();
        if bytes.iter().any(|&byte| byte != 0) {
            return Err(GzipError::Trailing.into());
        }
        if len == 0 {
            return Ok(());
        }
        packed.skip(len);
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

    /// The rest of a member, from a bit of the next byte on. Its window and the checksum of what it holds so far are known.
    pub fn resume<R: Read>(
        packed: &mut Packed<R>,
        bit: u32,
        window: &[u8],
        crc: Crc,
    ) -> io::Result<Self> {
        let mut inflate = Decompress::new(false);
        // As a stream that has come to the same place: a block with the window as it is, and empty ones that end at the bit.
        let len = window.len() as u16;
        let mut before = vec![0];
        before.extend_from_slice(&len.to_le_bytes());
        before.extend_from_slice(&(!len).to_le_bytes());
        before.extend_from_slice(window);
        let (mut last, mut bits) = (0_u128, 0);
        if bit % 2 == 1 {
            (last, bits) = (EMPTY_BLOCK, EMPTY_BLOCK_BITS);
        }
        while bits % 8 != bit {
            last |= FIXED_EMPTY_BLOCK << bits;
            bits += FIXED_EMPTY_BLOCK_BITS;
        }
        if bit > 0
            && let Some(&byte) = packed.fill(1)?.first()
        {
            last |= u128::from(byte >> bit) << bits;
            packed.skip(1);
        }
        before.extend_from_slice(&last.to_le_bytes()[..bits.div_ceil(8) as usize]);
        let mut known = Vec::with_capacity(window.len() + 1);
        let mut rest = &before[..];
        while !rest.is_empty() {
            let used = inflate.total_in();
            let flush = FlushDecompress::None;
            let status = inflate.decompress_vec(rest, &mut known, flush);
            status.map_err(|_| GzipError::Data)?;
            let used = (inflate.total_in() - used) as usize;
            if used == 0 {
                return Err(GzipError::Data.into());
            }
            rest = &rest[used..];
        }
        Ok(Self {
            header: Header {
                len: 0,
                block: None,
            },
            inflate,
            crc,
            has_ended: false,
        })
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
                check(packed, &self.crc)?;
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
}

/// Compares what a member holds with what the trailer says, which comes next.
pub fn check<R: Read>(packed: &mut Packed<R>, crc: &Crc) -> io::Result<()> {
    let trailer = packed.fill(TRAILER)?.first_chunk::<TRAILER>();
    let (checksum, len) = trailer_of(*trailer.ok_or(GzipError::CutOff)?);
    if crc.sum() != checksum {
        return Err(GzipError::Checksum.into());
    }
    if crc.amount() != len {
        return Err(GzipError::Length.into());
    }
    packed.skip(TRAILER);
    Ok(())
}
