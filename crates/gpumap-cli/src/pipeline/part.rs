//! A part of a file of FASTQ that is not packed: the thread that parses it finds out itself which records are its own.
//!
//! A part has the records that begin in it. Where the first of them begins, only the part before can tell: a line of qualities may look
//! like the first line of a record. So a thread guesses, and looks from there for the end of the last record. By then the part before often
//! has told where it ends; after a wrong guess the thread looks once more, from that place. So all threads look through a file at
//! once, and what they find does not depend on what they guess.

use std::io;

use memchr::memchr;

use crate::fastq::{FourLines, Scan};
use crate::limit::LINE_END;

/// Bytes behind a part that are read with it: enough for most records that begin in it.
const BEHIND: usize = 1 << 10;

/// Bytes that are read at once if these are not enough, at most; and those of the longest record that a guess is followed through.
const MORE: usize = 1 << 18;

/// Where a part is.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Its first byte.
    pub at: u64,
    /// The byte behind its last.
    pub end: u64,
    /// Bytes of the file.
    pub file: u64,
}

/// The records of a part.
#[derive(Clone, Copy, Debug)]
pub struct Records {
    /// Where they begin and end in [`Look::bytes`].
    start: usize,
    end: usize,
    /// What follows them.
    pub behind: Behind,
}

/// What follows the records of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// The records of the next part begin at this byte of the file.
    Records(u64),
    /// The file ends, or is no FASTQ, which who parses the records finds too.
    Nothing,
    /// A record that is longer than allowed.
    TooLong,
}

/// A thread's look at a part. `R` fills bytes from a place of the file on.
pub struct Look<R> {
    part: Part,
    read: R,
    /// The place of the first of these bytes in the file.
    first: u64,
    bytes: Vec<u8>,
    /// What was found from a place that was guessed.
    guess: Option<Records>,
}

impl<R: FnMut(&mut [u8], u64) -> io::Result<()>> Look<R> {
    /// Reads a part into the memory of `bytes`.
    pub fn at(part: Part, bytes: Vec<u8>, read: R) -> io::Result<Self> {
        let mut look = Self {
            part,
            read,
            // A line begins behind a line end.
            first: part.at.saturating_sub(1),
            bytes,
            guess: None,
        };
        look.bytes.clear();
        look.read_on((part.end - look.first) as usize + BEHIND)?;
        Ok(look)
    }

    /// Guesses where the first record begins, and finds out how far the records go from there.
    pub fn guess(&mut self) -> io::Result<()> {
        /// More than a record has, most often.
        const LINES: usize = 8;
        let own = self.offset(self.part.end);
        let mut start = 0;
        for _ in 0..LINES {
            let Some(end) = memchr(b'\n', &self.bytes[start..own]) else {
                return Ok(());
            };
            start += end + 1;
            if FourLines::first_of(&self.bytes[start..]).is_some() {
                let found = self.records_from(start, MORE as u64)?;
                self.guess = Some(found).filter(|found| found.behind != Behind::TooLong);
                return Ok(());
            }
        }
        Ok(())
    }

    /// The records from `start` on, a byte of the file: as the part before has told. A record has `most` bytes at most.
    pub fn records(&mut self, start: u64, most: u64) -> io::Result<Records> {
        if start >= self.part.end {
            // A record that began before goes on behind this part.
            return Ok(Records {
                start: 0,
                end: 0,
                behind: Behind::Records(start),
            });
        }
        let start = self.offset(start);
        match self.guess {
            Some(found) if found.start == start => Ok(found),
            _ => self.records_from(start, most),
        }
    }

    fn records_from(&mut self, start: usize, most: u64) -> io::Result<Records> {
        let mut scan = Scan::default();
        let found = |end, behind| Records { start, end, behind };
        let goal = self.offset(self.part.end) - start;
        loop {
            let is_fastq = scan.go_on(&self.bytes[start..], goal).is_ok();
            let whole = start + scan.whole;
            if scan.whole >= goal {
                return Ok(found(whole, Behind::Records(self.first + whole as u64)));
            }
            if !is_fastq || self.first + self.bytes.len() as u64 == self.part.file {
                return Ok(found(self.bytes.len(), Behind::Nothing));
            }
            let seen = (self.bytes.len() - whole) as u64;
            if seen + scan.lines * (LINE_END - 1) > most {
                return Ok(found(whole, Behind::TooLong));
            }
            self.read_on((self.bytes.len() - goal - start).clamp(BEHIND, MORE))?;
        }
    }

    /// Reads so many bytes more, or all that there are.
    fn read_on(&mut self, more: usize) -> io::Result<()> {
        let had = self.bytes.len();
        let at = self.first + had as u64;
        let more = (self.part.file - at).min(more as u64) as usize;
        self.bytes.resize(had + more, 0);
        (self.read)(&mut self.bytes[had..], at)
    }

    /// Where a byte of the file is in [`bytes`](Self::bytes).
    fn offset(&self, at: u64) -> usize {
        (at - self.first) as usize
    }

    /// The bytes of records.
    pub fn bytes(&self, records: &Records) -> &[u8] {
        &self.bytes[records.start..records.end]
    }

    /// The memory, for another part.
    pub fn into_memory(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else all is right, but threads wait for each other.
    #[test]
    fn guesses_are_right_where_records_have_four_lines() {
        let record = |i: usize| {
            let letters = "ACGTN".repeat(20 + i % 3);
            let quality = ["@", "+", ">", "I"][i % 4].repeat(letters.len());
            format!("@{i:05}\n{letters}\n+\n{quality}\n")
        };
        let of_any_length: String = (0..300).map(record).collect();
        let of_one_length: String = (0..900).step_by(3).map(record).collect();
        let len = record(0).len();
        for (text, size) in [(&of_any_length, 1000), (&of_one_length, 5 * len)] {
            let (mut start, file) = (0, text.len() as u64);
            for at in (0..file).step_by(size) {
                let end = file.min(at + size as u64);
                let part = Part { at, end, file };
                let mut look = Look::at(part, Vec::new(), |bytes, at| {
                    bytes.copy_from_slice(&text.as_bytes()[at as usize..][..bytes.len()]);
                    Ok(())
                })
                .unwrap();
                look.guess().unwrap();
                let guess = look.guess.map(|guess| look.first + guess.start as u64);
                // Before the first part there is no line end.
                assert!(at == 0 || guess == Some(start), "{at} of {size}");
                let records = look.records(start, u64::MAX).unwrap();
                if let Behind::Records(next) = records.behind {
                    start = next;
                }
            }
            assert_eq!(start, file);
        }
    }
}
