//! How much of an input is read for one record: a parser keeps all of a record, and the input may never
//! end it.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that a line end counts as in a sequence: the parser notes the place of each.
pub const LINE_END: u64 = 8;

/// The limit for rows of text. Only the parser knows where they end, since a quote may hold line ends, so it says
/// when it has read one.
pub struct RowLimit {
    most: u64,
    /// What may still be read for the row.
    left: Arc<AtomicU64>,
}

/// Instead of what is left: the row goes on beyond that.
const EXCEEDED: u64 = u64::MAX;

impl RowLimit {
    /// Rows of at most so many bytes.
    pub fn new(most: u64) -> Self {
        let left = Arc::new(AtomicU64::new(most));
        Self { most, left }
    }

    /// Bytes of a row at most.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// A reader that fails where a row goes on beyond the limit. What a parser has read ahead is not counted
    /// for the next row, so a row that is refused is longer than the limit.
    pub fn reading<R: Read>(&self, mut reader: R) -> impl Read + use<R> {
        let left = Arc::clone(&self.left);
        ReadWith(move |bytes: &mut [u8]| {
            let may = left.load(Ordering::Relaxed);
            if may == EXCEEDED {
                return Err(too_long());
            }
            if may == 0 {
                // The row may end here, with the input.
                if bytes.is_empty() || reader.read(&mut [0])? == 0 {
                    return Ok(0);
                }
                left.store(EXCEEDED, Ordering::Relaxed);
                return Err(too_long());
            }
            let most = usize::try_from(may).map_or(bytes.len(), |may| may.min(bytes.len()));
            let read = reader.read(&mut bytes[..most])?;
            left.store(may - read as u64, Ordering::Relaxed);
            Ok(read)
        })
    }

    /// The row has been read: the next one may be as long.
    pub fn next_row(&self) {
        self.left.store(self.most, Ordering::Relaxed);
    }

    /// Whether a row went on beyond the limit.
    pub fn is_exceeded(&self) -> bool {
        self.left.load(Ordering::Relaxed) == EXCEEDED
    }
}

/// The limit for sequences. Their records end where a line begins one, so the reader sees that
/// by itself; the parser reads ahead as far as the longest record was.
pub struct SequenceLimit {
    most: u64,
    /// The number of the record that is too long.
    exceeded: Arc<AtomicU64>,
}

impl SequenceLimit {
    /// Records of at most so many bytes, with [`LINE_END`] for each line end.
    pub fn new(most: u64) -> Self {
        let exceeded = Arc::default();
        Self { most, exceeded }
    }

    /// A reader that fails at a record beyond the limit; `first` is the first byte that it will read.
    pub fn reading<R: Read>(&self, mut reader: R, first: Option<u8>) -> impl Read + use<R> {
        let exceeded = Arc::clone(&self.exceeded);
        let mut record = Record {
            is_fasta: first == Some(b'>'),
            most: self.most,
            number: 0,
            lines: 4,
            bytes: 0,
            is_line_start: true,
        };
        ReadWith(move |bytes: &mut [u8]| {
            if exceeded.load(Ordering::Relaxed) == 0 {
                let read = reader.read(bytes)?;
                if record.takes(&bytes[..read]) {
                    return Ok(read);
                }
                exceeded.store(record.number, Ordering::Relaxed);
            }
            Err(too_long())
        })
    }

    /// The record that is too long, counted from 1.
    pub fn exceeded(&self) -> Option<u64> {
        let record = self.exceeded.load(Ordering::Relaxed);
        (record != 0).then_some(record)
    }
}

/// The record that is being read.
struct Record {
    /// A line that begins with `>` begins a record; otherwise each fourth line does.
    is_fasta: bool,
    most: u64,
    number: u64,
    lines: u64,
    bytes: u64,
    is_line_start: bool,
}

impl Record {
    /// Goes on with these bytes, and says whether the record is within its limit.
    fn takes(&mut self, mut bytes: &[u8]) -> bool {
        while let Some(&first) = bytes.first() {
            let is_begin = match self.is_fasta {
                true => first == b'>',
                false => self.lines == 4,
            };
            if self.is_line_start && is_begin {
                self.number += 1;
                (self.lines, self.bytes) = (0, 0);
            }
            let end = memchr::memchr(b'\n', bytes);
            self.is_line_start = end.is_some();
            let len = end.map_or(bytes.len(), |at| at + 1);
            self.bytes += len as u64;
            if end.is_some() {
                self.lines += 1;
                self.bytes += LINE_END - 1;
            }
            if self.bytes > self.most {
                return false;
            }
            bytes = &bytes[len..];
        }
        true
    }
}

fn too_long() -> io::Error {
    io::Error::other("a record is too long")
}

/// A reader made of a function.
struct ReadWith<F>(F);

impl<F: FnMut(&mut [u8]) -> io::Result<usize>> Read for ReadWith<F> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        (self.0)(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_may_be_as_long_as_the_limit() {
        for (len, fits) in [(0, true), (9, true), (10, true), (11, false), (99, false)] {
            let limit = RowLimit::new(10);
            for _ in 0..2 {
                let mut reader = limit.reading(io::repeat(b'a').take(len));
                let mut bytes = Vec::new();
                let outcome = reader.read_to_end(&mut bytes);
                assert_eq!((outcome.is_ok(), limit.is_exceeded()), (fits, !fits));
                if !fits {
                    assert_eq!(bytes.len(), 10);
                    // It stays so.
                    reader.read_to_end(&mut bytes).unwrap_err();
                    break;
                }
                assert_eq!(bytes.len() as u64, len);
                limit.next_row();
            }
        }
    }

    /// The record that is refused, if one is, whatever the reads are cut into.
    fn refused(text: &str, most: u64) -> Option<u64> {
        let outcomes = [1, 2, 3, 7, 1000].map(|piece| {
            let limit = SequenceLimit::new(most);
            let first = text.bytes().next();
            let mut reader = limit.reading(text.as_bytes(), first);
            let mut bytes = vec![0; piece];
            let ended = loop {
                match reader.read(&mut bytes) {
                    Ok(0) => break true,
                    Ok(_) => {}
                    Err(_) => break false,
                }
            };
            assert_eq!(ended, limit.exceeded().is_none());
            limit.exceeded()
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
        assert_eq!(refused("", 1), None);
        assert_eq!(refused("whatever", 3), Some(1));
    }
}
