//! Whole sequences by needletail, for the check of the run without arguments: another parser than the one that
//! counts ([`crate::parse`]).
//!
//! needletail is in upkeep by a company that lives on it, one of the fastest, FASTA and FASTQ behind one call. Of the
//! others, seq_io has had no release for years and rust-bio brings an algorithm library along.

use std::num::NonZero;

use needletail::errors::{ParseError, ParseErrorKind};
use needletail::parse_fastx_reader;
use needletail::parser::Format;

use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::source::Source;

/// How much was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SequenceTotals {
    /// FASTA or FASTQ records.
    pub records: u64,
    /// Bases in them, Ns included.
    pub bases: u64,
}

/// Default of the most bytes of a record: the longest chromosomes of man and wheat have a quarter and four
/// fifths of it.
pub const MOST_RECORD: u64 = 1 << 30;

/// Calls `visit` with every sequence of `source` in turn, without its line ends. Records of any length are kept in
/// memory.
pub fn for_each_sequence(
    source: &Source,
    mut visit: impl FnMut(&[u8]) -> Result<()>,
) -> Result<SequenceTotals> {
    let reader = source.open(&Progress::hidden().bytes(), NonZero::<usize>::MIN)?;
    let not_sequences = |cause| Error::Sequences {
        name: source.to_string(),
        cause,
    };
    let mut totals = SequenceTotals::default();
    let mut records = parse_fastx_reader(reader).map_err(not_sequences)?;
    while let Some(record) = records.next() {
        totals.records += 1;
        let record = match record {
            Ok(record) => record,
            // The parser refuses a record without a sequence only at the end of the file.
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
