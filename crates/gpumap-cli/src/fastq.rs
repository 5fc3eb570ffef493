//! The grammar of FASTQ, which the thread that cuts an input and those that parse its pieces share.
//!
//! A record is a line that begins with `@`, the lines of the sequence, a line that begins with `+`, and as many
//! qualities as the sequence has letters, in one line or several: only their number tells where they end, as a line of
//! them may begin with any letter. Blank lines mean nothing. Line ends are LF or CR LF.

use memchr::memchr;

use crate::malformed::{Malformed, Problem};

/// A record of four lines that are all there, as nearly all are.
pub struct FourLines<'a> {
    /// The sequence, which is not empty.
    pub letters: &'a [u8],
    /// Bytes of the record, line ends too.
    pub len: usize,
}

impl<'a> FourLines<'a> {
    /// The one that `bytes` begin with. `None` for whatever [`Record`] has to find out.
    pub fn first_of(bytes: &'a [u8]) -> Option<Self> {
        if bytes.first() != Some(&b'@') {
            return None;
        }
        let line_end = |from: usize| memchr(b'\n', bytes.get(from..)?).map(|end| from + end);
        let name = line_end(0)?;
        let sequence = line_end(name + 1)?;
        let letters = trim_cr(&bytes[name + 1..sequence]);
        if begins_no_sequence(*letters.first()?) || bytes.get(sequence + 1) != Some(&b'+') {
            return None;
        }
        let separator = match bytes.get(sequence + 2) {
            Some(b'\n') => sequence + 2,
            _ => line_end(sequence + 2)?,
        };
        let qualities = line_end(separator + 1)?;
        let is_whole = trim_cr(&bytes[separator + 1..qualities]).len() == letters.len();
        let len = qualities + 1;
        is_whole.then_some(Self { letters, len })
    }
}

/// A record of any number of lines, line by line.
#[derive(Clone, Debug, Default)]
pub struct Record {
    part: Part,
    /// Letters of the sequence so far.
    letters: u64,
    qualities: u64,
    /// The line that it begins in.
    line: u64,
}

/// Where the next line is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    /// Between records.
    #[default]
    Between,
    Sequence,
    Qualities,
}

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind<'a> {
    /// One without letters.
    Blank,
    /// The first line of a record.
    Name,
    /// Letters of the sequence.
    Sequence(&'a [u8]),
    /// The line behind the sequence.
    Separator,
    /// Qualities.
    Qualities,
}

impl Record {
    /// Whether the next line begins a record, or is blank.
    pub fn is_between(&self) -> bool {
        self.part == Part::Between
    }

    /// Takes the next line, without its line end. It is this one, counted from 1.
    pub fn take<'a>(&mut self, text: &'a [u8], line: u64) -> Result<LineKind<'a>, Malformed> {
        let text = trim_cr(text);
        let Some(&first) = text.first() else {
            return Ok(LineKind::Blank);
        };
        let len = text.len() as u64;
        match self.part {
            Part::Between => {
                let problem = match first {
                    b'@' => {
                        let part = Part::Sequence;
                        *self = Self {
                            part,
                            line,
                            ..Self::default()
                        };
                        return Ok(LineKind::Name);
                    }
                    b'>' => Problem::FastaInFastq,
                    first => Problem::NoRecord { first },
                };
                Err(Malformed { line, problem })
            }
            Part::Sequence if first == b'+' => {
                self.part = Part::Qualities;
                self.end_if_whole();
                Ok(LineKind::Separator)
            }
            Part::Sequence if begins_no_sequence(first) => {
                let problem = Problem::NoSeparator { first };
                Err(Malformed { line, problem })
            }
            Part::Sequence => {
                self.letters += len;
                Ok(LineKind::Sequence(text))
            }
            Part::Qualities => {
                self.qualities += len;
                if self.qualities > self.letters {
                    let (letters, qualities) = (self.letters, self.qualities);
                    let problem = Problem::UnequalLengths { letters, qualities };
                    let line = self.line;
                    return Err(Malformed { line, problem });
                }
                self.end_if_whole();
                Ok(LineKind::Qualities)
            }
        }
    }

    fn end_if_whole(&mut self) {
        if self.qualities == self.letters {
            self.part = Part::Between;
        }
    }

    /// Expects that the input may end after the last line that was taken.
    pub fn end(&self) -> Result<(), Malformed> {
        let problem = match self.part {
            Part::Between => return Ok(()),
            Part::Sequence => Problem::CutOffInSequence,
            Part::Qualities => Problem::CutOffInQualities {
                letters: self.letters,
                qualities: self.qualities,
            },
        };
        let line = self.line;
        Err(Malformed { line, problem })
    }
}

/// Whether no line of a sequence begins with this letter, as names and separators do.
pub fn begins_no_sequence(first: u8) -> bool {
    matches!(first, b'@' | b'+' | b'>')
}

/// A line without the carriage return at its end.
fn trim_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// How far an input has been read whose records are looked for, while bytes are appended to it.
#[derive(Debug, Default)]
pub struct Scan {
    record: Record,
    /// Where the last whole record ends, and the blank lines after it.
    pub whole: usize,
    /// Lines after that.
    pub lines: u64,
    /// Where the next line begins.
    at: usize,
    /// How far its end has been looked for.
    searched: usize,
}

impl Scan {
    /// Goes on to the last line end of `bytes`, or to what is no FASTQ, but no further than to the first end of a record from `goal` on.
    pub fn go_on(&mut self, bytes: &[u8], goal: usize) -> Result<(), Malformed> {
        loop {
            if self.record.is_between() {
                while self.at < goal
                    && let Some(record) = FourLines::first_of(&bytes[self.at..])
                {
                    self.at += record.len;
                }
                (self.whole, self.lines) = (self.at, 0);
                if self.at >= goal {
                    return Ok(());
                }
                self.searched = self.searched.max(self.at);
            }
            let Some(end) = memchr(b'\n', &bytes[self.searched..]) else {
                self.searched = bytes.len();
                return Ok(());
            };
            let end = self.searched + end;
            // Which line it is matters only to errors, and these are told by the thread that parses.
            self.record.take(&bytes[self.at..end], 1)?;
            self.at = end + 1;
            self.searched = self.at;
            self.lines += 1;
        }
    }
}
