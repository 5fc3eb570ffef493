//! Cutting an input into pieces that threads parse each by itself.
//!
//! FASTA is cut anywhere: a piece knows in what kind of line it begins, and the last `k - 1` bases of the record
//! before it. So a record of any length takes no more memory than a few pieces. FASTQ is cut where a record begins,
//! which is each fourth line: a line of qualities may look like the first line of a record. A record of FASTQ is a
//! part of one piece, which is as long as it must be.

use std::io::{self, Read};

use memchr::{memchr_iter, memrchr};

use crate::limit::LINE_END;

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
    /// The piece is of FASTA.
    Fasta {
        /// The line that it begins in.
        line: Line,
        /// The letters of the record at the end of what comes before, as many as begin a k-mer that ends in the piece.
        carried: Vec<u8>,
    },
    /// The piece is of FASTQ, and begins with a record.
    Fastq {
        /// Lines before it.
        lines: u64,
    },
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
    /// It begins with another letter than FASTA and FASTQ.
    UnknownFormat(u8),
    /// It has no two bytes.
    Empty,
    /// A record has more bytes than allowed.
    TooLong {
        /// Counted from 1.
        record: u64,
    },
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
        let start = match &mut self.start {
            Some(start) => start,
            none => none.insert(first_start(&bytes)?),
        };
        if bytes.is_empty() {
            return Ok(None);
        }
        let piece_start = start.clone();
        match start {
            Start::Fasta { line, carried } => {
                (*line, *carried) = behind(&bytes, *line, carried, self.carry);
            }
            Start::Fastq { .. } => self.cut_at_record(&mut bytes)?,
        }
        let index = self.index;
        self.index += 1;
        Ok(Some(Piece {
            index,
            bytes,
            start: piece_start,
        }))
    }

    /// Fills what is behind the first `had` bytes, or cuts off what the input has no bytes for.
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
        let Some(Start::Fastq { lines: before }) = self.start else {
            return Ok(());
        };
        let mut seen = 0;
        let mut lines = 0;
        loop {
            lines += memchr_iter(b'\n', &bytes[seen..]).count() as u64;
            seen = bytes.len();
            if self.ended {
                break;
            }
            if lines >= 4 {
                let mut end = seen;
                for _ in 0..=lines % 4 {
                    end = memrchr(b'\n', &bytes[..end]).unwrap_or(0);
                }
                self.rest.extend_from_slice(&bytes[end + 1..]);
                bytes.truncate(end + 1);
                lines -= lines % 4;
                break;
            }
            if seen as u64 + lines * (LINE_END - 1) > self.most {
                let record = before / 4 + 1;
                return Err(CutError::TooLong { record });
            }
            bytes.resize(seen + self.size, 0);
            self.read_on(bytes, seen)?;
        }
        let lines = before + lines;
        self.start = Some(Start::Fastq { lines });
        Ok(())
    }
}

fn first_start(bytes: &[u8]) -> Result<Start, CutError> {
    let [first, _, ..] = bytes else {
        return Err(CutError::Empty);
    };
    match first {
        b'>' => Ok(Start::Fasta {
            line: Line::Start,
            carried: Vec::new(),
        }),
        b'@' => Ok(Start::Fastq { lines: 0 }),
        &other => Err(CutError::UnknownFormat(other)),
    }
}

/// The line that FASTA is in after `bytes`, and the last letters of the record, up to `most`.
fn behind(bytes: &[u8], line: Line, carried: &[u8], most: usize) -> (Line, Vec<u8>) {
    // From the end back, as far as needed.
    let mut letters = Vec::with_capacity(most);
    let mut end = bytes.len();
    let mut last = None;
    let is_name = loop {
        let begin = memrchr(b'\n', &bytes[..end]).map_or(0, |at| at + 1);
        let kind = match (begin, line) {
            (0, Line::Name) => Line::Name,
            (0, Line::Sequence) => Line::Sequence,
            _ if bytes.get(begin) == Some(&b'>') => Line::Name,
            _ if begin == bytes.len() => Line::Start,
            _ => Line::Sequence,
        };
        last.get_or_insert(kind);
        if kind == Line::Name {
            break true;
        }
        let of_line = bytes[begin..end].iter().rev();
        let of_line = of_line.filter(|&&letter| letter != b'\r');
        letters.extend(of_line.take(most - letters.len()));
        if begin == 0 || letters.len() == most {
            break false;
        }
        end = begin - 1;
    };
    if !is_name {
        letters.extend(carried.iter().rev().take(most - letters.len()));
    }
    letters.reverse();
    (last.unwrap_or(line), letters)
}
