//! [`Rows`]: rows of text, as CSV has them, and the lines that they begin in.
//!
//! Over the parser of the crate `csv`, whose own reader passes over blank lines, of which each is a missing field where there is
//! one column, and counts the lines before a row too low, by those and by half of each CRLF.

use std::io::{self, BufRead, BufReader, Read};

use csv_core::{ReadRecordResult, Reader};

use crate::error::{Error, Result};

/// Bytes that are read at once.
const BUFFER: usize = 1 << 18;

/// Rows that are read one after the other.
pub struct Rows<'a, R> {
    /// Of the input, in messages.
    name: &'a str,
    reader: BufReader<R>,
    /// Counts lines too.
    parser: Reader,
    /// Bytes of a row at most.
    most: u64,
    /// Whether the last line has ended with a carriage return, of which a line feed may be left.
    is_after_return: bool,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl<'a, R: Read> Rows<'a, R> {
    /// Rows with this byte between two fields, each of at most so many bytes.
    pub fn new(name: &'a str, reader: R, delimiter: u8, most: u64) -> Self {
        Self {
            name,
            reader: BufReader::with_capacity(BUFFER, reader),
            parser: csv_core::ReaderBuilder::new().delimiter(delimiter).build(),
            most,
            is_after_return: false,
            bytes: vec![0; 256],
            ends: vec![0; 16],
        }
    }

    /// The next row; a blank line is one without fields.
    pub fn next_row(&mut self) -> Result<Option<Row<'_>>> {
        if self.is_after_return && self.peek()? == Some(b'\n') {
            self.reader.consume(1);
        }
        self.is_after_return = false;
        let line = self.parser.line();
        let fields = match self.peek()? {
            None => return Ok(None),
            Some(end @ (b'\n' | b'\r')) => {
                self.reader.consume(1);
                self.parser.set_line(line + 1);
                self.is_after_return = end == b'\r';
                0
            }
            Some(_) => self.parse(line)?,
        };
        Ok(Some(Row {
            line,
            bytes: &self.bytes,
            ends: &self.ends[..fields],
        }))
    }

    /// Parses the row that begins in this line, and returns how many fields it has.
    fn parse(&mut self, line: u64) -> Result<usize> {
        let (mut len, mut fields, mut taken) = (0, 0, 0);
        loop {
            self.fill()?;
            let input = self.reader.buffer();
            let (bytes, ends) = (&mut self.bytes[len..], &mut self.ends[fields..]);
            let (result, read, written, ended) = self.parser.read_record(input, bytes, ends);
            let last = input[..read].last().copied();
            self.reader.consume(read);
            (len, fields, taken) = (len + written, fields + ended, taken + read as u64);
            // With one byte for the end of the line.
            if taken > self.most.saturating_add(1) {
                return Err(Error::RowTooLong {
                    name: self.name.to_owned(),
                    line,
                    most: self.most,
                });
            }
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => self.bytes.resize(2 * self.bytes.len(), 0),
                ReadRecordResult::OutputEndsFull => self.ends.resize(2 * self.ends.len(), 0),
                ReadRecordResult::Record | ReadRecordResult::End => {
                    // The parser counts line feeds alone.
                    if last == Some(b'\r') {
                        self.parser.set_line(self.parser.line() + 1);
                        self.is_after_return = true;
                    }
                    return Ok(fields);
                }
            }
        }
    }

    fn peek(&mut self) -> Result<Option<u8>> {
        self.fill()?;
        Ok(self.reader.buffer().first().copied())
    }

    /// Sees that there are bytes in the buffer, or that the input has ended.
    fn fill(&mut self) -> Result<()> {
        loop {
            match self.reader.fill_buf() {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    return Err(Error::Read {
                        name: self.name.to_owned(),
                        source,
                    });
                }
            }
        }
    }
}

/// A row of text.
#[derive(Debug)]
pub struct Row<'a> {
    /// The line that it begins in, counted from 1.
    pub line: u64,
    bytes: &'a [u8],
    ends: &'a [usize],
}

impl Row<'_> {
    /// How many fields it has: none, if its line is blank.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// A field without spaces around it; an empty one, if there is none.
    pub fn field(&self, place: usize) -> &[u8] {
        let start = match place {
            0 => 0,
            place => self.ends.get(place - 1).copied().unwrap_or(0),
        };
        let end = self.ends.get(place).copied().unwrap_or(start);
        self.bytes[start..end].trim_ascii()
    }

    /// Its fields.
    pub fn fields(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|place| self.field(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of a text with their lines, which is read so many bytes at a time.
    fn rows(text: &[u8], at_once: usize) -> Vec<(u64, Vec<String>)> {
        let mut rows = Rows::new("a.csv", text, b',', 1 << 20);
        rows.reader = BufReader::with_capacity(at_once, text);
        let mut all = Vec::new();
        while let Some(row) = rows.next_row().unwrap() {
            let text = |field| String::from_utf8_lossy(field).into_owned();
            all.push((row.line, row.fields().map(text).collect()));
        }
        all
    }

    #[test]
    fn rows_have_the_lines_that_they_begin_in() {
        let row = |line, fields: &[&str]| (line, fields.iter().map(ToString::to_string).collect());
        for ends in ["\n", "\r\n", "\r"] {
            let text = "a, b\n\n\"1\n\",2\n3\n,\n\n\n \"x\"\"y\" \n\n4,5";
            // What is in quotes is no end of a line.
            let text = text.replace('\n', ends).replace(&format!("1{ends}"), "1\n");
            for at_once in [1, 2, 3, 7, 100] {
                assert_eq!(
                    rows(text.as_bytes(), at_once),
                    [
                        row(1, &["a", "b"]),
                        row(2, &[]),
                        row(3, &["1", "2"]),
                        row(5, &["3"]),
                        row(6, &["", ""]),
                        row(7, &[]),
                        row(8, &[]),
                        row(9, &["\"x\"\"y\""]),
                        row(10, &[]),
                        row(11, &["4", "5"]),
                    ],
                    "{ends:?}, {at_once}"
                );
            }
        }
        assert_eq!(rows(b"", 9), []);
        assert_eq!(rows(b"\xef\xbb\xbf1\n", 9), [row(1, &["1"])]);
    }

    #[test]
    fn rows_may_be_as_long_as_the_limit() {
        for (len, fits) in [(1, true), (9, true), (10, true), (12, false), (99, false)] {
            for end in ["", "\n"] {
                let text = format!("1\n{}{end}", "2".repeat(len));
                let mut rows = Rows::new("a.csv", text.as_bytes(), b',', 10);
                assert_eq!(rows.next_row().unwrap().unwrap().line, 1);
                match rows.next_row() {
                    Ok(row) => assert!(fits && row.unwrap().field(0).len() == len),
                    Err(Error::RowTooLong { line, most, .. }) => {
                        assert!(!fits && (line, most) == (2, 10));
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
}
