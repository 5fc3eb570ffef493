//! Parsing pieces of FASTA and FASTQ into blocks of packed bases.
//!
//! The parser is our own because pieces may begin anywhere: it reads what needletail reads, with which its tests
//! compare it, and its errors are those of needletail.

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
    /// The record that `bytes` begin with, and what is behind it. `None` if only blank lines are left. There are so
    /// many lines before it.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kmer::{BREAK, KmerLength, Kmers, Strand, kmers_of};
    use crate::pieces::{CutError, Cutter};
    use gpumap::Device;
    use needletail::errors::ParseErrorKind;
    use needletail::parse_fastx_reader;
    use proptest::prelude::*;

    /// Blocks of so many elements; their k-mers are gathered.
    struct Gathered {
        size: usize,
        length: KmerLength,
        kmers: Vec<u64>,
    }

    impl Blocks for Gathered {
        type Error = ();

        fn empty(&mut self) -> Result<Block, ()> {
            Ok(Block::new(&Device::cpu(), self.size).unwrap())
        }

        fn full(&mut self, block: Block) -> Result<(), ()> {
            let kmers = Kmers::of_codes(block.codes(), self.length, Strand::AsRead);
            self.kmers.extend(kmers.map(|kmer| kmer.code()));
            Ok(())
        }
    }

    #[derive(Debug, PartialEq)]
    enum Outcome {
        Read {
            records: u64,
            bases: u64,
            kmers: Vec<u64>,
        },
        Failed(ParseError),
        TooLong(u64),
    }

    /// In pieces of `size` bytes.
    fn in_pieces(bytes: &[u8], size: usize, k: u8, most: u64) -> Outcome {
        let length = KmerLength::new(k).unwrap();
        let mut blocks = Gathered {
            size: size.clamp(64, 1000),
            length,
            kmers: Vec::new(),
        };
        let mut cutter = Cutter::new(bytes, size, length.get(), most);
        let mut ledger = crate::ledger::Ledger::new(most);
        let mut spare = Vec::new();
        loop {
            let piece = match cutter.next_piece(std::mem::take(&mut spare)) {
                Ok(Some(piece)) => piece,
                Ok(None) => break,
                Err(CutError::TooLong { record }) => return Outcome::TooLong(record),
                Err(CutError::UnknownFormat(first)) => {
                    return Outcome::Failed(ParseError::new_unknown_format(first));
                }
                Err(CutError::Empty) => return Outcome::Failed(ParseError::new_empty_file()),
                Err(CutError::Read(error)) => panic!("{error}"),
            };
            match parse(&piece, length.get(), most, &mut blocks) {
                Ok(parsed) => {
                    if let Err(record) = ledger.add(parsed) {
                        return Outcome::TooLong(record);
                    }
                }
                Err(Failure::Parse(error)) => return Outcome::Failed(error),
                Err(Failure::Blocks(())) => unreachable!(),
            }
            spare = piece.bytes;
        }
        let mut kmers = blocks.kmers;
        kmers.sort_unstable();
        let totals = ledger.totals();
        Outcome::Read {
            records: totals.records,
            bases: totals.bases,
            kmers,
        }
    }

    /// By needletail.
    fn whole(bytes: &[u8], k: u8) -> Outcome {
        let length = KmerLength::new(k).unwrap();
        let (mut records, mut bases, mut kmers) = (0, 0, Vec::new());
        let mut reader = match parse_fastx_reader(bytes) {
            Ok(reader) => reader,
            Err(error) => return Outcome::Failed(error),
        };
        while let Some(record) = reader.next() {
            let record = match record {
                Ok(record) => record,
                // A last record without a sequence.
                Err(error)
                    if error.kind == ParseErrorKind::UnexpectedEnd
                        && error.format == Some(Format::Fasta) =>
                {
                    records += 1;
                    break;
                }
                Err(error) => return Outcome::Failed(error),
            };
            let sequence = record.seq();
            records += 1;
            bases += sequence.len() as u64;
            kmers.extend(kmers_of(&sequence, length, Strand::AsRead).map(|kmer| kmer.code()));
        }
        kmers.sort_unstable();
        Outcome::Read {
            records,
            bases,
            kmers,
        }
    }

    const NO_LIMIT: u64 = 1 << 30;

    #[test]
    fn pieces_that_end_at_every_byte() {
        let fasta = b">a x\nACGTNACGTTACG\r\nTT\rNACCA\n\n\n>b>c\r\nACGTAG\r\n>\n>c\n>d\nAGGATTAC";
        let fastq = b"@a b\nACGTTACGATTNA\n+\n@@@@@@@+@@@@@\n@b\nGGCAT\n+b\n@IIII\r\n@c\r\n\r\n+\n\n@d\nAC\n+\nII";
        for text in [&fasta[..], fastq] {
            for len in 0..text.len() {
                for k in [1, 2, 3, 7, 32] {
                    let text = &text[..len];
                    let expected = whole(text, k);
                    for size in 1..=len + 1 {
                        assert_eq!(in_pieces(text, size, k, NO_LIMIT), expected, "{size}, {k}");
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn fasta_is_what_needletail_reads(
            text in ">[ab> \n]{0,9}\n([ACGTacgt]{0,40}[NRx>\r -]?\r?\n{0,3}(>[a-z>]{0,5}\r?\n)?){0,12}",
            size in 1usize..200,
            k in 1u8..=32,
        ) {
            let text = text.as_bytes();
            prop_assert_eq!(in_pieces(text, size, k, NO_LIMIT), whole(text, k));
        }

        #[test]
        fn fastq_is_what_needletail_reads(
            records in prop::collection::vec(("@[a ]{0,3}", "[ACGTN]{0,90}", "[+@IH]", 0u8..40), 0..9),
            end in "\n{0,6}@?[ACGT]{0,9}(\n[+A]?)?",
            size in 1usize..200,
            k in 1u8..=32,
        ) {
            let mut text = String::from("@r\nACGT\n+\n@@@@\n");
            for (name, letters, quality, break_it) in records {
                let (plus, end) = match break_it {
                    0 => ("x", ""),
                    1 => ("+", "I"),
                    2 => ("+x", "\r"),
                    _ => ("+", ""),
                };
                let qualities = quality.repeat(letters.len());
                text += &format!("{name}\n{letters}\n{plus}\n{qualities}{end}\n");
            }
            text += &end;
            let text = text.as_bytes();
            prop_assert_eq!(in_pieces(text, size, k, NO_LIMIT), whole(text, k));
        }
    }

    /// The record that is refused, if one is, whatever the pieces.
    fn refused(text: &str, most: u64) -> Option<u64> {
        let outcomes =
            [1, 2, 3, 7, 1000].map(|size| match in_pieces(text.as_bytes(), size, 2, most) {
                Outcome::TooLong(record) => Some(record),
                Outcome::Read { .. } => None,
                Outcome::Failed(error) => panic!("{error}"),
            });
        assert_eq!(outcomes, [outcomes[0]; 5], "{text:?}");
        outcomes[0]
    }

    #[test]
    fn records_are_measured_one_by_one() {
        let fasta = ">a\nACGT\n>b\nAC\nGT>\n>c\nA";
        // 8 bytes with two line ends, 10 with three, 4 with one.
        assert_eq!(refused(fasta, 31), None);
        assert_eq!(refused(fasta, 30), Some(2));
        assert_eq!(refused(fasta, 22), Some(2));
        assert_eq!(refused(fasta, 21), Some(1));
        assert_eq!(refused(&fasta[18..], 11), None);
        assert_eq!(refused(&fasta[18..], 10), Some(1));
        let fastq = "@a\nACGT\n+\n@>II\n@b\nACGTACGT\n+\nIIIIIIII\n";
        assert_eq!(refused(fastq, 23 + 28), None);
        assert_eq!(refused(fastq, 22 + 28), Some(2));
        assert_eq!(refused(fastq, 14 + 28), Some(1));
    }

    #[test]
    fn a_record_longer_than_blocks_has_all_its_kmers() {
        let letters: String = "ACGTTGCAAC".repeat(500);
        let text = format!("@r\n{letters}\n+\n{}\n", "I".repeat(letters.len()));
        assert_eq!(
            in_pieces(text.as_bytes(), 100, 21, NO_LIMIT),
            whole(text.as_bytes(), 21)
        );
        assert_eq!(crate::kmer::code_of(b'N'), BREAK);
    }
}
