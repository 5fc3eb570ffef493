use super::*;
use crate::kmer::{BREAK, KmerLength, Kmers, MAX_LENGTH, Strand, kmers_of};
use crate::pieces::{CutError, Cutter};
use gpumap::Device;
use needletail::errors::ParseErrorKind;
use needletail::parse_fastx_reader;
use proptest::prelude::*;

/// Blocks of so many elements; their k-mers are gathered.
struct Gathered {
    size: usize,
    length: KmerLength,
    kmers: Vec<u128>,
}

impl Blocks for Gathered {
    type Error = ();

    fn empty(&mut self) -> Result<Block, ()> {
        Ok(Block::new(&Device::cpu(), self.size).unwrap())
    }

    fn full(&mut self, block: Block) -> Result<(), ()> {
        let kmers = Kmers::<_, u128>::of_codes(block.codes(), self.length, Strand::AsRead);
        self.kmers.extend(kmers);
        Ok(())
    }
}

#[derive(Debug, PartialEq)]
enum Outcome {
    Read {
        records: u64,
        bases: u64,
        kmers: Vec<u128>,
    },
    Failed(ParseError),
    TooLong(u64),
}

/// In pieces of `size` bytes.
fn in_pieces(bytes: &[u8], size: usize, k: u8, most: u64) -> Outcome {
    let length = KmerLength::new(k).unwrap();
    let mut blocks = Gathered {
        size: size.clamp(128, 1000),
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
        kmers.extend(kmers_of::<u128>(&sequence, length, Strand::AsRead));
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
            for k in [1, 2, 3, 7, 32, 40] {
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
        k in 1..=MAX_LENGTH,
    ) {
        let text = text.as_bytes();
        prop_assert_eq!(in_pieces(text, size, k, NO_LIMIT), whole(text, k));
    }

    #[test]
    fn fastq_is_what_needletail_reads(
        records in prop::collection::vec(("@[a ]{0,3}", "[ACGTN]{0,90}", "[+@IH]", 0u8..40), 0..9),
        end in "\n{0,6}@?[ACGT]{0,9}(\n[+A]?)?",
        size in 1usize..200,
        k in 1..=MAX_LENGTH,
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
    let outcomes = [1, 2, 3, 7, 1000].map(|size| match in_pieces(text.as_bytes(), size, 2, most) {
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
