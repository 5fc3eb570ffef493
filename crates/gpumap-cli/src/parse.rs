//! Parsing pieces of FASTA and FASTQ into blocks of packed bases.
//!
//! The parser is our own because pieces may begin anywhere: it reads what needletail reads, with which its tests
//! compare it, and its errors are those of needletail.

#[cfg(test)]
mod tests;

use memchr::memchr;
use needletail::errors::{ErrorPosition, ParseError};
use needletail::parser::Format;

use crate::limit::LINE_END;
use crate::packed::Block;
use crate::pieces::{Line, Piece, Start};

/// What a piece has, besides bases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// Records that begin in it.
    pub records: u64,
    /// Bases in it, other letters of sequences included.
    pub bases: u64,
    /// Bytes of the record before the first that begins in it.
    pub head: u64,
    /// Bytes of the last record that begins in it.
    pub tail: u64,
    /// The first record that is too long of those that begin in it, from 1 on, the last one left out.
    pub too_long: Option<u64>,
}

impl Parsed {
    /// Counts so many bytes of a line, with its end or not.
    fn take_line(&mut self, bytes: usize, has_end: bool) {
        let bytes = bytes as u64 + if has_end { LINE_END } else { 0 };
        match self.records {
            0 => self.head += bytes,
            _ => self.tail += bytes,
        }
    }

    /// Begins a record.
    fn begin(&mut self, most: u64) {
        if self.tail > most && self.too_long.is_none() {
            self.too_long = Some(self.records);
        }
        self.records += 1;
        self.tail = 0;
    }
}

/// Where empty blocks come from and full ones go.
pub trait Blocks {
    /// Why there are no more.
    type Error;
    /// An empty block, with room for more elements than a k-mer has.
    fn empty(&mut self) -> Result<Block, Self::Error>;
    /// Takes a sealed block.
    fn full(&mut self, block: Block) -> Result<(), Self::Error>;
}

/// Why a piece was not parsed.
#[derive(Debug)]
pub enum Failure<E> {
    /// It is no FASTA or FASTQ.
    Parse(ParseError),
    /// There are no more blocks.
    Blocks(E),
}

impl<E> From<ParseError> for Failure<E> {
    fn from(error: ParseError) -> Self {
        Self::Parse(error)
    }
}

/// Parses a piece for k-mers of `k` bases into blocks. Records of more than `most` bytes are noted.
pub fn parse<B: Blocks>(
    piece: &Piece,
    k: usize,
    most: u64,
    blocks: &mut B,
) -> Result<Parsed, Failure<B::Error>> {
    let mut packer = Packer {
        block: blocks.empty().map_err(Failure::Blocks)?,
        carry: k - 1,
        blocks,
    };
    let parsed = match &piece.start {
        Start::Fasta { line, carried } => {
            parse_fasta(&piece.bytes, *line, carried, most, &mut packer)
        }
        Start::Fastq { lines } => parse_fastq(&piece.bytes, *lines, most, &mut packer),
    }?;
    packer.end().map_err(Failure::Blocks)?;
    Ok(parsed)
}

/// Packs bases into blocks, of which each begins with the end of the one before.
struct Packer<'a, B> {
    block: Block,
    carry: usize,
    blocks: &'a mut B,
}

impl<B: Blocks> Packer<'_, B> {
    /// Appends letters of a sequence.
    fn push_letters(&mut self, mut letters: &[u8]) -> Result<(), Failure<B::Error>> {
        while letters.len() > self.block.room() {
            let (now, later) = letters.split_at(self.block.room());
            self.block.push_letters(now);
            self.next_block()?;
            letters = later;
        }
        self.block.push_letters(letters);
        Ok(())
    }

    /// Ends a sequence.
    fn push_break(&mut self) -> Result<(), Failure<B::Error>> {
        if self.block.room() == 0 {
            self.next_block()?;
        }
        self.block.push_break();
        Ok(())
    }

    fn next_block(&mut self) -> Result<(), Failure<B::Error>> {
        let mut next = self.blocks.empty().map_err(Failure::Blocks)?;
        next.push_tail_of(&self.block, self.carry);
        let full = std::mem::replace(&mut self.block, next);
        self.hand_over(full).map_err(Failure::Blocks)
    }

    fn hand_over(&mut self, mut block: Block) -> Result<(), B::Error> {
        block.seal();
        self.blocks.full(block)
    }

    fn end(self) -> Result<(), B::Error> {
        let Self {
            mut block, blocks, ..
        } = self;
        block.seal();
        blocks.full(block)
    }
}

fn parse_fasta<B: Blocks>(
    bytes: &[u8],
    line: Line,
    carried: &[u8],
    most: u64,
    packer: &mut Packer<'_, B>,
) -> Result<Parsed, Failure<B::Error>> {
    let mut parsed = Parsed::default();
    packer.push_letters(carried)?;
    let mut rest = bytes;
    let mut line = line;
    while let Some(&first) = rest.first() {
        let end = memchr(b'\n', rest);
        let (text, behind) = rest.split_at(end.unwrap_or(rest.len()));
        match line {
            Line::Start if first == b'>' => {
                parsed.begin(most);
                packer.push_break()?;
            }
            Line::Name => {}
            Line::Start | Line::Sequence => parsed.bases += push_line(text, packer)?,
        }
        parsed.take_line(text.len(), end.is_some());
        rest = behind.get(1..).unwrap_or_default();
        line = Line::Start;
    }
    Ok(parsed)
}

/// Appends a line of a sequence, from which carriage returns are left out. Returns how many letters it has.
fn push_line<B: Blocks>(
    mut text: &[u8],
    packer: &mut Packer<'_, B>,
) -> Result<u64, Failure<B::Error>> {
    let mut letters = 0;
    while let Some(at) = memchr(b'\r', text) {
        packer.push_letters(&text[..at])?;
        letters += at as u64;
        text = &text[at + 1..];
    }
    packer.push_letters(text)?;
    Ok(letters + text.len() as u64)
}

fn parse_fastq<B: Blocks>(
    bytes: &[u8],
    mut lines: u64,
    most: u64,
    packer: &mut Packer<'_, B>,
) -> Result<Parsed, Failure<B::Error>> {
    let mut parsed = Parsed::default();
    let mut rest = bytes;
    while !rest.is_empty() {
        let Some((record, behind)) = Record::first_of(rest, lines)? else {
            break;
        };
        parsed.begin(most);
        // Four lines, the last of which may end with the input.
        let text = rest.len() - behind.len();
        let ends = if rest[text - 1] == b'\n' && record.has_end {
            4
        } else {
            3
        };
        parsed.tail = text as u64 + ends * (LINE_END - 1);
        parsed.bases += record.letters.len() as u64;
        packer.push_letters(record.letters)?;
        packer.push_break()?;
        lines += 4;
        rest = behind;
    }
    Ok(parsed)
}

/// A record of FASTQ.
struct Record<'a> {
    letters: &'a [u8],
    has_end: bool,
}

impl<'a> Record<'a> {
    /// The record that `bytes` begin with, and what is after it. `None` if only blank lines are left. There are
    /// so many lines before it.
    fn first_of(bytes: &'a [u8], lines: u64) -> Result<Option<(Self, &'a [u8])>, ParseError> {
        let position = |line: u64, id: Option<&[u8]>| ErrorPosition {
            line: lines + 1 + line,
            id: id.map(|id| String::from_utf8_lossy(id).into_owned()),
        };
        let id = |end: usize| {
            let name = (end > 0).then(|| trim_cr(&bytes[1..end]));
            name.map(|name| name.split(|&byte| byte == b' ').next().unwrap_or_default())
        };
        let mut ends = [0; 3];
        let mut at = 0;
        for line in 0..ends.len() {
            let Some(end) = memchr(b'\n', &bytes[at..]) else {
                let mut left = bytes.split(|&byte| byte == b'\n');
                if left.all(|line| trim_cr(line).is_empty()) {
                    return Ok(None);
                }
                let id = if line > 0 { id(ends[0]) } else { None };
                let position = position(line as u64, id);
                return Err(ParseError::new_unexpected_end(position, Format::Fastq));
            };
            ends[line] = at + end;
            at += end + 1;
        }
        let end = memchr(b'\n', &bytes[at..]).map(|end| at + end);
        if bytes[0] != b'@' {
            let position = position(0, None);
            return Err(ParseError::new_invalid_start(
                bytes[0],
                position,
                Format::Fastq,
            ));
        }
        let [name, sequence, separator] = ends;
        let first = bytes[sequence + 1];
        if first != b'+' {
            let position = position(2, id(name));
            return Err(ParseError::new_invalid_separator(first, position));
        }
        let letters = trim_cr(&bytes[name + 1..sequence]);
        let qualities = trim_cr(&bytes[separator + 1..end.unwrap_or(bytes.len())]);
        if letters.len() != qualities.len() {
            let (letters, qualities) = (letters.len(), qualities.len());
            let position = position(0, id(name));
            return Err(ParseError::new_unequal_length(letters, qualities, position));
        }
        let record = Self {
            letters,
            has_end: end.is_some(),
        };
        Ok(Some((record, end.map_or(&[], |end| &bytes[end + 1..]))))
    }
}

/// A line without the carriage return at its end.
fn trim_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}
