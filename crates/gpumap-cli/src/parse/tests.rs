use super::*;
use crate::kmer::{BREAK, KmerLength, Kmers, MAX_LENGTH, Strand, kmers_of};
use crate::ledger::Ledger;
use crate::pieces::{CutError, Cutter};
use crate::pipeline::part::{Behind, Look, Part};
use gpumap::Device;
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
    Failed(Malformed),
    TooLong(u64),
}

/// What pieces of an input have, one after the other.
struct Reading {
    k: usize,
    most: u64,
    blocks: Gathered,
    ledger: Ledger,
}

impl Reading {
    fn new(size: usize, k: u8, most: u64) -> Self {
        let length = KmerLength::new(k).unwrap();
        let blocks = Gathered {
            size: size.clamp(128, 1000),
            length,
            kmers: Vec::new(),
        };
        Self {
            k: length.get(),
            most,
            blocks,
            ledger: Ledger::new(most),
        }
    }

    fn add(&mut self, bytes: &[u8], start: &Start) -> Result<(), Outcome> {
        match parse(bytes, start, self.k, self.most, &mut self.blocks) {
            Ok(parsed) => self.ledger.add(parsed).map_err(Outcome::TooLong),
            Err(Failure::Malformed(malformed)) => Err(self.failed(malformed)),
            Err(Failure::Blocks(())) => unreachable!(),
        }
    }

    fn failed(&self, malformed: Malformed) -> Outcome {
        Outcome::Failed(malformed.after(self.ledger.lines()))
    }

    fn too_long(&self) -> Outcome {
        Outcome::TooLong(self.ledger.totals().records + 1)
    }

    fn end(self) -> Outcome {
        let mut kmers = self.blocks.kmers;
        kmers.sort_unstable();
        let totals = self.ledger.totals();
        Outcome::Read {
            records: totals.records,
            bases: totals.bases,
            kmers,
        }
    }
}

/// In pieces of `size` bytes.
fn in_pieces(bytes: &[u8], size: usize, k: u8, most: u64) -> Outcome {
    let read = || {
        let mut reading = Reading::new(size, k, most);
        let mut cutter = Cutter::new(bytes, size, reading.k, most);
        let mut spare = Vec::new();
        loop {
            let piece = match cutter.next_piece(std::mem::take(&mut spare)) {
                Ok(Some(piece)) => piece,
                Ok(None) => return Ok(reading.end()),
                Err(CutError::TooLong) => return Err(reading.too_long()),
                Err(CutError::Malformed(malformed)) => return Err(reading.failed(malformed)),
                Err(CutError::Read(error)) => panic!("{error}"),
            };
            reading.add(&piece.bytes, &piece.start)?;
            spare = piece.bytes;
        }
    };
    read().unwrap_or_else(|outcome| outcome)
}

/// The same of FASTQ in parts of `size` bytes, with a guess where each begins or none.
fn in_parts(text: &[u8], size: usize, k: u8, most: u64, guesses: bool) -> Outcome {
    let read = || {
        let mut reading = Reading::new(size, k, most);
        let (mut start, mut memory) = (0, Vec::new());
        let file = text.len() as u64;
        for at in (0..file).step_by(size) {
            let end = file.min(at + size as u64);
            let part = Part { at, end, file };
            let look = Look::at(part, memory, |bytes, at| {
                bytes.copy_from_slice(&text[at as usize..][..bytes.len()]);
                Ok(())
            });
            let mut look = look.unwrap();
            if guesses {
                look.guess().unwrap();
            }
            let records = look.records(start, most).unwrap();
            reading.add(look.bytes(&records), &Start::Fastq)?;
            match records.behind {
                Behind::Records(next) => start = next,
                Behind::Nothing => break,
                Behind::TooLong => return Err(reading.too_long()),
            }
            memory = look.into_memory();
        }
        Ok(reading.end())
    };
    read().unwrap_or_else(|outcome| outcome)
}

/// The same by whichever way there is.
fn in_any(text: &[u8], size: usize, k: u8, most: u64) -> Outcome {
    let outcome = in_pieces(text, size, k, most);
    if text.first() == Some(&b'@') {
        for guesses in [true, false] {
            let of_parts = in_parts(text, size, k, most, guesses);
            assert_eq!(of_parts, outcome, "{:?}", String::from_utf8_lossy(text));
        }
    }
    outcome
}

/// The lines of a text, without their ends.
fn lines_of(text: &[u8]) -> Vec<&[u8]> {
    let lines = text.split(|&byte| byte == b'\n');
    lines
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .collect()
}

/// The sequences of FASTA without errors, by the definition.
pub fn naive_fasta(text: &[u8]) -> Vec<Vec<u8>> {
    let mut sequences: Vec<Vec<u8>> = Vec::new();
    for line in lines_of(text) {
        match line.first() {
            Some(b'>') => sequences.push(Vec::new()),
            Some(_) => {
                let letters = line.iter().filter(|&&letter| letter != b'\r');
                sequences.last_mut().unwrap().extend(letters);
            }
            None => {}
        }
    }
    sequences
}

/// The sequences of FASTQ by the definition, and the line of the first error, if there is one.
fn naive_fastq(text: &[u8]) -> Result<Vec<Vec<u8>>, usize> {
    let lines = lines_of(text);
    let numbered = lines.into_iter().enumerate();
    let mut lines = numbered.filter(|(_, line)| !line.is_empty()).peekable();
    let mut sequences = Vec::new();
    while let Some((begin, name)) = lines.next() {
        if name[0] != b'@' {
            return Err(begin + 1);
        }
        let mut letters = Vec::new();
        loop {
            match lines.next() {
                None => return Err(begin + 1),
                Some((_, line)) if line[0] == b'+' => break,
                Some((at, line)) if line[0] == b'@' || line[0] == b'>' => return Err(at + 1),
                Some((_, line)) => letters.extend_from_slice(line),
            }
        }
        let mut qualities = 0;
        while qualities < letters.len() {
            qualities += lines.next().ok_or(begin + 1)?.1.len();
        }
        if qualities > letters.len() {
            return Err(begin + 1);
        }
        sequences.push(letters);
    }
    Ok(sequences)
}

/// What sequences have in them.
fn outcome_of(sequences: &[Vec<u8>], k: u8) -> Outcome {
    let length = KmerLength::new(k).unwrap();
    let bases = sequences.iter().map(|sequence| sequence.len() as u64).sum();
    let kmers = sequences.iter();
    let kmers = kmers.flat_map(|sequence| kmers_of::<u128>(sequence, length, Strand::AsRead));
    let mut kmers: Vec<u128> = kmers.collect();
    kmers.sort_unstable();
    Outcome::Read {
        records: sequences.len() as u64,
        bases,
        kmers,
    }
}

/// Compares what is read in pieces of some size with what the naive reader reads.
fn is_as_naive(text: &[u8], size: usize, k: u8) -> Result<(), TestCaseError> {
    let found = in_any(text, size, k, NO_LIMIT);
    let first = text.iter().find(|byte| !b"\r\n".contains(byte));
    let right = match first {
        Some(b'@') => naive_fastq(text),
        _ => Ok(naive_fasta(text)),
    };
    match (right, found) {
        (Ok(sequences), found) => prop_assert_eq!(found, outcome_of(&sequences, k)),
        (Err(line), Outcome::Failed(malformed)) => prop_assert_eq!(malformed.line, line as u64),
        (Err(line), found) => prop_assert!(false, "line {} is wrong, and {:?}", line, found),
    }
    Ok(())
}

/// The sequences that needletail reads; `None` if it reads not all.
fn by_needletail(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut reader = parse_fastx_reader(bytes).ok()?;
    let mut sequences = Vec::new();
    while let Some(record) = reader.next() {
        sequences.push(record.ok()?.seq().into_owned());
    }
    Some(sequences)
}

const NO_LIMIT: u64 = 1 << 30;

#[test]
fn pieces_that_end_at_every_byte() {
    let fasta =
        b"\n\r\n>a x\nACGTNACGTTACG\r\nTT\rNACCA\n\n\n>b>c\r\nACGTAG\r\n>\n>c\n>d\nAGGATTAC";
    let four_lines = b"@a b\nACGTTACGATTNA\n+\n@@@@@@@+@@@@@\n@b\nGGCAT\n+b\n@IIII\r\n@c\r\n\r\n+\n\n@d\nAC\n+\nII";
    let more_lines =
        b"\n@a\nACGT\nTAC\n+\n@b\n+\n@c@\n@\n\n@>b\r\nGG\r\n\r\nCAT\r\n+\r\n@I\r\n+I\r\n>\r\n\n@c\n+\n@d\nN\n+d\n\n+\n@e\nac\n+\nI\nI";
    for text in [&fasta[..], four_lines, more_lines] {
        for len in 0..=text.len() {
            for k in [1, 2, 3, 7, 32, 40] {
                let text = &text[..len];
                for size in 1..=len + 1 {
                    is_as_naive(text, size, k).unwrap();
                }
            }
        }
    }
    assert_eq!(naive_fasta(fasta).len(), 5);
    assert_eq!(naive_fastq(four_lines).unwrap().len(), 4);
    assert_eq!(naive_fastq(more_lines).unwrap().len(), 5);
}

proptest! {
    #[test]
    fn fasta_is_what_the_naive_reader_and_needletail_read(
        blank in "(\r?\n){0,3}",
        text in ">[ab> \n]{0,9}\n([ACGTacgt]{0,40}[NRx>\r -]?\r?\n{0,3}(>[a-z>]{0,5}\r?\n)?){0,12}",
        size in 1usize..200,
        k in 1..=MAX_LENGTH,
    ) {
        if let Some(sequences) = by_needletail(text.as_bytes()) {
            let found = in_pieces(text.as_bytes(), size, k, NO_LIMIT);
            prop_assert_eq!(found, outcome_of(&sequences, k));
        }
        is_as_naive((blank + &text).as_bytes(), size, k)?;
    }

    #[test]
    fn fastq_of_four_lines_is_what_the_naive_reader_and_needletail_read(
        records in prop::collection::vec(("@[a ]{0,3}", "[ACGTN]{0,90}", "[+@IH>]", 0u8..40), 0..9),
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
        if let Some(sequences) = by_needletail(text) {
            let found = in_pieces(text, size, k, NO_LIMIT);
            prop_assert_eq!(found, outcome_of(&sequences, k));
        }
        is_as_naive(text, size, k)?;
    }

    /// Lines of any length, blank ones, either line end; rarely a record that is wrong.
    #[test]
    fn fastq_of_any_lines_is_what_the_naive_reader_reads(
        records in prop::collection::vec(
            ("[ACGTNacgtRY-]{0,60}", 1usize..40, 1usize..40, "[+@IH>]{7}", 0u8..60),
            0..9,
        ),
        blank in "(\r?\n){0,2}",
        has_cr: bool,
        has_end: bool,
        size in 1usize..200,
        k in 1..=MAX_LENGTH,
    ) {
        let end = if has_cr { "\r\n" } else { "\n" };
        let mut text = blank.clone();
        for (letters, of_letters, of_qualities, quality, break_it) in records {
            text += &format!("@r{end}");
            for line in letters.as_bytes().chunks(of_letters) {
                text += &format!("{}{end}", std::str::from_utf8(line).unwrap());
                text += if break_it == 0 { &blank } else { "" };
            }
            text += if break_it == 1 { "" } else { "+" };
            text += end;
            let mut qualities: String = quality.chars().cycle().take(letters.len()).collect();
            match break_it {
                2 => qualities.push('I'),
                3 => drop(qualities.pop()),
                _ => {}
            }
            for line in qualities.as_bytes().chunks(of_qualities) {
                text += &format!("{}{end}", std::str::from_utf8(line).unwrap());
            }
            text += &blank;
        }
        if !has_end {
            text.truncate(text.trim_end().len());
        }
        is_as_naive(text.as_bytes(), size, k)?;
    }
}

/// Each with the first line that is wrong, and something that the error says.
#[test]
fn what_is_no_fasta_or_fastq_is_said_with_its_line() {
    for (text, line, said) in [
        ("ACGT\n", 1, "not with `A`"),
        ("\n\nACGT\n", 3, "not with `A`"),
        (">a\nAC\n@r\nGT\n+\nII\n", 3, "begins with `@`"),
        (">a\nAC\n\n+\nII\n", 4, "begins with `+`"),
        (">a\nAC@r\nGT\n+\nII\n", 4, "begins with `+`"),
        ("@r\nGT\n+\nII\n>a\nAC\n", 5, "FASTA follows FASTQ"),
        ("@r\nG\nT\n+\nI\nI\n\n>a\nAC\n", 8, "FASTA follows FASTQ"),
        ("@r\nGT\n+\nII\nAC\n", 5, "not with `A`"),
        ("@r\nGT\n@s\nAC\n+\nII\n", 3, "begins with `@`"),
        ("@r\nGT\n>s\nAC\n", 3, "begins with `>`"),
        ("@r\nGT\n+\nIII\n", 1, "2 letters and 3 qualities"),
        (
            "\n@q\nA\n+\nI\n@r\nGT\n+\nI\n",
            6,
            "2 letters, and the input ends after 1 ",
        ),
        ("@r", 1, "ends before its line with `+`"),
        ("@r\nGT\nAC\n", 1, "ends before its line with `+`"),
    ] {
        for size in 1..text.len() + 2 {
            match in_any(text.as_bytes(), size, 2, NO_LIMIT) {
                Outcome::Failed(malformed) => {
                    assert_eq!(malformed.line, line, "{text:?}: {malformed}");
                    assert!(malformed.to_string().contains(said), "{malformed}");
                }
                outcome => panic!("{text:?}: {outcome:?}"),
            }
        }
    }
}

#[test]
fn blank_lines_are_no_records() {
    for text in ["", "\n", "\r\n\r\n", "\n\n\r", "\r"] {
        for size in 1..5 {
            let outcome = in_pieces(text.as_bytes(), size, 2, 0);
            assert_eq!(outcome, outcome_of(&[], 2), "{text:?}");
        }
    }
    // They count for no record, however many there are.
    let blank = "\n".repeat(100);
    assert_eq!(
        refused(&format!("{blank}@a\nA\n+\nI\n{blank}"), 2 + 1 + 1 + 1 + 32),
        None
    );
}

/// The record that is refused, if one is, whatever the pieces.
fn refused(text: &str, most: u64) -> Option<u64> {
    let outcomes = [1, 2, 3, 7, 1000].map(|size| match in_any(text.as_bytes(), size, 2, most) {
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
    let lines = "@a\nAC\nGT\n+\n@>\nII\n\n@b\nACGT\nACGT\n+\nIIII\nIIII\n";
    assert_eq!(refused(lines, 19 + 6 * 8), None);
    assert_eq!(refused(lines, 18 + 6 * 8), Some(2));
    assert_eq!(refused(lines, 10 + 6 * 8), Some(1));
}

#[test]
fn a_record_longer_than_blocks_has_all_its_kmers() {
    let letters: String = "ACGTTGCAAC".repeat(500);
    let text = format!("@r\n{letters}\n+\n{}\n", "I".repeat(letters.len()));
    assert_eq!(
        in_pieces(text.as_bytes(), 100, 21, NO_LIMIT),
        outcome_of(&[letters.into_bytes()], 21)
    );
    assert_eq!(crate::kmer::code_of(b'N'), BREAK);
}
