//! Reading FASTA and FASTQ, plain or gzipped, from a file, from standard input or from memory.
//!
//! The parser is needletail: in upkeep by a company that lives on it, one of the fastest, FASTA
//! and FASTQ behind one call, gzip (of several members too, as bgzip writes it) by content
//! rather than by name. Of the others, noodles needs a newer Rust than this workspace, seq_io has
//! had no release for years and rust-bio brings an algorithm library along.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use needletail::errors::{ParseError, ParseErrorKind};
use needletail::parse_fastx_reader;
use needletail::parser::Format;

use crate::error::{Error, Result};
use crate::limit::SequenceLimit;
use crate::progress::Progress;

/// Where sequences come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// `-` on the command line.
    Stdin,
    /// A file.
    File(PathBuf),
    /// Bytes in the program itself, with the name to show for them.
    Embedded(&'static str, &'static [u8]),
}

impl Source {
    /// The source that a command line argument names.
    pub fn from_argument(path: &Path) -> Self {
        if path.as_os_str() == "-" {
            Self::Stdin
        } else {
            Self::File(path.to_owned())
        }
    }

    /// Opens the source; the second field is its length in bytes, where it is known.
    fn open(&self) -> Result<(Box<dyn Read + Send>, Option<u64>)> {
        Ok(match self {
            Self::Stdin => (Box::new(io::stdin()), None),
            Self::File(path) => {
                let (file, length) = open_input(path)?;
                (Box::new(file), length)
            }
            Self::Embedded(_, bytes) => (Box::new(*bytes), Some(bytes.len() as u64)),
        })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdin => f.write_str("standard input"),
            Self::File(path) => path.display().fmt(f),
            Self::Embedded(name, _) => f.write_str(name),
        }
    }
}

/// Opens a file to read, with its length if it is a regular file (a pipe has none).
pub fn open_input(path: &Path) -> Result<(File, Option<u64>)> {
    let attempt = || {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Ok((file, metadata.is_file().then_some(metadata.len())))
    };
    attempt().map_err(|source| Error::Open {
        path: path.to_owned(),
        source,
    })
}

/// How much was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SequenceTotals {
    /// FASTA or FASTQ records.
    pub records: u64,
    /// Bases in them, Ns included.
    pub bases: u64,
}

/// Bytes of a record at most, unless told otherwise: the longest chromosomes of man and wheat have a quarter and four
/// fifths of it.
pub const MOST_RECORD: u64 = 1 << 30;

/// What gzip begins with.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Calls `visit` with every sequence of `source` in turn, without its line ends. No record may have more than
/// `most` bytes, where a line end counts as [`LINE_END`](crate::limit::LINE_END) of them.
pub fn for_each_sequence(
    source: &Source,
    most: u64,
    progress: &Progress,
    mut visit: impl FnMut(&[u8]) -> Result<()>,
) -> Result<SequenceTotals> {
    let (reader, length) = source.open()?;
    progress.start_bytes(length);
    let mut reader = BufReader::with_capacity(1 << 18, progress.reading(reader));

    // The parser calls everything that ends within two bytes an empty file, a read error too.
    let start = reader.fill_buf().map_err(|cause| Error::Read {
        name: source.to_string(),
        source: cause,
    })?;
    if start.is_empty() {
        return Err(Error::EmptyInput {
            name: source.to_string(),
        });
    }

    let mut reader: Box<dyn BufRead + Send> = match start.starts_with(&GZIP) {
        false => Box::new(reader),
        // The parser would do the same, but behind the limit.
        true => Box::new(BufReader::with_capacity(
            1 << 18,
            MultiGzDecoder::new(reader),
        )),
    };
    let limit = SequenceLimit::new(most);
    let not_sequences = |cause| match limit.exceeded() {
        Some(record) => Error::RecordTooLong {
            name: source.to_string(),
            record,
            most,
        },
        None => Error::Sequences {
            name: source.to_string(),
            source: cause,
        },
    };
    let unpacked = reader.fill_buf();
    let unpacked = unpacked.map_err(|error| not_sequences(error.into()))?;
    if unpacked.starts_with(&GZIP) {
        return Err(not_sequences(ParseError::new_unknown_format(GZIP[0])));
    }
    let first = unpacked.first().copied();

    let mut totals = SequenceTotals::default();
    let reader = limit.reading(reader, first);
    let mut records = parse_fastx_reader(reader).map_err(not_sequences)?;
    while let Some(record) = records.next() {
        totals.records += 1;
        let record = match record {
            Ok(record) => record,
            // Only at the end of the file does the parser mind a record that has no sequence.
            Err(error) if is_empty_last_record(&error) => break,
            Err(error) => return Err(not_sequences(error)),
        };
        let sequence = record.seq();
        totals.bases += sequence.len() as u64;
        visit(&sequence)?;
    }
    Ok(totals)
}

fn is_empty_last_record(error: &ParseError) -> bool {
    error.kind == ParseErrorKind::UnexpectedEnd && error.format == Some(Format::Fasta)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &'static [u8]) -> Result<(SequenceTotals, Vec<String>)> {
        let mut sequences = Vec::new();
        let source = Source::Embedded("test", bytes);
        let totals = for_each_sequence(&source, MOST_RECORD, &Progress::hidden(), |sequence| {
            sequences.push(String::from_utf8_lossy(sequence).into_owned());
            Ok(())
        })?;
        Ok((totals, sequences))
    }

    #[test]
    fn lines_of_a_record_are_joined() {
        let (totals, sequences) = read(b">a x\nACG\nTTN\n\n>b\r\nAC\r\nGT\r\n>c\n>d\nA").unwrap();
        assert_eq!(sequences, ["ACGTTN", "ACGT", "", "A"]);
        assert_eq!((totals.records, totals.bases), (4, 11));
    }

    #[test]
    fn a_record_may_be_without_sequence_wherever_it_is() {
        for bytes in [&b">a\n>b\nAC\n>c\n"[..], b">a\n>b\nAC\n>c"] {
            let (totals, sequences) = read(bytes).unwrap();
            assert_eq!((totals.records, totals.bases), (3, 2));
            assert_eq!(sequences, ["", "AC"]);
        }
    }

    #[test]
    fn fastq_qualities_are_no_bases() {
        let (totals, sequences) = read(b"@r1\nACGT\n+\n@@>>\n@r2\nGG\n+r2\nII\n").unwrap();
        assert_eq!(sequences, ["ACGT", "GG"]);
        assert_eq!((totals.records, totals.bases), (2, 6));
    }

    #[test]
    fn what_is_no_sequence_file_says_so() {
        assert!(matches!(read(b""), Err(Error::EmptyInput { .. })));
        for bytes in [
            &b"hello\n"[..],
            b"\n",
            b"\0\0\0\0",
            b"@r1\nACGT\n+\nIII\n",
            b"@r1\nACGT\n",
            b"\x1f\x8b\x08\0",
        ] {
            assert!(
                matches!(read(bytes), Err(Error::Sequences { .. })),
                "{bytes:?}"
            );
        }
    }

    #[test]
    fn a_missing_file_and_a_folder_cannot_be_opened() {
        for path in ["no/such/file.fa", "."] {
            let source = Source::from_argument(Path::new(path));
            let outcome = for_each_sequence(&source, MOST_RECORD, &Progress::hidden(), |_| Ok(()));
            assert!(matches!(outcome, Err(Error::Open { .. })), "{path}");
        }
    }
}
