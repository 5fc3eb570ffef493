//! Parsing pieces of FASTA and FASTQ into blocks of packed bases.
//!
//! The parser is our own because pieces may begin anywhere. In FASTA a line that begins with `>` begins a record and all
//! others are of its sequence; one that begins with `@` or `+` is an error, as no letter of a sequence is one of these, and
//! FASTQ may have been appended to FASTA. [`crate::fastq`] has the grammar of FASTQ. Both take blank lines anywhere,
//! and LF or CR LF as line ends.

#[cfg(test)]
pub mod tests;

use memchr::{memchr, memchr_iter};

use crate::fastq::{FourLines, LineKind, Record};
use crate::limit::LINE_END;
use crate::malformed::{Malformed, Problem};
use crate::packed::Block;
use crate::pieces::{Line, Start};

/// What a piece has, besides bases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// Records that begin in it.
    pub records: u64,
    /// Bases in it, other letters of sequences included.
    pub bases: u64,
    /// Line ends in it.
    pub lines: u64,
    /// Bytes of the record before the first that begins in it.
    pub head: u64,
    /// Bytes of the last record that begins in it.
    pub tail: u64,
    /// The first record that is too long of those that begin in it, from 1 on, the last one left out.
    pub too_long: Option<u64>,
}

impl Parsed {
    /// Counts a line, with its end or not.
    fn take_line(&mut self, has_end: bool) {
        self.lines += u64::from(has_end);
    }

    /// Counts so many bytes of a line of a record, with its end or not.
    fn take_bytes(&mut self, bytes: usize, has_end: bool) {
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
    /// It is no FASTA or FASTQ. Lines are counted from the beginning of the piece on.
    Malformed(Malformed),
    /// There are no more blocks.
    Blocks(E),
}

impl<E> From<Malformed> for Failure<E> {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

/// Parses a piece for k-mers of `k` bases into blocks. Records of more than `most` bytes are noted.
pub fn parse<B: Blocks>(
    bytes: &[u8],
    start: &Start,
    k: usize,
    most: u64,
    blocks: &mut B,
) -> Result<Parsed, Failure<B::Error>> {
    let mut packer = Packer {
        block: blocks.empty().map_err(Failure::Blocks)?,
        carry: k - 1,
        blocks,
    };
    let parsed = match start {
        Start::Fasta { line, carried } => parse_fasta(bytes, *line, carried, most, &mut packer),
        Start::Fastq => parse_fastq(bytes, most, &mut packer),
        Start::Blank => Ok(Parsed {
            lines: memchr_iter(b'\n', bytes).count() as u64,
            ..Parsed::default()
        }),
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
            Line::Start if matches!(first, b'@' | b'+') => {
                let malformed = Malformed {
                    line: parsed.lines + 1,
                    problem: Problem::FastqInFasta { first },
                };
                return Err(malformed.into());
            }
            Line::Name => {}
            Line::Start | Line::Sequence => parsed.bases += push_line(text, packer)?,
        }
        parsed.take_line(end.is_some());
        parsed.take_bytes(text.len(), end.is_some());
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
    most: u64,
    packer: &mut Packer<'_, B>,
) -> Result<Parsed, Failure<B::Error>> {
    let mut parsed = Parsed::default();
    let mut record = Record::default();
    let mut rest = bytes;
    while !rest.is_empty() {
        if record.is_between()
            && let Some(FourLines { letters, len }) = FourLines::first_of(rest)
        {
            parsed.begin(most);
            parsed.lines += 4;
            parsed.tail = len as u64 + 4 * (LINE_END - 1);
            parsed.bases += letters.len() as u64;
            packer.push_letters(letters)?;
            packer.push_break()?;
            rest = &rest[len..];
            continue;
        }
        let end = memchr(b'\n', rest);
        let (text, behind) = rest.split_at(end.unwrap_or(rest.len()));
        let was_between = record.is_between();
        let kind = record.take(text, parsed.lines + 1)?;
        match kind {
            LineKind::Name => parsed.begin(most),
            LineKind::Sequence(letters) => {
                parsed.bases += letters.len() as u64;
                packer.push_letters(letters)?;
            }
            LineKind::Separator => packer.push_break()?,
            LineKind::Qualities | LineKind::Blank => {}
        }
        parsed.take_line(end.is_some());
        // Blank lines between records are of none.
        if !was_between || kind == LineKind::Name {
            parsed.take_bytes(text.len(), end.is_some());
        }
        rest = behind.get(1..).unwrap_or_default();
    }
    record.end()?;
    Ok(parsed)
}
