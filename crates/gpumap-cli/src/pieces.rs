//! Cutting an input into pieces that threads parse each by itself.
//!
//! FASTA is cut anywhere: a piece knows in what kind of line it begins, and the last `k - 1` bases of the record
//! before it. So a record of any length takes no more memory than a few pieces. FASTQ is cut where a record begins,
//! for which all of them are read: a line of qualities may look like the first line of a record. A record of FASTQ is
//! a part of one piece, which is as long as it must be. Large files that are not packed are cut otherwise
//! ([`crate::pipeline::part`]).

use std::io::{self, Read};
use std::ops::Range;

use memchr::memrchr;

use crate::fastq::Scan;
use crate::limit::LINE_END;
use crate::malformed::{Malformed, Problem};

/// A part of an input.
#[derive(Debug)]
pub struct Piece {
    /// Which part it is, from 0 on.
    pub index: usize,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// What is known of what comes before it.
    pub start: Start,
}

/// What is known of an input before a piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// The piece has blank lines only, before the first record of the input.
    Blank,
    /// The piece is of FASTA.
    Fasta {
        /// The line that it begins in.
        line: Line,
        /// The letters of the record at the end of what comes before, as many as begin a k-mer that ends in the piece.
        carried: Vec<u8>,
    },
    /// The piece is of FASTQ, and begins with a record or blank lines.
    Fastq,
}

/// Where in a line of FASTA a piece begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// At its start.
    Start,
    /// In the name of a record.
    Name,
    /// In a sequence.
    Sequence,
}

/// Why there are no more pieces.
#[derive(Debug)]
pub enum CutError {
    /// It cannot be read.
    Read(io::Error),
    /// It begins as neither FASTA nor FASTQ. Lines are counted from the end of the last piece on.
    Malformed(Malformed),
    /// The record after the last piece has more bytes than allowed.
    TooLong,
}

/// Cuts an input.
pub struct Cutter<R> {
    reader: R,
    /// Bytes of a piece, as far as that is up to the cutter.
    size: usize,
    /// Bases that a piece carries over.
    carry: usize,
    most: u64,
    index: usize,
    start: Option<Start>,
    /// What was read beyond the last piece.
    rest: Vec<u8>,
    ended: bool,
}

impl<R: Read> Cutter<R> {
    /// Pieces of `size` bytes for k-mers of `k` bases, of records of `most` bytes at most.
    pub fn new(reader: R, size: usize, k: usize, most: u64) -> Self {
        Self {
            reader,
            size: size.max(2),
            carry: k - 1,
            most,
            index: 0,
            start: None,
            rest: Vec::new(),
            ended: false,
        }
    }

    /// The next piece, in the memory of `bytes`. `None` at the end of the input.
    pub fn next_piece(&mut self, mut bytes: Vec<u8>) -> Result<Option<Piece>, CutError> {
        let had = self.rest.len();
        // Most of it is there already where `bytes` was a piece before.
        bytes.resize(self.size.max(had), 0);
        bytes[..had].copy_from_slice(&self.rest);
        self.rest.clear();
        self.read_on(&mut bytes, had)?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let start = match &mut self.start {
            Some(start) => start,
            none => match bytes.iter().position(|byte| !b"\r\n".contains(byte)) {
                Some(0) => none.insert(first_start(bytes[0])?),
                blank => {
                    let blank = blank.unwrap_or(bytes.len());
                    self.rest.extend_from_slice(&bytes[blank..]);
                    bytes.truncate(blank);
                    return Ok(Some(self.piece(bytes, Start::Blank)));
                }
            },
        };
        let piece_start = start.clone();
        match start {
            Start::Fasta { line, carried } => {
                if let Some(found) = behind(&bytes, Some((*line, carried)), self.carry) {
                    (*line, *carried) = found;
                }
            }
            Start::Fastq => self.cut_at_record(&mut bytes)?,
            Start::Blank => {}
        }
        Ok(Some(self.piece(bytes, piece_start)))
    }

    /// What the input was read through, after its end, and whether there was no record in it.
    pub fn into_reader(self) -> (R, bool) {
        (self.reader, self.start.is_none())
    }

    fn piece(&mut self, bytes: Vec<u8>, start: Start) -> Piece {
        let index = self.index;
        self.index += 1;
        Piece {
            index,
            bytes,
            start,
        }
    }

    /// Fills what is after the first `had` bytes, or cuts off what the input has no bytes for.
    fn read_on(&mut self, bytes: &mut Vec<u8>, mut had: usize) -> Result<(), CutError> {
        while had < bytes.len() && !self.ended {
            match self.reader.read(&mut bytes[had..]) {
                Ok(0) => self.ended = true,
                Ok(read) => had += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(CutError::Read(error)),
            }
        }
        bytes.truncate(had);
        Ok(())
    }

    /// Leaves whole records in `bytes`, reading on if there is none.
    fn cut_at_record(&mut self, bytes: &mut Vec<u8>) -> Result<(), CutError> {
        let mut scan = Scan::default();
        loop {
            if scan.go_on(bytes, usize::MAX).is_err() {
                // Nothing after it matters. The thread that parses finds the same, and says where.
                self.ended = true;
            }
            if self.ended {
                return Ok(());
            }
            if scan.whole > 0 {
                self.rest.extend_from_slice(&bytes[scan.whole..]);
                bytes.truncate(scan.whole);
                return Ok(());
            }
            let seen = bytes.len();
            if seen as u64 + scan.lines * (LINE_END - 1) > self.most {
                return Err(CutError::TooLong);
            }
            bytes.resize(seen + self.size, 0);
            self.read_on(bytes, seen)?;
        }
    }
}

fn first_start(first: u8) -> Result<Start, CutError> {
    match first {
        b'>' => Ok(Start::Fasta {
            line: Line::Start,
            carried: Vec::new(),
        }),
        b'@' => Ok(Start::Fastq),
        first => Err(CutError::Malformed(Malformed {
            line: 1,
            problem: Problem::UnknownFormat { first },
        })),
    }
}

/// What FASTA is in after a part of a file, whose beginning is `before`: the line, and the last letters of the record,
/// up to `most`. Of the part only its end is read, as much as it takes. `read` fills bytes from a place of the file on.
pub fn behind_range(
    range: Range<u64>,
    before: (Line, &[u8]),
    most: usize,
    mut read: impl FnMut(&mut [u8], u64) -> io::Result<()>,
) -> io::Result<(Line, Vec<u8>)> {
    /// Enough for lines of usual length.
    const TAIL: usize = 1 << 10;
    let len = (range.end - range.start) as usize;
    let mut tail = len.min(TAIL);
    loop {
        let mut bytes = vec![0; tail];
        read(&mut bytes, range.end - tail as u64)?;
        let before = (tail == len).then_some(before);
        if let Some(found) = behind(&bytes, before, most) {
            return Ok(found);
        }
        tail = len.min(tail * 8);
    }
}

/// The line that FASTA is in after `bytes`, and the last letters of the record, up to `most`. `before` is the same for
/// what comes before them. `None` if it is not known and needed.
fn behind(bytes: &[u8], before: Option<(Line, &[u8])>, most: usize) -> Option<(Line, Vec<u8>)> {
    // From the end back, as far as needed.
    let mut letters = Vec::with_capacity(most);
    let mut end = bytes.len();
    let mut last = None;
    loop {
        let begin = memrchr(b'\n', &bytes[..end]).map_or(0, |at| at + 1);
        let line = match begin {
            0 => before?.0,
            _ => Line::Start,
        };
        let line = match line {
            Line::Start if begin == bytes.len() => Line::Start,
            Line::Start if bytes[begin] == b'>' => Line::Name,
            Line::Start => Line::Sequence,
            within => within,
        };
        let last = *last.get_or_insert(line);
        if line != Line::Name {
            let of_line = bytes[begin..end].iter().rev();
            let of_line = of_line.filter(|&&letter| letter != b'\r');
            letters.extend(of_line.take(most - letters.len()));
            if begin > 0 && letters.len() < most {
                end = begin - 1;
                continue;
            }
            if begin == 0 {
                let carried = before?.1.iter().rev();
                letters.extend(carried.take(most - letters.len()));
            }
        }
        letters.reverse();
        return Some((last, letters));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_range_tells_as_much_as_all_of_it() {
        let long = [&b"ACGT".repeat(700)[..], b"\n"].concat();
        let empty = b"\r\n".repeat(800);
        let name = [&b">"[..], &b"x".repeat(1500), b"\n"].concat();
        let short = b"AC\r\nGT\n\nA\n>b\nC\n";
        let parts = [
            &b">a\n"[..],
            &long,
            short,
            &empty,
            b"TT\n",
            &name,
            &empty,
            b"AG\n",
            &long,
            &name,
        ];
        let text = parts.concat();
        for most in [0, 1, 20, 31] {
            for start in (0..text.len()).step_by(997) {
                let before = behind(&text[..start], Some((Line::Start, &[])), most);
                let before = before.unwrap();
                for end in (start + 1..text.len()).step_by(311) {
                    let whole = behind(&text[..end], Some((Line::Start, &[])), most);
                    let mut read = 0;
                    let found = behind_range(
                        start as u64..end as u64,
                        (before.0, &before.1),
                        most,
                        |bytes, at| {
                            read += bytes.len();
                            bytes.copy_from_slice(&text[at as usize..][..bytes.len()]);
                            Ok(())
                        },
                    );
                    assert_eq!(found.unwrap(), whole.unwrap(), "{start}..{end}, {most}");
                    assert!(read <= 2 * (end - start) + 1024);
                }
            }
        }
    }
}
